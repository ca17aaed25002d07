"""AKPCA: gradients, the literal report, and what it does; then what its room shares."""

import warnings

import numpy as np
import pytest
from helpers import error, interrupt_anywhere, rebuilt
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from akpca import (
    AKPCA,
    Autoencoder,
    DataSpanAKPCA,
    KernelPCA,
    RidgeAutoencoder,
    pca,
    relative_error,
)
from akpca.autoencoding import (
    DenseModel,
    cleaning,
    coordinates,
    estimators,
    models,
    network,
    objectives,
    training,
)
from akpca.book import reference

REPORT = {"objective": "spectral", "offset": False}
# Each way to fit, small.
SETTINGS = {
    "AKPCA": AKPCA(3, n_epochs=3),
    "AKPCA, report": AKPCA(3, n_epochs=3, **REPORT),
    "AKPCA, random": AKPCA(3, n_epochs=3, init="random"),
    "DataSpanAKPCA": DataSpanAKPCA(3, n_landmarks=50, n_epochs=2),
    "DataSpanAKPCA, report": DataSpanAKPCA(
        3, n_landmarks=50, sampling="kmeans", n_epochs=2, **REPORT
    ),
    "RidgeAutoencoder": RidgeAutoencoder(3, n_centers=20, ridge=0.01, n_rounds=2),
    "Autoencoder": Autoencoder(3, hidden_layer_sizes=(16,), n_epochs=3),
}
for setting in SETTINGS.values():
    setting.set_params(random_state=0)
QUADRATIC = {name: model for name, model in SETTINGS.items() if "AKPCA" in name}
ONE_EACH = {name: model for name, model in SETTINGS.items() if name.isalpha()}


def over(some):
    return pytest.mark.parametrize("model", [clone(m) for m in some.values()], ids=list(some))


by_objective = pytest.mark.parametrize("objective", ["reconstruction", "spectral"])
by_offset = pytest.mark.parametrize("offset", [False, True])


@pytest.fixture(scope="module")
def digits():
    X = load_digits().data / 16
    return X[:300], X[600:800]


@pytest.fixture(autouse=True)
def fewer_copies(monkeypatch):
    """Learn to clean from fewer noisy samples, which takes a part of the time."""
    monkeypatch.setattr(cleaning, "NOISY_SAMPLES", 6000)
    monkeypatch.setattr(cleaning, "CLEANED_SAMPLES", 1500)


