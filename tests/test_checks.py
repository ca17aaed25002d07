"""scikit-learn's contract for estimators: all of ours pass all of its checks, none looks green by
being skipped, and none is expected to fail."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from unittest import SkipTest

import pytest
from battery import ESTIMATORS
from sklearn import decomposition
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import akpca
from akpca import (
    AKPCA,
    Autoencoder,
    DataSpanAKPCA,
    GeneralizedHebbian,
    IncrementalKernelPCA,
    KernelHebbian,
    KernelPCA,
    NystromKernelPCA,
)
from akpca.hebbian import Gain
from akpca.kernels import RBF, Linear

# At the defaults, unless they take long, and in other forms, each of which runs code of its own.
CHECKED = [
    KernelPCA(),
    KernelPCA(kernel="rbf", center=False),
    KernelPCA(kernel="poly", degree=2, eigen_solver="dense", remove_zero_eig=True),
    KernelPCA(2, kernel="cosine", eigen_solver="arpack"),
    KernelPCA(2, kernel="laplacian", eigen_solver="randomized"),
    KernelPCA(2, kernel="rbf", eigen_solver="krylov"),
    KernelPCA(2, kernel="chi2"),
    KernelPCA(2, kernel=RBF(0.1) + Linear(), copy_X=False),
    NystromKernelPCA(),
    NystromKernelPCA(center=False, sampling="leverage"),
    NystromKernelPCA(kernel="linear", sampling="kmeans"),
    NystromKernelPCA(1, kernel="poly", degree=2, n_landmarks=8, random_state=0),
    NystromKernelPCA(1, kernel="chi2", sampling="kmeans"),
    IncrementalKernelPCA(),
    IncrementalKernelPCA(center=False, n_kept=3, block_size=7),
    IncrementalKernelPCA(1, kernel="linear", shuffle=False),
    IncrementalKernelPCA(1, kernel="poly", degree=2, budget=8),
    GeneralizedHebbian(),
    GeneralizedHebbian(rule="oja", center=False),
    GeneralizedHebbian(1, gain=Gain(1e-4, iterations=50), block_size=3),
    GeneralizedHebbian(1, gain=Gain(1e-4), shuffle=False),
    KernelHebbian(n_passes=2),
    KernelHebbian(n_passes=2, gain=Gain(0.1), center=False),
    KernelHebbian(1, n_passes=1, gain=Gain(0.1, passes=1, mu=0.01), eigenvalue_updates="pass"),
    KernelHebbian(1, n_passes=1, kernel="cosine", gain=Gain(0.1, passes=1), memory_limit=0),
    AKPCA(n_epochs=4),
    AKPCA(decoder="eigenvector", n_epochs=4),
    AKPCA(1, decoder="ridge", precision="single", n_epochs=2),
    AKPCA(objective="spectral", offset=False, n_epochs=2),
    AKPCA(1, precision="double", solver="svrg", init="random", n_epochs=1),
    AKPCA(1, early_stopping=True, noise="gaussian", solver="sgd", n_epochs=1),
    DataSpanAKPCA(n_epochs=2),
    DataSpanAKPCA(decoder="eigenvector", n_epochs=2),
    DataSpanAKPCA(1, decoder="ridge", sampling="kmeans", n_epochs=1),
    DataSpanAKPCA(1, objective="spectral", offset=False, sampling="kmeans", n_epochs=1),
    DataSpanAKPCA(1, precision="double", n_landmarks=1, solver="sgd", n_epochs=1),
    DataSpanAKPCA(1, rank=2, noise="speckle", constant=1.0, n_epochs=1),
    Autoencoder(hidden_layer_sizes=(8,), n_epochs=2),
    Autoencoder(1, hidden_layer_sizes=(), activation="tanh", validation_fraction=0, n_epochs=2),
]
# The number of checks of scikit-learn 1.6, the oldest that we allow; later ones have more.
LEAST_CHECKS = 40

# This check skips unless SciPy's array API support is on, which must be so before SciPy is
# imported. It calls inverse_transform, so that `ESTIMATORS` have learned one.
SKIPPED = "check_array_api_input"
RUN_SKIPPED = """
import traceback
from test_checks import ESTIMATORS, SKIPPED, checks
for estimator in ESTIMATORS:
    try:
        for name, check in checks(estimator):  # early releases don't have this one
            if name == SKIPPED:
                check(estimator)
        print(type(estimator).__name__, "passed")
    except BaseException:
        traceback.print_exc()
"""


def checks(estimator):
    """Return the names of the checks of an estimator, and the checks."""
    return [(check.func.__name__, check) for _, check in estimator_checks_generator(estimator)]


def class_name(estimator):
    return type(estimator).__name__


@parametrize_with_checks(CHECKED)
def test_scikit_learn_check(estimator, check):
    """Each check of scikit-learn passes; one may skip, and runs further down."""
    try:
        check(estimator)
    except SkipTest:
        assert check.func.__name__ == SKIPPED
        raise


@pytest.mark.parametrize("estimator", CHECKED, ids=str)
def test_no_check_is_missing(estimator):
    """Each setting has all checks of scikit-learn's own KernelPCA, if it is ours, which has its
    name, or else of its IncrementalPCA, and they are many."""
    drop_in = isinstance(estimator, KernelPCA)
    peer = decomposition.KernelPCA() if drop_in else decomposition.IncrementalPCA()
    ours, theirs = ([name for name, _ in checks(e)] for e in (estimator, peer))
    assert not Counter(theirs) - Counter(ours)
    assert len(ours) >= LEAST_CHECKS


def test_every_check_is_run_for_every_setting():
    """Such a test has as many cases as scikit-learn has checks: a release that yields none, or
    another number, does not go unnoticed."""
    run = list(parametrize_with_checks(CHECKED).args[1])
    assert len(run) == sum(len(checks(estimator)) for estimator in CHECKED)
    assert len(run) >= LEAST_CHECKS * len(CHECKED)


@pytest.fixture(scope="module")
def run_skipped():
    """Run the check that skips for all estimators, in a process with SciPy's array API on."""
    return subprocess.run(
        [sys.executable, "-c", RUN_SKIPPED],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=class_name)
def test_the_only_check_that_skips_passes_too(estimator, run_skipped):
    """A skipped check looks green: in a process of its own it runs, and passes."""
    assert f"{class_name(estimator)} passed" in run_skipped.stdout.splitlines(), run_skipped.stderr


def test_every_estimator_is_checked():
    """No public estimator is left out of this file, nor of the list that others use."""
    public = [getattr(akpca, name) for name in akpca.__all__]
    estimators = {c for c in public if isinstance(c, type) and issubclass(c, BaseEstimator)}
    assert {type(e) for e in CHECKED} == {type(e) for e in ESTIMATORS} == estimators
