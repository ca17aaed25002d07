"""`Autoencoder`: a plain deep network with a linear code, to compare with.

Encoder and decoder are chains of layers h <- s(W h + b), the last of each without the activation s,
so that with no hidden layers the network is linear, and at its best spans the same subspace as PCA.
All weights and biases lie in one array, which the optimiser of :mod:`.optimizers` changes in place;
`gradient` is backpropagation, a few matrix products for a batch.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from numbers import Integral, Real
from typing import Self

import numpy as np
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from ..fitting import FLOATS, Encoder, Interval, StrOptions, check_codes, fit_method
from ..kernels import BLOCK_ROWS
from ..progress import FitProgress, progress_bar, warn_interrupted, warn_user
from ..threads import one_blas_thread
from .optimizers import Adam, cosine

__all__ = ["Autoencoder", "Network"]

# What numbers of samples, passes and units must be.
COUNT = Interval(Integral, 1, None, closed="left")
# Largest mean, and deviation from it: errors are sums of squares.
LARGEST = 1e140


class Network:
    """Layers of widths w_0, ..., w_L, of which layer `code` is the code.

    `theta` holds W_1, b_1, W_2, ... one after another; `layers` are views of it, pairs of shapes
    (w_l, w_{l+1}) and (w_{l+1},). The code and the output have no activation.
    """

    def __init__(self, widths: list[int], code: int, activation: str, dtype: np.dtype):
        self.widths, self.code, self.activation = widths, code, activation
        sizes = [(a + 1) * b for a, b in pairwise(widths)]
        self.theta = np.zeros(sum(sizes), dtype)

    @property
    def layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weights and biases of all layers."""
        return self._views(self.theta)

    def _views(self, theta):
        views, start = [], 0
        for a, b in pairwise(self.widths):
            W = theta[start : start + a * b].reshape(a, b)
            views.append((W, theta[start + a * b : start + (a + 1) * b]))
            start += (a + 1) * b
        return views

    def draw(self, rng: np.random.RandomState) -> None:
        """Draw weights and biases uniformly from +-1 / sqrt(number of inputs of their layer)."""
        for W, b in self.layers:
            for part in (W, b):
                part[:] = rng.uniform(-1, 1, part.shape) / np.sqrt(len(W))

    def run(self, H: np.ndarray, first: int = 0, last: int | None = None) -> list[np.ndarray]:
        """Return H and what the layers from `first` up to `last` make of it, one after another."""
        outputs, layers = [H], self.layers
        for i, (W, b) in enumerate(layers[first:last], start=first + 1):
            H = H @ W
            H += b
            if i not in (self.code, len(layers)):
                self._activate(H)
            outputs.append(H)
        return outputs

    def _activate(self, H):
        if self.activation == "tanh":
            np.tanh(H, out=H)
            return
        negative = np.minimum(H, 0)
        np.exp(negative, out=negative)
        negative -= 1
        np.maximum(H, 0, out=H)
        H += negative

    def _slope(self, H):
        """Return s'(a) by h = s(a): 1 - h^2 for tanh, 1 or h + 1 for ELU."""
        return 1 - H * H if self.activation == "tanh" else np.minimum(H, 0) + 1

    def _bend(self, H):
        """Return s''(a) by h = s(a): -2 h (1 - h^2) for tanh, 0 or h + 1 for ELU."""
        return -2 * H * (1 - H * H) if self.activation == "tanh" else np.where(H < 0, H + 1, 0)

    def gradient(
        self, X: np.ndarray, noisy: np.ndarray, *, sparsity: float = 0.0, contraction: float = 0.0
    ) -> tuple[float, np.ndarray]:
        """Return the sum of ||g(f(noisy)) - x||^2 over a batch, and the gradient of the objective.

        The gradient has the shape of `theta`. The objective is the mean of squared errors over
        samples and features, plus `sparsity` times the mean of |y| over samples and code
        coordinates, plus `contraction` times the mean of ||dy_j/dx||^2 over the same.
        """
        outputs, layers, code = self.run(noisy), self.layers, self.code
        result = np.empty_like(self.theta)
        gradients = self._views(result)
        D = outputs[-1] - X
        loss = float(np.sum(D * D, dtype=np.float64))
        D *= 2 / X.size
        for i in range(len(layers), 0, -1):
            H, (W, _), (dW, db) = outputs[i - 1], layers[i - 1], gradients[i - 1]
            if i == code and sparsity:
                D += sparsity / D.size * np.sign(outputs[code])
            if i == code and contraction:
                by_weights, by_sums = self._contraction(outputs, contraction)
            elif i < code and contraction:
                D += by_sums[i - 1]
            np.matmul(H.T, D, out=dW)
            np.sum(D, axis=0, out=db)
            if i <= code and contraction:
                dW += by_weights[i - 1]
            if i == 1:
                break
            D = D @ W.T
            if i - 1 != code:
                D *= self._slope(H)
        return loss, result

    def _contraction(self, outputs, weight):
        """Return the gradients of the contractive penalty, by W_1 .. and by a_1 .. of the encoder.

        The Jacobian of a code is J = P_0, where P_l = Q_{l+1} W_{l+1}^T, Q_l = P_l diag(s'(a_l))
        and P_L is the transpose of the code's weights; then the same chain is walked back.
        """
        weights = [W for W, _ in self.layers[: self.code]]
        hidden, (b, k) = outputs[1 : self.code], outputs[self.code].shape
        slopes = [self._slope(H)[:, None] for H in hidden]
        P = [np.broadcast_to(weights[-1].T, (b, *weights[-1].T.shape))]
        Q: list[np.ndarray] = []
        for W, slope in zip(weights[-2::-1], slopes[::-1], strict=True):
            Q.insert(0, P[0] * slope)
            P.insert(0, Q[0] @ W.T)
        D = 2 * weight / (b * k) * P[0]
        by_weights, by_sums = [], []
        for W, slope, H, P_l, Q_l in zip(weights, slopes, hidden, P[1:], Q, strict=False):
            by_weights.append(D.reshape(b * k, -1).T @ Q_l.reshape(b * k, -1))
            D = D @ W
            by_sums.append(self._bend(H) * np.sum(D * P_l, axis=1))
            D = D * slope
        return [*by_weights, D.sum(axis=0).T], by_sums


