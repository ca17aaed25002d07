"""`Autoencoder`: a plain deep network with a linear code, to compare with.

Encoder and decoder are chains of layers h <- s(W h + b), the last of each without the activation s,
so that with no hidden layers the network is linear, and at its best spans the same subspace as PCA.
All weights and biases lie in one array, which Adam changes in place.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from numbers import Integral, Real
from typing import Self

import numpy as np
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import validate_data

from ..fitting import Interval, fit_method, moved
from ..kernels import BLOCK_ROWS
from ..progress import FitProgress, progress_bar, warn_interrupted, warn_user
from ..threads import one_blas_thread
from .coordinates import SAMPLES, Coder, Coordinates
from .optimizers import Adam, cosine
from .training import BATCH_SIZE, DIVERGED

__all__ = ["Autoencoder", "Network"]

# What numbers of passes and units must be.
COUNT = Interval(Integral, 1, None, closed="left")
GONE = {
    "activation": "it is ELU; Network has others",
    "batch_size": "it is 100",
    "noise_level": "give the standard deviation as noise, or a function",
}


class Network:
    """Layers of widths w_0, ..., w_L, of which layer `code` is the code.

    `theta` holds W_1, b_1, W_2, ... one after another. Code and output have no activation.
    """

    def __init__(self, widths: list[int], code: int, activation: str, dtype: np.dtype):
        self.widths, self.code, self.activation = widths, code, activation
        sizes = [(a + 1) * b for a, b in pairwise(widths)]
        self.theta = np.zeros(sum(sizes), dtype)

    @property
    def layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weights and biases of all layers, views of `theta`."""
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
        """Return H and what the layers from `first` to `last` make of it, one after another."""
        outputs, layers = [H], self.layers
        for i, (W, b) in enumerate(layers[first:last], start=first + 1):
            H = H @ W + b
            if i not in (self.code, len(layers)):
                H = self._activate(H)
            outputs.append(H)
        return outputs

    def blocks(self, H: np.ndarray, first: int, last: int | None) -> np.ndarray:
        """Return the last output of `run`, block by block."""
        rows = gen_batches(len(H), BLOCK_ROWS)
        return np.concatenate([self.run(H[block], first, last)[-1] for block in rows])

    def _activate(self, H):
        if self.activation == "tanh":
            return np.tanh(H)
        return np.maximum(H, 0) + (np.exp(np.minimum(H, 0)) - 1)

    def _slope(self, H):
        """Return s'(a) by h = s(a)."""
        return 1 - H * H if self.activation == "tanh" else np.minimum(H, 0) + 1

    def _bend(self, H):
        """Return s''(a) by h = s(a)."""
        return -2 * H * (1 - H * H) if self.activation == "tanh" else np.where(H < 0, H + 1, 0)

    def gradient(
        self, X: np.ndarray, noisy: np.ndarray, *, sparsity: float = 0.0, contraction: float = 0.0
    ) -> tuple[float, np.ndarray]:
        """Return the sum of ||g(f(noisy)) - x||^2 over a batch, and the gradient of the objective.

        That is the mean squared error of samples and features, `sparsity` times the mean of |y_j|
        and `contraction` times that of ||dy_j/dx||^2; the gradient has the shape of `theta`.
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

        The Jacobian of a code is P_0, where P_l = Q_{l+1} W_{l+1}^T, Q_l = P_l diag(s'(a_l)) and
        P_L is the transpose of the code's weights; then the same chain is walked back.
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


class Autoencoder(Coder):
    """A deep autoencoder: x -> hidden layers -> code of size k -> hidden layers, mirrored -> x-hat.

    Hidden units are bent by ELU (a for a > 0 and e^a - 1 below), code and output are linear. The
    weights that do best on samples held out are kept.

    Parameters
    ----------
    n_components : int, default=2
        k, the size of the code.
    hidden_layer_sizes : tuple of int, default=(256, 128)
        Widths of the encoder's hidden layers; the decoder has the same in reverse. () is linear.
    learning_rate : float, default=2e-3
        The largest step of Adam, which falls to 0 as half a cosine.
    weight_decay : float, default=0.0
        Part of every weight that is taken away per step, in units of the step.
    noise : float or callable, default=None
        As in `AKPCA`: a denoising autoencoder.
    sparsity : float, default=0.0
        Weight of the mean of |y_j|, beside the mean squared error of (x - mean_) / scale_: most of
        a sparse code is about 0.
    contraction : float, default=0.0
        Weight of the mean of ||dy_j/dx||^2: a contractive autoencoder, whose code changes little
        with x. It takes k times as long. `weight_decay` prevents that small weights in the encoder
        and large ones in the decoder evade both penalties.
    n_epochs : int, default=50
        Passes over the samples.
    validation_fraction : float, default=0.1
        The part held out, on which the best weights are chosen. 0 keeps the last weights.
    random_state : int, RandomState instance or None, default=None
        Of the first weights, the samples held out, their order and noise.
    verbose, callback
        As in `AKPCA`.

    Attributes
    ----------
    weights_, biases_ : list of ndarray
        Of all layers, from x to x-hat, for samples (x - mean_) / scale_.
    mean_, scale_ : ndarray of shape (n_features,), float
        The mean, and the root mean squared entry of the centred samples.
    loss_curve_, validation_curve_ : list of float
        Mean of ||x-hat - x||^2 during each pass, and on the samples held out after it.
    best_epoch_, n_iter_ : int
        The pass whose weights were kept, and the number of passes.

    See Also
    --------
    AKPCA : A quadratic encoder and an eigenvector as decoder.

    References
    ----------
    Hinton and Salakhutdinov, "Reducing the dimensionality of data with neural networks", Science
    313, 2006. Rifai et al., "Contractive auto-encoders", ICML 2011.

    Examples
    --------
    >>> from akpca import Autoencoder, load_dataset
    >>> X = load_dataset("digits").X
    >>> model = Autoencoder(2, hidden_layer_sizes=(64,), n_epochs=5, random_state=0).fit(X)
    >>> model.inverse_transform(model.transform(X)).shape
    (1797, 64)
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        **Coder._parameter_constraints,
        "hidden_layer_sizes": [tuple, list],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "sparsity": [Interval(Real, 0, None, closed="left")],
        "contraction": [Interval(Real, 0, None, closed="left")],
        "n_epochs": [COUNT],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
    }

    @moved(GONE)
    def __init__(
        self,
        n_components=2,
        *,
        hidden_layer_sizes=(256, 128),
        learning_rate=2e-3,
        weight_decay=0.0,
        noise=None,
        sparsity=0.0,
        contraction=0.0,
        n_epochs=50,
        validation_fraction=0.1,
        random_state=None,
        verbose=False,
        callback=None,
    ) -> None:
        self.n_components = n_components
        self.hidden_layer_sizes = hidden_layer_sizes
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.noise = noise
        self.sparsity = sparsity
        self.contraction = contraction
        self.n_epochs = n_epochs
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @fit_method
    def fit(self, X, y=None) -> Self:
        """Learn the weights; return self.

        An interrupt keeps the best so far: in the first pass, those that it has reached.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored
        """
        X = validate_data(self, X, ensure_min_samples=2, **SAMPLES)
        rng = check_random_state(self.random_state)
        network, Z, held_out = self._begin(X, rng)
        unit = self.scale_**2
        self.loss_curve_, self.validation_curve_ = [], []
        self.best_epoch_ = self.n_iter_ = 0
        best, optimizer = network.theta.copy(), Adam()
        schedule = partial(cosine, total=-(-len(Z) // BATCH_SIZE) * self.n_epochs)
        bar = progress_bar(range(1, self.n_epochs + 1), shown=self.verbose, desc="Autoencoder")
        try:
            for epoch in bar:
                loss = self._epoch(network, Z, optimizer, rng, schedule, epoch)
                error = self._error(network, held_out) if len(held_out) else loss
                if not error < DIVERGED * X.shape[1]:
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
            if not self.best_epoch_:
                np.copyto(best, network.theta)
            warn_interrupted(f"in epoch {self.n_iter_ + 1}")
        network.theta[:] = best
        self._network = network
        return self

    def _begin(self, X, rng):
        """Set mean and scale; return the network, samples for it, and those held out."""
        sizes, (n, d) = list(self.hidden_layer_sizes), X.shape
        if not all(map(COUNT.is_satisfied_by, sizes)):
            raise ValueError(f"hidden_layer_sizes must be positive integers, got {sizes}")
        held_out = round(self.validation_fraction * n)
        if self.validation_fraction and not 1 <= held_out < n:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} of {n} samples leaves none to "
                "train with or to hold out; give another, or 0"
            )
        found, Z = Coordinates.measured(X, offset=True)
        self._coordinates = Coordinates(found.mean, found.scale / np.sqrt(d))
        self._n_features_out = self.n_components
        self.mean_, self.scale_ = self._coordinates.mean, self._coordinates.scale
        widths = [d, *sizes, self.n_components, *sizes[::-1], d]
        network = Network(widths, len(sizes) + 1, "elu", Z.dtype)
        network.draw(rng)
        Z = self._coordinates.forward(X, Z.dtype)[rng.permutation(n)]
        return network, Z[held_out:], Z[:held_out]

    def _epoch(self, network, Z, optimizer, rng, schedule, epoch):
        """Make one pass; return the mean loss of a sample."""
        total, order = 0.0, rng.permutation(len(Z))
        batches = list(gen_batches(len(Z), BATCH_SIZE))
        flops = 2.0 * min(len(Z), BATCH_SIZE) * network.theta.size
        with one_blas_thread(flops), np.errstate(all="ignore"):  # what overflows is found below
            for step, rows in enumerate(batches, start=(epoch - 1) * len(batches)):
                X = Z[order[rows]]
                noisy = self._coordinates.corrupted(X, self.noise, rng)
                loss, gradient = network.gradient(
                    X, noisy, sparsity=self.sparsity, contraction=self.contraction
                )
                total += loss
                if not loss < DIVERGED * X.size:
                    raise FloatingPointError
                rate = self.learning_rate * schedule(step)
                if self.weight_decay:
                    network.theta *= network.theta.dtype.type(1 - rate * self.weight_decay)
                optimizer.step([network.theta], [gradient], rate)
        return total / len(Z)

    def _error(self, network, Z):
        with one_blas_thread(), np.errstate(all="ignore"):
            blocks = (Z[rows] for rows in gen_batches(len(Z), BLOCK_ROWS))
            return sum(float(np.sum((network.run(B)[-1] - B) ** 2)) for B in blocks) / len(Z)

    def _encode(self, X):
        network = self._network
        Z = self._coordinates.forward(X, network.theta.dtype)
        return network.blocks(Z, 0, network.code)

    def _decode(self, Y):
        network = self._network
        Z = network.blocks(Y.astype(network.theta.dtype), network.code, None)
        return self._coordinates.backward(Z, Y.dtype)

    @property
    def weights_(self) -> list[np.ndarray]:
        """Weights of all layers, (inputs, outputs)."""
        return [W for W, _ in self._network.layers]

    @property
    def biases_(self) -> list[np.ndarray]:
        """Biases of all layers."""
        return [b for _, b in self._network.layers]
