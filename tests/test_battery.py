"""Whatever is given to an estimator, a sound model comes out, or an error that says what to do.

Hypothesis draws inputs of all shapes, types, layouts, containers and magnitudes. By default it
draws the same few on every run; with the environment variable ``AKPCA_BATTERY=short`` only the
first fifth of them, for environments in which a change of ours is tried once more. With
``AKPCA_BATTERY=long`` it draws new ones, fifty times as many, and faults are injected at every line
of a fit::

    AKPCA_BATTERY=long pytest -n 2 tests/test_battery.py

What is printed of a failure repeats it: ``Sample(...)`` is the input, see `battery`.
"""

import os
import pickle
import re
import signal
import subprocess
import sys
import warnings
from copy import deepcopy
from pathlib import Path
from timeit import repeat

import cloudpickle
import joblib
import numpy as np
import pytest
from battery import (
    CONTAINERS,
    DTYPES,
    ESTIMATORS,
    LAYOUTS,
    SETTINGS,
    SPARSE,
    STREAMS,
    Sample,
    fingerprint,
    samples,
)
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from threadpoolctl import threadpool_limits

import akpca
from akpca import (
    DivergenceError,
    GeneralizedHebbian,
    IncrementalKernelPCA,
    KernelHebbian,
    KernelPCA,
    NystromKernelPCA,
)
from akpca.incremental import MIN_SCATTER
from akpca.threads import blas_threads

LONG = os.environ.get("AKPCA_BATTERY") == "long"
SHORT = os.environ.get("AKPCA_BATTERY") == "short"
COMMON = {
    "deadline": None,
    "database": None,
    "derandomize": not LONG,
    "suppress_health_check": list(HealthCheck),
}
# What an estimator may refuse an input with. A DivergenceError is no ValueError, and that sparse
# matrices have no learned inverse, KernelPCA says in the words and the type of scikit-learn's.
NO_INVERSE = "Inverse transform not implemented for sparse matrices!"
REFUSALS = (ValueError, TypeError, NotFittedError, DivergenceError, NotImplementedError)
# How messages of scikit-learn begin that name the input in other words than 'X'.
SAID_BY_SCIKIT_LEARN = (
    *("Found array with", "Negative values in data", "Sparse data was passed"),
    NO_INVERSE,
)
# Sentences of libraries, on what went wrong inside and not on what was given.
CRYPTIC = (
    "broadcast|[Ss]ingular matrix|not converge|out of bounds|positive.definite|infs or NaNs"
    "|operands|illegal value|zero-size|ARPACK|not aligned|mismatch in its core|not supported for"
    "|cannot reshape|must be real number|unsupported operand|NoneType|object has no attribute"
)


# Faults of each kind in the fits of an estimator.
N_FAULTS = 1500 if LONG else 6 if SHORT else 30
# Finite values whose sums or squares are not.
OUTLIER = Sample(44, 3, "float32", "outlier", power=19, seed=7)
LARGEST = Sample(4, 2, "float32", power=38, container="csc_matrix", seed=6)
APART = Sample(2, 2, "float32", power=21, layout="reversed", seed=7)
# One sample is a milliard from the others, which are near each other.
ALONE = Sample(45, 19, "float32", "outlier", power=9, layout="slice", seed=3)
# Values whose squares are no normal numbers.
SMALLEST = Sample(43, 2, "float32", "columns", power=-36, layout="Fortran", seed=1)
# Samples so near each other that a random sum of them may be shorter than its rounding errors.
EQUAL = Sample(46, 3, "float32", "offset", layout="Fortran")
# Fits that a fault comes in are of the second of these, after one of the first.
OLD, NEW = (Sample(150, 20, values="image", seed=seed).array() / 255 for seed in (0, 1))


def described(estimator):
    """Return the name of a setting for the report of the tests."""
    return re.sub(r"\s+", "", str(estimator)).replace(",random_state=0", "")


every_setting = pytest.mark.parametrize("estimator", SETTINGS, ids=described)
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)


