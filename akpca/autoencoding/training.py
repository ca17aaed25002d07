"""Minibatch descent on the losses of :mod:`.objectives`, for any model of :mod:`.models`.

A `Descent` makes passes over normalised samples. `Descent.run` follows a schedule of steps,
compares iterates by the true error on samples held out (or on some of the others) and ends with the
best one; `Descent.epoch` is one pass, and all that `partial_fit` needs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import gen_batches
from tqdm import tqdm

from ..progress import warn_interrupted
from ..threads import one_blas_thread
from . import objectives
from .models import BatchGradient, DenseModel, SpanModel
from .optimizers import SVRG, Adam, cosine

# Samples on which the best iterate is chosen, at most.
MONITOR_SAMPLES = 500
# Residuals of eigenvectors when iterates are compared, and Lanczos steps where no earlier
# eigenvector of a sample is known.
MONITOR_TOL, FRESH_STEPS = 3e-3, 12
# Mean loss, of samples of mean squared norm 1, at which a descent has got out of hand.
DIVERGED = 1e4
# Operations of a product with a batch of 100 samples from which on two threads are worth waiting
# for each other.
THREADED_FLOPS = 5e8

Model = DenseModel | SpanModel


@dataclass(frozen=True)
class Plan:
    """What a descent is to do.

    Attributes
    ----------
    objective : {'reconstruction', 'spectral'}
    rate : float
        The largest step, as the optimiser counts it.
    batch_size, n_epochs : int
    warm : float, default=0.0
        The part of all steps in which they become longer.
    penalty : float, default=0.0
        How strongly parameters are pulled back to the start.
    patience : int, default=None
        Epochs without a better iterate after which to stop; None never does.
    corrupt : callable, default=None
        From normalised samples and a ``RandomState`` to samples with noise, which are encoded.
    unit : float, default=1.0
        Factor of losses and errors in the curves.
    title : str, default=None
        Of a progress bar; None shows none.
    callback : callable, default=None
        Gets the `Result` after each epoch, with the model of that epoch; a true answer stops.
    """

    objective: str
    rate: float
    batch_size: int
    n_epochs: int
    warm: float = 0.0
    penalty: float = 0.0
    patience: int | None = None
    corrupt: Callable | None = None
    unit: float = 1.0
    title: str | None = None
    callback: Callable | None = None


@dataclass
class Result:
    """The best model so far, and how the descent went: see the attributes of `AKPCA`."""

    model: Model
    loss_curve: list[float] = field(default_factory=list)
    monitor_curve: list[float] = field(default_factory=list)
    gap_curve: list[float] = field(default_factory=list)
    best_epoch: int = 0
    n_iter: int = 0


def blas_threads_for(model: Model) -> AbstractContextManager:
    """Return a context with one BLAS thread, unless products of the model are large."""
    return one_blas_thread() if 100 * model.flops < THREADED_FLOPS else nullcontext()


@dataclass
class Descent:
    """Passes over samples that change the parameters of a model in place.

    Attributes
    ----------
    model : DenseModel or SpanModel
    plan : Plan
    optimizer : SGD, SVRG or Adam
    rng : RandomState
        Order of the samples, starting vectors, noise.
    """

    model: Model
    plan: Plan
    optimizer: SVRG | Adam
    rng: np.random.RandomState

    def run(self, Z: np.ndarray, held_out: np.ndarray) -> Result:
        """Minimise, and leave the model at the best iterate.

        Parameters
        ----------
        Z : ndarray of shape (n, D)
            Normalised samples.
        held_out : ndarray of shape (n_held_out, D)
            Samples on which iterates are compared; if there are none, some of Z are.

        Returns
        -------
        result : Result
        """
        n, plan, params = len(Z), self.plan, self.model.params
        if not len(held_out):
            many = n > MONITOR_SAMPLES
            held_out = Z[self.rng.choice(n, MONITOR_SAMPLES, replace=False)] if many else Z
        noisy = held_out if plan.corrupt is None else plan.corrupt(held_out, self.rng)
        best = [p.copy() for p in params]
        origin = [p.copy() for p in params] if plan.penalty else None
        vectors = None
        if plan.objective == "reconstruction":
            # a start for the eigenvector of each sample: never the sample, which would give it away
            direction = self.model.direction
            vectors = np.tile(direction / max(np.linalg.norm(direction), 1e-30), (n, 1))
        batches = -(-n // plan.batch_size)
        result = Result(self.model)
        try:
            self._compare(result, noisy, held_out)
            bar = tqdm(range(plan.n_epochs), desc=plan.title, disable=plan.title is None)
            for epoch in bar:
                first, total = epoch * batches, plan.n_epochs * batches
                schedule = partial(_part_of_rate, first=first, total=total, warm=plan.warm)
                result.loss_curve.append(self.epoch(Z, schedule, vectors, origin))
                result.n_iter = epoch + 1
                if self._compare(result, noisy, held_out):
                    result.best_epoch = epoch + 1
                    for b, p in zip(best, params, strict=True):
                        np.copyto(b, p)
                loss, score = result.loss_curve[-1], result.monitor_curve[-1]
                bar.set_postfix(loss=f"{loss:.4g}", error=f"{score:.4g}")
                if plan.callback is not None and plan.callback(result):
                    break
                if plan.patience is not None and epoch + 1 - result.best_epoch >= plan.patience:
                    break
        except (FloatingPointError, np.linalg.LinAlgError):
            warnings.warn(
                f"the descent diverged in epoch {result.n_iter + 1}: the best model so far is "
                "kept; a smaller learning_rate would help",
                ConvergenceWarning,
                stacklevel=4,
            )
        except KeyboardInterrupt:
            warn_interrupted(f"in epoch {result.n_iter + 1}", stacklevel=5)
        finally:
            for b, p in zip(best, params, strict=True):
                np.copyto(p, b)
        return result

    def epoch(
        self,
        Z: np.ndarray,
        schedule: Callable[[int], float],
        vectors: np.ndarray | None = None,
        origin: list[np.ndarray] | None = None,
    ) -> float:
        """Do one pass in random order; return the mean loss.

        Parameters
        ----------
        Z : ndarray of shape (n, D)
        schedule : callable
            From the number of a batch to the part of the largest step.
        vectors : ndarray of shape (n, D), default=None
            Earlier eigenvectors of the samples, which are replaced.
        origin : list of ndarray, default=None
            To which parameters are pulled by the penalty.
        """
        n, plan, params, total = len(Z), self.plan, self.model.params, 0.0
        order = self.rng.permutation(n)
        with blas_threads_for(self.model):
            if isinstance(self.optimizer, SVRG):
                full_gradient = partial(self._full_gradient, Z, warm=vectors is not None)
                self.optimizer.start_epoch(params, full_gradient)
            for t, rows in enumerate(gen_batches(n, plan.batch_size)):
                rows = order[rows]
                starts = None if vectors is None else vectors[rows]
                gradient = self._gradient(Z[rows], starts, vectors is not None)
                rate = plan.rate * schedule(t)
                self.optimizer.step(params, gradient, rate)
                if not gradient.losses.mean() < DIVERGED:
                    raise FloatingPointError("the descent diverged")
                total += float(gradient.losses.sum(dtype=np.float64))
                if vectors is not None:
                    vectors[rows] = gradient.vectors
                if origin is not None:
                    pull = plan.penalty * min(1, plan.batch_size / n) * rate / plan.rate
                    for p, o in zip(params, origin, strict=True):
                        p -= p.dtype.type(pull) * (p - o)
        return total / n * plan.unit

    def _gradient(self, Z, vectors, warm, noise_rng=None):
        """Return the gradient of a batch; `warm` tells that earlier eigenvectors are kept."""
        model, seed = self.model, self.rng.randint(2**31 - 1)
        if self.plan.objective == "spectral":
            start = objectives.mixed_start(Z, Z.shape, random_state=seed)
            loss = partial(objectives.spectral, X=Z, start=start)
        else:
            near = model.direction.astype(Z.dtype) if vectors is None else vectors
            start = objectives.mixed_start(near, Z.shape, random_state=seed)
            steps = objectives.RECONSTRUCTION_STEPS if warm else FRESH_STEPS
            towards = model.towards.astype(Z.dtype)
            loss = partial(
                objectives.reconstruction, X=Z, start=start, steps=steps, towards=towards
            )
        if noise_rng is None:
            noise_rng = np.random.RandomState(self.rng.randint(2**31 - 1))
        noisy = Z if self.plan.corrupt is None else self.plan.corrupt(Z, noise_rng)
        return BatchGradient(model, noisy, loss)

    def _full_gradient(self, Z, params, warm):
        """Return the gradient over all samples, at other parameters."""
        sums = [np.zeros_like(p) for p in params]
        for rows in gen_batches(len(Z), min(len(Z), self.plan.batch_size)):
            gradient = self._gradient(Z[rows], None, warm, self.rng)
            for s, g in zip(sums, gradient(params), strict=True):
                s += len(Z[rows]) / len(Z) * g
        return sums

    def _compare(self, result, Z, targets):
        """Note the mean of ||g(f(z)) - target||^2 and the gap; return whether it is the least."""
        total, gaps, n_axes = 0.0, [], self.model.n_axes
        with blas_threads_for(self.model):
            for rows, Z_hat, ratios in self.model.decode(self.model.encode(Z), tol=MONITOR_TOL):
                residuals = Z_hat[:, :n_axes] - targets[rows, :n_axes]
                total += float(np.sum(residuals * residuals, dtype=np.float64))
                gaps.append(ratios)
        score, curve = total / len(Z) * self.plan.unit, result.monitor_curve
        better = not curve or score < curve[result.best_epoch]
        curve.append(score)
        result.gap_curve.append(float(np.median(np.concatenate(gaps))))
        return better


def _part_of_rate(t, first, total, warm):
    return cosine(first + t, total, warm)
