"""Photograph, faces and walk of the paper on fast iterative kernel PCA: parts, rows and claims."""

import numpy as np
import pytest

from akpca import KernelPCA
from akpca.book.experiments import ResultTable, image_claims, motion, patches
from akpca.book.experiments import small_sets as sets
from akpca.book.experiments import superresolution as large
from akpca.book.experiments.projections import Samples
from akpca.book.reference import center_kernel
from akpca.hebbian import make_gain
from akpca.preimage import FixedPointPreimage, RidgePreimage

RIDGE = RidgePreimage(alpha=0.1)


@pytest.fixture(scope="module")
def photo():
    """Return the smallest photograph whose quarters have 16 windows each."""
    return patches.Photograph.load("flower.jpg", 24)


@pytest.fixture(scope="module")
def walk():
    """Return a short synthetic walk."""
    return motion.Walk.load("synthetic", n_frames=60)


def table_of(path, name):
    return ResultTable(path / f"{name}.csv", sets.COLUMNS)


def test_exact_coefficients_are_those_of_kernel_pca():
    """Codes, of new samples as well, and what decoders make of them agree with the estimator's."""
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((2, 40, 4))
    samples, model = Samples(X, 1.5), KernelPCA(5, kernel="rbf", gamma=1 / 4.5).fit(X)
    np.testing.assert_allclose(samples.operator.K, center_kernel(model.kernel_(X)), atol=1e-12)
    code = samples.code(samples.exact(5))
    signs = np.sign(np.sum(code.codes * model.transform(X), axis=0))
    np.testing.assert_allclose(signs * code.codes, model.transform(X), atol=1e-10)
    np.testing.assert_allclose(signs * code.encode(new), model.transform(new), atol=1e-10)
    for decoder in (RIDGE, FixedPointPreimage()):
        expected = model.inverse_transform(model.transform(new), preimage=decoder)
        found = samples.decoded(samples.exact(5), decoder, new)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_mean_of_windows_is_the_image():
    """Windows that are not changed give back the image; each pixel counts once per window."""
    image = np.random.default_rng(0).standard_normal((21, 17))
    windows = patches.windows_of(image, 5, 2)
    assert windows.shape == (9 * 7, 25)
    np.testing.assert_allclose(patches.average_windows(windows, image.shape, 5, 2), image)
    count = np.arange(len(windows))[:, None] * np.ones(25)
    means = patches.average_windows(count, image.shape, 5, 2)
    assert (means[0, 0], means[-1, -1]) == (0, len(windows) - 1)
    assert means[2, 0] == np.mean([0, 7])


def test_quarters(photo):
    """Joined, quarters are the image; the mean of their errors is that of the whole."""
    quarters = [photo.quarter_of(photo.noisy, part) for part in range(4)]
    np.testing.assert_array_equal(photo.joined(quarters), photo.noisy)
    errors = [photo.error(part, quarter) for part, quarter in enumerate(quarters)]
    assert np.mean(errors) == pytest.approx(np.mean((photo.noisy - photo.clean) ** 2))


def test_all_components_leave_the_image(photo):
    """With as many components as windows span, and a decoder that interpolates, nothing changes."""
    exact = [samples.exact(len(samples.X) - 1) for samples in photo.samples]
    decoder = RidgePreimage(alpha=1e-10)
    cleaned = [photo.cleaned(part, A, decoder) for part, A in enumerate(exact)]
    np.testing.assert_allclose(photo.joined(cleaned), photo.noisy, atol=1e-6)


def test_the_decoder_is_chosen_by_the_error(photo):
    """No other penalty cleans this image better."""
    errors = {}
    for alpha in patches.PENALTIES:
        decoder = RidgePreimage(alpha=alpha)
        quarters = [photo.cleaned(i, s.exact(5), decoder) for i, s in enumerate(photo.samples)]
        errors[alpha] = np.mean((photo.joined(quarters) - photo.clean) ** 2)
    assert photo.best_decoder(5).alpha == min(errors, key=errors.get)


def test_small_and_large_again():
    """Means of blocks undo repeated pixels, and splines keep what is flat or a slope inside."""
    small = np.random.default_rng(0).standard_normal((3, 4, 5))
    np.testing.assert_allclose(large.block_means(large.repeat_pixels(small, 3), 3), small)
    assert large.bicubic(small, 3).shape == (3, 12, 15)
    slope = np.tile(np.arange(40.0), (1, 4, 1))
    middle = large.bicubic(slope, 2)[0, 2, 30:50]
    np.testing.assert_allclose(np.diff(middle), 0.5, atol=1e-3)


