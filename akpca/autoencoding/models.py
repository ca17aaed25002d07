"""The two models: matrices A_j and B_j that are free, or sums over some of the samples.

Both encode a normalised sample z by y_j = z^T A_j z and decode y by the leading eigenpair of
M(y) = sum_j y_j B_j, plus a constant matrix B_0 with an offset. They have the same interface:

=========================== ====================================================================
``start(...)``              a model to begin with: PCA, kernel PCA or random
``params``                  two arrays, encoder and decoder, which optimisers change in place
``encode(Z)``               codes, shape (n, k)
``product(Y)``              products with the M(y_i), as :mod:`.objectives` wants them
``decode(Y, tol)``          blocks: rows, decoded samples (n, D), and lambda_2 / lambda_1 (n,)
``gradients(Z, loss)``      losses of a batch, gradients of their mean, eigenvectors
``matrices(params[i])``     the A_j or B_j themselves, shape (k, D, D)
``astype(dtype)``           the model in another precision; itself, if it is in this one
``copy(dtype)``             a copy, in which matrices are exactly symmetric
``direction``, ``towards``  where eigenvector iterations start; the sign of decoded samples
``n_components, n_axes``    sizes of codes, and of samples without the constant
``root_size``               root of the number of entries of a component
``flops``                   operations of a product, per sample
=========================== ====================================================================

`DenseModel` holds k symmetric matrices as one array of shape (D, k, D), so that products of a batch
with all of them are one matrix multiplication. `SpanModel` has A_j = sum_i h_ij z_i z_i^T and
B_j = sum_i g_ij z_i z_i^T, where z_1, ..., z_m are all samples (Cohen, Hazan and Ma, 2016) or some
of them, the landmarks: 2 k m numbers, whatever d is. The code is y = H k(x), where
k(x)_i = (z_i.x)^2, and M(y) = sum_i zeta_i z_i z_i^T with zeta = G^T y, so that

    M w = Z^T (zeta * (Z w))

is two matrix products for a whole batch, and no d x d matrix is formed in training. Three things
make it work. H and G themselves are badly conditioned, since the z_i z_i^T are nearly parallel; the
parameters are therefore coordinates in an orthonormal basis of their span, from the eigenvectors of
the landmarks' kernel matrix. Landmarks instead of all samples make time and memory linear in n. And
with an offset the linear and constant terms, which need only d + 1 numbers per component, are left
free, so that PCA stays within reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.optimize import minimize
from sklearn.utils import check_random_state, gen_batches

from ..eigen import leading_eigenpairs
from ..kernel_pca import KernelPCA
from ..kernels import BLOCK_ROWS
from ..pca import principal_axes
from ..threads import one_blas_thread
from . import objectives

# From so many components on it is cheaper to form M once for a batch than to go through all B_j
# at each product; in training, where there are about ten products, and in decoding.
FORM_IN_TRAINING, FORM_IN_DECODING = 12, 3
# Numbers in the matrices M of a block, 32 MB in float64; most that may be formed in training; and
# most in the B_j of a span for decoding.
BLOCK_SIZE, FORMED_SIZE, FORMED_SPAN_SIZE = 2**22, 2**26, 2**24
# Samples that are encoded at a time, and from which kernel PCA is computed, at most.
ENCODED_ROWS, START_SAMPLES = 200, 5000
# Directions of the span whose eigenvalue is below this part of the largest are left out: in them
# the rounding of kernel values would show.
RANK_FLOOR = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-11}

ROOT_HALF = 0.5**0.5

Blocks = Iterator[tuple[slice, np.ndarray, np.ndarray]]


@dataclass
class BatchGradient:
    """The gradient of a batch as a function of parameters, which is what optimisers want.

    The losses and eigenvectors of its first call are kept.
    """

    model: DenseModel | SpanModel
    Z: np.ndarray
    loss: Callable
    losses: np.ndarray | None = None
    vectors: np.ndarray | None = None

    def __call__(self, params: list[np.ndarray]) -> list[np.ndarray]:  # noqa: D102
        losses, gradients, vectors = self.model.gradients(self.Z, self.loss, params)
        if self.losses is None:
            self.losses, self.vectors = losses, vectors
        return gradients


class DenseModel:
    """Free symmetric matrices A_j and B_j.

    Parameters
    ----------
    encoder : ndarray of shape (D, k, D)
        A_j = encoder[:, j].
    decoder : ndarray of shape (D, k, D) or (D, k + 1, D)
        B_j; one more matrix than the encoder has is B_0, and the last coordinate of samples is then
        a constant.
    direction : ndarray of shape (D,), default=None
        Where eigenvector iterations start. None is the sum of the axes.
    towards : ndarray of shape (D,) or (1,), default=None
        Decoded samples have a positive product with it. None is the sum of the axes.
    """

    def __init__(self, encoder: np.ndarray, decoder: np.ndarray, *, direction=None, towards=None):
        D, k, _ = encoder.shape
        self.params = [encoder, decoder]
        self.direction = np.ones(D, encoder.dtype) if direction is None else direction
        self.towards = np.ones(1) if towards is None else towards
        self.n_components, self.n_axes = k, D - (decoder.shape[1] - k)
        self.root_size, self.flops = D, 2 * decoder.size

    @classmethod
    def start(
        cls, Z, k: int, *, offset, random=False, corner=False, towards=None, random_state=None
    ) -> DenseModel:
        """Return PCA with an offset, uncentred degree-2 kernel PCA without, or random matrices.

        Without an offset, A_j = B_j = sum_i alpha_ij z_i z_i^T is the j-th component of kernel PCA,
        of Frobenius norm 1. With one, the last coordinate of samples is a constant c. With e
        the last axis and a_j the principal axes, A_j = sqrt(2) sym(a_j e^T) gives the linear code
        y_j = sqrt(2) c a_j.x; B_j = gamma A_j, and B_0 = c^2 (e e^T + beta sum_j a_j a_j^T). With
        x-hat, the answer of PCA, M is 0 but for c gamma x-hat beside the c^2 and the corner
        beta c^2, so that the decoder answers a multiple of x-hat, which should be x-hat itself,
        whatever its norm r:

            1 / (1 - beta) (gamma r) (1 - (2 + beta) / 2 (gamma r)^2 / ((1 - beta) c)^2 + ...)

        By gamma = 1 - beta that is right for large c, and beta = -2 takes away the next term too.
        Both are chosen such that the answers come nearest to PCA's, if `corner` is true. Else beta
        is 0: a corner makes the start as good as PCA but holds the quadratic terms back. Where the
        samples have fewer than k components the rest of B is 0, and that of A random.
        """
        rng = check_random_state(random_state)
        direction, towards = _directions(Z, offset, towards)
        if random:
            A, B = (_random_symmetric(Z.shape[1], k, Z.dtype, rng) for _ in range(2))
            if offset:
                B = np.concatenate([B, _constant_term(Z)], axis=1)
        else:
            A, B = _pca_start(Z, k, rng, corner) if offset else _kpca_start(Z, k, rng)
        return cls(A, B, direction=direction, towards=towards)

    def encode(self, Z: np.ndarray) -> np.ndarray:
        """Return the codes y_ij = z_i^T A_j z_i, shape (n, k)."""
        with one_blas_thread(flops=ENCODED_ROWS * self.flops):
            blocks = [self._codes(Z[rows]) for rows in gen_batches(len(Z), ENCODED_ROWS)]
        return np.concatenate(blocks)

    def product(self, Y: np.ndarray) -> objectives.Product:
        """Return the products with M_i = sum_j y_ij B_j, plus B_0."""
        return _product(self.params[1], _with_constant(Y, self.params[1].shape[1]), form=False)

    def decode(self, Y: np.ndarray, tol: float | None = None) -> Blocks:
        """Yield rows, the samples g(y) of these codes, and lambda_2 / lambda_1 of each."""
        return _decode_densely(self, self.params[1], Y, tol)

    def gradients(
        self, Z: np.ndarray, loss: Callable, params: list[np.ndarray] | None = None
    ) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
        """Return the losses of a batch, the gradients of their mean, and eigenvectors (b, D).

        Parameters
        ----------
        Z : ndarray of shape (b, D)
            What is encoded.
        loss : callable
            From the products with the M_i to ``(losses, P, V)``, such as
            ``partial(objectives.spectral, X=Z, start=start)``.
        params : list of ndarray, default=None
            Where to take the gradients, if not at `params` of the model.
        """
        A, B = self.params if params is None else params
        (b, d), k = Z.shape, A.shape[1]
        Y = _with_constant(self._codes(Z, A), B.shape[1])
        form = B.shape[1] >= FORM_IN_TRAINING and b * d * d <= FORMED_SIZE
        losses, P, V = loss(_product(B, Y, form))
        # dF/dy_j = p^T B_j v, dF/dA_j = sum_i dF/dy_ij z_i z_i^T,
        # dF/dB_j = sum_i y_ij sym(p_i v_i^T)
        dY = np.matmul(_images(B, V)[:, :k], P[:, :, None])[:, :, 0]
        dA = _weighted_sum(dY / b, Z, Z)
        dB = _weighted_sum(Y / b, P, V)
        dB = (dB + dB.transpose(2, 1, 0)) / 2
        return losses, [dA, dB], V

    def matrices(self, T: np.ndarray) -> np.ndarray:
        """Return one of the `params` as matrices, shape (k, D, D)."""
        return T.transpose(1, 0, 2)

    def astype(self, dtype: np.dtype) -> DenseModel:
        """Return the model in another precision; itself, if it is in this one."""
        return self if self.params[0].dtype == dtype else self.copy(dtype)

    def copy(self, dtype: np.dtype) -> DenseModel:
        """Return a copy with exactly symmetric matrices, which steps leave only nearly so."""
        params = ((p + p.transpose(2, 1, 0)).astype(dtype) / 2 for p in self.params)
        return DenseModel(*params, direction=self.direction, towards=self.towards)

    def turned(self, coordinates) -> DenseModel:
        """Return the model in features, by the axes of a :class:`.coordinates.Coordinates`."""
        turned = (coordinates.matrices(self.matrices(p)).transpose(1, 0, 2) for p in self.params)
        r, end = self.n_axes, self.direction[self.n_axes :]
        direction = np.append(coordinates.axes @ self.direction[:r], end).astype(end.dtype)
        towards = direction if len(end) else None
        return DenseModel(*map(np.ascontiguousarray, turned), direction=direction, towards=towards)

    def _codes(self, Z, A=None):
        A = self.params[0] if A is None else A
        return np.matmul(_images(A, Z), Z[:, :, None])[:, :, 0]


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
    size, n_atoms : int
        Dimensions, and atoms: r and m, with a constant d + 1 more.
    """

    def __init__(self, landmarks: np.ndarray, *, constant: bool, rank=None, varies=None):
        m, d = landmarks.shape
        if varies is not None:
            landmarks = landmarks * varies
        self.landmarks, self.constant, self.varies = landmarks, constant, varies
        K = landmarks.astype(np.float64)
        K = (K @ K.T) ** 2
        values, vectors = linalg.eigh(K, overwrite_a=True, driver="evd", check_finite=False)
        values, vectors = values[::-1], vectors[:, ::-1]
        above = values > RANK_FLOOR[landmarks.dtype] * max(values[0], 0)
        kept = min(int(np.sum(above)), m if rank is None else rank)
        self.basis = (vectors[:, :kept] / np.sqrt(values[:kept])).astype(landmarks.dtype, order="C")
        free = d + 1 if constant else 0
        self.size, self.n_atoms = kept + free, m + free

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
        """Return the products with matrices of coefficients C, shape (b, n_atoms)."""
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

    def kpca(self, X: np.ndarray, k: int, random_state=None) -> np.ndarray:
        """Return uncentred degree-2 kernel PCA within the span, as rows of coordinates.

        They are orthonormal, and fewer than k if the samples have fewer components. With all
        samples as landmarks and full rank it is kernel PCA.
        """
        rng = check_random_state(random_state)
        if len(X) > START_SAMPLES:
            X = X[rng.choice(len(X), START_SAMPLES, replace=False)]
        scatter = np.zeros((self.size, self.size))
        for rows in gen_batches(len(X), BLOCK_ROWS):
            F = self.coordinates(self.inner(X[rows], X[rows]))
            scatter += F.T @ F
        if not scatter.any():
            return np.zeros((0, self.size), X.dtype)
        values, vectors, _ = leading_eigenpairs(scatter, min(k, self.size), random_state=rng)
        found = values > self.size * np.finfo(X.dtype).eps * values[0]
        return vectors[:, found].T.astype(X.dtype)

    def pca(self, X: np.ndarray, k: int, random_state=None) -> tuple[np.ndarray, float]:
        """Return PCA as rows of coordinates, and gamma: see `DenseModel.start`."""
        axes, gamma, _ = _principal(X, k, random_state)
        # orthogonal to the z_i z_i^T
        inner = np.zeros((axes.shape[1], self.n_atoms), X.dtype)
        linear = inner[:, len(self.landmarks) : -1]
        linear[:] = axes.T if self.varies is None else axes.T * self.varies
        return self.coordinates(inner), gamma


