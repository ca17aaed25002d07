"""What a user with a strict type checker writes: every public part is made, fitted and used.

Checked by mypy, and executed in ``test_types.py``, so that it is no fiction.
"""

from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from akpca import (
    AKPCA,
    Autoencoder,
    Dataset,
    DataSpanAKPCA,
    GeneralizedHebbian,
    IncrementalKernelPCA,
    KernelHebbian,
    KernelOperator,
    KernelPCA,
    LinearCode,
    NystromKernelPCA,
    RidgeAutoencoder,
    dataset_names,
    load_dataset,
    pca,
    reconstruction_error,
    relative_error,
)
from akpca.book.rerun import emit_results, results
from akpca.datasets import add_gaussian_noise, add_speckle, balanced_split, scale_by_max_norm
from akpca.kernels import RBF, Kernel, Linear, Polynomial
from akpca.preimage import RidgePreimage
from akpca.progress import FitProgress

Array = NDArray[np.float64]


def data() -> tuple[Array, Array]:
    names: list[str] = dataset_names()
    digits: Dataset = load_dataset(names[names.index("digits")], random_state=0)
    small: Dataset = digits.subsampled(step=2)
    assert small.y is not None
    train, test = balanced_split(small.y, 8, 4, random_state=0)
    X: Array = scale_by_max_norm(small.subset(train).X)
    X_test: Array = scale_by_max_norm(small.X[test], reference=small.X[train])
    return add_gaussian_noise(X, 0.01), add_speckle(X_test, 0.1)


def kernels(X: Array) -> Kernel:
    kernel: Kernel = RBF(0.5) + 2.0 * Polynomial(degree=2, gamma=1.0, coef0=0.0) * Linear()
    K: Array = kernel(X)
    diagonal: Array = kernel.diag(X)
    assert np.allclose(K.diagonal(), diagonal)
    operator = KernelOperator(X, kernel)
    product: Array = operator @ np.ones((len(X), 2))
    assert np.isfinite(product).all()
    return kernel


def linear(X: Array) -> float:
    code: LinearCode = pca(X, 2)
    Y: Array = code.encode(X)
    decoded: Array = code.decode(Y)
    return relative_error(X, decoded) - relative_error(X, code.reconstruct(X))


def stop(state: FitProgress) -> bool:
    return state.n_iter >= 2


def estimators(X: Array, X_test: Array, kernel: Kernel) -> dict[str, float]:
    exact: KernelPCA = KernelPCA(2, kernel=kernel, preimage=RidgePreimage()).fit(X)
    nystrom: NystromKernelPCA = NystromKernelPCA(2, n_landmarks=20, random_state=0).partial_fit(X)
    merged: IncrementalKernelPCA = IncrementalKernelPCA(2, budget=20).fit(X).partial_fit(X)
    gha: GeneralizedHebbian = GeneralizedHebbian(2, n_passes=2, random_state=0).fit(X)
    kha: KernelHebbian = KernelHebbian(2, n_passes=3, callback=stop, random_state=0).fit(X)
    akpca: AKPCA = AKPCA(2, n_epochs=2, noise=0.1, random_state=0).fit(X)
    span: DataSpanAKPCA = DataSpanAKPCA(2, n_epochs=2, n_landmarks=20, random_state=0).fit(X)
    ridge: RidgeAutoencoder = RidgeAutoencoder(2, n_rounds=1, random_state=0).fit(X)
    network: Autoencoder = Autoencoder(2, n_epochs=2, random_state=0).fit(X)
    codes: list[Array] = [
        KernelPCA(2, kernel="rbf").fit_transform(X),
        nystrom.transform(X_test),
        merged.transform(X_test),
        gha.transform(X_test),
        kha.transform(X_test),
    ]
    assert all(np.isfinite(code).all() for code in codes)
    decoded: Array = exact.inverse_transform(exact.transform(X_test))
    return {
        "KernelPCA": reconstruction_error(X_test, decoded),
        "AKPCA": reconstruction_error(X_test, akpca.inverse_transform(akpca.transform(X_test))),
        "DS-AKPCA": reconstruction_error(X_test, span.inverse_transform(span.transform(X_test))),
        "ridge": reconstruction_error(X_test, ridge.inverse_transform(ridge.transform(X_test))),
        "network": reconstruction_error(
            X_test, network.inverse_transform(network.transform(X_test))
        ),
    }


def main() -> None:
    X, X_test = data()
    errors = estimators(X, X_test, kernels(X))
    assert linear(X) < 1e-12
    emitted: dict[str, Any] = emit_results(error=errors)
    with TemporaryDirectory() as folder:
        assert len(results(folder)) + len(emitted) == len(errors)
    assert all(error >= 0 for error in errors.values())


if __name__ == "__main__":
    main()
