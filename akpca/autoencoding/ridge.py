"""A decoder in closed form, and the codes that it rebuilds best.

The decoder is a ridge regression from codes to samples,

    g(y) = W^T (kappa(y, c_1), ..., kappa(y, c_p), y, 1)
    kappa(y, c) = 1 / (1 + gamma ||y - c||^2),

with some of the codes as centres c_l. The code of a sample z is the y that makes ||g(y) - z||^2
least, found by gradient steps, which begin where a quadratic encoder says, y_j = z^T A_j z, or at
the centre that is rebuilt most like z. `learn` starts from PCA and takes turns: a decoder for the
codes, then codes for the decoder. Neither is left to the other's mistakes: the search mends what
the encoder gets wrong, and decoders are learned from codes that a decoder has chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import linalg
from sklearn.model_selection import KFold
from sklearn.utils import gen_batches

from ..pca import principal_axes
from ..progress import progress_bar, warn_interrupted
from ..threads import matmul, one_blas_thread, run_in_threads
from . import heuristics
from .models import Span
from .training import Result

__all__ = [
    "Products",
    "Regression",
    "RidgeDecoder",
    "RidgeModel",
    "along",
    "block_flops",
    "learn",
    "nearest",
    "solve",
]

# Samples that are searched, and regressed, at a time: with 3,000 centres, the kernel values of a
# thousand are 12 MB in single precision.
SEARCH_ROWS, FIT_ROWS = 1000, 2000
# Products in the sums of a regression from which on they are worth several threads.
LONG_SUM = 1e11
# Samples from which the mean slope of a decoder is taken.
SLOPE_SAMPLES = 200
# Part of the samples' variance by which all regressions are kept from being singular.
LEAST_RIDGE = 1e-6


@dataclass(frozen=True, eq=False)
class RidgeDecoder:
    """g(y) = W^T phi(y), where codes have variance 1 and do not correlate.

    Of the `weights`, shape (p + k + 1, D), the first p belong to the `centers`, shape (p, k), whose
    kernel values are taken relative to `level`, shape (p,), their mean.
    """

    centers: np.ndarray
    gamma: float
    level: np.ndarray
    weights: np.ndarray

    @classmethod
    def fit(cls, Y: np.ndarray, Z: np.ndarray, n_centers: int, ridge: float, rng) -> RidgeDecoder:
        """Return the regression of samples Z, shape (n, D), on codes, shape (n, k)."""
        n, k = Y.shape
        # without weights for them, there is no need of centres
        p = min(n_centers, n) if np.isfinite(ridge) else 0
        centers = Y[rng.permutation(n)[:p]]
        regression = Regression(centers, heuristics.code_gamma(k), Y[:SEARCH_ROWS], Z.shape[1])
        # other threads would wait while kernel values are computed, but for sums that take seconds
        with one_blas_thread(flops=regression.flops(n)):
            for rows in gen_batches(n, FIT_ROWS):
                regression.add(Y[rows], Z[rows])
        return regression.solved(ridge)

    def astype(self, dtype: np.dtype) -> RidgeDecoder:
        """Return the decoder in another precision."""
        names = ("centers", "level", "weights")
        return replace(self, **{name: getattr(self, name).astype(dtype) for name in names})

    def along(self, axes: np.ndarray | int) -> RidgeDecoder:
        """Return what is decoded along some axes, shape (D, r), or along the first ones."""
        W = self.weights[:, :axes] if isinstance(axes, int) else self.weights @ axes
        return replace(self, weights=np.ascontiguousarray(W))

    def features(self, Y: np.ndarray) -> np.ndarray:
        """Return phi(y), shape (n, p + k + 1)."""
        (n, k), p = Y.shape, len(self.centers)
        F = np.empty((n, p + k + 1), Y.dtype)
        F[:, :p] = self._kernel(Y)
        F[:, :p] -= self.level
        F[:, p:-1] = Y
        F[:, -1] = 1
        return F

    def _kernel(self, Y):
        gamma, C = Y.dtype.type(self.gamma), self.centers
        K = Y @ (-2 * gamma * C.T)
        K += gamma * np.sum(Y * Y, axis=1, keepdims=True)
        K += 1 + gamma * np.sum(C * C, axis=1)
        np.maximum(K, 1, out=K)  # which rounding can make smaller
        return np.divide(1, K, out=K)

    def decode(self, Y: np.ndarray) -> np.ndarray:
        """Return g(y), shape (n, D)."""
        return self.features(Y) @ self.weights

    def gradients(self, Y: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ||g(y) - z||^2, shape (n,), and its gradient by y, shape (n, k)."""
        p, W = len(self.centers), self.weights
        F = self.features(Y)
        R = F @ W - Z
        S = R @ W.T
        # d kappa / dy = -2 gamma kappa^2 (y - c)
        K, pulls = F[:, :p], S[:, :p]
        K += self.level
        pulls *= K
        pulls *= K
        moved = np.sum(pulls, axis=1, keepdims=True) * Y - pulls @ self.centers
        return np.sum(R * R, axis=1), 2 * (S[:, p:-1] - 2 * Y.dtype.type(self.gamma) * moved)

    def slopes(self, Y: np.ndarray) -> np.ndarray:
        """Return the mean squared length of dg/dy_j for each j, shape (k,)."""
        (_, k), p, W = Y.shape, len(self.centers), self.weights
        squares = -2 * Y.dtype.type(self.gamma) * self._kernel(Y) ** 2
        lengths = np.empty(k, Y.dtype)
        with one_blas_thread():
            for j in range(k):
                J = (squares * (Y[:, j, None] - self.centers[:, j])) @ W[:p] + W[p + j]
                lengths[j] = np.sum(J * J) / len(Y)
        return lengths

    def search(
        self, Y: np.ndarray, Z: np.ndarray, steps: int, slopes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return codes with a smaller error than Y, after some gradient steps, and their errors.

        Every sample has a step of its own, by its last two gradients (Barzilai and Borwein, 1988),
        and takes it back, for a shorter one, where the error grows. The unit of steps along y_j is
        that of Newton's method for the mean slope.
        """
        found, errors = np.empty_like(Y), np.empty(len(Y), Y.dtype)
        unit = 0.5 / np.maximum(slopes, LEAST_RIDGE * max(slopes.max(), np.finfo(Y.dtype).tiny))

        def search(rows):
            found[rows], errors[rows] = self._search(Y[rows], Z[rows], steps, unit)

        flops = 4.0 * steps * len(Y) * self.weights.size
        run_in_threads(search, list(gen_batches(len(Y), SEARCH_ROWS)), flops)
        return found, errors

    def _search(self, Y, Z, steps, unit):
        errors, G = self.gradients(Y, Z)
        lengths = np.full((len(Y), 1), 0.5, Y.dtype)
        for _ in range(steps):
            tried = Y - lengths * unit * G
            new_errors, new_G = self.gradients(tried, Z)
            moved, bent = tried - Y, new_G - G
            curvature = np.sum(moved * bent, axis=1, keepdims=True)
            square = np.sum(moved * moved / unit, axis=1, keepdims=True)
            longer = 4 * np.maximum(lengths, Y.dtype.type(0.1))
            ideal = np.divide(square, curvature, out=longer.copy(), where=curvature > 0)
            better = (new_errors < errors)[:, None]
            lengths = np.where(better, np.minimum(ideal, longer), lengths * Y.dtype.type(0.3))
            Y, G = np.where(better, tried, Y), np.where(better, new_G, G)
            errors = np.where(better[:, 0], new_errors, errors)
        return Y, errors


class Regression:
    """Sums over samples, block by block, that a `RidgeDecoder` to `n_outputs` numbers is made of.

    The mean of kernel values is that of `some` codes, shape (n, k).
    """

    def __init__(self, centers: np.ndarray, gamma: float, some: np.ndarray, n_outputs: int):
        (p, k), dtype = centers.shape, centers.dtype
        size = p + k + 1
        empty = RidgeDecoder(centers, gamma, np.zeros(p, dtype), np.zeros((size, 0), dtype))
        self.decoder = replace(empty, level=empty.features(some)[:, :p].mean(axis=0))
        self.gram, self.moments = np.zeros((size, size)), np.zeros((size, n_outputs))
        self.n_samples = 0

    def flops(self, n: int) -> float:
        """Return 0 if sums over n samples take too short a time for several threads, else inf."""
        return 0.0 if n * len(self.gram) ** 2 < LONG_SUM else np.inf

    def add(self, Y: np.ndarray, Z: np.ndarray) -> None:
        """Add some codes, shape (n, k), and what they are to be decoded to."""
        F = self.decoder.features(Y)
        self.gram += F.T @ F
        self.moments += F.T @ Z
        self.n_samples += len(Y)

    def solved(self, ridge: float) -> RidgeDecoder:
        """Return the regression of what has been added.

        The penalty of a weight of a centre is `ridge` times the summed variance of the p kernel
        values, whatever n is: the more samples, the less it matters.
        """
        n, p, dtype = self.n_samples, len(self.decoder.centers), self.decoder.centers.dtype
        penalties = np.full(len(self.gram), n * LEAST_RIDGE)
        if p:
            penalties[:p] = ridge * np.trace(self.gram[:p, :p]) / n
        weights = solve(self.gram, self.moments, penalties)
        return replace(self.decoder, weights=weights.astype(dtype))


def nearest(points: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return the index of the point, of shape (p, D), that is nearest to each sample, (n,)."""
    return np.argmin(np.sum(points**2, axis=1) / 2 - Z @ points.T, axis=1)


@dataclass(frozen=True)
class Products:
    """Features z_r z_s of the leading axes, z_r of all, and 1: what quadratic forms are made of."""

    n_leading: int
    n_axes: int

    def features(self, Z: np.ndarray) -> np.ndarray:
        """Return the features of samples, whose last coordinate is a constant."""
        r, s = np.triu_indices(self.n_leading)
        return np.hstack([Z[:, r] * Z[:, s], Z[:, : self.n_axes] * Z[:, -1:], Z[:, -1:] ** 2])

    def forms(self, T: np.ndarray) -> np.ndarray:
        """Return the matrices, shape (k, D, D), of coefficients, shape (k, number of features)."""
        (r, s), d = np.triu_indices(self.n_leading), self.n_axes
        A = np.zeros((len(T), d + 1, d + 1), T.dtype)
        A[:, r, s] = T[:, : len(r)]
        A[:, :d, d], A[:, d, d] = T[:, len(r) : -1], T[:, -1]
        return (A + A.transpose(0, 2, 1)) / 2


class RidgeModel:
    """Codes of a `RidgeDecoder`, for the estimators: as the models of :mod:`.models`.

    The search for a code begins where the encoder says, whose coefficients of `basis`, shape
    (k, size), are params[0]. It goes on along `axes` only, shape (D, r), or the first so many.
    Codes have the standard deviations `spreads`, shape (k,), in units of normalised samples. What
    the centres are decoded to, along these axes, is `rebuilt`, shape (p, r).
    """

    # codes grow with samples to this power
    degree = 1

    def __init__(self, basis: Products | Span, encoder, decoder, axes, slopes, spreads):
        self.basis, self.params, self.decoder, self.axes = basis, [encoder], decoder, axes
        self.slopes, self.spreads, self.searched = slopes, spreads, decoder.along(axes)
        with one_blas_thread():
            self.rebuilt = self.searched.decode(decoder.centers)
        self.n_components, self.n_axes = len(encoder), decoder.weights.shape[1]

    @property
    def span(self) -> Span:
        """The span of a data-span model."""
        return self.basis

    def encode(self, Z: np.ndarray, steps: int = heuristics.ENCODING_STEPS) -> np.ndarray:
        """Return the codes of normalised samples, shape (n, k)."""
        Y = np.empty((len(Z), self.n_components), Z.dtype)
        with one_blas_thread():
            targets = along(Z[:, :-1], self.axes)
            for rows in gen_batches(len(Z), SEARCH_ROWS):
                begin = self.basis.features(Z[rows]) @ self.params[0].T
                Y[rows] = self._better(begin, targets[rows])
        return self.searched.search(Y, targets, steps, self.slopes)[0] * self.spreads

    def _better(self, Y, Z):
        """Return the codes Y or, where these are rebuilt more like samples, the nearest centres."""
        if not len(self.rebuilt):
            return Y
        near = nearest(self.rebuilt, Z)
        errors = np.sum((self.searched.decode(Y) - Z) ** 2, axis=1)
        others = np.sum((self.rebuilt[near] - Z) ** 2, axis=1)
        return np.where((others < errors)[:, None], self.searched.centers[near], Y)

    def decode(self, Y: np.ndarray, tol: float | None = None, *, unit: float = 1.0):
        """Yield rows, the samples g(y / unit) of codes, and zeros, as there are no eigenvalues."""
        for rows in gen_batches(len(Y), SEARCH_ROWS):
            with one_blas_thread():
                Z = self.decoder.decode((Y[rows] / (unit * self.spreads)).astype(Y.dtype))
            yield rows, Z, np.zeros(len(Z))

    def matrices(self, T: np.ndarray) -> np.ndarray:
        """Return the A_j of the encoder, shape (k, D, D)."""
        return self.basis.forms(T * self.spreads[:, None])

    def copy(self, dtype: np.dtype) -> RidgeModel:
        """Return a copy in some precision."""
        basis = self.basis.astype(dtype) if isinstance(self.basis, Span) else self.basis
        axes = self.axes if isinstance(self.axes, int) else self.axes.astype(dtype)
        encoder, slopes, spreads = (
            a.astype(dtype) for a in (self.params[0], self.slopes, self.spreads)
        )
        return RidgeModel(basis, encoder, self.decoder.astype(dtype), axes, slopes, spreads)

    def astype(self, dtype: np.dtype) -> RidgeModel:
        """Return the model in another precision; itself, if it is in this one."""
        return self if self.params[0].dtype == dtype else self.copy(dtype)


def learn(
    Z: np.ndarray,
    k: int,
    basis: Products | Span,
    n_rounds: int,
    *,
    unit: float,
    turned: bool,
    rng: np.random.RandomState,
    cleaned: np.ndarray | None = None,
    title: str | None = None,
    callback: Callable[[Result], bool] | None = None,
) -> Result | None:
    """Take turns at decoder and codes of normalised samples, shape (n, D + 1).

    The rounds are on `heuristics.ROUND_SAMPLES` samples at most, and all samples make the last
    decoder. With noise, that is a regression on codes of `cleaned` samples, shape
    (copies n, D + 1), which are what noisy copies of all samples were taken for. `turned` tells
    that the axes are principal axes. An interrupt after the first round ends the rounds;
    `callback` gets the `Result` after each, and a true answer ends them too. Errors are in this
    `unit`. Samples of rank k, which PCA rebuilds as they are, get None, and so do those of which
    noise leaves no more.
    """
    n, axes = len(Z), _n_searched(Z, k)
    with one_blas_thread():
        if not turned:
            axes = principal_axes(Z[:, :-1], axes, random_state=rng)[0].astype(Z.dtype)
        targets = along(Z[:, :-1], axes)
        rank = targets.shape[1]
        if cleaned is not None:  # noise may leave less
            rank = min(rank, principal_axes(cleaned[:, :-1], k + 1, random_state=rng)[0].shape[1])
    if rank <= k:
        return None
    ridge = _choose_ridge(targets, k, rng)
    few = rng.permutation(n)[: heuristics.ROUND_SAMPLES]
    finish = partial(_model, basis=basis, axes=axes, ridge=ridge, rng=rng)
    part, result = targets[few], Result(None)
    # what no code can change
    outside = float(np.sum(Z[few, :-1] ** 2) - np.sum(part**2)) / len(few)
    result.monitor_curve.append((float(np.sum(part[:, k:] ** 2)) / len(few) + outside) * unit)
    bar = progress_bar(range(1, n_rounds + 1), shown=title is not None, desc=title)
    # rounds, what is seen of samples, its codes and what these are to be decoded to, in one
    # assignment: an interrupt may come between two
    seen = Z[few]
    state = 0, seen, _standardised(part[:, :k]), seen
    try:
        for number in bar:
            Y, error = _round(state[2], part, ridge, rng)
            result.loss_curve.append((error + outside) * unit)
            result.monitor_curve.append(result.loss_curve[-1])
            state = number, seen, Y, seen
            bar.set_postfix(error=f"{result.loss_curve[-1]:.4g}")
            result.n_iter = result.best_epoch = number
            if callback is not None:
                result.model = finish(seen, Y, seen)
                if callback(result):
                    break
        for seen, aim in _last_turns(Z, len(few), cleaned):
            model = finish(*state[1:])
            codes = model.encode(seen, heuristics.ROUND_STEPS) / model.spreads
            state = state[0], seen, _standardised(codes), aim
    except KeyboardInterrupt:
        if not state[0]:
            raise
        warn_interrupted(f"in round {min(state[0] + 1, n_rounds)}")
    number = state[0]
    del result.loss_curve[number:], result.monitor_curve[number + 1 :]
    result.n_iter = result.best_epoch = number
    result.model = finish(*state[1:])
    return result


def _last_turns(Z, n_few, cleaned):
    """Yield what is seen of all samples, and what it is to be decoded to, after the rounds."""
    n = len(Z)
    if n > n_few:
        yield Z, Z
    if cleaned is not None:
        yield cleaned, np.tile(Z, (len(cleaned) // n, 1))


def block_flops(Z: np.ndarray, k: int) -> float:
    """Return the operations of the products of `learn` for a block of samples, shape (n, D + 1)."""
    return 2.0 * min(len(Z), SEARCH_ROWS) * heuristics.n_centers(len(Z)) * _n_searched(Z, k)


def _n_searched(Z, k):
    """Return the number of axes along which codes are searched for."""
    return min(Z.shape[1] - 1, max(heuristics.SEARCHED_AXES, 4 * k))


def _round(Y, targets, ridge, rng):
    """Return better codes of samples, and the mean error that a decoder leaves of them."""
    decoder = RidgeDecoder.fit(Y, targets, heuristics.n_centers(len(Y)), ridge, rng)
    slopes = decoder.slopes(Y[:SLOPE_SAMPLES])
    Y, errors = decoder.search(Y, targets, heuristics.ROUND_STEPS, slopes)
    return _standardised(Y), float(np.mean(errors, dtype=np.float64))


def _model(seen, Y, aim, basis, axes, ridge, rng):
    """Return the encoder of samples whose codes are known, and the decoder to what they aim at."""
    n, targets = len(Y), aim[:, :-1]
    with one_blas_thread():
        # turn codes so that the first ones tell most, as those of PCA, and have its units
        left, spreads, right = linalg.svd(Y.T @ targets / n, full_matrices=False)
        left *= np.where(np.abs(right).max(axis=1) > right.max(axis=1), -1, 1)
        Y = Y @ left
    spreads = np.maximum(spreads, LEAST_RIDGE * max(spreads[0], np.finfo(Y.dtype).tiny))
    decoder = RidgeDecoder.fit(Y, targets, heuristics.n_centers(n), ridge, rng)
    slopes = decoder.along(axes).slopes(Y[:SLOPE_SAMPLES])
    rows = slice(0, heuristics.ROUND_SAMPLES)
    F = basis.features(seen[rows])
    gram = F.T.astype(np.float64) @ F
    penalty = heuristics.ENCODER_RIDGE * np.trace(gram) / len(gram)
    encoder = solve(gram, F.T @ Y[rows], np.full(len(gram), penalty)).T.astype(Y.dtype)
    return RidgeModel(basis, np.ascontiguousarray(encoder), decoder, axes, slopes, spreads)


def _choose_ridge(targets, k, rng):
    """Return the ridge with which held-out samples are rebuilt best; inf is PCA.

    Ridges are tried from the least on, as long as they help. Of few samples, each fifth is held
    out in its turn, of many only one.
    """
    some = targets[rng.permutation(len(targets))[: heuristics.CHOICE_SAMPLES]]
    if len(some) - len(some) // 5 <= k + 1 or len(some) < 5:
        return np.inf
    folds = list(KFold(5).split(some))[: max(1, heuristics.CHOICE_SAMPLES // len(some))]
    parts = [(some[train], some[test]) for train, test in folds]
    parts = [(Z - Z.mean(axis=0), Z_new - Z.mean(axis=0)) for Z, Z_new in parts]
    errors = {}
    for ridge in heuristics.RIDGES:
        errors[ridge] = sum(_held_out_error(Z, Z_new, k, ridge, rng) for Z, Z_new in parts)
        if errors[ridge] > min(errors.values()):
            break
    errors[np.inf] = sum(_held_out_error(Z, Z_new, k, np.inf, rng) for Z, Z_new in parts)
    return min(errors, key=errors.get)


def _held_out_error(Z, Z_new, k, ridge, rng):
    """Return the mean error of held-out samples after a few rounds with the others."""
    with one_blas_thread():
        axes, _ = principal_axes(Z, k, random_state=rng)
        if np.isinf(ridge) or axes.shape[1] < k:
            return np.mean(np.sum((Z_new - Z_new @ axes @ axes.T) ** 2, axis=1))
        Y = _standardised(Z @ axes)
    for _ in range(heuristics.CHOICE_ROUNDS):
        Y, _ = _round(Y, Z, ridge, rng)
    decoder = RidgeDecoder.fit(Y, Z, heuristics.n_centers(len(Y)), ridge, rng)
    with one_blas_thread():
        begin = decoder.centers[nearest(decoder.decode(decoder.centers), Z_new)]
        slopes = decoder.slopes(Y[:SLOPE_SAMPLES])
    _, errors = decoder.search(begin, Z_new, heuristics.ENCODING_STEPS, slopes)
    return np.mean(errors)


def along(X: np.ndarray, axes: np.ndarray | int) -> np.ndarray:
    """Return samples along some axes, shape (D, r), or their first so many coordinates."""
    return np.ascontiguousarray(X[:, :axes] if isinstance(axes, int) else X @ axes)


def _standardised(Y):
    """Return codes of mean 0, variance 1 and no correlation."""
    centred = Y - Y.mean(axis=0, dtype=np.float64)
    covariance = matmul(centred.T, centred) / len(Y)
    covariance[np.diag_indices_from(covariance)] += LEAST_RIDGE**2 * np.trace(covariance)
    factor = linalg.cholesky(covariance, lower=True)
    turned = linalg.solve_triangular(factor, centred.T, lower=True).T
    return np.ascontiguousarray(turned, Y.dtype)


def solve(gram: np.ndarray, moments: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    """Return (gram + penalties)^-1 moments."""
    diagonal = gram.diagonal().copy()
    while True:
        # in place, as a gram matrix of all centres is large
        np.fill_diagonal(gram, diagonal + penalties)
        try:
            with one_blas_thread(flops=float(len(gram)) ** 3 / 30):
                return linalg.cho_solve(linalg.cho_factor(gram), moments)
        except linalg.LinAlgError:
            # sums in single precision may have rounded small eigenvalues to below 0
            least = np.finfo(gram.dtype).eps * np.trace(gram) / len(gram)
            penalties = np.maximum(10 * penalties, least)
        finally:
            np.fill_diagonal(gram, diagonal)
