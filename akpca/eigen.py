"""Leading eigenpairs of a symmetric matrix, largest eigenvalue first.

`leading_eigenpairs` is for matrices, and chooses among LAPACK, ARPACK and a randomised method by
cost; `block_krylov` is for operators that are known by their products; `power_method` is the
textbook method, which chapter 01 derives. All return values in descending order, shape (k,), and
unit vectors as the columns of an (n, k) array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh
from sklearn.utils import check_random_state
from sklearn.utils.extmath import randomized_svd

from .progress import FitProgress, warn_interrupted
from .threads import one_blas_thread

__all__ = [
    "MAX_NEGATIVE_RATIO",
    "block_krylov",
    "clean_eigenvalues",
    "enough_components",
    "indefinite_error",
    "independent_rows",
    "lapack_work",
    "leading_eigenpairs",
    "power_method",
]

DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)
# A landmark is dropped if the others explain all but this fraction of the largest k(z, z): features
# are divided by the square root of the rest, which would amplify rounding errors.
MIN_PIVOT_RATIO = {DOUBLE: 1e-12, SINGLE: 1e-5}
# As in scikit-learn: the largest ratio of a negative to the largest positive eigenvalue (or of a
# residual to k(x, x)) and the largest absolute value taken for rounding, the largest ratio for zero
MAX_NEGATIVE_RATIO = {DOUBLE: 1e-5, SINGLE: 5e-3}
MAX_NEGATIVE = {DOUBLE: 1e-10, SINGLE: 1e-6}
MAX_ZERO_RATIO = {DOUBLE: 1e-12, SINGLE: 2e-7}
# Work of a product with one vector, for each entry, in flops of a matrix product: memory bounds it.
VECTOR_WORK = 12
# Squared norms below these, relative to the largest and absolute, are rounding errors.
MIN_SQUARE_RATIO, MIN_SQUARE = 1e-10, 1e-20
# Blocks in the basis of `block_krylov`, at most, before it restarts.
MAX_BLOCKS = 10
# SciPy 1.17 draws new vectors where ARPACK restarts.
EIGSH_TAKES_RNG = "rng" in signature(eigsh).parameters


def lapack_work(n: int, d: int) -> float:
    """Return the work of decomposing an n x d matrix, in flops of a matrix product."""
    return n * d * min(n, d) / 3


def leading_eigenpairs(
    K: np.ndarray,
    k: int,
    *,
    solver: str = "auto",
    tol: float = 0,
    max_iter: int | None = None,
    iterated_power: int | str = "auto",
    random_state=None,
    overwrite: bool = False,
) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the k largest eigenpairs of a symmetric matrix, 1 <= k <= n, and the solver's name.

    Values are the algebraically largest ones.

    Parameters
    ----------
    solver : {'auto', 'dense', 'arpack', 'randomized'}, default='auto'
        'auto' is the cheaper of 'dense' and 'arpack', which falls back on 'dense' where it can't
        start or go on.
    tol, max_iter, iterated_power, random_state
        As in :class:`akpca.KernelPCA`.
    overwrite : bool, default=False
        Allow the dense solver to overwrite K, which saves a copy of it.
    """
    n, used = K.shape[0], solver
    if solver == "auto":
        # LAPACK costs O(n^3) for any k, ARPACK about 3 k products of O(n^2) and, for larger k, the
        # orthogonalisation of its basis; see benchmarks/bench_eigensolvers.py
        used = "arpack" if n > 150 and k < n / 8 else "dense"
    if used == "arpack" and k >= n:
        used = "dense"  # ARPACK finds at most n - 1 pairs
    if used == "arpack":
        try:
            with one_blas_thread(flops=VECTOR_WORK * n**2):
                values, vectors = _arpack(K, k, tol, max_iter, random_state)
        except ArpackError as error:
            # A zero matrix, or many equal eigenvalues, are not for ARPACK. Too few iterations are
            # an error if they were asked for.
            if solver == "arpack" and isinstance(error, ArpackNoConvergence):
                raise
            used = "dense"
    if used == "randomized":
        options = {"n_iter": iterated_power, "flip_sign": False, "random_state": random_state}
        vectors, s, Vt = randomized_svd(K, k, **options)
        # singular values are absolute eigenvalues; the two bases differ by their signs
        values = s * np.sign(np.einsum("ij,ji->j", vectors, Vt))
    if used == "dense":
        # the transpose is the same matrix in LAPACK's order, so that nothing is copied
        options = {"overwrite_a": overwrite, "check_finite": False}
        diagonal = K.diagonal().copy()
        with one_blas_thread(flops=lapack_work(n, n)):
            values, vectors = linalg.eigh(K.T, subset_by_index=(n - k, n - 1), **options)
            if len(values) < k:
                # Among repeated eigenvalues this selects too few. It overwrites one triangle and
                # the diagonal at most: all pairs are found from the other triangle.
                if overwrite:
                    np.fill_diagonal(K, diagonal)
                values, vectors = linalg.eigh(K.T, lower=False, driver="evd", **options)
                values, vectors = values[-k:], vectors[:, -k:]
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order], used


