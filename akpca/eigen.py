"""Leading eigenpairs of a symmetric matrix, largest eigenvalue first.

`leading_eigenpairs` chooses among LAPACK, ARPACK and a randomised method by cost;
`power_method` is the one that a textbook starts with, and that chapter 1 builds by hand.
Every function returns ``(values, vectors)`` with values (k,) in descending order and unit
vectors as the columns of an (n, k) array.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh
from sklearn.utils import check_random_state
from sklearn.utils.extmath import randomized_svd

EIGEN_SOLVERS = ("auto", "dense", "arpack", "randomized")


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
            values, vectors = _arpack(K, k, tol, max_iter, random_state)
        except (ArpackNoConvergence, ArpackError):
            # a zero matrix, or many equal eigenvalues: no reason to fail unless ARPACK was asked
            if solver == "arpack":
                raise
            used = "dense"
    if used == "randomized":
        values, vectors = _randomized(K, k, iterated_power, random_state)
    if used == "dense":
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


def power_method(
    A: np.ndarray, k: int, *, tol: float = 1e-10, max_iter: int = 10_000, seed: int = 0
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
    seed : int, default=0

    Returns
    -------
    values : ndarray of shape (k,)
    vectors : ndarray of shape (n, k)
    """
    A = np.array(A, dtype=np.float64)
    n = A.shape[0]
    if not 1 <= k <= n:
        raise ValueError(f"k must be between 1 and {n}, the size of A, got {k}")
    rng = np.random.default_rng(seed)
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
