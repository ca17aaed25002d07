"""Autoencoding kernel PCA: codes that are quadratic in x, chosen so that x can be rebuilt.

PCA compresses x and rebuilds x; degree-2 kernel PCA compresses phi(x) = x x^T and rebuilds phi(x).
Autoencoding kernel PCA (Cohen, Hazan and Ma, 2016) compresses phi(x) and rebuilds x. A code is
f(x)_j = x^T A_j x, and a decoder adds up M(y) = sum_j y_j B_j, which should be near x x^T, and
takes its leading eigenpair, g(y) = sqrt(max(lambda, 0)) v. Chapter 09 teaches it with free
matrices (`AKPCA`), chapter 10 with sums over samples (`DataSpanAKPCA`).

=================== ============================================================================
`estimators`        `AKPCA`, `DataSpanAKPCA`: validate, call the next five, keep the results
`coordinates`       samples in the units and along the axes of a fit; the base class
`models`            `DenseModel`, `SpanModel`: encode, decode, gradients, starts
`training`          minibatch descent that keeps the best iterate
`objectives`        the two losses, their gradients, and the decoder, for a batch
`optimizers`        Adam, and the schedule of its steps
`ridge`             a decoder in closed form, and the search for the codes that it rebuilds best
`ridge_autoencoder` `RidgeAutoencoder`: both by turns
`cleaning`          what it does about noise: regressions from noisy samples to clean ones
`network`           `Autoencoder`, a plain deep network to compare with
=================== ============================================================================
"""

from .estimators import AKPCA, DataSpanAKPCA
from .models import DenseModel, Span, SpanModel
from .network import Autoencoder
from .ridge_autoencoder import RidgeAutoencoder

__all__ = [
    "AKPCA",
    "Autoencoder",
    "DataSpanAKPCA",
    "DenseModel",
    "RidgeAutoencoder",
    "Span",
    "SpanModel",
]
