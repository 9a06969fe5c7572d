"""Checkpoints: fits that are written to a file and resumed from it."""

import os
import time
from copy import deepcopy
from pathlib import Path
from threading import get_ident

import joblib
import numpy as np
from scipy.sparse import issparse

from .._utils.parameters import check_number
from .._utils.warn import warn_caller
from .._version import __version__
from ..energies import TableEnergy


class NoCheckpoint:
    """Fit without a checkpoint.

    Attributes
    ----------
    ended : bool
        Whether the fit in the file is complete.
    """

    ended = False

    def begin(self, rng, estimator, *given):
        """Return the generator to start with: ``rng``, or that of the fit in the file.

        The parameters of the estimator and ``given`` identify a fit.
        """
        return rng

    def resumed(self):
        """Return the state and the fixed value of the fit in the file, or None, once."""
        return

    def keep(self, value):
        """Set the value that every write contains besides the state, such as a seed."""

    def write(self, state, *, ended=False):
        """Write the state after an epoch, a part or the whole fit."""


class FitOnFile(NoCheckpoint):
    """Checkpoint of one fit.

    Clones of an estimator share the callback, but not this object.

    Attributes
    ----------
    ended : bool
        Whether the fit in the file is complete.
    """

    def __init__(self, path, interval):
        self.path = path
        self.interval = interval
        self._written = time.monotonic()
        self._resumed = None

    def begin(self, rng, estimator, *given):
        """Return the generator to start with: ``rng``, or that of the fit in the file."""
        identity = _identity(estimator, given)
        if not self.path.exists():
            self._fit = {"identity": identity, "rng": deepcopy(rng)}
            return rng
        saved = self._read()
        if saved["identity"] != identity:
            raise ValueError(
                f"{self.path} is of another fit: parameters, rows, weights, where it started, or "
                "the version of skmrf. Delete it, or give this fit a path of its own."
            )
        self._resumed, self.ended = (saved["state"], saved["fixed"]), saved["ended"]
        self._fit = {"identity": identity, "rng": saved["rng"]}
        return deepcopy(saved["rng"])

    def resumed(self):
        """Return the state and the fixed value of the fit in the file, or None, once."""
        resumed, self._resumed = self._resumed, None
        return resumed

    def keep(self, value):
        """Set the value that every write contains besides the state, such as a seed."""
        self._fit["fixed"] = value

    def _read(self):
        try:
            saved = joblib.load(self.path)
            if {"identity", "rng", "state", "fixed", "ended"} <= set(saved):
                return saved
        except OSError:
            raise
        except Exception as error:
            raise ValueError(f"{self.path} holds no fit: {error}") from error
        raise ValueError(f"{self.path} holds no fit; give Checkpoint a path of its own.")

    def write(self, state, *, ended=False):
        """Write the state after an epoch, a part or the whole fit."""
        if not ended and time.monotonic() - self._written < self.interval:
            return
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}-{get_ident()}.part")
        try:
            joblib.dump(self._fit | {"state": state, "ended": ended}, temporary)
            os.replace(temporary, self.path)
        except (OSError, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt) and not ended:
                raise  # the loop handles it
            warn_caller(f"{self.path} was not written, and the fit goes on without: {error!r}")
        finally:
            temporary.unlink(missing_ok=True)
        self._written = time.monotonic()


class Checkpoint:
    """Callback that writes a fit to a file and resumes the same fit from there.

    To resume a fit that was killed, call ``fit`` with the same arguments. It continues after the
    last epoch in the file and returns the same model, bit for bit. If the fit in the file is
    complete, its model is returned at once.

    Estimators that learn in parts resume after the last part in the file:
    ``MRFStructureLearner`` after the search for the graph and after every bootstrap,
    ``NNMRFClassifier`` after the density of a class and after a member of the ensemble.

    Parameters
    ----------
    path : str or path-like
        Name of the file. A write replaces the whole file, so a fit that is killed during a write
        leaves the previous file (and one that ends in ``.part``). The file is a pickle: do not
        load one that you do not trust.
    interval : float, default=60.0
        Minimum number of seconds between two writes. With 0 every epoch or part is written. The
        end of a fit is always written.

    Raises
    ------
    TypeError
        From ``fit``: the estimator is not one of this package, such as a ``GridSearchCV``.
    ValueError
        From ``fit``: the file is of another fit (other parameters, rows, weights, start or version
        of skmrf), or not of a fit at all; the estimator has another checkpoint.
    FileNotFoundError, IsADirectoryError
        From ``fit``: the folder does not exist, or the path is one.

    Notes
    -----
    The file holds the parameters, the state of the optimizer or solver (L-BFGS keeps 41 arrays of
    their size), the state of the learner (chains, particles and their random generators) and
    ``history_``; for estimators that learn in parts, the complete parts. Parts that Ctrl-C has
    interrupted are not written. Other callbacks start anew: :class:`EarlyStopping` counts its
    patience from there, whereas ``early_stopping=True`` continues. ``partial_fit`` writes no file,
    and validation rows given to ``fit`` do not identify a fit. If a file cannot be written, as on a
    full disk, the fit warns and continues.

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
        """Prepare the file before a fit."""
        if not hasattr(estimator, "_checkpoint"):
            raise TypeError(
                f"{type(estimator).__name__} cannot go on from a file; Checkpoint takes the "
                "estimators of skmrf. In a search each candidate would need a file of its own."
            )
        if "_checkpoint" in vars(estimator):
            raise ValueError("A fit has one Checkpoint; set_callbacks was given two.")
        if self.path.is_dir():
            raise IsADirectoryError(f"{self.path} is a folder; give the name of a file.")
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"The folder {self.path.parent} does not exist; make it first.")
        estimator._checkpoint = FitOnFile(self.path, self.interval)

    def teardown(self, estimator, context):
        """Detach the checkpoint after a fit."""
        vars(estimator).pop("_checkpoint", None)

    def on_fit_task_begin(self, estimator, context):
        """Do nothing when a task begins."""

    def on_fit_task_end(self, estimator, context):
        """Do nothing when a task ends: the fit writes its state itself."""


def form_of(energy):
    """Describe an energy without its parameters.

    Parameters
    ----------
    energy : Energy

    Returns
    -------
    tuple
        Name of the class, shapes and dtypes of the parameters, and cliques if there are any.
    """
    arrays = {k: (v.shape, v.dtype.str) for k, v in energy.theta.items()}
    cliques = energy.layout.cliques if isinstance(energy, TableEnergy) else None
    return type(energy).__name__, arrays, cliques


def _identity(estimator, given):
    """Return a hash that identifies a fit."""
    parameters = {k: v for k, v in estimator.get_params(deep=False).items() if k != "n_jobs"}
    return joblib.hash(_canonical_text([__version__, type(estimator).__name__, parameters, *given]))


def _canonical_text(value):
    """Return a text that is the same for equal values of different types."""
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
