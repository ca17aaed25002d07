"""Kernels: each is its formula, symmetric, positive semi-definite where it should be."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels

from akpca import KernelOperator, KernelPCA
from akpca.book import reference
from akpca.kernels import (
    BLOCK_ROWS,
    KERNELS,
    RBF,
    Chi2,
    Cosine,
    Kernel,
    Laplacian,
    Linear,
    Polynomial,
    Sigmoid,
    center_in_place,
    make_kernel,
    median_gamma,
    with_gamma,
)

# each kernel with its formula for two vectors, written out
FORMULAS = [
    (Linear(), lambda x, y: x @ y),
    (Polynomial(degree=2, gamma=1, coef0=0), lambda x, y: (x @ y) ** 2),
    (Polynomial(degree=3, gamma=0.5, coef0=1), lambda x, y: (0.5 * x @ y + 1) ** 3),
    (RBF(gamma=0.3), lambda x, y: np.exp(-0.3 * np.sum((x - y) ** 2))),
    (RBF(), lambda x, y: np.exp(-np.sum((x - y) ** 2) / len(x))),
    (Sigmoid(gamma=0.2, coef0=-1), lambda x, y: np.tanh(0.2 * x @ y - 1)),
    (Cosine(), lambda x, y: x @ y / np.linalg.norm(x) / np.linalg.norm(y)),
    (Laplacian(gamma=0.3), lambda x, y: np.exp(-0.3 * np.sum(np.abs(x - y)))),
    (Chi2(gamma=0.7), lambda x, y: np.exp(-0.7 * np.sum((x - y) ** 2 / (x + y)))),
]
IDS = [repr(kernel) for kernel, _ in FORMULAS]


@pytest.fixture
def X():
    return np.random.default_rng(0).uniform(0.1, 1, (30, 5))


@pytest.mark.parametrize(("kernel", "formula"), FORMULAS, ids=IDS)
def test_matrix_is_its_formula_entry_by_entry(kernel, formula, X):
    """K_ij = k(x_i, x_j), in one data set, between two, on the diagonal, and in scikit-learn."""
    expected = reference.kernel_matrix(X, formula)
    params = {"gamma": 1.0} if isinstance(kernel, Chi2) else {}
    params |= {key: value for key, value in kernel.get_params().items() if value is not None}
    theirs = pairwise_kernels(X, metric=kernel.name, filter_params=True, **params)
    np.testing.assert_allclose(theirs, expected, rtol=1e-11)
    np.testing.assert_allclose(kernel(X), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel(X[:7], X[7:]), expected[:7, 7:], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel.diag(X), np.diag(expected), rtol=1e-12)


@pytest.mark.parametrize("kernel", [kernel for kernel, _ in FORMULAS], ids=IDS)
def test_matrix_over_several_blocks_is_symmetric_to_the_bit(kernel):
    """Blocks join without a seam, and K equals its transpose exactly."""
    X = np.random.default_rng(1).uniform(0.1, 1, (BLOCK_ROWS + 37, 3))
    K = kernel(X)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(K, kernel(X, X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_float32_stays_float32_and_agrees_with_float64(name, X):
    """float32 in, float32 out, to float32 accuracy; integers become float64."""
    kernel = make_kernel(name, gamma=0.3, degree=3, coef0=1)
    K = kernel(X.astype(np.float32))
    assert K.dtype == np.float32
    assert kernel.diag(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(K, kernel(X), rtol=2e-5)
    assert kernel(np.array([[1, 2], [3, 4]])).dtype == np.float64


@pytest.mark.parametrize("name", ["linear", "poly", "rbf", "sigmoid", "cosine", "laplacian"])
def test_sparse_equals_dense(name, X):
    """Of entries in two parts as well, which stay as they are."""
    X = np.where(X > 0.5, X, 0)
    X[3] = 0  # whose cosine is 0, not NaN
    kernel = make_kernel(name, gamma=0.3, degree=2, coef0=1)
    S = sparse.csr_matrix(X)
    parts = np.repeat(S.data / 2, 2), np.repeat(S.indices, 2), 2 * S.indptr
    halves = sparse.csr_matrix(parts)
    for same in (S, halves):
        np.testing.assert_allclose(kernel(same), kernel(X), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(halves.data, parts[0])
    np.testing.assert_allclose(kernel(S, X[:4]), kernel(X, X[:4]), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel.diag(S), kernel.diag(X), rtol=1e-12)


def test_kernels_compose(X):
    """Sums, products and multiples are those of the matrices, in blocks, on the diagonal too."""

    class Overlap(Kernel):  # one method is enough
        def values(self, X, Y):
            return np.minimum(X[:, None, :], Y[None, :, :]).sum(axis=2)

    a, b = RBF(gamma=0.3), Polynomial(degree=2, gamma=1, coef0=0)
    overlap = reference.kernel_matrix(X, lambda x, y: np.minimum(x, y).sum())
    pairs = [
        (a * Overlap(), a(X) * overlap),
        (a + b, a(X) + b(X)),
        (a * b, a(X) * b(X)),
        (0.5 * a, 0.5 * a(X)),
        (a * 2, 2 * a(X)),
        (a + 1, a(X) + 1),
        (3 + a * (b + a), 3 + a(X) * (b(X) + a(X))),
    ]
    for kernel, expected in pairs:
        np.testing.assert_allclose(kernel(X), expected, rtol=1e-12)
        np.testing.assert_allclose(kernel(X, X[:7]), expected[:, :7], rtol=1e-12)
        np.testing.assert_allclose(kernel.diag(X), np.diag(expected), rtol=1e-12)
        assert kernel(X.astype(np.float32)).dtype == np.float32


def test_parameters_of_kernels_can_be_read_and_set():
    """scikit-learn's protocol: deep names, clones that are equal but independent."""
    kernel = RBF(gamma=0.1) + 0.5 * Laplacian(gamma=0.2)
    assert kernel.get_params()["right__left__value"] == 0.5
    copy = clone(kernel).set_params(left__gamma=7.0)
    assert (kernel.left.gamma, copy.left.gamma) == (0.1, 7.0)
    other = with_gamma(kernel, 3.0)
    assert (other.left.gamma, other.right.right.gamma) == (3.0, 3.0)
    with pytest.raises(ValueError, match="Invalid parameter 'width'"):
        kernel.set_params(left__width=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_kernel("gauss"), r"kernel must be one of .*'rbf'.*got 'gauss'"),
        (lambda: Linear()([1.0, 2.0]), "Expected 2D array"),
        (lambda: Linear()([[1.0, np.nan]]), "X contains NaN"),
        (lambda: Linear()([[1.0, 2.0]], [[1.0]]), "same number of features, got 2 and 1"),
        (lambda: Chi2()([[-1.0, 2.0]]), "Negative values in data: kernel='chi2'"),
        (lambda: RBF()([[1e155, 1.0]]), "gives NaN or infinity on X: scale the data"),
        (lambda: Cosine()([[1e155, 1.0]]), "gives NaN or infinity on X: scale the data"),
    ],
)
def test_bad_input_is_named(call, message):
    """Errors say what was wrong."""
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("cls", "name", "value"),
    [
        (RBF, "gamma", -1),
        (RBF, "gamma", "scale"),
        (Sigmoid, "coef0", np.nan),
        (Polynomial, "degree", -2),
    ],
)
def test_impossible_parameters_are_named(cls, name, value):
    """Wherever it is used: alone, in a sum, by an operator or by an estimator."""
    message = f"'{name}' parameter of {cls.__name__}"
    with pytest.raises(ValueError, match=message):
        cls(**{name: value})
    X = np.random.default_rng(0).random((5, 2))
    kernel = cls().set_params(**{name: value})
    whole = Linear() + 2 * cls()
    whole.set_params(**{f"right__right__{name}": value})
    for bad in (kernel, whole):
        for use in (bad, lambda X, bad=bad: KernelOperator(X, bad), KernelPCA(1, kernel=bad).fit):
            with pytest.raises(ValueError, match=message):
                use(X)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_arrays_that_must_not_be_written(name):
    """Read-only samples, such as pandas hands out, give the values of others, in any order."""
    kernel, X = make_kernel(name), np.random.default_rng(0).random((40, 3))
    expected = kernel(X)
    for array in (X, np.asfortranarray(X), X[::-1].copy()[::-1]):
        array.flags.writeable = False
        np.testing.assert_allclose(kernel(array), expected, atol=1e-14)
        np.testing.assert_allclose(kernel(array, array[:7]), expected[:, :7], atol=1e-14)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "chi2"])
