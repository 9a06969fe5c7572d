"""Checkpoints: write fits to a file and resume them."""

import os
import time
from copy import deepcopy
from hashlib import blake2b
from pathlib import Path
from threading import get_ident

import joblib
import numpy as np
from scipy.sparse import issparse

from .._utils.namespaces import as_numpy
from .._utils.parameters import check_number
from .._utils.warn import warn_caller
from .._version import __version__
from ..energies.table_backed import TableEnergy

DIGEST_BYTES = 32  # at the end of a file
BYTES_PER_READ = 2**20


class NoCheckpoint:
    """Placeholder for fits without a checkpoint: it writes nothing.

    Attributes
    ----------
    ended : bool
        Whether the fit in the file is complete; always False.
    """

    ended = False

    def begin(self, rng, estimator, *inputs):
        """Return ``rng`` unchanged, because no checkpoint file has another random generator."""
        return rng

    def take_saved(self):
        """Return None, because no training state was saved."""
        return

    def set_fixed(self, value):
        """Do nothing, because there is no checkpoint file."""

    def write(self, state, *, ended=False):
        """Do nothing, because there is no checkpoint file."""


class FileCheckpoint(NoCheckpoint):
    """Checkpoint file of one fit.

    Clones of an estimator share the callback, but each fit has its own ``FileCheckpoint``.

    Attributes
    ----------
    ended : bool
        Whether the fit in the file is complete.
    """

    def __init__(self, path, interval):
        self.path = path
        self.interval = interval
        self._write_time = time.monotonic()
        self._saved = None

    def begin(self, rng, estimator, *inputs):
        """Return the random generator of the fit in the file, or ``rng`` if there is no file.

        The parameters of the estimator and the ``inputs`` of ``fit`` identify a fit.
        """
        identity = _hash_fit(estimator, inputs)
        if not self.path.exists():
            self._fit = {"identity": identity, "rng": deepcopy(rng)}
            return rng
        saved = self._read()
        if saved["identity"] != identity:
            raise ValueError(
                f"{self.path} belongs to another fit: its parameters, rows, weights, initial "
                "values or version of skmrf differ. Delete the file, or give Checkpoint another "
                "path."
            )
        self._saved, self.ended = (saved["state"], saved["fixed"]), saved["ended"]
        self._fit = {"identity": identity, "rng": saved["rng"]}
        return deepcopy(saved["rng"])

    def take_saved(self):
        """Return the saved training state and fixed value at the first call, and None later."""
        saved, self._saved = self._saved, None
        return saved

    def set_fixed(self, value):
        """Set a value, such as a seed, that is written to the file with each training state."""
        self._fit["fixed"] = value

    def _read(self):
        with open(self.path, "rb") as file:
            if _is_intact(file):
                file.seek(0)
                return joblib.load(file)
        raise ValueError(
            f"{self.path} is not a checkpoint file of this version, or it is damaged. Delete it, "
            "or give Checkpoint another path."
        )

    def write(self, state, *, ended=False):
        """Write the training state if the fit has ended or the checkpoint interval is over."""
        if not ended and time.monotonic() - self._write_time < self.interval:
            return
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}-{get_ident()}.part")
        try:
            with open(temporary, "wb") as file:
                hashed = _HashedFile(file)
                joblib.dump(self._fit | {"state": state, "ended": ended}, hashed)
                file.write(hashed.digest.digest())
            os.replace(temporary, self.path)
        except (OSError, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt) and not ended:
                raise  # the loop handles it
            warn_caller(
                f"{self.path} could not be written; the fit continues without it. The error was "
                f"{error!r}."
            )
        finally:
            temporary.unlink(missing_ok=True)
        self._write_time = time.monotonic()


class _HashedFile:
    """Binary file that computes the digest of all bytes that are written to it."""

    def __init__(self, file):
        self.file = file
        self.digest = blake2b(digest_size=DIGEST_BYTES)

    def write(self, content):
        """Write bytes and add them to the digest."""
        self.digest.update(content)
        return self.file.write(content)

    def tell(self):
        """Return the current position in the file."""
        return self.file.tell()


def _is_intact(file):
    """Return True if a file ends with the digest of all its other bytes, so that it is not damaged.

    Nothing is unpickled, so a damaged file cannot crash the process.
    """
    n_left = file.seek(0, os.SEEK_END) - DIGEST_BYTES
    file.seek(0)
    digest = blake2b(digest_size=DIGEST_BYTES)
    while n_left > 0:
        content = file.read(min(n_left, BYTES_PER_READ))
        digest.update(content)
        n_left -= len(content)
    return file.read() == digest.digest()