def random_problem(b=6, d=9, k=3):
    """Return (k, d, d) symmetric A, B near a sensible solution, and positive samples."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (b, d))
    A, B = rng.standard_normal((2, k, d, d)) * 0.3
    A, B = A + A.swapaxes(1, 2), B + B.swapaxes(1, 2)
    A[0] = B[0] = np.eye(d) / np.sqrt(d)
    return A, B, X


def inside(A):
    """Return (k, d, d) matrices in the layout (d, k, d)."""
    return np.ascontiguousarray(A.transpose(1, 0, 2))


# ------------------------------------------------------------------ eigenvectors of a batch


@pytest.mark.parametrize("d", [1, 2, 20, 60, 130])
def test_decoder_equals_lapack(d):
    """sqrt(lambda_1) v_1 with positive sum, as LAPACK finds it; both sides of the dense limit."""
    M = np.random.default_rng(d).standard_normal((8, d, d))
    M = M + M.swapaxes(1, 2)
    start = objectives.mixed_start(np.ones(d), (8, d))
    X_hat, ratios = objectives.decode(objectives.stacked_product(M), start)
    np.testing.assert_allclose(X_hat, [reference.decode(m) for m in M], atol=1e-6)
    values = np.maximum(np.linalg.eigvalsh(M), 0)
    if d > 1:
        top = np.where(values[:, -1] > 0, values[:, -1], 1)
        np.testing.assert_allclose(ratios, values[:, -2] / top, atol=0.05)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hard_matrices_are_decoded(dtype):
    """Zero, negative, rank one, equal eigenvalues: finite, and as good as can be."""
    d = 70
    axis = np.zeros(d)
    axis[3] = 2
    M = np.array(
        [np.zeros((d, d)), -np.eye(d), np.outer(axis, axis), np.eye(d), np.diag(np.arange(d)) * 1.0]
    ).astype(dtype)
    start = objectives.mixed_start(np.ones(d, dtype), (5, d))
    X_hat, _ = objectives.decode(objectives.stacked_product(M), start)
    assert X_hat.dtype == dtype
    np.testing.assert_allclose(X_hat[:2], 0, atol=1e-6)
    np.testing.assert_allclose(X_hat[2], axis, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(X_hat[3:], axis=1), [1, np.sqrt(d - 1)], rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_steps_are_exact_where_the_krylov_space_ends(dtype):
    """More steps than a matrix of rank 2 allows: its eigenpair, not what rounding adds to it."""
    d, rng = 50, np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((d, 2)))[0]
    M = np.array([(axes * values) @ axes.T for values in ((1, 0.5), (1, -0.5), (1, 0.01))])
    product = objectives.stacked_product(M.astype(dtype))
    start = objectives.mixed_start(axes[:, 0].astype(dtype), (3, d))
    X = np.tile(axes[:, 0], (3, 1)).astype(dtype)
    losses, _, V = objectives.reconstruction(product, X, start, steps=6)
    assert losses.max() < 100 * np.finfo(dtype).eps
    np.testing.assert_allclose(V, X, atol=100 * np.finfo(dtype).eps)


def test_spectral_norm_sees_both_ends():
    """The eigenvalue of largest size is found on either side, with few steps from any start."""
    d, size = 60, np.array([[3.0], [-3.0]])
    values = np.linspace(-1, 1, d) * np.ones((2, 1))
    values[:, 7] = size[:, 0]
    product = objectives.stacked_product(np.array([np.diag(v) for v in values]))
    losses, P, V = objectives.spectral(product, np.zeros((2, d)), np.ones(d), steps=8)
    np.testing.assert_allclose(losses, 3, rtol=1e-3)
    np.testing.assert_allclose(P, np.sign(size) * V)


# ------------------------------------------------------------------ gradients


@by_objective
@pytest.mark.parametrize("d", [9, 60])
@pytest.mark.parametrize("constant", [False, True])
def test_gradients_by_finite_differences(objective, d, constant):
    """Gradients of (18) and (15) by encoder, decoder and constant term: relative error <= 1e-5."""
    rng = np.random.default_rng(1)
    A, B, X = random_problem(d=d)
    A, B = inside(A / d), inside(B / d)
    if constant:
        B = np.concatenate([B, inside(np.eye(d)[None] * 0.1)], axis=1)
    start = objectives.mixed_start(np.ones(d), X.shape)

    def loss(product):
        return getattr(objectives, objective)(product, X, start, steps=None)

    gradients = DenseModel(A, B).gradients(X, loss)[1]
    for i, g in enumerate(gradients):
        direction = rng.standard_normal(g.shape)
        direction += direction.transpose(2, 1, 0)
        steps = [np.zeros_like(A), np.zeros_like(B)]
        h = 1e-5 / np.linalg.norm(direction)
        steps[i] = h * direction
        sides = [
            DenseModel(A + s * steps[0], B + s * steps[1]).gradients(X, loss)[0].mean()
            for s in (1, -1)
        ]
        assert np.sum(g * direction) == pytest.approx((sides[0] - sides[1]) / (2 * h), rel=1e-5)


def test_codes_losses_and_gradients_are_the_literal_ones():
    """f(x)_j = x^T A_j x, (18), and the mean of the subgradients (19) and (20), line by line."""
    A, B, X = random_problem()
    model = DenseModel(inside(A), inside(B))
    np.testing.assert_allclose(model.encode(X), [[x @ A_j @ x for A_j in A] for x in X])

    def loss(product):
        return objectives.spectral(product, X, np.ones(9), steps=None, tol=1e-12)

    losses, gradients, _ = model.gradients(X, loss)
    assert losses.sum() == pytest.approx(reference.akpca_objective(A, B, X), rel=1e-12)
    literal = [reference.akpca_subgradient(A, B, x) for x in X]
    for fast, parts in zip(gradients, zip(*literal, strict=True), strict=True):
        np.testing.assert_allclose(fast.transpose(1, 0, 2), np.mean(parts, axis=0), atol=1e-8)


def test_reconstruction_gradient_where_eigenvalues_vanish():
    """The loss is ||x||^2, flat; down to the least number no gradient grows without bound."""
    X = np.array([[1.0, 2.0], [0.0, 0.0]])
    product = objectives.stacked_product(np.array([-np.eye(2), np.zeros((2, 2))]))
    losses, P, _ = objectives.reconstruction(product, X, np.ones(2))
    np.testing.assert_allclose(losses, [5, 0])
    np.testing.assert_array_equal(P, 0)
    axis = np.full(60, 60**-0.5)
    M = np.array([10.0**-p * np.outer(axis, axis) for p in range(0, 46, 3)]).astype(np.float32)
    X = np.random.default_rng(0).standard_normal((len(M), 60)).astype(np.float32) / 60**0.5
    start = objectives.mixed_start(axis.astype(np.float32), X.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses, P, _ = objectives.reconstruction(objectives.stacked_product(M), X, start)
    assert np.isfinite(losses).all()
    assert np.linalg.norm(P, axis=1).max() < 300


def test_literal_descent_lowers_the_objective():
    """The report's SGD and SVRG, from random matrices, on a few small samples."""
    X = np.random.default_rng(0).uniform(0, 0.5, (30, 4))
    start = reference.akpca_sgd(X, 2, step=0, n_epochs=1)
    for method in (reference.akpca_sgd, reference.akpca_svrg):
        A, B = method(X, 2, step=0.1, n_epochs=8)
        before = reference.akpca_objective(*start, X)
        assert reference.akpca_objective(A, B, X) < 0.7 * before


