"""NystromKernelPCA: exact with all landmarks, and below the exact one, by as much as it says."""

import numpy as np
import pytest
from helpers import assert_same_up_to_sign
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn import decomposition
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import Nystroem

from akpca import KernelPCA, pca
from akpca.book import reference
from akpca.kernels import RBF, Polynomial, Sigmoid, make_kernel
from akpca.nystrom import NystromKernelPCA
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


def report_eigenpairs(K_nm, K_mm, k):
    """Equations (13) and (14) of the report, with the factor that it should have had in (13).

    Returns eigenvectors (n, k), eigenvalues (k,) and the eigenvectors as (13) is printed.
    """
    n, m = K_nm.shape
    values, vectors = np.linalg.eigh(K_mm)
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    right = np.sqrt(m / n) / values * (K_nm @ vectors)
    printed = np.sqrt(m) / (n * values) * (K_nm @ vectors)
    return right, n / m * values, printed


# ------------------------------------------------------------- all points as landmarks: exact


@pytest.mark.parametrize("kernel", DEFINITE_KERNELS)
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("orthonormal", [True, False])
def test_all_landmarks_equal_kernel_pca(kernel, center, orthonormal, X, X_new):
    """m = n: eigenvalues, variances, ratios, codes and new codes are kernel PCA's."""
    exact = KernelPCA(4, kernel=kernel, center=center).fit(X)
    model = NystromKernelPCA(
        4, n_landmarks=60, kernel=kernel, center=center, orthonormal=orthonormal, random_state=0
    ).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(model.explained_variance_, exact.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=1e-8
    )
    assert_same_up_to_sign(model.transform(X_new), exact.transform(X_new))
    assert_same_up_to_sign(model.transform(X), exact.fit_transform(X))
    if len(model.landmarks_) == 60:  # the signs, too, where no landmark was superfluous
        np.testing.assert_allclose(model.transform(X), exact.fit_transform(X), atol=1e-8)
    assert (len(model.landmarks_) == 60) == (kernel not in ("linear", "cosine") or not orthonormal)


def test_as_many_components_as_kernel_pca_has(X):
    """m = n and n_components=None: all non-zero eigenvalues, none besides."""
    for kernel in ("linear", "rbf", "poly"):
        model, exact = NystromKernelPCA(kernel=kernel).fit(X), KernelPCA(kernel=kernel).fit(X)
        np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=1e-6)


@pytest.mark.parametrize("alpha", [1.0, 1e-3])
@pytest.mark.parametrize("inverse_gamma", [None, 2.0, "scale"])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_all_landmarks_have_the_inverse_of_kernel_pca(kernel, inverse_gamma, alpha, X, X_new):
    """m = n: the learned inverse is kernel PCA's, though its equations are others."""
    options = {
        "kernel": kernel,
        "fit_inverse_transform": True,
        "alpha": alpha,
        "inverse_gamma": inverse_gamma,
    }
    exact = KernelPCA(4, **options).fit(X)
    model = NystromKernelPCA(4, n_landmarks=60, **options).fit(X)
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(X_new)),
        exact.inverse_transform(exact.transform(X_new)),
        atol=1e-6,
    )


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("n_landmarks", [8, 30])
def test_linear_kernel_with_enough_landmarks_is_pca(center, n_landmarks, X, X_new):
    """Landmarks that span the input space lose nothing, and no more than d are kept."""
    options = {"kernel": "linear", "center": center, "random_state": 0}
    model = NystromKernelPCA(4, n_landmarks=n_landmarks, **options).fit(X)
    code = pca(X, 4, center=center)
    assert_same_up_to_sign(model.transform(X_new), code.encode(X_new))
    np.testing.assert_allclose(np.sqrt(model.eigenvalues_), code.singular_values)
    assert model.landmarks_.shape == (7, 7)
    assert model.error_ < 1e-12


# -------------------------------------------------------------------- fewer landmarks: below


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


