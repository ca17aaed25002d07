"""Pre-images: exact where theory says so, equal to the literal formulas, finite everywhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from akpca import KernelPCA, pca, preimage
from akpca.book import reference
from akpca.kernel_code import KernelCode
from akpca.kernels import RBF, Chi2, Laplacian, Linear, Polynomial
from akpca.preimage import (
    PREIMAGES,
    DistancePreimage,
    EigenvectorPreimage,
    FixedPointPreimage,
    RidgePreimage,
    make_preimage,
)

SQUARE = Polynomial(degree=2, gamma=0.7, coef0=0)
# every decoder with every kind of kernel that it has a formula for
PAIRS = [
    ("ridge", Laplacian(0.2)),
    ("eigenvector", SQUARE),
    ("fixed_point", RBF(0.3)),
    ("distance", RBF(0.3)),
    ("distance", Linear()),
]
both = pytest.mark.parametrize("center", [True, False])
all_pairs = pytest.mark.parametrize("name, kernel", PAIRS)


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((60, 4))


@pytest.fixture
def X_new():
    return np.random.default_rng(1).standard_normal((11, 4))


def fitted(X, kernel, k=None, center=True):
    """Return kernel PCA of X and what a decoder needs of it."""
    model = KernelPCA(k, kernel=kernel, center=center, random_state=0).fit(X)
    means = kernel(X).mean(axis=0) if center else None
    weights, codes = model._code.weights, model.transform(X)
    return model, make_code(X, kernel, weights, codes, X, means)


def make_code(points, kernel, weights, codes, targets, means=None, mean_weights=None):
    """Return a code; without `means`, one that is not centred."""
    if means is None:
        offset = np.zeros(weights.shape[1], weights.dtype)
        return KernelCode(kernel, points, weights, offset, codes=codes, targets=targets)
    if mean_weights is None:
        mean_weights = np.full(len(points), 1 / len(points), weights.dtype)
    offset, square = weights.T @ means, float(mean_weights @ means)
    return KernelCode(kernel, points, weights, offset, mean_weights, square, codes, targets, means)


@both
def test_expansion_is_the_projection_in_feature_space(center, X, X_new):
    """sum_i g_i x_i x_i^T is what PCA of the explicit features x x^T projects to."""
    model, space = fitted(X, Polynomial(degree=2, gamma=1, coef0=0), 3, center)
    code = pca(reference.degree2_features(X), 3, center=center)
    expected = code.reconstruct(reference.degree2_features(X_new)).reshape(-1, 4, 4)
    found = [(X.T * g) @ X for g in space.expansion(model.transform(X_new))]
    np.testing.assert_allclose(found, expected, atol=1e-10)


@both
@pytest.mark.parametrize("kernel", [RBF(0.3), SQUARE, Linear()])
def test_norms_and_products_without_the_kernel_matrix(center, kernel, X, X_new):
    """The cheap formulas equal g^T K g and k(t, X) g, also for samples that were not fitted."""
    model, space = fitted(X, kernel, 3, center)
    Y = model.transform(X_new)
    G, K = space.expansion(Y), kernel(X)
    np.testing.assert_allclose(space.squared_norms(Y), [g @ K @ g for g in G], atol=1e-10)
    np.testing.assert_allclose(space.inner_products(Y), G @ K, atol=1e-10)
    others = np.random.default_rng(2).standard_normal((7, 4))
    space = make_code(X, kernel, space.weights, model.transform(others), others, space.means)
    np.testing.assert_allclose(space.inner_products(Y), G @ kernel(X, others), atol=1e-10)


@both
@all_pairs
def test_all_components_give_the_samples_back(name, kernel, center, X, X_new):
    """With nothing lost, the samples come back, up to sign; if features are few, new ones, too."""
    model, space = fitted(X, kernel, None, center)
    decoder = make_preimage(name, **({"alpha": 1e-9} if name == "ridge" else {})).fit(space)
    X_hat = decoder.decode(model.transform(X))
    if kernel == SQUARE:
        np.testing.assert_allclose(X_hat, X * np.sign(X.sum(axis=1))[:, None], atol=1e-9)
    else:
        np.testing.assert_allclose(X_hat, X, atol=1e-6 if name == "ridge" else 1e-9)
    if kernel == SQUARE or isinstance(kernel, Linear):
        found = decoder.decode(model.transform(X_new))
        signs = np.sign(np.sum(found * X_new, axis=1))[:, None]
        np.testing.assert_allclose(found, X_new * signs, atol=1e-8)
        assert isinstance(kernel, Polynomial) or np.all(signs == 1)


@both
@all_pairs
def test_batches_blocks_and_precision(name, kernel, center, X, X_new, monkeypatch):
    """Codes are decoded alike alone, in batches, in small blocks, and in single precision."""
    model, space = fitted(X, kernel, 3, center)
    Y = model.transform(X_new)
    decoder = make_preimage(name).fit(space)
    together = decoder.decode(Y)
    one_by_one = np.vstack([decoder.decode(y[None]) for y in Y])
    np.testing.assert_allclose(one_by_one, together, atol=1e-8)

    f4 = np.float32
    means = space.means.astype(f4) if center else None
    arrays = (array.astype(f4) for array in (space.weights, space.codes, X))
    single = make_preimage(name).fit(make_code(X.astype(f4), kernel, *arrays, means))
    Y_single = Y.astype(f4)
    X_hat = single.decode(Y_single)
    np.testing.assert_array_equal(Y_single, Y.astype(f4))
    np.testing.assert_allclose(X_hat, together, atol=5e-3)
    assert X_hat.dtype == f4
    assert single.decode(Y).dtype == decoder.decode(Y_single).dtype == np.float64

    monkeypatch.setattr(preimage, "BLOCK_ROWS", 4)
    monkeypatch.setattr(preimage, "MAX_TEMPORARY_VALUES", 130)
    np.testing.assert_allclose(decoder.decode(Y), together, atol=1e-8)


@both
@all_pairs
@pytest.mark.parametrize("data", ["duplicates", "one point", "zeros"])
def test_degenerate_data_and_codes_give_finite_samples(name, kernel, center, data, X):
    """Repeated samples, no variance at all, codes at 0 and far away: finite, and no warning."""
    X = {
        "duplicates": np.repeat(X[:6], 10, axis=0),
        "one point": np.repeat(X[:1], 12, axis=0),
        "zeros": np.zeros((12, 4)),
    }[data]
    _, space = fitted(X, kernel, 3, center)
    Y = np.vstack([space.codes[:2], np.zeros((1, 3)), 1e6 * np.eye(3), -1e6 * np.eye(3)])
    assert np.isfinite(make_preimage(name).fit(space).decode(Y)).all()


@pytest.mark.parametrize(
    "name, kernel, allowed",
    [
        ("eigenvector", Polynomial(degree=2, coef0=1), "coef0=0"),
        ("fixed_point", None, "RBF"),
        ("distance", Laplacian(), "a linear kernel, or RBF"),
        ("distance", RBF(0), "gamma > 0"),
    ],
)
def test_kernels_that_cannot_be_inverted(name, kernel, allowed, X):
    """The error names the decoder, the kernel and what is allowed."""
    alphas, means = np.zeros((60, 2)), np.zeros(60)
    space = make_code(X, kernel, alphas, alphas, X, means)
    with pytest.raises(ValueError, match=f"preimage='{name}' can't invert kernel=") as caught:
        make_preimage(name).fit(space)
    assert repr(kernel) in str(caught.value)
    assert allowed in str(caught.value)


@pytest.mark.parametrize("name", sorted(PREIMAGES))
def test_bad_names_parameters_and_codes(name, X):
    """Unknown, not fitted, a wrong number of columns, NaN: an error each."""
    with pytest.raises(ValueError, match=r"preimage must be one of .*'ridge'.*got 'inverse'"):
        make_preimage("inverse")
    with pytest.raises(ValueError, match="'alpha' parameter"):
        make_preimage("ridge", alpha=-1).fit(fitted(X, RBF(0.3), 3)[1])
    _, space = fitted(X, dict(PAIRS)[name], 3)
    with pytest.raises(ValueError, match="not fitted"):
        make_preimage(name).decode(space.codes)
    decoder = make_preimage(name).fit(space)
    with pytest.raises(ValueError, match="Y has 2 columns, but the codes have 3 components"):
        decoder.decode(space.codes[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        decoder.decode(np.full((1, 3), np.nan))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("width", [2.0, "scale", None])
def test_ridge_equals_the_formula(fit_intercept, width, X, X_new):
    """(K + alpha I)^{-1}, written out, of any width; the kernel of the PCA may be unknown."""
    model, space = fitted(X, RBF(0.3), 3)
    space = make_code(X, None, space.weights, space.codes, X, space.means)
    decoder = RidgePreimage(gamma=width, alpha=0.1, fit_intercept=fit_intercept).fit(space)
    gamma = {"scale": 1 / (3 * space.codes.var()), None: 1 / 3}.get(width, width)
    assert decoder.gamma_ == pytest.approx(gamma)
    mean = X.mean(axis=0) if fit_intercept else np.zeros(4)
    K = reference.kernel_matrix(space.codes, lambda a, b: np.exp(-gamma * np.sum((a - b) ** 2)))
    dual = np.linalg.inv(K + 0.1 * np.eye(60)) @ (X - mean)
    Y = model.transform(X_new)
    for y, x_hat in zip(Y, decoder.decode(Y), strict=True):
        k = np.exp(-gamma * np.sum((y - space.codes) ** 2, axis=1))
        np.testing.assert_allclose(x_hat, mean + k @ dual, atol=1e-10)


@both
@pytest.mark.parametrize("d", [32, 33, 310])
def test_eigenvector_solvers_agree_with_dense_eigh(d, center):
    """Stacked LAPACK, one LAPACK call and ARPACK: 1e-8 of dense eigh at every size."""
    X = np.abs(np.random.default_rng(3).standard_normal((40, d)))
    model, space = fitted(X, SQUARE, 3, center)
    Y = model.transform(X[:4] + 0.1)
    X_hat = EigenvectorPreimage().fit(space).decode(Y)
    for g, x_hat in zip(space.expansion(Y), X_hat, strict=True):
        values, vectors = np.linalg.eigh((X.T * g) @ X)
        x = np.sqrt(values[-1]) * vectors[:, -1]
        np.testing.assert_allclose(x_hat, x * np.sign(x.sum()), atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    gamma=st.floats(0.01, 10),
    k=st.integers(1, 8),
    center=st.booleans(),
    stretch=st.floats(0.2, 5),
)
def test_fixed_point_climbs_to_a_stationary_point(seed, gamma, k, center, stretch):
    """rho never ends below its start, and its gradient by finite differences vanishes."""
    X = np.random.default_rng(seed).standard_normal((25, 3))
    _, space = fitted(X, RBF(gamma), k, center)
    Y = stretch * space.codes[:6]
    G = space.expansion(Y)
    size = np.abs(G).sum(axis=1)

    def rho(X_hat):
        return np.sum(G * space.kernel(X_hat, X), axis=1)

    nearest = np.argmin(((Y[:, None] - space.codes) ** 2).sum(axis=2), axis=1)
    few = FixedPointPreimage(max_iter=3).fit(space).decode(Y)
    many = FixedPointPreimage(max_iter=20_000, tol=1e-8).fit(space)
    X_hat = many.decode(Y)
    climbs = rho(X[nearest]) > 1e-12 * size
    assert (rho(few) >= rho(X[nearest]) - 1e-12)[climbs].all()
    assert (rho(X_hat) >= rho(few) - 1e-12)[climbs].all()
    if many.n_iter_ < many.max_iter:
        h = 1e-5 / np.sqrt(gamma)
        for step in h * np.eye(3):
            slope = (rho(X_hat + step) - rho(X_hat - step)) / (2 * h)
            assert (np.abs(slope) <= 1e-5 * np.sqrt(gamma) * size)[climbs].all()


def test_fixed_point_falls_back_on_neighbours(X):
    """Codes with no rho > 0 anywhere near: counted, finite, and within the samples' range."""
    _, space = fitted(X, RBF(50.0), 3, center=False)
    # a projection with negative coefficients only is nowhere positive
    space = make_code(X, space.kernel, -np.abs(space.weights), np.abs(space.codes), X)
    Y = np.abs(space.codes[:5]) + 0.01
    decoder = FixedPointPreimage().fit(space)
    for y, x_hat in zip(Y, decoder.decode(Y), strict=True):
        distances = np.linalg.norm(space.codes - y, axis=1)
        five = np.argsort(distances)[:5]
        expected = np.average(X[five], axis=0, weights=1 / distances[five])
        np.testing.assert_allclose(x_hat, expected, atol=1e-9)
    assert decoder.n_fallbacks_ == 5


