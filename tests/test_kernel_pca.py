"""KernelPCA: equal to scikit-learn's, to the reference, and to PCA where they must be."""

import re

import numpy as np
import pytest
from helpers import assert_same_up_to_sign
from scipy import sparse
from sklearn import decomposition
from sklearn.datasets import load_digits, make_circles
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Perceptron
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from akpca import IncrementalKernelPCA, KernelHebbian, KernelPCA, NystromKernelPCA, pca
from akpca.book import reference
from akpca.kernels import RBF, Polynomial
from akpca.operators import FeatureOperator, KernelOperator, MatrixOperator
from akpca.preimage import RidgePreimage

KERNEL_NAMES = ["linear", "poly", "rbf", "sigmoid", "cosine", "laplacian", "chi2"]


@pytest.fixture
def X():
    return np.random.default_rng(0).uniform(0, 1, (60, 7))


@pytest.fixture
def X_new():
    return np.random.default_rng(1).uniform(0, 1, (13, 7))


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid", "cosine"])
@pytest.mark.parametrize("solver", ["auto", "dense", "arpack", "randomized"])
def test_equals_scikit_learn(kernel, solver, X, X_new):
    """Codes, eigenpairs with their signs and reconstructions, by every kernel and solver."""
    options = {"kernel": kernel, "eigen_solver": solver, "gamma": 0.4, "random_state": 0}
    options["fit_inverse_transform"] = True
    ours = KernelPCA(4, **options).fit(X)
    theirs = decomposition.KernelPCA(4, **options).fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, atol=1e-6)
    np.testing.assert_allclose(ours.eigenvectors_, theirs.eigenvectors_, atol=1e-8)
    assert_same_up_to_sign(ours.transform(X_new), theirs.transform(X_new))
    assert_same_up_to_sign(ours.fit_transform(X), theirs.fit_transform(X))
    assert ours.gamma_ == theirs.gamma_
    back = (model.inverse_transform(model.transform(X_new)) for model in (ours, theirs))
    np.testing.assert_allclose(*back, atol=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "cosine"])
@pytest.mark.parametrize("remove_zero_eig", [False, True])
def test_all_components_equal_scikit_learn(kernel, remove_zero_eig, X):
    """n_components=None keeps the same number of components, zeros removed."""
    options = {"kernel": kernel, "remove_zero_eig": remove_zero_eig}
    ours = KernelPCA(**options).fit(X)
    theirs = decomposition.KernelPCA(**options).fit(X)
    assert ours.eigenvalues_.shape == theirs.eigenvalues_.shape
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, atol=1e-9)


@pytest.mark.parametrize("copy_X", [True, False])
def test_precomputed_equals_the_kernel_by_name(copy_X, X, X_new):
    """The kernel matrix in place of the data, also for new points."""
    named = KernelPCA(4, kernel="rbf", gamma=0.4).fit(X)
    K = RBF(gamma=0.4)(X)
    given = K.copy()
    model = KernelPCA(4, kernel="precomputed", copy_X=copy_X).fit(given)
    assert (given == K).all() or not copy_X
    codes = model.transform(RBF(gamma=0.4)(X_new, X))
    assert_same_up_to_sign(codes, named.transform(X_new), atol=1e-10)


def test_a_grid_search_and_names_of_scikit_learn():
    """It works where scikit-learn's does: with its parameters and its attributes."""
    Z, y = make_circles(n_samples=200, factor=0.3, noise=0.05, random_state=0)
    pipeline = make_pipeline(KernelPCA(2, kernel="rbf"), Perceptron(random_state=0))
    search = GridSearchCV(pipeline, {"kernelpca__gamma": [1e-3, 2.0]}, cv=3).fit(Z, y)
    assert (search.best_params_, search.best_score_) == ({"kernelpca__gamma": 2.0}, 1)
    theirs = decomposition.KernelPCA(2, fit_inverse_transform=True).fit(Z)
    ours = KernelPCA(2, fit_inverse_transform=True).fit(Z)
    assert theirs.get_params().keys() <= ours.get_params().keys()
    assert {name for name in vars(theirs) if name.endswith("_")} <= set(vars(ours))


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@pytest.mark.parametrize("center", [True, False])
def test_equals_the_reference(kernel, center, X, X_new):
    """Fast and literal versions give the same codes, for fitted and for new points."""
    model = KernelPCA(3, kernel=kernel, center=center).fit(X)
    K, K_new = model.kernel_(X), model.kernel_(X_new, X)
    if center:
        K, K_new = reference.center_kernel(K), reference.center_new_kernel(K_new, K)
    A = reference.kernel_pca(K, 3)
    assert_same_up_to_sign(model.transform(X_new), reference.encode(A, K_new), atol=1e-8)
    assert_same_up_to_sign(model.fit_transform(X), reference.encode(A, K), atol=1e-8)


