"""What the battery tries: estimators in several settings, and inputs of every kind.

An input is described by a `Sample`, a handful of words and numbers, so that a failure can be
repeated from what is printed: ``Sample(n=2, d=1, dtype='uint8', ...).make()``.
"""

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from scipy import sparse

from akpca import (
    AKPCA,
    Autoencoder,
    DataSpanAKPCA,
    GeneralizedHebbian,
    IncrementalKernelPCA,
    KernelHebbian,
    KernelPCA,
    NystromKernelPCA,
)
from akpca.hebbian import Gain

# Each setting reaches code that the others of the same class do not.
SETTINGS = [
    KernelPCA(fit_inverse_transform=True),
    KernelPCA(kernel="rbf", preimage="fixed_point"),
    KernelPCA(kernel="poly", degree=2, center=False, eigen_solver="krylov"),
    KernelPCA(kernel="cosine", eigen_solver="arpack"),
    NystromKernelPCA(fit_inverse_transform=True),
    NystromKernelPCA(kernel="linear", sampling="leverage", center=False, preimage="ridge"),
    NystromKernelPCA(orthonormal=False, preimage="distance"),
    NystromKernelPCA(kernel="laplacian", sampling="kmeans"),
    IncrementalKernelPCA(preimage="ridge", block_size=25),
    IncrementalKernelPCA(kernel="poly", degree=2, budget=20, center=False, preimage="eigenvector"),
    IncrementalKernelPCA(kernel="linear", n_kept=60, block_size=5, shuffle=False),
    IncrementalKernelPCA(kernel="cosine"),
    GeneralizedHebbian(n_passes=2),
    GeneralizedHebbian(n_passes=1, rule="oja", center=False),
    GeneralizedHebbian(n_passes=1, shuffle=False, block_size=7),
    KernelHebbian(n_passes=2, preimage="ridge"),
    KernelHebbian(n_passes=1, kernel="cosine", center=False, gain=Gain(0.1)),
    KernelHebbian(n_passes=1, kernel="poly", eigenvalue_updates="pass"),
    AKPCA(n_epochs=2),
    AKPCA(n_epochs=2, decoder="eigenvector"),
    AKPCA(n_epochs=1, decoder="ridge", precision="single"),
    AKPCA(n_epochs=1, objective="spectral", offset=False, precision="double"),
    AKPCA(n_epochs=1, solver="svrg", init="random", batch_size=30, learning_rate=0.1),
    DataSpanAKPCA(n_epochs=1),
    DataSpanAKPCA(n_epochs=1, decoder="eigenvector"),
    DataSpanAKPCA(n_epochs=2, decoder="ridge", sampling="kmeans"),
    DataSpanAKPCA(n_epochs=1, objective="spectral", offset=False, solver="sgd"),
    DataSpanAKPCA(n_epochs=1, sampling="kmeans", precision="double", early_stopping=True),
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
    GeneralizedHebbian(1, rule="oja", center=False, block_size=7),
    GeneralizedHebbian(1, gain=Gain(1e-6)),
]
for setting in (*SETTINGS, *STREAMS):
    setting.set_params(random_state=0)