def test_a_synthetic_walk(walk):
    """Directions are unit vectors, stiff bones keep their angle with their parent, legs swing."""
    np.testing.assert_allclose(np.linalg.norm(walk.directions, axis=2), 1)
    names = walk.skeleton.names
    left, right = (walk.directions[:, names.index(name)] for name in ("lthigh", "rthigh"))
    assert left[:, 2].max() > 0.2 > -0.2 > left[:, 2].min()
    assert np.corrcoef(left[:, 2], right[:, 2])[0, 1] < -0.5  # half a cycle apart
    bones = walk.positions()
    lengths = np.linalg.norm(bones[:, :, 1] - bones[:, :, 0], axis=2)
    np.testing.assert_allclose(lengths, np.broadcast_to(walk.skeleton.lengths, lengths.shape))
    foot, shin = names.index("lfoot"), names.index("lshin")
    np.testing.assert_array_equal(bones[:, foot, 0], bones[:, shin, 1])


def test_noise_of_angles(walk):
    """Unit vectors stay unit vectors; across the pole they turn by as many degrees as said."""
    level = np.tile([1.0, 0.0, 0.0], (20000, 1))
    turned = motion.turn(level, 2.0)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=1), 1)
    angles = np.rad2deg([np.arcsin(turned[:, 2]), np.arctan2(turned[:, 1], turned[:, 0])])
    np.testing.assert_allclose(angles.std(axis=1), 2, rtol=0.03)
    np.testing.assert_allclose(motion.turn(walk.directions, 0.0), walk.directions, atol=1e-7)


def test_part_of_the_noise(walk):
    """Nothing done removes nothing, the clean frames all of it, half the way three quarters."""
    noisy = motion.NoisyWalk(walk)
    clean = walk.directions
    assert noisy.removed(noisy.noisy) == pytest.approx((0, 0))
    assert noisy.removed(clean) == pytest.approx((1, 1))
    assert motion.removed(clean, noisy.noisy, (clean + noisy.noisy) / 2) == pytest.approx(0.75)
    found = noisy.cleaned(noisy.samples.exact(12))
    np.testing.assert_allclose(np.linalg.norm(found, axis=2), 1)
    assert noisy.removed(found)[0] > 0.4
    deviation, variance, radians = motion.READINGS.values()  # of the paper's two degrees
    assert (deviation, variance**2, np.deg2rad(radians) ** 2) == pytest.approx(
        (2, 2, np.deg2rad(2))
    )


@pytest.mark.slow
def test_runs_write_rows_that_claims_read(photo, walk, tmp_path, monkeypatch):
    """All three experiments, tiny; what was written is not computed again; claims are judged."""
    for module in (patches, large, motion):
        monkeypatch.setattr(module, "PASSES", (1, 3, 7))
    monkeypatch.setattr(patches, "META_GAINS", (0.1, 1))
    gains = {v: make_gain(v, eta0=0.5, mu=0.1) for v in sets.VARIANTS}
    gains |= {v: make_gain(v, eta0=1, tau=2, mu=0.1) for v in ("KHA/et*", "KHA-SMD*")}
    tables = {name: table_of(tmp_path, name) for name in ("patches", "faces", "motion")}
    given = {"tuned": gains}

    def run():
        more = {"decoder": RIDGE, "n_components": 3, "seeds": (0, 1), "n_passes": 3}
        patches.run(photo, given, patches.COMBINATIONS, tables["patches"], long_run=4, **more)
        faces = large.Faces.load("digits", n_train=60)
        large.run(faces, given, tables["faces"], **more)
        motion.run(walk, given, tables["motion"], n_components=5, seeds=(0, 1), n_passes=3)

    run()
    counts = {name: len(table) for name, table in tables.items()}
    run()
    assert {name: len(table) for name, table in tables.items()} == counts
    study = sets.Study(tables, dict.fromkeys(tables, "tuned"))
    found = list(image_claims.claims(study))
    assert {f.verdict for f in image_claims.claims(sets.Study({}, {}))} == {"not tested"}
    assert {f.figure for f in found} == {5, "6 left", "6 right", 7, 8, 9, 11, 12}
    assert all(f.comparisons for f in found)
    assert len(image_claims.last_meta_gains(study, "KHA/s")) <= 2
    ratio = patches.decibels(study, "noisy", gains="reference")
    noise = np.mean((photo.noisy - photo.clean) ** 2)
    assert ratio == pytest.approx(10 * np.log10(np.var(photo.clean) / noise), rel=1e-4)
    assert patches.decibels(study, "KHA-SMD", 1).shape == (2,)
