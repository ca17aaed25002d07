"""The deep autoencoder: exact gradients, PCA as its linear case, what penalties do."""

import numpy as np
import pytest
from helpers import error
from sklearn.exceptions import ConvergenceWarning

from akpca import Autoencoder, load_dataset, pca, relative_error
from akpca.autoencoding.network import Network
from akpca.autoencoding.optimizers import Adam

DIGITS = load_dataset("digits").X / 16


def objective(network, X, noisy, sparsity, contraction):
    """Return the objective of training, with the Jacobian of the code by finite differences."""
    run = lambda Z: network.run(Z)[network.code]  # noqa: E731
    steps = 1e-5 * np.eye(X.shape[1])
    jacobian = np.array([(run(noisy + h) - run(noisy - h)) / 2e-5 for h in steps])
    squares = np.mean((network.run(noisy)[-1] - X) ** 2)
    penalty = sparsity * np.mean(np.abs(run(noisy)))
    return squares + penalty + contraction * np.mean(np.sum(jacobian**2, axis=0))


@pytest.mark.parametrize("activation", ["elu", "tanh"])
@pytest.mark.parametrize(
    "widths, code", [([4, 2, 4], 1), ([5, 6, 2, 6, 5], 2), ([3, 4, 3, 2, 3, 4, 3], 3)]
)
@pytest.mark.parametrize("sparsity, contraction", [(0, 0), (0.7, 0), (0.3, 0.2)])
def test_gradient_is_that_of_finite_differences(activation, widths, code, sparsity, contraction):
    """Backpropagation gives the derivative of the objective by every weight and bias."""
    rng = np.random.RandomState(0)
    network = Network(widths, code, activation, np.dtype(np.float64))
    network.draw(rng)
    for W, b in network.layers:  # uniform in +-1 / sqrt(number of inputs)
        assert max(np.abs(W).max(), np.abs(b).max()) <= len(W) ** -0.5 < 2 * np.abs(W).max()
    X, noisy = rng.standard_normal((2, 7, widths[0]))
    penalties = dict(sparsity=sparsity, contraction=contraction)
    loss, gradient = network.gradient(X, noisy, **penalties)
    assert loss == pytest.approx(np.sum((network.run(noisy)[-1] - X) ** 2))
    h, start = 1e-5, network.theta.copy()
    for i in range(len(start)):
        sides = []
        for sign in (1, -1):
            network.theta[:] = start
            network.theta[i] += sign * h
            sides.append(objective(network, X, noisy, **penalties))
        assert gradient[i] == pytest.approx((sides[0] - sides[1]) / (2 * h), abs=2e-7)


def test_weights_and_biases_are_the_network():
    """With them, the code and the reconstruction can be computed by hand: both are linear."""
    model = Autoencoder(2, hidden_layer_sizes=(5,), n_epochs=1, random_state=0)
    codes = model.fit(DIGITS[:50]).transform(DIGITS[:5])
    (W1, W2, W3, W4), (b1, b2, b3, b4) = model.weights_, model.biases_
    elu = lambda A: np.where(A > 0, A, np.expm1(np.minimum(A, 0)))  # noqa: E731
    Z = (DIGITS[:5] - model.mean_) / model.scale_
    np.testing.assert_allclose(elu(Z @ W1 + b1) @ W2 + b2, codes, atol=1e-9)
    by_hand = (elu(codes @ W3 + b3) @ W4 + b4) * model.scale_ + model.mean_
    np.testing.assert_allclose(model.inverse_transform(codes), by_hand, atol=1e-9)


def test_without_hidden_layers_it_finds_the_subspace_of_pca():
    """A linear autoencoder is PCA: the same error, with a basis that need not be orthonormal."""
    X = DIGITS[:300]
    options = {"hidden_layer_sizes": (), "n_epochs": 200, "validation_fraction": 0}
    model = Autoencoder(5, random_state=0, learning_rate=1e-2, **options).fit(X)
    best = relative_error(X, pca(X, 5).reconstruct(X))
    assert best < error(model, X) < 1.001 * best
    assert model.best_epoch_ == model.n_iter_ == 200
    assert model.validation_curve_ == []


def test_it_is_below_pca_on_digits_it_has_not_seen():
    """With hidden layers, images are rebuilt better than by as many linear components."""
    X, X_new = DIGITS[:1200], DIGITS[1200:]
    model = Autoencoder(5, hidden_layer_sizes=(64,), n_epochs=30, random_state=0).fit(X)
    assert error(model, X_new) < 0.9 * relative_error(X_new, pca(X, 5).reconstruct(X_new))
    assert len(model.loss_curve_) == len(model.validation_curve_) == model.n_iter_ == 30
    assert model.validation_curve_[model.best_epoch_ - 1] == min(model.validation_curve_)
    assert model.weights_[0].dtype == np.float32


@pytest.mark.parametrize("option", [{"noise": 0.3}, {"weight_decay": 50.0}], ids=str)
def test_noise_and_weight_decay_regularise(option):
    """Both keep the network from learning samples by heart: larger errors on those it has seen."""
    options = {"hidden_layer_sizes": (32,), "n_epochs": 60, "random_state": 0}
    plain, held = (
        Autoencoder(8, validation_fraction=0, **options, **more).fit(DIGITS[:100])
        for more in ({}, option)
    )
    assert error(held, DIGITS[:100]) > 1.2 * error(plain, DIGITS[:100])


@pytest.mark.parametrize("learning_rate", [1e3, 1e18, 1e100])
def test_divergence_is_reported_and_the_best_weights_are_kept(learning_rate):
    """Steps that are far too large end with a warning, and what is kept is not their result."""
    X = DIGITS[:200]
    model = Autoencoder(2, learning_rate=learning_rate, n_epochs=5, random_state=0)
    with pytest.warns(ConvergenceWarning, match="smaller learning_rate"):
        model.fit(X)
    assert error(model, X) < 2


def test_an_interrupt_of_the_first_pass_keeps_the_weights_that_it_has_reached(monkeypatch):
    """Not those of the start, which are random."""
    X = np.random.default_rng(0).standard_normal((1500, 5)) * [9, 1, 1, 1, 1]
    step, seen = Adam.step, []

    def interrupted(self, *args):
        seen.append(args)
        if len(seen) == 12:
            raise KeyboardInterrupt
        step(self, *args)

    monkeypatch.setattr(Adam, "step", interrupted)
    model = Autoencoder(2, hidden_layer_sizes=(), learning_rate=0.05, random_state=0)
    with pytest.warns(ConvergenceWarning, match="interrupted in epoch 1"):
        model.fit(X)
    assert model.n_iter_ == model.best_epoch_ == 0
    assert error(model, X) < 0.8
