"""Stochastic training on a device of JAX: the updates of epochs are one compiled function."""

import math
from collections import deque
from dataclasses import fields, is_dataclass, replace
from time import monotonic
from typing import NamedTuple

import numpy as np

from .._utils.interrupts import InterruptLater
from .._utils.namespaces import (
    describe,
    extract,
    insert,
    is_numpy,
    options_of,
    restrict,
    total_size,
    without_numbers,
    without_values,
)
from .._utils.parameters import identity_of
from .._utils.rows import Batch, dense_rows, is_mapped
from ..learners.base import DataPhase
from ..learners.registry import accepted
from .settings import NoRestriction, Settings
from .state import LoopState, Pure

MAX_CALL = 1000  # updates of an epoch in a compiled call; Ctrl-C works between two calls
MAX_TOGETHER = 32  # epochs of a compiled call
ORDER_BYTES = 2**20  # of the row numbers of all epochs of a call
CALL_SECONDS = 0.1  # that several epochs of a call may take
BLOCK_BYTES = 2**28  # of rows that are sent together if the training rows do not stay on the device
MAPPED_BYTES = 2**25  # the same of rows of a memory map
N_ARRAYS = 10  # of the size of the parameters, that are on the device during an update
SHARED_FIELDS = "optimizer", "rate", "averaged", "n_averaged", "step"  # of the training state
N_MESSAGES = 3  # arrays of the messages of belief propagation


class DrawnEpoch(NamedTuple):
    """Random numbers of an epoch.

    Parameters
    ----------
    batches : ndarray of int32 of shape (n_batches, batch_size)
        Row numbers of the minibatches.
    words : ndarray of uint32 of shape (n_parts, 2)
        Random words for each call of the device.
    state : dict
        State of the generator after these random numbers.
    """

    batches: np.ndarray
    words: np.ndarray
    state: dict


