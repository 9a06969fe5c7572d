"""Stochastic training on a device of JAX: the updates of an epoch are one compiled function."""

from dataclasses import fields, replace

import numpy as np

from .._utils.interrupts import InterruptLater
from .._utils.namespaces import describe, extract, insert, restrict, total_size
from .._utils.parameters import identity_of
from .._utils.rows import Batch, dense_rows
from ..learners.base import has_missing
from ..learners.registry import LEARNERS
from .settings import NoRestriction

MAX_CALL = 1000  # updates of a compiled call; Ctrl-C works between two calls
BLOCK_BYTES = 2**28  # of rows that are sent together if the training rows do not stay on the device
N_ARRAYS = 10  # of the size of the parameters, that are on the device during an update


class DeviceUpdates:
    """Parameter updates on a device, and the arrays of the training state that stay there.

    Parameters
    ----------
    learner : Learner
        Estimator of the gradient, whose ``is_pure`` is True.
    data : Batch
        All training rows.
    settings : Settings
        Settings of the run, with a device.
    state : LoopState
        First state of the run.

    Attributes
    ----------
    step : int
        Number of complete updates.
    is_done : bool
        Whether the learning-rate schedule has ended in the last epoch.
    """

    def __init__(self, learner, data, settings, state):
        _check_pure(learner, data, settings)
        self.settings, self.device, self.state = settings, settings.device, state
        self.arrays = _arrays_of(state, settings.rate)
        self.codes, self.step, self.is_done = data.X, state.step, False
        n_rows, n_columns = data.X.shape
        row_bytes = n_columns * (4 if data.X.dtype.kind == "f" else 1)
        self.block_size = max(1, BLOCK_BYTES // (settings.batch_size * row_bytes))
        is_resident = self.device.keeps(n_rows * row_bytes)
        self.n_bytes = self._needed_bytes(n_columns, n_rows * row_bytes * is_resident)
        self.device.check_memory("Training", self.n_bytes)
        with self.device.memory_errors("Training", self.n_bytes):
            self.carry = self.device.put(self.arrays)
            self.rows = self._put_rows(data.X) if is_resident else None
        self.constants = self.device.put(extract(_parts_of(settings)))
        self.run = self.device.compile_updates(*pure_update(learner, settings, state))

    def _needed_bytes(self, n_columns, resident_bytes):
        n_parameters = sum(v.size for v in self.state.energy.theta.values())
        n_states = total_size(self.arrays["learner"]) + self.settings.batch_size * n_columns
        return 4.0 * (N_ARRAYS * n_parameters + 4 * n_states) + resident_bytes

    def _put_rows(self, X):
        X = dense_rows(X)
        return self.device.put(X if X.dtype.kind == "f" else X.astype(np.uint8))

    def epoch(self, order, rng):
        """Update the parameters once per minibatch.

        Parameters
        ----------
        order : ndarray of int of shape (n_rows,)
            Row numbers in their order. The last minibatch is filled with the first rows.
        rng : numpy.random.Generator
            Generator from which keys are drawn.

        Returns
        -------
        dict of str to float
            Mean diagnostics.
        """
        batch_size = min(self.settings.batch_size, len(order))
        n_batches = -(-len(order) // batch_size)
        batches = np.resize(order, (n_batches, batch_size)).astype(np.int32)
        n_calls = -(-n_batches // (self.block_size if self.rows is None else MAX_CALL))
        outputs = []
        for part in np.array_split(batches, n_calls):
            with InterruptLater(), self.device.memory_errors("Training", self.n_bytes):
                outputs.append(self._call(part, rng))
        info = {k: sum(o[k] for o in outputs) / n_batches for k in outputs[0]}
        self.is_done = info.pop("is_done") > 0
        return info

    def _call(self, batches, rng):
        data = self.rows
        if data is None:
            data = self._put_rows(self.codes[batches.ravel()])
            batches = np.arange(batches.size, dtype=np.int32).reshape(batches.shape)
        words = self.device.words(rng)
        self.carry, sums = self.run(self.carry, self.constants, words, data, batches)
        self.step += len(batches)
        return sums

    def collect(self):
        """Return the changed fields of the training state, as arrays of the host."""
        arrays = self.device.get(self.carry, self.arrays)
        energy, before = self.state.energy.with_theta(arrays["theta"]), self.state.learner
        learner = insert(_without_model(before), arrays["learner"])
        return {
            "energy": energy,
            "learner": _with_model(learner, energy, before.generators),
            "step": self.step,
            **{k: arrays[k] for k in ("averaged", "n_averaged", "optimizer", "rate")},
        }


def pure_update(learner, settings, state):
    """Return a parameter update as a function of arrays only.

    Parameters
    ----------
    learner : Learner
        Estimator of the gradient.
    settings : Settings
        Settings of the run.
    state : LoopState
        State with the fields that an update does not change.

    Returns
    -------
    update : callable
        Function ``(carry, constants, rows, chains) -> (carry, diagnostics)``, with the same results
        as an update of ``skmrf.training.loop`` on the CPU. ``carry`` is a dict with the arrays of
        the training state, ``constants`` the numbers in the settings and in the learner's state.
    identity : tuple
        All on which the function depends. Functions with the same identity are the same.
    """
    parts, energy_form = _parts_of(settings), state.energy
    template = _without_model(state.learner)
    average, recency = settings.average, settings.recency

    def update(carry, constants, rows, chains):
        given = insert(parts, constants)
        rate, penalty, optimizer = given["rate"], given["penalty"], given["optimizer"]
        theta = carry["theta"]
        energy = energy_form.with_theta(theta)
        before = _with_model(insert(template, carry["learner"]), energy, chains)
        positive, negative, after, info = learner.step(energy, Batch(rows), before, chains)
        gradient = energy.gradient(positive, negative)
        decay = penalty.gradient(theta)
        if decay is not None:
            gradient = {k: g - decay[k] for k, g in gradient.items()}
        step_size = rate.value(carry["rate"])
        mean_square = sum((g * g).mean() for g in gradient.values()) / len(gradient)
        info = info | {"gradient_rms": mean_square**0.5, "learning_rate": step_size}
        moved, sizes, momentum = optimizer.pure_step(
            theta, dict(gradient), step_size, carry["optimizer"]
        )
        moved = penalty.prox(moved, sizes)
        seen, resolution = gradient, given["resolution"]
        if not penalty.smooth:  # at a kink of the penalty, steps vanish but gradients do not
            seen, resolution = {k: v - theta[k] for k, v in moved.items()}, 0.0
        rate_state, is_new_stage, is_done = rate.pure_observe(seen, carry["rate"], resolution)
        n_averaged, averaged = carry["n_averaged"], carry["averaged"]
        if average:
            n_averaged = 1 + n_averaged * (1 - is_new_stage * (1 - is_done))
            share = (1 + recency) / (n_averaged + recency)
            averaged = {k: v + share * (moved[k] - v) for k, v in averaged.items()}
        return {
            "theta": moved,
            "learner": restrict(extract(_without_model(after)), carry["learner"]),
            "optimizer": momentum,
            "rate": rate_state,
            "averaged": averaged,
            "n_averaged": n_averaged,
        }, info | {"is_done": is_done}

    shapes = tuple((k, v.shape) for k, v in energy_form.theta.items())
    form = type(energy_form), vars(energy_form).get("states"), shapes
    rule = type(learner), identity_of(learner), describe(template), average, recency
    return update, (*rule, describe(parts), form)


def _parts_of(settings):
    """Return the parts of settings that an update reads."""
    return {
        "rate": settings.rate,
        "penalty": settings.penalty,
        "optimizer": settings.optimizer,
        "resolution": float(settings.resolution),
    }


def _without_model(learner_state):
    """Return a learner's state without its model and its random generators."""
    return _with_model(learner_state, None, None)


def _with_model(learner_state, energy, generators):
    """Return a learner's state with another model, if it has one, and other generators."""
    has_model = "energy" in {field.name for field in fields(learner_state)}
    model = {"energy": energy} if has_model else {}
    return replace(learner_state, generators=generators, **model)


def _arrays_of(state, rate):
    """Return the arrays and numbers of a training state that an update changes."""
    return {
        "theta": state.energy.theta,
        "learner": extract(_without_model(state.learner)),
        "optimizer": state.optimizer,
        "rate": rate.pure_state(state.rate, state.energy.theta),
        "averaged": state.averaged,
        "n_averaged": state.n_averaged,
    }


def _check_pure(learner, data, settings):
    """Raise a ValueError if training uses something that JAX cannot compile."""
    advice = 'or device="cpu".'
    if not learner.is_pure:
        names = sorted(name for name, kind in LEARNERS.items() if kind.is_pure)
        raise ValueError(
            f"The learner {learner!r} does not run on a device of JAX. Use one of {names}, {advice}"
        )
    if not settings.penalty.is_pure:
        raise ValueError(f'penalty="group-l1" does not run on a device of JAX. Use "l2", {advice}')
    if not isinstance(settings.restriction, NoRestriction):
        raise ValueError(f"This restriction does not run on a device of JAX. Use none, {advice}")
    if has_missing(data.shown):
        raise ValueError(
            "X has missing entries, which training on a device of JAX does not take. Impute them "
            f"first, {advice}"
        )