@pytest.mark.parametrize("center", [True, False])
def test_eigenvectors_and_components_are_orthonormal(center, X):
    """Codes over square roots of eigenvalues are orthonormal over the samples, and the
    components are orthonormal in feature space."""
    model = NystromKernelPCA(5, n_landmarks=15, kernel="rbf", center=center, random_state=0)
    U = model.fit_transform(X) / np.sqrt(model.eigenvalues_)
    np.testing.assert_allclose(U.T @ U, np.eye(5), atol=1e-10)
    if center:
        np.testing.assert_allclose(U.sum(axis=0), 0, atol=1e-10)
    W = model._code.weights
    gram = W.T @ RBF()(model.landmarks_) @ W
    np.testing.assert_allclose(gram, np.eye(5), atol=1e-10)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1000),
    m=st.integers(3, 30),
    kernel=st.sampled_from(["linear", "poly", "rbf", "laplacian"]),
    sampling=st.sampled_from(SAMPLINGS),
    center=st.booleans(),
)
def test_never_above_the_exact_one(seed, m, kernel, sampling, center):
    """Eigenvalues and explained ratios are at most those of exact kernel PCA; the error is
    between 0 and 1."""
    X = np.random.default_rng(seed).standard_normal((30, 5))
    model = NystromKernelPCA(
        n_landmarks=m, kernel=kernel, sampling=sampling, center=center, random_state=seed
    ).fit(X)
    k = len(model.eigenvalues_)
    exact = KernelPCA(k, kernel=kernel, center=center, eigen_solver="dense").fit(X)
    slack = 1e-9 * exact.eigenvalues_[0]
    assert (model.eigenvalues_ <= exact.eigenvalues_ + slack).all()
    assert (model.explained_variance_ratio_ <= exact.explained_variance_ratio_ + 1e-9).all()
    assert 0 <= model.error_ < 1


def test_error_falls_with_more_landmarks_to_zero(X):
    """Landmarks that contain the earlier ones can only lower the error; all of them leave none."""
    errors = [
        NystromKernelPCA(n_landmarks=m, kernel="rbf", random_state=0).fit(X).error_
        for m in (1, 5, 20, 40, 60)
    ]
    assert (np.diff(errors) < 0).all()
    assert errors[0] > 0.01
    assert errors[-1] < 1e-12


def test_same_landmarks_as_scikit_learn(X, X_new):
    """scikit-learn's Nystroem followed by PCA, with the same seed, gives the same codes."""
    features = Nystroem(gamma=0.4, n_components=20, random_state=3)
    theirs = decomposition.PCA(4).fit(features.fit_transform(X))
    model = NystromKernelPCA(4, n_landmarks=20, kernel="rbf", gamma=0.4, random_state=3).fit(X)
    assert_same_up_to_sign(model.transform(X_new), theirs.transform(features.transform(X_new)))
    np.testing.assert_allclose(model.explained_variance_, theirs.explained_variance_)


def test_seams_between_blocks_do_not_show():
    """More samples than a block holds, in fit, transform and inverse."""
    X = np.random.default_rng(0).standard_normal((1300, 3))
    model = NystromKernelPCA(
        3, n_landmarks=40, kernel="rbf", fit_inverse_transform=True, random_state=0
    ).fit(X)
    K = reference.center_kernel(approximated_kernel(RBF(), X, model.landmarks_))
    np.testing.assert_allclose(model.eigenvalues_, np.linalg.eigvalsh(K)[::-1][:3], rtol=1e-8)
    codes = model.transform(X)
    np.testing.assert_allclose(codes[700:720], model.transform(X[700:720]), atol=1e-12)
    np.testing.assert_allclose(
        model.inverse_transform(codes)[700:720], model.inverse_transform(codes[700:720]), atol=1e-12
    )


# ------------------------------------------------------------------------ the report's version