def test_fixed_point_restarts_where_the_nearest_sample_is_no_good(X, monkeypatch):
    """rho <= 0 at the nearest sample but not at the next: that one is the start."""
    # two far clusters; the code nearest to y belongs to a sample with negative coefficient
    X = np.vstack([X[:5], X[:5] + 100])
    codes = np.arange(10.0)[:, None]
    alphas = np.where(np.arange(10) < 5, -1.0, 1.0)[:, None]
    space = make_code(X, RBF(0.3), alphas, codes, X)
    y = np.array([[4.4]])
    decoder = FixedPointPreimage().fit(space)
    assert np.linalg.norm(decoder.decode(y)[0] - X[5:].mean(axis=0)) < 3
    assert decoder.n_fallbacks_ == 0
    monkeypatch.setattr(preimage, "RESTARTS", 0)
    alone = FixedPointPreimage().fit(space)
    np.testing.assert_allclose(alone.decode(y)[0], X[4])
    assert alone.n_fallbacks_ == 1


def test_fixed_point_starts_from_the_mean_at_last():
    """rho < 0 at all known samples, but not half way between them."""
    X, known = np.array([[-2.0], [0.0], [2.0]]), np.array([[-2.0], [2.0]])
    alphas = np.array([[-1.0], [1.0], [-1.0]])
    space = make_code(X, RBF(1.0), alphas, np.ones((2, 1)), known)
    decoder = FixedPointPreimage().fit(space)
    np.testing.assert_allclose(decoder.decode([[1.0]]), [[0]], atol=1e-6)
    assert decoder.n_fallbacks_ == 0


