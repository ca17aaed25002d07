"""Kernels: each is its formula, symmetric, positive semi-definite where it should be."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels

from akpca import KernelOperator, KernelPCA
from akpca.book import reference
from akpca.kernels import (
    BLOCK_ROWS,
    KERNELS,
    RBF,
    CallableKernel,
    Chi2,
    Cosine,
    Kernel,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Sigmoid,
    make_kernel,
    resolve_kernel,
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
    """K_ij = k(x_i, x_j), in one data set, between two, and on the diagonal."""
    expected = reference.kernel_matrix(X, formula)
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
    """A sparse matrix gives the kernel of the same dense one."""
    X = np.where(X > 0.5, X, 0)
    kernel = make_kernel(name, gamma=0.3, degree=2, coef0=1)
    S = sparse.csr_matrix(X)
    np.testing.assert_allclose(kernel(S), kernel(X), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel(S, X[:4]), kernel(X, X[:4]), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel.diag(S), kernel.diag(X), rtol=1e-12)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_equals_scikit_learn(name, X):
    """The same name means the same kernel in scikit-learn."""
    params = {"gamma": 0.3, "degree": 3, "coef0": 1}
    expected = pairwise_kernels(X, metric=name, filter_params=True, **params)
    np.testing.assert_allclose(make_kernel(name, **params)(X), expected, rtol=1e-11)


def test_rbf_of_large_float32_norms_does_not_cancel():
    """Far from the origin, float32 distances would cancel; the kernel switches to float64."""
    rng = np.random.default_rng(0)
    X = (1000 + rng.standard_normal((50, 4))).astype(np.float32)
    exact = RBF(gamma=0.5)(X.astype(np.float64))
    np.testing.assert_allclose(RBF(gamma=0.5)(X), exact, atol=1e-6)


def test_degree_2_kernel_is_the_inner_product_of_explicit_features(X):
    """(x.y)^2 = phi(x).phi(y) with phi(x) = x x^T: the kernel trick."""
    Phi = reference.degree2_features(X)
    np.testing.assert_allclose(Polynomial(degree=2, gamma=1, coef0=0)(X), Phi @ Phi.T, rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(["linear", "poly", "rbf", "cosine", "laplacian"]),
    seed=st.integers(0, 1000),
    n=st.integers(1, 20),
    d=st.integers(1, 6),
)
def test_positive_semi_definite(name, seed, n, d):
    """Every kernel but the sigmoid's gives a matrix without negative eigenvalues."""
    X = np.random.default_rng(seed).standard_normal((n, d))
    values = np.linalg.eigvalsh(make_kernel(name, degree=2)(X))
    assert values.min() >= -1e-10 * max(values.max(), 1)


def test_zero_row_has_cosine_zero():
    """The direction of a zero vector is not defined; its cosine is 0, not NaN."""
    K = Cosine()(np.array([[0.0, 0.0], [1.0, 2.0]]))
    np.testing.assert_allclose(K, [[0, 0], [0, 1]], atol=1e-15)


def test_kernels_compose(X):
    """Sums, products and multiples are those of the matrices, in blocks, on the diagonal too."""
    a, b = RBF(gamma=0.3), Polynomial(degree=2, gamma=1, coef0=0)
    pairs = [
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
    assert repr(0.5 * (a + b)).endswith(f"* ({a!r} + {b!r})")


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


def test_a_kernel_of_ones_own_takes_one_method(X):
    """`values` is enough: the matrix, its blocks and its diagonal follow."""

    class Overlap(Kernel):
        def values(self, X, Y):
            return np.minimum(X[:, None, :], Y[None, :, :]).sum(axis=2)

    X = np.abs(X)
    K = reference.kernel_matrix(X[:40], lambda x, y: np.minimum(x, y).sum())
    np.testing.assert_allclose(Overlap()(X[:40]), K)
    np.testing.assert_allclose(Overlap().diag(X), X.sum(axis=1))
    with pytest.raises(TypeError, match=r"Nothing must define values\(X, Y\)"):
        type("Nothing", (Kernel,), {})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("rbf", RBF(gamma=0.3)),
        ("poly", Polynomial(degree=2, gamma=0.3, coef0=4)),
        ("precomputed", Precomputed()),
        (Laplacian(gamma=9), Laplacian(gamma=9)),
        (np.dot, CallableKernel(np.dot, {"a": 1}, 2)),
    ],
)
def test_resolution(given, expected):
    """A name, an object or a function becomes a kernel object of its own."""
    options = {"kernel_params": {"a": 1}, "n_jobs": 2, "gamma": 0.3, "degree": 2, "coef0": 4}
    kernel = resolve_kernel(given, **options)
    assert kernel == expected
    assert kernel is not given


def test_callable_kernel_equals_its_function(X):
    """One pair at a time, dense or sparse, with parameters."""
    kernel = CallableKernel(lambda x, y, p: (x @ y) ** p, {"p": 3})
    expected = Polynomial(degree=3, gamma=1, coef0=0)
    np.testing.assert_allclose(kernel(X[:20]), expected(X[:20]))
    np.testing.assert_allclose(kernel(X[:20], X[:3]), expected(X[:20], X[:3]))
    np.testing.assert_allclose(kernel.diag(X[:20]), expected.diag(X[:20]))