def test_equations_13_and_14(X):
    """orthonormal=False is (13) and (14), with the factor sqrt(m / n) / lambda in (13)."""
    model = NystromKernelPCA(
        4, n_landmarks=20, kernel="rbf", center=False, orthonormal=False, random_state=0
    ).fit(X)
    Z = model.landmarks_
    vectors, values, printed = report_eigenpairs(RBF()(X, Z), RBF()(Z), 4)
    np.testing.assert_allclose(model.eigenvalues_, values)
    ours = model.transform(X) / np.sqrt(model.eigenvalues_)
    assert_same_up_to_sign(ours, vectors)
    # not orthonormal, which is what the other version is for
    assert np.abs(ours.T @ ours - np.eye(4)).max() > 1e-3
    np.testing.assert_allclose(printed * np.sqrt(60), vectors)


def test_the_printed_factor_of_13_is_wrong(X):
    """With m = n, (13) must give the unit eigenvectors of K back; as printed, it does not."""
    K = RBF()(X)
    exact = np.linalg.eigh(K)[1][:, ::-1][:, :4]
    right, _, printed = report_eigenpairs(K, K, 4)
    assert_same_up_to_sign(right, exact)
    np.testing.assert_allclose(np.linalg.norm(printed, axis=0), 1 / np.sqrt(60))


def test_report_version_is_kernel_pca_of_the_landmarks(X, X_new):
    """Centred, too: by the landmarks' mean, eigenvalues scaled by n / m."""
    model = NystromKernelPCA(
        4, n_landmarks=20, kernel="rbf", orthonormal=False, random_state=0
    ).fit(X)
    small = KernelPCA(4, kernel="rbf").fit(model.landmarks_)
    assert_same_up_to_sign(model.transform(X_new), small.transform(X_new))
    np.testing.assert_allclose(model.eigenvalues_, 3 * small.eigenvalues_)
    np.testing.assert_allclose(model.explained_variance_ratio_, small.explained_variance_ratio_)
    assert not hasattr(model, "error_")


def test_orthonormal_version_captures_more():
    """Within the same span, no components capture more of the data than the orthonormal ones."""
    X = load_digits().data / 16
    captured = {}
    for orthonormal in (True, False):
        model = NystromKernelPCA(
            8, n_landmarks=50, kernel="rbf", center=False, orthonormal=orthonormal, random_state=0
        )
        captured[orthonormal] = np.sum(model.fit_transform(X) ** 2)
    assert captured[True] > captured[False] * (1 + 1e-4)


# ----------------------------------------------------------------------- landmarks and streams


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_same_seed_same_bits(sampling):
    """A fixed random_state repeats bit for bit; another one chooses other landmarks."""
    X = load_digits().data
    options = {"n_landmarks": 350, "kernel": "rbf", "gamma": 1e-3, "sampling": sampling}
    one, two, other = (
        NystromKernelPCA(5, random_state=seed, **options).fit(X) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.transform(X), two.transform(X))
    np.testing.assert_array_equal(one.landmarks_, two.landmarks_)
    assert one.error_ != other.error_


@pytest.mark.parametrize("sampling", ["uniform", "leverage"])
def test_landmarks_are_distinct_rows_of_X(sampling, X):
    """Indices name the rows, without repetition, and all of them are kept if independent."""
    model = NystromKernelPCA(
        2, n_landmarks=20, kernel="rbf", sampling=sampling, random_state=0
    ).fit(X)
    np.testing.assert_array_equal(X[model.landmark_indices_], model.landmarks_)
    assert len(set(model.landmark_indices_)) == 20


def test_informed_sampling_errs_less():
    """On a crowd with a few loners, leverage scores find the loners; clusters beat a uniform
    sample on digits."""
    rng = np.random.default_rng(0)
    crowd = np.r_[0.05 * rng.standard_normal((980, 3)), 4 * rng.standard_normal((20, 3))]
    digits = load_digits().data / 16

    def error(X, sampling, m):
        fits = (
            NystromKernelPCA(
                n_landmarks=m, kernel="rbf", gamma=0.5, sampling=sampling, random_state=seed
            )
            for seed in range(3)
        )
        return np.mean([model.fit(X).error_ for model in fits])

    assert error(crowd, "leverage", 40) < 0.5 * error(crowd, "uniform", 40)
    assert error(digits, "kmeans", 100) < 0.95 * error(digits, "uniform", 100)


