"""The deep autoencoder: exact gradients, PCA as its linear case, and scikit-learn's manners."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from akpca import Autoencoder, load_dataset, pca, reconstruction_error
from akpca.autoencoding.network import Network
from akpca.datasets import add_gaussian_noise, add_speckle

DIGITS = load_dataset("digits").X / 16


def objective(network, X, noisy, sparsity, contraction):
    """Return the objective of training, with the Jacobian of the code by finite differences."""
    run = lambda Z: network.run(Z)[network.code]  # noqa: E731
    steps = 1e-5 * np.eye(X.shape[1])
    jacobian = np.array([(run(noisy + h) - run(noisy - h)) / 2e-5 for h in steps])
    error = np.mean((network.run(noisy)[-1] - X) ** 2)
    return (
        error
        + sparsity * np.mean(np.abs(run(noisy)))
        + contraction * np.mean(np.sum(jacobian**2, axis=0))
    )


@pytest.mark.parametrize("activation", ["elu", "tanh"])
@pytest.mark.parametrize(
    "widths, code", [([4, 2, 4], 1), ([5, 6, 2, 6, 5], 2), ([4, 6, 5, 3, 5, 6, 4], 3)]
)
@pytest.mark.parametrize("sparsity, contraction", [(0, 0), (0.7, 0), (0, 0.4), (0.3, 0.2)])
def test_gradient_is_that_of_finite_differences(activation, widths, code, sparsity, contraction):
    """Backpropagation gives the derivative of the objective by every weight and bias."""
    rng = np.random.RandomState(0)
    network = Network(widths, code, activation, np.dtype(np.float64))
    network.draw(rng)
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


def test_code_and_output_are_linear():
    """Neither has an activation: large inputs give large codes and outputs, of both signs."""
    network = Network([3, 4, 2, 4, 3], 2, "tanh", np.dtype(np.float64))
    network.draw(np.random.RandomState(0))
    for layer in (2, 4):
        H, (W, b) = network.run(np.ones((1, 3)))[layer - 1], network.layers[layer - 1]
        np.testing.assert_array_equal(network.run(np.ones((1, 3)))[layer], H @ W + b)


def test_without_hidden_layers_it_finds_the_subspace_of_pca():
    """A linear autoencoder is PCA: the same error, with a basis that need not be orthonormal."""
    X = DIGITS[:600]
    options = {"hidden_layer_sizes": (), "n_epochs": 200, "validation_fraction": 0}
    model = Autoencoder(5, random_state=0, learning_rate=1e-2, **options).fit(X)
    error = reconstruction_error(X, model.inverse_transform(model.transform(X)))
    best = reconstruction_error(X, pca(X, 5).reconstruct(X))
    assert best < error < 1.001 * best


def test_it_is_below_pca_on_digits_it_has_not_seen():
    """With hidden layers, images are reconstructed better than by as many linear components."""
    X, X_new = DIGITS[:1200], DIGITS[1200:]
    model = Autoencoder(5, n_epochs=40, random_state=0).fit(X)
    error = reconstruction_error(X_new, model.inverse_transform(model.transform(X_new)))
    assert error < 0.9 * reconstruction_error(X_new, pca(X, 5).reconstruct(X_new))
    assert len(model.loss_curve_) == len(model.validation_curve_) == model.n_iter_ == 40
    assert model.validation_curve_[model.best_epoch_ - 1] == min(model.validation_curve_)


def test_results_repeat_and_do_not_depend_on_scale_and_offset():
    """The same seed gives the same bits; units and origin of the samples do not matter."""
    model = Autoencoder(2, n_epochs=2, random_state=3)
    codes = model.fit(DIGITS[:200]).transform(DIGITS)
    np.testing.assert_array_equal(model.fit(DIGITS[:200]).transform(DIGITS), codes)
    moved = model.fit(1024.0 * DIGITS[:200] + 64).transform(1024.0 * DIGITS + 64)
    np.testing.assert_allclose(moved, codes, atol=1e-3 * np.abs(codes).max())


def test_noise_and_weight_decay_regularise():
    """Both keep the network from learning samples by heart: larger errors on those it has seen."""

    def error(**options):
        model = Autoencoder(8, n_epochs=60, random_state=0, validation_fraction=0, **options)
        model.fit(DIGITS[:100])
        return reconstruction_error(
            DIGITS[:100], model.inverse_transform(model.transform(DIGITS[:100]))
        )

    plain = error()
    assert error(noise_level=0.3) > 1.2 * plain
    assert error(weight_decay=50.0) > 1.2 * plain


@pytest.mark.parametrize(
    "noise, level, corrupt", [("gaussian", 0.3, add_gaussian_noise), ("speckle", 0.4, add_speckle)]
)
def test_training_with_noise_removes_it(noise, level, corrupt):
    """On noisy samples not seen before, the network that was trained with noise is ahead."""
    X, X_new = DIGITS[:1200], DIGITS[1200:]
    noisy = corrupt(X_new, level, random_state=0)

    def error(noise_level):
        model = Autoencoder(8, n_epochs=40, random_state=0, noise=noise, noise_level=noise_level)
        return reconstruction_error(X_new, model.fit(X).inverse_transform(model.transform(noisy)))

    assert error(level) < 0.9 * error(0.0)


def test_a_sparsity_penalty_makes_codes_sparse():
    """A larger part of a code is close to 0, by the ratio of its two norms."""

    def share(sparsity):
        model = Autoencoder(80, n_epochs=60, random_state=0, weight_decay=1.0, sparsity=sparsity)
        codes = np.abs(model.fit(DIGITS[:600]).transform(DIGITS[:600]))
        return np.mean(codes < 0.1 * codes.max(axis=1, keepdims=True))

    assert share(0.3) > share(0.0) + 0.2


def test_a_contractive_penalty_makes_codes_insensitive():
    """A small change of a sample moves its code less, in units of the spread of codes."""
    rng = np.random.default_rng(0)
    X = DIGITS[:600]
    noisy = X + 0.1 * rng.standard_normal(X.shape)

    def sensitivity(contraction):
        model = Autoencoder(
            4, n_epochs=40, random_state=0, weight_decay=1.0, contraction=contraction
        ).fit(X)
        codes = model.transform(X)
        return np.mean((model.transform(noisy) - codes) ** 2) / codes.var(axis=0).mean()

    assert sensitivity(0.1) < 0.7 * sensitivity(0.0)


def test_divergence_is_reported_and_the_best_weights_are_kept():
    """A step that is far too large ends with a warning, and codes are finite."""
    model = Autoencoder(2, learning_rate=1e18, n_epochs=5, random_state=0)
    with pytest.warns(ConvergenceWarning, match="smaller learning_rate"):
        model.fit(DIGITS[:200])
    assert np.isfinite(model.transform(DIGITS)).all()


def test_callback_sees_every_pass_and_may_end_the_fit():
    """One object with the usual attributes; a true answer stops."""
    seen = []

    def callback(state):
        seen.append((state.n_iter, state.n_iter_max, state.loss, state.model.transform(DIGITS[:3])))
        return state.n_iter == 3

    model = Autoencoder(2, n_epochs=9, callback=callback, random_state=0).fit(DIGITS[:200])
    assert [entry[:2] for entry in seen] == [(1, 9), (2, 9), (3, 9)]
    assert [entry[2] for entry in seen] == model.loss_curve_
    assert model.n_iter_ == 3


def test_an_interrupt_keeps_the_best_weights():
    """Ctrl-C ends the fit with one warning, and the model works."""

    def interrupt(state):
        if state.n_iter == 2:
            raise KeyboardInterrupt

    model = Autoencoder(2, n_epochs=9, callback=interrupt, random_state=0)
    with pytest.warns(ConvergenceWarning, match="interrupted in epoch 3"):
        model.fit(DIGITS[:200])
    assert model.n_iter_ == 2
    assert np.isfinite(model.inverse_transform(model.transform(DIGITS))).all()


def test_constant_samples_are_reproduced():
    """Samples that do not vary come back as they are."""
    X = np.full((20, 3), 0.3)
    model = Autoencoder(1, n_epochs=1, validation_fraction=0, random_state=0).fit(X)
    assert np.isfinite(model.inverse_transform(model.transform(X))).all()


def test_pickled_model_has_the_same_codes():
    """Weights are stored once, and survive."""
    model = Autoencoder(2, n_epochs=1, random_state=0).fit(DIGITS[:200])
    stored = pickle.dumps(model)
    assert len(stored) < 1.2 * model._network.theta.nbytes + 5000
    np.testing.assert_array_equal(pickle.loads(stored).transform(DIGITS), model.transform(DIGITS))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"hidden_layer_sizes": (10, 0)}, "hidden_layer_sizes must be positive integers"),
        ({"hidden_layer_sizes": (2.5,)}, "hidden_layer_sizes must be positive integers"),
        ({"hidden_layer_sizes": (True,)}, "hidden_layer_sizes must be positive integers"),
        ({"validation_fraction": 0.01}, "validation_fraction=0.01 of 20 samples leaves none"),
        ({"activation": "relu"}, "'activation' parameter"),
        ({"noise": "speckle", "noise_level": 1.5}, "noise_level=1.5 must be from 0 to 1"),
    ],
)
def test_bad_parameters_are_named(options, message):
    """The error says which parameter is wrong."""
    with pytest.raises(ValueError, match=message):
        Autoencoder(2, **options).fit(DIGITS[:20])


def test_wrong_number_of_codes_is_named():
    """inverse_transform says how many columns it takes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Autoencoder(2, n_epochs=1, random_state=0).fit(DIGITS[:50])
    with pytest.raises(ValueError, match="3 columns, but the codes have 2"):
        model.inverse_transform(np.zeros((2, 3)))