MAX_SAMPLES, MAX_FEATURES = 60, 20
# The first of each is the simplest, to which failing examples shrink.
DTYPES = ("uint8", "int64", "bool", "float16", "float32", "float64")
LAYOUTS = ("C", "Fortran", "reversed", "read-only", "slice")
SPARSE = ("csr_matrix", "csc_matrix", "csr_array", "csc_array")
CONTAINERS = ("array", "list", "pandas", *SPARSE, *(("polars",) if find_spec("polars") else ()))
VALUES = {
    "image": lambda rng, shape, power: rng.integers(0, 256, shape) * (rng.random(shape) < 0.7),
    "scaled": lambda rng, shape, power: rng.standard_normal(shape) * 10.0**power,
    "columns": lambda rng, shape, power: (
        rng.standard_normal(shape) * 10.0 ** rng.uniform(min(power, 0), max(power, 0), shape[1])
    ),
    "constant": lambda rng, shape, power: np.full(shape, rng.standard_normal() * 10.0**power),
    "zero": lambda rng, shape, power: np.zeros(shape),
    "duplicates": lambda rng, shape, power: (
        rng.standard_normal(shape)[rng.integers(0, max(1, shape[0] // 4), shape[0])] * 10.0**power
    ),
    "one-hot": lambda rng, shape, power: np.eye(shape[1])[rng.integers(0, shape[1], shape[0])],
    "offset": lambda rng, shape, power: 1e6 + rng.standard_normal(shape),
    "outlier": lambda rng, shape, power: one_entry(rng, shape, 10.0**power),
    "denormal": lambda rng, shape, power: rng.integers(-9, 10, shape) * 5e-324,
    "NaN": lambda rng, shape, power: one_entry(rng, shape, np.nan),
    "infinity": lambda rng, shape, power: one_entry(rng, shape, np.inf),
}


def one_entry(rng, shape, value):
    """Return random numbers with one entry of this value."""
    X = rng.standard_normal(shape)
    X[rng.integers(shape[0]), rng.integers(shape[1])] = value
    return X


@dataclass(frozen=True)
class Sample:
    """An input in words: `make` makes it, always the same."""

    n: int
    d: int
    dtype: str = "float64"
    values: str = "scaled"
    power: int = 0  # of ten, that some values are multiplied by
    layout: str = "C"
    container: str = "array"
    seed: int = 0

    def array(self):
        """Return the values as a plain array of the dtype."""
        rng = np.random.default_rng(self.seed)
        with np.errstate(all="ignore"):  # what a type can't hold becomes infinite or zero
            X = np.asarray(VALUES[self.values](rng, (self.n, self.d), self.power), float)
            if self.dtype == "bool":
                return X > 0
            if self.dtype.startswith("float"):
                return X.astype(self.dtype)
            bounds = (0, 255) if self.dtype == "uint8" else (-(2**62), 2**62)
            return np.clip(np.nan_to_num(np.round(16 * X)), *bounds).astype(self.dtype)

    def make(self):
        """Return what is given to an estimator."""
        X = self.array()
        if self.container == "array":
            return laid_out(X, self.layout)
        if self.container == "list":
            return X.tolist()
        if self.container in SPARSE:
            return getattr(sparse, self.container)(X)
        names = [f"x{j}" for j in range(self.d)]
        if self.container == "pandas":
            return pd.DataFrame(X, columns=names)
        import polars

        return polars.DataFrame(dict(zip(names, np.ascontiguousarray(X.T), strict=True)))

    @property
    def out_dtype(self):
        """The dtype of codes: float32 stays, where scikit-learn sees it; else it is float64."""
        stays = self.dtype == "float32" and self.container not in ("list", "polars")
        return np.dtype("float32" if stays else "float64")


def laid_out(X, layout):
    """Return an array of the same values with another layout in memory."""
    if layout == "Fortran":
        return np.asfortranarray(X)
    if layout == "reversed":
        return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
    if layout == "slice":
        wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), X.dtype)
        wide[::2, 1::3] = X
        return wide[::2, 1::3]
    if layout == "read-only":
        X.flags.writeable = False
    return X


def fingerprint(X):
    """Return bytes that change if the values of an input do."""
    if isinstance(X, list):
        return repr(X).encode()
    if sparse.issparse(X):
        return b"".join(part.tobytes() for part in (X.data, X.indices, X.indptr))
    if isinstance(X, np.ndarray):
        return X.tobytes() + (b"" if X.base is None else np.asarray(X.base).tobytes())
    return X.to_numpy().tobytes()


def samples(**fixed):
    """Return a strategy of samples, some of whose fields may be given as strategies."""
    fields = {
        "n": st.integers(1, MAX_SAMPLES),
        "d": st.integers(1, MAX_FEATURES),
        "dtype": st.sampled_from(DTYPES),
        "values": st.sampled_from(list(VALUES)),
        "power": st.just(0) | st.integers(-40, 40) | st.integers(-300, 300),
        "layout": st.sampled_from(LAYOUTS),
        "container": st.sampled_from(("array",)) | st.sampled_from(CONTAINERS),
        "seed": st.integers(0, 9),
    }
    return st.builds(Sample, **{**fields, **fixed}).filter(is_possible)


def is_possible(sample):
    """Return whether the container takes the dtype."""
    return sample.dtype != "float16" or sample.container not in SPARSE