def test_kmeans_centres_are_the_means_of_their_points():
    """Well separated clusters: the landmarks are their means, and no rows of X."""
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    X = 10 * np.eye(3)[labels] + 0.1 * rng.standard_normal((90, 3))
    # start where each cluster has its point: the mean of each is then a matter of one step
    for seed in range(50):
        if len(set(labels[np.random.RandomState(seed).permutation(90)[:3]])) == 3:
            break
    model = NystromKernelPCA(1, n_landmarks=3, sampling="kmeans", random_state=seed).fit(X)
    means = np.array([X[labels == j].mean(axis=0) for j in range(3)])
    order = np.argmax(model.landmarks_, axis=1)
    np.testing.assert_allclose(model.landmarks_, means[order])
    assert model.landmark_indices_ is None


@pytest.mark.parametrize("center", [True, False])
def test_a_stream_equals_one_fit(center, X):
    """Batches of any size give what the dense formula gives of all of them with the landmarks
    of the first."""
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


def test_one_batch_equals_fit_and_fit_resets(X):
    """partial_fit from nothing is fit; fit forgets what came before; clone has no state."""
    options = {"n_landmarks": 15, "kernel": "rbf", "random_state": 0}
    fitted = NystromKernelPCA(3, **options).fit(X)
    streamed = NystromKernelPCA(3, **options).partial_fit(X)
    np.testing.assert_array_equal(streamed.transform(X), fitted.transform(X))
    np.testing.assert_array_equal(streamed.fit(X).transform(X), fitted.transform(X))
    assert not hasattr(clone(streamed), "n_samples_seen_")


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


def test_a_refused_first_batch_leaves_no_trace(X):
    """Landmarks that do not suffice for the components are chosen anew from the next batch."""
    model = NystromKernelPCA(2, kernel="rbf")
    with pytest.raises(ValueError, match=r"n_samples = 2\) have only 1 component"):
        model.partial_fit(X[:2])
    assert model.partial_fit(X).n_samples_seen_ == len(model.landmarks_) == 60


def test_a_stream_may_change_its_precision(X):
    """Single precision batches after a double one are as good as their own rounding."""
    X = X[:, :2]  # few dimensions: some landmarks add next to nothing
    stream = NystromKernelPCA(3, kernel="rbf", gamma=0.1, random_state=0)
    double = clone(stream).partial_fit(X).partial_fit(X[:30])
    stream.partial_fit(X).partial_fit(X[:30].astype(np.float32))
    np.testing.assert_allclose(stream.eigenvalues_, double.eigenvalues_, rtol=1e-4)


@pytest.mark.parametrize("option", [{"orthonormal": False}, {"fit_inverse_transform": True}])
def test_no_streams_where_they_would_not_be_exact(option, X):
    """partial_fit is not there, and says why."""
    model = NystromKernelPCA(2, **option)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit") as raised:
        model.partial_fit(X)
    assert next(iter(option)) in str(raised.value.__cause__)


# ------------------------------------------------------------------- kinds of data and kernels


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "cosine", "laplacian"])
def test_sparse_equals_dense(kernel, sampling, X, X_new):
    """A sparse matrix gives what the same dense one gives, also by the inverse."""
    X, X_new = np.where(X > 0.5, X, 0), np.where(X_new > 0.5, X_new, 0)
    options = {
        "n_landmarks": 20,
        "kernel": kernel,
        "sampling": sampling,
        "fit_inverse_transform": True,
        "random_state": 0,
    }
    dense = NystromKernelPCA(3, **options).fit(X)
    S = NystromKernelPCA(3, **options).fit(sparse.csr_matrix(X))
    codes = dense.transform(X_new)
    assert_same_up_to_sign(S.transform(sparse.csr_matrix(X_new)), codes, atol=1e-9)
    np.testing.assert_allclose(S.inverse_transform(codes), dense.inverse_transform(codes))


