"""Section 5.2 of the paper: kernel PCA of all MNIST digits in one pass, and its rivals.

A `Plan` says which digits, how many components and who takes part; `run` goes through its jobs and
writes rows into a :class:`.tables.ResultTable`, each job's as soon as they are known. All methods
share a `Setting`: the kernel matrix as an operator, its row means, the start and the order of the
samples. Errors are (38), times are CPU times in units of a plain sweep, which computes all kernel
values once and does nothing with them. `findings` compares table 2 of the paper with the rows.

Günter, Schraudolph and Vishwanathan, "Fast iterative kernel principal component analysis", JMLR 8,
2007.
"""

from __future__ import annotations

import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.utils import gen_batches

from ...datasets import load_dataset
from ...eigen import block_krylov
from ...hebbian import DivergenceError, Gain, KernelHebbian, make_gain
from ...hebbian.kernel import KernelState, run_pass, start_state
from ...incremental import IncrementalKernelPCA
from ...kernels import RBF
from ...nystrom import NystromKernelPCA
from ...operators import KernelOperator, MatrixOperator
from ...parameters import check_number
from ...progress import progress_bar
from .hebbian import rung
from .tables import ResultTable, folder_of_results, table_name
from .verdicts import Comparison, Finding

__all__ = [
    "CHECKED",
    "COLUMNS",
    "DEFAULT",
    "INCREMENTAL",
    "KRYLOV",
    "LATER",
    "NYSTROM",
    "ONWARD",
    "SHARED",
    "TABLE_2",
    "VARIANTS",
    "PaperRow",
    "Plan",
    "Results",
    "Setting",
    "Tuned",
    "autotuned_pass",
    "code_errors",
    "default_plan",
    "findings",
    "paper_plan",
    "plain_sweep",
    "read_results",
    "run",
]

COLUMNS = ("method", "seed", "quantity", "at")
INCREMENTAL, NYSTROM, KRYLOV, SHARED = "IncrementalKernelPCA", "Nyström", "block Krylov", "shared"
#: What `KernelHebbian` does by default: a better start than the paper's, and no tuning.
DEFAULT = "KernelHebbian"
#: The variant that goes on after its first pass, and how its later passes are called.
ONWARD, LATER = "KHA/et*", "KHA/et*, later passes"
# Values that Algorithm 2 tries, and after how many steps it looks for infinite coefficients.
LADDER, STEPS = tuple(rung(number) for number in range(8, -34, -1)), 100
# After so many steps, which are the paper's for all divergence to show, and at the end no component
# may be longer than this, where 1 is right.
CHECK_STEPS, TOO_LONG = 600, 2.0
# tau, in passes, which the paper sets a priori.
TAU = 0.05
# One in so many blocks of rows tells the time of a plain sweep; and rows in a block.
SWEEP_PART, SWEEP_ROWS = 16, 512
# A product with K' that changes the optimum by less than this part of it is the last.
SETTLED = 1e-6
MAX_PRODUCTS = 12


class PaperRow(NamedTuple):
    """A row of table 2: the tuned parameter, the error and hours for tuning, pass and all."""

    parameter: float
    error: float
    tuning: float
    passing: float
    total: float


#: Table 2 of the paper. The total includes 11 h 13' for centring and 12 h 16' for the error.
TABLE_2 = {
    "KHA/t": PaperRow(5, 508.42, 20 / 60, 33 + 29 / 60, 57 + 17 / 60),
    "KHA/et*": PaperRow(50, 363.09, 13 / 60, 41 + 41 / 60, 65 + 22 / 60),
    "KHA-SMD*": PaperRow(1, 362.44, 1 + 9 / 60, 53 + 19 / 60, 77 + 57 / 60),
    "KHA/et": PaperRow(0.5, 415.48, 47 / 60, 39 + 26 / 60, 63 + 42 / 60),
    "KHA-SMD": PaperRow(0.05, 404.06, 3 + 59 / 60, 64 + 39 / 60, 92 + 7 / 60),
}
#: Those that learn their gains, and the variant whose eta0 they take over.
ANALOGUES = {"KHA-SMD*": "KHA/et*", "KHA-SMD": "KHA/et"}
VARIANTS = tuple(TABLE_2)
#: The same with another test in Algorithm 2, which looks at the lengths of components as well, and
#: with the value below the largest one that passes.
CHECKED = {name: f"{name}, checked" for name in ANALOGUES}