# ------------------------------------------------------------------ inequality (16)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 8), st.integers(0, 2**32 - 1), st.floats(-3, 3), st.integers(1, 8))
def test_inequality_16_holds_with_constant_3(d, seed, size, rank):
    """||x-hat - x||^2 <= 3 ||M - x x^T||_2 for random symmetric errors of any size and rank."""
    rng = np.random.default_rng(seed)
    x, U = rng.standard_normal(d), rng.standard_normal((d, rank))
    E = (U * rng.choice([-1, 1], rank)) @ U.T
    left, right = reference.inequality_sides(np.outer(x, x) + 10**size * E, x)
    assert left <= 3 * right * (1 + 1e-9) + 1e-12


def test_constant_3_is_tight():
    """x = (sqrt(s), 0), E = diag(-eps, eps), s just below 2 eps: the ratio tends to 3."""
    for gap in (1e-1, 1e-3, 1e-6):
        x = np.array([np.sqrt(2 - gap), 0])
        left, right = reference.inequality_sides(np.outer(x, x) + np.diag([-1.0, 1.0]), x)
        assert 3 - 2 * gap <= left / right < 3


# ------------------------------------------------------------------ the starts


@pytest.mark.parametrize("cls", [AKPCA, DataSpanAKPCA])
def test_kpca_start_is_kernel_pca(cls):
    """Codes and reconstructions of uncentred degree-2 kernel PCA, up to signs of components."""
    X = np.random.default_rng(0).uniform(0, 1, (40, 6))
    options = {"kernel": "poly", "degree": 2, "gamma": 1, "coef0": 0, "center": False}
    peer = KernelPCA(4, preimage="eigenvector", **options).fit(X)
    model = cls(4, offset=False, n_epochs=0).fit(X)
    np.testing.assert_allclose(np.abs(model.transform(X)), np.abs(peer.transform(X)), atol=1e-8)
    np.testing.assert_allclose(rebuilt(model, X), rebuilt(peer, X), atol=1e-7)
    np.testing.assert_array_equal(model.encoder_, model.decoder_)


def test_pca_start_is_pca_and_nearer_for_a_large_constant():
    """Codes are sqrt(2) c times PCA's, the factor of B is the best of many."""
    X = np.random.default_rng(0).standard_normal((200, 8)) * np.linspace(1, 0.1, 8)
    X -= X.mean(axis=0)
    X /= np.sqrt(np.mean(np.sum(X**2, axis=1)))
    linear, excess = pca(X, 3), []

    def start_error(c, factor=1.0):
        Z = np.hstack([X, np.full((len(X), 1), c)])
        model = DenseModel.start(Z, 3, offset=True, random_state=0)
        codes = model.encode(Z) / (np.sqrt(2) * c)
        np.testing.assert_allclose(np.abs(codes), np.abs(linear.encode(X)), atol=1e-8)
        model.params[1][:, :-1] *= factor
        Z_hat = np.vstack([block for _, block, _ in model.decode(model.encode(Z))])
        return relative_error(X, Z_hat[:, :-1])

    for c in (1.0, 3.0, 30.0):
        excess.append(start_error(c) / relative_error(X, linear.reconstruct(X)) - 1)
    assert 0.2 > excess[0] > excess[1] > excess[2] > -1e-6
    assert excess[2] < 1e-3
    others = [start_error(1.0, factor) for factor in (0.7, 0.9, 0.98, 1.02, 1.1, 1.4)]
    assert start_error(1.0) < min(others)


