"""Devices of JAX: transfers of arrays, compiled updates of parameters, and errors of memory."""

from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np

from .._utils.namespaces import is_numpy
from .._utils.results import LatestArray
from .chains import DeviceChains

RESIDENT_SHARE = 0.5  # of the free memory of a device that training rows may take
EXHAUSTED = "RESOURCE_EXHAUSTED"  # is in the message of an error of JAX
MAX_COMPILED = 64
_COMPILED = {}  # functions by their identity, so that a repeated fit does not compile


class Device:
    """Device on which JAX computes.

    Parameters
    ----------
    device : jax.Device
        The device.
    """

    def __init__(self, device):
        self.device = device

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

    def holds(self, array):
        """Return whether an array of JAX is on this device, and only there."""
        return not is_numpy(array) and array.devices() == {self.device}

    def put(self, arrays):
        """Copy the arrays in nested dicts to the device, unless they are there.

        Numbers become arrays, and floating-point arrays have the dtype float32.
        """
        return jax.device_put(jax.tree.map(_small_type, arrays), self.device)

    def get(self, arrays, like):
        """Copy the arrays in nested dicts to numpy arrays, with the order and types of ``like``."""
        return _restore(jax.device_get(arrays), like)

    def chains(self, rng):
        """Return Markov chains with a key that is drawn from a generator of numpy."""
        return DeviceChains(jax.random.wrap_key_data(self.put(self.words(rng))), self)

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

    def compile_updates(self, update, identity):
        """Compile many updates of parameters into one function.

        Parameters
        ----------
        update : callable
            Function ``(carry, constants, rows, chains) -> (carry, diagnostics)``. ``carry`` and
            ``constants`` are nested dicts of arrays, ``rows`` the training rows of the update, and
            ``diagnostics`` a dict of numbers.
        identity : tuple
            All on which the function depends. It is compiled only once for an identity.

        Returns
        -------
        callable
            Function ``(carry, constants, words, data, batches) -> (carry, sums, latest)`` with two
            random words of 32 bits, a dict ``data`` of arrays with all rows, and the row numbers
            ``batches`` of shape (n_updates, batch_size). ``sums`` has the sum of each diagnostic,
            and ``latest`` the last value of those that are :class:`LatestArray`. The arrays of the
            given carry must not be used again.
        """
        return _keep(identity, CompiledUpdates, update)

    @staticmethod
    def compile(function, identity, *, exact=False):
        """Compile a function of arrays with JAX, once for each identity.

        With ``exact``, matrix products have the full precision of float32.
        """
        return _keep(identity, _compile_exact if exact else jax.jit, function)


def _keep(identity, make, function):
    """Return ``make(function)``, or its stored result for the same identity."""
    if identity not in _COMPILED:
        if len(_COMPILED) >= MAX_COMPILED:
            _COMPILED.pop(next(iter(_COMPILED)))
        _COMPILED[identity] = make(function)
    return _COMPILED[identity]


class CompiledUpdates:
    """Many updates of parameters as one compiled function.

    Parameters
    ----------
    update : callable
        Function of :meth:`Device.compile_updates`.
    """

    def __init__(self, update):
        self.update, self.names, self.latest = update, None, None
        self.compiled = jax.jit(self._run, donate_argnums=0)

    def __call__(self, carry, constants, words, data, batches):
        """Return the arrays after all updates, and the sums and last values of diagnostics."""
        carry, values = self.compiled(carry, constants, words, data, batches)
        sums, latest = np.asarray(values).tolist()
        sums, latest = (dict(zip(self.names, v, strict=True)) for v in (sums, latest))
        return (
            carry,
            {k: v for k, v in sums.items() if k not in self.latest},
            {k: v for k, v in latest.items() if k in self.latest},
        )

    def _run(self, carry, constants, words, data, batches):
        def step(carry, inputs):
            rows, key = inputs
            batch = jax.tree.map(lambda a: a[rows], data)
            after, diagnostics = self.update(carry, constants, batch, DeviceChains(key))
            self.names = sorted(diagnostics)
            self.latest = {k for k, v in diagnostics.items() if isinstance(v, LatestArray)}
            numbers = [_number(diagnostics[k]) for k in self.names]
            values = jnp.stack([jnp.asarray(v, jnp.float32) for v in numbers])
            return jax.tree.map(lambda new, old: new.astype(old.dtype), after, carry), values

        keys = jax.random.split(jax.random.wrap_key_data(words), len(batches))
        carry, values = jax.lax.scan(step, carry, (batches, keys))
        # One array, because each transfer takes time.
        return carry, jnp.stack([values.sum(axis=0), values[-1]])


def find_device(name):
    """Return the device of a name: the first GPU, or for "jax" the default device of JAX."""
    if name == "jax":
        return Device(jax.devices()[0])
    try:
        return Device(jax.devices("gpu")[0])
    except RuntimeError as error:
        raise ValueError(
            f'device="{name}" needs a GPU, but JAX finds only {jax.devices()}. Install the drivers '
            'and pip install "skmrf[cuda]", or use device="cpu".'
        ) from error


def _compile_exact(function):
    def with_precision(*args):
        with jax.default_matmul_precision("highest"):
            return function(*args)

    return jax.jit(with_precision)


def _number(diagnostic):
    return diagnostic.value if isinstance(diagnostic, LatestArray) else diagnostic


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
