"""NystromKernelPCA: exact with all landmarks, and below the exact one, by as much as it says."""

import pickle

import numpy as np
import pytest
from helpers import assert_same_up_to_sign
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

from akpca import KernelPCA
from akpca.book import reference
from akpca.kernels import RBF, Polynomial, Sigmoid, make_kernel
from akpca.nystrom import NystromKernelPCA, cluster_centers
from akpca.operators import KernelOperator, MatrixOperator

DEFINITE_KERNELS = ["linear", "poly", "rbf", "cosine", "laplacian", "chi2"]
SAMPLINGS = ["uniform", "kmeans", "leverage"]


@pytest.fixture
def X():
    return np.random.default_rng(0).uniform(0, 1, (60, 7))


@pytest.fixture
def X_new():
    return np.random.default_rng(1).uniform(0, 1, (13, 7))


def approximated_kernel(kernel, X, Z, Y=None):
    """The Nyström approximation k(X, Z) k(Z, Z)^+ k(Z, Y), dense and literal."""
    Y = X if Y is None else Y
    return kernel(X, Z) @ np.linalg.pinv(kernel(Z), rcond=1e-10, hermitian=True) @ kernel(Z, Y)


@pytest.mark.parametrize("kernel", DEFINITE_KERNELS)
@pytest.mark.parametrize("center", [True, False])
def test_all_landmarks_equal_kernel_pca(kernel, center, X, X_new):
    """m = n: eigenvalues, variances, ratios, codes and new codes are kernel PCA's."""
    exact = KernelPCA(4, kernel=kernel, center=center).fit(X)
    model = NystromKernelPCA(4, n_landmarks=60, kernel=kernel, center=center, random_state=0).fit(X)
    for name in ("eigenvalues_", "explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(model, name), getattr(exact, name), rtol=1e-8)
    assert_same_up_to_sign(model.transform(X_new), exact.transform(X_new))
    assert_same_up_to_sign(model.transform(X), exact.transform(X))
    if len(model.landmarks_) == 60:  # the signs, too, where no landmark was superfluous
        np.testing.assert_allclose(model.transform(X), exact.transform(X), atol=1e-8)
    assert (len(model.landmarks_) == 60) == (kernel not in ("linear", "cosine"))


@pytest.mark.parametrize("kernel", DEFINITE_KERNELS)
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_equals_the_dense_approximated_matrix(kernel, center, sampling, X, X_new):
    """Kernel PCA of k(X, Z) k(Z, Z)^+ k(Z, X), centred by H: eigenvalues, codes and error."""
    model = NystromKernelPCA(
        4, n_landmarks=20, kernel=kernel, center=center, sampling=sampling, random_state=0
    ).fit(X)
    k = make_kernel(kernel)
    K = approximated_kernel(k, X, model.landmarks_)
    K_new = approximated_kernel(k, X_new, model.landmarks_, X)
    error = 1 - np.trace(K) / np.trace(k(X))
    np.testing.assert_allclose(model.error_, error, rtol=1e-8, atol=1e-12)
    if center:
        K, K_new = reference.center_kernel(K), reference.center_new_kernel(K_new, K)
    A = reference.kernel_pca(K, 4)
    np.testing.assert_allclose(model.eigenvalues_, np.linalg.eigvalsh(K)[::-1][:4], rtol=1e-8)
    assert_same_up_to_sign(model.transform(X), reference.encode(A, K))
    assert_same_up_to_sign(model.transform(X_new), reference.encode(A, K_new))


@pytest.mark.parametrize("form", [np.array, sparse.csr_matrix])
@pytest.mark.parametrize("center", [True, False])
def test_the_error_of_the_linear_kernel(center, form, X):
    """It is relative to the squares of the samples as they are, also far from the origin; the span
    of centred dense landmarks is the affine one through the mean."""
    for data in (X, X + 10):
        model = NystromKernelPCA(kernel="linear", n_landmarks=3, center=center, random_state=0)
        model.fit(form(data))
        shift = data.mean(axis=0) if center and form is np.array else 0
        Z = data[model.landmark_indices_] - shift
        rest = (data - shift) @ (np.eye(7) - np.linalg.pinv(Z) @ Z)
        np.testing.assert_allclose(model.error_, np.sum(rest**2) / np.sum(data**2), rtol=1e-8)
        stream = clone(model).partial_fit(form(data))
        np.testing.assert_allclose(stream.error_, model.error_)


@pytest.mark.parametrize("center", [True, False])
def test_a_fraction_of_the_variance(center, X):
    """As few components as explain at least so much; what landmarks do not span can't be had."""
    whole = NystromKernelPCA(kernel="rbf", n_landmarks=30, center=center, random_state=0).fit(X)
    sums = np.cumsum(whole.explained_variance_ratio_)
    for k, fraction in ((1, sums[0] / 2), (3, (sums[1] + sums[2]) / 2), (30, sums[-1] - 1e-9)):
        model = clone(whole).set_params(n_components=float(fraction)).fit(X)
        np.testing.assert_allclose(model.eigenvalues_, whole.eigenvalues_[:k])
    with pytest.raises(ValueError, match=r"n_components=0\.\d+, but the landmarks span only 0\."):
        clone(whole).set_params(n_landmarks=2, n_components=0.95).fit(X)


def test_seams_between_blocks_do_not_show():
    """More samples than a block holds, in fit and transform."""
    X = np.random.default_rng(0).standard_normal((1300, 3))
    model = NystromKernelPCA(3, n_landmarks=40, kernel="rbf", random_state=0).fit(X)
    K = reference.center_kernel(approximated_kernel(RBF(), X, model.landmarks_))
    np.testing.assert_allclose(model.eigenvalues_, np.linalg.eigvalsh(K)[::-1][:3], rtol=1e-8)
    codes = model.transform(X)
    np.testing.assert_allclose(codes[700:720], model.transform(X[700:720]), atol=1e-12)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_same_seed_same_bits(sampling):
    """A fixed random_state repeats bit for bit; a pickle holds two m x m and thin arrays."""
    X = load_digits().data
    options = {"n_landmarks": 350, "kernel": "rbf", "gamma": 1e-3, "sampling": sampling}
    one, two, other = (NystromKernelPCA(5, random_state=i, **options).fit(X) for i in (0, 0, 1))
    np.testing.assert_array_equal(one.transform(X), two.transform(X))
    np.testing.assert_array_equal(one.landmarks_, two.landmarks_)
    assert one.error_ != other.error_
    assert len(pickle.dumps(one)) < 1.5 * 8 * (2 * 350**2)


def test_informed_sampling_errs_less():
    """Leverage scores find a few loners in a crowd; clusters beat a uniform sample on digits."""
    rng = np.random.default_rng(0)
    crowd = np.r_[0.05 * rng.standard_normal((980, 3)), 4 * rng.standard_normal((20, 3))]
    digits = load_digits().data / 16

    def error(X, sampling, m):
        model = NystromKernelPCA(n_landmarks=m, gamma=0.5, sampling=sampling)
        return np.mean([model.set_params(random_state=seed).fit(X).error_ for seed in range(3)])

    assert error(crowd, "leverage", 40) < 0.5 * error(crowd, "uniform", 40)
    assert error(digits, "kmeans", 100) < 0.95 * error(digits, "uniform", 100)


def test_kmeans_is_the_literal_one():
    """Lloyd's steps from a uniform sample, a point at a time, also of sparse data."""
    X = np.random.default_rng(0).standard_normal((90, 3)) ** 2
    centers = X[np.random.RandomState(0).permutation(90)[:5]]
    for _ in range(3):
        nearest = np.array([np.argmin([np.sum((x - c) ** 2) for c in centers]) for x in X])
        centers = np.array([X[nearest == j].mean(axis=0) for j in range(5)])
    for data in (X, sparse.csr_matrix(X)):
        found = cluster_centers(data, 5, np.random.RandomState(0))
        np.testing.assert_allclose(found, centers, rtol=1e-12)
    model = NystromKernelPCA(1, n_landmarks=5, sampling="kmeans", random_state=0).fit(X)
    np.testing.assert_allclose(np.sort(model.landmarks_, axis=0), np.sort(centers, axis=0))
    assert model.landmark_indices_ is None


@pytest.mark.parametrize("form", [np.array, np.float32, sparse.csr_matrix, np.ndarray.tolist])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_own_landmarks(form, kernel, X, X_new):
    """Landmarks may be given in any form, for samples of all kinds, in fit and stream."""
    drawn = NystromKernelPCA(3, n_landmarks=20, kernel=kernel, random_state=0).fit(X)
    model = NystromKernelPCA(3, kernel=kernel).set_params(sampling=form(drawn.landmarks_))
    atol = 1e-5 if form is np.float32 else 1e-8
    found = [model.fit(X), clone(model).partial_fit(X[:5]).partial_fit(X[5:])]
    found += [clone(model).set_params(n_landmarks=len(drawn.landmarks_)).fit(sparse.csr_matrix(X))]
    for fitted in found if kernel == "rbf" else found[:1]:
        assert_same_up_to_sign(fitted.transform(X_new), drawn.transform(X_new), atol=atol)
        assert fitted.landmark_indices_ is None
        assert fitted.landmarks_.shape == drawn.landmarks_.shape


@pytest.mark.parametrize("drawn", [True, False])
def test_operator_in_place_of_samples(drawn, X):
    """Landmarks, if none are given, and sums over samples come from an operator."""
    options = {"n_landmarks": 20} if drawn else {"sampling": X[:9]}
    model = NystromKernelPCA(2, kernel=RBF(0.4), random_state=0, **options)
    found = clone(model).set_params(kernel="precomputed").fit(KernelOperator(X, RBF(0.4)))
    assert_same_up_to_sign(found.transform(X), model.fit(X).transform(X))
    with pytest.raises(ValueError, match="an operator that has samples"):
        model.set_params(kernel="precomputed").fit(MatrixOperator(RBF()(X)))


def test_own_landmarks_are_a_parameter_as_others(X):
    """They can be searched for, and may be more than samples."""
    search = GridSearchCV(
        NystromKernelPCA(2), {"sampling": ["uniform", X[:9]]}, scoring=lambda m, X: -m.error_
    )
    assert search.fit(X).best_index_ == 0
    assert NystromKernelPCA(2, sampling=X[:9]).fit(X[:5]).n_samples_seen_ == 5


@pytest.mark.parametrize("center", [True, False])
def test_a_stream_equals_one_fit(center, X):
    """Any batches give the dense formula of all samples with the first one's landmarks."""
    model = NystromKernelPCA(3, n_landmarks=15, kernel="rbf", center=center, random_state=0)
    for rows in (slice(0, 25), slice(25, 26), slice(26, 60)):
        model.partial_fit(X[rows])
    assert model.landmark_indices_.max() < 25
    assert model.n_samples_seen_ == 60
    K = approximated_kernel(RBF(), X, model.landmarks_)
    np.testing.assert_allclose(model.error_, 1 - np.trace(K) / 60, rtol=1e-8)
    K = reference.center_kernel(K) if center else K
    np.testing.assert_allclose(model.eigenvalues_, np.linalg.eigvalsh(K)[::-1][:3], rtol=1e-8)
    assert_same_up_to_sign(model.transform(X), reference.encode(reference.kernel_pca(K, 3), K))


def test_a_refused_batch_leaves_no_trace(X):
    """After an error the stream goes on as if the batch had not come."""
    options = {"n_landmarks": 10, "kernel": "poly", "degree": 40, "gamma": 0.1, "random_state": 0}
    model = NystromKernelPCA(2, **options).partial_fit(X)
    with pytest.raises(ValueError, match="NaN or infinity"), np.errstate(over="ignore"):
        model.partial_fit(np.r_[X, np.full((1, 7), 1e30)])
    with pytest.raises(ValueError, match="X has 3 features"):
        model.partial_fit(X[:, :3])
    assert model.n_samples_seen_ == 60
    once = NystromKernelPCA(2, **options).partial_fit(X).partial_fit(X)
    np.testing.assert_array_equal(model.partial_fit(X).transform(X), once.transform(X))


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "cosine", "laplacian"])
def test_sparse_equals_dense(kernel, sampling, X, X_new):
    """A sparse matrix gives what the same dense one gives."""
    X, X_new = np.where(X > 0.5, X, 0), np.where(X_new > 0.5, X_new, 0)
    options = {"n_landmarks": 20, "kernel": kernel, "sampling": sampling, "random_state": 0}
    dense = NystromKernelPCA(3, **options).fit(X)
    S = NystromKernelPCA(3, **options).fit(sparse.csr_matrix(X))
    codes = dense.transform(X_new)
    assert_same_up_to_sign(S.transform(sparse.csr_matrix(X_new)), codes, atol=1e-9)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_single_precision(sampling):
    """float32 in, float32 out, near the float64 result."""
    X = load_digits().data / 16
    model = NystromKernelPCA(5, n_landmarks=200, gamma=0.05, sampling=sampling, random_state=0)
    double, single = clone(model).fit(X), model.fit(X.astype(np.float32))
    codes = single.transform(X.astype(np.float32))
    assert codes.dtype == single.eigenvalues_.dtype == np.float32
    # k-means and leverage scores may decide otherwise where rounding tips a balance
    rtol, atol = (1e-5, 1e-4) if sampling == "uniform" else (1e-2, 0.1)
    np.testing.assert_allclose(single.eigenvalues_, double.eigenvalues_, rtol=rtol)
    assert_same_up_to_sign(codes, double.transform(X), atol=atol)


