"""What the chapters measure in the papers' experiments.

- `hebbian`: the error of the kernel Hebbian algorithm after every pass (chapters 06 and 07)
- `report`: reconstruction, denoising and classification, section 6 of the AKPCA report
- `tables`: results as rows of a file, so that a long run can be killed and goes on
"""

from .hebbian import excess_error_curve, excess_error_curves, optimal_error
from .tables import ResultTable

__all__ = ["ResultTable", "excess_error_curve", "excess_error_curves", "optimal_error"]
