"""Leading eigenpairs of a symmetric matrix, largest eigenvalue first.

`leading_eigenpairs` is for matrices, and chooses among LAPACK, ARPACK and a randomised method by
cost; `block_krylov` is for operators that are known by their products; `power_method` is the one
that a textbook starts with, and that chapter 1 builds by hand. Values are descending, of shape
(k,), and unit vectors the columns of an (n, k) array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh
from sklearn.utils import check_random_state
from sklearn.utils.extmath import randomized_svd

from .progress import FitProgress, warn_interrupted
from .threads import one_blas_thread

EIGEN_SOLVERS = ("auto", "dense", "arpack", "randomized", "krylov")
# A row of a kernel matrix is left out if others explain all but this part of the largest k(z, z):
# rounding of kernel values enters a feature divided by the square root of what is left.
PIVOT_FLOOR = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-5}
# Part of the largest eigenvalue, or of k(x, x), that may be negative by rounding; scikit-learn's.
NEGATIVE_PART = {np.dtype(np.float64): 1e-5, np.dtype(np.float32): 5e-3}
# Products with a matrix that are as much work together as one that threads are worth.
ARPACK_PRODUCTS = 200


def choose_solver(n: int, k: int) -> str:
    """Return the cheaper of 'dense' and 'arpack' for k eigenpairs of an n x n matrix.

    The dense solver costs O(n^3) whatever k is, ARPACK about 3 k products of O(n^2) and, for
    larger k, the orthogonalisation of its basis. They break even near k = n / 8, as
    ``benchmarks/bench_eigensolvers.py`` shows; below a few hundred rows both take milliseconds,
    and the dense one is exact.
    """
    return "arpack" if n > 300 and k < n / 8 else "dense"


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
    """Return the k algebraically largest eigenpairs of a symmetric matrix.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric; only one triangle is read.
    k : int
        At least 1 and at most n.
    solver : {'auto', 'dense', 'arpack', 'randomized'}, default='auto'
        'auto' is `choose_solver`, and falls back on 'dense' if ARPACK gives up.
    tol, max_iter : float, int or None
        Passed to ARPACK; 0 means machine precision.
    iterated_power : int or 'auto', default='auto'
        Power iterations of the randomised solver.
    random_state : int, RandomState instance or None, default=None
        Starting vectors of 'arpack' and 'randomized'.
    overwrite : bool, default=False
        Let the dense solver destroy K, which saves a copy of it.

    Returns
    -------
    values : ndarray of shape (k,)
    vectors : ndarray of shape (n, k)
    solver : str
        The solver that was used.
    """
    n = K.shape[0]
    used = choose_solver(n, k) if solver == "auto" else solver
    if used == "arpack" and k >= n:
        used = "dense"  # ARPACK finds at most n - 1 pairs
    if used == "arpack":
        try:
            # a thread has as little to do in one of many products as in a small matrix
            with one_blas_thread(flops=ARPACK_PRODUCTS * n**2):
                values, vectors = _arpack(K, k, tol, max_iter, random_state)
        except (ArpackNoConvergence, ArpackError):
            # a zero matrix, or many equal eigenvalues: no reason to fail unless ARPACK was asked
            if solver == "arpack":
                raise
            used = "dense"
    if used == "randomized":
        values, vectors = _randomized(K, k, iterated_power, random_state)
    if used == "dense":
        with one_blas_thread(flops=4 / 3 * n**3):
            # the transpose is the same matrix in LAPACK's order, so that nothing is copied
            values, vectors = linalg.eigh(
                K.T, subset_by_index=(n - k, n - 1), overwrite_a=overwrite, check_finite=False
            )
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order], used


def _arpack(K, k, tol, max_iter, random_state):
    # A product with a symmetric matrix is bound by reading it: SYMV reads half.
    (symv,) = linalg.get_blas_funcs(("symv",), (K,))
    transposed = K.T if K.flags.c_contiguous else K
    product = LinearOperator(K.shape, matvec=lambda v: symv(1, transposed, v), dtype=K.dtype)
    start = check_random_state(random_state).uniform(-1, 1, K.shape[0]).astype(K.dtype)
    return eigsh(product, k, which="LA", tol=tol, maxiter=max_iter, v0=start)


def _randomized(K, k, iterated_power, random_state):
    U, sizes, Vt = randomized_svd(
        K, k, n_iter=iterated_power, flip_sign=False, random_state=random_state
    )
    # singular values are the sizes of eigenvalues; the two bases differ by their signs
    return sizes * np.sign(np.einsum("ij,ji->j", U, Vt)), U


@dataclass(frozen=True)
class KrylovResult:
    """Eigenpairs found by `block_krylov`.

    Attributes
    ----------
    values : ndarray of shape (k,)
        Descending.
    vectors : ndarray of shape (n, k)
        Orthonormal columns.
    residuals : ndarray of shape (k,)
        ||K v - nu v|| / nu of each pair, measured and not estimated; for pairs of nearly zero
        variance, relative to the largest eigenvalue times the root of the machine precision.
    n_products : int
        Products with K, each with a block of vectors.
    converged : bool
        Whether all residuals are at most `tol`, or as small as the precision of K allows.
    """

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray
    n_products: int
    converged: bool


def block_krylov(
    K,
    k: int,
    *,
    tol: float = 1e-4,
    max_products: int = 100,
    start: np.ndarray | str = "auto",
    max_basis: int | None = None,
    callback: Callable[[FitProgress], bool | None] | None = None,
    random_state=None,
) -> KrylovResult:
    """Return the k leading eigenpairs of a symmetric operator that is expensive to multiply with.

    A block Lanczos method: the basis B grows by the residuals R = K V - V diag(nu) of the current
    Ritz vectors V, which is the direction K B adds, and the projected matrix B^T K B gives better
    ones. All products are with a block of vectors, so that one sweep over a kernel serves all
    components. When the basis is full it restarts from the Ritz vectors; K V is kept as a
    combination of earlier products, so that a restart costs none. Interrupted, it returns what it
    has after the last complete product, with a warning.

    Parameters
    ----------
    K : operator or ndarray of shape (n, n)
        Anything symmetric with ``shape``, ``dtype`` and ``K @ V``.
    k : int
        Number of pairs.
    tol : float, default=1e-4
        Largest relative residual ||K v - nu v|| / nu. An eigenvalue is then right to about
        tol^2 over its relative gap.
    max_products : int, default=100
        Give up after so many products; the best pairs so far are returned.
    start : {'auto', 'random'} or ndarray of shape (n, b), b >= k, default='auto'
        First block, such as the eigenvectors of an approximation. 'auto' takes those of a sample
        (`nystrom_vectors`), where K is an operator that has samples, and is random otherwise.
    max_basis : int, default=None
        Columns of the basis before a restart, at least four blocks. None is ten blocks.
    callback : callable, default=None
        Called with a :class:`akpca.progress.FitProgress` after each product, whose loss is the
        largest residual and whose model the current `KrylovResult`; a true answer stops.
    random_state : int, RandomState instance or None, default=None
        Of the sample, or of the random start.

    Returns
    -------
    result : KrylovResult
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
    max_basis = min(n, max(4 * width, 10 * width if max_basis is None else max_basis))
    eps = np.finfo(K.dtype).eps
    basis, images = np.empty((n, 0)), np.empty((n, 0))
    result = None
    for n_products in range(1, max_products + 1):
        try:
            products = K @ block
        except KeyboardInterrupt:
            if result is None:
                raise
            warn_interrupted(f"after {n_products - 1} products")
            break
        images = np.hstack([images, products])
        basis = np.hstack([basis, block])
        projected = basis.T @ images
        values, S = np.linalg.eigh((projected + projected.T) / 2)
        values, S = values[::-1][:width], S[:, ::-1][:, :width]
        vectors, moved = basis @ S, images @ S
        R = moved - vectors * values
        norms = np.linalg.norm(R, axis=0)
        largest = np.abs(values).max()
        scale = np.maximum(np.abs(values), np.sqrt(eps) * largest)
        residuals = np.divide(norms, scale, out=np.zeros_like(norms), where=scale > 0)[:k]
        # no product is better than the precision of K
        goal = np.maximum(tol * scale, 8 * eps * largest)[:k]
        converged = bool((norms[:k] <= goal).all()) or basis.shape[1] == n
        result = KrylovResult(values[:k], vectors[:, :k], residuals, n_products, converged)
        state = FitProgress(n_products, max_products, float(residuals.max()), result)
        stop = callback(state) if callback else False
        if converged or stop:
            break
        if basis.shape[1] + width > max_basis:
            basis, images = vectors, moved
        block = _orthonormal_part(R[:, norms > 0], basis)
        if block.shape[1] == 0:  # the basis is invariant: nothing more to find
            break
    return result