def test_weights_and_biases_are_the_network():
    """With them, the code and the reconstruction can be computed by hand."""
    model = Autoencoder(2, hidden_layer_sizes=(5,), activation="tanh", n_epochs=1, random_state=0)
    codes = model.fit(DIGITS[:50]).transform(DIGITS[:5])
    (W1, W2, W3, W4), (b1, b2, b3, b4) = model.weights_, model.biases_
    Z = (DIGITS[:5] - model.mean_) / model.scale_
    np.testing.assert_allclose(np.tanh(Z @ W1 + b1) @ W2 + b2, codes, rtol=1e-4, atol=1e-5)
    by_hand = (np.tanh(codes @ W3 + b3) @ W4 + b4) * model.scale_ + model.mean_
    np.testing.assert_allclose(model.inverse_transform(codes), by_hand, rtol=1e-4, atol=1e-5)


def test_numbers_that_are_too_large_are_named():
    """Samples to fit, samples to encode and codes to decode have a limit."""
    model = Autoencoder(2, n_epochs=1, random_state=0)
    with pytest.raises(ValueError, match="X is too large for float64"):
        model.fit(1e200 * DIGITS[:50])
    model.fit(DIGITS[:50])
    with pytest.raises(ValueError, match="samples must be of the size of those"):
        model.transform(1e200 * DIGITS[:5])
    with pytest.raises(ValueError, match="codes must be of the size of those"):
        model.inverse_transform(np.full((1, 2), 1e200))
