"""Optimisers: each step is its formula, and all of them find a minimum."""

import numpy as np
import pytest

from akpca.autoencoding.optimizers import CHUNK, OPTIMIZERS, SGD, SVRG, Adam, cosine


def test_cosine_falls_from_one_to_zero():
    """Half a cosine: 1 at the start, a half in the middle, 0 at the end and after."""
    values = [cosine(t, 10) for t in range(13)]
    assert values[0] == 1
    assert values[5] == pytest.approx(0.5)
    assert values[10:] == [0, 0, 0]
    assert np.all(np.diff(values[:11]) < 0)


def test_sgd_step_is_its_formula():
    """p - rate g, for each array of the list, in place."""
    params = [np.ones(3), np.zeros((2, 2))]
    first = params[0]
    SGD().step(params, lambda p: [2 * p[0], np.full((2, 2), 3.0)], 0.1)
    np.testing.assert_allclose(first, 0.8)
    np.testing.assert_allclose(params[1], -0.3)


def test_adam_is_its_formula():
    """Three steps equal the paper's algorithm, on an array longer than a chunk."""
    rng = np.random.default_rng(0)
    p = rng.standard_normal(CHUNK + 7)
    gradients = rng.standard_normal((3, len(p)))
    params, optimizer = [p.copy()], Adam()
    m = v = np.zeros_like(p)
    for t, g in enumerate(gradients, start=1):
        optimizer.step(params, lambda _, g=g: [g.copy()], 0.01)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        p = p - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(params[0], p, rtol=1e-12)


def test_adam_does_not_depend_on_the_scale_of_the_loss():
    """A loss times 1e6 gives the same steps."""
    results = []
    for factor in (1, 1e6):
        params, optimizer = [np.array([1.0, -2.0])], Adam()
        for _ in range(5):
            optimizer.step(params, lambda p, f=factor: [2 * f * p[0]], 0.1)
        results.append(params[0])
    np.testing.assert_allclose(*results, rtol=1e-6)


def test_adam_keeps_float32_and_stands_still_without_a_gradient():
    """Arrays stay single precision; a gradient of 0 from the start moves nothing, without NaN."""
    params = [np.ones(4, np.float32)]
    Adam().step(params, lambda p: [np.zeros(4, np.float32)], 0.1)
    assert params[0].dtype == np.float32
    np.testing.assert_array_equal(params[0], 1)


def test_adam_refuses_arrays_it_can_not_change_in_place():
    """A transposed array would be copied, and the step lost: an error, not silence."""
    with pytest.raises(ValueError, match="copy"):
        Adam().step([np.ones((2, 3)).T], lambda p: [np.ones((3, 2))], 0.1)


def test_svrg_steps_are_exact_gradients_where_batches_differ_by_a_constant():
    """If the gradients of batches differ by constants only, SVRG's steps have no variance."""
    shifts = [np.array([5.0]), np.array([-5.0])]

    def gradient_of(shift):
        return lambda p: [2 * p[0] + shift]

    params, optimizer = [np.array([1.0])], SVRG()
    optimizer.start_epoch(params, lambda p: [2 * p[0]])
    for shift in shifts:
        optimizer.step(params, gradient_of(shift), 0.1)
    np.testing.assert_allclose(params[0], 0.8**2)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_finds_the_minimum_of_a_quadratic(name):
    """Minibatches of a least-squares problem, a cosine schedule: the exact solution."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 3))
    target = A @ [1.0, -2.0, 3.0]

    def gradient_of(rows):
        return lambda p: [A[rows].T @ (A[rows] @ p[0] - target[rows]) / len(A[rows])]

    params, optimizer = [np.zeros(3)], OPTIMIZERS[name]()
    for epoch in range(60):
        if name == "svrg":
            optimizer.start_epoch(params, gradient_of(slice(None)))
        for start in range(0, 60, 10):
            optimizer.step(params, gradient_of(slice(start, start + 10)), 0.3 * cosine(epoch, 60))
    np.testing.assert_allclose(params[0], [1, -2, 3], atol=1e-3)


def test_adam_scales_steps_by_its_factors():
    """Factors, broadcast, multiply what a plain Adam moves; 0 holds an entry where it is."""
    rng = np.random.default_rng(0)
    start = rng.standard_normal((50, 3, 50 * 3))  # more than a chunk
    assert start.size > CHUNK
    gradients = rng.standard_normal((4, *start.shape))
    factors = rng.uniform(0, 2, (50, 1, 150))
    factors[7] = 0
    plain, scaled = start.copy(), start.copy()
    for optimizer, p in ((Adam(), plain), (Adam(steps=[factors]), scaled)):
        for g in gradients:
            optimizer.step([p], lambda _, g=g: [g.copy()], 0.1)
    np.testing.assert_allclose(scaled - start, factors * (plain - start), atol=1e-12)
    np.testing.assert_array_equal(scaled[7], start[7])