def _start(K, k, rng, *, sampled):
    """Return the first block of an iteration, a few more than k: they save a sweep."""
    n = K.shape[0]
    width = min(n, k + max(15, k // 3))
    if sampled and hasattr(K, "nystrom_vectors") and 4 * width < n:
        sample = max(width, min(2000, n // 4))
        return K.nystrom_vectors(width, n_landmarks=sample, random_state=rng)
    return rng.standard_normal((n, width))


def _orthonormal_part(R: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of what the columns of R have outside the span of `basis`."""
    R = R / np.linalg.norm(R, axis=0)
    # by the Gram matrix, at the speed of matrix multiplication; what that loses in accuracy,
    # the later rounds repair
    for _ in range(3):
        R = R - basis @ (basis.T @ R)
        squares, U = np.linalg.eigh(R.T @ R)
        keep = squares > max(1e-10 * squares.max(initial=0), 1e-20)
        R = R @ (U[:, keep] / np.sqrt(squares[keep]))
    return R[:, : basis.shape[0] - basis.shape[1]]


def power_method(
    A: np.ndarray, k: int, *, tol: float = 1e-10, max_iter: int = 10_000, random_state=0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k leading eigenpairs of a positive semi-definite matrix, one after another.

    Repeats y <- A y / ||A y|| from a random start until y stands still, takes the eigenvector
    out of A by deflation, A <- A - lambda v v^T, and goes on with the next. Convergence is as
    slow as lambda_{j+1} / lambda_j is close to 1: for teaching; use `leading_eigenpairs` for work.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Symmetric and positive semi-definite; not changed.
    k : int
        Number of pairs, at most n.
    tol : float, default=1e-10
        An eigenvector is done when a step moves it by less than this.
    max_iter : int, default=10_000
        Steps for each eigenvector; reaching it raises an error rather than return a vector that
        is none.
    random_state : int, RandomState instance or None, default=0
        Starting vectors.

    Returns
    -------
    values : ndarray of shape (k,)
    vectors : ndarray of shape (n, k)
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
            done = np.linalg.norm(z - y) < tol
            y = z
            if done:
                break
        else:
            raise RuntimeError(
                f"the power method did not settle on eigenvector {j + 1} in max_iter={max_iter} "
                f"steps: two eigenvalues are nearly equal; raise max_iter or tol"
            )
        values[j] = y @ A @ y
        vectors[:, j] = y
        A -= values[j] * np.outer(y, y)
    return values, vectors


def independent_rows(K: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a kernel matrix that are independent, and the factor L of K among these.

    Pivoted Cholesky factorisation: it reveals the rank at a small part of the cost of an
    eigendecomposition, and what it leaves of a semi-definite matrix has no entry above the last
    pivot, so that anything else proves the kernel to be indefinite.

    Parameters
    ----------
    K : ndarray of shape (m, m), float64
    dtype : dtype
        Precision of the kernel values that the factor will be divided into.

    Returns
    -------
    kept : ndarray of shape (rank,)
        The row that adds most to those before it first.
    factor : ndarray of shape (rank, rank)
        Lower triangular, in Fortran order, with L L^T = K[kept][:, kept].
    """
    dtype, diagonal = np.dtype(dtype), K.diagonal()
    if not np.isfinite(K).all():
        raise ValueError("the kernel matrix has NaN or infinity: scale the data")
    with one_blas_thread(flops=len(K) ** 3 / 3):
        floor = PIVOT_FLOOR[dtype] * max(diagonal.max(), 0)
        factor, order, rank, _ = linalg.lapack.dpstrf(K, tol=floor, lower=1)
        order = order - 1
        rest = order[rank:]
        left = K[np.ix_(rest, rest)] - factor[rank:, :rank] @ factor[rank:, :rank].T
    if np.abs(left).max(initial=0) > NEGATIVE_PART[dtype] * np.abs(diagonal).max():
        raise ValueError(
            "the kernel matrix has significant negative eigenvalues: the kernel is not positive "
            "semi-definite on these data; choose another kernel or other parameters"
        )
    if rank == 0:  # phi(z) = 0 for all points: any one of them makes the feature 0
        return order[:1], np.ones((1, 1), order="F")
    return order[:rank], np.asfortranarray(np.tril(factor[:rank, :rank]))


def clean_eigenvalues(values: np.ndarray, noise: float) -> np.ndarray:
    """Set eigenvalues that are zero but for rounding to zero; raise if some are negative.

    The thresholds are scikit-learn's, with `noise` besides: what rounding leaves of a kernel
    matrix that centring has all but cancelled.
    """
    double = values.dtype == np.float64
    largest, smallest = values.max(), values.min()
    if largest < -noise:
        raise ValueError(
            f"All eigenvalues are negative (maximum is {largest:g}): the kernel matrix is not "
            "positive semi-definite"
        )
    if smallest < -NEGATIVE_PART[values.dtype] * largest and smallest < -max(
        1e-10 if double else 1e-6, noise
    ):
        raise ValueError(
            f"There are significant negative eigenvalues ({-smallest / largest:g} of the maximum "
            "positive): the kernel is not positive semi-definite on these data; ask for fewer "
            "components or choose another kernel"
        )
    floor = max((1e-12 if double else 2e-7) * largest, noise)
    return np.where(values <= floor, 0, values).astype(values.dtype)
