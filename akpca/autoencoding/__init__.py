"""Autoencoding kernel PCA: codes that are quadratic in x, chosen so that x can be rebuilt.

PCA compresses x and rebuilds x; degree-2 kernel PCA compresses phi(x) = x x^T and rebuilds phi(x).
Autoencoding kernel PCA (Cohen, Hazan and Ma, 2016) compresses phi(x) and rebuilds x. A code is
f(x)_j = x^T A_j x, and a decoder adds up M(y) = sum_j y_j B_j, which should be near x x^T, and
takes its leading eigenpair, g(y) = sqrt(max(lambda, 0)) v. Chapter 09 teaches it with free
matrices (`AKPCA`), chapter 10 with sums over samples (`DataSpanAKPCA`). What both do by default
goes further: the decoder is a regression in a kernel of codes, and the code what it rebuilds best.

=============== ================================================================================
`estimators`    `AKPCA`, `DataSpanAKPCA`: validate, call the others, keep the results
`coordinates`   samples in the units and along the axes of the descent, and back
`heuristics`    constants, step sizes and lengths that a user need not choose
`models`        `DenseModel`, `SpanModel`: encode, decode, gradients, starts
`training`      minibatch descent that keeps the best iterate
`objectives`    the two losses, their gradients, and the decoder, for a batch
`optimizers`    SGD, SVRG and Adam
`ridge`         the decoder in closed form, and the search for codes
`cleaning`      regressions from noisy samples to clean ones, which that decoder is learned from
`network`       `Autoencoder`, a plain deep network to compare with
=============== ================================================================================
"""

from .estimators import AKPCA, DataSpanAKPCA
from .models import DenseModel, Span, SpanModel
from .network import Autoencoder

__all__ = ["AKPCA", "Autoencoder", "DataSpanAKPCA", "DenseModel", "Span", "SpanModel"]
