"""What the chapters on the kernel Hebbian algorithm measure: the error after every pass.

Notation and equation numbers: Günter, Schraudolph and Vishwanathan, "Fast iterative kernel
principal component analysis", JMLR 8, 2007.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

import numpy as np
from scipy.linalg import issymmetric
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from ..eigen import leading_eigenpairs
from ..hebbian import (
    DivergenceError,
    Gain,
    HebbianProgress,
    KernelHebbian,
    kernel_reconstruction_error,
)
from ..operators import MatrixOperator
from ..parameters import check_number
from ..progress import progress_bar
from ..threads import matmul, one_blas_thread

__all__ = ["excess_error_curve", "excess_error_curves", "optimal_error"]


def _check_matrix(K) -> np.ndarray:
    K = check_array(K, dtype=[np.float64, np.float32], input_name="K")
    rounding = 1e3 * np.finfo(K.dtype).eps * np.abs(K).max()
    if K.shape[0] != K.shape[1] or not issymmetric(K, atol=rounding):
        what = "one that is not" if K.shape[0] == K.shape[1] else f"shape {K.shape}"
        raise ValueError(f"K must be a symmetric matrix of shape (l, l), got {what}")
    return K


def optimal_error(K: np.ndarray, n_components: int) -> float:
    """Return E_min, the smallest ||K - (A K)^T A K||_F (38) that r components can have.

    K is the centred kernel matrix, shape (l, l).
    """
    K = _check_matrix(K)
    check_number("n_components", n_components, integer=True, low=1, high=len(K))
    values, vectors, _ = leading_eigenpairs(K, n_components, random_state=0)
    # as explicit residual: a difference of squares would lose digits where the error is small
    rest = K - matmul(vectors * np.maximum(values, 0), vectors.T)
    with one_blas_thread(flops=2.0 * rest.size):  # the norm is a product of BLAS, too
        return float(np.linalg.norm(rest))


def excess_error_curve(
    K: np.ndarray,
    gain: Gain | str,
    n_components: int,
    n_passes: int,
    *,
    eigenvalue_updates: str = "pass",
    init: np.ndarray | None = None,
    random_state=None,
) -> np.ndarray:
    """Return E(A) / E_min - 1 after every pass of a variant of the kernel Hebbian algorithm.

    Parameters
    ----------
    K : ndarray of shape (l, l)
        The centred kernel matrix.
    gain, n_components, n_passes, eigenvalue_updates, init, random_state
        As in :class:`akpca.KernelHebbian`; by default eigenvalues are estimated before every pass,
        as in the paper's experiments.

    Returns
    -------
    curve : ndarray of shape (n_passes,)
        Never NaN. A run that diverges has its errors up to the last whole pass, and np.inf from
        the pass on in which it diverged.
    """
    K = _check_matrix(K)
    check_number("n_passes", n_passes, integer=True, low=1)
    operator, optimum = MatrixOperator(K), optimal_error(K, n_components)
    if optimum <= len(K) * np.finfo(K.dtype).eps * operator.frobenius_norm():
        raise ValueError(
            f"n_components={n_components} must be below the rank of K: E_min is 0 otherwise, and "
            "E / E_min has no meaning"
        )
    curve = np.full(n_passes, np.inf)

    def measure(state: HebbianProgress) -> None:
        error = kernel_reconstruction_error(operator, state.coefficients)
        curve[state.n_iter - 1] = error / optimum - 1

    model = KernelHebbian(
        n_components,
        kernel="precomputed",
        gain=gain,
        n_passes=n_passes,
        eigenvalue_updates=eigenvalue_updates,
        init=init,
        callback=measure,
        random_state=random_state,
    )
    with warnings.catch_warnings(), one_blas_thread(flops=2.0 * K.size * n_components):
        warnings.simplefilter("ignore", ConvergenceWarning)  # the curve tells
        try:
            model.fit(operator)
        except DivergenceError:
            pass
    return curve


def excess_error_curves(
    K: np.ndarray,
    gains: Mapping[str, Gain | str],
    n_components: int,
    n_passes: int,
    *,
    seeds: Iterable[int],
    verbose: bool = False,
    **options,
) -> dict[str, np.ndarray]:
    """Return the curves, shape (n_seeds, n_passes), of several gains by their names.

    With `verbose` there is a progress bar; `options` are passed on to :func:`excess_error_curve`.
    """
    if not isinstance(gains, Mapping):
        raise ValueError(f"gains must be a dictionary of gains by their names, got {gains!r}")
    if not isinstance(seeds, Iterable) or isinstance(seeds, str):
        raise ValueError(f"seeds must be a list or another iterable of integers, got {seeds!r}")
    seeds = list(seeds)  # an iterator has them only once
    tasks = [(name, seed) for name in gains for seed in seeds]
    curves: dict[str, list] = {name: [] for name in gains}
    for name, seed in progress_bar(tasks, shown=verbose):
        curve = excess_error_curve(
            K, gains[name], n_components, n_passes, random_state=seed, **options
        )
        curves[name].append(curve)
    return {name: np.array(runs) for name, runs in curves.items()}