@pytest.mark.parametrize("center", [True, False])
def test_linear_kernel_is_pca(center, X, X_new):
    """Centred or not, up to sign."""
    model, code = KernelPCA(4, center=center).fit(X), pca(X, 4, center=center)
    assert_same_up_to_sign(model.transform(X_new), code.encode(X_new), atol=1e-9)
    np.testing.assert_allclose(np.sqrt(model.eigenvalues_), code.singular_values)


@pytest.mark.parametrize("kernel", ["poly", "rbf", "laplacian"])
@pytest.mark.parametrize("center", [True, False])
def test_explained_variance_is_the_variance_of_the_codes(kernel, center, X):
    """Ratios of all components sum to one; variances are those of the codes."""
    model = KernelPCA(kernel=kernel, center=center)
    codes = model.fit_transform(X)
    np.testing.assert_allclose(model.explained_variance_ratio_.sum(), 1)
    expected = codes.var(axis=0, ddof=1) if center else np.mean(codes**2, axis=0)
    np.testing.assert_allclose(model.explained_variance_, expected, atol=1e-12)


def test_transform_in_blocks_equals_fit_transform(monkeypatch):
    """More new points than one block holds: the seams do not show."""
    monkeypatch.setattr("akpca.kernel_code.ENCODED_ROWS", 100)
    X = np.random.default_rng(0).standard_normal((270, 3))
    model = KernelPCA(2, kernel="rbf", random_state=0)
    np.testing.assert_allclose(model.fit_transform(X), model.transform(X), atol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "cosine", "laplacian"])
