"""Numbers that users pass are refused with their name, their value and the rule."""

import math

import numpy as np
import pytest

from akpca.book.parameters import check_parameters
from akpca.datasets import Dataset, add_gaussian_noise, add_speckle, balanced_split, generator
from akpca.parameters import check_number

CELL = """
dataset: str = "digits"
n_components: int = 3
gamma: float = 1.0
progress: bool = False
widths: tuple[int, ...] = ()
steps: tuple[float, ...] = ()
names: list[str] = []
"""


def run(*injected):
    """Return the namespace of a notebook with this first cell and the lines that were injected."""
    namespace = {}
    exec(CELL, namespace)
    exec("\n".join(injected), namespace)
    return namespace


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("n_components = 2.5", "n_components=2.5 must be an integer of at least 0"),
        ("n_components = 'three'", "n_components='three' must be an integer"),
        ("n_components = -1", "n_components=-1 must be an integer of at least 0"),
        ("n_components = True", "n_components=True must be an integer"),
        ("gamma = float('nan')", "gamma=nan must be a finite number of at least 0"),
        ("progress = 'no'", "progress='no' must be of type bool"),
        ("dataset = 3", "dataset=3 must be of type str"),
        ("widths = '10, 20'", "widths='10, 20' must be a list or tuple"),
        ("widths = [10, 2.5]", "an item of widths=2.5 must be an integer"),
        ("names = ['a', 1]", r"names=\['a', 1\] must have items of type str"),
    ],
)
def test_what_papermill_injects_is_what_the_first_cell_declares(line, message):
    """An integer will do for a float, a list for a tuple, which papermill does not have."""
    for good in ("", "gamma = 2", "n_components = 10**30", "progress = True", "dataset = ''"):
        check_parameters(run(good, "widths = [1, 2]", "steps = (1, 2)", "names = ()"))
    with pytest.raises(ValueError, match=message):
        check_parameters(run(line))


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, "0.5", None, True, [0.5], 0.5j])
def test_numbers_out_of_range_are_refused(value):
    """The limits, which are named, belong to the range, but for the lower with `above`."""
    for inside in (0, 1, np.float32(0.25)):
        check_number("p", inside, low=0, high=1)
    check_number("tau", 1e-300, above=True)
    with pytest.raises(ValueError, match=r"^p=.* must be a finite number from 0 to 1$"):
        check_number("p", value, low=0, high=1)
    with pytest.raises(ValueError, match=r"^tau=.* must be a finite number above 0$"):
        check_number("tau", 0 if value == 1.1 else value, above=True)


Y = np.repeat([0, 1], 5)
IMAGES = Dataset("toy", np.zeros((2, 16)), None, (4, 4), "")
USES = {
    "n_train": lambda value: balanced_split(Y, value, 1),
    "n_test": lambda value: balanced_split(Y, 1, value),
    "step": lambda value: IMAGES.subsampled(step=value),
    "random_state": generator,
    "sigma": lambda value: add_gaussian_noise(IMAGES.X, value),
    "p": lambda value: add_speckle(IMAGES.X, value),
}


@pytest.mark.parametrize("value", ["2", True, -3, 2.5])
@pytest.mark.parametrize("name", USES)
def test_arguments_of_functions_name_themselves(name, value):
    """One that counts when it can't be a count, the size of noise when it is no number."""
    if (name, value) not in (("random_state", True), ("sigma", 2.5)):  # which are right
        with pytest.raises(ValueError, match=rf"{name}=.* (an integer|a finite)|cannot be used"):
            USES[name](value)
