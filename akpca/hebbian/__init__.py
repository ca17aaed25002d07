"""Principal components one sample at a time: the Hebbian family, linear and with kernels.

- `gains`: step sizes as products of small factors, with the names of the paper
- `steps`: the steps of all algorithms in exact blocks; `compiled`: the same for numba
- `generalized`: `GeneralizedHebbian`, PCA of a stream by Sanger's or Oja's rule (chapter 05)
- `kernel`: `KernelHebbian`, the kernel Hebbian algorithm and its passes (06 and 07)
"""

from .gains import Gain, make_gain
from .generalized import GeneralizedHebbian
from .kernel import HebbianProgress, KernelHebbian
from .steps import DivergenceError

__all__ = [
    "DivergenceError",
    "Gain",
    "GeneralizedHebbian",
    "HebbianProgress",
    "KernelHebbian",
    "make_gain",
]