@pytest.mark.parametrize("center", [True, False])
def test_matrix_free_equals_dense(kernel, center):
    """Codes, new codes, ratios: those of the dense solver, to the tolerance."""
    X = load_digits().data / 16
    X, X_new = X[:400], X[400:420]
    options = {"kernel": kernel, "degree": 2, "gamma": 0.05, "center": center, "random_state": 0}
    exact = KernelPCA(5, eigen_solver="dense", **options).fit(X)
    free = KernelPCA(5, eigen_solver="krylov", tol=1e-9, **options).fit(X)
    for name in ("eigenvalues_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(free, name), getattr(exact, name), rtol=1e-7)
    atol = 1e-5 * np.abs(exact.transform(X_new)).max()
    assert_same_up_to_sign(free.transform(X_new), exact.transform(X_new), atol=atol)
    assert_same_up_to_sign(free.fit_transform(X), exact.fit_transform(X), atol=atol)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_memory_limit_changes_the_way_not_the_result(kernel, dtype):
    """A kernel matrix larger than memory_limit is not formed; the components stay."""
    X = (load_digits().data / 16).astype(dtype)
    options = {"kernel": kernel, "degree": 2, "random_state": 0}
    held = KernelPCA(4, eigen_solver="arpack", **options).fit(X)
    free = KernelPCA(4, memory_limit=1e6, **options).fit(X)
    assert free._choose_route(X) == ("krylov" if kernel == "rbf" else "features")
    assert free.eigenvectors_.dtype == dtype
    np.testing.assert_allclose(free.eigenvalues_, held.eigenvalues_, rtol=1e-4)
    cosines = np.abs(np.sum(free.eigenvectors_ * held.eigenvectors_, axis=0))
    assert cosines.min() > 1 - 1e-4


@pytest.mark.parametrize("kernel", ["linear", "poly"])
@pytest.mark.parametrize("largest", [2000, 5])
def test_few_features_are_decomposed_and_many_iterated(kernel, largest, monkeypatch):
    """A block method takes over where the features' covariance is too large."""
    X = np.random.default_rng(0).standard_normal((700, 6)) * np.arange(1, 7)
    options = {"kernel": kernel, "degree": 2, "random_state": 0}
    theirs = decomposition.KernelPCA(3, eigen_solver="dense", **options).fit(X)
    monkeypatch.setattr("akpca.kernel_pca.MAX_DENSE_FEATURES", largest)
    monkeypatch.setattr(KernelPCA, "_choose_route", lambda self, X: "features")
    ours = KernelPCA(3, tol=1e-9, **options).fit(X)
    assert hasattr(ours, "residuals_") == (largest == 5)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    assert_same_up_to_sign(ours.transform(X), theirs.transform(X), atol=1e-6)


@pytest.mark.parametrize("memory_limit", [2e9, 1e4])
def test_fewer_features_than_components(memory_limit):
    """Data of low rank, down to none: zeros for what is not there, and no n x n matrix."""
    X = np.random.default_rng(0).standard_normal((500, 1)) @ np.ones((1, 4))
    for kernel in ("linear", "poly"):
        model = KernelPCA(3, kernel=kernel, degree=2, coef0=0, memory_limit=memory_limit)
        codes = model.fit_transform(X)
        assert model.eigenvalues_[0] > 0
        np.testing.assert_array_equal(model.eigenvalues_[1:], 0)
        np.testing.assert_allclose(codes, model.transform(X), atol=1e-9)
        np.testing.assert_array_equal(model.fit_transform(0 * X), 0)


def test_a_solver_that_gives_up_says_so():
    """Too few sweeps: a warning with the residual, and the best so far."""
    X = np.random.default_rng(0).standard_normal((600, 30))
    model = KernelPCA(5, kernel="rbf", eigen_solver="krylov", max_iter=1, tol=1e-9, random_state=0)
    with pytest.warns(ConvergenceWarning, match="stopped after 1 products"):
        model.fit(X)
    assert model.residuals_.max() > 1e-9


@pytest.mark.parametrize(
    ("preimage", "options"),
    [
        ("fixed_point", {"kernel": "rbf", "gamma": 0.05}),
        ("distance", {"kernel": "rbf", "gamma": 0.05}),
        (RidgePreimage(alpha=0.1), {"kernel": "linear"}),
    ],
)
def test_preimages_decode(preimage, options):
    """Each decoder does far better than the mean, by constructor and by argument alike."""
    X = load_digits().data / 16
    X_train, X_new = X[:300], X[300:350]
    model = KernelPCA(10, preimage=preimage, random_state=0, **options).fit(X_train)
    decoded = model.inverse_transform(model.transform(X_new))
    spread = np.mean((X_new - X_train.mean(axis=0)) ** 2)
    assert np.mean((decoded - X_new) ** 2) < 0.5 * spread
    plain = KernelPCA(10, random_state=0, **options).fit(X_train)
    by_argument = plain.inverse_transform(plain.transform(X_new), preimage=preimage)
    np.testing.assert_allclose(by_argument, decoded, atol=1e-8)


def test_an_inverse_that_is_not_there_or_codes_that_do_not_fit(X):
    """The error says what to give."""
    with pytest.raises(NotFittedError, match="fit_inverse_transform=True or a preimage"):
        KernelPCA(2).fit(X).inverse_transform(np.zeros((1, 2)))
    model = KernelPCA(2, fit_inverse_transform=True).fit(X)
    with pytest.raises(ValueError, match="X has 3 columns, but the codes have 2 components"):
        model.inverse_transform(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="X contains NaN"):
        model.inverse_transform([[np.nan, 0.0]])
    with pytest.raises(NotImplementedError, match="sparse"):
        model.fit(sparse.csr_matrix(X))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"fit_inverse_transform": True, "alpha": 0}, "alpha"),
        ({"fit_inverse_transform": True, "kernel": "precomputed"}, "precomputed"),
        ({"kernel": "precomputed", "preimage": "ridge"}, "needs dense samples"),
        ({"kernel": "rbf", "preimage": "eigenvector"}, "eigenvector"),
        ({"preimage": "magic"}, "'preimage' parameter"),
        ({"kernel": "gauss"}, "'kernel' parameter"),
        ({"eigen_solver": "qr"}, "'eigen_solver' parameter"),
        ({"n_components": 0.9, "eigen_solver": "randomized"}, "n_components=0.9 needs exact"),
        ({"n_components": 1.5}, "'n_components' parameter"),
        ({"gamma": "median"}, "gamma='median' is for a kernel in .* not for 'linear'"),
        ({"inverse_gamma": "auto"}, "'inverse_gamma' parameter"),
        ({"kernel": "precomputed"}, "square matrix"),
        ({"kernel": "poly", "degree": 2.5, "coef0": -1}, "Polynomial.* gives NaN or infinity"),
        ({"kernel": "rbf", "memory_limit": 1e3}, "give n_components"),
    ],
)
def test_bad_parameters_are_named(params, message, X):
    """The error names the parameter; a kernel that overflows is not decomposed."""
    samples = X @ X.T if "preimage" in params or "fit_inverse_transform" in params else X
    with pytest.raises(ValueError, match=message), np.errstate(over="ignore"):
        KernelPCA(**params).fit(samples)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_precomputed_matrix_that_is_not_symmetric(center, dtype, X, X_new, monkeypatch):
    """scikit-learn takes the lower triangle of whatever it gets; so do we, block by block."""
    monkeypatch.setattr("akpca.operators.TILE_ROWS", 16)
    noise = 0.1 * np.random.default_rng(3).random((len(X), len(X)))
    K, K_new = (RBF(gamma=0.4)(Z, X).astype(dtype) for Z in (X, X_new))
    K += noise.astype(dtype)
    options = {"kernel": "precomputed", "eigen_solver": "dense"}
    ours = KernelPCA(3, center=center, **options).fit(K.copy())
    values = np.linalg.eigvalsh(K, UPLO="L")[::-1][:3]
    if center:
        theirs = decomposition.KernelPCA(3, **options).fit(K.copy())
        values, atol = theirs.eigenvalues_, 1e-8 if dtype == np.float64 else 1e-4
        assert_same_up_to_sign(ours.transform(K_new), theirs.transform(K_new), atol=atol)
    np.testing.assert_allclose(ours.eigenvalues_, values, rtol=1e-5)


