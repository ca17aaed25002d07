"""The code of kernel PCA, f(x) = W^T k(x, Z) - offset, and what codes stand for in feature space.

The components v_j = sum_i W_ij phi(z_i) are expanded in points z_i: all fitted samples, landmarks,
or what a stream has kept. A code is relative to a mean in feature space, expanded in the same
points, mean = sum_i c_i phi(z_i), so that the offset is v_j . mean. A code y stands for the point

    P phi = sum_j y_j v_j + mean = sum_i g_i phi(z_i),    g = W y + c,

which :mod:`akpca.preimage` seeks in input space.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches
from sklearn.utils.extmath import row_norms

from .kernels import BLOCK_ROWS, Kernel, check_finite
from .threads import matmul

__all__ = ["KernelCode", "relative_to"]

# Samples that are encoded at a time.
ENCODED_ROWS = 2048


def relative_to(shift: np.ndarray | None, X):
    """Return the samples X minus the shift, dense, or X itself if the shift is None."""
    if shift is None:
        return X
    with np.errstate(over="ignore"):  # kernel values will not be finite, which is reported
        return (X.toarray() if sparse.issparse(X) else X) - shift


@dataclass(frozen=True, eq=False)
class KernelCode:
    """A fitted code: encodes samples, and tells decoders about feature space."""

    kernel: Kernel
    # Z, shape (m, d), or an operator with its own ``encode(X, weights)``; None if kernel values are
    # precomputed
    points: np.ndarray | sparse.sparray | None
    weights: np.ndarray  # W, (m, k); components have norm 1 in feature space
    offset: np.ndarray  # (k,), products of the components with the mean; zeros if not centred
    mean_weights: np.ndarray | None = None  # c, (m,); None if not centred, codes relative to 0
    mean_square: float = 0.0  # ||mean||^2
    codes: np.ndarray | None = None  # (n, k), of known samples, from which decoders start or learn
    targets: np.ndarray | None = None  # (n, d), these samples themselves, often the points
    # phi(z_i) . mean, (m,), if known: subtracted from kernel values first, to avoid cancellation
    means: np.ndarray | None = None
    # origin of the points, (d,), subtracted from samples first (`KernelEstimator._best_origin`)
    shift: np.ndarray | None = None

    def encode(self, X) -> np.ndarray:
        """Return the codes f(x) of samples X (n_new, d), or of kernel values, shape (n_new, k)."""
        dtype = np.result_type(X.dtype, self.weights)
        if hasattr(self.points, "encode"):
            return (self.points.encode(X, self.weights) - self.offset).astype(dtype)
        codes = np.empty((X.shape[0], self.weights.shape[1]), dtype)
        for rows in gen_batches(X.shape[0], ENCODED_ROWS):
            K = self.kernel.matrix(relative_to(self.shift, X[rows]), self.points)
            codes[rows] = matmul(K if self.means is None else K - self.means, self.weights)
        if self.means is None:
            codes -= self.offset
        return check_finite(codes, self.kernel)

    def distances(self, X) -> np.ndarray:
        """Return ||phi(x) - P phi(x)||^2, the squared distance of samples from the components.

        Shape (n_new,). X is as in `encode`, but kernel values alone don't tell k(x, x).
        """
        W, found = np.column_stack([self.weights, self.origin]), np.empty(X.shape[0])
        for rows in gen_batches(X.shape[0], ENCODED_ROWS):
            Z = relative_to(self.shift, X[rows])
            if hasattr(self.points, "encode"):
                products = self.points.encode(X[rows], W)
            else:
                products = matmul(self.kernel.matrix(Z, self.points), W)
            codes, along = products[:, :-1] - self.offset, products[:, -1]
            found[rows] = self.kernel.diag(Z) - 2 * along - row_norms(codes, squared=True)
        return np.maximum(check_finite(found, self.kernel) + self.mean_square, 0)

    # What decoders need

    @cached_property
    def origin(self) -> np.ndarray:
        """Coefficients of the point of feature space that the code 0 stands for, shape (m,)."""
        if self.mean_weights is None:
            return np.zeros(len(self.weights), self.weights.dtype)
        return self.mean_weights.astype(self.weights.dtype)

    def expansion(self, Y: np.ndarray) -> np.ndarray:
        """Return g with P phi = sum_i g_i phi(z_i) for each row of Y, shape (len(Y), m)."""
        return matmul(Y, self.weights.T) + self.origin

    def squared_norms(self, Y: np.ndarray) -> np.ndarray:
        """Return ||P phi||^2 = g^T K g for each row of Y, without K. Shape (len(Y),)."""
        # ||sum_j y_j v_j + mean||^2, and the v_j are orthonormal
        norms = row_norms(Y, squared=True) + 2 * (Y @ self.offset) + self.mean_square
        return np.maximum(norms, 0)

    @cached_property
    def target_means(self) -> np.ndarray:
        """Inner products of phi(target) with the mean in feature space, shape (n,)."""
        if self.means is not None and (self.shift is not None or self.targets is self.points):
            return self.means
        blocks = [self.targets[rows] for rows in gen_batches(len(self.targets), BLOCK_ROWS)]
        blocks = (relative_to(self.shift, X) for X in blocks)
        return np.concatenate([self.kernel(X, self.points) @ self.origin for X in blocks])

    @cached_property
    def target_norms(self) -> np.ndarray:
        """Squared norms k(x, x) of the targets in feature space, shape (n,)."""
        return self.kernel.diag(relative_to(self.shift, self.targets))

    def inner_products(self, Y: np.ndarray) -> np.ndarray:
        """Return phi(target) . P phi for each row of Y and each target, shape (len(Y), n).

        Since the code of a target is v_j . (phi(target) - mean), no kernel values are needed.
        """
        return matmul(Y, (self.codes + self.offset).T) + self.target_means