# ------------------------------------------------------------------ the descent


@over(QUADRATIC)
def test_the_descent_improves_on_its_start(model, digits):
    """Also for new samples; absurd steps end with a warning and the start as a model."""
    X, X_new = digits
    if isinstance(model, DataSpanAKPCA):  # which needs many without linear terms
        model.set_params(n_components=8, n_landmarks=300)
    start = clone(model).set_params(n_epochs=0).fit(X)
    model.set_params(n_epochs=8).fit(X)
    assert error(model, X) < 0.97 * error(start, X)
    assert error(model, X_new) < error(start, X_new)
    with pytest.warns(ConvergenceWarning, match="smaller learning_rate"):
        model.set_params(learning_rate=1e6).fit(X)
    np.testing.assert_array_equal(model.transform(X), start.transform(X))


@over({name: QUADRATIC[name] for name in QUADRATIC if "random" not in name})
def test_the_best_iterate_is_kept_and_its_error_is_the_users(model, digits):
    """monitor_curve_ is ||g(f(x)) - x||^2 of the model; the least of it is kept, even where steps
    are too large; and the optimiser sees that error, not one that a leak of x makes smaller."""
    X = digits[0]
    model.set_params(n_epochs=4, learning_rate=0.5).fit(X)
    true = np.mean(np.sum((X - rebuilt(model, X)) ** 2, axis=1))
    assert min(model.monitor_curve_) == pytest.approx(true, rel=1e-2)
    assert len(model.monitor_curve_) - 1 == len(model.loss_curve_) == model.n_iter_ == 4
    if model.objective == "reconstruction":
        assert model.monitor_curve_[-1] < 1.05 * model.loss_curve_[-1]
    wild = clone(model).set_params(learning_rate=8.0).fit(X)
    assert max(wild.monitor_curve_) > 1.1 * wild.monitor_curve_[0]
    assert wild.best_epoch_ == np.argmin(wild.monitor_curve_)
    assert error(wild, X) <= error(clone(model).set_params(n_epochs=0).fit(X), X) * (1 + 1e-3)


def test_iterations_do_not_begin_at_the_sample(digits, monkeypatch):
    """Of (15): first at one vector for all samples, later at the vectors of the epoch before."""
    starts, found = [], []

    def watched(product, X, start, **options):
        result = reconstruction(product, X, start, **options)
        starts.append(start)
        found.append(result[2])
        return result

    reconstruction = objectives.reconstruction
    monkeypatch.setattr(objectives, "reconstruction", watched)
    X = digits[0][:100]
    AKPCA(3, n_epochs=2, random_state=0).fit(X)
    first, second = starts
    assert np.ptp(first, axis=0).max() < 1e-12
    # in another order: each of them is near some of the vectors that were found
    nearest = (second @ found[0].T).max(axis=1) / np.linalg.norm(second, axis=1)
    assert nearest.min() > 0.9


def test_epochs_and_steps_are_their_formulas(digits):
    """14 passes for 3,000 samples; steps by the half power of variances, mean square 1."""
    seen = []
    once = AKPCA(1, callback=lambda state: seen.append(state.n_iter_max) or True)
    for n in (2, 1500, 3000, 30_000):
        once.fit(np.linspace(0, 1, n)[:, None])
    assert seen == [100, 22, 14, 4]
    found, _ = coordinates.Coordinates.measured(digits[0], offset=True, turn=True)
    steps, other = training.adam_steps(found)
    assert other is steps
    assert np.mean(steps**2) == pytest.approx(1)
    v = np.append(found.variances, found.variances[0])
    assert steps[0, 0, 0] / steps[3, 0, 7] == pytest.approx((v[0] ** 2 / (v[3] * v[7])) ** 0.25)
    assert steps[-1, 0, -1] == steps[0, 0, 0]


