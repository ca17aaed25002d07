"""What the chapters on the kernel Hebbian algorithm measure: the error after every pass.

Which gain is best depends on how well each was tuned. So there is one rule for all of them,
`tune_gain`, and one table, `TUNED`, from which `gains_for` takes the gains of a chapter.

Notation and equation numbers: Günter, Schraudolph and Vishwanathan, "Fast iterative kernel
principal component analysis", JMLR 8, 2007.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from scipy.linalg import issymmetric
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from ...eigen import leading_eigenpairs
from ...hebbian import (
    DivergenceError,
    Gain,
    HebbianProgress,
    KernelHebbian,
    make_gain,
)
from ...operators import MatrixOperator
from ...parameters import check_number
from ...progress import progress_bar
from ...threads import matmul, one_blas_thread

__all__ = [
    "FEW_PASSES",
    "TAUS",
    "TUNED",
    "Place",
    "Task",
    "Tuned",
    "excess_error_curve",
    "excess_error_curves",
    "follow_passes",
    "gains_for",
    "kernel_reconstruction_error",
    "optimal_error",
    "percent",
    "rung",
    "times",
    "tune_gain",
    "tuned_gains",
]

#: Values of tau, in passes, that the paper tried. Those of eta0 and mu are {1, 2, 5} 10^b.
TAUS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50)
#: Where the ladders of Algorithm 2 begin, for a kernel with k'(x, x) of about 1.
LARGEST = 500.0
#: A gain that is not in the table is tuned for no more passes than this.
FEW_PASSES = 30


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
    # in float32 a sum of so many squares would lose digits, too
    return float(np.sqrt(np.einsum("ij,ij->", rest, rest, dtype=np.float64)))


def kernel_reconstruction_error(operator, A: np.ndarray) -> float:
    """Return ||K' - (A K')^T A K'||_F, the reconstruction error (38), in two products with K'.

    Parameters
    ----------
    operator : operator of :mod:`akpca.operators`
        K', which is not formed. Its Frobenius norm costs a third sweep.
    A : array-like of shape (r, l)
    """
    A, n = np.asarray(A), operator.shape[0]
    if A.ndim != 2 or A.shape[1] != n:
        raise ValueError(f"A must have shape (r, {n}), got {A.shape}")
    Y = operator @ A.T
    YK = operator @ Y
    Y, YK = Y.astype(np.float64), YK.astype(np.float64)
    square = operator.frobenius_norm() ** 2 - 2 * np.sum(Y * YK) + np.sum((Y.T @ Y) ** 2)
    return float(np.sqrt(max(square, 0.0)))


def _positive_optimum(K: np.ndarray, n_components: int) -> float:
    optimum = optimal_error(K, n_components)
    if optimum <= len(K) * np.finfo(K.dtype).eps * np.linalg.norm(K):
        raise ValueError(
            f"n_components={n_components} must be below the rank of K: E_min is 0 otherwise, and "
            "E / E_min has no meaning"
        )
    return optimum


def excess_error_curve(
    K: np.ndarray,
    gain: Gain | str,
    n_components: int,
    n_passes: int,
    *,
    eigenvalue_updates: str = "pass",
    init: np.ndarray | None = None,
    optimum: float | None = None,
    callback: Callable[[HebbianProgress], object] | None = None,
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
    optimum : float, default=None
        E_min, as :func:`optimal_error` has it. None computes it.
    callback : callable, default=None
        Called after every pass, once its error is known; a true answer ends the run.

    Returns
    -------
    curve : ndarray of shape (n_passes,)
        Never NaN. A run that diverges has its errors up to the last whole pass, and np.inf from
        the pass on in which it diverged.
    """
    K = _check_matrix(K)
    check_number("n_passes", n_passes, integer=True, low=1)
    operator, curve = MatrixOperator(K), np.full(n_passes, np.inf)
    lowest = _positive_optimum(K, n_components) if optimum is None else optimum

    def measure(state: HebbianProgress) -> object:
        error = kernel_reconstruction_error(operator, state.coefficients)
        curve[state.n_iter - 1] = error / lowest - 1
        return callback(state) if callback is not None else None

    with one_blas_thread(flops=2.0 * K.size * n_components):
        _run(
            operator,
            n_components,
            gain=gain,
            n_passes=n_passes,
            eigenvalue_updates=eigenvalue_updates,
            init=init,
            callback=measure,
            random_state=random_state,
        )
    return curve


