"""One API: what the estimators have in common, and how the modules of the package hang together."""

import ast
import importlib
import inspect
import pickle
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
from akpca import KernelPCA
from akpca.progress import FitProgress

SMALL = {type(estimator): estimator for estimator in ESTIMATORS}
# The parameter that says how many passes over the data a fit makes, where there are several.
PASSES = {type(e): {"n_passes", "n_epochs", "n_rounds"} & vars(e).keys() for e in ESTIMATORS}
ITERATIVE = [cls for cls, names in PASSES.items() if names]
SECTIONS = ["Parameters", "Attributes", "References", "Examples"]
K, N_PASSES = 3, 3
ROOT = Path(akpca.__file__).parent
MAX_METHODS, MAX_CLASS, MAX_FUNCTION = 20, 300, 50
X = np.abs(np.random.default_rng(0).standard_normal((60, 8)) * 0.6 ** np.arange(8))

every_estimator = pytest.mark.parametrize("cls", SMALL, ids=lambda cls: cls.__name__)
every_iterative = pytest.mark.parametrize("cls", ITERATIVE, ids=lambda cls: cls.__name__)


def small(cls, **options):
    options |= dict.fromkeys(PASSES[cls], N_PASSES)
    return clone(SMALL[cls]).set_params(n_components=K, **options)


def parameters(cls):
    """Return the parameters of a constructor, in order."""
    return dict(inspect.signature(cls).parameters)


# ---------------------------------------------------------------------- constructors and docstrings


@every_estimator
def test_constructors_have_one_form(cls):
    """Only n_components is positional; random_state, verbose and callback come last, and are off
    by default; all are explained."""
    first, *rest = parameters(cls).values()
    assert (first.name, first.kind) == ("n_components", first.POSITIONAL_OR_KEYWORD)
    assert all(parameter.kind == parameter.KEYWORD_ONLY for parameter in rest)
    names = list(parameters(cls))
    there = [name for name in ("random_state", "verbose", "callback") if name in names]
    assert cls is KernelPCA or names[-len(there) :] == there
    assert not {"seed", "progress"} & set(names)
    defaults = {name: parameters(cls)[name].default for name in there}
    assert defaults == dict.fromkeys(there) | ({"verbose": False} if "verbose" in there else {})
    assert cls not in ITERATIVE or len(there) == 3
    lines = inspect.getdoc(cls).splitlines()
    assert all(lines.count(section) == 1 for section in SECTIONS)
    assert all(any(name in line for line in lines) for name in names)


def test_the_drop_in_has_the_order_of_scikit_learn():
    """KernelPCA begins with the parameters of scikit-learn's, with the same defaults; all others
    use the RBF kernel by default."""
    ours, theirs = parameters(KernelPCA), parameters(decomposition.KernelPCA)
    assert list(ours.values())[: len(theirs)] == list(theirs.values())
    others = [cls for cls in SMALL if "kernel" in parameters(cls) and cls is not KernelPCA]
    assert {parameters(cls)["kernel"].default for cls in others} == {"rbf"}


# ------------------------------------------------------------------------------- fitted models


@every_estimator
def test_a_fitted_model_keeps_the_contract(cls):
    """A clone with the same random_state gives the same codes to the bit, and so does a model that
    was pickled; columns have names; components come in the order of their variance."""
    model = small(cls).fit(X)
    codes = model.transform(X)
    assert codes.shape == (len(X), K)
    for other in (clone(model).fit(X), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.transform(X), codes)
        np.testing.assert_array_equal(
            other.inverse_transform(codes), model.inverse_transform(codes)
        )
    assert list(model.get_feature_names_out()) == [f"{cls.__name__.lower()}{j}" for j in range(K)]
    for name in ("eigenvalues_", "explained_variance_"):
        assert np.all(np.diff(getattr(model, name, [2, 1])) < 0), name
    if cls in ITERATIVE and hasattr(model, "n_iter_"):
        assert model.n_iter_ == N_PASSES


@every_iterative
def test_callback_gets_the_progress_of_each_pass(cls):
    """It is called with one FitProgress after each pass, whose model can be used; a true answer
    ends the fit."""
    seen = []

    def callback(state):
        assert isinstance(state, FitProgress)
        assert np.isfinite(state.model.transform(X)).all()
        seen.append((state.n_iter, state.n_iter_max))
        return state.n_iter == 2

    model = small(cls, callback=callback).fit(X)
    assert seen == [(1, N_PASSES), (2, N_PASSES)]
    assert model.n_iter_ == 2


@every_iterative
def test_an_interrupt_keeps_the_model(cls):
    """After Ctrl-C there is a warning and a model that encodes."""

    def interrupt(state):
        if state.n_iter == 2:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = small(cls, callback=interrupt).fit(X)
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


def test_imports_are_in_order():
    """There is no cycle, only the commands know `book`, none but itself knows `distributed`, and
    names with an underscore stay in their module."""
    graph = {name: {source for source, _ in imports(name)} for name in modules()}
    assert len(list(TopologicalSorter(graph).static_order())) == len(modules())
    for name, sources in graph.items():
        for room, allowed in (("akpca.book", "akpca.__main__"), ("akpca.distributed", "")):
            known = {source for source in sources if f"{source}.".startswith(f"{room}.")}
            assert not known or name == allowed or f"{name}.".startswith(f"{room}."), name
        assert not [part for _, part in imports(name) if part and part.startswith("_")], name


def test_modules_say_what_is_public():
    """Names in __all__ exist, once."""
    for name in modules().keys() - {"akpca.__main__", "akpca.book"}:
        module = importlib.import_module(name)
        assert all(hasattr(module, public) for public in module.__all__), name
        assert len(set(module.__all__)) == len(module.__all__), name


@pytest.mark.slow
@pytest.mark.once
def test_import_is_light():
    """``import akpca`` loads neither the book's rooms nor optional packages, and works without
    pandas, which scikit-learn itself loads where it can."""
    code = "import sys; sys.modules['pandas'] = None; import akpca; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = set(run.stdout.split())
    assert "akpca" in loaded, run.stderr
    heavy = {"dask", "distributed", "numba", "matplotlib", "papermill", "nbformat", "IPython"}
    assert not loaded & (heavy | {"akpca.book", "akpca.distributed"})


def definitions(kind):
    """Yield the module and the node of each class, or of each function and method."""
    for name, tree in modules().items():
        for owner in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
            yield from ((name, node) for node in owner.body if isinstance(node, kind))


def test_classes_and_functions_are_small():
    """Without docstrings they can be read as a whole; constructors and compiled code are exempt."""
    for name, node in definitions(ast.ClassDef):
        methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
        docs = [part.body[0] for part in (node, *methods) if ast.get_docstring(part)]
        lines = node.end_lineno - node.lineno + 1 - sum(d.end_lineno - d.lineno + 1 for d in docs)
        assert len(methods) <= MAX_METHODS, f"{name}.{node.name}"
        assert lines <= MAX_CLASS, f"{name}.{node.name}"
    for name, node in definitions(ast.FunctionDef):
        if node.name != "__init__" and not name.endswith("compiled"):
            first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
            assert node.end_lineno - first.lineno < MAX_FUNCTION, f"{name}.{node.name}"