def test_a_penalty_holds_components_near_the_start(digits, monkeypatch):
    """The larger, the nearer; and for (18) there is none."""
    X, distances = digits[0], []
    start = AKPCA(4, n_epochs=0).fit(X).decoder_
    for penalty in (0.0, 0.15, 1.0):
        monkeypatch.setitem(training.PENALTIES, "reconstruction", penalty)
        model = AKPCA(4, n_epochs=4, random_state=0).fit(X)
        distances.append(np.linalg.norm(model.decoder_ - start))
    assert distances[0] > distances[1] > 1.2 * distances[2]
    assert training.PENALTIES["spectral"] == 0


def test_what_samples_do_not_span_stays_at_rest():
    """More components than the samples have: the decoder has zeros for the others, at the start."""
    X = np.outer(np.linspace(0, 1, 9), [1.0, 2.0, 3.0]) + 2
    for offset in (True, False):
        model = AKPCA(5, n_epochs=0, offset=offset, random_state=0).fit(X)
        used = 1 if offset else 3
        assert np.abs(model.decoder_[:used]).max(axis=(1, 2)).min() > 0
        np.testing.assert_array_equal(model.decoder_[used:], 0)


@over({name: QUADRATIC[name] for name in QUADRATIC if "random" not in name})
def test_forming_matrices_changes_nothing(model, digits, monkeypatch):
    """Many components, where M is formed, and the same with products only."""
    X = digits[0][:100]
    model.set_params(n_components=13, n_epochs=1)
    formed = rebuilt(clone(model).fit(X), X)
    monkeypatch.setattr(models, "FORM_IN_TRAINING", 1000)
    monkeypatch.setattr(models, "FORM_IN_DECODING", 1000)
    monkeypatch.setattr(models, "FORMED_SPAN_SIZE", 0)
    np.testing.assert_allclose(rebuilt(model.fit(X), X), formed, atol=1e-5)


def test_precision_of_the_arithmetic(monkeypatch):
    """Double for up to 1,000 samples, single for more; codes have that of X."""
    seen, gradients = [], DenseModel.gradients
    monkeypatch.setattr(
        DenseModel, "gradients", lambda self, Z, loss: seen.append(Z) or gradients(self, Z, loss)
    )
    X = np.random.default_rng(0).standard_normal((1001, 3)).astype(np.float32)
    model = AKPCA(1, n_epochs=1, random_state=0)
    for part, expected in ((X[:1000], np.float64), (X.astype(np.float64), np.float32)):
        assert model.fit(part).transform(X).dtype == np.float32
        assert seen[-1].dtype == expected


# ------------------------------------------------------------------ AKPCA, fitted


@pytest.mark.parametrize("noise", [None, 0.1])
@over(QUADRATIC)
def test_transform_is_the_formula_whatever_the_arguments(model, noise, digits):
    """f and g from encoder_, decoder_, decoder_offset_, mean_ and constant_, in the units of X."""
    X = 5 * digits[0][:100]
    model.set_params(noise=noise).fit(X)
    Z = X[:4] - model.mean_
    if model.offset:
        Z = np.hstack([Z, np.full((4, 1), model.constant_)])
        assert model.constant_ == model.scale_
    A, B = model.encoder_, model.decoder_
    assert A.shape == B.shape == (3, Z.shape[1], Z.shape[1])
    np.testing.assert_allclose(A, A.swapaxes(1, 2), atol=1e-15)
    np.testing.assert_allclose(B, B.swapaxes(1, 2), atol=1e-15)
    Y = np.array([[z @ A_j @ z for A_j in A] for z in Z])
    np.testing.assert_allclose(model.transform(X[:4]), Y, rtol=1e-8, atol=1e-6)
    M = model.decoder_offset_ + np.tensordot(Y, B, 1)
    towards = np.eye(len(M[0]))[-1] if model.offset else None
    X_hat = np.array([reference.decode(m, towards) for m in M])[:, : X.shape[1]] + model.mean_
    np.testing.assert_allclose(model.inverse_transform(Y), X_hat, atol=1e-5)


@by_objective
def test_turned_samples_give_turned_answers(objective, digits):
    """Up to the directions of random starts, a rotation of the features changes nothing."""
    X = digits[0][:150]
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((64, 64)))
    model = AKPCA(4, objective=objective, n_epochs=4, random_state=0)
    X_hat, X_turned = rebuilt(clone(model).fit(X), X), rebuilt(clone(model).fit(X @ Q), X @ Q)
    tol = 1e-3 if objective == "reconstruction" else 0.02
    assert relative_error(X_hat, X_turned @ Q.T) < tol


