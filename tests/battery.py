"""Estimators in the settings that several test files try: each reaches code of its own."""

from akpca import (
    AKPCA,
    Autoencoder,
    DataSpanAKPCA,
    GeneralizedHebbian,
    IncrementalKernelPCA,
    KernelHebbian,
    KernelPCA,
    NystromKernelPCA,
    RidgeAutoencoder,
)

SETTINGS = [
    KernelPCA(fit_inverse_transform=True),
    KernelPCA(kernel="rbf", preimage="fixed_point"),
    KernelPCA(kernel="poly", degree=2, eigen_solver="arpack"),
    NystromKernelPCA(preimage="ridge"),
    NystromKernelPCA(kernel="linear", sampling="kmeans", center=False),
    IncrementalKernelPCA(preimage="ridge", block_size=25),
    IncrementalKernelPCA(
        kernel="poly", degree=2, coef0=0, budget=20, center=False, preimage="eigenvector"
    ),
    GeneralizedHebbian(n_passes=2),
    KernelHebbian(n_passes=2, preimage="ridge"),
    KernelHebbian(n_passes=1, kernel="poly", center=False),
    AKPCA(n_epochs=2),
    AKPCA(n_epochs=1, objective="spectral", offset=False),
    DataSpanAKPCA(n_epochs=2),
    DataSpanAKPCA(n_epochs=1, objective="spectral", offset=False, sampling="kmeans"),
    RidgeAutoencoder(n_rounds=2),
    Autoencoder(n_epochs=2, hidden_layer_sizes=(8,), validation_fraction=0),
]
# One of each class, with a decoder.
ESTIMATORS = list({type(setting): setting for setting in reversed(SETTINGS)}.values())[::-1]
# Those for which it is documented that the cuts of a stream make no difference.
STREAMS = [
    NystromKernelPCA(),
    NystromKernelPCA(kernel="linear", center=False),
    IncrementalKernelPCA(60),
    IncrementalKernelPCA(60, kernel="linear", center=False, block_size=7),
    GeneralizedHebbian(1),
]
for setting in (*SETTINGS, *STREAMS):
    setting.set_params(random_state=0)


def described(estimator):
    """Return a setting in one line, for the report of the tests."""
    return "".join(str(estimator).split()).replace(",random_state=0", "")
