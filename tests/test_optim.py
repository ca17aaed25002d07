"""Adam and its schedule: each step is its formula, and the minimum is found."""

import numpy as np
import pytest

from akpca.autoencoding.optimizers import CHUNK, Adam, cosine
from akpca.book.reference import SGD


def test_cosine_falls_from_one_to_zero():
    """Half a cosine: 1 at the start, a half in the middle, 0 at the end and after."""
    values = [cosine(t, 10) for t in range(13)]
    assert values[0] == 1
    assert values[5] == pytest.approx(0.5)
    assert values[10:] == [0, 0, 0]
    assert np.all(np.diff(values[:11]) < 0)


def test_adam_is_its_formula():
    """Three steps equal the paper's algorithm, on an array longer than a chunk."""
    rng = np.random.default_rng(0)
    p = rng.standard_normal(CHUNK + 7)
    gradients = rng.standard_normal((3, len(p)))
    params, optimizer = [p.copy()], Adam()
    m = v = np.zeros_like(p)
    for t, g in enumerate(gradients, start=1):
        optimizer.step(params, [g.copy()], 0.01)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        p = p - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(params[0], p, rtol=1e-12)


def test_adam_scales_steps_by_its_factors():
    """Factors, broadcast, multiply what a plain Adam moves; 0 holds an entry where it is."""
    rng = np.random.default_rng(0)
    start = rng.standard_normal((30, 6, 100))
    assert start.size > CHUNK
    gradients = rng.standard_normal((4, *start.shape))
    factors = rng.uniform(0, 2, (30, 1, 100))
    factors[7] = 0
    plain, scaled = start.copy(), start.copy()
    for optimizer, p in ((Adam(), plain), (Adam(steps=[factors]), scaled)):
        for g in gradients:
            optimizer.step([p], [g.copy()], 0.1)
    np.testing.assert_allclose(scaled - start, factors * (plain - start), atol=1e-12)
    np.testing.assert_array_equal(scaled[7], start[7])


def test_adam_keeps_float32_and_refuses_what_it_can_not_change():
    """Arrays stay single precision; a gradient of 0 from the start moves nothing, without NaN. A
    transposed array would be copied, and the step lost: an error, not silence."""
    params = [np.ones(4, np.float32)]
    Adam().step(params, [np.zeros(4, np.float32)], 0.1)
    assert params[0].dtype == np.float32
    np.testing.assert_array_equal(params[0], 1)
    with pytest.raises(ValueError, match="copy"):
        Adam().step([np.ones((2, 3)).T], [np.ones((3, 2))], 0.1)


@pytest.mark.parametrize("optimizer", [Adam(), SGD()], ids=["Adam", "SGD"])
def test_finds_the_minimum_of_a_quadratic(optimizer):
    """Minibatches of a least-squares problem, a cosine schedule: the exact solution."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 3))
    target, p = A @ [1.0, -2.0, 3.0], np.zeros(3)
    for epoch in range(60):
        for start in range(0, 60, 10):
            rows = slice(start, start + 10)
            g = A[rows].T @ (A[rows] @ p - target[rows]) / 10
            optimizer.step([p], [g], 0.3 * cosine(epoch, 60))
    np.testing.assert_allclose(p, [1, -2, 3], atol=1e-3)