def test_many_features_cost_only_what_samples_span(digits):
    """60 samples of 2,000 features: components of rank 59 and no matrix of 2,000 x 2,000."""
    X = digits[0][:60] @ np.random.default_rng(0).standard_normal((64, 2000))
    model = AKPCA(3, n_epochs=10, random_state=0).fit(X)
    assert model._model.params[0].size < 3 * 61**2
    assert error(model, X) < 0.9 * relative_error(X, pca(X, 3).reconstruct(X))


@over(QUADRATIC)
def test_signs_are_right(model, digits):
    """With an offset, digits of mean 0 come back with their signs, and x and -x have different
    codes; without one, negative samples are refused, in fit and after it."""
    X = digits[0] - digits[0].mean() * model.offset
    model.fit(X)
    if model.offset:
        X_hat = rebuilt(model.set_params(n_components=8).fit(X), X)
        near, far = np.sum((X_hat - X) ** 2, axis=1), np.sum((X_hat + X) ** 2, axis=1)
        assert np.mean(near < far) > 0.95
        assert not np.allclose(model.transform(X), model.transform(-X))
        return
    assert rebuilt(model, X).sum(axis=1).min() >= -1e-6
    with pytest.raises(ValueError, match="wrong sign"):
        model.transform(-X)
    with pytest.raises(ValueError, match="offset=True"):
        model.fit(X - 0.1)


@over(QUADRATIC)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_codes_of_any_size_are_decoded(model, dtype, digits):
    """g(t y) is sqrt(t) g(y) for large t, up to the largest number, without a warning."""
    X = digits[0][:100].astype(dtype)
    codes = model.fit(X).transform(X[:20])
    top = float(np.finfo(dtype).max) / float(np.abs(codes).max())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        large, largest = (
            model.inverse_transform((factor * codes).astype(dtype)) / factor**0.5
            for factor in (top / 1e8, top / 1e3)
        )
    size = np.abs(large).max()
    np.testing.assert_allclose(largest / size, large / size, atol=1e-2)


# ------------------------------------------------------------------ what all of them share


@over(SETTINGS)
@pytest.mark.parametrize("noise", [None, 0.1], ids=["clean", "noise"])
def test_same_seed_same_bits(model, noise, digits):
    """Also of a frame, of another order of memory, and read-only; not with another seed."""
    pandas = pytest.importorskip("pandas")
    X = digits[0][:80] / 3  # sums of which are not exact
    model.set_params(noise=noise).fit(X)
    codes = model.transform(X)
    frame = pandas.DataFrame({f"pixel{j}": X[:, j] for j in range(64)})
    frozen = np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
    frozen.flags.writeable = False
    for same in (frame, np.asfortranarray(X), frozen):
        other = clone(model).fit(same)
        np.testing.assert_array_equal(other.transform(same), codes)
        X_hat = other.inverse_transform(np.asfortranarray(codes))
        np.testing.assert_array_equal(X_hat, model.inverse_transform(codes))
    assert clone(model).set_params(random_state=1).fit(X).loss_curve_ != model.loss_curve_


@over(SETTINGS)
@pytest.mark.parametrize("factor", [1e-100, 1e100])
def test_the_scale_of_the_data_does_not_matter(model, factor, digits):
    """Relative errors change by less than 2 %, with noise of the same relative size as well."""
    X = digits[0][:150]
    before = error(clone(model).set_params(noise=0.1).fit(X), X)
    model.set_params(noise=0.1 * factor).fit(factor * X)
    assert relative_error(X, rebuilt(model, factor * X) / factor) == pytest.approx(before, rel=0.02)


@over(SETTINGS)
def test_neither_a_large_mean_nor_float32_costs_digits(model, digits):
    """Samples far from 0 are centred in their own precision; float32 stays float32."""
    X, shift = digits[0][:150], 1e8
    before = error(clone(model).fit(X), X)
    single = X.astype(np.float32)
    codes = clone(model).fit(single).transform(single)
    X_hat = rebuilt(clone(model).fit(single), single)
    assert codes.dtype == X_hat.dtype == np.float32
    assert relative_error(X, X_hat) == pytest.approx(before, rel=0.01)
    if getattr(model, "offset", True):
        X_hat = rebuilt(model.fit(X + shift), X + shift) - shift
        assert relative_error(X, X_hat) == pytest.approx(before, rel=1e-3)


