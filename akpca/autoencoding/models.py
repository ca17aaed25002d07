"""The two models: matrices A_j and B_j that are free, or sums over some of the samples.

Both encode a normalised sample z by y_j = z^T A_j z and decode y by the leading eigenpair of
M(y) = sum_j y_j B_j, plus a constant matrix B_0 with an offset. `DenseModel` holds matrices as one
array of shape (D, k, D): products of a batch with all of them are one multiplication. `SpanModel`
has A_j = sum_i h_ji z_i z_i^T and B_j = sum_i g_ji z_i z_i^T of the landmarks z_i. The code is
y = H k(x), where k(x)_i = (z_i.x)^2, and

    M w = Z^T (zeta * (Z w)),  zeta = G^T y,

so that no d x d matrix is formed in training. H and G are badly conditioned, since the z_i z_i^T
are nearly parallel; the parameters are therefore coordinates in an orthonormal basis of their span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial

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

__all__ = ["DenseModel", "Span", "SpanModel"]

# Components from which on it is cheaper to form M for a batch: in training, of ten products, and in
# decoding.
FORM_IN_TRAINING, FORM_IN_DECODING = 12, 3
# Numbers in the matrices M of a block; most that are formed in training, and of B_j of a span.
BLOCK_SIZE, FORMED_SIZE, FORMED_SPAN_SIZE = 2**22, 2**26, 2**24
# Samples that are encoded at a time, and from which kernel PCA is computed, at most.
ENCODED_ROWS, START_SAMPLES = 200, 5000
# Directions of the span whose eigenvalue is below this part of the largest are left out: in them
# the rounding of kernel values would show.
RANK_FLOOR = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-11}

ROOT_HALF = 0.5**0.5
Blocks = Iterator[tuple[slice, np.ndarray, np.ndarray]]
Gradients = tuple[np.ndarray, list[np.ndarray], np.ndarray]


class _Model:
    """What the models share: decoding in blocks of rows.

    Optimisers change the `params`, encoder and decoder, in place. Eigenvector iterations start at
    `direction`, shape (D,), and decoded samples have a positive product with `towards`, shape (D,)
    or (1,): the axis of the constant coordinate, if samples have one besides their `n_axes`; else
    None is the sum of the axes. `root_size` is the root of the number of entries of a component,
    and `flops` counts the operations of a product, per sample.
    """

    root_size: float
    flops: float

    def __init__(self, params, D, n_axes, direction, towards):
        self.params, self.n_axes = params, n_axes
        if D > n_axes:
            direction = towards = np.eye(1, D, n_axes, params[0].dtype)[0]
        self.direction = np.ones(D, params[0].dtype) if direction is None else direction
        self.towards = np.ones(1) if towards is None else towards

    def decode(self, Y: np.ndarray, tol: float | None = None, *, unit: float = 1.0) -> Blocks:
        """Yield rows, the samples g(y / unit) of codes, and lambda_2 / lambda_1 of each.

        A code above the unit is divided by its size, so that it may be as large as can be.
        """
        product, block, flops = self._decoder(len(Y))
        direction, towards = self.direction.astype(Y.dtype), self.towards.astype(Y.dtype)
        sizes = np.maximum(np.abs(Y).max(axis=1, keepdims=True).astype(np.float64), unit)
        Y = (Y / sizes).astype(Y.dtype)
        if len(direction) > self.n_axes:
            Y = np.hstack([Y, (unit / sizes).astype(Y.dtype)])
        roots = (np.sqrt(sizes) / unit**0.5).astype(Y.dtype)
        for rows in gen_batches(len(Y), block):
            with one_blas_thread(flops):
                start = objectives.mixed_start(direction, (len(Y[rows]), len(direction)))
                # without a name, by which the matrices of a block would outlive it
                Z_hat, ratios = objectives.decode(product(Y[rows]), start, towards=towards, tol=tol)
            yield rows, Z_hat * roots[rows], ratios

    def error(self, Z: np.ndarray, targets: np.ndarray, tol: float) -> float:
        """Return the mean of ||g(f(z)) - target||^2."""
        total = 0.0
        for rows, Z_hat, _ in self.decode(self.encode(Z), tol):
            residuals = Z_hat[:, : self.n_axes] - targets[rows, : self.n_axes]
            total += float(np.sum(residuals * residuals, dtype=np.float64))
        return total / len(Z)

    def astype(self, dtype: np.dtype) -> _Model:
        """Return the model in another precision; itself, if it is in this one."""
        return self if self.params[0].dtype == dtype else self.copy(dtype)


class DenseModel(_Model):
    """Free symmetric matrices: A_j is encoder[:, j] and B_j is decoder[:, j], shape (D, k, D).

    One more matrix in the decoder than in the encoder is B_0, and the last coordinate of samples
    is then a constant.
    """

    def __init__(
        self, encoder: np.ndarray, decoder: np.ndarray, *, direction=None, towards=None
    ) -> None:
        D, k, _ = encoder.shape
        n_axes = D - (decoder.shape[1] - k)
        super().__init__([encoder, decoder], D, n_axes, direction, towards)
        self.root_size, self.flops = D, 2 * decoder.size

    @classmethod
    def start(
        cls, Z, k: int, *, offset, random=False, towards=None, random_state=None
    ) -> DenseModel:
        """Return PCA with an offset, uncentred degree-2 kernel PCA without, or random matrices.

        Without an offset, A_j = B_j = sum_i alpha_ij z_i z_i^T are components of kernel PCA, of
        Frobenius norm 1. With one, c is the constant coordinate, e its axis, a_j are principal
        axes, A_j = sqrt(2) sym(a_j e^T), so that y_j = sqrt(2) c a_j.x, B_j = gamma A_j, and
        B_0 = c^2 e e^T; gamma makes the answer, a multiple of PCA's, come nearest to it. Where
        there are fewer than k components, the rest of B is 0 and that of A random.
        """
        rng, D = check_random_state(random_state), Z.shape[1]
        options = {"direction": None if offset else Z.mean(axis=0), "towards": towards}
        if offset and not random:
            axes, gamma = _principal(Z, k, rng)
            used = axes.shape[1]
        elif not random and len(Z) > START_SAMPLES:
            Z = Z[rng.choice(len(Z), START_SAMPLES, replace=False)]
        A = _random_symmetric(D, k, Z.dtype, rng)
        if random:
            B = _random_symmetric(D, k, Z.dtype, rng)
        elif offset:
            A[:, :used] = 0
            A[:-1, :used, -1] = axes / np.sqrt(Z.dtype.type(2))
            A[-1, :used, :-1] = A[:-1, :used, -1].T
            B = gamma * A
            B[:, used:] = 0
        else:
            degree_2 = {"kernel": "poly", "degree": 2, "gamma": 1, "coef0": 0, "center": False}
            kpca = KernelPCA(min(k, len(Z)), **degree_2, remove_zero_eig=True, random_state=rng)
            kpca.fit(Z)
            alphas = kpca.eigenvectors_ / np.sqrt(kpca.eigenvalues_)
            B, used = np.zeros_like(A), alphas.shape[1]
            A[:, :used] = B[:, :used] = _weighted_sum(alphas, Z, Z)
        if offset:
            B_0 = np.zeros((D, 1, D), Z.dtype)
            B_0[-1, 0, -1] = float(Z[0, -1]) ** 2
            B = np.concatenate([B, B_0], axis=1)
        return cls(A, B, **options)

    def encode(self, Z: np.ndarray) -> np.ndarray:
        """Return the codes y_ij = z_i^T A_j z_i, shape (n, k)."""
        A = self.params[0]
        codes = np.empty((len(Z), A.shape[1]), Z.dtype)
        with one_blas_thread(flops=ENCODED_ROWS * self.flops):
            for rows in gen_batches(len(Z), ENCODED_ROWS):
                X = Z[rows]
                codes[rows] = np.matmul(_images(A, X), X[:, :, None])[:, :, 0]
        return codes

    def product(self, Y: np.ndarray, *, form: bool = False) -> objectives.Product:
        """Return the products with M_i = sum_j y_ij B_j, plus B_0, with the M_i formed or not."""
        B = self.params[1]
        d, k, _ = B.shape
        Y = _with_constant(Y, k)
        if form:
            flat = B.transpose(1, 0, 2).reshape(k, d * d)
            return objectives.stacked_product((Y @ flat).reshape(-1, d, d))
        return lambda W: np.matmul(Y[:, None, :], _images(B, W))[:, 0]

    def gradients(self, Z: np.ndarray, loss: Callable) -> Gradients:
        """Return the losses of a batch, the gradients of their mean, and eigenvectors (b, D).

        The loss takes the products with the M_i and returns ``(losses, P, V)``, such as
        ``partial(objectives.spectral, X=Z, start=start)``.
        """
        A, B = self.params
        (b, d), k = Z.shape, A.shape[1]
        Y = _with_constant(self.encode(Z), B.shape[1])
        form = B.shape[1] >= FORM_IN_TRAINING and b * d * d <= FORMED_SIZE
        losses, P, V = loss(self.product(Y, form=form))
        # dF/dy_j = p^T B_j v, dF/dA_j = sum_i dF/dy_ij z_i z_i^T, dF/dB_j = sum_i y_ij sym(p v^T)
        dY = np.matmul(_images(B, V)[:, :k], P[:, :, None])[:, :, 0]
        dA = _weighted_sum(dY / b, Z, Z)
        dB = _weighted_sum(Y / b, P, V)
        dB = (dB + dB.transpose(2, 1, 0)) / 2
        return losses, [dA, dB], V

    def matrices(self, i: int) -> np.ndarray:
        """Return encoder, 0, or decoder, 1, as matrices, shape (k, D, D)."""
        return self.params[i].transpose(1, 0, 2)

    def copy(self, dtype: np.dtype) -> DenseModel:
        """Return a copy with exactly symmetric matrices, which steps leave only nearly so."""
        A, B = (((T + T.transpose(2, 1, 0)) / 2).astype(dtype) for T in self.params)
        return DenseModel(A, B, direction=self.direction, towards=self.towards)

    fitted = copy

    def _decoder(self, n):
        """Return what makes products of n codes, how many rows at a time, and flops of one."""
        D, k, _ = self.params[1].shape
        form = k >= FORM_IN_DECODING
        # products with matrices that are formed are small, one for each code
        flops = 0.0 if form else 100.0 * self.flops
        return partial(self.product, form=form), max(16, BLOCK_SIZE // D**2), flops


class Span:
    """The span of symmetric matrices z_i z_i^T, and an orthonormal basis of it.

    The landmarks z_i, shape (m, d), are without the constant coordinate e that samples have if
    `constant` is true. The span then also holds linear and constant terms, so that PCA stays within
    reach: sqrt(2) sym(e_r e^T) for every other axis e_r, and e e^T, all orthonormal. With the
    z_i z_i^T, these are the `n_atoms` atoms, which span `size` dimensions.

    The `basis`, shape (m, r), is U Lambda^(-1/2) of those eigenpairs of the kernel matrix, with
    entries (z_i.z_j)^2, that are above rounding; None if parameters are coefficients of atoms.
    Features that do not vary, by `varies`, shape (d,), get no terms: gradients would be rounding.
    """

    def __init__(self, landmarks: np.ndarray, *, constant: bool, varies=True) -> None:
        (m, d), landmarks = landmarks.shape, landmarks * varies
        self.landmarks, self.constant, self.varies = landmarks, constant, varies
        K = landmarks.astype(np.float64)
        K = (K @ K.T) ** 2
        values, vectors = linalg.eigh(K, overwrite_a=True, driver="evd", check_finite=False)
        values, vectors = values[::-1], vectors[:, ::-1]
        kept = int(np.sum(values > RANK_FLOOR[landmarks.dtype] * max(values[0], 0)))
        self.basis = (vectors[:, :kept] / np.sqrt(values[:kept])).astype(landmarks.dtype, order="C")
        free = d + 1 if constant else 0
        self.size, self.n_atoms = kept + free, m + free

    def astype(self, dtype: np.dtype) -> Span:
        """Return the same span for samples of another precision."""
        if dtype == self.landmarks.dtype:
            return self
        other = copy(self)
        other.landmarks = self.landmarks.astype(dtype)
        other.basis = None if self.basis is None else self.basis.astype(dtype)
        return other

    def expand(self, T: np.ndarray) -> np.ndarray:
        """Return coefficients of atoms, shape (k, n_atoms), of coordinates, shape (k, size)."""
        if self.basis is None:  # they are coefficients already
            return T
        r = self.basis.shape[1]
        return np.hstack([T[:, :r] @ self.basis.T, T[:, r:]])

    def coordinates(self, S: np.ndarray) -> np.ndarray:
        """Return inner products with the basis, (k, size), from those with atoms, (k, n_atoms)."""
        m = len(self.basis)
        return np.hstack([S[:, :m] @ self.basis, S[:, m:]])

    def inner(self, P: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Return inner products of sym(p_i v_i^T) and atoms, (b, n_atoms): k(x) if p = v = x."""
        m, d = self.landmarks.shape
        S = np.empty((len(P), self.n_atoms), P.dtype)
        ZP = np.matmul(P[:, :d], self.landmarks.T, out=S[:, :m])
        ZP *= ZP if P is V else V[:, :d] @ self.landmarks.T
        if self.constant:
            S[:, m:-1] = ROOT_HALF * (P[:, :d] * V[:, d:] + P[:, d:] * V[:, :d])
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
        with one_blas_thread(flops=2.0 * m * d**2):
            for j, row in enumerate(C):
                T[:d, j, :d] = (self.landmarks.T * row[:m]) @ self.landmarks
        if not self.constant:
            return T
        T[:d, :, d] = C[:, m:-1].T * ROOT_HALF
        T[d, :, :d] = T[:d, :, d].T
        T[d, :, d] = C[:, -1]
        return T

    def forms(self, T: np.ndarray) -> np.ndarray:
        """Return the matrices, shape (k, D, D), of coordinates, shape (k, size)."""
        return self.matrices(self.expand(T)).transpose(1, 0, 2)

    def kpca(self, X: np.ndarray, k: int, random_state=None) -> np.ndarray:
        """Return degree-2 kernel PCA, not centred, as at most k orthonormal rows of coordinates."""
        rng = check_random_state(random_state)
        if len(X) > START_SAMPLES:
            X = X[rng.choice(len(X), START_SAMPLES, replace=False)]
        scatter = np.zeros((self.size, self.size))
        for rows in gen_batches(len(X), BLOCK_ROWS):
            F = self.coordinates(self.inner(X[rows], X[rows]))  # of z z^T
            scatter += F.T @ F
        if not scatter.any():
            return np.zeros((0, self.size), X.dtype)
        values, vectors, _ = leading_eigenpairs(scatter, min(k, self.size), random_state=rng)
        found = values > self.size * np.finfo(X.dtype).eps * values[0]
        return vectors[:, found].T.astype(X.dtype)

    def pca(self, X: np.ndarray, k: int, random_state=None) -> tuple[np.ndarray, float]:
        """Return PCA as rows of coordinates, and gamma: see `DenseModel.start`."""
        axes, gamma = _principal(X, k, random_state)
        inner = np.zeros((axes.shape[1], self.n_atoms), X.dtype)  # orthogonal to the z_i z_i^T
        inner[:, len(self.landmarks) : -1] = axes.T * self.varies
        return self.coordinates(inner), gamma