def test_single_precision_of_a_smooth_kernel():
    """Eigenvalues of the landmarks below all rounding do not blow up single precision."""
    X = np.random.default_rng(0).standard_normal((2000, 2))
    options = {"n_landmarks": 300, "kernel": "rbf", "gamma": 0.1, "random_state": 0}
    double = NystromKernelPCA(8, **options).fit(X)
    single = NystromKernelPCA(8, **options).fit(X.astype(np.float32))
    assert len(single.landmarks_) < len(double.landmarks_) < 300
    np.testing.assert_allclose(single.eigenvalues_, double.eigenvalues_, rtol=1e-3)
    assert single.error_ < 1e-4


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kernel": "precomputed"}, "takes an operator that has samples"),
        ({"n_landmarks": 0}, "'n_landmarks' parameter"),
        ({"n_components": 1.5}, "'n_components' parameter"),
        ({"sampling": "random"}, "'sampling' parameter"),
        ({"sampling": np.eye(3)}, "sampling has 3 features, but X has 7"),
        ({"sampling": np.eye(7), "n_landmarks": 5}, "n_landmarks=5, but sampling has 7: give None"),
        ({"sampling": np.eye(7), "n_components": 8}, "n_components=8, .* the 7 landmarks"),
        ({"sampling": np.full((2, 7), np.nan)}, "sampling must hold landmarks: .* contains NaN"),
        ({"sampling": np.eye(7)[0]}, "sampling must hold landmarks: Expected 2D"),
        ({"n_landmarks": 61}, "n_landmarks=61, but X has only 60 samples"),
        ({"n_landmarks": 5, "n_components": 6}, "n_components=6, but there can't be more"),
        (
            {"kernel": "linear", "n_components": 8},
            r"n_components=8, .* only 7 component\(s\) of non-zero eigenvalue",
        ),
        ({"kernel": "poly", "degree": 2.5, "coef0": -1}, "Polynomial.* gives NaN or infinity"),
    ],
)
def test_bad_parameters_are_named(params, message, X):
    """The error names the parameter and what is allowed."""
    with pytest.raises(ValueError, match=message), np.errstate(over="ignore"):
        NystromKernelPCA(**params).fit(X)