def examples(n):
    """Return the settings of a test with n examples, a fifth, or fifty times as many."""
    return settings(max_examples=50 * n if LONG else n // 5 if SHORT else n, **COMMON)


def assert_clear(error, estimator, finite=True):
    """An error says what was wrong with the input or a parameter, in words that are true."""
    assert not isinstance(error, np.linalg.LinAlgError), repr(error)
    message = str(error)
    words = {"X", *estimator.get_params(deep=False)}
    named = words & set(re.findall(r"\w+", message))
    assert named or message.startswith(SAID_BY_SCIKIT_LEARN), f"names nothing: {error!r}"
    assert not re.search(CRYPTIC, message), f"cryptic: {error!r}"
    assert not (finite and message.startswith("Input X contains")), f"not true: {error!r}"


def attempt(method, *args, estimator, finite=True, summable=True):
    """Return what a method gives, or None if it refuses its input, in clear words.

    Either way there are no warnings but those that are documented, of class UserWarning, unless
    the sum of the input is not finite, about which NumPy warns when scikit-learn computes it.
    """
    refusal = None
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = method(*args)
        except REFUSALS as error:
            refusal, result = error, None
    if refusal is not None:
        assert_clear(refusal, estimator, finite)
    for w in seen:
        documented = issubclass(w.category, UserWarning) or not summable
        text = f"{w.category.__name__}: {w.message} ({w.filename}:{w.lineno}), then {refusal!r}"
        assert documented, text
    return result


def code_tolerance(model, X, codes):
    """Return the difference that rounding may make between `fit_transform` and `transform`.

    Codes are sums of n kernel values with weights w. Both methods round kernel values and sums, so
    that they differ by some eps ||k(x, Z)|| ||w||, where the norm of a row of kernel values is at
    most the sum of k(x, x). A matrix-free solver also leaves ||K u - nu u||, relative to nu, which
    is relative to the norm of the codes, sqrt(nu).
    """
    weights = getattr(model, "components_", None)
    if weights is None:
        roots = np.sqrt(np.where(model.eigenvalues_ > 0, model.eigenvalues_, np.inf))
        weights = (model.eigenvectors_ / roots).T
    total = np.abs(model.kernel_.diag(X.astype(np.float64))).sum()
    lengths = np.linalg.norm(weights.astype(np.float64), axis=1)
    norms = np.linalg.norm(codes.astype(np.float64), axis=0)
    rounding = 100 * np.finfo(codes.dtype).eps * (total * lengths + norms)
    return rounding + getattr(model, "residuals_", 0) * norms


def assert_same_codes(model, X, at_once, codes):
    """`fit_transform` gives the codes of `fit` and `transform`: to the bit, but for rounding where
    it takes them from the fit."""
    if type(model).__name__ not in ("KernelPCA", "KernelHebbian"):
        np.testing.assert_array_equal(at_once, codes)
        return
    difference = np.abs(at_once.astype(np.float64) - codes).max(initial=0, axis=0)
    tolerance = code_tolerance(model, X, codes)
    # what is equal needs no tolerance, which is not a number where k(x, x) overflows
    assert np.all((difference == 0) | (difference <= tolerance)), f"{difference} > {tolerance}"


def assert_finite_attributes(model):
    """All numbers that a fitted model shows are finite."""
    for name, value in vars(model).items():
        if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind == "f":
            assert np.isfinite(value).all(), f"{name} is not finite"


def check_estimator(estimator, sample, n_components):
    """Fit, encode and decode an input; assert all that is promised of that.

    Return whether it was taken.
    """
    X, model = sample.make(), clone(estimator).set_params(n_components=n_components)
    before, dense = fingerprint(X), sample.array().astype(sample.out_dtype)
    given = {"estimator": model, "finite": np.isfinite(dense).all()}
    with np.errstate(over="ignore"):
        given["summable"] = np.isfinite(np.abs(dense).sum())
    fitted = attempt(clone(model).fit, X, **given)
    at_once = attempt(clone(model).fit_transform, X, **given)
    codes = None if fitted is None else attempt(fitted.transform, X, **given)
    assert fingerprint(X) == before, "the input was changed"
    # what can be fitted can be encoded
    assert (fitted is None) == (at_once is None) == (codes is None)
    if fitted is None:
        return False
    assert given["finite"], "took an input that is not finite"
    assert_finite_attributes(fitted)
    # kernel PCA gives as many components as there are, the others refuse to give fewer
    shape = sample.n, min(n_components, sample.n) if is_drop_in(model) else n_components
    for found in (codes, at_once):
        assert isinstance(found, np.ndarray)
        assert found.shape == shape, f"codes have shape {found.shape}"
        assert found.dtype == sample.out_dtype, f"codes are {found.dtype}"
        assert np.isfinite(found).all(), "codes are not finite"
    assert_same_codes(fitted, X if sparse.issparse(X) else dense, at_once, codes)
    back = attempt(fitted.inverse_transform, codes, estimator=model)
    if back is not None:
        assert back.shape == (sample.n, sample.d), f"samples have shape {back.shape}"
        assert back.dtype == sample.out_dtype, f"samples are {back.dtype}"
        assert np.isfinite(back).all(), "decoded samples are not finite"
    assert fingerprint(X) == before, "the input was changed"
    return True


def is_drop_in(model):
    return isinstance(model, KernelPCA)


# ------------------------------------------------------------------------------------- inputs


@every_setting
@examples(150)
@given(data=st.data())
def test_any_input_is_fitted_or_refused(estimator, data):
    """Any input gives finite codes of the promised shape and type, from which samples can be
    decoded, or an error that names what was wrong; it is never changed, and there are no warnings
    of arithmetic."""
    sample = data.draw(samples(), label="X")
    sizes = st.integers(1, 3) | st.integers(1, sample.n + 2)
    n_components = data.draw(sizes, label="n_components")
    check_estimator(estimator, sample, n_components)


@pytest.mark.parametrize(
    "estimator, sample, n_components, taken",
    [
        (KernelPCA(kernel="rbf"), Sample(1, 2, power=200), 1, False),
        (KernelHebbian(n_passes=2), Sample(1, 7, values="constant", power=155), 1, False),
        (KernelPCA(), Sample(1, 3, power=211), 2, True),
        (KernelPCA(), Sample(46, 1, "float32", power=19, seed=4), 39, False),
        (NystromKernelPCA(kernel="laplacian", sampling="kmeans"), LARGEST, 3, False),
        (NystromKernelPCA(preimage="distance"), APART, 1, False),
        (KernelHebbian(n_passes=2, preimage="ridge"), ALONE, 3, True),
        (KernelPCA(fit_inverse_transform=True), SMALLEST, 2, False),
        (NystromKernelPCA(kernel="linear"), SMALLEST, 1, False),
    ],
)
def test_values_near_the_limits_of_their_type(estimator, sample, n_components, taken):
    """Where squares, or sums of them, overflow, vanish or cancel, inputs are encoded right or
    refused, but not fitted and then refused, nor refused for an infinity that they don't have."""
    estimator = clone(estimator).set_params(random_state=0)
    assert check_estimator(estimator, sample, n_components) == taken


@every_setting
def test_a_plain_input_is_taken_in_every_form(estimator):
    """Images of any type, layout and container are fitted: the test above is not green because all
    is refused."""
    forms = [{"dtype": dtype} for dtype in DTYPES]
    forms += [{"layout": layout} for layout in LAYOUTS]
    forms += [{"container": container} for container in CONTAINERS]
    for form in forms:
        taken = check_estimator(estimator, Sample(30, 6, values="image", **form), 2)
        assert taken or form.get("container") in SPARSE, form
        assert taken or not takes_sparse(estimator), form


def takes_sparse(estimator):
    """Return whether sparse matrices are taken; decoders do not take them."""
    decodes = getattr(estimator, "preimage", None) or getattr(
        estimator, "fit_inverse_transform", False
    )
    return estimator.__sklearn_tags__().input_tags.sparse and not decodes


# ------------------------------------------------------------------------- models that stay whole


def state(model):
    """Return a hash of all attributes of a model."""
    return joblib.hash(vars(model))


@every_setting
@examples(20)
@given(data=st.data())
def test_a_refused_input_leaves_the_model_as_it_was(estimator, data):
    """A model that was asked to fit something else, and could not, is the same in all its
    attributes and encodes as before."""
    model = clone(estimator).set_params(n_components=2).fit(OLD)
    before, codes = state(model), model.transform(OLD)
    X = data.draw(samples(), label="X").make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X)
        except Exception:
            assert state(model) == before
            np.testing.assert_array_equal(model.transform(OLD), codes)


