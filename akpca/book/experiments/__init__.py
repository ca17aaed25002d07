"""What the chapters measure in the papers' experiments.

- `hebbian`: tuned gains, and the error after every pass (chapters 06 and 07)
- `mnist`: all of MNIST in one pass, section 5.2 of the paper on these, and its rivals (chapter 14)
- `report`: reconstruction, denoising and classification, section 6 of the AKPCA report
- `small_sets`: variants of the kernel Hebbian algorithm, section 5.1 of the paper on them
- `digits`: kernel PCA and spectral clustering of digits, figures 2 to 4 and 10 of that paper
- `streaming`: data that come once and drift (chapter 14)
- `projections`: from coefficients of components to samples again
- `patches`, `superresolution`, `motion`: noise in a photograph, small images made large, noise in a
  walk (figures 5 to 9, 11 and 12); `image_claims`: what that paper claims of them
- `kha_claims`: all that it claims in section 5.1; `kha_tables`: how chapter 13 shows it
- `tables`: results as rows of a file, so that a long run can be killed and goes on
- `verdicts`: what a paper claims beside what came out
"""

from .hebbian import (
    TUNED,
    Task,
    Tuned,
    excess_error_curve,
    excess_error_curves,
    follow_passes,
    gains_for,
    kernel_reconstruction_error,
    optimal_error,
    percent,
    times,
    tune_gain,
    tuned_gains,
)
from .tables import ResultTable

__all__ = [
    "TUNED",
    "ResultTable",
    "Task",
    "Tuned",
    "excess_error_curve",
    "excess_error_curves",
    "follow_passes",
    "gains_for",
    "kernel_reconstruction_error",
    "optimal_error",
    "percent",
    "times",
    "tune_gain",
    "tuned_gains",
]