@pytest.mark.parametrize("offset", [0, 1e8])
def test_median_gamma_is_that_of_different_samples(name, offset):
    """1 / the median distance, also of samples that come twice and far from the origin."""
    X = np.random.default_rng(0).random((40, 3)) + offset
    distances = -np.log(make_kernel(name, gamma=1.0)(X))
    expected = 1 / np.median(distances[~np.eye(40, dtype=bool)])
    np.testing.assert_allclose(median_gamma(name, np.vstack([X, X])), expected, rtol=1e-3)
    assert median_gamma(name, X[[0, 0]]) == 1 / 3


@pytest.mark.parametrize(("offset", "dtype"), [(1e8, float), (1e8, "f4"), (300, "f4")])
def test_rbf_far_from_the_origin(offset, dtype):
    """Samples a hundred million from the origin have the distances that they have."""
    X = (np.random.default_rng(0).integers(-9, 9, (30, 3)) * 8 + offset).astype(dtype)
    exact = np.exp(-0.001 * ((X[:, None].astype(float) - X) ** 2).sum(axis=2))
    np.testing.assert_allclose(RBF(0.001)(X), exact, atol=1e-6)
    np.testing.assert_allclose(RBF(0.001)(X, X[:7]), exact[:, :7], atol=1e-6)


def test_centring_in_place_is_that_of_the_reference():
    """H K H, also over several blocks and in float32, without a systematic error of rounding."""
    K = RBF(0.5)(np.random.default_rng(0).standard_normal((150, 3)))
    expected = reference.center_kernel(K)
    single = K.astype(np.float32)
    center_in_place(single, single.mean(axis=1, dtype=np.float64))
    center_in_place(K, K.mean(axis=1))
    np.testing.assert_allclose(K, expected, atol=1e-14)
    assert np.abs(single.sum(axis=1, dtype=np.float64)).max() < 2e-6
