"""Kernel PCA and its online and autoencoding relatives.

Where to find what, each room knowing only those above it:

===================== ============================================================= ==========
room                  what lives there                                              chapters
===================== ============================================================= ==========
datasets, mocap       data by name or file, splits, scaling, noise; motion capture  all
own_data              files of one's own: .npz, .npy, .csv                          all
kernels               k(x, y) as objects, their sums and products; centring         02, 03
eigen, pca            leading eigenpairs; PCA                                       01
operators             kernel matrices as SciPy linear operators                     04
kernel_code           the code f(x) = W^T k(x, Z) - offset                          02, 03
preimage              decoders of such codes                                        08
kernel_estimator      base class of the estimators with such a code                 -
kernel_pca, nystrom   `KernelPCA`, `NystromKernelPCA`                               02 to 04
incremental           `IncrementalKernelPCA`                                        14
hebbian               `GeneralizedHebbian`, `KernelHebbian`; their gains            05-07, 13, 14
autoencoding          `AKPCA`, `DataSpanAKPCA` and, to compare, `Autoencoder`       09 to 12
distributed           the operator of a kernel matrix on a dask cluster             -
fitting, progress     fits that succeed or leave no trace; callbacks and interrupts -
threads, parameters   BLAS threads; checks of single numbers and of notebooks       -
reference             the papers' algorithms line by line: read it first            all
metrics, plotting     errors, and the figures of the chapters                       all
sentences             the findings of the chapters in words                         all
experiments           what chapters measure in the papers' experiments              06, 07, 12-14
rerun                 chapters run again, many times; their results as one table    all
===================== ============================================================= ==========

What is the same everywhere:

=========================== ======================================================================
`random_state`, `verbose`   of estimators and functions; an int repeats results to the bit
`callback(state)`           one `akpca.progress.FitProgress` per pass; a true answer ends the fit
an interrupt (Ctrl-C)       keeps the best model so far, with a ``ConvergenceWarning``
a fit that fails            leaves the estimator as it was
`n_iter_`                   passes over the data
`eigenvalues_`              of the (centred) kernel matrix, in descending order
`explained_variance_`       variance of each component; `explained_variance_ratio_` its share
`encoder_`, `decoder_`      matrices A_j and B_j of an autoencoding model
`dual_coef_`                weights of a decoder that was learned by kernel ridge regression
`kernel_`, `gamma_`         the kernel object that was used, and its gamma
constructors                what is learned, kernel, solver, length, regularisation, then
                            `random_state`, `verbose`, `callback`
`kernel`                    'rbf' by default, except for `KernelPCA`, a drop-in for scikit-learn's
=========================== ======================================================================
"""

from .autoencoding import AKPCA, Autoencoder, DataSpanAKPCA
from .datasets import Dataset, dataset_names, load_dataset
from .hebbian import DivergenceError, GeneralizedHebbian, KernelHebbian
from .incremental import IncrementalKernelPCA
from .kernel_pca import KernelPCA
from .metrics import reconstruction_error, relative_error
from .nystrom import NystromKernelPCA
from .operators import KernelOperator
from .pca import LinearCode, pca

__version__ = "0.1.0"

__all__ = [
    "AKPCA",
    "Autoencoder",
    "DataSpanAKPCA",
    "Dataset",
    "DivergenceError",
    "GeneralizedHebbian",
    "IncrementalKernelPCA",
    "KernelHebbian",
    "KernelOperator",
    "KernelPCA",
    "LinearCode",
    "NystromKernelPCA",
    "dataset_names",
    "load_dataset",
    "pca",
    "reconstruction_error",
    "relative_error",
]