@over(ONE_EACH)
def test_callbacks_see_the_model_and_change_nothing(model, digits, capsys):
    """The fit is the same to the bit as without; a progress bar has the estimator's name."""
    X, seen = digits[0][:150], []
    plain = clone(model).fit(X).transform(X)

    def callback(state):
        seen.append(error(state.model, X))
        assert state.loss == state.model.loss_curve_[-1]

    np.testing.assert_array_equal(model.set_params(callback=callback).fit(X).transform(X), plain)
    assert len(seen) == model.n_iter_
    assert max(seen) < 1
    assert capsys.readouterr() == ("", "")
    model.set_params(verbose=True).fit(X)
    assert type(model).__name__ in capsys.readouterr().err


def test_an_interrupt_anywhere_leaves_one_model_as_a_whole():
    """At each line of a descent: encoder and decoder of one epoch, or no trace."""
    t = np.linspace(-1, 1, 20)
    X = np.column_stack([t, t**2])
    start = AKPCA(1, n_epochs=0, random_state=0).fit(X)
    epochs = [(start.encoder_, start.decoder_)]

    def note(state):
        epochs.append((state.model.encoder_, state.model.decoder_))

    model = AKPCA(1, n_epochs=3, learning_rate=0.1, random_state=0, callback=note).fit(X)
    assert model.best_epoch_ > 1
    model.set_params(callback=None)

    def check(again):
        pair = again.encoder_, again.decoder_
        assert any(all(map(np.array_equal, pair, epoch)) for epoch in epochs)
        assert len(again.loss_curve_) == again.n_iter_

    interrupt_anywhere(model, X, ("fit", "run", "_keep"), check)


def test_an_interrupt_anywhere_of_the_rounds():
    """At each line: a model whose curve has a value for each round, at first PCA, or no trace."""
    X = np.random.default_rng(0).standard_normal((30, 4))

    def check(model):
        assert model.n_iter_ == len(model.loss_curve_) - 1
        assert np.isfinite(model.transform(X)).all()

    model = RidgeAutoencoder(1, ridge=0.01, n_rounds=3, random_state=0)
    interrupt_anywhere(model, X, ("fit", "_learn", "_finished"), check)


