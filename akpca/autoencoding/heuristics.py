"""Choices that a user need not make, and the measurements that decided them.

Errors are held-out reconstruction errors relative to those of PCA with as many components.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from ..pca import principal_axes
from ..preimage import kernel_ridge
from .coordinates import Coordinates
from .models import best_factors

__all__ = [
    "adam_steps",
    "choose_constant",
    "code_gamma",
    "default_epochs",
    "is_cautious",
    "n_centers",
    "n_copies",
]

# The largest step of Adam, in units of the root mean squared entry of a component of norm 1. It
# suits every scale, dimension and k that was tried; 0.4 is worse on Yale faces.
ADAM_RATE = 0.5
# The largest step of SGD and SVRG, in units of a component of norm 1.
DENSE_RATES = {"reconstruction": 1.0, "spectral": 1.0}
SPAN_RATES = {"reconstruction": 0.1, "spectral": 0.05}
# How strongly components are pulled back to the start. It keeps (15) from learning samples by heart
# (photographs and held-out digits); the spectral loss fits too little rather than too much.
PENALTIES = {"reconstruction": 0.15, "spectral": 0.0}
# Adam's steps at entry (r, s) are proportional to (variance of r times that of s) to half this
# power: the larger, the less is learnt by heart, and the later. With 0, Yale faces have .64
# instead of .51, and MNIST .64 instead of .61.
STEP_POWER = 0.5
# The power where PCA is hard to beat: with the large constant and a start that is as good as PCA,
# LFW has .96 (.98 with the power above) and grey CIFAR-10 1.000003 instead of 1.002.
CAUTIOUS_POWER = 1.25
# The constant coordinate of samples that have little to tell beyond PCA, in units of the root mean
# squared norm of the centred samples; that of others is 1. In a data span it is larger, as a corner
# (see `DenseModel.start`) need not be in the span.
DENSE_CONSTANT, SPAN_CONSTANT = 4.0, 8.0
# Samples up to which the descent is in double precision: the fewer there are, the more epochs and
# the more rounding errors grow. For 80 digits of 8x8, codes would change by up to 20 % with them.
DOUBLE_SAMPLES = 1000
# Samples that `choose_constant` looks at, at most.
PROBED_SAMPLES = 2000

# The closed-form decoder of :mod:`.ridge`. Rounds, when not given, and gradient steps in each;
# steps to the code of a new sample. On MNIST, 15 rounds or 60 steps change no error by .01.
N_ROUNDS, ROUND_STEPS, ENCODING_STEPS = 6, 4, 16
# Samples of the rounds, at most: with 5,000 instead, errors of 35,000 digits are .01 larger.
ROUND_SAMPLES = 8000
# Axes along which codes are searched for, at least: 60 instead of 100 cost .002 to .007.
SEARCHED_AXES = 100
# Penalties of weights, in units of the variance of all kernel values, from which held-out samples
# choose, and PCA. The first is best for images of digits, by .03 over one of ten times as much.
RIDGES = (3e-3, 0.05, 1.0, 20.0)
# Samples, of which a fifth is held out, and rounds of that choice.
CHOICE_SAMPLES, CHOICE_ROUNDS = 2000, 3
# Axes whose products the quadratic encoder has, and its ridge, in units of its features' mean
# square. It only says where the search for a code begins.
LEADING_AXES, ENCODER_RIDGE = 30, 1e-4

# The regressions of :mod:`.cleaning`, from noisy samples to clean ones. Errors are those of 14x14
# MNIST with Gaussian noise of .04, without a code, for 2,400 and for 30,000 clean samples. How many
# regressions in kernel values follow the linear one: .0490, .0447 with one, .0477, .0422 with two,
# and a third gains nothing.
N_CLEANINGS = 2
# Noisy samples of each regression, at least, but not more than so many copies of each sample: half
# as many of both cost .0004 and .0009; for a noise of .1, .0022 and .0022.
NOISY_SAMPLES, NOISY_COPIES = 50_000, 20
# Cleaned samples, and copies of each, that decoder and codes are learned from: with 7,500 instead
# of 15,000, 3,000 digits and 10 components have .062 instead of .061.
CLEANED_SAMPLES, CLEANED_COPIES = 15_000, 5
# Centres, at most: with 3,000 instead, 30,000 digits have .001 less in twice the time.
CLEANING_CENTERS = 2000
# Axes on which they work, at least; others are taken to be lost.
CLEANED_AXES = 200
# Samples that choose the ridges, at most, and the penalty of the linear regression, in units of the
# mean variance of an axis.
CLEANING_HELD_OUT, FILTER_RIDGE = 500, 1e-4


def code_gamma(k: int) -> float:
    """Return gamma of the kernel of codes of variance 1.

    In units of 1 / k^2: 20 or 10 are best for 2, 10 and 20 components of MNIST and USPS, which have
    .02 to .05 more with 80 or with 1.
    """
    return 20.0 / k**2


def n_centers(n: int) -> int:
    """Return the number of centres: half of few samples, a tenth of many, but 3,000 at most."""
    return min(n // 2, max(1000, min(n // 10, 3000)))


def n_copies(n: int, n_noisy: int, most: int) -> int:
    """Return how often noise is added to each of n samples, for about `n_noisy` noisy ones."""
    return min(-(-n_noisy // n), most)


def default_epochs(n: int) -> int:
    """Return the number of passes: 14 for 3,000 samples, more for fewer, so that steps suffice."""
    return int(np.clip(round(14 * (3000 / n) ** (2 / 3)), 4, 100))


def choose_constant(Z: np.ndarray, k: int, large: float = DENSE_CONSTANT) -> float:
    """Return a constant coordinate for centred samples of mean squared norm 1: 1 or `large`.

    The smaller it is, the more the quadratic terms can do; the larger, the nearer the start is to
    PCA. A kernel ridge regression tells what there is to gain: from PCA's codes of some samples it
    learns what PCA has lost of them, and predicts it for others. The constant is 1 if that lowers
    the error by more than what the start, with 1, is above PCA. Decided on Yale faces of 15x15
    (k = 10: from .77 to .51) and on wine and diabetes, which a bolder rule made worse.
    """
    order = np.random.RandomState(0).permutation(len(Z))[:PROBED_SAMPLES]
    some, others = Z[order[::2]], Z[order[1::2]]
    axes, variances = principal_axes(some, k, random_state=0)
    if not len(variances) or not len(others):
        return large
    codes, new_codes = some @ axes, others @ axes
    kernel = partial(rbf_kernel, gamma=1 / np.sum(variances))
    centers, dual_coef = kernel_ridge(kernel, codes, some - codes @ axes.T, alpha=0.3)
    lost = others - new_codes @ axes.T
    left = lost - kernel(new_codes, centers) @ dual_coef
    gain = (np.sum(lost**2) - np.sum(left**2)) / len(others)
    _, _, excess = best_factors(np.linalg.norm(new_codes, axis=1), 1.0)
    return 1.0 if gain > excess else large


def is_cautious(objective: str, coordinates: Coordinates) -> bool:
    """Return whether to start level with PCA, by a corner, and to stay near it."""
    return objective == "reconstruction" and coordinates.constant > coordinates.scale


def adam_steps(objective: str, coordinates: Coordinates) -> list[np.ndarray]:
    """Return factors of Adam's steps along principal axes, for encoder and decoder."""
    power = CAUTIOUS_POWER if is_cautious(objective, coordinates) else STEP_POWER
    sizes = (coordinates.variances / coordinates.variances[0]) ** (power / 2)
    if coordinates.constant:
        # a linear term is larger than a quadratic one by the constant, so its steps are smaller
        sizes = np.append(sizes, min(1.0, coordinates.scale / coordinates.constant))
    steps = np.outer(sizes, sizes)[:, None, :]
    steps /= np.sqrt(np.mean(steps**2))
    return [steps, steps]