def _arpack(K, k, tol, max_iter, random_state):
    # a product with a matrix is limited by memory bandwidth; SYMV reads only half of it
    (symv,) = linalg.get_blas_funcs(("symv",), (K,))
    transposed = K.T if K.flags.c_contiguous else K
    product = LinearOperator(K.shape, matvec=lambda v: symv(1, transposed, v), dtype=K.dtype)
    rng = check_random_state(random_state)
    start = rng.uniform(-1, 1, K.shape[0]).astype(K.dtype)
    options = {"which": "LA", "tol": tol, "maxiter": max_iter, "v0": start}
    if EIGSH_TAKES_RNG:
        options["rng"] = np.random.default_rng(rng.randint(2**31))
    return eigsh(product, k, **options)


@dataclass(frozen=True)
class KrylovResult:
    """Eigenpairs found by `block_krylov`.

    Residuals are ||K v - nu v|| / nu, where nu is at least sqrt(eps) times the largest one.
    """

    values: np.ndarray  # (k,), in descending order
    vectors: np.ndarray  # (n, k), with orthonormal columns
    residuals: np.ndarray  # (k,), measured, not estimated
    n_products: int  # of K with a block of vectors
    converged: bool  # all residuals are at most `tol`, or as small as the precision of K allows


def block_krylov(
    K,
    k: int,
    *,
    tol: float = 1e-4,
    max_products: int = 100,
    start: np.ndarray | str = "auto",
    callback: Callable[[FitProgress], bool | None] | None = None,
    random_state=None,
) -> KrylovResult:
    """Return the k leading eigenpairs of a symmetric operator that is expensive to multiply with.

    A block Lanczos method: the basis B grows by the residuals R = K V - V diag(nu) of the current
    Ritz vectors V, and the projected matrix B^T K B gives better ones. One product with a block of
    vectors, a sweep over a kernel, serves all components. When the basis is full it restarts from
    the Ritz vectors. An interrupt returns the last result, with a warning.

    Parameters
    ----------
    K : operator or ndarray of shape (n, n)
        Anything symmetric with ``shape``, ``dtype`` and ``K @ V``.
    tol : float, default=1e-4
        Largest ||K v - nu v|| / nu. Eigenvalues then have relative errors of tol^2 / relative gap.
    max_products : int, default=100
        Largest number of products, after which the best pairs so far are returned.
    start : {'auto', 'random'} or ndarray of shape (n, b), b >= k, default='auto'
        First block, such as the eigenvectors of an approximation. 'auto' takes those of a sample
        (`nystrom_vectors`) if K is an operator that has samples, and is random otherwise.
    callback : callable, default=None
        Called with a :class:`akpca.progress.FitProgress` after each product. Its `loss` is the
        largest residual and its `model` the current `KrylovResult`. A true return value stops.
    random_state : int, RandomState instance or None, default=None
        Determines the sample, or the random start.
    """
    n = K.shape[0]
    if not 1 <= k <= n:
        raise ValueError(f"k must be between 1 and {n}, the size of K, got {k}")
    if isinstance(start, str):
        start = _start(K, k, check_random_state(random_state), sampled=start == "auto")
    if start.shape[0] != n or start.shape[1] < k:
        raise ValueError(f"start must have {n} rows and at least {k} columns, got {start.shape}")
    block = linalg.qr(np.asarray(start, np.float64), mode="economic", check_finite=False)[0]
    width = block.shape[1]
    max_basis = min(n, MAX_BLOCKS * width)
    eps = np.finfo(K.dtype).eps
    basis, images, result = np.empty((n, 0)), np.empty((n, 0)), None
    for n_products in range(1, max_products + 1):
        try:
            products = K @ block
        except KeyboardInterrupt:
            if result is None:
                raise
            warn_interrupted(f"after {n_products - 1} products")
            break
        images, basis = np.hstack([images, products]), np.hstack([basis, block])
        projected = basis.T @ images
        values, S = np.linalg.eigh((projected + projected.T) / 2)
        values, S = values[::-1][:width], S[:, ::-1][:, :width]
        vectors, moved = basis @ S, images @ S
        R = moved - vectors * values
        norms = np.linalg.norm(R, axis=0)
        largest = np.abs(values).max()
        scale = np.maximum(np.abs(values), np.sqrt(eps) * largest)
        residuals = np.divide(norms, scale, out=np.zeros_like(norms), where=scale > 0)[:k]
        # residuals cannot be smaller than the precision of K
        goal = np.maximum(tol * scale, 8 * eps * largest)[:k]
        converged = bool((norms[:k] <= goal).all()) or basis.shape[1] == n
        result = KrylovResult(values[:k], vectors[:, :k], residuals, n_products, converged)
        state = FitProgress(n_products, max_products, float(residuals.max()), result)
        if (callback and callback(state)) or converged:
            break
        if basis.shape[1] + width > max_basis:
            basis, images = vectors, moved
        block = _orthonormal_part(R[:, norms > 0], basis)
        if block.shape[1] == 0:  # the basis is invariant: nothing more to find
            break
    return result