@pytest.mark.parametrize(
    ("sampling", "orthonormal"), [*((name, True) for name in SAMPLINGS), ("uniform", False)]
)
def test_single_precision(sampling, orthonormal):
    """float32 in, float32 out, near the float64 result."""
    X = load_digits().data / 16
    options = {
        "n_landmarks": 200,
        "kernel": "rbf",
        "gamma": 0.05,
        "sampling": sampling,
        "orthonormal": orthonormal,
        "fit_inverse_transform": True,
        "random_state": 0,
    }
    double = NystromKernelPCA(5, **options).fit(X)
    single = NystromKernelPCA(5, **options).fit(X.astype(np.float32))
    codes = single.transform(X.astype(np.float32))
    assert codes.dtype == single.eigenvalues_.dtype == single.dual_coef_.dtype == np.float32
    assert single.inverse_transform(codes).dtype == np.float32
    # k-means and leverage scores may decide otherwise where rounding tips a balance
    rtol, atol = (1e-5, 1e-4) if sampling == "uniform" else (1e-2, 0.1)
    np.testing.assert_allclose(single.eigenvalues_, double.eigenvalues_, rtol=rtol)
    assert_same_up_to_sign(codes, double.transform(X), atol=atol)


def test_single_precision_of_a_smooth_kernel():
    """A kernel matrix of landmarks whose eigenvalues fall below all rounding: single precision
    does not blow up, neither in eigenvalues nor in the error."""
    X = np.random.default_rng(0).standard_normal((2000, 2))
    options = {"n_landmarks": 300, "kernel": "rbf", "gamma": 0.1, "random_state": 0}
    double = NystromKernelPCA(8, **options).fit(X)
    single = NystromKernelPCA(8, **options).fit(X.astype(np.float32))
    assert len(single.landmarks_) < len(double.landmarks_) < 300
    np.testing.assert_allclose(single.eigenvalues_, double.eigenvalues_, rtol=1e-3)
    assert single.error_ < 1e-4


@pytest.mark.parametrize(
    "kernel", [RBF(gamma=0.4), lambda x, y: np.exp(-0.4 * np.sum((x - y) ** 2))]
)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_kernel_objects_and_callables(kernel, sampling, X, X_new):
    """An akpca kernel and a function of two samples equal the kernel by name."""
    options = {"n_landmarks": 20, "sampling": sampling, "random_state": 0}
    named = NystromKernelPCA(4, kernel="rbf", gamma=0.4, **options).fit(X)
    model = NystromKernelPCA(4, kernel=kernel, **options).fit(X)
    assert_same_up_to_sign(model.transform(X_new), named.transform(X_new))
    np.testing.assert_allclose(model.error_, named.error_)


def test_callable_on_sparse_data_with_parameters(X):
    """kernel_params reach a callable, which gets sparse rows of sparse data."""

    def kernel(x, y, c):
        return ((x @ y.T).toarray().item() + c) ** 2

    S = sparse.csr_matrix(X)
    options = {"n_landmarks": 20, "random_state": 0}
    model = NystromKernelPCA(3, kernel=kernel, kernel_params={"c": 2}, **options).fit(S)
    named = NystromKernelPCA(3, kernel="poly", degree=2, gamma=1, coef0=2, **options).fit(S)
    np.testing.assert_allclose(model.eigenvalues_, named.eigenvalues_)
    np.testing.assert_allclose(model.error_, named.error_, atol=1e-12)


def test_names_of_the_codes(X):
    """Feature names out and pandas output."""
    frame = NystromKernelPCA(2).set_output(transform="pandas").fit_transform(X)
    assert list(frame.columns) == ["nystromkernelpca0", "nystromkernelpca1"]


# ------------------------------------------------------------------------------------ inverse


