"""Kernel PCA and its online and autoencoding relatives.

Where to find what, each room knowing only those above it:

============================= ==================================================== ============
room                          what lives there                                     chapters
============================= ==================================================== ============
datasets, own_data, metrics   data by name or file, splits, scaling, noise; errors all
kernels                       k(x, y) as objects, their sums and products          02, 03
eigen, pca, operators         leading eigenpairs; PCA; kernel matrices as          01, 04
                              SciPy linear operators
kernel_code, kernel_estimator the code f(x) = W^T k(x, Z) - offset, and decoders   02-04, 08
and preimage                  of such codes
kernel_pca, nystrom,          kernel PCA at once, by landmarks, block by block     02-04, 14
incremental
hebbian                       `GeneralizedHebbian`, `KernelHebbian`, their gains   05-07, 13, 14
autoencoding                  `AKPCA`, `DataSpanAKPCA`, `RidgeAutoencoder`,        09-12
                              `Autoencoder`
distributed                   the operator of a kernel matrix on a dask cluster    -
fitting, progress, threads,   fits that succeed or leave no trace; callbacks and   -
parameters                    interrupts; BLAS threads; checks of single numbers
book                          what only the chapters need: the papers' algorithms  all
                              line by line, figures, experiments, the command line
============================= ==================================================== ============

What is the same everywhere:

=========================== ======================================================================
`random_state`, `verbose`   of estimators and functions; an int repeats results to the bit
`callback(state)`           one `akpca.progress.FitProgress` per pass; a true answer ends the fit
an interrupt (Ctrl-C)       keeps the best model so far, with a ``ConvergenceWarning``; while
                            there is none, it leaves the estimator as it was
`score_samples`             minus the squared error, in feature space for kernels: the lower, the
                            more abnormal
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

from typing import TYPE_CHECKING

from .autoencoding import AKPCA, Autoencoder, DataSpanAKPCA, RidgeAutoencoder
from .datasets import Dataset, dataset_names, load_dataset
from .hebbian import DivergenceError, GeneralizedHebbian, KernelHebbian
from .incremental import IncrementalKernelPCA
from .kernel_pca import KernelPCA
from .metrics import reconstruction_error, relative_error
from .nystrom import NystromKernelPCA
from .operators import KernelOperator
from .pca import LinearCode, pca

__version__ = "0.2.0"

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
    "RidgeAutoencoder",
    "dataset_names",
    "load_dataset",
    "pca",
    "reconstruction_error",
    "relative_error",
]

if not TYPE_CHECKING:  # to which no other name exists

    def __getattr__(name):
        instead = {
            "KernelStream": "use IncrementalKernelPCA(budget=...), which loses far less",
            "results": "it is akpca.book.rerun.results",
        }
        if name in instead:
            raise ImportError(f"akpca has no {name}: {instead[name]}")
        raise AttributeError(f"module 'akpca' has no attribute {name!r}")