class SpanModel:
    """Matrices in a `Span`, by their coordinates.

    Parameters
    ----------
    span : Span
    encoder : ndarray of shape (k, size)
        H in coordinates of the basis.
    decoder : ndarray of shape (k, size) or (k + 1, size)
        G; one more row than the encoder has is B_0.
    direction, towards : ndarray, default=None
        As in `DenseModel`.
    """

    def __init__(self, span: Span, encoder, decoder, *, direction=None, towards=None):
        self.span, self.params = span, [encoder, decoder]
        self.n_components, self.n_axes = len(encoder), span.landmarks.shape[1]
        D = self.n_axes + span.constant
        self.direction = np.ones(D, encoder.dtype) if direction is None else direction
        self.towards = np.ones(1) if towards is None else towards
        self.root_size, self.flops = float(np.sqrt(max(span.size, 1))), 4 * span.landmarks.size

    @classmethod
    def start(
        cls, span: Span, Z: np.ndarray, k: int, *, random: bool = False, random_state=None
    ) -> SpanModel:
        """Return PCA, if the span has linear terms, kernel PCA within the span, or random rows."""
        rng = check_random_state(random_state)
        H, G = (_random_rows(k, span.size, Z.dtype, rng) for _ in range(2))
        if not random:
            rows, gamma = span.pca(Z, k, rng) if span.constant else (span.kpca(Z, k, rng), 1)
            H[: len(rows)], G[: len(rows)] = rows, gamma * rows
            G[len(rows) :] = 0
        if span.constant:
            constant = np.zeros((1, span.size), Z.dtype)
            constant[0, -1] = Z[0, -1] ** 2
            G = np.vstack([G, constant])
        direction, towards = _directions(Z, span.constant, None)
        return cls(span, H, G, direction=direction, towards=towards)

    def encode(self, Z: np.ndarray) -> np.ndarray:
        """Return the codes H k(z), shape (n, k)."""
        coefficients = self.span.expand(self.params[0]).T
        blocks = (Z[rows] for rows in gen_batches(len(Z), ENCODED_ROWS))
        with one_blas_thread(flops=ENCODED_ROWS * self.flops):
            codes = [self.span.inner(block, block) @ coefficients for block in blocks]
        return np.concatenate(codes)

    def product(self, Y: np.ndarray) -> objectives.Product:
        """Return the products with M_i = sum_j y_ij B_j, plus B_0."""
        G = self.params[1]
        return self.span.product(_with_constant(Y, len(G)) @ self.span.expand(G))

    def decode(self, Y: np.ndarray, tol: float | None = None) -> Blocks:
        """Yield rows, the samples g(y) of these codes, and lambda_2 / lambda_1 of each."""
        coefficients = self.span.expand(self.params[1])
        (m, d), k = self.span.landmarks.shape, len(coefficients)
        D = d + self.span.constant
        if k * D**2 <= FORMED_SPAN_SIZE and D < 2 * m and k * D < 30 * len(Y):
            # then it costs less to form the B_j, once, than the products would without them
            return _decode_densely(self, self.span.matrices(coefficients), Y, tol)
        # per sample: a coefficient for each landmark, Lanczos vectors and their images
        block = max(1, BLOCK_SIZE // (m + 2 * objectives.CYCLE * D))
        return _decode(
            self, lambda Y: self.span.product(_with_constant(Y, k) @ coefficients), Y, block, tol
        )

    def gradients(
        self, Z: np.ndarray, loss: Callable, params: list[np.ndarray] | None = None
    ) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
        """Return the losses of a batch and the gradients of their mean: `DenseModel.gradients`."""
        H, G = self.params if params is None else params
        span, b, k = self.span, len(Z), len(H)
        H_atoms, G_atoms = span.expand(H), span.expand(G)
        K = span.inner(Z, Z)
        Y = _with_constant(K @ H_atoms.T, len(G))
        losses, P, V = loss(span.product(Y @ G_atoms))
        # (24) with the sign that it forgets, then (25) and (26)
        D = span.inner(P, V) / b
        dG = Y.T @ D
        dH = (G_atoms[:k] @ D.T) @ K
        return losses, [span.coordinates(dH), span.coordinates(dG)], V

    def matrices(self, T: np.ndarray) -> np.ndarray:
        """Return one of the `params` as matrices, shape (k, D, D)."""
        return self.span.matrices(self.span.expand(T)).transpose(1, 0, 2)

    def astype(self, dtype: np.dtype) -> SpanModel:
        """Return the model in another precision; itself, if it is in this one."""
        return self if self.params[0].dtype == dtype else self.copy(dtype)

    def copy(self, dtype: np.dtype) -> SpanModel:
        """Return a copy, in the same span."""
        span, params = self.span.astype(dtype), (p.astype(dtype) for p in self.params)
        return SpanModel(span, *params, direction=self.direction, towards=self.towards)


def best_factors(norms: np.ndarray, c: float, corner=False) -> tuple[float, float, float]:
    """Return gamma and beta of `DenseModel.start`, and the mean squared error that they leave."""
    if not norms.any():
        return 1.0, 0.0, 0.0
    norms = norms.astype(np.float64)

    def error(factors):
        gamma, beta = factors if corner else (*factors, 0.0)
        # the decoder is an eigenproblem of size 2
        side, block = c * gamma * norms, beta * c**2
        value = (block + c**2) / 2 + np.hypot((c**2 - block) / 2, side)
        decoded = np.sqrt(value) * side / np.hypot(side, value - block)
        return np.mean((decoded - norms) ** 2)

    found = minimize(error, (3.0, -2.0) if corner else (1.0,), method="Nelder-Mead")
    gamma, beta = found.x if corner else (*found.x, 0.0)
    return float(gamma), float(beta), float(found.fun)


def score(model, Z: np.ndarray, targets: np.ndarray, tol: float) -> tuple[float, float]:
    """Return the mean of ||g(f(z)) - target||^2 and the median of lambda_2 / lambda_1."""
    total, gaps = 0.0, []
    for rows, Z_hat, ratios in model.decode(model.encode(Z), tol):
        residuals = Z_hat[:, : model.n_axes] - targets[rows, : model.n_axes]
        total += float(np.sum(residuals * residuals, dtype=np.float64))
        gaps.append(ratios)
    return total / len(Z), float(np.median(np.concatenate(gaps)))


def _directions(Z, offset, towards):
    """Return where eigenvector iterations start, and the direction of positive coordinates."""
    if not offset:
        return Z.mean(axis=0), towards
    direction = np.zeros(Z.shape[1], Z.dtype)
    direction[-1] = 1
    return direction, direction


def _constant_term(Z):
    """Return c^2 e e^T, shape (D, 1, D)."""
    constant = np.zeros((Z.shape[1], 1, Z.shape[1]), Z.dtype)
    constant[-1, 0, -1] = float(Z[0, -1]) ** 2
    return constant


def _principal(Z, k, rng, corner=False):
    """Return the principal axes of samples with a constant, gamma, and beta c^2."""
    X, c = Z[:, :-1], float(Z[0, -1])
    axes, _ = principal_axes(X, k, random_state=rng)
    axes = axes.astype(Z.dtype)
    gamma, beta, _ = best_factors(np.linalg.norm(X @ axes, axis=1), c, corner)
    return axes, gamma, beta * c**2


def _pca_start(Z, k, rng, corner):
    axes, gamma, block = _principal(Z, k, rng, corner)
    d, used = axes.shape
    A = _random_symmetric(d + 1, k, Z.dtype, rng)
    A[:, :used] = 0
    A[:d, :used, d] = axes / np.sqrt(Z.dtype.type(2))
    A[d, :used, :d] = A[:d, :used, d].T
    B = np.concatenate([np.zeros_like(A), _constant_term(Z)], axis=1)
    B[:, :used] = gamma * A[:, :used]
    B[:d, k, :d] = block * (axes @ axes.T)
    return A, B


def _kpca_start(Z, k, rng):
    if len(Z) > START_SAMPLES:
        Z = Z[rng.choice(len(Z), START_SAMPLES, replace=False)]
    A = _random_symmetric(Z.shape[1], k, Z.dtype, rng)
    B = np.zeros_like(A)
    degree_2 = {"kernel": "poly", "degree": 2, "gamma": 1, "coef0": 0, "center": False}
    model = KernelPCA(min(k, len(Z)), **degree_2, remove_zero_eig=True, random_state=rng).fit(Z)
    alphas = model.eigenvectors_ / np.sqrt(model.eigenvalues_)
    found = alphas.shape[1]
    A[:, :found] = B[:, :found] = _weighted_sum(alphas, Z, Z)
    return A, B


def _product(B, Y, form):
    """Return the products with M_i = sum_j y_ij B_j, where Y has a column for each B_j.

    To form the M_i, b d^2 numbers, makes each product cheaper by a factor of about k / 3.
    """
    d, k, _ = B.shape
    if form:
        flat = np.ascontiguousarray(B.transpose(1, 0, 2)).reshape(k, d * d)
        return objectives.stacked_product((Y @ flat).reshape(-1, d, d))
    return lambda W: np.matmul(Y[:, None, :], _images(B, W))[:, 0]


def _decode_densely(model, B, Y, tol):
    """Decode by the matrices B_j, shape (D, k, D)."""
    D, k, _ = B.shape
    form, block = k >= FORM_IN_DECODING, max(16, BLOCK_SIZE // D**2)
    return _decode(model, lambda Y: _product(B, _with_constant(Y, k), form), Y, block, tol)


def _decode(model, product, Y, block, tol):
    """Yield blocks of decoded samples; `product` makes products of codes."""
    direction, towards = model.direction.astype(Y.dtype), model.towards.astype(Y.dtype)
    for rows in gen_batches(len(Y), block):
        with one_blas_thread(flops=100 * model.flops):
            products = product(Y[rows])
            start = objectives.mixed_start(direction, (len(Y[rows]), len(direction)))
            Z_hat, ratios = objectives.decode(products, start, towards=towards, tol=tol)
        yield rows, Z_hat, ratios


def _images(T, W):
    """Return T_j w_i for all i and j, shape (b, k, d)."""
    d, k, _ = T.shape
    return (W @ T.reshape(d, k * d)).reshape(len(W), k, d)


def _weighted_sum(Y, P, V):
    """Return sum_i y_ij p_i v_i^T for all j, shape (d, k, d)."""
    weighted = (Y[:, :, None] * V[:, None, :]).reshape(len(Y), -1)
    return (P.T @ weighted).reshape(P.shape[1], Y.shape[1], V.shape[1])


def _with_constant(Y, k):
    """Return the codes with a column of ones, if there are k matrices and not so many codes."""
    return Y if Y.shape[1] == k else np.hstack([Y, np.ones((len(Y), 1), Y.dtype)])


def _random_symmetric(d, k, dtype, rng):
    """Return k random symmetric matrices of Frobenius norm 1, shape (d, k, d)."""
    A = rng.standard_normal((d, k, d)).astype(dtype)
    A += A.transpose(2, 1, 0)
    return A / np.sqrt(np.sum(A * A, axis=(0, 2), keepdims=True))


def _random_rows(k, size, dtype, rng):
    """Return k random vectors of norm 1 as rows."""
    T = rng.standard_normal((k, size)).astype(dtype)
    return T / np.maximum(np.linalg.norm(T, axis=1, keepdims=True), np.finfo(dtype).tiny)