class DeviceUpdates:
    """Parameter updates on a device, and the arrays of the training state that stay there.

    Parameters
    ----------
    update : callable
        Function of the training loop that makes one gradient step.
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
    n_batches : int
        Number of updates in an epoch.
    n_parts : int
        Number of calls of the device in an epoch.
    """

    def __init__(self, update, learner, data, settings, state):
        check_device_learner(learner, type(state.energy))
        _check_restriction(settings)
        _check_potentials(state.energy)
        state = replace(state, learner=learner.pad(state.learner))
        self.learner, self.settings, self.state = learner, settings, state
        self.form = LearnerArrays(learner, state.learner)
        self.arrays = _arrays_of(state, settings.rate, self.form)
        n_chains = len(getattr(state.learner, "X", range(settings.batch_size)))
        self.device = settings.device.spread(n_chains)
        axes = {"learner": _chain_axes(state.learner, self.arrays["learner"], n_chains)}
        self.data = {k: v for k, v in (("X", data.X), ("Y", data.Y)) if v is not None}
        self.has_missing = _imputer_of(state.learner) is not None
        self.epoch_number = state.epoch
        is_small = max(state.energy.visible_states, default=0) <= 256
        self.entry_type = np.dtype(np.uint8 if is_small else np.int16)
        self.drawn = deque()  # epochs that have not been run
        self.n_real_rows = None  # rows of a single minibatch
        self.has_idle_batches = False  # whether there can be minibatches that are not used
        is_resident, n_sent = self._plan_calls(data.X.shape[0])
        self._put_arrays(axes, is_resident, n_sent)
        self.run = self.device.compile_updates(
            *pure_update(update, learner, settings, state, self.form), axes
        )

    def _plan_calls(self, n_rows):
        """Choose the updates and epochs of a call of the device.

        Returns whether the training rows stay on the device, and the bytes to send them there.
        """
        batch_size = min(self.settings.batch_size, n_rows)
        self.n_batches = -(-n_rows // batch_size)
        tables = self.data.values()
        row_bytes = sum(v.shape[1] * self._entry_bytes(v) for v in tables)
        has_map, is_there = any(map(is_mapped, tables)), all(map(self.device.holds, tables))
        is_resident = is_there or (not has_map and self.device.keeps(n_rows * row_bytes))
        self.shape = self.n_batches, batch_size  # of the row numbers of an epoch
        if is_resident and all(map(is_numpy, tables)):
            self._pad_shape(n_rows)
        block_bytes = MAPPED_BYTES if has_map else BLOCK_BYTES
        most = MAX_CALL if is_resident else max(1, block_bytes // (batch_size * row_bytes))
        self.n_parts = -(-self.n_batches // most)
        if is_resident and self.n_parts > 1:  # parts of two sizes would be compiled
            self.n_batches = self.n_parts * -(-self.n_batches // self.n_parts)
            self.shape = self.n_batches, batch_size
        n_numbers = math.prod(self.shape)
        self.n_together = self.most_together = 1  # epochs in a call
        if is_resident and self.n_parts == 1 and not self.has_idle_batches:
            self.most_together = int(np.clip(ORDER_BYTES // (4 * n_numbers), 1, MAX_TOGETHER))
        return is_resident, n_numbers * row_bytes if is_resident and not is_there else 0

    def _pad_shape(self, n_rows):
        """Choose a larger shape of the row numbers, so that few shapes are compiled.

        Rows after the last one have the weight 0 if there is a single minibatch. Minibatches after
        the last one are not used. A run of one epoch, as a ``partial_fit``, has at most half as
        many more.
        """
        if self.n_batches == 1 and "Y" not in self.data and not self.has_missing:
            size = 1 << (n_rows - 1).bit_length()
            self.shape, self.n_real_rows = (1, min(size, self.settings.batch_size)), n_rows
        elif self.n_batches <= MAX_CALL and self.settings.max_iter == 1:
            step = 1 << max((self.n_batches - 1).bit_length() - 2, 0)
            self.shape = -(-self.n_batches // step) * step, self.shape[1]
            self.has_idle_batches = True

    def _put_arrays(self, axes, is_resident, n_sent):
        """Send the training state, constants and resident rows to the device, if they fit."""
        constants = extract(_parts_of(self.settings))
        n_numbers = sum(v.shape[1] for v in self.data.values())
        needed = self._needed_bytes(self.learner, n_numbers)
        self.n_bytes = needed + 4.0 * total_size(constants) + n_sent
        self.device.check_memory("Training", self.n_bytes)
        constants |= {"model": self.state.energy.device_arrays()}
        with self.device.memory_errors("Training", self.n_bytes):
            self.carry = self.device.put(self.arrays, axes)
            self.rows = self._put_rows() if is_resident else None
            self.constants = self.device.put(constants)

    def _needed_bytes(self, learner, n_numbers):
        energy, batch_size = self.state.energy, self.settings.batch_size
        n_parameters = sum(v.size for v in energy.theta.values())
        n_states = total_size(self.arrays["learner"]) + batch_size * n_numbers
        n_messages = learner.n_messages(energy, batch_size)
        states = getattr(self.state.learner, "X", None)
        n_rows = batch_size + (0 if states is None else states.size // states.shape[-1])
        n_others = 4 * n_states + N_MESSAGES * n_messages + energy.n_device_entries(n_rows)
        return 4.0 * (N_ARRAYS * n_parameters + n_others)

    def _entry_bytes(self, X):
        """Return the bytes of an entry of rows on the device."""
        return 4 if X.dtype.kind == "f" else self.entry_type.itemsize

    def _small_entries(self, X):
        """Return rows of integers with few bytes per entry, and rows of floats unchanged."""
        if X.dtype.kind == "f" or not is_numpy(X):
            return X
        is_view = X.dtype.itemsize == self.entry_type.itemsize == 1
        return X.view(np.uint8) if is_view else X.astype(self.entry_type)

    def _put_rows(self, rows=None):
        parts = {k: dense_rows(v if rows is None else v[rows]) for k, v in self.data.items()}
        parts = {k: self._small_entries(v) for k, v in parts.items()}
        if self.has_missing:  # the imputed entries of a row are found by its number
            n_rows = len(parts["X"])
            parts["rows"] = (np.arange(n_rows) if rows is None else rows).astype(np.int32)
        if rows is None:
            parts = {k: _pad_rows(v, math.prod(self.shape)) for k, v in parts.items()}
        if self.n_real_rows is not None:
            is_row = np.arange(self.shape[1]) < self.n_real_rows
            parts["log_weights"] = np.where(is_row, 0.0, -np.inf)
        return self.device.put(parts)

    def epochs(self, n_epochs, draw_order, rng):
        """Update the parameters once per minibatch in each of one or more epochs.

        A call has as many epochs as fit into its time, because the device has no work between two
        calls. The random numbers of the next epochs are drawn before the results of this call are
        read. They do not depend on the number of epochs in a call, and the generator is left in the
        state after the epochs of this call.

        Parameters
        ----------
        n_epochs : int
            Largest number of epochs.
        draw_order : callable
            Function ``rng -> order`` that returns the row numbers of an epoch in their order. The
            last minibatch is filled with the first rows.
        rng : numpy.random.Generator
            Generator from which orders and keys are drawn.

        Returns
        -------
        list of dict of str to float
            Diagnostics of each epoch. Training has ended in the last epoch if its ``is_done`` is
            not zero.
        """
        began, n_together = monotonic(), min(n_epochs, self.n_together)
        self._draw(n_together, draw_order, rng)
        draws = [self.drawn.popleft() for _ in range(n_together)]
        if self.n_parts > 1:
            rows = [self._run_parts(draws[0].batches, draws[0].words)]
        else:
            batches = self._pad([epoch.batches for epoch in draws])
            words = self._pad([epoch.words[0] for epoch in draws])
            read = self._call(batches, words, n_together)
            self._draw(min(self.most_together, n_epochs - n_together), draw_order, rng)
            rows = [means | others for means, others in self._read(read)]
        if len(rows) < n_together:  # training has ended early
            self.drawn.clear()
        rng.bit_generator.state = draws[len(rows) - 1].state
        n_fitting = n_together * CALL_SECONDS / max(monotonic() - began, 1e-9)
        self.n_together = int(np.clip(n_fitting, 1, self.most_together))
        self.epoch_number += len(rows)
        return rows

    def _draw(self, n_epochs, draw_order, rng):
        """Draw the minibatches and random words of epochs, until so many epochs are drawn."""
        if self.drawn:
            rng.bit_generator.state = self.drawn[-1].state
        while len(self.drawn) < n_epochs:
            batches = self._divide(draw_order(rng)).astype(np.int32)
            words = np.array([self.device.words(rng) for _ in range(self.n_parts)])
            self.drawn.append(DrawnEpoch(batches, words, rng.bit_generator.state))

    def _divide(self, order):
        """Return the row numbers of the minibatches of an epoch."""
        if self.n_real_rows is not None:
            return np.append(order, np.arange(len(order), self.shape[1]))[None]
        batches = np.resize(order, (self.n_batches, self.shape[1]))
        return np.resize(batches, self.shape)

    def _pad(self, parts):
        """Return an array with the parts, and with zeros for more epochs."""
        padded = np.zeros((self.most_together, *parts[0].shape), parts[0].dtype)
        padded[: len(parts)] = parts
        return padded

    def _run_parts(self, batches, words):
        """Return the diagnostics of an epoch that needs several calls of the device."""
        total = {}
        for part, own in zip(np.array_split(batches, self.n_parts), words[:, None], strict=True):
            ((means, others),) = self._read(self._call(part[None], own, 1))
            share = len(part) / len(batches)
            total = {k: total.get(k, 0.0) + share * v for k, v in means.items()} | others
        return total

    def _call(self, batches, words, n_epochs):
        """Run epochs, or a part of one, on the device; return a function for the diagnostics."""
        data = self.rows
        if data is None:
            order = np.argsort(batches, axis=None)  # files are read faster in their order
            data = self._put_rows(batches.ravel()[order])
            batches = np.argsort(order).astype(np.int32).reshape(batches.shape)
        constants = self.constants | {"epoch": np.int32(self.epoch_number)}
        if self.has_idle_batches:
            constants["n_updates"] = np.int32(self.n_batches)
        with InterruptLater(), self.device.memory_errors("Training", self.n_bytes):
            self.carry, read = self.run(self.carry, constants, words, data, batches, n_epochs)
        return read

    def _read(self, read):
        """Wait for the device, and return the diagnostics of a call."""
        with InterruptLater(), self.device.memory_errors("Training", self.n_bytes):
            return read()

    def collect(self, complete=True):
        """Return the changed fields of the training state, or only the model, on the host."""
        if not complete:
            like = {k: self.arrays[k] for k in ("theta", "averaged", "n_averaged")}
            arrays = self.device.get(restrict(self.carry, like), like)
            return {"energy": self.state.energy.with_theta(arrays.pop("theta")), **arrays}
        arrays = self.device.get(self.carry, self.arrays)
        energy, before = self.state.energy.with_theta(arrays["theta"]), self.state.learner
        imputer = _imputer_of(before)
        sources = getattr(before, "generators", None), imputer and imputer.rng
        learner_state = self.form.insert(arrays["learner"], energy, *sources)
        return {
            "energy": energy,
            "learner": self.learner.unpad(learner_state),
            **{k: arrays[k] for k in SHARED_FIELDS},
        }


def _pad_rows(X, n_rows):
    """Return rows of numpy with rows of zeros after them, unless they need much memory.

    No minibatch has these rows. With several minibatches, folds of a cross-validation whose sizes
    differ by one row often have the same number of padded rows, so that functions compile once.
    """
    if not is_numpy(X) or X.nbytes > BLOCK_BYTES or len(X) == n_rows:
        return X
    padded = np.zeros((n_rows, *X.shape[1:]), X.dtype)
    padded[: len(X)] = X
    return padded


class LearnerArrays:
    """Conversion of a learner's state to nested dicts of arrays, and back.

    The random generators are not converted, and the model only if the learner needs the last one.

    Parameters
    ----------
    learner : Learner
        Learner whose ``is_pure`` is True.
    state : object
        A state of the learner.
    """

    def __init__(self, learner, state):
        self.has_model = learner.needs_last_model
        self.template = without_numbers(_with_sources(state))

    def extract(self, state):
        """Return the arrays of a state."""
        arrays = extract(_with_sources(state))
        return arrays | {"energy": state.energy.theta} if self.has_model else arrays

    def insert(self, arrays, energy, generators, rng):
        """Return a state with the given arrays and random generators.

        Its model is ``energy``, with the parameters in the arrays if there are any. ``rng`` has the
        random numbers of missing entries.
        """
        energy = energy.with_theta(arrays["energy"]) if self.has_model else energy
        return _with_sources(insert(self.template, arrays), energy, generators, rng)


def _with_sources(state, energy=None, generators=None, rng=None):
    """Return a state of a learner with another model and other random generators."""
    changes = {"energy": energy, "generators": generators}
    if isinstance(getattr(state, "data", None), DataPhase):
        changes["data"] = state.data.with_rng(rng)
    return _replace_fields(state, **changes)


def _imputer_of(state):
    """Return the imputer of missing entries in a learner's state, or None."""
    return getattr(getattr(state, "data", None), "imputer", None)


def _replace_fields(state, **changes):
    """Return a state with other values of those fields that it has."""
    names = {field.name for field in fields(state)} if is_dataclass(state) else ()
    changes = {k: v for k, v in changes.items() if k in names}
    return replace(state, **changes) if changes else state


def pure_update(update, learner, settings, state, form):
    """Return a parameter update as a function of arrays only.

    Parameters
    ----------
    update : callable
        Function of the training loop that makes one gradient step.
    learner : Learner
        Estimator of the gradient.
    settings : Settings
        Settings of the run.
    state : LoopState
        State whose model has the shapes of the parameters.
    form : LearnerArrays
        Conversion of the learner's state.

    Returns
    -------
    update_arrays : callable
        Function ``(carry, constants, rows, chains) -> (carry, diagnostics)``. ``carry`` is a dict
        with the arrays of the training state, ``constants`` the numbers in the settings and the
        index arrays of the model.
    identity : tuple
        All on which the function depends. Functions with the same identity are the same.
    """
    parts, energy_form = without_numbers(_parts_of(settings)), without_values(state.energy)
    # The other settings can hold training rows, and compiled functions stay in memory.
    fixed = Settings(average=settings.average, recency=settings.recency, **parts)

    def update_arrays(carry, constants, rows, chains):
        given = insert(parts, constants)
        energy = energy_form.with_device_arrays(constants["model"]).with_theta(carry["theta"])
        before = LoopState(
            energy=energy,
            learner=form.insert(carry["learner"], energy, chains, chains),
            rng=chains,
            **{k: carry[k] for k in SHARED_FIELDS},
        )
        batch = Batch(**rows, epoch=constants["epoch"], step=carry["step"])
        after, info, is_done = update(learner, batch, replace(fixed, **given), before, Pure)
        return {
            "theta": after.energy.theta,
            "learner": restrict(form.extract(after.learner), carry["learner"]),
            **{k: getattr(after, k) for k in SHARED_FIELDS},
        }, info | {"is_done": is_done}

    shapes = tuple((k, v.shape) for k, v in energy_form.theta.items())
    n_states = np.asarray(getattr(energy_form, "n_states", ())).tobytes()
    model = type(energy_form), options_of(energy_form), shapes, n_states
    means = settings.average, settings.recency
    rule = type(learner), identity_of(learner), describe(form.template), *means
    return update_arrays, (*rule, describe(parts), model)


def _parts_of(settings):
    """Return the parts of settings that an update reads."""
    return {
        "rate": settings.rate,
        "penalty": settings.penalty,
        "optimizer": settings.optimizer,
        "resolution": float(settings.resolution),
    }


def _arrays_of(state, rate, form):
    """Return the arrays and numbers of a training state that an update changes."""
    return {
        "theta": state.energy.theta,
        "learner": form.extract(state.learner),
        "optimizer": state.optimizer,
        "rate": rate.pure_state(state.rate, state.energy.theta),
        "averaged": state.averaged,
        "n_averaged": state.n_averaged,
        "step": state.step,
    }


def _chain_axes(state, arrays, n_chains):
    """Return the axes of the chains of those arrays of a learner's state that have chains.

    The parts of a state that have chains declare the axes in their attribute ``chain_axes``.
    """
    axes, declared = {}, getattr(state, "chain_axes", {})
    for name, value in arrays.items():
        if isinstance(value, dict):
            axes[name] = _chain_axes(getattr(state, str(name), None), value, n_chains)
        elif name in declared:
            axis = np.ndim(value) + declared[name]
            if axis >= 0 and np.shape(value)[axis] == n_chains:
                axes[name] = axis
    return axes


def check_device_learner(learner, energy_type):
    """Raise a ValueError unless a learner can train energies of a class on a device of JAX."""
    if not _runs_on_device(learner, energy_type):
        known = accepted(energy_type).items()
        names = sorted(name for name, kind in known if _runs_on_device(kind, energy_type))
        raise ValueError(
            f"The learner {learner!r} does not run on a device of JAX. Use one of {names}, or "
            'device="cpu".'
        )


def _runs_on_device(learner, energy_type):
    """Return whether JAX can compile the steps of a learner for energies of a class."""
    has_protocols = all(issubclass(energy_type, p) for p in learner.device_requires)
    return learner.is_pure and has_protocols


def _check_restriction(settings):
    """Raise a ValueError if training removes parameters, which JAX cannot compile."""
    if not isinstance(settings.restriction, NoRestriction):
        raise ValueError(
            "Removal of parameters during training (restriction) does not run on a device of JAX. "
            'Train without a restriction, or device="cpu".'
        )


def _check_potentials(energy):
    """Raise a ValueError if a model has zero potentials."""
    if any(np.isneginf(v).any() for v in energy.theta.values()):
        raise ValueError(
            'A device of JAX trains models without zero potentials (-inf). Use device="cpu".'
        )
