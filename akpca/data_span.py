"""Data-span autoencoding kernel PCA: the matrices of AKPCA as sums over some of the samples.

AKPCA has 2 k matrices of d^2 numbers. Here they are A_j = sum_i h_ij z_i z_i^T and
B_j = sum_i g_ij z_i z_i^T, where z_1, ..., z_m are all samples (Cohen, Hazan and Ma, 2016) or some
of them, the landmarks: 2 k m numbers, whatever d is. With H and G of shape (k, m), the code is
y = H k(x), where k(x)_i = (z_i.x)^2, and M(y) = sum_i zeta_i z_i z_i^T with zeta = G^T y, so that

    M w = Z^T (zeta * (Z w))

is two matrix products for a whole batch, and no d x d matrix is ever formed in training.

Three things make it work. H and G themselves are badly conditioned, since the z_i z_i^T are nearly
parallel; the parameters are therefore coordinates in an orthonormal basis of their span, from the
eigenvectors of the landmarks' kernel matrix. Landmarks instead of all samples make time and memory
linear in n. And with an offset the linear and constant terms, which need only d + 1 numbers a
component, are left free, so that PCA stays within reach.

All else, the losses, the descent and the best iterate, is that of :mod:`akpca.autoencoding`.
"""

from __future__ import annotations

from copy import copy
from numbers import Integral

import numpy as np
from scipy import linalg
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions

from . import objectives
from .autoencoding import (
    AKPCA,
    BLOCK_SIZE,
    START_SAMPLES,
    best_factors,
    choose_constant,
    principal_axes,
)
from .eigen import leading_eigenpairs
from .kernels import BLOCK_ROWS
from .nystrom import cluster_centers as _cluster_centers
from .optim import make_optimizer

SAMPLINGS = ("uniform", "kmeans")
# As many samples as the report had.
DEFAULT_LANDMARKS = 3000
# Adam's largest step, in units of the root mean squared entry of a component of norm 1; SGD's and
# SVRG's, in units of such a component.
RATES = {
    ("adam", "reconstruction"): 0.4,
    ("adam", "spectral"): 0.4,
    ("sgd", "reconstruction"): 0.1,
    ("sgd", "spectral"): 0.05,
    ("svrg", "reconstruction"): 0.1,
    ("svrg", "spectral"): 0.05,
}
# The constant coordinate for samples to which 1 is too small: larger than AKPCA's, as a corner need
# not be in the span.
LARGE_CONSTANT = 8.0
# Directions of the span whose eigenvalue is below this part of the largest are left out: in them
# the rounding of kernel values would show.
RANK_FLOOR = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-11}
# Decoding forms the B_j if they are no more than so many numbers.
FORMED_SIZE = 2**24

ROOT_HALF = 0.5**0.5