ODD = {
    "zero": np.zeros((12, 3)),
    "constant": np.full((12, 3), 0.7),
    "one feature": np.linspace(0, 1, 12)[:, None],
    "two samples": np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.5]]),
    "rank 1": np.outer(np.linspace(1, 2, 12), [1.0, 2.0, 3.0]),
    "one-hot": np.eye(12),
    "duplicates": np.tile(np.eye(3), (4, 1)),
    "some zero": np.where(np.arange(12)[:, None] % 3, np.linspace(0, 1, 36).reshape(12, 3), 0),
    "tiny": 1e-200 * np.eye(12),
    "an outlier": np.eye(12) + 1e6 * np.outer(np.eye(12)[0], np.eye(12)[1]),
}


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("name", ODD)
@over(SETTINGS)
def test_odd_samples(model, name, k):
    """Finite answers without a warning, or an error that names n_components."""
    model.set_params(n_components=k)
    if isinstance(model, Autoencoder):
        model.set_params(validation_fraction=0, n_epochs=100, learning_rate=0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype in (np.float64, np.float32):
            X = ODD[name].astype(dtype)
            if isinstance(model, DataSpanAKPCA):
                model.set_params(n_landmarks=len(X))
            few = isinstance(model, RidgeAutoencoder) or not getattr(model, "offset", True)
            if few and k > X.shape[1]:
                with pytest.raises(ValueError, match="n_components=2 must not be more than 1"):
                    model.fit(X)
                return
            X_hat = rebuilt(model.fit(X), X)
            assert X_hat.dtype == dtype
            assert np.isfinite(X_hat).all()
            if np.ptp(X, axis=0).max() < 1e-6 and getattr(model, "init", None) != "random":
                np.testing.assert_allclose(X_hat, X, atol=5e-2)


@over(SETTINGS)
def test_bad_data_is_refused(model, digits):
    """An error names what is wrong with samples or codes, and a fitted model stays."""
    X = digits[0][:60]
    with pytest.raises(NotFittedError):
        model.inverse_transform(X)
    for bad, message in (
        (np.where(X > 0.9, np.nan, X), "NaN"),
        (np.where(X > 0.9, np.inf, X), "infinity"),
        (X[:1], "minimum of 2"),
        (1e200 * X, "X is too large: float64"),
        ((1e25 * X).astype(np.float32), "X is too large: float32"),
        (1e308 * X, "X is too large: float64"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(bad)
    codes = model.fit(X).transform(X)
    with pytest.raises(ValueError, match="3 components"):
        model.inverse_transform(X)
    with pytest.raises(ValueError, match="64 features"):
        model.transform(X[:, 1:])
    for method, size in ((model.transform, 1e308), (model.score_samples, 1e200)):
        with pytest.raises(ValueError, match="scale X down"):
            method(size * np.sign(X))
    np.testing.assert_array_equal(model.transform(X), codes)


@over(ONE_EACH)
@pytest.mark.parametrize("speckle", [False, True], ids=["a number", "a function"])
def test_training_on_noise_denoises(model, speckle, digits):
    """Corrupted samples are rebuilt better by a model that was trained on corrupted ones."""

    def spoil(X, rng):
        return np.where(rng.random_sample(X.shape) < 0.3, 0, X)

    X, X_new = digits
    rng = np.random.RandomState(0)
    noisy = spoil(X_new, rng) if speckle else X_new + 0.4 * rng.standard_normal(X_new.shape)
    model.set_params(n_components=8)
    if isinstance(model, RidgeAutoencoder):
        model.set_params(n_centers=150, ridge=1e-4)
    else:
        model.set_params(n_epochs=12)
    if isinstance(model, Autoencoder):
        model.set_params(n_epochs=80, hidden_layer_sizes=(64,))
    clean, robust = (
        clone(model).set_params(noise=noise).fit(X) for noise in (0, spoil if speckle else 0.4)
    )
    errors = [relative_error(X_new, rebuilt(m, noisy)) for m in (clean, robust)]
    assert errors[1] < 0.97 * errors[0]
    np.testing.assert_array_equal(clean.transform(X), clone(model).fit(X).transform(X))


@over(ONE_EACH)
def test_noise_that_breaks_samples_is_refused(model, digits):
    """Their shape, their values, or a size that overflows; and strings, once names of noise."""
    for noise, message in (
        (lambda X, rng: X[:, :2], "noise must return finite samples of the shape it gets"),
        (lambda X, rng: X * np.nan, "noise must return finite samples of the shape it gets"),
        ("gaussian", "noise"),
        (1e200, r"noise=1e\+200 is too large for X of scale"),
    ):
        with pytest.raises(ValueError, match=message):
            model.set_params(noise=noise).fit(digits[0][:50])


BAD = [
    (AKPCA, {"n_components": 11, "offset": False}, "n_components=11 must not be more than 10"),
    (AKPCA, {"n_components": 15}, "n_components=15 must not be more than 14"),
    (DataSpanAKPCA, {"n_landmarks": 31}, "n_landmarks=31, but X has only 30 samples"),
    (DataSpanAKPCA, {"n_components": 8, "n_landmarks": 3}, "the span of 3 landmarks"),
    (DataSpanAKPCA, {"n_components": 4, "n_landmarks": 3, "offset": False}, "of 3 landmarks"),
    (RidgeAutoencoder, {"n_components": 10_000}, "n_components=10000 must not be more than 4"),
    (Autoencoder, {"hidden_layer_sizes": (10, 0)}, "hidden_layer_sizes must be positive integers"),
    (Autoencoder, {"hidden_layer_sizes": (2.5,)}, "hidden_layer_sizes must be positive integers"),
    (Autoencoder, {"validation_fraction": 0.01}, "validation_fraction=0.01 of 30 samples"),
]


@pytest.mark.parametrize(("cls", "options", "message"), BAD)
def test_bad_arguments_are_named(cls, options, message):
    """An impossible argument is named, with what is allowed."""
    with pytest.raises(ValueError, match=message):
        cls(**options).fit(np.random.default_rng(0).uniform(0, 1, (30, 4)))


GONE = {
    AKPCA: estimators.GONE,
    DataSpanAKPCA: estimators.GONE | {"rank": "n_landmarks"},
    Autoencoder: network.GONE,
}


@pytest.mark.parametrize("cls", GONE)
def test_an_argument_that_is_gone_is_refused_with_its_replacement(cls):
    """At once, whatever its value; and no estimator still has it under its name."""
    for name, instead in GONE[cls].items():
        with pytest.raises(TypeError, match=f"{cls.__name__} has no parameter {name}: .*{instead}"):
            cls(3, **{name: None})
        assert name not in cls().get_params()
