"""Devices of JAX: transfers of arrays, compiled updates of parameters, and errors of memory."""

from contextlib import ExitStack, contextmanager
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._utils.namespaces import are_same, is_numpy
from .._utils.results import LatestArray
from .chains import DeviceChains, compiled, padded_blocks
from .in_order import CHAINS
from .rows import RowSums, WeightedSum, enable_x64

RESIDENT_SHARE = 0.5  # of the free memory of a device that training rows may take
EXHAUSTED = "RESOURCE_EXHAUSTED"  # is in the message of an error of JAX
MAX_COMPILED = 64
SETTINGS = (  # of JAX, in place of those of the user
    (enable_x64, False),
    (jax.debug_nans, False),  # some carries start with nan
    (jax.default_prng_impl, "threefry2x32"),  # has keys of two words
    (jax.numpy_dtype_promotion, "standard"),
    (jax.numpy_rank_promotion, "allow"),
)
_COMPILED = {}  # functions by their identity, so that a repeated fit does not compile


class Device:
    """Device on which JAX computes, or several devices among which Markov chains are divided.

    Parameters
    ----------
    devices : list of jax.Device
        All devices that can be used.
    n_used : int, default=1
        Number of devices that are used.

    Attributes
    ----------
    device : jax.Device
        The first device.
    n_used : int
        Number of devices that are used.
    is_processor : bool
        Whether the device is a processor, on which compiled functions of numba are faster.
    """

    sent = ()  # arrays of the last path of chains, with their copies

    def __init__(self, devices, n_used=1):
        self.devices, self.device, self.n_used = devices, devices[0], n_used
        self.is_processor = self.device.platform == "cpu"
        self._mesh = Mesh(np.array(devices[:n_used]), (CHAINS,)) if n_used > 1 else None

    def __repr__(self):
        """Return the name of the device."""
        return f"Device({self.device.device_kind!r})"

    @property
    def free_bytes(self):
        """Free memory of the device in bytes; inf if the device does not report it."""
        statistics = self.device.memory_stats() or {}
        if "bytes_limit" not in statistics:
            return float("inf")
        return float(statistics["bytes_limit"] - statistics["bytes_in_use"])

    def keeps(self, n_bytes):
        """Return whether training rows of this size stay on the device during the whole fit."""
        return n_bytes <= RESIDENT_SHARE * self.free_bytes

    def spread(self, n_chains):
        """Return as many devices as possible among which chains can be divided equally."""
        counts = range(1, len(self.devices) + 1)
        return Device(self.devices, max(k for k in counts if n_chains % k == 0))

    @contextmanager
    def context(self):
        """Return a context in which compiled functions find the devices that are used.

        It replaces a mesh and other settings that the user has set.
        """
        with ExitStack() as stack:
            for setting, value in SETTINGS:
                stack.enter_context(setting(value))
            if self._mesh is not None or not jax.sharding.get_abstract_mesh().empty:
                mesh = self._mesh or Mesh(np.array([self.device]), (CHAINS,))
                stack.enter_context(jax.set_mesh(mesh))
            yield

    def holds(self, array):
        """Return whether an array of JAX is on all devices that are used, and only there."""
        if is_numpy(array):
            return False
        used = set(self.devices[: self.n_used])
        return array.sharding.is_fully_replicated and array.devices() == used

    def put(self, arrays, axes=None):
        """Copy the arrays in nested dicts to the device, unless they are there.

        Numbers become arrays, and floating-point arrays have the dtype float32.

        Parameters
        ----------
        arrays : nested dict of arrays
            Arrays of numpy or JAX.
        axes : nested dict of int, optional
            Axis of the chains for those arrays that are divided among several devices. The other
            arrays are copied to each device.

        Returns
        -------
        nested dict of jax.Array
            Arrays on the device.
        """
        with self.context():
            arrays = jax.tree.map(_small_type, arrays)
            return jax.device_put(arrays, self._shardings(arrays, axes))

    def put_once(self, arrays, used):
        """Return copies of arrays on the devices that are used, and keep them until the next call.

        Arrays that are equal to those of the last call are not sent again.
        """
        kept = [(a, there) for a, there, n_used in self.sent if n_used == used.n_used]
        copies = [next((there for a, there in kept if are_same(a, b)), None) for b in arrays]
        self.sent = kept = ()  # frees the other copies
        copies = [used.put(a) if c is None else c for a, c in zip(arrays, copies, strict=True)]
        values = [a.copy() if is_numpy(a) else a for a in arrays]  # they can be modified later
        self.sent = [(a, c, used.n_used) for a, c in zip(values, copies, strict=True)]
        return tuple(copies)

    def constrain(self, arrays, axes=None):
        """Return arrays of a compiled function, divided among the devices as by :meth:`put`."""
        if self._mesh is None:
            return arrays
        return jax.lax.with_sharding_constraint(arrays, self._shardings(arrays, axes))

    def _shardings(self, arrays, axes):
        if self._mesh is None:
            return self.device
        if isinstance(arrays, dict):
            axes = axes or {}
            return {k: self._shardings(v, axes.get(k)) for k, v in arrays.items()}
        names = () if axes is None else (*[None] * axes, CHAINS)
        sharding = NamedSharding(self._mesh, PartitionSpec(*names))
        return jax.tree.map(lambda _: sharding, arrays)

    def get(self, arrays, like):
        """Copy the arrays in nested dicts to numpy arrays, with the order and types of ``like``."""
        return _restore(jax.device_get(arrays), like)

    def chains(self, rng):
        """Return Markov chains with a key that is drawn from a generator of numpy."""
        words = self.put(self.words(rng))
        with self.context():
            return DeviceChains(jax.random.wrap_key_data(words), self)

    @staticmethod
    def words(rng):
        """Return two random words of 32 bits, which are the key of a generator of JAX."""
        return rng.integers(2**32, size=2, dtype=np.uint32)

    def check_memory(self, what, n_bytes):
        """Raise a MemoryError with a remedy if the device has less free memory."""
        if n_bytes > self.free_bytes:
            raise self._memory_error(what, n_bytes)

    @contextmanager
    def memory_errors(self, what, n_bytes):
        """Turn an error of JAX about too little memory into a MemoryError with a remedy."""
        try:
            yield
        except jax.errors.JaxRuntimeError as error:
            if EXHAUSTED not in str(error):
                raise
            raise self._memory_error(what, n_bytes) from error

    def _memory_error(self, what, n_bytes):
        return MemoryError(
            f"{what} needs about {n_bytes:.4g} bytes of the device, and {self.free_bytes:.4g} are "
            'free. Use fewer components, chains or rows in a batch, or device="cpu".'
        )

    def compile_updates(self, update, identity, axes=None):
        """Compile many updates of parameters, in one or several epochs, into one function.

        Parameters
        ----------
        update : callable
            Function ``(carry, constants, rows, chains) -> (carry, diagnostics)``. ``carry`` and
            ``constants`` are nested dicts of arrays, ``rows`` the training rows of the update, and
            ``diagnostics`` a dict of numbers.
        identity : tuple
            All on which the function depends. It is compiled only once for an identity.
        axes : nested dict of int, optional
            Axes of the chains in the carry, as in :meth:`put`.

        Returns
        -------
        callable
            Function ``(carry, constants, words, data, batches, n_epochs) -> (carry, read)`` for at
            most ``n_epochs`` epochs. It does not wait for the device; ``read() -> rows`` waits.
            ``words`` has two random words of 32 bits for each epoch, shape (n, 2). Epochs after the
            first ``n_epochs`` are not used. ``data`` is a dict of arrays with all rows.
            ``batches`` has the row numbers of all minibatches, shape (n, n_updates, batch_size).
            The epochs end early after one in which the diagnostic ``is_done`` is not zero.
            ``constants["epoch"]`` is the number of the first epoch. If there is a number
            ``constants["n_updates"]``, only so many minibatches of an epoch are used. ``rows`` has
            two dicts for each epoch: the means of diagnostics, and the last value of each
            :class:`LatestArray`. The arrays of the given carry must not be used again.
        """
        identity = (*identity, self.n_used, repr(axes))
        return _keep(identity, partial(CompiledUpdates, device=self, axes=axes), update)

    def compile(self, function, identity, *, exact=False):
        """Compile a function of arrays with JAX, once for each identity.

        With ``exact``, matrix products have the full precision of float32.
        """
        kept = _keep(identity, _compile_exact if exact else compiled, function)

        def run(*args):
            with self.context():
                return kept(*args)

        return run

    def compute_rows(self, function, theta, take, out, *, largest, n_entries):
        """Fill an array with the values of a compiled function, one block of rows after the other.

        Parameters
        ----------
        function : callable
            Function ``(theta, rows) -> values``, with one row of values for each row.
        theta : dict of ndarray
            Parameters.
        take : callable
            Function that returns the rows with given numbers, for which values are computed.
        out : ndarray of shape (n_rows, n_values)
            Array that is filled.
        largest : int
            Largest number of rows in a block.
        n_entries : int
            Number of entries of the arrays of a row on the device.

        Raises
        ------
        MemoryError
            If the device has too little free memory.
        """
        blocks = padded_blocks(len(out), largest)
        n_bytes = 4.0 * (sum(v.size for v in theta.values()) + blocks.shape[1] * n_entries)
        self.check_memory("Inference", n_bytes)
        with self.memory_errors("Inference", n_bytes):
            theta = self.put(theta)
            for rows in blocks:
                out[rows] = function(theta, self.put(take(rows)))

    def weighted_sum(self, terms, constant, identity, X, weights):
        """Return a function of parameters and its gradient, which the device computes in float64.

        The rows are sent to the device once.

        Parameters
        ----------
        terms : callable
            Function ``(theta, rows) -> array of shape (n_rows,)``.
        constant : callable
            Function ``theta -> number``.
        identity : tuple
            All on which both functions depend. They are compiled only once for an identity.
        X : array of shape (n_rows, n_columns)
            Rows of numpy or JAX.
        weights : ndarray of shape (n_rows,)
            Weights of the rows.

        Returns
        -------
        WeightedSum
            The function ``theta -> constant(theta) + weights @ terms(theta, X)``.
        """
        sums = _keep(("weighted sum", *identity), RowSums, (terms, constant))
        return WeightedSum(sums, self, X, weights)