def test_inverse_on_held_out_digits():
    """A few landmarks invert nearly as well as kernel PCA of all samples, and better than
    kernel PCA of as many samples."""
    X = load_digits().data / 16
    X = X[np.random.default_rng(0).permutation(len(X))]
    X_train, X_new = X[:1000], X[1000:1300]
    options = {
        "kernel": "rbf",
        "gamma": 0.05,
        "alpha": 1e-2,
        "inverse_gamma": "scale",
        "fit_inverse_transform": True,
    }

    def error(model):
        return np.mean((model.inverse_transform(model.transform(X_new)) - X_new) ** 2)

    exact = error(KernelPCA(16, **options).fit(X_train))
    ours = error(NystromKernelPCA(16, n_landmarks=200, random_state=0, **options).fit(X_train))
    few = error(KernelPCA(16, **options).fit(X_train[:200]))
    assert ours < 1.25 * exact
    assert ours < 0.9 * few


def test_inverse_errors(X):
    """What an inverse can't do, it says; a fit without one has none of an earlier fit."""
    with pytest.raises(NotFittedError, match="fit_inverse_transform=True"):
        NystromKernelPCA(2).fit(X).inverse_transform(np.zeros((1, 2)))
    model = NystromKernelPCA(2, fit_inverse_transform=True).fit(X)
    with pytest.raises(ValueError, match="3 columns, but the codes have 2 components"):
        model.inverse_transform(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="X contains NaN"):
        model.inverse_transform([[np.nan, 0.0]])
    with pytest.raises(ValueError, match="there is no code"):
        NystromKernelPCA(fit_inverse_transform=True).fit(np.ones((5, 3)))
    with pytest.raises(NotFittedError, match="fit_inverse_transform=True"):
        model.set_params(fit_inverse_transform=False).fit(X).inverse_transform(np.zeros((1, 2)))


# ----------------------------------------------------------------- bad and degenerate input


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([[1.0, np.nan], [2.0, 3.0]], "X contains NaN"),
        ([[1.0, np.inf], [2.0, 3.0]], "X contains infinity"),
        ([1.0, 2.0, 3.0], "Expected 2D array, got 1D"),
        (np.empty((0, 3)), r"Found array with 0 sample\(s\)"),
        ([["a", "b"], ["c", "d"]], "could not convert string"),
    ],
)
def test_bad_data_are_refused(bad, message):
    """NaN, inf, 1-D, empty and text get an error that says so."""
    with pytest.raises(ValueError, match=message):
        NystromKernelPCA(1).fit(bad)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kernel": "precomputed"}, "takes an operator that has samples"),
        ({"n_components": 0}, "'n_components' parameter"),
        ({"n_landmarks": 0}, "'n_landmarks' parameter"),
        ({"sampling": "random"}, "'sampling' parameter"),
        ({"orthonormal": "no"}, "'orthonormal' parameter"),
        ({"n_landmarks": 61}, "n_landmarks=61, but X has only 60 samples"),
        ({"n_landmarks": 5, "n_components": 6}, "n_components=6, but there can't be more"),
        (
            {"kernel": "linear", "n_components": 8},
            r"n_components=8, .* only 7 component\(s\) of non-zero eigenvalue",
        ),
        ({"orthonormal": False, "sampling": "kmeans"}, "needs sampling='uniform'"),
        ({"kernel": "linear", "orthonormal": False, "n_components": 8}, "only 7 component"),
        ({"kernel": "poly", "degree": 2.5, "coef0": -1}, "Polynomial.* gives NaN or infinity"),
        ({"kernel": "poly", "degree": 5000, "coef0": 9}, "Polynomial.* gives NaN or infinity"),
        (
            {
                "kernel": "poly",
                "degree": 5000,
                "coef0": 9,
                "n_landmarks": 9,
                "sampling": "leverage",
            },
            "Polynomial.* gives NaN or infinity",
        ),
    ],
)
def test_bad_parameters_are_named(params, message, X):
    """The error names the parameter and what is allowed."""
    with pytest.raises(ValueError, match=message), np.errstate(over="ignore"):
        NystromKernelPCA(**params).fit(X)


