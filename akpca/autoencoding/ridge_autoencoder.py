"""`RidgeAutoencoder`: a decoder in closed form and the codes that it rebuilds best, by turns."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Self

import numpy as np
from scipy import linalg
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import validate_data

from ..fitting import Interval, fit_method
from ..pca import principal_axes
from ..progress import FitProgress, progress_bar, warn_interrupted
from ..threads import matmul, one_blas_thread
from .cleaning import Cleaner
from .coordinates import SAMPLES, Coder, Coordinates
from .ridge import LEAST_RIDGE, SEARCH_ROWS, RidgeDecoder, nearest, solve

__all__ = ["RidgeAutoencoder"]

# Gradient steps in a round, and to the code of a new sample.
ROUND_STEPS, ENCODING_STEPS = 4, 8
# Samples of the rounds, at most.
ROUND_SAMPLES = 8000
# Axes along which codes are searched for, at least: 60 instead of 100 cost .002 to .007.
SEARCHED_AXES = 100
# Penalties of weights from which held-out samples choose, and infinity, which is PCA.
RIDGES = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 20.0)
# Samples, of which a fifth is held out, and rounds of that choice.
CHOICE_SAMPLES, CHOICE_ROUNDS = 2000, 3
# Samples from which the mean slope of a decoder is taken.
SLOPE_SAMPLES = 200
# Axes whose products the quadratic encoder has, and its ridge, relative to its features' squares.
LEADING_AXES, ENCODER_RIDGE = 30, 1e-4


class RidgeAutoencoder(Coder):
    """A decoder in closed form, g(y) = W^T (kappa(y, c_1..p), y, 1), and its best codes.

    The kernel is kappa(y, c) = 1 / (1 + gamma ||y - c||^2), the c_l are some of the codes, and W is
    a ridge regression from codes to samples. The code of x is the y that makes ||g(y) - x|| least,
    which is searched for by gradient steps, from what a quadratic encoder says or from the centre
    that is rebuilt most like x. `fit` begins with PCA and takes turns: a decoder for the codes,
    then codes for the decoder. Neither is left to the other's mistakes.

    The kind of method is old. Its price is encoding: with 1,000 or 3,000 centres the search takes
    some 70 or 200 us a sample, where a network takes 2.5.

    Parameters
    ----------
    n_components : int, default=2
        k, the size of the code, at most the number of samples and that of features.
    n_centers : int, default=None
        p, the number of centres; None is half of the samples, but 1,000 for more than 2,000 and a
        tenth of more than 10,000, 3,000 at most. More centres rebuild better and take longer.
    ridge : float, default=None
        Penalty of the weights of centres, in units of the variance of all kernel values. None
        chooses it on samples held out, also infinity, which is PCA.
    n_rounds : int, default=12
        Turns, on at most 8,000 samples. Half as many take three quarters of the time and leave a
        fiftieth more of the error.
    noise : float or callable, default=None
        Take all that is encoded to be noisy, as in `AKPCA`, and clean it first: see the notes.
    random_state : int, RandomState instance or None, default=None
        Of the centres, the samples of the rounds and those held out, and noise.
    verbose, callback
        As in `AKPCA`, with a call after each round.

    Attributes
    ----------
    centers_ : ndarray of shape (p, n_components)
        c_l; there are none where the decoder is PCA's.
    dual_coef_ : ndarray of shape (p, n_features)
        Their weights.
    ridge_ : float
        The penalty that was used; infinite for PCA's decoder.
    mean_, scale_ : ndarray of shape (n_features,), float
        The mean and the root mean squared norm of the centred samples.
    loss_curve_ : list of float
        Mean ||g(y) - x||^2 of the samples of the rounds, with PCA and after each round.
    n_iter_ : int
        Number of rounds.

    See Also
    --------
    AKPCA : The method of the report, whose decoder is an eigenvector.
    Autoencoder : A deep network.

    Notes
    -----
    Codes do not correlate, and their standard deviations have the units of X; the first ones tell
    most. The set of all g(y) may be folded: near samples mostly, but not always, have near codes.

    With noise, x~ in place of x, the model learns x^ = E[x | x~]: see
    :mod:`akpca.autoencoding.cleaning`. Rounds are on clean samples, and the last decoder is a
    regression of these on the codes of cleaned ones, so that it knows what cleaning gets wrong.
    That takes two to four times as long as without noise.

    References
    ----------
    Meinicke, Unsupervised learning in a generalized regression framework, 2000. Lawrence, Gaussian
    process latent variable models for visualisation of high dimensional data, NIPS 2004.
    Carreira-Perpinan and Lu, Dimensionality reduction by unsupervised regression, CVPR 2008.

    Examples
    --------
    >>> from akpca import RidgeAutoencoder, load_dataset
    >>> X = load_dataset("digits").X
    >>> model = RidgeAutoencoder(5, n_rounds=3, random_state=0).fit(X)
    >>> model.inverse_transform(model.transform(X[:10])).shape
    (10, 64)
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        **Coder._parameter_constraints,
        "n_centers": [Interval(Integral, 1, None, closed="left"), None],
        "ridge": [Interval(Real, 0, None, closed="left"), None],
        "n_rounds": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components=2,
        *,
        n_centers=None,
        ridge=None,
        n_rounds=12,
        noise=None,
        random_state=None,
        verbose=False,
        callback=None,
    ) -> None:
        self.n_components = n_components
        self.n_centers = n_centers
        self.ridge = ridge
        self.n_rounds = n_rounds
        self.noise = noise
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @fit_method
    def fit(self, X, y=None) -> Self:
        """Take turns at decoder and codes; return self.

        An interrupt keeps the last round, or PCA's codes in the first. Before, while the ridge is
        chosen, it is raised and leaves the estimator as it was.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored
        """
        X = validate_data(self, X, ensure_min_samples=2, **SAMPLES)
        rng, k = check_random_state(self.random_state), self.n_components
        if k > min(X.shape):
            raise ValueError(
                f"n_components={k} must not be more than {min(X.shape)}, the smaller one of "
                f"n_samples={len(X)} and n_features={X.shape[1]}"
            )
        coordinates, Z = Coordinates.measured(X, offset=True)
        coordinates, Z = replace(coordinates, constant=0.0), np.ascontiguousarray(Z[:, :-1])
        with one_blas_thread():
            n_searched = min(Z.shape[1], max(SEARCHED_AXES, 4 * k))
            axes = principal_axes(Z, n_searched, random_state=0)[0].astype(Z.dtype)
            targets = np.ascontiguousarray(Z @ axes)
        cleaner = noise = None
        if self.noise:
            noise = partial(coordinates.corrupted, noise=self.noise, rng=rng)
            cleaner = Cleaner.learn(Z, noise, k, self._count(len(Z)), rng)
        self._coordinates, self._cleaner, self._n_features_out = coordinates, cleaner, k
        self.mean_, self.scale_ = coordinates.mean, coordinates.scale
        self.ridge_ = self._choose_ridge(targets, rng) if self.ridge is None else self.ridge
        if targets.shape[1] <= k:
            self.ridge_ = np.inf  # PCA loses nothing
        self._learn(Z, targets, axes, noise, rng)
        return self

    def _learn(self, Z, targets, axes, noise, rng):
        """Do the rounds, and set what they find."""
        few = rng.permutation(len(Z))[:ROUND_SAMPLES]
        part, k, unit = targets[few], self.n_components, self.scale_**2
        # what no code can change
        outside = float(np.sum(Z[few] ** 2) - np.sum(part**2)) / len(few)
        self.loss_curve_ = [(float(np.sum(part[:, k:] ** 2)) / len(few) + outside) * unit]
        self.n_iter_ = 0
        bar = progress_bar(range(1, self.n_rounds + 1), shown=self.verbose, desc="RidgeAutoencoder")
        start = np.pad(part[:, :k], ((0, 0), (0, max(k - part.shape[1], 0))))
        # what is seen, its codes and what these should become: as one, for an interrupt between two
        state = Z[few], _standardised(start), Z[few]
        try:
            for number in bar:
                Y, error = _round(state[1], part, self._count(len(few)), self.ridge_, rng)
                self.loss_curve_.append((error + outside) * unit)
                self.n_iter_, state = number, (state[0], Y, state[2])
                bar.set_postfix(error=f"{self.loss_curve_[-1]:.4g}")
                if self.callback is not None:
                    # with the next random numbers, but without taking them from the rounds
                    self._model = self._finished(*state, axes, deepcopy(rng))
                    loss = self.loss_curve_[-1]
                    if self.callback(FitProgress(number, self.n_rounds, loss, self)):
                        break
            if len(few) < len(Z):  # all samples make the last decoder
                state = self._next_turn(state, Z, Z, axes, rng)
            if noise is not None:
                copies = self._cleaner.cleaned_copies(Z, noise)
                aim = np.tile(Z, (len(copies) // len(Z), 1))
                state = self._next_turn(state, copies, aim, axes, rng)
        except KeyboardInterrupt:
            warn_interrupted(f"in round {min(self.n_iter_ + 1, self.n_rounds)}")
            del self.loss_curve_[self.n_iter_ + 1 :]
        self._model = self._finished(*state, axes, rng)

    def _next_turn(self, state, seen, aim, axes, rng):
        """Return what is seen, its codes by the model so far, and what they should become."""
        codes = self._finished(*state, axes, rng).encode(seen, ROUND_STEPS)
        return seen, _standardised(codes), aim

    def _finished(self, seen, Y, aim, axes, rng):
        """Return the model of samples whose codes are known, with a decoder to what they aim at."""
        with one_blas_thread():
            # turn codes so that the first ones tell most, as those of PCA, and have its units
            left, spreads, right = linalg.svd(Y.T @ aim / len(Y), full_matrices=False)
            left *= np.where(np.abs(right).max(axis=1) > right.max(axis=1), -1, 1)
            Y = Y @ left
        spreads = np.maximum(spreads, LEAST_RIDGE * max(spreads[0], np.finfo(Y.dtype).tiny))
        decoder = RidgeDecoder.fit(Y, aim, self._count(len(Y)), self.ridge_, rng)
        rows = slice(0, ROUND_SAMPLES)
        F = _quadratic(seen[rows] @ axes)
        gram = F.T.astype(np.float64) @ F
        penalty = ENCODER_RIDGE * np.trace(gram) / len(gram)
        encoder = solve(gram, F.T @ Y[rows], np.full(len(gram), penalty)).astype(Y.dtype)
        return _Model(axes, encoder, decoder, Y[:SLOPE_SAMPLES], spreads)

    def _count(self, n):
        """Return the number of centres for n codes."""
        most = max(1000, min(n // 10, 3000)) if self.n_centers is None else self.n_centers
        return min(n // 2 if self.n_centers is None else n, most)

    def _choose_ridge(self, targets, rng):
        """Return the ridge with which held-out samples, each fifth of few, are rebuilt best."""
        k, some = self.n_components, targets[rng.permutation(len(targets))[:CHOICE_SAMPLES]]
        if len(some) - len(some) // 5 <= k + 1 or len(some) < 5:
            return np.inf
        folds = list(KFold(5).split(some))[: max(1, CHOICE_SAMPLES // len(some))]
        errors = {}
        for ridge in RIDGES:
            errors[ridge] = self._held_out_error(some, folds, ridge, rng)
            if errors[ridge] > min(errors.values()):
                break
        errors[np.inf] = self._held_out_error(some, folds, np.inf, rng)
        return min(errors, key=errors.get)

    def _held_out_error(self, some, folds, ridge, rng):
        """Return the summed mean errors of held-out samples after a few rounds with the others."""
        k, total = self.n_components, 0.0
        for train, test in folds:
            mean, p = some[train].mean(axis=0), self._count(len(train))
            Z, Z_new = some[train] - mean, some[test] - mean
            with one_blas_thread():
                axes, _ = principal_axes(Z, k, random_state=rng)
            if np.isinf(ridge) or axes.shape[1] < k:
                total += np.mean(np.sum((Z_new - Z_new @ axes @ axes.T) ** 2, axis=1))
                continue
            Y = _standardised(matmul(Z, axes))
            for _ in range(CHOICE_ROUNDS):
                Y, _ = _round(Y, Z, p, ridge, rng)
            decoder = RidgeDecoder.fit(Y, Z, p, ridge, rng)
            with one_blas_thread():
                begin = decoder.centers[nearest(decoder.decode(decoder.centers), Z_new)]
            slopes = decoder.slopes(Y[:SLOPE_SAMPLES])
            _, errors = decoder.search(begin, Z_new, ENCODING_STEPS, slopes)
            total += np.mean(errors)
        return total

    def _encode(self, X):
        model = self._model
        Z = self._coordinates.forward(X, model.spreads.dtype)
        Z = Z if self._cleaner is None else self._cleaner.clean(Z)
        return model.encode(Z, ENCODING_STEPS) * (model.spreads * self.scale_)

    def _decode(self, Y):
        model, backward = self._model, self._coordinates.backward
        codes = (Y / (model.spreads * self.scale_)).astype(model.spreads.dtype)
        with one_blas_thread():
            blocks = (model.decoder.decode(codes[r]) for r in gen_batches(len(Y), SEARCH_ROWS))
            return np.vstack([backward(Z, Y.dtype) for Z in blocks])

    @property
    def centers_(self) -> np.ndarray:
        """c_l, shape (p, n_components)."""
        return self._model.decoder.centers * (self._model.spreads * self.scale_)

    @property
    def dual_coef_(self) -> np.ndarray:
        """Weights of the centres, shape (p, d)."""
        decoder = self._model.decoder
        return decoder.weights[: len(decoder.centers)] * self.scale_


class _Model:
    """The decoder, what it decodes along the axes, (d, r), and where the search for codes begins.

    Codes have the standard deviations `spreads`, shape (k,), in units of normalised samples;
    `some` of them, shape (m, k), tell the slopes of the decoder.
    """

    def __init__(self, axes, encoder, decoder: RidgeDecoder, some, spreads):
        self.axes, self.encoder, self.decoder, self.spreads = axes, encoder, decoder, spreads
        self.searched = replace(decoder, weights=np.ascontiguousarray(decoder.weights @ axes))
        with one_blas_thread():
            self.rebuilt = self.searched.decode(decoder.centers)
        self.slopes = self.searched.slopes(some)

    def encode(self, Z: np.ndarray, steps: int) -> np.ndarray:
        """Return the codes of normalised samples, of variance 1, shape (n, k)."""
        Y = np.empty((len(Z), len(self.spreads)), Z.dtype)
        with one_blas_thread():
            targets = Z @ self.axes
            for rows in gen_batches(len(Z), SEARCH_ROWS):
                T = targets[rows]
                Y[rows] = _quadratic(T) @ self.encoder
                if len(self.rebuilt):  # the nearest centres, where these are rebuilt better
                    near = nearest(self.rebuilt, T)
                    errors = np.sum((self.searched.decode(Y[rows]) - T) ** 2, axis=1)
                    others = np.sum((self.rebuilt[near] - T) ** 2, axis=1)
                    better = (others < errors)[:, None]
                    Y[rows] = np.where(better, self.searched.centers[near], Y[rows])
        return self.searched.search(Y, targets, steps, self.slopes)[0]


def _round(Y, targets, n_centers, ridge, rng):
    """Return better codes of samples, and the mean error that a decoder leaves of them."""
    decoder = RidgeDecoder.fit(Y, targets, n_centers, ridge, rng)
    Y, errors = decoder.search(Y, targets, ROUND_STEPS, decoder.slopes(Y[:SLOPE_SAMPLES]))
    return _standardised(Y), float(np.mean(errors, dtype=np.float64))


def _quadratic(T):
    """Return t_r t_s of the leading axes, t_r of all, and 1, of samples along the axes."""
    r, s = np.triu_indices(min(LEADING_AXES, T.shape[1]))
    return np.hstack([T[:, r] * T[:, s], T, np.ones((len(T), 1), T.dtype)])


def _standardised(Y):
    """Return codes of mean 0, variance 1 and no correlation."""
    centred = Y - Y.mean(axis=0, dtype=np.float64)
    covariance = matmul(centred.T, centred) / len(Y)
    size = np.trace(covariance) or 1.0
    covariance[np.diag_indices_from(covariance)] += LEAST_RIDGE**2 * size
    factor = linalg.cholesky(covariance, lower=True)
    turned = linalg.solve_triangular(factor, centred.T, lower=True).T
    return np.ascontiguousarray(turned, Y.dtype)