class Span:
    """The span of symmetric matrices z_i z_i^T, and an orthonormal basis of it.

    With a constant last coordinate e of the samples it also holds sqrt(2) sym(e_r e^T), for every
    other axis e_r, and e e^T: the linear and constant terms. These and the z_i z_i^T, where z_i has
    0 in place of the constant, are called atoms; the others are orthonormal already, and orthogonal
    to the z_i z_i^T.

    Parameters
    ----------
    landmarks : ndarray of shape (m, d)
        Z, without a constant coordinate.
    constant : bool
        Whether samples have one more coordinate than landmarks, a constant.
    rank : int, default=None
        Most directions to keep of the z_i z_i^T, those of the largest eigenvalues. None keeps all
        that are above rounding.
    varies : ndarray of shape (d,) of bool, default=None
        Features with linear and quadratic terms; None is all. A feature that never varies must
        have none: its gradients are nothing but rounding and unfinished eigenvectors, and Adam,
        to which the size of a gradient is nothing, would follow them.

    Attributes
    ----------
    basis : ndarray of shape (m, r)
        U Lambda^(-1/2), from the eigenpairs of the kernel matrix (Z Z^T)^2 with entries squared.
    size : int
        Dimensions: r, or r + d + 1 with a constant.
    n_atoms : int
        m, or m + d + 1 with a constant.
    """

    def __init__(
        self,
        landmarks: np.ndarray,
        *,
        constant: bool,
        rank: int | None = None,
        varies: np.ndarray | None = None,
    ):
        m, d = landmarks.shape
        if varies is not None:
            landmarks = landmarks * varies
        self.varies = varies
        self.landmarks, self.constant = landmarks, constant
        K = landmarks.astype(np.float64)
        K = (K @ K.T) ** 2
        values, vectors = linalg.eigh(K, overwrite_a=True, driver="evd", check_finite=False)
        values, vectors = values[::-1], vectors[:, ::-1]
        above = values > RANK_FLOOR[landmarks.dtype] * max(values[0], 0)
        kept = min(int(np.sum(above)), m if rank is None else rank)
        self.basis = (vectors[:, :kept] / np.sqrt(values[:kept])).astype(landmarks.dtype, order="C")
        self.n_atoms = m + (d + 1 if constant else 0)
        self.size = kept + (d + 1 if constant else 0)

    def astype(self, dtype: np.dtype) -> Span:
        """Return the same span for samples of another precision."""
        if dtype == self.basis.dtype:
            return self
        other = copy(self)
        other.landmarks, other.basis = self.landmarks.astype(dtype), self.basis.astype(dtype)
        return other

    def expand(self, T: np.ndarray) -> np.ndarray:
        """Return coefficients of atoms, shape (k, n_atoms), of coordinates, shape (k, size)."""
        r = self.basis.shape[1]
        return np.hstack([T[:, :r] @ self.basis.T, T[:, r:]])

    def coordinates(self, S: np.ndarray) -> np.ndarray:
        """Return inner products with the basis, (k, size), from those with atoms, (k, n_atoms)."""
        m = len(self.landmarks)
        return np.hstack([S[:, :m] @ self.basis, S[:, m:]])

    def inner(self, P: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Return the inner products of sym(p_i v_i^T) with each atom, shape (b, n_atoms).

        Those of x x^T, ``inner(X, X)``, are kernel values.
        """
        m, d = self.landmarks.shape
        S = np.empty((len(P), self.n_atoms), P.dtype)
        ZP = np.matmul(P[:, :d], self.landmarks.T, out=S[:, :m])
        ZP *= ZP if P is V else V[:, :d] @ self.landmarks.T
        if self.constant:
            S[:, m:-1] = ROOT_HALF * (P[:, :d] * V[:, d:] + P[:, d:] * V[:, :d])
            if self.varies is not None:
                S[:, m:-1] *= self.varies
            S[:, -1] = P[:, d] * V[:, d]
        return S

    def product(self, C: np.ndarray) -> objectives.Product:
        """Return products with matrices of coefficients C, as :mod:`akpca.objectives` wants them.

        Parameters
        ----------
        C : ndarray of shape (b, n_atoms)
        """
        Z = self.landmarks
        m, d = Z.shape
        zeta = C[:, :m]
        if not self.constant:
            return lambda W: (zeta * (W @ Z.T)) @ Z
        linear, last = C[:, m:-1] * ROOT_HALF, C[:, -1:]

        def product(W):
            result = np.empty_like(W)
            ZW = W[:, :d] @ Z.T
            ZW *= zeta
            np.matmul(ZW, Z, out=result[:, :d])
            result[:, :d] += linear * W[:, d:]
            result[:, d:] = np.sum(linear * W[:, :d], axis=1, keepdims=True) + last * W[:, d:]
            return result

        return product

    def matrices(self, C: np.ndarray) -> np.ndarray:
        """Return the matrices of coefficients C, shape (k, n_atoms), as an array (D, k, D)."""
        m, d = self.landmarks.shape
        size = d + self.constant
        T = np.empty((size, len(C), size), C.dtype)
        for j, row in enumerate(C):
            T[:d, j, :d] = (self.landmarks.T * row[:m]) @ self.landmarks
        if not self.constant:
            return T
        T[:d, :, d] = C[:, m:-1].T * ROOT_HALF
        T[d, :, :d] = T[:d, :, d].T
        T[d, :, d] = C[:, -1]
        return T


def span_gradients(span: Span, H: np.ndarray, G: np.ndarray, X: np.ndarray, loss):
    """Return the losses of a batch and the gradients of their mean by encoder and decoder.

    Parameters
    ----------
    span : Span
    H : ndarray of shape (k, size)
        Encoder, in coordinates of the basis.
    G : ndarray of shape (k, size) or (k + 1, size)
        Decoder; one more row than H has is a constant term.
    X : ndarray of shape (b, D)
        What is encoded.
    loss : callable
        From the products with the M_i to ``(losses, P, V)``, as in
        :func:`akpca.autoencoding.gradients`.

    Returns
    -------
    losses : ndarray of shape (b,)
    dH, dG : ndarray
        Of the shapes of H and G.
    V : ndarray of shape (b, D)
        Eigenvectors that were found.
    """
    b, k = len(X), len(H)
    H_atoms, G_atoms = span.expand(H), span.expand(G)
    K = span.inner(X, X)
    Y = K @ H_atoms.T
    Y1 = np.hstack([Y, np.ones((b, len(G) - k), Y.dtype)])
    losses, P, V = loss(span.product(Y1 @ G_atoms))
    # (24) with the sign that it forgets, then (25) and (26)
    D = span.inner(P, V) / b
    dG = Y1.T @ D
    dH = (G_atoms[:k] @ D.T) @ K
    return losses, span.coordinates(dH), span.coordinates(dG), V


class DataSpanAKPCA(AKPCA):
    """Data-span AKPCA: f(x) = H k(x), g(y) = sqrt(lambda) v of sum_i (G^T y)_i z_i z_i^T.

    Here k(x)_i = (z_i.x)^2, the z_i are landmarks among the samples, and (lambda, v) is the
    leading eigenpair, found by products with the matrix alone. It is AKPCA with matrices restricted
    to the span of the z_i z_i^T: time O(m d) a sample, 2 k m parameters. When that span is
    everything, as it can be from m = d (d + 1) / 2 on, it is AKPCA.

    That is the report's form (``offset=False``). With an offset, samples and landmarks are
    centred, a constant coordinate is appended to samples, and linear and constant terms, which
    take d + 1 numbers a component, are free; see `AKPCA`.

    Parameters
    ----------
    n_components : int, default=2
        k, the size of the code; at most m or d (d + 1) / 2, whichever is less, and with an offset
        d more.
    n_landmarks : int, default=None
        m, at most the number of samples. None is all samples, but not more than 3,000.
    sampling : {'uniform', 'kmeans'}, default='uniform'
        Landmarks are samples drawn without replacement, or centres of clusters.
    rank : int, default=None
        Most dimensions to keep of the span of the z_i z_i^T, those in which landmarks vary most.
        None keeps all but those that rounding blurs.
    objective, offset, constant, init, solver, n_epochs, batch_size, penalty, noise, noise_level, \
early_stopping, validation_fraction, n_iter_no_change, warm_start, precision, random_state, \
verbose, callback
        As in `AKPCA`, with its defaults. The start 'kpca' is kernel PCA within the span, which is
        exact with all samples as landmarks.
    learning_rate : float, default=None
        The largest step; None is a value that suits every scale, dimension and k that was tried.
        For 'adam' in units of the root mean squared entry of a component of norm 1; for the
        others, of such a component.

    Attributes
    ----------
    landmarks_ : ndarray of shape (m, d)
        Z, in the units of X, not centred.
    encoder_coef_, decoder_coef_ : ndarray of shape (n_components, m)
        H and G: A_j = sum_i h_ji (z_i - mean) (z_i - mean)^T in the units of X, but for linear and
        constant terms.
    rank_ : int
        Dimensions of the span of the z_i z_i^T that were kept.
    encoder_, decoder_ : ndarray of shape (n_components, D, D)
        The symmetric matrices A_j and B_j, formed when asked for.
    decoder_offset_ : ndarray of shape (D, D)
        B_0; 0 without an offset.
    mean_, constant_, scale_, loss_curve_, monitor_curve_, gap_curve_, best_epoch_, n_iter_
        As in `AKPCA`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    Memory is O(k m + b m) for a batch of b, besides samples and landmarks, and once m^2 for the
    basis of the span, which is kept for `partial_fit` and warm starts; time, O(m^3) for that basis
    and O(n m d) an epoch.

    Examples
    --------
    >>> from akpca import load_dataset
    >>> from akpca.data_span import DataSpanAKPCA
    >>> X = load_dataset("digits").X
    >>> model = DataSpanAKPCA(5, n_landmarks=200, n_epochs=2, random_state=0).fit(X)
    >>> model.inverse_transform(model.transform(X)).shape
    (1797, 64)
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        **AKPCA._parameter_constraints,
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "sampling": [StrOptions(set(SAMPLINGS))],
        "rank": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        n_components=2,
        *,
        n_landmarks=None,
        sampling="uniform",
        rank=None,
        objective="reconstruction",
        offset=True,
        constant="auto",
        init="auto",
        solver="adam",
        learning_rate=None,
        n_epochs=None,
        batch_size=100,
        penalty=None,
        noise=None,
        noise_level=0.1,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=None,
        warm_start=False,
        precision="single",
        random_state=None,
        verbose=False,
        callback=None,
    ):
        super().__init__(
            n_components,
            objective=objective,
            offset=offset,
            constant=constant,
            init=init,
            solver=solver,
            learning_rate=learning_rate,
            n_epochs=n_epochs,
            batch_size=batch_size,
            penalty=penalty,
            noise=noise,
            noise_level=noise_level,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            warm_start=warm_start,
            precision=precision,
            random_state=random_state,
            verbose=verbose,
            callback=callback,
        )
        self.n_landmarks = n_landmarks
        self.sampling = sampling
        self.rank = rank

    # ------------------------------------------------------------------ what was fitted

    @property
    def landmarks_(self) -> np.ndarray:
        """Z, shape (m, d)."""
        landmarks = self._span.landmarks.astype(self._dtype)
        return landmarks * self._dtype.type(self.scale_) + self.mean_

    @property
    def encoder_coef_(self) -> np.ndarray:
        """H, shape (n_components, m)."""
        return self._coefficients(self._encoder)

    @property
    def decoder_coef_(self) -> np.ndarray:
        """G, shape (n_components, m)."""
        return self._coefficients(self._decoder[: self._n_features_out])

    @property
    def rank_(self) -> int:
        """Dimensions of the span of the z_i z_i^T."""
        return self._span.basis.shape[1]

    @property
    def _n_features_out(self):
        return len(self._encoder)

    def _coefficients(self, T):
        m = len(self._span.landmarks)
        return self._span.astype(T.dtype).expand(T)[:, :m] / T.dtype.type(self.scale_**2)

    def _matrices(self, T):
        span = self._span.astype(T.dtype)
        return span.matrices(span.expand(T)).transpose(1, 0, 2)

    # ------------------------------------------------------------------ samples

    def _validate(self, X, *, reset, ensure_min_samples):
        X = super()._validate(X, reset=reset, ensure_min_samples=ensure_min_samples)
        n, m = len(X), self.n_landmarks
        if reset and m is not None and m > n:
            raise ValueError(
                f"n_landmarks={m}, but X has only {n} samples to choose them from: give at most "
                "that many"
            )
        return X

    def _choose_constant(self, Z):
        return choose_constant(Z, self.n_components, LARGE_CONSTANT)

    def _set_axes(self, Z):
        """Stay with the features, since their axes would be a matrix of d^2 numbers."""

    def _choose_landmarks(self, Z, rng):
        """Return landmarks among normalised samples."""
        n, d, k = len(Z), self.n_features_in_, self.n_components
        m = min(n, DEFAULT_LANDMARKS) if self.n_landmarks is None else self.n_landmarks
        if k > m + (d if self.offset else 0):
            raise ValueError(
                f"n_components={k}, but the span of {m} landmarks has no more dimensions than "
                f"{m}{f' and {d} for linear terms' if self.offset else ''}: give a smaller "
                "n_components or a larger n_landmarks"
            )
        if self.sampling == "kmeans" and m < n:
            return _cluster_centers(Z[:, :d], m, rng)
        return np.ascontiguousarray(Z[rng.permutation(n)[:m], :d])

    # ------------------------------------------------------------------ descent

    def _start_params(self, Z, rng):
        """Choose the span; return encoder and decoder to start from, in its coordinates."""
        varies = np.ptp(Z[:, : self.n_features_in_], axis=0) > 0 if self.offset else None
        landmarks = self._choose_landmarks(Z, rng)
        span = Span(landmarks, constant=self.offset, rank=self.rank, varies=varies)
        self._span = span
        k = self.n_components
        H, G = (_random_rows(k, span.size, Z.dtype, rng) for _ in range(2))
        if self.init != "random":
            if self.offset:
                rows, gain = pca_rows(span, Z, k, rng)
            else:
                rows, gain = kpca_rows(span, Z, k, rng), 1
            H[: len(rows)], G[: len(rows)] = rows, gain * rows
            G[len(rows) :] = 0
        if self.offset:
            constant = np.zeros((1, span.size), Z.dtype)
            constant[0, -1] = Z[0, -1] ** 2
            G = np.vstack([G, constant])
        return [H, G]

    def _rate(self):
        rate = self.learning_rate
        if rate is None:
            rate = RATES[self.solver, self.objective]
        return rate / np.sqrt(max(self._span.size, 1)) if self.solver == "adam" else rate

    def _make_optimizer(self, params):
        return make_optimizer(self.solver)

    def _batch_gradients(self, params, Z, loss):
        return span_gradients(self._span, *params, Z, loss)

    def _encoding(self, H):
        """Return the map from normalised samples to codes."""
        span = self._span.astype(H.dtype)
        coefficients = span.expand(H).T
        return lambda Z: span.inner(Z, Z) @ coefficients

    def _decoded(self, G, Y, tol=None):
        span = self._span.astype(Y.dtype)
        coefficients = span.expand(G)
        m, d = span.landmarks.shape
        size = d + span.constant
        if len(G) * size**2 <= FORMED_SIZE and size < 2 * m and len(G) * size < 30 * len(Y):
            # then it costs less to form the B_j, once, than the products would without them
            yield from super()._decoded(span.matrices(coefficients), Y, tol)
            return
        direction = self._direction.astype(Y.dtype)
        # of each sample, a coefficient a landmark, and Lanczos vectors and their images
        numbers = m + 2 * objectives.CYCLE * size
        for rows in gen_batches(len(Y), max(1, BLOCK_SIZE // numbers)):
            Y1 = np.hstack([Y[rows], np.ones((len(Y[rows]), len(G) - Y.shape[1]), Y.dtype)])
            Z_hat, ratios = objectives.decode(
                span.product(Y1 @ coefficients),
                objectives.mixed_start(direction, (len(Y1), size)),
                towards=self._towards(Y.dtype),
                tol=tol,
            )
            yield rows, Z_hat, ratios

    def _keep(self, params):
        self._encoder, self._decoder = (p.astype(self._dtype) for p in params)


def kpca_rows(span: Span, X: np.ndarray, k: int, random_state=None) -> np.ndarray:
    """Return uncentred degree-2 kernel PCA within the span, at most k components as rows.

    With all samples as landmarks and full rank it is kernel PCA.

    Parameters
    ----------
    span : Span
    X : ndarray of shape (n, d)
    k : int
    random_state : int, RandomState instance or None, default=None
        Which samples, if there are many, and the eigensolver's start.

    Returns
    -------
    rows : ndarray of shape (found, size)
        Orthonormal; fewer than k if the samples have fewer components.
    """
    rng = check_random_state(random_state)
    if len(X) > START_SAMPLES:
        X = X[rng.choice(len(X), START_SAMPLES, replace=False)]
    scatter = np.zeros((span.size, span.size))
    for rows in gen_batches(len(X), BLOCK_ROWS):
        F = span.coordinates(span.inner(X[rows], X[rows]))
        scatter += F.T @ F
    if not scatter.any():
        return np.zeros((0, span.size), X.dtype)
    values, vectors, _ = leading_eigenpairs(scatter, min(k, span.size), random_state=rng)
    found = values > span.size * np.finfo(X.dtype).eps * values[0]
    return vectors[:, found].T.astype(X.dtype)


def pca_rows(span: Span, X: np.ndarray, k: int, random_state=None) -> tuple[np.ndarray, float]:
    """Return PCA in coordinates of a span with linear terms: :func:`.autoencoding.pca_start`.

    Returns
    -------
    rows : ndarray of shape (found, size)
        sqrt(2) sym(a_j e^T) for the principal axes a_j.
    gain : float
        By which the decoder multiplies them.
    """
    d, c = X.shape[1] - 1, float(X[0, -1])
    X = X[:, :d]
    axes, _ = principal_axes(X, k, random_state=random_state)
    axes, found = axes.astype(X.dtype), axes.shape[1]
    rows = np.zeros((found, span.size), X.dtype)
    rows[:, -1 - d : -1] = axes.T if span.varies is None else axes.T * span.varies
    gain, _, _ = best_factors(np.linalg.norm(X @ axes, axis=1), c)
    return rows, gain


def _random_rows(k, size, dtype, rng):
    """Return k random vectors of norm 1 as rows."""
    T = rng.standard_normal((k, size)).astype(dtype)
    return T / np.maximum(np.linalg.norm(T, axis=1, keepdims=True), np.finfo(dtype).tiny)