def test_indefinite_kernels_are_refused(X):
    """Negative eigenvalues on the landmarks are an error, also if only the samples prove it."""
    for kernel in (Sigmoid(1, -1), lambda x, y: -x @ y, lambda x, y: x[0] + y[0]):
        with pytest.raises(ValueError, match="significant negative eigenvalues"):
            NystromKernelPCA(2, kernel=kernel).fit(X)
    kernel = Sigmoid(1, -1)
    single = X[np.argmax(kernel.diag(X))][None]
    assert kernel(single) > 0
    with pytest.raises(ValueError, match="significant negative eigenvalues"):
        NystromKernelPCA(kernel=kernel, center=False).partial_fit(single).partial_fit(X)
    with pytest.raises(ValueError, match="significant negative eigenvalues"):
        NystromKernelPCA(kernel=kernel, n_landmarks=30, sampling="leverage").fit(X)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_duplicates_change_nothing_but_the_count(sampling, X):
    """Every point thrice: what adds nothing is dropped, eigenvalues triple, codes stay."""
    once = KernelPCA(3, kernel="rbf")
    codes = once.fit_transform(X)
    model = NystromKernelPCA(3, n_landmarks=180, kernel="rbf", sampling=sampling, random_state=0)
    model.fit(np.r_[X, X, X])
    if sampling != "kmeans":  # clusters may merge, so that not every point is a centre
        assert len(model.landmarks_) == 60
        np.testing.assert_allclose(model.eigenvalues_, 3 * once.eigenvalues_)
        assert_same_up_to_sign(model.transform(X), codes)
    assert model.error_ < 0.05
    assert len(model.landmarks_) <= 60