def _keep(identity, make, function):
    """Return ``make(function)``, or its stored result for the same identity."""
    if identity not in _COMPILED:
        if len(_COMPILED) >= MAX_COMPILED:
            _COMPILED.pop(next(iter(_COMPILED)))
        _COMPILED[identity] = make(function)
    return _COMPILED[identity]


class CompiledUpdates:
    """Epochs of many updates of parameters as one compiled function.

    Parameters
    ----------
    update : callable
        Function of :meth:`Device.compile_updates`.
    device : Device
        Device that computes.
    axes : nested dict of int, optional
        Axes of the chains in the carry.
    """

    def __init__(self, update, device, axes=None):
        self.update, self.names, self.latest = update, None, None
        self.device, self.axes = device, axes
        self.compiled = compiled(self._run, donate_argnums=0)

    def __call__(self, carry, constants, words, data, batches, n_epochs):
        """Return the arrays after all epochs, and a function that returns the diagnostics."""
        with self.device.context():
            n_epochs = np.int32(n_epochs)
            carry, values = self.compiled(carry, constants, words, data, batches, n_epochs)

        def read():
            (n_done, *_), *rows = np.asarray(values).tolist()
            return [self._by_name(row) for row in rows[: int(n_done)]]

        return carry, read

    def _by_name(self, row):
        """Return the dict of the means and the dict of the latest values of an epoch."""
        names = self.names, list(self.latest)
        parts = row[: len(names[0])], row[len(names[0]) :]
        return tuple(dict(zip(*pair, strict=True)) for pair in zip(names, parts, strict=True))

    def _run(self, carry, constants, words, data, batches, n_epochs):
        """Run at most ``n_epochs`` epochs, until one of them ends training.

        The first row of the values has the number of epochs; each other row belongs to an epoch.
        """

        @jax.jit  # so that it is traced only once
        def run_epoch(k, carry, words, batches):
            now = constants | {"epoch": constants["epoch"] + k}
            return self._run_epoch(carry, now, words, data, batches)

        k = jnp.int32(0)
        _, row = jax.eval_shape(run_epoch, k, carry, words[k], batches[k])
        is_done = self.names.index("is_done")

        def goes_on(state):
            k, _, values = state
            return (k < n_epochs) & ((k == 0) | (values[k, is_done] == 0))

        def step(state):
            k, carry, values = state
            carry, row = run_epoch(k, carry, words[k], batches[k])
            return k + 1, carry, values.at[k + 1].set(row)

        values = jnp.zeros((len(batches) + 1, *row.shape), row.dtype)
        k, carry, values = jax.lax.while_loop(goes_on, step, (k, carry, values))
        return carry, values.at[0].set(k)  # one array, because each transfer takes time

    def _run_epoch(self, carry, constants, words, data, batches):
        """Run one epoch; the values are the means over its updates, and the latest values."""
        is_divided = batches.shape[1] % self.device.n_used == 0
        row_axes = dict.fromkeys(data, 0) if is_divided else None

        @jax.jit  # so that it is traced only once
        def move(carry, rows, key):
            batch = jax.tree.map(lambda a: a[rows], data)
            batch = self.device.constrain(batch, row_axes)
            after, diagnostics = self.update(carry, constants, batch, DeviceChains(key))
            after = jax.tree.map(lambda new, old: new.astype(old.dtype), after, carry)
            latest = {k: v for k, v in diagnostics.items() if isinstance(v, LatestArray)}
            means = {k: v for k, v in diagnostics.items() if k not in latest}
            self.names, self.latest = list(means), {k: v.compute for k, v in latest.items()}
            arrays = {k: v.arrays for k, v in latest.items()}
            return self.device.constrain(after, self.axes), arrays, _vector(means.values())

        def step(state, inputs):
            *state, means = move(state[0], *inputs)
            return state, means

        def add(k, state):
            *state, total = state
            state, means = step(state, (batches[k], keys[k]))
            return [*state, total + means]

        keys = jax.random.split(jax.random.wrap_key_data(words), len(batches))
        _, *shapes = jax.eval_shape(move, carry, batches[0], keys[0])
        arrays, total = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
        if "n_updates" in constants:  # a scan is faster on a GPU, but its length is compiled
            n_updates = constants["n_updates"]
            carry, arrays, total = jax.lax.fori_loop(0, n_updates, add, [carry, arrays, total])
            means = total / n_updates
        else:
            (carry, arrays), means = jax.lax.scan(step, [carry, arrays], (batches, keys))
            means = means.mean(axis=0)
        latest = _vector([compute(arrays[name]) for name, compute in self.latest.items()])
        return carry, jnp.concatenate([means, latest])