def test_fixed_point_does_not_overshoot():
    """Between two samples of negative weight the plain iteration leaves the top; ours does not."""
    X, g = np.array([[-1.0], [0.0], [1.0]]), np.array([-1.0, 1.0, -1.0])
    start = np.array([[0.1]])
    space = make_code(X, RBF(1.0), g[:, None], np.ones((1, 1)), start)
    w = g * np.exp(-((0.1 - X[:, 0]) ** 2))
    assert abs(w @ X[:, 0] / w.sum()) > 0.3
    decoder = FixedPointPreimage(tol=1e-9).fit(space)
    np.testing.assert_allclose(decoder.decode([[1.0]]), [[0]], atol=1e-7)
    assert decoder.n_fallbacks_ == 0


@both
@pytest.mark.parametrize("kernel", [RBF(0.3), Linear()])
def test_distance_equals_the_literal_formula(kernel, center, X, X_new):
    """Kwok and Tsang's trilateration by a singular value decomposition, a point at a time."""
    model, space = fitted(X, kernel, 3, center)
    Y = model.transform(X_new)
    X_hat = DistancePreimage(n_neighbors=8).fit(space).decode(Y)
    K = kernel(X)
    for g, x_hat in zip(space.expansion(Y), X_hat, strict=True):
        d2 = g @ K @ g + np.diag(K) - 2 * K @ g
        near = np.argsort(d2)[:8]
        d2 = d2[near]
        if isinstance(kernel, RBF):
            d2 = -np.log(np.clip(1 - d2 / 2, 1e-300, 1)) / 0.3
        mean = X[near].mean(axis=0)
        E, size, Vt = np.linalg.svd((X[near] - mean).T, full_matrices=False)
        z = -0.5 * (Vt @ (d2 - np.sum((X[near] - mean) ** 2, axis=1))) / size
        np.testing.assert_allclose(x_hat, E @ z + mean, atol=1e-8)