@pytest.mark.parametrize("orthonormal", [True, False])
@pytest.mark.parametrize("kernel", [Sigmoid(1, -1), lambda x, y: -x @ y, lambda x, y: x[0] + y[0]])
def test_indefinite_kernel_is_refused(kernel, orthonormal, X):
    """Significant negative eigenvalues on the landmarks are an error."""
    with pytest.raises(ValueError, match="significant negative eigenvalues"):
        NystromKernelPCA(2, kernel=kernel, orthonormal=orthonormal).fit(X)


def test_indefinite_kernel_is_refused_beyond_the_landmarks(X):
    """Also if only the samples prove it: k(x, x) below the square of x's own projection."""
    kernel = Sigmoid(1, -1)
    single = X[np.argmax(kernel.diag(X))][None]
    assert kernel(single) > 0
    with pytest.raises(ValueError, match="significant negative eigenvalues"):
        NystromKernelPCA(kernel=kernel, center=False).partial_fit(single).partial_fit(X)
    with pytest.raises(ValueError, match="significant negative eigenvalues"):
        NystromKernelPCA(kernel=kernel, n_landmarks=30, sampling="leverage").fit(X)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_duplicates_change_nothing_but_the_count(sampling, X):
    """Every point thrice, all as landmarks: those that add nothing are dropped, eigenvalues
    triple, codes stay."""
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
@pytest.mark.parametrize("n", [1, 5, 40])
@pytest.mark.parametrize("value", [0.0, 0.3])
def test_constant_data_have_no_components(kernel, sampling, n, value):
    """All points equal, or zero: no components, no error, no NaN, and a clear refusal to find
    any."""
    X = np.full((n, 3), value)
    model = NystromKernelPCA(kernel=kernel, sampling=sampling, n_landmarks=max(1, n // 2))
    assert model.fit_transform(X).shape == (n, 0)
    assert model.error_ < 1e-12
    with pytest.raises(ValueError, match="only 0 component"):
        model.set_params(n_components=1).fit(X)


def test_wrong_number_of_features_at_transform(X):
    """New data must have the features of the old."""
    with pytest.raises(ValueError, match="X has 3 features, but NystromKernelPCA is expecting 7"):
        NystromKernelPCA(1).fit(X).transform(X[:, :3])
    with pytest.raises(NotFittedError):
        NystromKernelPCA(1).transform(X)


def test_input_is_not_touched(X):
    """fit, transform and inverse leave the caller's data as they were."""
    before = X.copy()
    for sampling in SAMPLINGS:
        model = NystromKernelPCA(3, n_landmarks=20, sampling=sampling, fit_inverse_transform=True)
        codes = model.fit(X).transform(X)
        kept = codes.copy()
        model.inverse_transform(codes)
        np.testing.assert_array_equal(codes, kept)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("ridge", RBF(0.3)),
        ("fixed_point", RBF(0.3)),
        ("distance", RBF(0.3)),
        ("eigenvector", Polynomial(degree=2, gamma=1, coef0=0)),
    ],
)
@pytest.mark.parametrize("center", [True, False])
def test_all_landmarks_decode_as_exact_kernel_pca(name, kernel, center, X):
    """With m = n the code is that of kernel PCA, and so is the way back, by every decoder."""
    options = {"kernel": kernel, "center": center, "preimage": name, "random_state": 0}
    exact = KernelPCA(3, **options).fit(X)
    model = NystromKernelPCA(3, n_landmarks=len(X), **options).fit(X)
    signs = np.sign(np.sum(model.transform(X) * exact.transform(X), axis=0))
    Y = exact.transform(X[:9] + 0.1)
    expected = exact.inverse_transform(Y)
    np.testing.assert_allclose(model.inverse_transform(signs * Y), expected, atol=1e-5)


def test_learned_inverse_is_that_of_kernel_pca_with_all_landmarks(X):
    """fit_inverse_transform with m = n is scikit-learn's kernel ridge regression."""
    options = {"kernel": "rbf", "gamma": 0.3, "fit_inverse_transform": True, "alpha": 0.1}
    exact = KernelPCA(3, **options).fit(X)
    model = NystromKernelPCA(3, n_landmarks=len(X), random_state=0, **options).fit(X)
    expected = exact.inverse_transform(exact.transform(X))
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), expected, atol=1e-6)