class Checkpoint:
    """Callback that writes a fit to a file and resumes the same fit from this file.

    To resume a fit that was killed, call ``fit`` with the same arguments. The fit continues after
    the last epoch in the file and returns the same model as an uninterrupted fit, bit for bit. If
    the fit in the file is complete, ``fit`` returns its model without training. With
    ``alpha="auto"``, ``DiscreteMRF``, ``BoltzmannMachine`` and ``RBM`` repeat the choice of the
    penalty, which is made before training.

    Some estimators are trained in parts, and resume after the last part in the file:
    ``MRFStructureLearner`` after the search for the graph and after each bootstrap,
    ``NNMRFClassifier`` after each member, and ``NNMRFBayesClassifier`` after the density of each
    class. ``NNMRFDensity`` with ``GaussianPotentials``, the default, is a single part.

    Parameters
    ----------
    path : str or path-like
        Name of the file. Each write replaces the whole file. A fit that is killed during a write
        leaves the previous file, and a temporary file that ends in ``.part``. A digest at the end
        of the file detects damage. The file is a pickle: do not load one that you do not trust.
    interval : float, default=60.0
        Minimum number of seconds between two writes. With 0, the file is written after each epoch
        or part. The end of a fit is always written.

    Raises
    ------
    TypeError
        From ``fit``: the estimator is not one of this package, such as a ``GridSearchCV``.
    ValueError
        From ``fit``: the file belongs to another fit (with other parameters, rows, weights, initial
        values or version of skmrf), the file is not a checkpoint or is damaged, or the estimator
        has two checkpoints.
    FileNotFoundError, IsADirectoryError
        From ``fit``: the folder of the file does not exist, or the path is a folder.

    Notes
    -----
    The file contains the parameters, the state of the optimizer or solver (41 arrays of the size of
    the parameters for L-BFGS), the state of the learner (chains, particles and their random
    generators) and ``history_``. For estimators that are trained in parts, it contains the complete
    parts. Parts that Ctrl-C interrupted are not written.

    Other callbacks start anew when a fit is resumed: :class:`EarlyStopping` counts its patience
    from there. In contrast, the patience of ``early_stopping=True`` continues. ``partial_fit``
    writes no file. Validation rows that are passed to ``fit`` are not compared with those of the
    fit in the file. If the file cannot be written, for example because the disk is full, the fit
    warns and continues.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skmrf import BoltzmannMachine
    >>> from skmrf.training import Checkpoint
    >>> X = [[-1, 1, 1], [1, 1, -1], [-1, -1, 1], [1, -1, -1]] * 20
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "fit.joblib"
    ...     model = BoltzmannMachine("pcd", random_state=0).set_callbacks(Checkpoint(path))
    ...     first = model.fit(X).coupling_
    ...     again = model.fit(X).coupling_  # read from the file
    >>> bool((first == again).all())
    True
    """

    def __init__(self, path, interval=60.0):
        check_number("interval", interval, low=0)
        self.path = Path(path).expanduser().resolve()
        self.interval = interval

    def setup(self, estimator, context):
        """Prepare the checkpoint file before a fit."""
        if not hasattr(estimator, "_checkpoint"):
            raise TypeError(
                f"Checkpoint works with the estimators of skmrf only; got a "
                f"{type(estimator).__name__}. In a parameter search, each candidate would need its "
                "own file."
            )
        if "_checkpoint" in vars(estimator):
            raise ValueError("A fit takes one Checkpoint, but set_callbacks got two.")
        if self.path.is_dir():
            raise IsADirectoryError(
                f"The path of Checkpoint, {self.path}, is a folder; give the name of a file."
            )
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"The folder of Checkpoint, {self.path.parent}, does not exist; create it first."
            )
        estimator._checkpoint = FileCheckpoint(self.path, self.interval)

    def teardown(self, estimator, context):
        """Remove the checkpoint from the estimator after a fit."""
        vars(estimator).pop("_checkpoint", None)

    def on_fit_task_begin(self, estimator, context):
        """Do nothing when a task begins, because the fit itself reads and writes its state."""

    def on_fit_task_end(self, estimator, context):
        """Do nothing when a task ends, because the fit itself reads and writes its state."""


def describe_energy(energy):
    """Return a description of an energy without the values of its parameters.

    Parameters
    ----------
    energy : Energy
        Energy to describe.

    Returns
    -------
    tuple
        Name of the class, shapes and dtypes of the parameters, and cliques if there are any.
    """
    arrays = {k: (v.shape, v.dtype.str) for k, v in energy.theta.items()}
    cliques = energy.layout.cliques if isinstance(energy, TableEnergy) else None
    return type(energy).__name__, arrays, cliques


def hash_value(value):
    """Return a hash that is equal for equal values of the same type.

    Parameters
    ----------
    value : object
        A parameter of an estimator, or a batch of rows in memory, in a memory map or on a device.

    Returns
    -------
    str
        Hash. For an iterator, which cannot be read twice, it identifies the object.
    """
    try:
        return joblib.hash(_canonical_text(value))
    except TypeError:
        return repr(value)


def _hash_fit(estimator, inputs):
    """Return a hash of the package version, the parameters and the inputs, to identify a fit."""
    given = estimator.get_params(deep=False).items()
    parameters = {k: v for k, v in given if k not in ("n_jobs", "verbose")}
    return joblib.hash(
        _canonical_text([__version__, type(estimator).__name__, parameters, *inputs])
    )


def _canonical_text(value):
    """Return a text that is equal for equal values, even if their types differ."""
    value = as_numpy(value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, dict):
        keys = sorted(value)
        return f"({_canonical_text(keys)}: {_canonical_text([value[k] for k in keys])})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_canonical_text, value))}]"
    if hasattr(value, "get_params"):
        return type(value).__name__ + _canonical_text(value.get_params(deep=False))
    if issparse(value):
        value = value.tocsr()
        return _canonical_text([value.shape, value.data, value.indices, value.indptr])
    if hasattr(value, "nodes") and hasattr(value, "edges"):
        return _canonical_text([list(value.nodes), list(value.edges)])
    return joblib.hash(np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value)