@pytest.mark.parametrize(
    "kernel", [RBF(gamma=0.4), lambda x, y: np.exp(-0.4 * np.sum((x - y) ** 2))]
)
def test_kernel_objects_and_callables(kernel, X, X_new):
    """They equal the kernel by name, also in the inverse, whose gamma is the kernel's."""
    own = 0.4 if kernel == RBF(gamma=0.4) else 1 / 7
    for inverse_gamma, used in ((2.5, 2.5), (None, own)):
        options = {"fit_inverse_transform": True, "inverse_gamma": inverse_gamma}
        named = KernelPCA(4, kernel="rbf", gamma=0.4, **options).fit(X)
        model = KernelPCA(4, kernel=kernel, **options).fit(X)
        assert model.inverse_gamma_ == used
        codes = model.transform(X_new)
        assert_same_up_to_sign(codes, named.transform(X_new), atol=1e-9)
        back, expected = model.inverse_transform(codes), named.inverse_transform(codes)
        if model.kernel_ == named.kernel_:
            np.testing.assert_allclose(back, expected, atol=1e-9)


ALL = [KernelPCA, NystromKernelPCA, IncrementalKernelPCA, KernelHebbian]


@pytest.mark.parametrize("solver", ["auto", "dense", "arpack", "krylov"])
@pytest.mark.parametrize(
    ("kernel", "fraction", "n"), [("rbf", 0.3, 500), ("rbf", 0.97, 120), ("poly", 0.9, 500)]
)
def test_a_fraction_of_the_variance(kernel, fraction, n, solver):
    """The smallest number of components that explain it, the same as if that had been given."""
    X = load_digits().data[:n] / 16
    options = {"kernel": kernel, "degree": 2, "eigen_solver": solver, "tol": 1e-6}
    model = KernelPCA(fraction, random_state=0, **options).fit(X)
    k, shares = model.n_components_, model.explained_variance_ratio_
    assert len(shares) == k == model.transform(X[:3]).shape[1]
    assert len(getattr(model, "residuals_", shares)) == k
    assert shares.sum() >= fraction > shares[:-1].sum()
    values = KernelPCA(k, kernel=kernel, degree=2, eigen_solver="dense").fit(X).eigenvalues_
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-6)
    assert KernelPCA(fraction, **options).fit(0 * X).n_components_ == 0


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "chi2", RBF()])
def test_a_kernel_of_strangers_is_told(cls, kernel):
    """A warning names a gamma that will do; gamma='median' is that, for kernels by name."""
    X = np.random.default_rng(0).integers(0, 256, (60, 200)).astype(float)
    with pytest.warns(UserWarning, match="new samples get codes of 0") as seen:
        model = cls(2, kernel=kernel, gamma=None, random_state=0).fit(X[:50])
    assert seen[0].filename == __file__
    gamma = float(re.search("gamma=([^ ,]*), 1 /", str(seen[0].message))[1])
    name = getattr(kernel, "name", kernel)
    median = cls(2, kernel=name, gamma="median", random_state=0).fit(X[:50])
    assert gamma == float(f"{median.gamma_:.2g}")
    assert np.abs(median.transform(X[50:])).max() > 0.01 > np.abs(model.transform(X[50:])).max()


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_sparse_equals_dense(cls, kernel):
    """Also counts that are listed one by one and mean their sum; they stay listed."""
    words = np.random.default_rng(0).integers(0, 3, 60)
    S = sparse.csr_matrix((np.ones(60), words, np.arange(0, 61, 6)), (10, 3))
    whole, found = (cls(2, kernel=kernel, random_state=0).fit(X) for X in (S.toarray(), S))
    np.testing.assert_allclose(found.eigenvalues_, whole.eigenvalues_, rtol=1e-6)
    assert_same_up_to_sign(found.transform(S), whole.transform(S.toarray()), atol=1e-6)
    assert S.nnz == 60


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("make", [KernelOperator, FeatureOperator, "matrix"])
def test_operators_in_place_of_a_matrix(make, center, X, X_new):
    """The same components and codes as from samples; centring is the operator's own."""
    kernel = Polynomial(degree=2, gamma=0.5, coef0=1)
    expected = KernelPCA(3, kernel=kernel, center=center).fit(X)
    if make == "matrix":
        operator, new = MatrixOperator(kernel(X), center=center), kernel(X_new, X)
    else:
        operator, new = make(X, kernel, center=center), X_new
    options = {"tol": 1e-12, "random_state": 0, "center": not center}
    model = KernelPCA(3, kernel="precomputed", **options).fit(operator)
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_)
    assert_same_up_to_sign(model.transform(new), expected.transform(X_new))
    assert_same_up_to_sign(model.fit_transform(operator), expected.fit_transform(X))
    assert model.n_features_in_ == new.shape[1]


