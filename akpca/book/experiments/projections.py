"""From coefficients of components to samples again: what the experiments on images need.

The iterations find coefficients A, shape (r, l), of components A Phi', and stand anywhere on their
way when they are looked at. `Samples` has the kernel matrix of the samples, and takes A as it is:
the code of x is y = A k'(x), which stands for A^T y in the feature space, as in the reconstruction
error (38) of Günter, Schraudolph and Vishwanathan, JMLR 8, 2007. A decoder of
:mod:`akpca.preimage` leads back.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...eigen import leading_eigenpairs
from ...kernel_code import KernelCode
from ...kernels import RBF
from ...operators import MatrixOperator
from ...preimage import Preimage
from .small_sets import Problem

__all__ = ["Samples"]


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples X, shape (l, d), with an RBF kernel of width sigma, centred on them.

    Attributes
    ----------
    X : ndarray of shape (l, d)
    sigma : float
        Of k(x, y) = exp(-||x - y||^2 / (2 sigma^2)).
    """

    X: np.ndarray
    sigma: float = 1.0

    @property
    def kernel(self) -> RBF:
        """The kernel, not centred."""
        return RBF(gamma=1 / (2 * self.sigma**2))

    @cached_property
    def operator(self) -> MatrixOperator:
        """K', the centred kernel matrix."""
        return MatrixOperator(self.kernel(self.X), center=True)

    def problem(self, experiment: str, part: str, n_components: int) -> Problem:
        """Return the search for the leading eigenvectors of K'."""
        return Problem(experiment, part, self.operator.K, n_components)

    def exact(self, n_components: int) -> np.ndarray:
        """Return the coefficients A, shape (r, l), that an eigensolver finds."""
        values, vectors, _ = leading_eigenpairs(self.operator.K, n_components, random_state=0)
        return (vectors / np.sqrt(values)).T

    def code(self, A: np.ndarray) -> KernelCode:
        """Return the code of coefficients A, shape (r, l)."""
        A = np.asarray(A, self.X.dtype)
        n, means = len(self.X), self.operator.means()
        weights = (A - A.mean(axis=1, keepdims=True)).T
        return KernelCode(
            self.kernel,
            self.X,
            weights,
            offset=means @ weights,
            mean_weights=np.full(n, 1 / n),
            mean_square=float(means.mean()),
            codes=self.operator.K @ A.T,
            targets=self.X,
            means=means,
        )

    def decoded(
        self, A: np.ndarray, decoder: Preimage, X_new: np.ndarray | None = None
    ) -> np.ndarray:
        """Return what the codes of X, or of other samples X_new, are decoded to.

        The decoder is fitted to the codes of X.
        """
        code = self.code(A)
        Y = code.codes if X_new is None else code.encode(np.asarray(X_new, self.X.dtype))
        return decoder.fit(code).decode(Y)
