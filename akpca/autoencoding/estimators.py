"""`AKPCA` and `DataSpanAKPCA`: they validate, call the other modules and keep what these find."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from numbers import Integral, Real
from typing import Self

import numpy as np
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from ..fitting import FLOATS, Encoder, Interval, StrOptions, check_codes, fit_method
from ..kernels import BLOCK_ROWS
from ..nystrom import cluster_centers
from ..pca import principal_axes
from ..progress import FitProgress, warn_user
from ..threads import one_blas_thread
from . import heuristics
from .cleaning import cleaned_samples
from .coordinates import Coordinates
from .models import DenseModel, Span, SpanModel
from .optimizers import OPTIMIZERS
from .ridge import Products, RidgeModel, block_flops, learn
from .training import DIVERGED, Descent, Result

__all__ = ["AKPCA", "DataSpanAKPCA"]

# Root mean squared norm of normalised samples, about 1 in the first fit, that no step can follow.
FAR = DIVERGED**0.5
# As many samples as the report had.
DEFAULT_LANDMARKS = 3000
# Parameters of the descent, which a decoder in closed form does without, and their defaults.
DESCENT = {
    "objective": "reconstruction",
    "offset": True,
    "constant": "auto",
    "init": "auto",
    "solver": "adam",
    "learning_rate": None,
    "batch_size": 100,
    "early_stopping": False,
    "warm_start": False,
    "penalty": None,
}


class _Autoencoder(Encoder):
    """What both estimators share: all but the model, and the choices that depend on it."""

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "decoder": [StrOptions({"auto", "ridge", "eigenvector"})],
        "objective": [StrOptions({"reconstruction", "spectral"})],
        "offset": ["boolean"],
        "constant": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "init": [StrOptions({"auto", "pca", "kpca", "random"})],
        "solver": [StrOptions(set(OPTIMIZERS))],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "precision": [StrOptions({"auto", "single", "double"})],
        "n_epochs": [Interval(Integral, 0, None, closed="left"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "warm_start": ["boolean"],
        "penalty": [Interval(Real, 0, 1, closed="both"), None],
        "noise": [StrOptions({"gaussian", "speckle"}), callable, None],
        "noise_level": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    def __init__(
        self,
        n_components=2,
        *,
        decoder="auto",
        objective="reconstruction",
        offset=True,
        constant="auto",
        init="auto",
        solver="adam",
        learning_rate=None,
        precision="auto",
        n_epochs=None,
        batch_size=100,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=None,
        warm_start=False,
        penalty=None,
        noise=None,
        noise_level=0.1,
        random_state=None,
        verbose=False,
        callback=None,
    ) -> None:
        self.n_components = n_components
        self.decoder = decoder
        self.objective = objective
        self.offset = offset
        self.constant = constant
        self.init = init
        self.solver = solver
        self.learning_rate = learning_rate
        self.precision = precision
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.penalty = penalty
        self.noise = noise
        self.noise_level = noise_level
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @fit_method
    def fit(self, X, y=None) -> Self:
        """Learn encoder and decoder. An interrupt keeps the best iterate so far.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Non-negative if ``offset=False``.
        y : Ignored

        Returns
        -------
        self : object
        """
        fitted = getattr(self, "_model", None)
        again = self.warm_start and fitted is not None and not isinstance(fitted, RidgeModel)
        X = self._validated(X, first=not again, min_samples=2)
        rng, dtype = check_random_state(self.random_state), self._work_dtype(len(X))
        if not again and self._takes_ridge(X) and self._fit_ridge(X, rng, dtype):
            return self
        (train, held_out), settings = self._split(len(X), rng), self._settings()
        n_epochs = self.n_epochs
        if n_epochs is None:
            n_epochs = heuristics.default_epochs(len(X[train]))
        if again:
            if self._n_features_out != self.n_components or self.offset != bool(self.constant_):
                raise ValueError(
                    "warm_start can't change n_components or offset: the fitted components are "
                    f"{self._n_features_out}, with offset={bool(self.constant_)}"
                )
            coordinates = self._coordinates
            Z, model = self._normalised(X, coordinates, dtype), self._model.copy(dtype)
        else:
            # from all samples: a start from fewer would lose more than the descent gains where PCA
            # is hard to beat, and one that has seen those held out makes it harder to leave it
            coordinates, Z, model = self._begin(X, rng, dtype, turn=True)
        optimizer = OPTIMIZERS[self.solver]()
        if self.solver == "adam" and coordinates.axes is not None:
            optimizer.steps = heuristics.adam_steps(self.objective, coordinates)

        def callback(result):
            self._keep(coordinates, result, X.dtype)
            state = FitProgress(result.n_iter, n_epochs, result.loss_curve[-1], self)
            return self.callback(state)

        descent = Descent(model, coordinates, optimizer, rng, **settings)
        result = descent.run(
            Z[train],
            Z[held_out],
            n_epochs,
            patience=self.n_iter_no_change if self.early_stopping else None,
            title=type(self).__name__ if self.verbose else None,
            callback=callback if self.callback else None,
        )
        self._keep(coordinates, result, X.dtype)
        return self

    def _takes_ridge(self, X):
        """Return whether the decoder is a ridge regression."""
        changed = [name for name, value in DESCENT.items() if getattr(self, name) != value]
        if self.decoder == "ridge" and changed:
            raise ValueError(
                f"decoder='ridge' has no descent, so that {', '.join(changed)} can't be set: use "
                "their defaults, or decoder='eigenvector'"
            )
        fewer = self.n_components < min(len(X) - 1, X.shape[1])
        if self.decoder == "ridge" and not fewer:
            raise ValueError(
                f"n_components={self.n_components} must be less than n_samples - 1 = {len(X) - 1} "
                f"and n_features = {X.shape[1]} for decoder='ridge'"
            )
        return self.decoder != "eigenvector" and fewer and not changed

    def _fit_ridge(self, X, rng, dtype):
        """Learn a decoder in closed form, and its codes; return False if PCA loses nothing."""
        n_rounds = heuristics.N_ROUNDS if self.n_epochs is None else self.n_epochs
        coordinates, Z, basis = self._begin_ridge(X, rng, dtype)
        noise = None if self.noise_level == 0 else self.noise
        options = {"noise": noise, "level": self.noise_level, "rng": rng}
        cleaner, cleaned = cleaned_samples(Z, coordinates, self.n_components, **options)

        def callback(result):
            self._keep(coordinates, result, X.dtype, cleaner)
            state = FitProgress(result.n_iter, n_rounds, self.loss_curve_[-1], self)
            return self.callback(state)

        flops = block_flops(Z if cleaned is None else cleaned, self.n_components)
        with one_blas_thread(flops=flops):
            result = learn(
                Z,
                self.n_components,
                basis,
                n_rounds,
                unit=coordinates.scale**2,
                turned=coordinates.axes is not None,
                rng=rng,
                cleaned=cleaned,
                title=type(self).__name__ if self.verbose else None,
                callback=callback if self.callback else None,
            )
        if result is not None:
            self._keep(coordinates, result, X.dtype, cleaner)
        elif self.decoder == "ridge":
            of_noisy = "" if cleaner is None else ", and of what can be told of noisy samples,"
            raise ValueError(
                f"n_components={self.n_components} must be less than the rank of X{of_noisy} for "
                "decoder='ridge': PCA loses nothing; use decoder='auto'"
            )
        return result is not None

    @fit_method
    def partial_fit(self, X, y=None) -> Self:
        """Do one pass over some more samples, with a constant step.

        The first call also sets mean, scale and start, so it should bring a good number of samples.
        They are not turned to principal axes, since later ones may vary along others, and the last
        iterate is kept, not the best one. The decoder is the eigenvector; after a fit with another,
        the descent begins anew.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        self : object
        """
        fitted, work = getattr(self, "_model", None), self._work_dtype()
        first = fitted is None or isinstance(fitted, RidgeModel)
        X = self._validated(X, first=fitted is None, min_samples=2 if first else 1)
        if first and fitted is not None:
            told = "partial_fit begins anew: it can't go on from decoder='ridge', which takes all "
            warn_user(told + "samples at once; fit with decoder='eigenvector'", UserWarning)
        # its own, as a call that fails must leave no trace
        stream = deepcopy(getattr(self, "_stream", None))
        stream = stream or (OPTIMIZERS[self.solver](), check_random_state(self.random_state))
        if first:
            coordinates, Z, model = self._begin(X, stream[1], work, turn=False)
            result, dtype = Result(model), X.dtype
        else:
            # samples to come may vary along other axes
            coordinates, model, dtype = self._coordinates, self._model, self._dtype
            if coordinates.axes is not None:
                model = model.turned(coordinates)
                coordinates = replace(coordinates, axes=None, variances=None)
            result = Result(model.copy(work), self.loss_curve_, n_iter=self.n_iter_)
            Z = self._normalised(X, coordinates, work)
        descent = Descent(result.model, coordinates, *stream, **self._settings())
        try:
            # the mean step of the schedule of `fit`
            loss = descent.epoch(Z, lambda step: 0.5)
        except (FloatingPointError, np.linalg.LinAlgError) as error:
            raise FloatingPointError(
                f"the descent diverged with learning_rate={descent.rate}: give a smaller one"
            ) from error
        result.loss_curve = [*result.loss_curve, loss]
        result.n_iter += 1
        result.best_epoch = result.n_iter
        self._keep(coordinates, result, dtype)
        self._stream = stream
        return self

    def transform(self, X) -> np.ndarray:
        """Return the codes f(x) of the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features)

        Returns
        -------
        X_new : ndarray of shape (n_new, n_components)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, order="C", reset=False)
        if not self.constant_:
            _check_signs(X, type(self).__name__)
        model = self._model.astype(X.dtype)
        cleaner = self._cleaner and self._cleaner.astype(X.dtype)
        codes = np.empty((len(X), model.n_components), X.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for rows in gen_batches(len(X), BLOCK_ROWS):
                Z = self._coordinates.forward(X[rows], X.dtype)
                codes[rows] = model.encode(Z if cleaner is None else cleaner.clean(Z))
            codes *= self.scale_**model.degree
        why = "codes are squares of samples" if model.degree == 2 else "codes grow with samples"
        self._check_range(codes, X, why)
        return codes

    def inverse_transform(self, X) -> np.ndarray:
        """Return the samples g(y) of some codes; eigenvectors are converged.

        Parameters
        ----------
        X : array-like of shape (n_new, n_components)

        Returns
        -------
        X_original : ndarray of shape (n_new, n_features)
        """
        check_is_fitted(self)
        Y = check_codes(X, self._n_features_out, order="C", estimator=self)
        model = self._model.astype(Y.dtype)
        X_hat = np.empty((len(Y), self.n_features_in_), Y.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for rows, Z_hat, _ in model.decode(Y, unit=self.scale_**model.degree):
                X_hat[rows] = self._coordinates.backward(Z_hat, Y.dtype)
        why = "samples are roots of codes" if model.degree == 2 else "samples grow with codes"
        self._check_range(X_hat, Y, why)
        return X_hat

    @property
    def encoder_(self) -> np.ndarray:
        """A_j, shape (n_components, D, D)."""
        return self._matrices(0)

    @property
    def decoder_(self) -> np.ndarray:
        """B_j, shape (n_components, D, D)."""
        self._check_decoder("decoder_", "eigenvector")
        return self._matrices(1)[: self._n_features_out]

    @property
    def decoder_offset_(self) -> np.ndarray:
        """B_0, shape (D, D)."""
        self._check_decoder("decoder_offset_", "eigenvector")
        if not self.constant_:
            return np.zeros((self.n_features_in_, self.n_features_in_), self._dtype)
        return self._matrices(1)[-1] * self._dtype.type(self.scale_**2)

    @property
    def inverse_centers_(self) -> np.ndarray:
        """c_l, shape (p, n_components)."""
        self._check_decoder("inverse_centers_", "ridge")
        model = self._model
        return model.decoder.centers * (model.spreads * self._dtype.type(self.scale_))

    @property
    def dual_coef_(self) -> np.ndarray:
        """Weights of the centres, shape (p, d)."""
        self._check_decoder("dual_coef_", "ridge")
        decoder = self._model.decoder
        weights = decoder.weights[: len(decoder.centers)]
        return self._coordinates.backward(weights) - self.mean_

    def _check_decoder(self, name, needed):
        """Refuse an attribute that the other decoder has."""
        used = "ridge" if isinstance(self._model, RidgeModel) else "eigenvector"
        if used != needed:
            raise AttributeError(f"{name} needs decoder={needed!r}: the one fitted is {used!r}")

    def _matrices(self, i):
        model = self._model
        scale = self._dtype.type(self.scale_) ** (model.degree - 2)
        return self._coordinates.matrices(model.matrices(model.params[i])) * scale

    @property
    def _n_features_out(self):
        return self._model.n_components

    @property
    def _dtype(self):
        return self._model.params[0].dtype

    def _work_dtype(self, n=None):
        """Return the precision of the arithmetic for n samples, or for a stream."""
        few = n is not None and n <= heuristics.DOUBLE_SAMPLES
        double = few if self.precision == "auto" else self.precision == "double"
        return np.dtype(np.float64 if double else np.float32)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = not self.offset
        return tags

    def _validated(self, X, *, first, min_samples):
        # in C order, as sums in another order round differently
        options = {"dtype": FLOATS, "order": "C", "ensure_min_samples": min_samples}
        X = validate_data(self, X, reset=first, **options)
        d, k = X.shape[1], self.n_components
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
        if self.noise == "speckle" and self.noise_level > 1:
            raise ValueError(
                f"noise_level={self.noise_level} must be from 0 to 1 for noise='speckle', the "
                "probability that an entry is set to 0"
            )
        fits, other = ("pca", "kpca") if self.offset else ("kpca", "pca")
        if self.init == other:
            need = f"init={other!r} needs offset={not self.offset}"
            raise ValueError(f"{need}; use 'auto', {fits!r} or 'random'")
        return X

    def _check_range(self, result, X, why):
        """Refuse samples or codes whose images the precision can't hold."""
        if np.isfinite(result).all():
            return
        safe = min(1.0, self.scale_) * float(np.finfo(X.dtype).max) ** 0.5 / 1000
        allowed = f"entries of up to {safe:.1g} are allowed, for scale_={self.scale_:.1g}"
        if X.dtype != self._dtype == np.float64:
            allowed = "give them in float64, as in fit"
        raise ValueError(
            f"X has entries of up to {np.abs(X).max():.3g}, but {why}, and some exceed what "
            f"{X.dtype} can hold: {allowed}"
        )

    def _split(self, n, rng):
        """Return the indices of training samples and of those held out, if any."""
        if not self.early_stopping:
            return slice(None), slice(0)
        held_out = max(1, round(self.validation_fraction * n))
        if n - held_out < 2:
            raise ValueError(
                f"early_stopping with validation_fraction={self.validation_fraction} leaves "
                f"{n - held_out} of {n} samples to train with, at least 2 are needed"
            )
        order = rng.permutation(n)
        return np.sort(order[held_out:]), np.sort(order[:held_out])

    def _normalised(self, X, coordinates, dtype):
        """Return samples in coordinates of an earlier fit; refuse those that are far too large."""
        with np.errstate(over="ignore", invalid="ignore"):
            Z = coordinates.forward(X, dtype)
            size = np.sqrt(np.mean(np.sum(Z * Z, axis=1)))
        if not size < FAR:
            raise ValueError(
                f"X has entries of up to {np.abs(X).max():.3g}, too far from the samples of the "
                f"first fit: the root mean squared norm must be below {FAR:g} times their "
                f"scale_={self.scale_:.3g}; scale X, or fit anew, with such samples from the start"
            )
        return Z

    def _measure(self, X, dtype, *, turn, constant=None):
        """Return the coordinates of samples, turned or not, and operations of a large product."""
        flops, c = 2.0 * X.size * min(X.shape), constant or self.constant
        with one_blas_thread(flops=flops):
            coordinates = Coordinates.measured(X, offset=self.offset)
            if turn:
                axes, variances = principal_axes(coordinates.forward(X, dtype))
                if len(variances):
                    coordinates = replace(coordinates, axes=axes, variances=variances)
            if not self.offset:
                return coordinates, flops
            if c == "auto":
                # the spectral norm also counts the errors at the constant, which grow with it
                c = 1.0
                if self.objective == "reconstruction":
                    Z = coordinates.forward(X, dtype)
                    c = heuristics.choose_constant(Z, self.n_components, self._large_constant)
        return replace(coordinates, constant=c * coordinates.scale), flops

    def _settings(self):
        """Return the arguments of a descent that are ours, with defaults resolved."""
        rate, penalty = self.learning_rate, self.penalty
        if rate is None:
            rate = heuristics.ADAM_RATE if self.solver == "adam" else self._rates[self.objective]
        if penalty is None:
            penalty = heuristics.PENALTIES[self.objective]
        names = ("objective", "batch_size", "noise", "noise_level")
        return {"rate": rate, "penalty": penalty, **{name: getattr(self, name) for name in names}}

    def _keep(self, coordinates, result, dtype, cleaner=None):
        """Make these the fitted model and attributes."""
        self._cleaner = cleaner and cleaner.astype(dtype)
        self._coordinates, self._model = coordinates, result.model.copy(dtype)
        self.mean_, self.scale_ = coordinates.mean, coordinates.scale
        self.constant_ = coordinates.constant
        self.loss_curve_ = list(result.loss_curve)
        self.monitor_curve_, self.gap_curve_ = list(result.monitor_curve), list(result.gap_curve)
        self.best_epoch_, self.n_iter_ = result.best_epoch, result.n_iter
        self._stream = None


def _check_signs(X, name):
    """Refuse samples that are mostly negative, and warn of others of negative sum."""
    sums, sizes = X.sum(axis=1), np.abs(X).sum(axis=1)
    if np.any(sums < -0.5 * sizes):
        raise ValueError(
            f"Negative values in data passed to {name}: offset=False can't tell "
            "x from -x, so that samples which are mostly negative would come back with the "
            "wrong sign"
        )
    if np.any(sums < 0):
        told = f"{np.sum(sums < 0)} samples have a negative sum"
        told += "; with offset=False they come back with a positive one"
        warn_user(told, UserWarning)


class AKPCA(_Autoencoder):
    """Autoencoding kernel PCA: f(x)_j = z^T A_j z, g(y) = sqrt(lambda) v of B_0 + sum_j y_j B_j.

    Here (lambda, v) is the leading eigenpair: the decoder of the report, ``'eigenvector'``. In the
    report's form (``offset=False``) z is x itself and B_0 = 0; it can't tell x from -x, and is for
    non-negative samples. With an offset, z = (x - mean, c) has a constant last coordinate, so that
    codes have linear terms besides quadratic ones, and g takes the sign that makes the last
    coordinate positive.

    By default the decoder is a ridge regression in the kernel 1 / (1 + gamma ||y - c||^2) of codes
    and some of them, c, and the code of x is the y that makes ||g(y) - x|| least, which is searched
    for from f(x) and from the nearest c: see :mod:`.ridge`. On images of digits that leaves a fifth
    to a third less of the error than the eigenvector, or a deep autoencoder in the same time.

    Parameters
    ----------
    n_components : int, default=2
        k, the size of the code, at most d (d + 1) / 2, or d (d + 3) / 2 with an offset.
    decoder : {'auto', 'ridge', 'eigenvector'}, default='auto'
        'ridge' needs k below n - 1, d and the rank of X, and takes all samples at once. It has no
        descent: it refuses other values than the defaults of the parameters from `objective` to
        `penalty`, but for `precision`, `n_epochs` and those of early stopping. 'auto' is 'ridge'
        where that is possible, else 'eigenvector'.
    objective : {'reconstruction', 'spectral'}, default='reconstruction'
        ||g(f(x)) - x||^2, (15) of the report, or the surrogate ||M - x x^T||_2, (18), which the
        report minimises (here a lower bound, by four Lanczos steps from near x).
    offset : bool, default=True
        Centre the samples and append a constant coordinate.
    constant : float or 'auto', default='auto'
        The constant coordinate c in units of `scale_`: small ones make more of the quadratic terms,
        those above 1 start as good as PCA (reconstruction objective), and 'auto' is
        :func:`.heuristics.choose_constant`, or 1 for the spectral objective.
    init : {'auto', 'pca', 'kpca', 'random'}, default='auto'
        The start: PCA (with an offset), uncentred degree-2 kernel PCA (without), or random
        symmetric matrices; 'auto' is the one of the first two that fits.
    solver : {'adam', 'sgd', 'svrg'}, default='adam'
        The optimiser, with a step that falls to 0 as half a cosine.
    learning_rate : float, default=None
        The largest step, for 'adam' in units of the root mean squared entry of a component of norm
        1, for the others in units of such a component; None suits all data that were tried.
    precision : {'auto', 'single', 'double'}, default='auto'
        Of the arithmetic in `fit`: 'auto' is double for up to 1,000 samples and single, as good and
        up to twice as fast, for more and in `partial_fit`. See the notes.
    n_epochs : int, default=None
        Passes over the samples; None is 14 for 3,000 samples and proportional to n^(-2/3) for
        others, but between 4 and 100. With 'ridge', rounds of decoder and codes on at most 8,000
        samples; None is 6.
    batch_size : int, default=100
        Samples of a step.
    early_stopping : bool, default=False
        Hold a part of the samples out of the descent, though not of the start, and choose the
        best iterate on it.
    validation_fraction : float, default=0.1
        The part that early stopping holds out.
    n_iter_no_change : int, default=None
        Epochs without a better iterate after which early stopping stops; None goes on to the last
        epoch, as a good part of the gain comes late, when steps are small.
    warm_start : bool, default=False
        Let `fit` start from the fitted components, with their mean, scale and axes, if the decoder
        is the eigenvector.
    penalty : float, default=None
        The part of what components have moved from the start that each epoch takes away, times the
        relative length of its steps; None is 0.15, or 0 for the spectral objective.
    noise : {'gaussian', 'speckle'} or callable, default=None
        Corrupt the samples that are encoded, anew in each step, but not those to be rebuilt; a
        callable gets samples and a ``RandomState`` and returns corrupted samples. With 'ridge',
        all that is encoded is taken to be noisy, and cleaned first: see the notes.
    noise_level : float, default=0.1
        Standard deviation in the units of X, or probability that speckle sets an entry to 0.
    random_state : int, RandomState instance or None, default=None
        Order of the samples, starting vectors, noise, the part held out, a random start.
    verbose : bool, default=False
        Show a progress bar.
    callback : callable, default=None
        Called after each epoch with a :class:`.progress.FitProgress`, whose `model` is this
        estimator with the model of that epoch; a true answer stops.

    Attributes
    ----------
    encoder_, decoder_ : ndarray of shape (n_components, D, D)
        The symmetric matrices A_j and B_j, in the units of X; D is d, or d + 1 with an offset.
        With 'ridge' there are no B_j, and A_j says where the search for a code begins; with
        noise, from what a cleaned sample is.
    inverse_centers_, dual_coef_ : ndarray of shape (p, n_components), (p, d)
        The c and their weights, with 'ridge' only; without any, the decoder is that of PCA.
    decoder_offset_ : ndarray of shape (D, D)
        B_0; 0 without an offset.
    mean_, scale_, constant_ : ndarray of shape (d,), float, float
        The mean, the root mean squared norm of the (centred) samples, and c; without an offset,
        mean and c are 0.
    loss_curve_ : list of float
        Mean loss of each epoch, in the units of X squared, as seen by the optimiser.
    monitor_curve_ : list of float
        Mean ||g(f(x)) - x||^2 at the start and after each epoch, of the part held out or of (at
        most 500) samples; the iterate where it is least is kept, and `partial_fit` has none. With
        'ridge', that of the samples of each round, of which the last is kept, all without noise.
    gap_curve_ : list of float
        The median of lambda_2 / lambda_1 there: near 1, the decoder's answer is hardly defined.
        Empty with 'ridge'.
    best_epoch_, n_iter_ : int
        The epoch whose model was kept, where 0 is the start, and the number that were run.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Of the samples.

    See Also
    --------
    DataSpanAKPCA : The same with fewer parameters, for many features.

    Notes
    -----
    A seed repeats results to the bit on one machine. Another number of threads, another machine or
    samples that differ by rounding give other rounding errors, which the descent amplifies: Adam
    normalises gradients however small they are, and where two eigenvalues of a decoder are nearly
    equal, few steps tell them apart. Codes of 40 to 600 digits of 8x8 then differ by 1e-14 to 1e-4
    of their size in double precision, and by 1e-6 to 0.2 in single precision, most for few
    components; reconstruction errors differ far less, by at most 2 %. Axes that samples do not
    tell apart, such as those of one-hot vectors, are chosen by rounding.

    Besides X, `fit` holds at most about 2 n D + 15 (k + 1) D^2 + F numbers of the precision of its
    arithmetic at a time, where D is at most min(n, d) + 1, F is max(2^22, 16 D^2), or b D^2 if that
    is more and k > 10, and b is `batch_size`. Numbers of the precision of X are (n + 200 D) k +
    1500 D in `transform` and n d + (k + 1) D^2 + max(2^22, 16 D^2) in `inverse_transform`. With
    'ridge', p centres (n / 2, but 1,000 for more than 2,000 samples, a tenth of more than 10,000
    and 3,000 at most) take 3 n D + 6 p D + 8,000 p in `fit`, besides 2 p^2 in float64.

    Codes of 'ridge' do not correlate, and their standard deviations have the units of X; the first
    ones tell most. The set of all g(y) may be folded, most so for few components: near samples
    mostly, but not always, have near codes. A code takes 16 gradient steps of 4 p r operations,
    where r is 100 or 4 k, the number of principal axes that decide about it; codes of some ten
    thousand samples take seconds.

    With noise, x~ in place of x, 'ridge' learns x^ = E[x | x~], since the best autoencoder of noisy
    samples is that of x^: E ||g(f(x~)) - x||^2 = E ||x^ - x||^2 + E ||g(f(x~)) - x^||^2, see
    :mod:`.cleaning`. Rounds are on clean samples, and the last decoder is a regression of these on
    the codes of x^, so that it knows what cleaning gets wrong. What cleans is a linear regression
    and two in the kernel of the decoder, with at most 2,000 centres, along at most 200 principal
    axes, or 4 k. They see 50,000 noisy samples, or as many as there are if that is more (20 copies
    of each sample at most), and their ridges are those that suit a tenth of the samples best, or
    500, which are held out. The last decoder is learned from up to five cleaned copies, 15,000
    samples, and has the memory of so many. That takes two to four times as long as without noise,
    and cleaning takes far less than the search for codes.

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

    _rates, _large_constant = heuristics.DENSE_RATES, heuristics.DENSE_CONSTANT

    def _begin_ridge(self, X, rng, dtype):
        coordinates, flops = self._measure(X, dtype, turn=True, constant=1.0)
        with one_blas_thread(flops=flops):
            Z = coordinates.forward(X, dtype)
        leading = min(heuristics.LEADING_AXES, coordinates.n_axes)
        return coordinates, Z, Products(leading, coordinates.n_axes)

    def _begin(self, X, rng, dtype, *, turn):
        coordinates, flops = self._measure(X, dtype, turn=turn)
        k, axes = self.n_components, coordinates.axes
        corner = heuristics.is_cautious(self.objective, coordinates)
        towards = None if axes is None else axes.sum(axis=0)  # samples have a positive sum
        options = {"offset": self.offset, "random": self.init == "random", "random_state": rng}
        with one_blas_thread(flops=flops):
            Z = coordinates.forward(X, dtype)
            model = DenseModel.start(Z, k, corner=corner, towards=towards, **options)
        return coordinates, Z, model


class DataSpanAKPCA(_Autoencoder):
    """Data-span AKPCA: f(x) = H k(x), g(y) = sqrt(lambda) v of sum_i (G^T y)_i z_i z_i^T.

    Here k(x)_i = (z_i.x)^2, the z_i are landmarks among the samples, and (lambda, v) is the leading
    eigenpair, found by products with the matrix alone. It is `AKPCA` with matrices in the span of
    the z_i z_i^T, which can be everything from m = d (d + 1) / 2 on, and 2 k m parameters. That is
    the report's form (``offset=False``). With an offset, samples and landmarks are centred, samples
    get a constant coordinate, and linear and constant terms, which take d + 1 numbers per
    component, are free. Time is O(n m d) per epoch and O(m^3) once.

    Parameters
    ----------
    n_components : int, default=2
        k, the size of the code, at most m and d (d + 1) / 2, with an offset d more.
    n_landmarks : int, default=None
        m, at most the number of samples; None is all samples, but not more than 3,000.
    sampling : {'uniform', 'kmeans'}, default='uniform'
        Landmarks are samples drawn without replacement, or centres of clusters.
    rank : int, default=None
        Most dimensions to keep of the span of the z_i z_i^T, those in which landmarks vary most;
        None keeps all but those that rounding blurs.
    decoder, objective, offset, constant, init, solver, learning_rate, precision, n_epochs, \
batch_size, early_stopping, validation_fraction, n_iter_no_change, warm_start, penalty, noise, \
noise_level, random_state, verbose, callback
        As in `AKPCA`, but the start 'kpca' is kernel PCA within the span.

    Attributes
    ----------
    landmarks_ : ndarray of shape (m, d)
        Z, in the units of X, not centred.
    encoder_coef_, decoder_coef_ : ndarray of shape (n_components, m)
        H and G: A_j = sum_i h_ji (z_i - mean) (z_i - mean)^T, but for linear and constant terms.
    rank_ : int
        Dimensions of the span of the z_i z_i^T that were kept.
    encoder_, decoder_, decoder_offset_, inverse_centers_, dual_coef_, mean_, scale_, constant_, \
loss_curve_, monitor_curve_, gap_curve_, best_epoch_, n_iter_, n_features_in_, feature_names_in_
        As in `AKPCA`.

    See Also
    --------
    AKPCA : The same with free matrices.

    Notes
    -----
    Results depend on rounding as those of `AKPCA` do. Besides X, `fit` holds at most about
    2 n d + m^2 + m d + 14 k (m + d) + 4 b (m + d) + F numbers of the precision of its arithmetic at
    a time, where b is `batch_size`, and 4 m^2 of float64 before the first epoch. F is 2^23, or
    2 (k + 1) d^2 + max(2^22, 16 d^2) if the B_j are formed to decode, which they are up to 2^24
    numbers and d < 2 m. Numbers of the precision of X are (n + m + d) k + 200 m + 1500 d in
    `transform` and n d + k m + F in `inverse_transform`.

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
        "rank": [Interval(Integral, 1, None, closed="left"), None],
    }

    _rates, _large_constant = heuristics.SPAN_RATES, heuristics.SPAN_CONSTANT

    def __init__(
        self,
        n_components=2,
        *,
        n_landmarks=None,
        sampling="uniform",
        rank=None,
        decoder="auto",
        objective="reconstruction",
        offset=True,
        constant="auto",
        init="auto",
        solver="adam",
        learning_rate=None,
        precision="auto",
        n_epochs=None,
        batch_size=100,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=None,
        warm_start=False,
        penalty=None,
        noise=None,
        noise_level=0.1,
        random_state=None,
        verbose=False,
        callback=None,
    ) -> None:
        super().__init__(
            n_components,
            decoder=decoder,
            objective=objective,
            offset=offset,
            constant=constant,
            init=init,
            solver=solver,
            learning_rate=learning_rate,
            precision=precision,
            n_epochs=n_epochs,
            batch_size=batch_size,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            warm_start=warm_start,
            penalty=penalty,
            noise=noise,
            noise_level=noise_level,
            random_state=random_state,
            verbose=verbose,
            callback=callback,
        )
        self.n_landmarks = n_landmarks
        self.sampling = sampling
        self.rank = rank

    @property
    def landmarks_(self) -> np.ndarray:
        """Z, shape (m, d)."""
        return self._model.span.landmarks * self._dtype.type(self.scale_) + self.mean_

    @property
    def encoder_coef_(self) -> np.ndarray:
        """H, shape (n_components, m)."""
        model = self._model
        spreads = model.spreads[:, None] if isinstance(model, RidgeModel) else 1
        return self._coefficients(model.params[0] * spreads)

    @property
    def decoder_coef_(self) -> np.ndarray:
        """G, shape (n_components, m)."""
        self._check_decoder("decoder_coef_", "eigenvector")
        return self._coefficients(self._model.params[1][: self._n_features_out])

    @property
    def rank_(self) -> int:
        """Dimensions of the span of the z_i z_i^T."""
        return self._model.span.basis.shape[1]

    def _coefficients(self, T):
        span, degree = self._model.span, self._model.degree
        unit = T.dtype.type(self.scale_) ** (4 - degree)
        return span.expand(T)[:, : len(span.landmarks)] / unit

    def _begin_ridge(self, X, rng, dtype):
        coordinates, flops = self._measure(X, dtype, turn=False, constant=1.0)
        Z, span = self._landmark_span(X, coordinates, flops, rng, dtype, turn=True)
        return coordinates, Z, span

    def _begin(self, X, rng, dtype, *, turn):
        # in features, since their axes would be a matrix of d^2 numbers
        coordinates, flops = self._measure(X, dtype, turn=False)
        Z, span = self._landmark_span(X, coordinates, flops, rng, dtype, turn=turn)
        with one_blas_thread(flops=max(flops, len(span.landmarks) ** 3)):
            random = self.init == "random"
            model = SpanModel.start(span, Z, self.n_components, random=random, random_state=rng)
        return coordinates, Z, model

    def _landmark_span(self, X, coordinates, flops, rng, dtype, *, turn):
        """Return normalised samples and the span of some of them."""
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
        with one_blas_thread(flops=max(flops, m**3)):
            Z = coordinates.forward(X, dtype)
            if self.sampling == "kmeans" and m < n:
                landmarks = cluster_centers(Z[:, :d], m, rng)
            else:
                landmarks = np.ascontiguousarray(Z[rng.permutation(n)[:m], :d])
            # what is constant in the first batch of a stream may vary later
            varies = np.ptp(Z[:, :d], axis=0) > 0 if self.offset and turn else None
            span = Span(landmarks, constant=self.offset, rank=self.rank, varies=varies)
        return Z, span
