"""Minibatch descent on the losses of :mod:`.objectives`, for any model of :mod:`.models`."""

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
from .models import DenseModel, SpanModel
from .optimizers import Adam, cosine

__all__ = ["BATCH_SIZE", "DIVERGED", "Descent", "adam_steps"]

BATCH_SIZE = 100
# Samples on which the best iterate is chosen, at most, and the residuals of eigenvectors there.
MONITOR_SAMPLES, MONITOR_TOL = 500, 3e-3
# Mean loss, of samples of mean squared norm 1, at which a descent has got out of hand.
DIVERGED = 1e4
# The part of what components have moved from the start that each epoch takes away, times the
# relative length of its steps. It keeps (15) from learning samples by heart.
PENALTIES = {"reconstruction": 0.15, "spectral": 0.0}
# Adam's steps at entry (r, s) are proportional to (variance of r times that of s) to half this
# power: with 0, held-out errors relative to PCA's are .64, not .51, on Yale faces.
STEP_POWER = 0.5


def adam_steps(coordinates: Coordinates) -> list[np.ndarray] | None:
    """Return factors of Adam's steps along principal axes, if there are, for both parameters."""
    if coordinates.variances is None:
        return None
    sizes = (coordinates.variances / coordinates.variances[0]) ** (STEP_POWER / 2)
    if coordinates.constant:
        sizes = np.append(sizes, 1.0)
    steps = np.outer(sizes, sizes)[:, None, :]
    steps /= np.sqrt(np.mean(steps**2))
    return [steps, steps]


@dataclass
class Descent:
    """Passes over normalised samples that change the parameters of a model in place.

    Iterates are compared by the true error, (15), of some samples, and the best one is kept. The
    `rate`, `noise`, the curves and `best_epoch` are as in `AKPCA`.
    """

    model: DenseModel | SpanModel
    coordinates: Coordinates
    rng: np.random.RandomState
    objective: str
    rate: float
    noise: float | Callable | None
    loss_curve: list[float] = field(default_factory=list, init=False)
    monitor_curve: list[float] = field(default_factory=list, init=False)
    best_epoch: int = field(default=0, init=False)

    def run(self, Z: np.ndarray, n_epochs: int, *, title=None, callback=None) -> None:
        """Minimise the loss of Z, shape (n, D); the model is then the best iterate.

        `callback` is called after each epoch, when the model is that of the epoch, and ends the
        descent by a true answer. `title` is that of a progress bar; None shows none.
        """
        n, model, unit = len(Z), self.model, self.coordinates.scale**2
        many = n > MONITOR_SAMPLES
        clean = Z[self.rng.choice(n, MONITOR_SAMPLES, replace=False)] if many else Z
        noisy = self.coordinates.corrupted(clean, self.noise, self.rng)
        origin, optimizer = [p.copy() for p in model.params], Adam(adam_steps(self.coordinates))
        # a start for the eigenvector of each sample: never the sample, which would give it away
        direction = model.direction / max(np.linalg.norm(model.direction), 1e-30)
        vectors = np.tile(direction, (n, 1)) if self.objective == "reconstruction" else None
        schedule = partial(cosine, total=-(-n // BATCH_SIZE) * n_epochs)
        bar = progress_bar(range(1, n_epochs + 1), shown=title is not None, desc=title)
        best, errors = model.copy(Z.dtype), self.monitor_curve
        try:
            errors.append(model.error(noisy, clean, MONITOR_TOL) * unit)
            for epoch in bar:
                loss = self._epoch(Z, optimizer, schedule, epoch, vectors, origin) * unit
                self.loss_curve.append(loss)
                errors.append(model.error(noisy, clean, MONITOR_TOL) * unit)
                if errors[-1] < errors[self.best_epoch]:
                    # a new copy: an interrupt must not find encoder and decoder of two epochs
                    best, self.best_epoch = model.copy(Z.dtype), epoch
                bar.set_postfix(loss=f"{loss:.4g}", error=f"{errors[-1]:.4g}")
                if callback is not None and callback():
                    break
        except (FloatingPointError, np.linalg.LinAlgError):
            warn_user(
                f"the descent diverged in epoch {len(errors) or 1}: the best model so far is kept; "
                "a smaller learning_rate would help"
            )
        except KeyboardInterrupt:
            warn_interrupted(f"in epoch {len(errors) or 1}")
        self.model = best

    def _epoch(self, Z, optimizer, schedule, epoch, vectors, origin):
        """Do one pass in random order, with new eigenvectors of samples; return the mean loss."""
        n, params, total = len(Z), self.model.params, 0.0
        largest, towards = self.rate / self.model.root_size, self.model.towards.astype(Z.dtype)
        order = self.rng.permutation(n)
        first = -(-n // BATCH_SIZE) * (epoch - 1)
        with one_blas_thread(flops=min(n, BATCH_SIZE) * self.model.flops):
            for step, rows in enumerate(gen_batches(n, BATCH_SIZE), start=first):
                rows = order[rows]
                X, seed = Z[rows], self.rng.randint(2**31 - 1)
                near = X if vectors is None else vectors[rows]
                start = objectives.mixed_start(near, X.shape, random_state=seed)
                if vectors is None:
                    loss = partial(objectives.spectral, X=X, start=start)
                else:
                    loss = partial(objectives.reconstruction, X=X, start=start, towards=towards)
                noise_rng = np.random.RandomState(self.rng.randint(2**31 - 1))
                noisy = self.coordinates.corrupted(X, self.noise, noise_rng)
                losses, gradients, found = self.model.gradients(noisy, loss)
                rate = largest * schedule(step)
                optimizer.step(params, gradients, rate)
                if not losses.mean() < DIVERGED:
                    raise FloatingPointError("the descent diverged")
                total += float(losses.sum(dtype=np.float64))
                if vectors is not None:
                    vectors[rows] = found
                pull = PENALTIES[self.objective] * min(1, BATCH_SIZE / n) * rate / largest
                if pull:
                    for p, o in zip(params, origin, strict=True):
                        p -= p.dtype.type(pull) * (p - o)
        return total / n
