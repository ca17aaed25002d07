"""Minibatch descent on the losses of :mod:`.objectives`, for any model of :mod:`.models`.

`Descent.run` follows a schedule of steps, compares iterates by the true error on samples held out,
or on some of the others, and keeps the best one; `Descent.epoch` is one pass, for `partial_fit`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from sklearn.utils import gen_batches

from ..progress import progress_bar, warn_interrupted, warn_user
from ..threads import one_blas_thread
from . import objectives
from .coordinates import Coordinates
from .models import DenseModel, SpanModel, score
from .optimizers import SGD, SVRG, Adam, cosine

__all__ = ["Descent", "Result"]

# Samples on which the best iterate is chosen, at most, and the residuals of eigenvectors there.
MONITOR_SAMPLES, MONITOR_TOL = 500, 3e-3
# Lanczos steps where no earlier eigenvector of a sample is known.
FRESH_STEPS = 12
# Mean loss, of samples of mean squared norm 1, at which a descent has got out of hand.
DIVERGED = 1e4


@dataclass
class Result:
    """The best model so far, and how the descent went: see the attributes of `AKPCA`."""

    model: DenseModel | SpanModel
    loss_curve: list[float] = field(default_factory=list)
    monitor_curve: list[float] = field(default_factory=list)
    gap_curve: list[float] = field(default_factory=list)
    best_epoch: int = 0
    n_iter: int = 0


@dataclass
class Descent:
    """Passes over normalised samples that change the parameters of a model in place.

    The `rate` is the largest step, Adam's in units of an entry of a component of norm 1; `penalty`
    tells how strongly parameters are pulled back to the start, and `noise` is that of
    `Coordinates.corrupted`, in what is encoded. Losses and errors are in the units of X, squared.
    """

    model: DenseModel | SpanModel
    coordinates: Coordinates
    optimizer: SGD | SVRG | Adam
    rng: np.random.RandomState
    objective: str
    batch_size: int
    rate: float
    penalty: float
    noise: str | Callable | None
    noise_level: float

    def run(
        self, Z: np.ndarray, held_out, n_epochs: int, *, patience=None, title=None, callback=None
    ) -> Result:
        """Minimise the loss of Z, shape (n, D), and return the best iterate.

        Iterates are compared on `held_out`, or on some of Z if that is empty. The descent stops
        after `patience` epochs without a better one, or when `callback`, which gets the `Result`
        after each epoch, with the model of that epoch, answers true. `title` is that of a
        progress bar; None shows none.
        """
        n, model, unit = len(Z), self.model, self.coordinates.scale**2
        if not len(held_out):
            many = n > MONITOR_SAMPLES
            held_out = Z[self.rng.choice(n, MONITOR_SAMPLES, replace=False)] if many else Z
        noisy = self._corrupted(held_out, self.rng)
        origin = [p.copy() for p in model.params] if self.penalty else None
        # a start for the eigenvector of each sample: never the sample, which would give it away
        direction = model.direction / max(np.linalg.norm(model.direction), 1e-30)
        vectors = np.tile(direction, (n, 1)) if self.objective == "reconstruction" else None
        steps = -(-n // self.batch_size)
        schedule = partial(cosine, total=steps * n_epochs)
        bar = progress_bar(range(1, n_epochs + 1), shown=title is not None, desc=title)
        result, best = Result(model), model.copy(Z.dtype)
        errors, gaps = result.monitor_curve, result.gap_curve
        try:
            error, gap = score(model, noisy, held_out, MONITOR_TOL)
            errors.append(error * unit)
            gaps.append(gap)
            for epoch in bar:
                loss = self.epoch(Z, schedule, steps * (epoch - 1), vectors, origin)
                result.loss_curve.append(loss)
                result.n_iter = epoch
                error, gap = score(model, noisy, held_out, MONITOR_TOL)
                errors.append(error * unit)
                gaps.append(gap)
                if errors[-1] < errors[result.best_epoch]:
                    # a new copy: an interrupt must not find encoder and decoder of two epochs
                    best, result.best_epoch = model.copy(Z.dtype), epoch
                bar.set_postfix(loss=f"{loss:.4g}", error=f"{errors[-1]:.4g}")
                if callback is not None and callback(result):
                    break
                if patience is not None and epoch - result.best_epoch >= patience:
                    break
        except (FloatingPointError, np.linalg.LinAlgError):
            warn_user(
                f"the descent diverged in epoch {result.n_iter + 1}: the best model so far is "
                "kept; a smaller learning_rate would help"
            )
        except KeyboardInterrupt:
            warn_interrupted(f"in epoch {result.n_iter + 1}")
        result.model = best
        return result

    def epoch(self, Z: np.ndarray, schedule, first=0, vectors=None, origin=None) -> float:
        """Do one pass over Z, shape (n, D), in random order; return the mean loss.

        The schedule maps the number of a step, counted from `first`, to a part of the largest rate.
        Earlier eigenvectors of the samples, shape (n, D), are replaced, and the penalty pulls
        parameters to `origin`.
        """
        n, params, total = len(Z), self.model.params, 0.0
        largest = self.rate
        if isinstance(self.optimizer, Adam):
            largest /= self.model.root_size
        order = self.rng.permutation(n)
        with one_blas_thread(flops=min(n, self.batch_size) * self.model.flops):
            if isinstance(self.optimizer, SVRG):
                full_gradient = partial(self._full_gradient, Z, warm=vectors is not None)
                self.optimizer.start_epoch(params, full_gradient)
            for step, rows in enumerate(gen_batches(n, self.batch_size), start=first):
                rows = order[rows]
                near = None if vectors is None else vectors[rows]
                gradient, seen = self._gradient(Z[rows], near, near is not None)
                rate = largest * schedule(step)
                self.optimizer.step(params, gradient, rate)
                losses, found = seen[0]
                if not losses.mean() < DIVERGED:
                    raise FloatingPointError("the descent diverged")
                total += float(losses.sum(dtype=np.float64))
                if vectors is not None:
                    vectors[rows] = found
                if origin is not None:
                    pull = self.penalty * min(1, self.batch_size / n) * rate / largest
                    for p, o in zip(params, origin, strict=True):
                        p -= p.dtype.type(pull) * (p - o)
        return total / n * self.coordinates.scale**2

    def _gradient(self, Z, near, warm, noise_rng=None):
        """Return `record_gradients` of a batch, and its list; `warm` if eigenvectors are kept."""
        seed = self.rng.randint(2**31 - 1)
        if self.objective == "spectral":
            start = objectives.mixed_start(Z, Z.shape, random_state=seed)
            loss = partial(objectives.spectral, X=Z, start=start)
        else:
            near = self.model.direction.astype(Z.dtype) if near is None else near
            start = objectives.mixed_start(near, Z.shape, random_state=seed)
            steps = objectives.RECONSTRUCTION_STEPS if warm else FRESH_STEPS
            options = {"steps": steps, "towards": self.model.towards.astype(Z.dtype)}
            loss = partial(objectives.reconstruction, X=Z, start=start, **options)
        noise_rng = noise_rng or np.random.RandomState(self.rng.randint(2**31 - 1))
        noisy, seen = self._corrupted(Z, noise_rng), []
        return partial(self.model.record_gradients, noisy, loss, seen), seen

    def _corrupted(self, Z, rng):
        if self.noise is None or self.noise_level == 0:
            return Z
        return self.coordinates.corrupted(Z, rng, self.noise, self.noise_level)

    def _full_gradient(self, Z, params, warm):
        """Return the gradient over all samples."""
        sums = [np.zeros_like(p) for p in params]
        for rows in gen_batches(len(Z), min(len(Z), self.batch_size)):
            gradient, _ = self._gradient(Z[rows], None, warm, self.rng)
            for s, g in zip(sums, gradient(params), strict=True):
                s += len(Z[rows]) / len(Z) * g
        return sums
