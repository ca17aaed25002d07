"""What a user with a strict type checker writes: every public part is made, fitted and used.

Checked by mypy in ``test_types.py``, and executed there as well, so that it is no fiction.
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
    dataset_names,
    load_dataset,
    pca,
    reconstruction_error,
    relative_error,
)
from akpca.book.experiments import excess_error_curve, optimal_error
from akpca.book.rerun import emit_results, results
from akpca.datasets import add_gaussian_noise, add_speckle, balanced_split, scale_by_max_norm
from akpca.eigen import leading_eigenpairs
from akpca.hebbian import Gain, make_gain
from akpca.kernels import RBF, Kernel, Linear, Polynomial
from akpca.operators import MatrixOperator
from akpca.parameters import check_number
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
    check_number("examples", len(X), integer=True, low=1)
    return add_gaussian_noise(X, 0.01), add_speckle(X_test, 0.1)


def kernels(X: Array) -> Kernel:
    kernel: Kernel = RBF(0.5) + 2.0 * Polynomial(degree=2, gamma=1.0, coef0=0.0) * Linear()
    K: Array = kernel(X)
    diagonal: Array = kernel.diag(X)
    assert np.allclose(K.diagonal(), diagonal)
    return kernel


def linear(X: Array) -> float:
    code: LinearCode = pca(X, 2)
    Y: Array = code.encode(X)
    decoded: Array = code.decode(Y)
    return relative_error(X, decoded) - relative_error(X, code.reconstruct(X))


def operators(X: Array, kernel: Kernel) -> float:
    operator = KernelOperator(X, kernel)
    matrix = MatrixOperator(operator.dense())
    product: Array = operator @ np.ones((len(X), 2))
    rows: Array = operator.rows(np.arange(3))
    values, _, solver = leading_eigenpairs(matrix.dense(), 2)
    name: str = solver
    assert name
    norm: float = operator.frobenius_norm()
    trace: float = operator.trace()
    return float(product.sum() + rows.sum() + values.sum()) + norm + trace


def gains(K: Array) -> float:
    gain: Gain = Gain(0.1, passes=10.0)
    named: Gain = make_gain("KHA-SMD", eta0=0.1, mu=0.01)
    mu: float | None = named.mu
    assert mu is not None
    curve: Array = excess_error_curve(K, gain, 2, 2, random_state=0)
    return optimal_error(K, 2) + float(curve[-1])


def stop(state: FitProgress) -> bool:
    return state.n_iter >= 2


def estimators(X: Array, X_test: Array, kernel: Kernel) -> dict[str, float]:
    exact: KernelPCA = KernelPCA(2, kernel=kernel, preimage=RidgePreimage()).fit(X)
    nystrom: NystromKernelPCA = NystromKernelPCA(2, n_landmarks=20, random_state=0).fit(X)
    streamed: NystromKernelPCA = NystromKernelPCA(2, n_landmarks=20).partial_fit(X)
    merged: IncrementalKernelPCA = IncrementalKernelPCA(2, budget=20).fit(X).partial_fit(X)
    hebbian: GeneralizedHebbian = GeneralizedHebbian(2, n_passes=2, random_state=0).fit(X)
    hebbian = hebbian.partial_fit(X)
    kha: KernelHebbian = KernelHebbian(2, n_passes=3, callback=stop, random_state=0).fit(X)
    ridge: AKPCA = AKPCA(2, n_epochs=2, random_state=0).fit(X)
    dense: AKPCA = AKPCA(2, decoder="eigenvector", n_epochs=2, random_state=0).fit(X)
    dense = dense.partial_fit(X)
    span: DataSpanAKPCA = DataSpanAKPCA(2, n_epochs=2, n_landmarks=20, random_state=0).fit(X)
    network: Autoencoder = Autoencoder(2, n_epochs=2, random_state=0).fit(X)
    codes: dict[str, Array] = {
        "KernelPCA": exact.transform(X_test),
        "fit_transform": KernelPCA(2, kernel="rbf").fit_transform(X),
        "NystromKernelPCA": nystrom.transform(X_test),
        "partial_fit": streamed.transform(X_test),
        "IncrementalKernelPCA": merged.transform(X_test),
        "GeneralizedHebbian": hebbian.transform(X_test),
        "KernelHebbian": kha.transform(X_test),
        "AKPCA": ridge.transform(X_test),
        "AKPCA, eigenvector": dense.transform(X_test),
        "DataSpanAKPCA": span.transform(X_test),
        "Autoencoder": network.transform(X_test),
    }
    decoded: Array = exact.inverse_transform(codes["KernelPCA"])
    errors: dict[str, float] = {
        "KernelPCA": reconstruction_error(X_test, decoded),
        "GeneralizedHebbian": reconstruction_error(
            X_test, hebbian.inverse_transform(codes["GeneralizedHebbian"])
        ),
        "AKPCA": reconstruction_error(X_test, ridge.inverse_transform(codes["AKPCA"])),
        "AKPCA, eigenvector": reconstruction_error(
            X_test, dense.inverse_transform(codes["AKPCA, eigenvector"])
        ),
    }
    return errors


def table(errors: dict[str, float]) -> int:
    emitted: dict[str, Any] = emit_results(error=errors)
    with TemporaryDirectory() as folder:
        return len(results(folder)) + len(emitted)


def main() -> None:
    X, X_test = data()
    kernel = kernels(X)
    errors = estimators(X, X_test, kernel)
    assert linear(X) < 1e-12
    assert operators(X, kernel) > 0
    assert gains(np.asarray(RBF(0.5)(X))) > 0
    assert table(errors) == len(errors)
    assert all(error >= 0 for error in errors.values())
    print(*errors)


if __name__ == "__main__":
    main()
