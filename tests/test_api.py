"""One API: what the estimators and functions have in common, and the limits of the code."""

import ast
import inspect
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pytest
from battery import ESTIMATORS
from sklearn import decomposition
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import akpca
from akpca import (
    AKPCA,
    Autoencoder,
    DataSpanAKPCA,
    IncrementalKernelPCA,
    KernelHebbian,
    KernelPCA,
    NystromKernelPCA,
)
from akpca.progress import FitProgress

SMALL = {type(estimator): estimator for estimator in ESTIMATORS}
# The parameter that says how many passes over the data a fit makes, where there are several.
PASSES = {type(e): {"n_passes", "n_epochs"} & vars(e).keys() for e in ESTIMATORS}
ITERATIVE = [cls for cls, names in PASSES.items() if names]
SECTIONS = ["Parameters", "Attributes", "See Also", "References", "Examples"]
K, N_PASSES = 3, 4
ROOT = Path(akpca.__file__).parent
MAX_METHODS, MAX_CLASS, MAX_FUNCTION = 25, 400, 50

every_estimator = pytest.mark.parametrize("cls", SMALL, ids=lambda cls: cls.__name__)
every_iterative = pytest.mark.parametrize("cls", ITERATIVE, ids=lambda cls: cls.__name__)


@pytest.fixture(scope="module")
def X():
    """80 samples whose variances along the axes are well apart."""
    return np.random.default_rng(0).standard_normal((80, 8)) * 0.6 ** np.arange(8)


def small(cls, **options):
    options |= dict.fromkeys(PASSES[cls], N_PASSES)
    return clone(SMALL[cls]).set_params(n_components=K, **options)


def parameters(cls):
    """Return the parameters of a constructor, in order."""
    return dict(inspect.signature(cls).parameters)


# ------------------------------------------------------------------------------ constructors


@every_estimator
def test_only_n_components_is_positional(cls):
    """The first parameter is n_components; all others must be named."""
    first, *rest = parameters(cls).values()
    assert (first.name, first.kind) == ("n_components", first.POSITIONAL_OR_KEYWORD)
    assert all(parameter.kind == parameter.KEYWORD_ONLY for parameter in rest)


@pytest.mark.parametrize("cls", [c for c in SMALL if c is not KernelPCA], ids=lambda c: c.__name__)
def test_random_state_verbose_and_callback_come_last(cls):
    """They are the last parameters, in this order, where they exist."""
    names = list(parameters(cls))
    there = [name for name in ("random_state", "verbose", "callback") if name in names]
    assert names[-len(there) :] == there


def test_the_drop_in_has_the_order_of_scikit_learn():
    """KernelPCA begins with the parameters of scikit-learn's, with the same defaults."""
    ours, theirs = parameters(KernelPCA), parameters(decomposition.KernelPCA)
    assert list(ours.values())[: len(theirs)] == list(theirs.values())


@every_estimator
def test_every_estimator_has_a_random_state(cls, X):
    """The same integer gives the same codes, to the bit."""
    assert parameters(cls)["random_state"].default is None
    np.testing.assert_array_equal(small(cls).fit(X).transform(X), small(cls).fit(X).transform(X))


@every_iterative
def test_long_fits_can_be_watched(cls):
    """What makes several passes has verbose and callback, both off by default."""
    assert parameters(cls)["verbose"].default is False
    assert parameters(cls)["callback"].default is None


def test_the_kernel_is_rbf_by_default():
    """All estimators with a kernel use the RBF kernel, except for the drop-in."""
    with_kernel = [cls for cls in SMALL if "kernel" in parameters(cls)]
    others = [NystromKernelPCA, IncrementalKernelPCA, KernelHebbian]
    assert with_kernel == [KernelPCA, *others]
    defaults = [parameters(cls)["kernel"].default for cls in with_kernel]
    assert defaults == ["linear", "rbf", "rbf", "rbf"]


@every_estimator
def test_class_docstring_has_all_sections(cls):
    """The docstring explains parameters and attributes, and leads to papers and to an example."""
    lines = inspect.getdoc(cls).splitlines()
    for section in SECTIONS:
        assert lines.count(section) == 1, section
        assert lines[lines.index(section) + 1] == "-" * len(section)


# ------------------------------------------------------------------------------- fitted models


@every_estimator
def test_eigenvalues_descend(cls, X):
    """Components come in the order of their variance."""
    model = small(cls).fit(X)
    found = [name for name in ("eigenvalues_", "explained_variance_") if hasattr(model, name)]
    assert found or cls in (AKPCA, DataSpanAKPCA, Autoencoder)
    for name in found:
        assert np.all(np.diff(getattr(model, name)) < 0), name


@every_iterative
def test_n_iter_counts_passes(cls, X):
    """n_iter_ is the number of passes over the data, whatever the number of steps."""
    model = small(cls).fit(X)
    assert model.n_iter_ == N_PASSES
    assert not hasattr(model, "n_passes_")