def test_neighbours_that_hardly_differ_do_not_explode():
    """No step is longer than three times the distances from the neighbours."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4)) * [1, 1, 1, 1e-5]
    model, space = fitted(X, RBF(0.3), 2)
    Y = model.transform(X + 0.3 * rng.standard_normal(X.shape))
    assert np.abs(DistancePreimage(8).fit(space).decode(Y)).max() < 10


@pytest.fixture(scope="module")
def curve():
    """1,000 noisy points of a curve in five dimensions, and 200 new ones."""
    rng = np.random.default_rng(0)
    t = rng.random((1200, 1)) * np.arange(1, 6)
    X = np.sin(3 * t) + 0.01 * rng.standard_normal((1200, 5))
    return X[:1000], X[1000:]


@pytest.mark.parametrize("options", [{"fit_inverse_transform": True}, {"preimage": "ridge"}])
def test_learned_inverse_keeps_to_the_memory_limit(options, curve):
    """Above memory_limit some codes are centres, the same for the same random_state, and the error
    hardly grows; a kernel matrix that just fits gives the regression on all codes, to the bit."""
    X, X_new = curve
    options = {"kernel": "rbf", "gamma": 1.0, "alpha": 1e-3, "random_state": 0, **options}
    decoded = []
    for limit in (2e9, 8 * 1000**2, 8 * 1000**2 - 1, 72 * 490**2, 72 * 490**2):
        model = KernelPCA(3, memory_limit=limit, **options).fit(X)
        decoded.append(model.inverse_transform(model.transform(X_new)))
        assert len(model._decoder.centers_) <= (1000 if limit >= 8 * 1000**2 else 512)
    full, fits, other, limited, again = decoded
    np.testing.assert_array_equal(full, fits)
    np.testing.assert_array_equal(limited, again)
    assert not np.array_equal(full, other)
    assert np.mean((limited - X_new) ** 2) < 1.1 * np.mean((full - X_new) ** 2)


def test_ridge_with_centres_is_the_literal_one(curve):
    """With fewer centres C: B = (F^T F + alpha k(C, C))^-1 F^T X with F = k(Y, C), for sparse
    targets as well; with all codes as centres, the regression is that without."""
    Y, X, kernel = curve[0][:700, :3], curve[0][:700], RBF(1.0)
    F, K = kernel(Y, Y[:20]), kernel(Y[:20])
    expected = F @ np.linalg.solve(F.T @ F + 0.3 * K, F.T @ X)
    for targets in (X, sparse.csr_matrix(X)):
        centers, dual = preimage.kernel_ridge(kernel, Y, targets, 0.3, centers=Y[:20])
        np.testing.assert_allclose(kernel(Y, centers) @ dual, expected, atol=1e-7)
    all_centers, one = preimage.kernel_ridge(kernel, Y[:99], X[:99], 0.3, centers=Y[:99])
    plain = kernel(Y, Y[:99]) @ preimage.kernel_ridge(kernel, Y[:99], X[:99], 0.3)[1]
    np.testing.assert_allclose(kernel(Y, all_centers) @ one, plain, atol=1e-6)


def test_no_code_no_inverse():
    """Constant data have no components, and that is said."""
    for model in (
        KernelPCA(kernel="rbf", fit_inverse_transform=True, inverse_gamma="scale"),
        *(KernelPCA(kernel="rbf", preimage=name) for name in ("ridge", "distance", "fixed_point")),
    ):
        with pytest.raises(ValueError, match="needs data that vary"):
            model.fit(np.ones((5, 2)))


@pytest.mark.parametrize("kernel", ["chi2", Linear() + 0.5 * Chi2()])
def test_chi2_does_not_apply_to_codes(kernel, X):
    """Codes may be negative: the learned inverse refuses the kernel, a decoder does not."""
    with pytest.raises(ValueError, match="chi2"):
        KernelPCA(2, kernel=kernel, fit_inverse_transform=True).fit(np.abs(X))
    model = KernelPCA(2, kernel=kernel, preimage="ridge").fit(np.abs(X))
    assert model.inverse_transform(model.transform(np.abs(X))).shape == X.shape
