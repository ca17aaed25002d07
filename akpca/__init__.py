"""Kernel PCA and its online and autoencoding relatives."""

from .autoencoding import AKPCA, DataSpanAKPCA
from .datasets import Dataset, dataset_names, load_dataset
from .hebbian import DivergenceError, GeneralizedHebbian, KernelHebbian, KernelStream
from .kernel_pca import KernelPCA
from .metrics import reconstruction_error, relative_error
from .nystrom import NystromKernelPCA
from .operators import KernelOperator
from .pca import LinearCode, pca

__version__ = "0.1.0"

__all__ = [
    "AKPCA",
    "DataSpanAKPCA",
    "Dataset",
    "DivergenceError",
    "GeneralizedHebbian",
    "KernelHebbian",
    "KernelOperator",
    "KernelPCA",
    "KernelStream",
    "LinearCode",
    "NystromKernelPCA",
    "dataset_names",
    "load_dataset",
    "pca",
    "reconstruction_error",
    "relative_error",
]