class SpanModel(_Model):
    """Matrices in a `Span`: the rows of encoder and decoder, shape (k, size), are coordinates.

    One more row in the decoder than in the encoder is B_0.
    """

    def __init__(self, span: Span, encoder, decoder, *, direction=None, towards=None) -> None:
        self.span, d = span, span.landmarks.shape[1]
        super().__init__([encoder, decoder], d + span.constant, d, direction, towards)
        self.root_size, self.flops = float(np.sqrt(max(span.size, 1))), 4 * span.landmarks.size

    @classmethod
    def start(
        cls, span: Span, Z: np.ndarray, k: int, *, random: bool = False, random_state=None
    ) -> SpanModel:
        """Return PCA, if the span has linear terms, kernel PCA within the span, or random rows."""
        rng = check_random_state(random_state)
        H, G = rng.standard_normal((2, k, span.size)).astype(Z.dtype)
        for T in (H, G):
            T /= np.maximum(np.linalg.norm(T, axis=1, keepdims=True), np.finfo(T.dtype).tiny)
        if not random:
            rows, gamma = span.pca(Z, k, rng) if span.constant else (span.kpca(Z, k, rng), 1)
            H[: len(rows)], G[: len(rows)] = rows, gamma * rows
            G[len(rows) :] = 0
        if span.constant:
            constant = np.zeros((1, span.size), Z.dtype)
            constant[0, -1] = Z[0, -1] ** 2
            G = np.vstack([G, constant])
        return cls(span, H, G, direction=Z.mean(axis=0))

    def encode(self, Z: np.ndarray) -> np.ndarray:
        """Return the codes y = H k(z), shape (n, k)."""
        H = self.span.expand(self.params[0]).T
        codes = np.empty((len(Z), H.shape[1]), Z.dtype)
        with one_blas_thread(flops=ENCODED_ROWS * self.flops):
            for rows in gen_batches(len(Z), ENCODED_ROWS):
                codes[rows] = self.span.inner(Z[rows], Z[rows]) @ H
        return codes

    def gradients(self, Z: np.ndarray, loss: Callable) -> Gradients:
        """Return the losses of a batch and the gradients of their mean: `DenseModel.gradients`."""
        H, G = self.params
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

    def matrices(self, i: int) -> np.ndarray:
        """Return encoder, 0, or decoder, 1, as matrices, shape (k, D, D)."""
        return self.span.forms(self.params[i])

    def copy(self, dtype: np.dtype) -> SpanModel:
        """Return a copy, in the same span."""
        span, params = self.span.astype(dtype), (p.astype(dtype) for p in self.params)
        return SpanModel(span, *params, direction=self.direction, towards=self.towards)

    def fitted(self, dtype: np.dtype) -> SpanModel:
        """Return a copy without the basis, whose m^2 numbers only descents need."""
        model = self.copy(dtype)
        with one_blas_thread():
            model.params = [model.span.expand(p) for p in model.params]
        model.span = copy(model.span)
        model.span.basis = None
        return model

    def _decoder(self, n):
        with one_blas_thread():
            coefficients = self.span.expand(self.params[1])
        m, k, D = len(self.span.landmarks), len(coefficients), len(self.direction)
        if k * D**2 <= FORMED_SPAN_SIZE and D < 2 * m and k * D < 30 * n:
            # then it costs less to form the B_j, once, than the products would without them
            B = self.span.matrices(coefficients)
            return DenseModel(B, B)._decoder(n)
        # per sample: a coefficient for each landmark, Lanczos vectors and their images
        block = max(1, BLOCK_SIZE // (m + 2 * objectives.CYCLE * D))
        return lambda Y: self.span.product(Y @ coefficients), block, 100 * self.flops


def _principal(Z, k, rng):
    """Return the principal axes of samples with a constant, and gamma: see `DenseModel.start`."""
    X, c = Z[:, :-1], float(Z[0, -1])
    axes = principal_axes(X, k, random_state=rng)[0].astype(Z.dtype)
    norms = np.linalg.norm(X @ axes, axis=1).astype(np.float64)

    def error(gamma):
        # for an answer of PCA of this norm, the decoder is an eigenproblem of size 2
        side = c * gamma * norms
        value = c**2 / 2 + np.hypot(c**2 / 2, side)
        decoded = np.sqrt(value) * side / np.hypot(side, value)
        return np.mean((decoded - norms) ** 2)

    found = minimize(error, (1.0,), method="Nelder-Mead").x if norms.any() else np.ones(1)
    return axes, float(found[0])


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