class Plan(NamedTuple):
    """What is run.

    Attributes
    ----------
    name : str
        Of the table.
    dataset : str
        As in :func:`akpca.load_dataset`. Pixels are divided by the largest.
    n_samples : int
        Digits: the first of the data or, if `mixed`, any.
    n_components : int
        r.
    sigma : float
        Width of the kernel exp(-||x - y||^2 / (2 sigma^2)).
    seeds : tuple of int
        Of start, order and landmarks.
    n_passes : int
        Passes of KHA/et*; the other variants make one.
    n_landmarks : tuple of int
        Of Nyström's method.
    mixed : bool
        Whether the digits are drawn, since the data are sorted.
    """

    name: str
    dataset: str
    n_samples: int
    n_components: int = 50
    sigma: float = 10.0
    seeds: tuple[int, ...] = (0,)
    n_passes: int = 3
    n_landmarks: tuple[int, ...] = (500, 1000, 2000, 4000)
    mixed: bool = True

    @property
    def jobs(self) -> list[tuple[str, int]]:
        """Methods with their seeds, in the order in which they are run."""
        methods = [*VARIANTS, INCREMENTAL, KRYLOV, NYSTROM, *CHECKED.values()]
        methods += [LATER, DEFAULT] if self.n_passes > 1 else [DEFAULT]
        return [(m, seed) for seed in self.seeds for m in methods if seed in self.seeds_of(m)]

    def seeds_of(self, method: str) -> tuple[int, ...]:
        """Return the seeds of a method: one is enough for an eigensolver's answer."""
        return self.seeds[:1] if method == KRYLOV else self.seeds