def test_route_is_chosen_by_cost():
    """Degree 2 of many samples goes by the features though the matrix would fit into memory."""
    model = KernelPCA(25, kernel="poly", degree=2, gamma=1, coef0=0)
    X = np.broadcast_to(np.float32(0), (20_000, 196))
    model._resolve_kernel(X)
    assert model._choose_route(X) == "features"
    assert model._choose_route(X[:3000]) == "matrix"
    model.set_params(kernel="rbf")._resolve_kernel(X)
    assert model._choose_route(X) == "matrix"
    assert model.set_params(memory_limit=1e6)._choose_route(X) == "krylov"


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@pytest.mark.parametrize(("n", "solver"), [(1, "auto"), (400, "auto"), (20, "krylov")])
def test_constant_data_have_no_variance(kernel, n, solver):
    """All points equal: eigenvalues, ratios and codes are exactly 0, never NaN."""
    X = np.full((n, 3), 0.3, np.float32)
    model = KernelPCA(2, kernel=kernel, eigen_solver=solver, random_state=0)
    np.testing.assert_array_equal(model.fit_transform(X), 0)
    np.testing.assert_array_equal(model.transform(X + 1), 0)
    np.testing.assert_array_equal(model.explained_variance_ratio_, 0)


@pytest.mark.parametrize("solver", ["auto", "dense", "arpack", "randomized"])
def test_more_components_than_samples_or_rank(solver, X):
    """As many components as there are; those beyond the rank are zero and encode to 0."""
    model = KernelPCA(20, eigen_solver=solver, random_state=0).fit(X)
    np.testing.assert_array_equal(model.eigenvalues_[7:], 0)
    np.testing.assert_array_equal(model.transform(X)[:, 7:], 0)
    assert KernelPCA(100, eigen_solver=solver).fit(X[:10]).eigenvalues_.shape == (10,)