def test_every_kind_of_refusal_is_tried():
    """Among the drawn inputs are refused ones: the test above is not green because all fit."""
    refused = Sample(20, 4, values="NaN").make()
    for estimator in SETTINGS:
        with pytest.raises(ValueError, match="NaN"):
            clone(estimator).set_params(n_components=2).fit(refused)


LOAD = """
import pickle, sys
from pathlib import Path
for path in Path(sys.argv[1]).glob("*.model"):
    model, X, more = pickle.loads(path.read_bytes())
    found = [model.transform(X)]
    if more is not None:
        found.append(model.partial_fit(more).transform(X))
    path.with_suffix(".codes").write_bytes(pickle.dumps([codes.tobytes() for codes in found]))
"""


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """Fit all settings, send them to another process by both picklers, let it encode and go on."""
    folder, here = tmp_path_factory.mktemp("models"), {}
    own_kernel = KernelPCA(2, kernel=lambda x, y: (x @ y) ** 2)
    cases = {described(e): clone(e).set_params(n_components=2) for e in SETTINGS}
    cases |= {described(e): clone(e) for e in STREAMS}
    for i, (name, model) in enumerate([*cases.items(), ("a function of one's own", own_kernel)]):
        streams = name in map(described, STREAMS)
        (model.partial_fit if streams else model.fit)(OLD)
        more = NEW if streams else None
        for pickler in (cloudpickle, pickle) if model is not own_kernel else (cloudpickle,):
            path = folder / f"{i}-{pickler.__name__}.model"
            path.write_bytes(pickler.dumps((model, OLD, more)))
            here.setdefault(name, []).append(path.with_suffix(".codes"))
        found = [model.transform(OLD)]
        if more is not None:
            found.append(model.partial_fit(more).transform(OLD))
        here[name].append([codes.tobytes() for codes in found])
    run = [sys.executable, "-c", LOAD, str(folder)]
    env = {**os.environ, "PYTHONPATH": str(Path(akpca.__file__).parent.parent)}
    done = subprocess.run(run, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return here


@pytest.mark.parametrize(
    "name", [*map(described, [*SETTINGS, *STREAMS]), "a function of one's own"]
)
def test_another_process_encodes_to_the_same_bytes(sent, name):
    """A model that was pickled encodes in another process to the same bytes, and goes on with a
    stream as if it had never left."""
    *there, codes = sent[name]
    assert there
    for path in there:
        assert pickle.loads(path.read_bytes()) == codes


# ------------------------------------------------------------------------------------- streams


def gram_tolerance(X, model, codes):
    """Return how far inner products of codes may be apart for streams with other cuts.

    Sums in another order differ by rounding, which the steps carry on: some thousand times eps,
    times the size of the samples or, behind a kernel, that of the rounding errors of its values.
    A merge leaves out components whose scatter is next to nothing, which depends on the cuts.
    """
    squares = np.sum(X.astype(np.float64) ** 2, axis=1).max()
    size = np.sqrt(squares) if isinstance(model, GeneralizedHebbian) else squares
    rounding = np.finfo(X.dtype).eps * max(size, 1.0) * max(np.abs(codes).max(initial=0), 1.0)
    if isinstance(model, IncrementalKernelPCA):
        largest = squares if model.kernel == "linear" else 1.0  # k(x, x)
        return 1e4 * rounding + 2 * MIN_SCATTER[X.dtype] * np.sqrt(len(X)) * largest
    return 1e4 * rounding


@pytest.mark.parametrize("estimator", STREAMS, ids=described)
@examples(60)
@given(data=st.data())
def test_it_makes_no_difference_how_a_stream_is_cut(estimator, data):
    """Where that is documented, any cut of a stream gives the same codes: of all of it for the
    generalised Hebbian algorithm, behind the first batch for the others. Inner products of codes
    are compared, as equal eigenvalues leave the axes open."""
    plain = {
        "n": st.integers(6, 60),
        "dtype": st.sampled_from(("float64", "float32")),
        "values": st.sampled_from(("image", "scaled", "duplicates", "one-hot")),
        "power": st.integers(-3, 3),
        "container": st.just("array"),
    }
    sample = data.draw(samples(**plain), label="X")
    X, n, linear = sample.make(), sample.n, isinstance(estimator, GeneralizedHebbian)
    first = 0 if linear else data.draw(st.integers(4, n - 2), label="first")
    cuts = data.draw(st.sets(st.integers(first + 1, n - 1)), label="cuts")
    models = [clone(estimator) for _ in range(2)]
    for model, places in zip(models, [[], sorted(cuts)], strict=True):
        for batch in np.split(X, [first, *places] if first else places):
            try:
                model.partial_fit(batch)
            except REFUSALS as error:
                assert_clear(error, model)
                assume(False)
    whole, cut = (model.transform(X) for model in models)
    atol = gram_tolerance(X, estimator, whole)
    np.testing.assert_allclose(whole @ whole.T, cut @ cut.T, rtol=0, atol=atol)


# ---------------------------------------------------------------------------------- interrupts


class Interrupted:
    """What is known of a model that was fitted to `OLD`, and whose fit to `NEW` is interrupted."""

    def __init__(self, estimator):
        estimator = clone(estimator).set_params(n_components=2)
        with threadpool_limits(2, "blas"):  # as in all fits, since it changes the rounding
            self.old = clone(estimator).fit(OLD)  # the first time, functions are compiled
            self.new = clone(estimator).fit(NEW)
            # of several: signals must not come too late because a single fit was held up
            self.seconds = min(repeat(lambda: clone(estimator).fit(NEW), number=1))
        self.count = 0

    def check(self, fit):
        """Interrupt a refit by `fit(model)`; assert that the model is the old one or a new one.

        `fit` returns whether an interrupt came and whether it was raised.
        """
        model, lost, hook = deepcopy(self.old), [], sys.unraisablehook
        before = state(model)
        sys.unraisablehook = lost.append
        # NumPy may lose its own settings, if it is interrupted just when it enters `errstate`
        recorder, threads = warnings.catch_warnings(record=True), threadpool_limits(2, "blas")
        with recorder as seen, threads, np.errstate():
            warnings.simplefilter("always")
            try:
                came, raised = fit(model)
            finally:
                sys.unraisablehook = hook
            assert blas_threads() == 2, "BLAS has lost its threads"
        told = [w for w in seen if issubclass(w.category, ConvergenceWarning)]
        told = [w for w in told if "interrupted" in str(w.message)]
        self.count += came
        if lost:  # in a destructor, where Python drops what is raised
            return
        if raised:  # perhaps just behind the fit
            assert not told, "interrupted twice"
            assert state(model) in (before, state(self.new))
        elif came:
            assert len(told) == 1, "the interrupt was lost"
            assert vars(model).keys() == vars(self.new).keys()
            assert_finite_attributes(model)
            assert model.transform(NEW).shape == self.new.transform(NEW).shape
            assert np.isfinite(model.transform(NEW)).all()
        else:
            assert state(model) == state(self.new)


@pytest.fixture
def handlers():
    """Let SIGALRM raise SIGINT, and this a KeyboardInterrupt, as it does in a terminal."""
    before = {number: signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.skipif(not LONG, reason="timing decides: AKPCA_BATTERY=long runs it")
@every_estimator
def test_a_signal_at_any_time_leaves_a_whole_model(estimator, handlers):
    """After Ctrl-C at a random moment of a fit, the old model is there unchanged, or a new one with
    one warning; BLAS has its threads."""
    case, rng = Interrupted(estimator), np.random.default_rng(0)

    def fit(model, seconds):
        came = []

        def ring(*_):
            came.append(True)
            signal.raise_signal(signal.SIGINT)

        signal.signal(signal.SIGALRM, ring)
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            model.fit(NEW)
            signal.setitimer(signal.ITIMER_REAL, 0)
            for _ in range(3):  # a signal that has come is handled by the end of this
                pass
        except KeyboardInterrupt:
            return True, True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return bool(came), False

    case.check(lambda model: fit(model, 100))
    for seconds in rng.uniform(1e-5, 1.1 * case.seconds, N_FAULTS):
        case.check(lambda model, seconds=seconds: fit(model, seconds))
    assert case.count > N_FAULTS / 4


class AtLine:
    """Raise KeyboardInterrupt when a line of the package is reached; without one, note all."""

    def __init__(self, line=None):
        self.line, self.lines = line, {}

    def __call__(self, frame, event, argument):
        if not frame.f_globals.get("__name__", "").startswith("akpca."):
            return None
        here = frame.f_code.co_filename, frame.f_lineno
        if event == "line":
            self.lines[here] = True
            if here == self.line:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)


@every_estimator
def test_an_interrupt_at_any_line_leaves_a_whole_model(estimator):
    """An interrupt at a line of the package, drawn from all that a fit reaches, leaves the old
    model unchanged, or a new one with one warning; BLAS has its threads."""
    case, rng = Interrupted(estimator), np.random.default_rng(0)

    def fit(model, line):
        try:
            with AtLine(line):
                model.fit(NEW)
        except KeyboardInterrupt:
            return True, True
        return True, False

    with threadpool_limits(2, "blas"), AtLine() as trace:
        deepcopy(case.old).fit(NEW)
    lines = list(trace.lines)
    for i in rng.permutation(len(lines))[:N_FAULTS]:
        case.check(lambda model, line=lines[i]: fit(model, line))