def find_device(name):
    """Return the devices of a name: all GPUs, or for "jax" the default devices of JAX."""
    if name == "jax":
        default = jax.config.jax_default_device
        is_one = default is not None and not isinstance(default, str)
        return Device([default] if is_one else jax.devices(default))
    try:
        return Device(jax.devices("gpu"))
    except RuntimeError as error:
        raise ValueError(
            f'device="{name}" needs a GPU, but JAX finds only {jax.devices()}. Install the drivers '
            'and pip install "skmrf[cuda]", or use device="cpu".'
        ) from error


def _compile_exact(function):
    def with_precision(*args):
        with jax.default_matmul_precision("highest"):
            return function(*args)

    return compiled(with_precision)


def _vector(numbers):
    """Return numbers as an array."""
    return jnp.asarray(list(numbers), jnp.float32)


def _small_type(value):
    if isinstance(value, jax.Array):
        return value.astype(np.float32) if value.dtype == np.float64 else value
    value = np.asarray(value)
    return value.astype(np.float32) if value.dtype.kind == "f" else value


def _restore(value, like):
    if isinstance(like, dict):
        return {k: _restore(value[k], v) for k, v in like.items()}
    if isinstance(like, np.ndarray):
        return np.asarray(value).astype(like.dtype)
    return type(like)(value)