class Autoencoder(Encoder):
    """A deep autoencoder: x -> hidden layers -> code of size k -> hidden layers, mirrored -> x-hat.

    What one would try instead of :class:`akpca.AKPCA`, at its plain best: a linear code and output,
    samples centred and divided by their root mean squared entry, Adam with steps that fall to 0 as
    half a cosine, and the best weights on samples held out.

    Parameters
    ----------
    n_components : int, default=2
        k, the size of the code.
    hidden_layer_sizes : tuple of int, default=(256, 128)
        Widths of the encoder's hidden layers; the decoder has the same in reverse. () is linear.
    activation : {'elu', 'tanh'}, default='elu'
        Of hidden units: a for a > 0 and e^a - 1 below, or tanh a.
    learning_rate : float, default=2e-3
        The largest step of Adam.
    weight_decay : float, default=0.0
        Part of every weight that is taken away per step, in units of the step.
    noise : {'gaussian', 'speckle'}, default='gaussian'
        What is done to samples before they are encoded in training: Gaussian noise is added, or
        features are set to 0. What is decoded is compared with the clean samples: a denoising
        autoencoder.
    noise_level : float, default=0.0
        Standard deviation of the noise, in units of X, or probability of a 0.
    sparsity : float, default=0.0
        Weight of the mean of |y_j|, beside the mean squared error of (x - mean_) / scale_: a
        sparse autoencoder, most of whose code is about 0 for any one sample.
    contraction : float, default=0.0
        Weight of the mean of ||dy_j/dx||^2: a contractive autoencoder, whose code changes little
        with x. Costs k times as much as the rest of a step. Both penalties can be evaded by an
        encoder of small and a decoder of large weights; `weight_decay` prevents that.
    n_epochs : int, default=50
        Passes over the samples.
    batch_size : int, default=100
        Samples of a step.
    validation_fraction : float, default=0.1
        The part held out, on which the best weights are chosen. 0 keeps the last weights.
    random_state : int, RandomState instance or None, default=None
        Of the first weights, the samples held out, their order and noise.
    verbose : bool, default=False
        Show a progress bar.
    callback : callable, default=None
        Called with a :class:`akpca.progress.FitProgress` after every pass; true ends the fit.

    Attributes
    ----------
    weights_, biases_ : list of ndarray
        Of all layers, from x to x-hat, for samples (x - mean_) / scale_.
    mean_ : ndarray of shape (n_features,)
    scale_ : float
        Root mean squared entry of the centred samples.
    loss_curve_, validation_curve_ : list of float
        Mean of ||x-hat - x||^2 during each pass, and on the samples held out after it.
    best_epoch_, n_iter_ : int
        The pass whose weights were kept, and the number of passes.
    n_features_in_, feature_names_in_

    See Also
    --------
    AKPCA : A quadratic encoder and an eigenvector as decoder.
    sklearn.neural_network.MLPRegressor : Whose code can't be linear.

    References
    ----------
    Hinton and Salakhutdinov, "Reducing the dimensionality of data with neural networks",
    Science 313, 2006. Rifai, Vincent, Muller, Glorot and Bengio, "Contractive auto-encoders",
    ICML 2011.

    Examples
    --------
    >>> from akpca import Autoencoder, load_dataset
    >>> X = load_dataset("digits").X
    >>> model = Autoencoder(2, hidden_layer_sizes=(64,), n_epochs=5, random_state=0).fit(X)
    >>> model.inverse_transform(model.transform(X)).shape
    (1797, 64)
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        "n_components": [COUNT],
        "hidden_layer_sizes": [tuple, list],
        "activation": [StrOptions({"elu", "tanh"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "noise": [StrOptions({"gaussian", "speckle"})],
        "noise_level": [Interval(Real, 0, None, closed="left")],
        "sparsity": [Interval(Real, 0, None, closed="left")],
        "contraction": [Interval(Real, 0, None, closed="left")],
        "n_epochs": [COUNT],
        "batch_size": [COUNT],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    def __init__(
        self,
        n_components=2,
        *,
        hidden_layer_sizes=(256, 128),
        activation="elu",
        learning_rate=2e-3,
        weight_decay=0.0,
        noise="gaussian",
        noise_level=0.0,
        sparsity=0.0,
        contraction=0.0,
        n_epochs=50,
        batch_size=100,
        validation_fraction=0.1,
        random_state=None,
        verbose=False,
        callback=None,
    ) -> None:
        self.n_components = n_components
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.noise = noise
        self.noise_level = noise_level
        self.sparsity = sparsity
        self.contraction = contraction
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @fit_method
    def fit(self, X, y=None) -> Self:
        """Learn the weights; an interrupt keeps the best so far. Return self.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored
        """
        X = validate_data(self, X, dtype=FLOATS, ensure_min_samples=2)
        network, Z, held_out, rng = self._begin(X)
        n, unit = len(Z), self.scale_**2
        self.loss_curve_, self.validation_curve_ = [], []
        self.best_epoch_ = self.n_iter_ = 0
        best = network.theta.copy()
        optimizer, steps = Adam(), -(-n // self.batch_size)
        schedule = partial(cosine, total=steps * self.n_epochs)
        bar = progress_bar(range(1, self.n_epochs + 1), shown=self.verbose, desc="Autoencoder")
        try:
            for epoch in bar:
                loss = self._epoch(network, Z, optimizer, rng, schedule, steps * (epoch - 1))
                error = self._error(network, held_out) if len(held_out) else loss
                if not np.isfinite(error):
                    raise FloatingPointError
                self.loss_curve_.append(loss * unit)
                self.n_iter_ = epoch
                if len(held_out):
                    self.validation_curve_.append(error * unit)
                if not len(held_out) or error * unit <= min(self.validation_curve_):
                    self.best_epoch_ = epoch
                    np.copyto(best, network.theta)
                bar.set_postfix(loss=f"{self.loss_curve_[-1]:.4g}", error=f"{error * unit:.4g}")
                if self.callback is not None:
                    self._network = network
                    if self.callback(FitProgress(epoch, self.n_epochs, self.loss_curve_[-1], self)):
                        break
        except FloatingPointError:
            warn_user(
                f"the descent diverged in epoch {self.n_iter_ + 1}: the best weights so far are "
                f"kept; give a smaller learning_rate than {self.learning_rate}"
            )
        except KeyboardInterrupt:
            warn_interrupted(f"in epoch {self.n_iter_ + 1}")
        network.theta[:] = best
        self._network = network
        return self

    def _begin(self, X):
        """Set mean and scale; return the network, samples for it, those held out, and numbers."""
        sizes = list(self.hidden_layer_sizes)
        if not all(map(COUNT.is_satisfied_by, sizes)):
            raise ValueError(f"hidden_layer_sizes must be positive integers, got {sizes}")
        rng, (n, d) = check_random_state(self.random_state), X.shape
        held_out = round(self.validation_fraction * n)
        if self.validation_fraction and not 1 <= held_out < n:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} of {n} samples leaves none to "
                "train with or to hold out; give another, or 0"
            )
        if self.noise == "speckle" and self.noise_level > 1:
            raise ValueError(
                f"noise_level={self.noise_level} must be from 0 to 1 for noise='speckle', the "
                "probability of a 0"
            )
        self._measure(X)
        widths = [d, *sizes, self.n_components, *sizes[::-1], d]
        network = Network(widths, len(sizes) + 1, self.activation, np.dtype(np.float32))
        network.draw(rng)
        Z = self._forward(X)[rng.permutation(n)]
        return network, Z[held_out:], Z[:held_out], rng

    def _measure(self, X):
        """Set the mean and the scale of samples."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean = X.mean(axis=0, dtype=np.float64)
            largest = float(np.abs(X - mean).max())
            size = max(largest, float(np.abs(mean).max()))
        if not size < min(float(np.finfo(X.dtype).max) / 4, LARGEST):
            raise ValueError(f"X is too large for {X.dtype}, or for its squares: scale it down")
        rms = largest * np.sqrt(np.mean(((X - mean) / (largest or 1.0)) ** 2))
        # what rounding leaves of samples that do not vary is no scale
        scale = max(float(rms), 4 * float(np.finfo(X.dtype).eps * np.abs(mean).max()))
        self.mean_ = mean.astype(X.dtype)
        self.scale_ = scale if scale > np.finfo(X.dtype).tiny else 1.0

    def _epoch(self, network, Z, optimizer, rng, schedule, first):
        """Make one pass; return the mean loss of a sample."""
        total, order = 0.0, rng.permutation(len(Z))
        flops = 2.0 * min(len(Z), self.batch_size) * network.theta.size
        with one_blas_thread(flops), np.errstate(all="ignore"):  # what overflows is found below
            for step, rows in enumerate(gen_batches(len(Z), self.batch_size), start=first):
                X = Z[order[rows]]
                noisy = self._corrupt(X, rng) if self.noise_level else X
                loss, gradient = network.gradient(
                    X, noisy, sparsity=self.sparsity, contraction=self.contraction
                )
                total += loss
                if not np.isfinite(loss):
                    raise FloatingPointError
                rate = self.learning_rate * schedule(step)
                if self.weight_decay:
                    network.theta *= np.float32(1 - rate * self.weight_decay)
                optimizer.step([network.theta], lambda _, g=gradient: [g], rate)
        return total / len(Z)

    def _corrupt(self, Z, rng):
        if self.noise == "gaussian":
            noise = np.float32(self.noise_level / self.scale_)
            return Z + noise * rng.standard_normal(Z.shape).astype(Z.dtype)
        zero = self._forward(np.zeros_like(self.mean_))
        return np.where(rng.uniform(size=Z.shape) < self.noise_level, zero, Z)

    def _error(self, network, Z):
        flops = 2.0 * BLOCK_ROWS * network.theta.size
        with one_blas_thread(flops), np.errstate(all="ignore"):
            blocks = (Z[rows] for rows in gen_batches(len(Z), BLOCK_ROWS))
            return sum(float(np.sum((network.run(B)[-1] - B) ** 2)) for B in blocks) / len(Z)

    def _forward(self, X):
        with np.errstate(over="ignore", under="ignore"):
            return ((X - self.mean_) / self.scale_).astype(np.float32)

    def _run(self, Z, first, last, dtype):
        blocks = (Z[rows] for rows in gen_batches(len(Z), BLOCK_ROWS))
        with np.errstate(all="ignore"):
            parts = [self._network.run(B, first, last)[-1] for B in blocks]
            return np.concatenate(parts, dtype=dtype)

    def transform(self, X) -> np.ndarray:
        """Return the codes of the rows of X, shape (n_new, n_components).

        Parameters
        ----------
        X : array-like of shape (n_new, n_features)
        """
        check_is_fitted(self, "_network")
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        codes = self._run(self._forward(X), 0, self._network.code, X.dtype)
        if not np.isfinite(codes).all():
            raise ValueError(
                f"X is too large, {np.abs(X).max():.1e}: samples must be of the size of those "
                f"that were fitted, whose scale_ is {self.scale_:.1e}"
            )
        return codes

    def inverse_transform(self, X) -> np.ndarray:
        """Return the samples that the decoder makes of codes, shape (n_new, n_features).

        Parameters
        ----------
        X : array-like of shape (n_new, n_components)
        """
        check_is_fitted(self, "_network")
        Y = check_codes(X, self._n_features_out, estimator=self)
        with np.errstate(over="ignore", under="ignore"):
            Z = self._run(Y.astype(np.float32), self._network.code, None, Y.dtype)
            X_hat = Z * Y.dtype.type(self.scale_) + self.mean_.astype(Y.dtype)
        if not np.isfinite(X_hat).all():
            raise ValueError(
                f"X is too large, {np.abs(Y).max():.1e}: codes must be of the size of those that "
                f"`transform` returns, and {Y.dtype} must hold the samples"
            )
        return X_hat

    @property
    def weights_(self) -> list[np.ndarray]:
        """Weights of all layers, (inputs, outputs)."""
        return [W for W, _ in self._network.layers]

    @property
    def biases_(self) -> list[np.ndarray]:
        """Biases of all layers."""
        return [b for _, b in self._network.layers]

    @property
    def _n_features_out(self):
        return self._network.widths[self._network.code]