def test_indefinite_kernel_is_refused_or_restricted():
    """Significant negative eigenvalues: an error if asked for, no harm if not."""
    K = np.diag([3.0, 2.0, 1.0, -2.0, 0.0, 0.0])
    for k, bad, message in ((6, K, "significant negative"), (2, -K[:3, :3], "All eigenvalues are")):
        with pytest.raises(ValueError, match=message):
            KernelPCA(k, kernel="precomputed", center=False).fit(bad)
    values = KernelPCA(2, kernel="precomputed", center=False).fit(K).eigenvalues_
    np.testing.assert_allclose(values, [3, 2])


def test_centring_that_cancels_leaves_no_noise():
    """A tiny variation on a huge mean: rounding noise is not sold as components."""
    X = 1e8 + np.zeros((50, 3))
    X[0] += 1e-7
    model = KernelPCA(kernel=Polynomial(degree=2, gamma=1, coef0=0)).fit(X)
    assert model.eigenvalues_.shape == (0,)


@pytest.mark.parametrize("solver", ["auto", "dense", "arpack", "randomized", "krylov"])
def test_data_far_from_the_origin_keep_their_precision(solver):
    """Of float32 data + 1000 the codes are those of float64, by every solver."""
    far = np.random.default_rng(0).standard_normal((600, 8)) * np.arange(1, 9) + 1000
    far = far.astype(np.float32)
    exact = KernelPCA(5, eigen_solver="dense").fit_transform(far.astype(np.float64))
    model = KernelPCA(5, eigen_solver=solver, random_state=0)
    codes = model.fit_transform(far)
    assert codes.dtype == np.float32
    for found in (codes, model.transform(far), model.transform(sparse.csr_matrix(far))):
        assert_same_up_to_sign(found, exact, atol=3e-4)
    np.testing.assert_array_equal(model.X_fit_, far)


def test_single_precision_keeps_its_components():
    """Components above float32's noise are those of float64: 19 of 20 at least."""
    X = load_digits().data[:1000] / 16
    exact = KernelPCA(kernel="rbf", gamma=0.01).fit(X)
    model = KernelPCA(kernel="rbf", gamma=0.01)
    codes = model.fit_transform(X.astype(np.float32))
    assert codes.shape[1] > 0.95 * exact.eigenvalues_.size
    np.testing.assert_allclose(model.transform(X.astype(np.float32)), codes, atol=1e-3)
    k = codes.shape[1]
    noise = 5 * np.finfo(np.float32).eps * np.sqrt(1000)
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_[:k], rtol=1e-6, atol=noise)


@pytest.mark.parametrize("solver", ["auto", "dense", "krylov"])
@pytest.mark.parametrize(
    ("kernel", "scale"), [("linear", 1e160), ("linear", 1e308), ("poly", 1e100), ("rbf", 1e200)]
)
def test_data_that_overflow_are_named(kernel, scale, solver, X):
    """Kernel values beyond the range are reported with the kernel and what to do."""
    model = KernelPCA(2, kernel=kernel, degree=2, eigen_solver=solver)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(scale * X / np.abs(X).max())


@pytest.mark.parametrize("kernel", ["rbf", "poly", "cosine", "sigmoid"])
@pytest.mark.parametrize("spread", [1e-8, 1e-7, 1e-6])
@pytest.mark.parametrize("center", [True, False])
def test_shares_of_the_variance_are_shares(kernel, spread, center):
    """Explained variances of nearly constant data add up to at most 1."""
    X = 1 + spread * np.random.default_rng(0).standard_normal((50, 4))
    model = KernelPCA(kernel=kernel, center=center).fit(X)
    assert 0 <= model.explained_variance_ratio_.sum() <= 1 + 1e-12
