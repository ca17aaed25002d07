"""`AKPCA` and `DataSpanAKPCA`: they validate, call the other modules and keep what these find."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Self

import numpy as np
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import validate_data

from ..fitting import Interval, StrOptions, fit_method, moved
from ..kernels import BLOCK_ROWS
from ..nystrom import cluster_centers
from ..progress import FitProgress
from ..threads import one_blas_thread
from .coordinates import SAMPLES, Coder, Coordinates
from .models import DenseModel, Span, SpanModel
from .training import Descent

__all__ = ["AKPCA", "DataSpanAKPCA"]

# As many samples as the report had.
DEFAULT_LANDMARKS = 3000

RIDGE = "for the decoder in closed form use RidgeAutoencoder; this one's is the eigenvector"
GONE = {
    "decoder": RIDGE,
    "constant": "it is the scale of the samples",
    "solver": "it is Adam; SGD and SVRG are in akpca.book.reference",
    "precision": "it is double for up to 1,000 samples and single for more",
    "batch_size": "it is 100",
    "early_stopping": "give a callback that returns True",
    "validation_fraction": "give a callback that returns True",
    "n_iter_no_change": "give a callback that returns True",
    "warm_start": "fit with more n_epochs",
    "penalty": "it is .15 for objective='reconstruction' and 0 for 'spectral'",
    "noise_level": "give the standard deviation as noise, or a function",
}


class _Autoencoder(Coder):
    """What both estimators share: all but the model."""

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        **Coder._parameter_constraints,
        "objective": [StrOptions({"reconstruction", "spectral"})],
        "offset": ["boolean"],
        "init": [StrOptions({"auto", "random"})],
        "n_epochs": [Interval(Integral, 0, None, closed="left"), None],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
    }

    @moved(GONE)
    def __init__(
        self,
        n_components=2,
        *,
        objective="reconstruction",
        offset=True,
        init="auto",
        n_epochs=None,
        learning_rate=0.5,
        noise=None,
        random_state=None,
        verbose=False,
        callback=None,
    ) -> None:
        self.n_components = n_components
        self.objective = objective
        self.offset = offset
        self.init = init
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.noise = noise
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @fit_method
    def fit(self, X, y=None) -> Self:
        """Learn encoder and decoder; return self.

        An interrupt keeps the best iterate so far: in the first epoch, the start. While the start
        is computed, it is raised and leaves the estimator as it was.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Non-negative if ``offset=False``.
        y : Ignored
        """
        X = validate_data(self, X, ensure_min_samples=2, **SAMPLES)
        (n, d), k = X.shape, self.n_components
        terms = d * (d + 3) // 2 if self.offset else d * (d + 1) // 2
        if k > terms:
            raise ValueError(
                f"n_components={k} must not be more than {terms}, the number of "
                f"{'linear and quadratic' if self.offset else 'quadratic'} terms of {d} features"
            )
        if not self.offset and X.min() < 0:
            raise ValueError(
                "Negative values in data: offset=False can't tell x from -x, so that it takes "
                "non-negative samples only; use offset=True"
            )
        rng, n_epochs = check_random_state(self.random_state), self.n_epochs
        if n_epochs is None:  # so that steps suffice
            n_epochs = int(np.clip(round(14 * (3000 / n) ** (2 / 3)), 4, 100))
        coordinates, Z, model = self._begin(X, rng)
        descent = Descent(model, coordinates, rng, self.objective, self.learning_rate, self.noise)

        def callback():
            self._keep(descent, X.dtype)
            loss = descent.loss_curve[-1]
            return self.callback(FitProgress(self.n_iter_, n_epochs, loss, self))

        title = type(self).__name__ if self.verbose else None
        descent.run(Z, n_epochs, title=title, callback=callback if self.callback else None)
        self._keep(descent, X.dtype)
        return self

    def _encode(self, X):
        if not self.constant_ and np.any(X.sum(axis=1) < -0.5 * np.abs(X).sum(axis=1)):
            raise ValueError(
                f"Negative values in data passed to {type(self).__name__}: offset=False can't tell "
                "x from -x, so that samples which are mostly negative would come back with the "
                "wrong sign"
            )
        model, rows = self._model.astype(X.dtype), gen_batches(len(X), BLOCK_ROWS)
        blocks = [model.encode(self._coordinates.forward(X[r], X.dtype)) for r in rows]
        return np.concatenate(blocks) * self.scale_**2

    def _decode(self, Y):
        model = self._model.astype(Y.dtype)
        blocks = model.decode(Y, unit=self.scale_**2)
        return np.vstack([self._coordinates.backward(Z_hat, Y.dtype) for _, Z_hat, _ in blocks])

    @property
    def encoder_(self) -> np.ndarray:
        """A_j, shape (n_components, D, D)."""
        return self._matrices(0)

    @property
    def decoder_(self) -> np.ndarray:
        """B_j, shape (n_components, D, D)."""
        return self._matrices(1)[: self._n_features_out]

    @property
    def decoder_offset_(self) -> np.ndarray:
        """B_0, shape (D, D)."""
        if not self.constant_:
            return np.zeros((self.n_features_in_, self.n_features_in_), self.mean_.dtype)
        return self._matrices(1)[-1] * self.mean_.dtype.type(self.scale_**2)

    def _matrices(self, i):
        return self._coordinates.matrices(self._model.matrices(i))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = not self.offset
        return tags

    def _keep(self, descent, dtype):
        """Make the model of a descent, and its curves, those of the estimator."""
        self._coordinates, self._model = descent.coordinates, descent.model.fitted(dtype)
        self._n_features_out = self.n_components
        self.mean_, self.scale_ = self._coordinates.mean, self._coordinates.scale
        self.constant_ = self._coordinates.constant
        self.monitor_curve_ = list(descent.monitor_curve)
        self.n_iter_ = max(len(self.monitor_curve_) - 1, 0)
        self.loss_curve_ = descent.loss_curve[: self.n_iter_]
        self.best_epoch_ = descent.best_epoch


class AKPCA(_Autoencoder):
    """Autoencoding kernel PCA: f(x)_j = z^T A_j z, g(y) = sqrt(lambda) v of B_0 + sum_j y_j B_j.

    Here (lambda, v) is the leading eigenpair, and A_j and B_j are symmetric matrices, learned by
    descent. With an offset, z = (x - mean, c) has a constant last coordinate, which is positive in
    g, so that codes have linear terms besides quadratic ones. Without one, z is x itself and
    B_0 = 0; that form can't tell x from -x, and is for non-negative samples.
    ``AKPCA(k, objective="spectral", offset=False)`` is the method of the report, but for the
    optimiser and the start; the rest are additions of this package.

    Parameters
    ----------
    n_components : int, default=2
        k, the size of the code, at most d (d + 1) / 2, with an offset d more.
    objective : {'reconstruction', 'spectral'}, default='reconstruction'
        ||g(f(x)) - x||^2, (15) of the report, or the surrogate ||M - x x^T||_2, (18), which the
        report minimises (here a lower bound, by four Lanczos steps from near x).
    offset : bool, default=True
        Centre the samples and append a constant coordinate.
    init : {'auto', 'random'}, default='auto'
        The start: PCA, or uncentred degree-2 kernel PCA without an offset; or random matrices.
    n_epochs : int, default=None
        Passes over the samples; None is 14 (3,000 / n)^(2/3), between 4 and 100. With 0, the model
        is the start.
    learning_rate : float, default=0.5
        The largest step of Adam, in units of the root mean squared entry of a component of norm 1;
        it falls to 0 as half a cosine.
    noise : float or callable, default=None
        Of the samples that are encoded, anew in each step, but not of those to be rebuilt: the
        standard deviation of Gaussian noise, in the units of X, or a function that gets samples and
        a ``RandomState`` and returns noisy ones.
    random_state : int, RandomState instance or None, default=None
        Of the order of samples, starting vectors, noise and the start.
    verbose : bool, default=False
        Show a progress bar.
    callback : callable, default=None
        Called after each epoch with a :class:`.progress.FitProgress`; a true answer stops.

    Attributes
    ----------
    encoder_, decoder_ : ndarray of shape (n_components, D, D)
        The symmetric matrices A_j and B_j, in the units of X; D is d, or d + 1 with an offset.
    decoder_offset_ : ndarray of shape (D, D)
        B_0; 0 without an offset.
    mean_, scale_, constant_ : ndarray of shape (d,), float, float
        The mean, the root mean squared norm of centred samples, and c, which is as large; without
        an offset, mean and c are 0.
    loss_curve_ : list of float
        Mean loss of each epoch, in the units of X squared, as seen by the optimiser.
    monitor_curve_ : list of float
        Mean ||g(f(x)) - x||^2 at the start and after each epoch, of at most 500 samples; the
        iterate where it is least is kept.
    best_epoch_, n_iter_ : int
        The epoch whose model was kept, where 0 is the start, and the number that were run.

    See Also
    --------
    DataSpanAKPCA : The same with fewer parameters, for many features.
    RidgeAutoencoder : A decoder in closed form, with less error; encoding takes longer.

    Notes
    -----
    Arithmetic is in double precision for up to 1,000 samples, and in single for more. A seed
    repeats results to the bit on one machine; elsewhere the descent amplifies other rounding: codes
    differ by up to a fifth in single precision, errors by at most 2 %. Besides X, `fit` holds about
    2 n D + 15 (k + 1) D^2 numbers, and 100 D^2, the matrices M of a batch, if k > 10.

    References
    ----------
    Cohen, Hazan and Ma, autoencoding kernel PCA, 2016: "the report".

    Examples
    --------
    >>> from akpca import AKPCA, load_dataset
    >>> X = load_dataset("digits").X
    >>> model = AKPCA(5, n_epochs=3, random_state=0).fit(X)
    >>> model.inverse_transform(model.transform(X)).shape
    (1797, 64)
    """

    def _begin(self, X, rng):
        """Return coordinates, samples in them, and the model to start from."""
        with one_blas_thread(flops=2.0 * X.size * min(X.shape)):
            coordinates, Z = Coordinates.measured(X, offset=self.offset, turn=True)
            axes = coordinates.axes
            model = DenseModel.start(
                Z,
                self.n_components,
                offset=self.offset,
                random=self.init == "random",
                towards=None if axes is None else axes.sum(axis=0),  # samples have a positive sum
                random_state=rng,
            )
        return coordinates, Z, model


class DataSpanAKPCA(_Autoencoder):
    """Data-span AKPCA: f(x) = H k(x), g(y) = sqrt(lambda) v of sum_i (G^T y)_i z_i z_i^T.

    Here k(x)_i = (z_i.x)^2, and the z_i are landmarks among the samples: it is `AKPCA` with
    matrices in the span of the z_i z_i^T, which can be everything from m = d (d + 1) / 2 on. That
    is the report's form (``offset=False``). With an offset, landmarks are centred like samples, and
    linear and constant terms, d + 1 numbers per component, are free. Time is O(n m d) per epoch and
    O(m^3) once.

    Parameters
    ----------
    n_components : int, default=2
        k, the size of the code, at most m and d (d + 1) / 2, with an offset d more.
    n_landmarks : int, default=None
        m, at most the number of samples; None is all samples, but not more than 3,000.
    sampling : {'uniform', 'kmeans'}, default='uniform'
        Landmarks are samples drawn without replacement, or centres of clusters.
    objective, offset, init, n_epochs, learning_rate, noise, random_state, verbose, callback
        As in `AKPCA`, but the start without an offset is kernel PCA within the span.

    Attributes
    ----------
    landmarks_ : ndarray of shape (m, d)
        Z, in the units of X, not centred.
    encoder_coef_, decoder_coef_ : ndarray of shape (n_components, m)
        H and G: A_j = sum_i h_ji (z_i - mean) (z_i - mean)^T, but for linear and constant terms.
    others
        As in `AKPCA`.

    See Also
    --------
    AKPCA : The same with free matrices.

    Notes
    -----
    Besides X, `fit` holds about 2 n d + m^2 + (14 k + 400) (m + d) + 2^23 numbers, and 4 m^2 of
    float64 before the first epoch.

    References
    ----------
    Cohen, Hazan and Ma, autoencoding kernel PCA, 2016: "the report".

    Examples
    --------
    >>> from akpca import DataSpanAKPCA, load_dataset
    >>> X = load_dataset("digits").X
    >>> model = DataSpanAKPCA(5, n_landmarks=200, n_epochs=2, random_state=0).fit(X)
    >>> model.inverse_transform(model.transform(X)).shape
    (1797, 64)
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        **_Autoencoder._parameter_constraints,
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "sampling": [StrOptions({"uniform", "kmeans"})],
    }

    @moved(GONE | {"rank": "give fewer n_landmarks"})
    def __init__(
        self,
        n_components=2,
        *,
        n_landmarks=None,
        sampling="uniform",
        objective="reconstruction",
        offset=True,
        init="auto",
        n_epochs=None,
        learning_rate=0.5,
        noise=None,
        random_state=None,
        verbose=False,
        callback=None,
    ) -> None:
        super().__init__(
            n_components,
            objective=objective,
            offset=offset,
            init=init,
            n_epochs=n_epochs,
            learning_rate=learning_rate,
            noise=noise,
            random_state=random_state,
            verbose=verbose,
            callback=callback,
        )
        self.n_landmarks = n_landmarks
        self.sampling = sampling

    @property
    def landmarks_(self) -> np.ndarray:
        """Z, shape (m, d)."""
        return self._model.span.landmarks * self.mean_.dtype.type(self.scale_) + self.mean_

    @property
    def encoder_coef_(self) -> np.ndarray:
        """H, shape (n_components, m)."""
        return self._coefficients(0)

    @property
    def decoder_coef_(self) -> np.ndarray:
        """G, shape (n_components, m)."""
        return self._coefficients(1)

    def _coefficients(self, i):
        T, m = self._model.params[i], len(self._model.span.landmarks)  # of atoms, after a fit
        return T[: self._n_features_out, :m] / T.dtype.type(self.scale_) ** 2

    def _begin(self, X, rng):
        """Return coordinates, samples in them, and the model to start from."""
        (n, d), k = X.shape, self.n_components
        m = min(n, DEFAULT_LANDMARKS) if self.n_landmarks is None else self.n_landmarks
        if m > n:
            raise ValueError(
                f"n_landmarks={m}, but X has only {n} samples to choose them from: give at most "
                "that many"
            )
        if k > m + (d if self.offset else 0):
            raise ValueError(
                f"n_components={k}, but the span of {m} landmarks has no more dimensions than "
                f"{m}{f' and {d} for linear terms' if self.offset else ''}: give a smaller "
                "n_components or a larger n_landmarks"
            )
        with one_blas_thread(flops=max(2.0 * X.size * min(X.shape), m**3)):
            # along the features: axes would be a matrix of d^2 numbers
            coordinates, Z = Coordinates.measured(X, offset=self.offset)
            if self.sampling == "kmeans" and m < n:
                landmarks = cluster_centers(Z[:, :d], m, rng)
            else:
                landmarks = np.ascontiguousarray(Z[rng.permutation(n)[:m], :d])
            varies = np.ptp(Z[:, :d], axis=0) > 0 if self.offset else True
            span = Span(landmarks, constant=self.offset, varies=varies)
            model = SpanModel.start(span, Z, k, random=self.init == "random", random_state=rng)
        return coordinates, Z, model