@pytest.mark.parametrize("value", [-1, np.nan, np.inf])
def test_constant_must_be_a_kernel(value):
    """A negative multiple of a kernel is none."""
    with pytest.raises(ValueError, match="'value' parameter of Constant"):
        value * RBF()


def test_equal_parameters_make_equal_kernels():
    """Kernels are values: they compare and print by their parameters."""
    assert RBF(gamma=0.1) == RBF(gamma=0.1) != RBF(gamma=0.2)
    assert repr(Polynomial(degree=2)) == "Polynomial(degree=2, gamma=None, coef0=1)"
    assert Linear() == Linear() != Cosine()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_kernel("gauss"), r"kernel must be one of .*'rbf'.*got 'gauss'"),
        (lambda: Linear()([1.0, 2.0]), "Expected 2D array"),
        (lambda: Linear()([[1.0, np.nan]]), "X contains NaN"),
        (lambda: Linear()([[1.0, 2.0]], [[1.0]]), "same number of features, got 2 and 1"),
        (lambda: Chi2()([[-1.0, 2.0]]), "Negative values in data: kernel='chi2'"),
    ],
)
def test_bad_input_is_named(call, message):
    """Errors say what was wrong."""
    with pytest.raises(ValueError, match=message):
        call()


def test_chi2_refuses_sparse_data(X):
    """chi2 is for dense histograms, and says so."""
    with pytest.raises(TypeError, match="chi2"):
        Chi2()(sparse.csr_matrix(X))


# ------------------------------------------------------------------------- impossible parameters

IMPOSSIBLE = [
    (RBF, "gamma", -1),
    (RBF, "gamma", np.nan),
    (RBF, "gamma", np.inf),
    (RBF, "gamma", "scale"),
    (Laplacian, "gamma", -0.1),
    (Chi2, "gamma", -1),
    (Sigmoid, "gamma", -1),
    (Sigmoid, "coef0", np.nan),
    (Polynomial, "degree", -2),
    (Polynomial, "coef0", np.inf),
    (Polynomial, "gamma", -1),
]


@pytest.mark.parametrize(("cls", "name", "value"), IMPOSSIBLE)
def test_impossible_parameters_are_named(cls, name, value):
    """A kernel that cannot be is refused by name: when made, and if set later, when used alone, in
    a sum, by an operator or by an estimator."""
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


def test_possible_parameters_survive_clone_and_search():
    """Limits that are allowed, NumPy's numbers, and clones of sums are accepted."""
    kernel = RBF(np.float32(0)) * Polynomial(degree=np.int64(0), coef0=-1.5) + 0.5
    copy = clone(kernel)
    copy.set_params(left__left__gamma=np.float64(2))
    assert copy.left.left.gamma == 2
    assert copy(np.eye(3)).shape == (3, 3)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_arrays_that_must_not_be_written(name):
    """Read-only samples, such as pandas hands out, give the values of others and stay as they are,
    in any order of memory."""
    X = np.random.default_rng(0).random((40, 3))
    expected = make_kernel(name)(X), make_kernel(name)(X, X[:7])
    for array in (X, np.asfortranarray(X), X[::-1].copy()[::-1]):
        array.flags.writeable = False
        np.testing.assert_allclose(make_kernel(name)(array), expected[0], atol=1e-14)
        np.testing.assert_allclose(make_kernel(name)(array, array[:7]), expected[1], atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rbf_far_from_the_origin(dtype):
    """Samples a hundred million from the origin have the distances that they have."""
    X = (np.random.default_rng(0).integers(-9, 9, (30, 3)) * 8 + 1e8).astype(dtype)
    exact = np.exp(-0.001 * ((X[:, None].astype(float) - X) ** 2).sum(axis=2))
    np.testing.assert_allclose(RBF(0.001)(X), exact, atol=1e-6)
    np.testing.assert_allclose(RBF(0.001)(X, X[:7]), exact[:, :7], atol=1e-6)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", ["outlier", "clusters", "offset"])
def test_rbf_of_samples_that_no_origin_suits(case, dtype, make):
    """The values are those of differences, rounded once, also where one sample is far from all
    others, or where there are clusters far from each other; both ways to compute them agree."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    if case == "outlier":
        X[7, 2] = 1e9
    else:
        X[:, 1] += 1e7 * rng.integers(0, 4 if case == "clusters" else 1, 60) + 1e8
    X = X.astype(dtype)
    wide = X.astype(np.float64)
    exact = np.exp(-0.2 * ((wide[:, None] - wide) ** 2).sum(axis=2))
    assert np.sum((exact > 0.01) & (exact < 0.9)) > 100
    for K in (RBF(0.2)(make(X)), RBF(0.2)(make(X), make(X.copy()))):
        assert K.dtype == dtype
        np.testing.assert_allclose(K, exact, rtol=0, atol=4 * np.finfo(dtype).eps)


def test_rbf_of_samples_whose_distances_overflow():
    """Samples at opposite ends of what can be squared have nothing in common, each all with
    itself."""
    X = np.array([[1e154, 1.0], [-1e154, 1.0], [1e154, 1.0], [0.0, 1.0]])
    expected = np.equal.outer(X[:, 0], X[:, 0]).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for gamma in (1e-9, 1.0, 1e9):
            np.testing.assert_array_equal(RBF(gamma)(X), expected)
            np.testing.assert_array_equal(RBF(gamma)(X, X.copy()), expected)