def _start(K, k, rng, *, sampled):
    """Return the first block of an iteration, with some more than k vectors: that saves a sweep."""
    n = K.shape[0]
    width = min(n, k + max(15, k // 3))
    if sampled and hasattr(K, "nystrom_vectors") and 4 * width < n:
        sample = max(width, min(2000, n // 4))
        return K.nystrom_vectors(width, n_landmarks=sample, random_state=rng)
    return rng.standard_normal((n, width))


def _orthonormal_part(R: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the part of R's columns that is orthogonal to `basis`."""
    R = R / np.linalg.norm(R, axis=0)
    # by the Gram matrix, which is fast; the later rounds restore the accuracy that this loses
    for _ in range(3):
        R = R - basis @ (basis.T @ R)
        squares, U = np.linalg.eigh(R.T @ R)
        keep = squares > max(MIN_SQUARE_RATIO * squares.max(initial=0), MIN_SQUARE)
        R = R @ (U[:, keep] / np.sqrt(squares[keep]))
    return R[:, : basis.shape[0] - basis.shape[1]]


def power_method(
    A: np.ndarray, k: int, *, tol: float = 1e-10, max_iter: int = 10_000, random_state=0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k leading eigenpairs of a positive semi-definite matrix, one after another.

    Repeats y <- A y / ||A y|| from a random start until y does not change, removes the eigenvector
    from A by deflation, A <- A - lambda v v^T, and goes on with the next. For teaching.

    A step that changes an eigenvector by less than `tol` is the last one, and an error is raised if
    `max_iter` of them are not enough.
    """
    A = np.array(A, dtype=np.float64)
    n = A.shape[0]
    if not 1 <= k <= n:
        raise ValueError(f"k must be between 1 and {n}, the size of A, got {k}")
    rng = check_random_state(random_state)
    floor = np.finfo(A.dtype).eps * n * max(np.trace(A), 0)
    values, vectors = np.zeros(k), np.zeros((n, k))
    for j in range(k):
        y = rng.standard_normal(n)
        y /= np.linalg.norm(y)
        for _ in range(max_iter):
            z = A @ y
            # deflation leaves rounding errors along earlier vectors, which would grow again
            z -= vectors[:, :j] @ (vectors[:, :j].T @ z)
            size = np.linalg.norm(z)
            if size <= floor:  # nothing but rounding is left: any orthogonal vector will do
                z = y - vectors[:, :j] @ (vectors[:, :j].T @ y)
                y = z / np.linalg.norm(z)
                break
            z /= size
            y, change = z, np.linalg.norm(z - y)
            if change < tol:
                break
        else:
            raise RuntimeError(
                f"the power method did not settle on eigenvector {j + 1} in max_iter={max_iter} "
                f"steps: two eigenvalues are nearly equal; raise max_iter or tol"
            )
        values[j], vectors[:, j] = y @ A @ y, y
        A -= values[j] * np.outer(y, y)
    return values, vectors


def independent_rows(K: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return indices of independent rows of a kernel matrix, and its Cholesky factor there.

    The indices, shape (rank,), are in the order in which rows add most to those before them. The
    factor L, in Fortran order, has L L^T = K[kept][:, kept]. `dtype` is the precision of the kernel
    values to which it will be applied. What is left of K shows whether the kernel is indefinite.
    """
    dtype, diagonal = np.dtype(dtype), K.diagonal()
    if not np.isfinite(K).all():
        raise ValueError("the kernel matrix has NaN or infinity: scale the data")
    with one_blas_thread(flops=len(K) ** 3 / 3):
        floor = MIN_PIVOT_RATIO[dtype] * max(diagonal.max(), 0)
        factor, order, rank, _ = linalg.lapack.dpstrf(K, tol=floor, lower=1)
        order = order - 1
        rest = order[rank:]
        left = K[np.ix_(rest, rest)] - factor[rank:, :rank] @ factor[rank:, :rank].T
    if np.abs(left).max(initial=0) > MAX_NEGATIVE_RATIO[dtype] * np.abs(diagonal).max():
        raise indefinite_error("the kernel matrix")
    if rank == 0:  # phi(z) = 0 for all points: any one of them makes the feature 0
        return order[:1], np.ones((1, 1), order="F")
    return order[:rank], np.asfortranarray(np.tril(factor[:rank, :rank]))


def enough_components(values: np.ndarray, total: float, fraction: float) -> int:
    """Return how many of the largest eigenvalues have this fraction of their total; all at most.

    `values` are in descending order.
    """
    sums = np.cumsum(values, dtype=np.float64)
    return min(int(np.searchsorted(sums, fraction * total)) + 1, len(values))


def indefinite_error(name: str) -> ValueError:
    """Return the error for a kernel, or a matrix, that is not positive semi-definite."""
    return ValueError(
        f"There are significant negative eigenvalues: {name} is not positive semi-definite on "
        "these data; choose another kernel, other parameters or fewer components"
    )


def clean_eigenvalues(
    values: np.ndarray, n: int, *, largest_entry: float, dtype: np.dtype
) -> np.ndarray:
    """Set eigenvalues that are zero up to rounding to zero; raise ValueError if some are negative.

    They are the leading ones of the (centred) kernel matrix of n samples, `largest_entry` is the
    largest k(x, x) before centring, `dtype` the precision of kernel values. The thresholds are
    scikit-learn's, but at least the error that rounding can cause: entries are wrong by about
    eps * max k(x, x), nearly independently, which changes eigenvalues by up to twice that times
    sqrt(n); LAPACK's errors also grow with sqrt(n), and are below an eighth of the largest one.
    """
    dtype, largest, smallest = np.dtype(dtype), values.max(), values.min()
    eps = np.finfo(dtype).eps
    if abs(largest) <= 4 * eps * n * largest_entry:
        # the errors of equal samples are equal and add up: all of this may be rounding
        return np.zeros_like(values)
    noise = eps * np.sqrt(n) * (2 * largest_entry + max(largest, 0) / 8)
    if largest < -max(MAX_NEGATIVE[dtype], noise):
        raise ValueError(
            f"All eigenvalues are negative (maximum is {largest:g}): the kernel matrix is not "
            "positive semi-definite"
        )
    if smallest < -max(MAX_NEGATIVE[dtype], noise, MAX_NEGATIVE_RATIO[dtype] * largest):
        raise indefinite_error("the kernel matrix")
    return np.where(values <= max(MAX_ZERO_RATIO[dtype] * largest, noise), 0, values)