def default_plan(
    dataset: str,
    n_samples: int,
    *,
    n_components: int = 50,
    sigma: float = 10.0,
    seeds: Sequence[int] = (0, 1, 2),
    n_passes: int = 3,
) -> Plan:
    """Return a smaller plan, with landmarks that are parts of the samples.

    Its name has all settings but the seeds, so that no table has rows of two of them.
    """
    check_number("n_samples", n_samples, integer=True, low=100)
    check_number("n_components", n_components, integer=True, low=1, high=n_samples // 4)
    check_number("sigma", sigma, above=True)
    check_number("n_passes", n_passes, integer=True, low=1)
    landmarks = sorted({max(n_components, n_samples // part) for part in (30, 15, 8, 4)})
    return Plan(
        table_name(dataset, n_samples, n_components, sigma, n_passes),
        dataset,
        n_samples,
        n_components,
        sigma,
        seeds=tuple(seeds),
        n_passes=n_passes,
        n_landmarks=tuple(landmarks),
    )


def paper_plan(*, seeds: Sequence[int] = (0, 1, 2)) -> Plan:
    """Return the plan of section 5.2: 60,000 digits, 50 components."""
    return Plan("mnist", "mnist", 60_000, seeds=tuple(seeds), mixed=False)


# ----------------------------------------------------------------------- what all methods share


class Setting:
    """K' of the digits, a start and an order of the samples for each seed.

    Kernel values are computed in single precision whenever they are needed.
    """

    def __init__(self, plan: Plan) -> None:
        data = load_dataset(plan.dataset).X
        if plan.n_samples > len(data):
            raise ValueError(f"n_samples={plan.n_samples}: {plan.dataset} has {len(data)} samples")
        order = np.random.default_rng(0).permutation(len(data)) if plan.mixed else slice(None)
        self.plan = plan
        self.X = (data[order][: plan.n_samples] / data.max()).astype(np.float32)
        self.kernel = RBF(gamma=1 / (2 * plan.sigma**2))
        self.operator = KernelOperator(self.X, self.kernel)
        self._started: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @cached_property
    def norm(self) -> float:
        """||K'||_F, computed in a sweep at first use."""
        return self.operator.frobenius_norm()

    def start(self, random_state: int) -> tuple[np.ndarray, np.ndarray]:
        """Return A_1, drawn from N(0, 1 / (r l)), and A_1 K', both of shape (r, l)."""
        if random_state not in self._started:
            r, n = self.plan.n_components, len(self.X)
            A = np.random.default_rng(random_state).standard_normal((r, n), np.float32)
            A = (A / np.sqrt(r * n)).astype(np.float32)
            self._started = {random_state: (A, (self.operator @ A.T).T.astype(np.float32))}
        return self._started[random_state]

    def order(self, random_state: int, number: int = 1) -> np.ndarray:
        """Return the order of the samples in a pass of this number."""
        return np.random.default_rng([random_state, number]).permutation(len(self.X))


def plain_sweep(operator: KernelOperator) -> float:
    """Return the CPU seconds of computing every kernel value once, estimated from some rows."""
    blocks = list(gen_batches(operator.shape[0], SWEEP_ROWS))
    some = blocks[:: min(SWEEP_PART, max(1, len(blocks) // 2))]
    began = time.process_time()
    for rows in some:
        operator.kernel(operator.X[rows], operator.X)
    seconds = time.process_time() - began
    return seconds * operator.shape[0] / sum(rows.stop - rows.start for rows in some)


def code_errors(operator, codes: Sequence[np.ndarray], norm: float) -> list[float]:
    """Return ||K' - Y Y^T||_F (38) for several codes Y, shape (l, r), in one product with K'.

    `norm` is ||K'||_F.
    """
    stacked = np.hstack([np.asarray(Y, np.float64) for Y in codes])
    products, errors, start = operator @ stacked, [], 0
    for Y in codes:
        Y, YK = (part[:, start : start + Y.shape[1]] for part in (stacked, products))
        square = norm**2 - 2 * np.sum(Y * YK) + np.sum((Y.T @ Y) ** 2)
        errors.append(float(np.sqrt(max(square, 0.0))))
        start += Y.shape[1]
    return errors


# ------------------------------------------------------------------------------------ the methods


class Tuned(NamedTuple):
    """A pass after Algorithm 2."""

    gain: Gain  # with the value that did not diverge
    state: KernelState  # after the pass
    diverged: tuple[int, ...]  # steps until each larger value had diverged
    seconds: tuple[float, float]  # CPU time of all larger values, and of the pass


def autotuned_pass(
    operator,
    A: np.ndarray,
    AK: np.ndarray,
    order: np.ndarray,
    gain: Gain,
    name: str,
    *,
    longest: float | None = None,
    spared: int = 0,
) -> Tuned:
    """Make a pass with the largest value of a parameter that does not diverge: Algorithm 2.

    Values are {5, 2, 1} 10^b from 500 on. Every 100 steps it is looked whether all coefficients are
    finite; if not, the next value is tried, from the same start.

    Parameters
    ----------
    operator : operator of :mod:`akpca.operators`
        K'.
    A, AK : ndarray of shape (r, l)
        The start, and its product with K'.
    order : ndarray of shape (l,)
        Of the samples.
    gain : Gain
        All but its parameter `name`, "eta0" or "mu", counts.
    longest : float, default=None
        Length of a component beyond which a run counts as diverged as well, after `CHECK_STEPS`
        steps and at the end; for gains that use eigenvalues. The paper has no such test.
    spared : int, default=0
        How many values are passed over although they have not diverged within `CHECK_STEPS` steps:
        the largest one is at the edge of what works.
    """
    diverged, began = [], time.process_time()
    options = {"block_size": STEPS, "every_step": True}
    for value in LADDER:
        tried, last = replace(gain, **{name: value}), time.process_time()
        state = start_state(operator, A, tried, AK=AK)
        try:
            for after in run_pass(operator, state, tried, order, **options):
                if after.t in (CHECK_STEPS, len(order)):
                    _check_lengths(after, longest)
                state = after
                if spared and state.t >= CHECK_STEPS:
                    break
            else:
                times = last - began, time.process_time() - last
                return Tuned(tried, state, tuple(diverged), times)
            spared -= 1
        except DivergenceError:
            diverged.append(min(state.t + STEPS, len(order)))
    raise DivergenceError(f"{gain!r} diverges for all values of {name} that were tried")


def _check_lengths(state: KernelState, longest: float | None) -> None:
    """Raise DivergenceError if a component is longer."""
    if longest is not None:
        squares = np.sum(state.A.astype(np.float64) * state.AK, axis=1)
        if not squares.max() <= longest**2:
            raise DivergenceError(f"a component is too long after {state.t} steps")


Rows = Iterator[tuple[str, int, float]]  # quantity, at, value


def _variant(setting: Setting, method: str, seed: int, known: Callable) -> Rows:
    """Yield the rows of a variant of the paper, with Algorithm 2 as it is or checked."""
    variant, _, checked = method.partition(",")
    operator, analogue = setting.operator, ANALOGUES.get(variant)
    A, AK = setting.start(seed)
    eta0 = known(analogue, seed, "parameter", 1) if analogue else 1.0
    gain = make_gain(variant, eta0=eta0, tau=TAU, mu=0.0)
    order, name = setting.order(seed), "mu" if analogue else "eta0"
    options = {"longest": TOO_LONG, "spared": 1} if checked else {}
    found = autotuned_pass(operator, A, AK, order, gain, name, **options)
    gain, state, diverged, (tuning, seconds) = found
    yield "parameter", 1, getattr(gain, name)
    yield "tuning", 1, tuning
    yield "last divergence", 1, float(max(diverged, default=0))
    yield "seconds", 1, seconds
    yield from _judged(setting, state, 1)


def _judged(setting: Setting, state: KernelState, number: int) -> Rows:
    began = time.process_time()
    Y = setting.operator @ state.A.T if state.AK is None else state.AK.T
    (error,) = code_errors(setting.operator, [Y], setting.norm)
    yield "error", number, error
    yield "judging", number, time.process_time() - began


def _later(setting: Setting, method: str, seed: int, known: Callable) -> Rows:
    """Yield the rows of later passes with the gain that was tuned for the first."""
    operator, (A, AK) = setting.operator, setting.start(seed)
    gain = make_gain(ONWARD, eta0=known(ONWARD, seed, "parameter", 1), tau=TAU)
    state = start_state(operator, A, gain, AK=AK)
    for number in range(1, setting.plan.n_passes + 1):
        began, order = time.process_time(), setting.order(seed, number)
        blocks = run_pass(operator, state, gain, order, block_size=STEPS, every_step=True)
        *_, state = deque(blocks, maxlen=1)
        if number > 1:
            yield "seconds", number, time.process_time() - began
            yield from _judged(setting, state, number)


def _incremental(setting: Setting, method: str, seed: int, known: Callable) -> Rows:
    """Yield the rows of `IncrementalKernelPCA`, in the order of the variants' first pass."""
    order, plan = setting.order(seed), setting.plan
    model = IncrementalKernelPCA(plan.n_components, kernel=setting.kernel, shuffle=False)
    X = setting.X[order]
    tracemalloc.start()
    began = time.process_time()
    model.fit(X)
    yield "seconds", 1, time.process_time() - began
    yield "peak memory", 1, float(tracemalloc.get_traced_memory()[1] + X.nbytes)
    tracemalloc.stop()
    A = np.empty(model.components_.shape, np.float32)
    A[:, order] = model.components_
    (error,) = code_errors(setting.operator, [setting.operator @ A.T], setting.norm)
    yield "error", 1, error


def _default(setting: Setting, method: str, seed: int, known: Callable) -> Rows:
    """Yield the rows of a pass of `KernelHebbian` as it comes; the time includes its start."""
    options = {"kernel": "precomputed", "n_passes": 1, "random_state": seed}
    model, began = KernelHebbian(setting.plan.n_components, **options), time.process_time()
    model.fit(setting.operator)
    yield "seconds", 1, time.process_time() - began
    codes = setting.operator @ model.coefficients_.T
    (error,) = code_errors(setting.operator, [codes], setting.norm)
    yield "error", 1, error


def _nystrom(setting: Setting, method: str, seed: int, known: Callable) -> Rows:
    """Yield the rows of Nyström's method; the time includes the codes of all samples."""
    codes, plan = {}, setting.plan
    for m in plan.n_landmarks:
        options = {"n_landmarks": m, "kernel": setting.kernel, "random_state": seed}
        began = time.process_time()
        Y = NystromKernelPCA(plan.n_components, **options).fit(setting.X).transform(setting.X)
        yield "seconds", m, time.process_time() - began
        codes[m] = Y - Y.mean(axis=0)
    errors = code_errors(setting.operator, list(codes.values()), setting.norm)
    for m, error in zip(codes, errors, strict=True):
        yield "error", m, error


def _krylov(setting: Setting, method: str, seed: int, known: Callable) -> Rows:
    """Yield the rows of block Krylov after each product with K'.

    With orthonormal vectors V and Ritz values nu, ||K' - V diag(nu) V^T||^2 = ||K'||^2 - sum nu^2:
    an upper bound of E_min^2.
    """
    rows: list[tuple[str, int, float]] = []
    norm, began = setting.norm, time.process_time()

    def watch(state) -> bool:
        error = float(np.sqrt(norm**2 - np.sum(state.model.values.astype(np.float64) ** 2)))
        before = rows[-1][2] if rows else np.inf
        rows.append(("seconds", state.n_iter, time.process_time() - began))
        rows.append(("error", state.n_iter, error))
        return before - error < SETTLED * error

    block_krylov(
        setting.operator,
        setting.plan.n_components,
        tol=0,
        max_products=MAX_PRODUCTS,
        callback=watch,
        random_state=seed,
    )
    yield from rows


METHODS: Mapping[str, Callable[..., Rows]] = {
    **dict.fromkeys((*VARIANTS, *CHECKED.values()), _variant),
    INCREMENTAL: _incremental,
    NYSTROM: _nystrom,
    KRYLOV: _krylov,
    LATER: _later,
    DEFAULT: _default,
}


def _prepare(setting: Setting, table: ResultTable) -> None:
    """Write the rows of what is computed once: row means, ||K'|| and the first start.

    The steps run once on very little before, so that no time is that of a compiler.
    """
    for name in ("KHA/t", "KHA-SMD*"):
        tiny, gain = MatrixOperator(np.eye(4, dtype=np.float32)), make_gain(name, eta0=1, mu=0)
        autotuned_pass(tiny, tiny.K, tiny.K, np.arange(4), gain, "eta0")
    seed = setting.plan.seeds[0]
    parts: dict[str, Callable] = {
        "means": setting.operator.means,
        "norm": lambda: setting.norm,
        "start": lambda: setting.start(seed),
    }
    if (SHARED, seed, "norm", 0) in table:
        setting.operator.means()  # first, as before: rounding is the same then
        setting.norm = table[(SHARED, seed, "norm", 0)]
        return
    for part, compute in parts.items():
        began = time.process_time()
        compute()
        table.add(SHARED, seed, f"{part} seconds", 0, value=time.process_time() - began)
    table.add(SHARED, seed, "plain sweep", 0, value=plain_sweep(setting.operator))
    table.add(SHARED, seed, "norm", 0, value=setting.norm)


def run(plan: Plan, table: ResultTable, *, verbose: bool = False) -> None:
    """Do the jobs of a plan that are not in the table yet.

    A job is done if it has its row "plain sweep": the seconds of one, measured before and after it.

    Parameters
    ----------
    plan : Plan
    table : ResultTable
        With the columns `COLUMNS`.
    verbose : bool, default=False
        Show a progress bar.
    """
    jobs = [job for job in plan.jobs if (*job, "plain sweep", 0) not in table]
    if not jobs:
        return
    setting = Setting(plan)
    _prepare(setting, table)
    for method, seed in progress_bar(jobs, shown=verbose, desc=plan.name, unit="job"):
        before = plain_sweep(setting.operator)
        known = lambda *key: table[key]  # noqa: E731
        for quantity, at, value in METHODS[method](setting, method, seed, known):
            if (method, seed, quantity, at) not in table:
                table.add(method, seed, quantity, at, value=value)
        after = plain_sweep(setting.operator)
        table.add(method, seed, "plain sweep", 0, value=(before + after) / 2)


# --------------------------------------------------------------------------------------- findings


class Results(NamedTuple):
    """The rows of a plan, as tables and claims need them: arrays with an entry for each seed.

    Block Krylov has the first seed only.
    """

    table: ResultTable
    plan: Plan

    def value(self, method: str, quantity: str, at: int = 1) -> np.ndarray:
        """Return a result."""
        seeds = self.plan.seeds_of(method)
        return np.array([self.table[(method, seed, quantity, at)] for seed in seeds])

    def sweeps(self, method: str, quantity: str = "seconds", at: int = 1) -> np.ndarray:
        """Return a time in plain sweeps."""
        return self.value(method, quantity, at) / self.value(method, "plain sweep", 0)

    def shared(self, part: str) -> float:
        """Return the time in plain sweeps of what all methods share: 'means', 'norm' or 'start'."""
        seconds = self.table[(SHARED, self.plan.seeds[0], f"{part} seconds", 0)]
        return seconds / self.table[(SHARED, self.plan.seeds[0], "plain sweep", 0)]

    @property
    def norm(self) -> float:
        """||K'||_F."""
        return self.table[(SHARED, self.plan.seeds[0], "norm", 0)]

    @property
    def optimum(self) -> float:
        """E_min, the smallest error that block Krylov has come to."""
        return min(self.value(KRYLOV, "error", at).min() for at in self.places(KRYLOV))

    @property
    def uncertainty(self) -> float:
        """By what part of itself the last product with K' has changed E_min."""
        last, before = (self.value(KRYLOV, "error", at) for at in self.places(KRYLOV)[:-3:-1])
        return float((before / last - 1).item())

    def excess(self, method: str, at: int = 1) -> np.ndarray:
        """Return E / E_min - 1."""
        return self.value(method, "error", at) / self.optimum - 1

    def places(self, method: str) -> list[int]:
        """Return where all seeds of a method have an error: passes, landmarks, products."""
        rows = self.table.select(method=method, quantity="error")
        seeds = self.plan.seeds_of(method)
        found = [{int(at) for s, at in rows if s == str(seed)} for seed in seeds]
        return sorted(set.intersection(*found))

    def total(self, variant: str) -> np.ndarray:
        """Return the sweeps of a variant, as the paper counts: centring, tuning, pass and error."""
        parts = [self.sweeps(variant, part) for part in ("tuning", "seconds", "judging")]
        return np.sum(parts, axis=0) + self.shared("means") + self.shared("start")


def read_results(plan: Plan, folder: str | Path | None = None) -> Results | None:
    """Return the results of a plan, for the seeds that have all methods; None if there are none.

    The later passes may be missing. The folder is by default that of the notebooks' tables.
    """
    path = Path(folder or folder_of_results("kha")) / f"{plan.name}.csv"
    if not path.exists():
        return None
    table = ResultTable(path, COLUMNS)
    done = {job for job in plan.jobs if (*job, "plain sweep", 0) in table}
    missing = {seed for method, seed in plan.jobs if method != LATER and (method, seed) not in done}
    if plan.seeds[0] in missing:  # whose rows all seeds need
        return None
    return Results(table, plan._replace(seeds=tuple(s for s in plan.seeds if s not in missing)))


def findings(results: Results) -> list[Finding]:
    """Return the claims of section 5.2 with their verdicts. Errors are compared as E - E_min.

    With meta-descent, rows are those that were checked.
    """
    rows = {name: CHECKED.get(name, name) for name in VARIANTS}
    excess = {name: results.excess(row) for name, row in rows.items()}
    totals = {name: results.total(row) for name, row in rows.items()}
    tuning = {name: results.sweeps(row, "tuning") for name, row in rows.items()}
    steps = {name: results.value(row, "last divergence") for name, row in rows.items()}
    others, last = VARIANTS[1:], 600.0 + STEPS
    below = lambda pairs, found: [Comparison(found[a], found[b], a) for a, b in pairs]  # noqa: E731
    cost = [Comparison(1.1 * totals["KHA/t"], totals[name], name) for name in others]
    cost += [Comparison(totals[name], 1.6 * totals["KHA/t"], name) for name in others]
    claims = {
        "All variants have less error than KHA/t": below([(a, "KHA/t") for a in others], excess),
        "KHA/et* has less error than KHA/et": below([("KHA/et*", "KHA/et")], excess),
        "SMD has less error than its analogue": below(ANALOGUES.items(), excess),
        "Variants take 10 to 60 % more time than KHA/t, all counted": cost,
        "SMD takes more time than its analogue": below(
            [(b, a) for a, b in ANALOGUES.items()], totals
        ),
        "Tuning takes less than 5 % of the time": [
            Comparison(tuning[name], 0.05 * totals[name], name) for name in VARIANTS
        ],
        "A run diverges within 600 steps or not at all": [
            Comparison(steps[name], np.full(len(steps[name]), last), name) for name in VARIANTS
        ],
    }
    return [Finding("table 2", claim, comparisons) for claim, comparisons in claims.items()]