def _run(operator: MatrixOperator, n_components: int, **options) -> KernelHebbian | None:
    """Return a :class:`akpca.KernelHebbian` after its passes, or None if it has diverged."""
    model = KernelHebbian(n_components, kernel="precomputed", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # errors tell
        try:
            return model.fit(operator)
        except DivergenceError:
            return None


def follow_passes(
    K: np.ndarray, gain: Gain | str, n_components: int, n_passes: int, **options
) -> list[HebbianProgress]:
    """Return what a callback sees after every pass; fewer than `n_passes` if the run diverges.

    Parameters are those of :func:`excess_error_curve`.
    """
    K = _check_matrix(K)
    options = {"eigenvalue_updates": "pass", **options}
    states: list[HebbianProgress] = []
    _run(
        MatrixOperator(K),
        n_components,
        gain=gain,
        n_passes=n_passes,
        callback=states.append,
        **options,
    )
    return states


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


def rung(number: int) -> float:
    """Return the value with this number on the ladder ..., 0.5, 1, 2, 5, 10, ..., where 1 is 0."""
    return float(f"{(1, 2, 5)[number % 3]}e{number // 3}")


class Place(NamedTuple):
    """Where a gain stands on the ladders of its parameters; None for one that it does not have."""

    eta0: int
    tau: int | None = None
    mu: int | None = None

    def gain(self, name: str) -> Gain:
        """Return the gain of this name with the parameters of this place."""
        tau = None if self.tau is None else TAUS[self.tau]
        return make_gain(name, eta0=rung(self.eta0), tau=tau, mu=rung(self.mu or 0))

    def neighbours(self) -> Iterator[Place]:
        """Yield the places where one parameter, or eta0 and tau, are one rung away."""
        moves = [(1, 0, 0), (-1, 0, 0)]
        if self.tau is not None:
            moves += [(0, 1, 0), (0, -1, 0), (-1, 1, 0), (1, -1, 0)]
        if self.mu is not None:
            moves += [(0, 0, 1), (0, 0, -1)]
        for eta0, tau, mu in moves:
            if self.tau is None or 0 <= self.tau + tau < len(TAUS):
                yield Place(
                    self.eta0 + eta0,
                    None if self.tau is None else self.tau + tau,
                    None if self.mu is None else self.mu + mu,
                )


def tune_gain(
    K: np.ndarray, name: str, n_components: int, n_passes: int, *, seeds: Iterable[int]
) -> Gain:
    """Return the gain of this name whose excess error after the last pass is smallest.

    All parameters that the gain has are tuned by hill-climbing, as in the paper. As in
    its Algorithm 2, eta0 comes down a ladder from a value that diverges, with tau = 3 passes, until
    smaller ones are no better; mu is the best of three decades. From there, go to the best
    neighbour on the ladders as long as its error is smaller by more than one per cent. The error of
    a place is the median over the seeds, and no run may diverge.

    Parameters
    ----------
    K, n_components, n_passes
        As in :func:`excess_error_curve`.
    name : str
        As in :func:`akpca.hebbian.make_gain`. For KHA/et and KHA-SMD tau is one pass: (22).
    seeds : iterable of int
        Those of the runs that are compared. Report others.
    """
    K, seeds = _check_matrix(K), list(seeds)
    operator, optimum = MatrixOperator(K), _positive_optimum(K, n_components)
    options = {"n_passes": n_passes, "eigenvalue_updates": "pass"}
    found: dict[Place, float] = {}

    def last_error(gain: Gain, seed: int) -> float:
        model = _run(operator, n_components, gain=gain, random_state=seed, **options)
        if model is None:
            return np.inf
        return kernel_reconstruction_error(operator, model.coefficients_) / optimum - 1

    def error(place: Place) -> float:
        if place not in found:
            runs = [last_error(place.gain(name), seed) for seed in seeds]
            found[place] = float(np.median(runs)) if np.isfinite(runs).all() else np.inf
        return found[place]

    place = _first_place(K, name)
    smaller = place._replace(eta0=place.eta0 - 1)
    while not np.isfinite(error(place)) or error(smaller) < error(place):
        place, smaller = smaller, smaller._replace(eta0=smaller.eta0 - 1)
    if place.mu is not None:  # too small, its neighbours hardly differ: decades first
        place = min((place._replace(mu=place.mu + more) for more in (0, 3, 6)), key=error)
    while True:
        best = min(place.neighbours(), key=error)
        if error(best) >= 0.99 * error(place):
            return place.gain(name)
        place = best


def _first_place(K: np.ndarray, name: str) -> Place:
    """Return where tuning starts: an eta0 that surely diverges, tau of 3 passes and a small mu."""
    gain, unit = make_gain(name, eta0=1, mu=0), len(K) / np.trace(K)
    nearest = lambda value: round(3 * np.log10(value))  # noqa: E731
    annealed = gain.passes is not None and not gain.normalised
    eta0 = LARGEST if gain.reciprocal and not gain.normalised else LARGEST * unit
    mu = nearest(0.01 * unit) if gain.adapts else None
    return Place(nearest(eta0), TAUS.index(3) if annealed else None, mu)


class Task(NamedTuple):
    """What gains were tuned for.

    The kernel is "dot product", "RBF" with gamma = 2 / d, or "clustering", which is the normalised
    matrix of the latter. Photograph, walk and faces of `patches`, `motion` and `superresolution`
    have RBF kernels with the paper's sigma.
    """

    dataset: str
    kernel: str
    n_samples: int
    n_components: int


class Tuned(NamedTuple):
    """Gains by their names, and the number of passes after which their errors are smallest."""

    n_passes: int
    gains: Mapping[str, Gain]


def _tuned(n_passes: int, values: Mapping[str, tuple]) -> Tuned:
    """Return a row of the table from eta0, tau and mu, of which the last ones may be left out."""
    parameters = {
        name: dict(zip(("eta0", "tau", "mu"), row, strict=False)) for name, row in values.items()
    }
    return Tuned(n_passes, {name: make_gain(name, **row) for name, row in parameters.items()})


#: What ``python benchmarks/tune_gains.py`` found with the seeds 1000 to 1003.
TUNED: dict[Task, Tuned] = {
    Task("mnist5k", "RBF", 500, 16): _tuned(
        100,
        {
            "KHA": (0.05,),
            "KHA/t": (1, 2),
            "KHA/et*": (5, 3),
            "KHA/et": (0.5, 1),
            "KHA-SMD*": (5, 3, 0.02),
            "KHA-SMD": (0.5, 1, 0.5),
        },
    ),
    Task("mnist5k", "dot product", 500, 16): _tuned(
        100,
        {
            "KHA": (0.0001,),
            "KHA/t": (0.005, 1),
            "KHA/et*": (5, 2),
            "KHA/et": (0.001, 1),
            "KHA-SMD*": (5, 3, 0.0001),
            "KHA-SMD": (0.001, 1, 0.001),
        },
    ),
    Task("digits", "RBF", 500, 16): _tuned(
        100,
        {
            "KHA": (0.05,),
            "KHA/t": (0.5, 3),
            "KHA/et*": (5, 2),
            "KHA/et": (0.2, 1),
            "KHA-SMD*": (2, 7, 0.02),
            "KHA-SMD": (0.5, 1, 0.2),
        },
    ),
    Task("digits", "dot product", 500, 16): _tuned(
        100,
        {
            "KHA": (0.001,),
            "KHA/t": (0.02, 3),
            "KHA/et*": (5, 4),
            "KHA/et": (0.01, 1),
            "KHA-SMD*": (5, 5, 0.0002),
            "KHA-SMD": (0.01, 1, 0.0002),
        },
    ),
    Task("usps", "RBF", 1000, 16): _tuned(
        100,
        {
            "KHA": (0.02,),
            "KHA/t": (1, 1),
            "KHA/et*": (5, 3),
            "KHA/et": (0.2, 1),
            "KHA-SMD*": (5, 3, 0.05),
            "KHA-SMD": (0.2, 1, 0.1),
        },
    ),
    Task("usps", "dot product", 1000, 16): _tuned(
        100,
        {
            "KHA": (0.0001,),
            "KHA/t": (0.002, 2),
            "KHA/et*": (5, 4),
            "KHA/et": (0.001, 1),
            "KHA-SMD*": (5, 3, 0.0001),
            "KHA-SMD": (0.001, 1, 0.002),
        },
    ),
    Task("mnist5k", "clustering", 500, 10): _tuned(
        30,
        {
            "KHA": (10,),
            "KHA/t": (50, 3),
            "KHA/et*": (5, 2),
            "KHA/et": (20, 1),
            "KHA-SMD*": (5, 3, 20),
            "KHA-SMD": (20, 1, 100),
        },
    ),
    Task("digits", "clustering", 500, 10): _tuned(
        30,
        {
            "KHA": (10,),
            "KHA/t": (100, 1),
            "KHA/et*": (5, 2),
            "KHA/et": (20, 1),
            "KHA-SMD*": (5, 3, 20),
            "KHA-SMD": (20, 1, 100),
        },
    ),
    Task("patches", "RBF", 500, 20): _tuned(
        50,
        {
            "KHA/t": (1, 1),
            "KHA/s": (0.5, None, 1),
            "KHA/ts": (0.5, 5, 1),
            "KHA/et*": (5, 3),
            "KHA/es": (2, None, 0.5),
            "KHA-SMD*": (5, 3, 0.01),
        },
    ),
    Task("walk", "RBF", 343, 25): _tuned(
        50,
        {
            "KHA": (0.05,),
            "KHA/t": (1, 1),
            "KHA/et*": (2, 15),
            "KHA/et": (0.1, 1),
            "KHA-SMD*": (5, 5, 0.5),
            "KHA-SMD": (0.1, 1, 2),
        },
    ),
    Task("sharp digits", "RBF", 500, 16): _tuned(
        50,
        {
            "KHA": (0.1,),
            "KHA/t": (0.5, 3),
            "KHA/et*": (5, 3),
            "KHA/et": (0.2, 1),
            "KHA-SMD*": (5, 2, 0.1),
            "KHA-SMD": (0.5, 1, 0.2),
        },
    ),
    Task("photograph", "RBF", 400, 20): _tuned(
        50,
        {
            "KHA": (0.1,),
            "KHA/t": (2, 2),
            "KHA/et*": (5, 2),
            "KHA/et": (0.5, 1),
            "KHA-SMD*": (5, 2, 0.005),
            "KHA-SMD": (0.5, 1, 0.2),
            "KHA/s": (2, None, 1),
            "KHA/ts": (2, 5, 0.2),
            "KHA/es": (2, None, 0.5),
        },
    ),
    Task("yale_faces", "RBF", 560, 16): _tuned(
        50,
        {
            "KHA": (0.05,),
            "KHA/t": (1, 1),
            "KHA/et*": (5, 3),
            "KHA/et": (0.2, 1),
            "KHA-SMD*": (5, 3, 0.05),
            "KHA-SMD": (0.2, 1, 0.2),
        },
    ),
}


def gains_for(
    task: Task, K: np.ndarray, names: Iterable[str], n_passes: int, *, seeds: Iterable[int]
) -> Tuned:
    """Return gains for a run of so many passes: those of the table, or else tuned now.

    The table is for long runs: its gains are used for half as many passes as they were tuned for,
    and more. Otherwise :func:`tune_gain` runs, with up to 30 passes.

    Parameters
    ----------
    task : Task
        What the gains are for.
    K : ndarray of shape (l, l)
        The centred kernel matrix.
    names : iterable of str
        As in :func:`akpca.hebbian.make_gain`.
    n_passes : int
        Length of the run.
    seeds : iterable of int
        Those of the runs that are compared if the gains are tuned now.
    """
    row, names, seeds = TUNED.get(task), list(names), list(seeds)
    if row is not None and 2 * n_passes >= row.n_passes and set(names) <= set(row.gains):
        return Tuned(row.n_passes, {name: row.gains[name] for name in names})
    few = min(n_passes, FEW_PASSES)
    tuned = {name: tune_gain(K, name, task.n_components, few, seeds=seeds) for name in names}
    return Tuned(few, tuned)


def tuned_gains(
    dataset: str,
    matrices: Mapping[str, np.ndarray],
    n_components: int,
    names: Iterable[str],
    n_passes: int,
    *,
    gamma: float = 0.0,
    seeds: Iterable[int],
) -> dict[str, Tuned]:
    """Return what :func:`gains_for` finds for several kernels of a data set, by their names.

    `matrices` maps the name of a kernel, as in `Task`, to the centred kernel matrix; a `gamma`
    other than 0 says that the RBF kernel is not that of the table.
    """
    names, seeds, found = list(names), list(seeds), {}
    for kernel, K in matrices.items():
        label = f"{kernel}, {gamma=}" if gamma and kernel == "RBF" else kernel
        task = Task(dataset, label, len(K), n_components)
        found[kernel] = gains_for(task, K, names, n_passes, seeds=seeds)
    return found


def _two_digits(x: float) -> str:
    return np.format_float_positional(x, precision=2, fractional=False, trim="-")


def percent(error: float) -> str:
    """Return an error in per cent, with two digits; an infinite one has diverged."""
    return f"{_two_digits(100 * error)} %" if np.isfinite(error) else "diverged"


def times(first: float, second: float) -> str:
    """Return how many times `second` `first` is, with two digits, if neither has diverged."""
    if not np.isfinite([first, second]).all():
        return "(diverged)"
    return f"{_two_digits(first / second)} times"