@pytest.mark.parametrize("kernel", DEFINITE_KERNELS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize(("n", "value"), [(1, 0.3), (40, 0.3), (5, 0.0)])
def test_constant_data_have_no_components(kernel, sampling, n, value):
    """All points equal, or zero: no components, error or NaN, and a refusal to find any."""
    X = np.full((n, 3), value)
    model = NystromKernelPCA(kernel=kernel, sampling=sampling, n_landmarks=max(1, n // 2))
    assert model.fit_transform(X).shape == (n, 0)
    assert model.error_ < 1e-12
    with pytest.raises(ValueError, match="only 0 component"):
        model.set_params(n_components=1).fit(X)


@pytest.mark.parametrize("name", ["ridge", "fixed_point", "distance", "eigenvector"])
@pytest.mark.parametrize("center", [True, False])
def test_all_landmarks_decode_as_exact_kernel_pca(name, center, X):
    """With m = n the code is that of kernel PCA, and so is the way back, by every decoder."""
    kernel = Polynomial(degree=2, gamma=1, coef0=0) if name == "eigenvector" else RBF(0.3)
    options = {"kernel": kernel, "center": center, "preimage": name, "random_state": 0}
    exact = KernelPCA(3, **options).fit(X)
    model = NystromKernelPCA(3, n_landmarks=len(X), **options).fit(X)
    signs = np.sign(np.sum(model.transform(X) * exact.transform(X), axis=0))
    Y = exact.transform(X[:9] + 0.1)
    expected = exact.inverse_transform(Y)
    np.testing.assert_allclose(model.inverse_transform(signs * Y), expected, atol=1e-5)


@pytest.mark.parametrize("sampling", ["uniform", "kmeans"])
def test_data_far_from_the_origin_keep_their_precision(sampling):
    """The linear kernel of float32 data + 1000 gives the codes of float64."""
    X = np.random.default_rng(0).standard_normal((600, 8)) * np.arange(1, 9) + 1000
    X = X.astype(np.float32)
    exact = KernelPCA(5, eigen_solver="dense").fit_transform(X.astype(np.float64))
    model = NystromKernelPCA(5, kernel="linear", sampling=sampling, n_landmarks=600, random_state=0)
    assert_same_up_to_sign(model.fit_transform(X), exact, atol=3e-4)
    assert_same_up_to_sign(model.transform(X), exact, atol=3e-4)
    if sampling == "uniform":
        np.testing.assert_array_equal(model.landmarks_, X[model.landmark_indices_])
    stream = clone(model).set_params(n_landmarks=100)
    for start in range(0, 600, 200):
        stream.partial_fit(X[start : start + 200])
    assert_same_up_to_sign(stream.transform(X), exact, atol=3e-4)
