"""scikit-learn's contract for estimators: all of ours pass all of its checks, none looks green by
being skipped, and none is expected to fail."""

import os
import subprocess
import sys
from pathlib import Path
from unittest import SkipTest

import pytest
from sklearn import decomposition
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import akpca
from akpca import (
    AKPCA,
    DataSpanAKPCA,
    GeneralizedHebbian,
    KernelHebbian,
    KernelPCA,
    KernelStream,
    NystromKernelPCA,
)
from akpca.hebbian import Constant

# At the defaults, unless they take long, and in the other main forms.
CHECKED = [
    KernelPCA(),
    KernelPCA(kernel="rbf", center=False),
    NystromKernelPCA(),
    NystromKernelPCA(center=False, sampling="leverage"),
    NystromKernelPCA(orthonormal=False),
    NystromKernelPCA(kernel="linear", sampling="kmeans", fit_inverse_transform=True),
    GeneralizedHebbian(),
    GeneralizedHebbian(rule="oja", center=False),
    KernelHebbian(n_passes=2),
    KernelHebbian(n_passes=2, gain=Constant(0.1), center=False),
    KernelStream(),
    KernelStream(budget=5, center=False),
    AKPCA(),
    AKPCA(objective="spectral", offset=False, n_epochs=3),
    DataSpanAKPCA(n_epochs=2),
    DataSpanAKPCA(1, objective="spectral", offset=False, sampling="kmeans", n_epochs=1),
]

# This check skips unless SciPy's array API support is on, which must be so before SciPy is
# imported. It calls inverse_transform, whether or not one was learned.
SKIPPED = "check_array_api_input"
WITH_INVERSE = [
    KernelPCA(fit_inverse_transform=True),
    NystromKernelPCA(fit_inverse_transform=True),
    GeneralizedHebbian(),
    KernelHebbian(n_passes=2, preimage="ridge"),
    KernelStream(preimage="ridge"),
    AKPCA(n_epochs=2),
    DataSpanAKPCA(n_epochs=1),
]
RUN_SKIPPED = """
import traceback
from test_checks import SKIPPED, WITH_INVERSE, checks
for estimator in WITH_INVERSE:
    try:
        dict(checks(estimator))[SKIPPED](estimator)
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


@pytest.mark.parametrize("estimator", WITH_INVERSE, ids=class_name)
def test_no_check_is_missing(estimator):
    """The checks are those of scikit-learn's own KernelPCA for ours, which has its name, and those
    of its IncrementalPCA for the others."""
    drop_in = isinstance(estimator, KernelPCA)
    peer = decomposition.KernelPCA() if drop_in else decomposition.IncrementalPCA()
    ours, theirs = ([name for name, _ in checks(e)] for e in (estimator, peer))
    assert ours == theirs
    assert len(ours) >= 40


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


@pytest.mark.parametrize("estimator", WITH_INVERSE, ids=class_name)
def test_the_only_check_that_skips_passes_too(estimator, run_skipped):
    """A skipped check looks green: in a process of its own it runs, and passes."""
    assert f"{class_name(estimator)} passed" in run_skipped.stdout.splitlines(), run_skipped.stderr


def test_every_estimator_is_checked():
    """No public estimator is left out of this file."""
    public = [getattr(akpca, name) for name in akpca.__all__]
    estimators = {c for c in public if isinstance(c, type) and issubclass(c, BaseEstimator)}
    assert {type(e) for e in CHECKED} == {type(e) for e in WITH_INVERSE} == estimators
