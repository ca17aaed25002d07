"""`KernelPCA` passes scikit-learn's own tests of its kernel PCA."""

import pytest

from akpca import KernelPCA

theirs = pytest.importorskip("sklearn.decomposition.tests.test_kernel_pca")
theirs.KernelPCA = KernelPCA
globals().update({name: vars(theirs)[name] for name in dir(theirs) if name.startswith("test_")})


@pytest.fixture
def global_random_seed():
    """Return what scikit-learn's tests take from their own settings."""
    return 42