@pytest.mark.parametrize("cls", [AKPCA, DataSpanAKPCA], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("offset", [True, False])
def test_encoder_and_decoder_are_matrices(cls, offset, X):
    """Each component has one encoding and one decoding matrix."""
    model = small(cls, offset=offset, decoder="eigenvector").fit(np.abs(X))
    D = X.shape[1] + offset
    assert model.encoder_.shape == model.decoder_.shape == (K, D, D)


@every_estimator
def test_components_are_an_array(cls, X):
    """Where there are components_, they are one array with a row for each component."""
    components = getattr(small(cls).fit(X), "components_", np.empty((K, 0)))
    assert isinstance(components, np.ndarray)
    assert len(components) == K


# ---------------------------------------------------------------------- callbacks and interrupts


@every_iterative
def test_callback_gets_the_progress_of_each_pass(cls, X):
    """It is called with one FitProgress after each pass, whose model can be used."""
    seen = []

    def callback(state):
        assert isinstance(state, FitProgress)
        assert np.isfinite(state.model.transform(X)).all()
        seen.append((state.n_iter, state.n_iter_max, state.model))

    model = small(cls, callback=callback).fit(X)
    assert seen == [(n, N_PASSES, model) for n in range(1, N_PASSES + 1)]


@every_iterative
def test_a_true_answer_stops_the_fit(cls, X):
    """The fit ends with the pass after which the callback says so."""
    model = small(cls, callback=lambda state: state.n_iter == 2).fit(X)
    assert model.n_iter_ == 2


@every_iterative
def test_an_interrupt_keeps_the_model(cls, X):
    """After Ctrl-C there is a warning and a model that encodes."""

    def interrupt(state):
        if state.n_iter == 2:
            raise KeyboardInterrupt

    model = small(cls, callback=interrupt)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(X)
    assert np.isfinite(model.transform(X)).all()


# --------------------------------------------------------------------------- names and imports


@cache
def modules():
    """Return the parsed source of each module, by its name."""
    trees = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        trees[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
    return trees


def imports(name):
    """Yield the module and the name (None if it is all of the module) of each import of ours."""
    parts = name.split(".")
    if not (ROOT.parent / Path(*parts) / "__init__.py").exists():
        parts = parts[:-1]
    for node in ast.walk(modules()[name]):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom):
            base = parts[: len(parts) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names if source in modules() else ():
                whole = f"{source}.{alias.name}"
                yield (whole, None) if whole in modules() else (source, alias.name)


def definitions(kind):
    """Yield the module and the node of each class, or of each function and method."""
    for name, tree in modules().items():
        for owner in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
            yield from ((name, node) for node in owner.body if isinstance(node, kind))


def test_no_parameter_is_called_seed_or_progress():
    """Public functions, methods and constructors say random_state and verbose."""
    for name, node in definitions(ast.FunctionDef):
        names = {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
        private = re.match("_[a-z]", node.name)
        assert private or not names & {"seed", "progress"}, f"{name}.{node.name}"


def test_import_loads_no_optional_package():
    """``import akpca`` loads neither dask nor numba nor matplotlib, and works without pandas, which
    scikit-learn itself loads where it can."""
    code = "import sys; sys.modules['pandas'] = None; import akpca; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "akpca" in run.stdout.split(), run.stderr
    assert not {"dask", "numba", "matplotlib"} & set(run.stdout.split())


def test_imports_have_no_cycle():
    """Modules can be read in an order in which each knows only earlier ones."""
    graph = {name: {source for source, _ in imports(name)} for name in modules()}
    assert len(list(TopologicalSorter(graph).static_order())) == len(modules())


def test_nothing_knows_distributed():
    """Only users import akpca.distributed."""
    for name in modules():
        known = {source for source, _ in imports(name) if source.startswith("akpca.distributed")}
        assert not known or name.startswith("akpca.distributed"), name


def test_private_names_stay_in_their_module():
    """No module imports a name with an underscore from another, or reaches for it by a dot."""
    found = []
    for name, tree in modules().items():
        found += [f"{name}: {part}" for _, part in imports(name) if part and part[0] == "_"]
        known = {source.split(".")[-1] for source, part in imports(name) if part is None}
        dots = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        reached = [node.attr for node in dots if getattr(node.value, "id", None) in known]
        found += [f"{name}: {attribute}" for attribute in reached if attribute[0] == "_"]
    assert not found


# ------------------------------------------------------------------------------------- limits


def test_classes_are_small():
    """A class has few enough methods and lines, without docstrings, to be read as a whole."""
    for name, node in definitions(ast.ClassDef):
        methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
        docs = [part.body[0] for part in (node, *methods) if ast.get_docstring(part)]
        lines = node.end_lineno - node.lineno + 1 - sum(d.end_lineno - d.lineno + 1 for d in docs)
        assert len(methods) <= MAX_METHODS, f"{name}.{node.name}"
        assert lines <= MAX_CLASS, f"{name}.{node.name}"


def test_functions_fit_on_a_page():
    """A function is short without its docstring; constructors and compiled code are exempt."""
    for name, node in definitions(ast.FunctionDef):
        if node.name != "__init__" and not name.endswith("compiled"):
            first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
            assert node.end_lineno - first.lineno < MAX_FUNCTION, f"{name}.{node.name}"