def test_kernel_object_has_its_own_gamma(X):
    """`gamma_` and `inverse_gamma` mean the same for a kernel by name and as an object."""
    options = {"fit_inverse_transform": True, "inverse_gamma": 2.5, "random_state": 0}
    named = NystromKernelPCA(3, kernel="rbf", gamma=0.4, **options).fit(X)
    model = NystromKernelPCA(3, kernel=RBF(gamma=0.4), **options).fit(X)
    assert model.gamma_ == named.gamma_ == 0.4
    Y = named.transform(X)
    np.testing.assert_array_equal(model.inverse_transform(Y), named.inverse_transform(Y))


def test_operator_in_place_of_samples(X):
    """Landmarks and sums over samples come from an operator that has samples."""
    operator = KernelOperator(X, RBF(gamma=0.4))
    model = NystromKernelPCA(3, n_landmarks=20, kernel="precomputed", random_state=0).fit(operator)
    expected = NystromKernelPCA(3, n_landmarks=20, gamma=0.4, random_state=0).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_)
    assert_same_up_to_sign(model.transform(X[:5]), expected.transform(X[:5]))
    with pytest.raises(ValueError, match="takes an operator that has samples"):
        NystromKernelPCA(3, kernel="precomputed").fit(RBF()(X))
    with pytest.raises(ValueError, match="an operator that has samples"):
        NystromKernelPCA(3, kernel="precomputed").fit(MatrixOperator(RBF()(X)))


@pytest.mark.parametrize("options", [{}, {"sampling": "kmeans"}, {"orthonormal": False}])
def test_data_far_from_the_origin_keep_their_precision(options):
    """The linear kernel of float32 data + 1000 gives the codes of float64, in fit, transform and,
    with landmarks that are rows of X, in a stream."""
    X = np.random.default_rng(0).standard_normal((600, 8)) * np.arange(1, 9) + 1000
    X = X.astype(np.float32)
    options = {"kernel": "linear", "n_landmarks": 600, "random_state": 0, **options}
    exact = KernelPCA(5, eigen_solver="dense").fit_transform(X.astype(np.float64))
    model = NystromKernelPCA(5, **options)
    codes = model.fit_transform(X)
    assert_same_up_to_sign(codes, exact, atol=3e-4)
    assert_same_up_to_sign(model.transform(X), exact, atol=3e-4)
    if not options.get("sampling"):
        np.testing.assert_array_equal(model.landmarks_, X[model.landmark_indices_])
    if options.get("orthonormal", True):
        stream = NystromKernelPCA(5, **{**options, "n_landmarks": 100})
        for start in range(0, 600, 200):
            stream.partial_fit(X[start : start + 200])
        assert_same_up_to_sign(stream.transform(X), exact, atol=3e-4)


def test_single_precision_keeps_its_components():
    """Nearly as many components as in float64, and nearly the same number as exact kernel PCA."""
    X = (load_digits().data[:1000] / 16).astype(np.float32)
    options = {"kernel": "rbf", "gamma": 0.01}
    model = NystromKernelPCA(n_landmarks=1000, random_state=0, **options).fit(X)
    exact = KernelPCA(**options).fit(X.astype(np.float64))
    found = model.eigenvalues_.size
    assert found > 0.95 * exact.eigenvalues_.size
    noise = 5 * np.finfo(np.float32).eps * np.sqrt(1000)
    np.testing.assert_allclose(
        model.eigenvalues_, exact.eigenvalues_[:found], rtol=1e-6, atol=noise
    )


@pytest.mark.parametrize("scale", [1e160, 1e200, 1e300])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_data_that_overflow_are_named(sampling, kernel, scale, X):
    """Kernel values beyond the range are reported with the kernel and what to do."""
    model = NystromKernelPCA(2, n_landmarks=9, kernel=kernel, sampling=sampling, random_state=0)
    with pytest.raises(ValueError, match=r"NaN or infinity.*: scale the data"):
        model.fit(scale * X / np.abs(X).max())
