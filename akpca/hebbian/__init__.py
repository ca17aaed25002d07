"""Principal components one sample at a time: the Hebbian family, linear and with kernels.

- `gains`: step sizes as products of small factors, with the names of the paper
- `steps`: the steps of all algorithms in exact blocks; `compiled`: the same for numba
- `generalized`: `GeneralizedHebbian`, PCA of a stream by Sanger's or Oja's rule (chapter 05)
- `kernel`: `KernelHebbian`, the kernel Hebbian algorithm, its tuning and its passes (06 and 07)
- `stream`: `KernelStream`, the same for a stream, within a budget of points
"""

from .gains import (
    Annealing,
    Constant,
    EigenvalueNorm,
    Gain,
    MetaDescent,
    ReciprocalEigenvalues,
    make_gain,
)
from .generalized import GeneralizedHebbian
from .kernel import HebbianProgress, KernelHebbian, kernel_reconstruction_error
from .steps import DivergenceError
from .stream import KernelStream

__all__ = [
    "Annealing",
    "Constant",
    "DivergenceError",
    "EigenvalueNorm",
    "Gain",
    "GeneralizedHebbian",
    "HebbianProgress",
    "KernelHebbian",
    "KernelStream",
    "MetaDescent",
    "ReciprocalEigenvalues",
    "kernel_reconstruction_error",
    "make_gain",
]
