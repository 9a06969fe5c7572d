"""Fits that are written to a file as they go, and go on from it."""

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


class NoCheckpoint:
    """A fit that leaves no file.

    Attributes
    ----------
    ended : bool
        Whether the fit on file had ended.
    """

    ended = False

    def begin(self, rng, estimator, *given):
        """The generator that the fit starts with: ``rng``, or that of the fit on file.

        The parameters of the estimator and what is ``given`` tell one fit from another.
        """
        return rng

    def first(self, start):
        """What ``start`` makes, or what is on file.

        These are a state, which is written again and again as it changes, and what stays as it is:
        the seed of queries, or a part of the fit that comes first.
        """
        return start()

    def write(self, state, *, ended=False):
        """An epoch or a part has left a state, or the fit has."""


class FitOnFile(NoCheckpoint):
    """One fit and its file; clones of an estimator share the callback, but not this.

    Attributes
    ----------
    ended : bool
        Whether the fit on file had ended.
    """

    def __init__(self, path, interval):
        self.path = path
        self.interval = interval
        self._written = time.monotonic()
        self._known = None

    def begin(self, rng, estimator, *given):
        """The generator that the fit starts with: ``rng``, or that of the fit on file."""
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
        self._known, self.ended = (saved["state"], saved["fixed"]), saved["ended"]
        self._fit = {"identity": identity, "rng": saved["rng"]}
        return deepcopy(saved["rng"])

    def first(self, start):
        """What ``start`` makes, or what is on file."""
        known, self._known = self._known, None
        state, self._fit["fixed"] = start() if known is None else known
        return state, self._fit["fixed"]

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
        """An epoch or a part has left a state, or the fit has."""
        if not ended and time.monotonic() - self._written < self.interval:
            return
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}-{get_ident()}.part")
        try:
            joblib.dump(self._fit | {"state": state, "ended": ended}, beside)
            os.replace(beside, self.path)
        except (OSError, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt) and not ended:
                raise  # the loop knows what to do
            warn_caller(f"{self.path} was not written, and the fit goes on without: {error!r}")
        finally:
            beside.unlink(missing_ok=True)
        self._written = time.monotonic()


class Checkpoint:
    """Write a fit to a file as it goes, and let the same fit go on from there.

    A fit that was killed is repeated with the same line; it begins after the last epoch on file
    and ends with the same model, bit for bit. A fit that had ended gives its model at once.

    Of estimators that learn in parts, what counts is the last part on file: of
    ``MRFStructureLearner`` the search for the graph, and then every bootstrap; of
    ``NNMRFClassifier`` the density of a class, or a member of the ensemble.

    Parameters
    ----------
    path : str or path-like
        Name of the file. It is replaced as a whole, so a fit that is killed while it writes leaves
        the file before (and one that ends in ``.part``). It is a pickle: load none that you do not
        trust.
    interval : float, default=60.0
        Seconds that pass, at the least, between two writes; with 0 every epoch, or part, is
        written. The end of a fit always is.

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
    On file are the parameters, the state of the optimizer or solver (L-BFGS keeps 41 arrays of
    their size) and of the learner (chains, particles and their random generators) and ``history_``;
    of estimators that learn in parts, what these have left. Parts that Ctrl-C has cut short are not
    written. Other callbacks begin anew: patience of :class:`EarlyStopping` is counted from there,
    that of ``early_stopping=True`` is on file. ``partial_fit`` and validation rows given to ``fit``
    are not looked at. A file that cannot be written, as on a full disk, is warned about, and the
    fit goes on.

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
        """Called by scikit-learn before a fit."""
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
        """Called by scikit-learn after a fit."""
        vars(estimator).pop("_checkpoint", None)

    def on_fit_task_begin(self, estimator, context):
        """Nothing to do."""

    def on_fit_task_end(self, estimator, context):
        """Nothing to do: the fit itself hands over its state."""


def form_of(energy):
    """What an energy is, besides its parameters.

    Parameters
    ----------
    energy : Energy

    Returns
    -------
    tuple
        Name of the class, shapes and types of the parameters, and cliques where there are any.
    """
    arrays = {k: (v.shape, v.dtype.str) for k, v in energy.theta.items()}
    return type(energy).__name__, arrays, getattr(energy, "cliques", None)


def _identity(estimator, given):
    """What a fit is a fit of."""
    parameters = {k: v for k, v in estimator.get_params(deep=False).items() if k != "n_jobs"}
    return joblib.hash(_text([__version__, type(estimator).__name__, parameters, *given]))


def _text(value):
    """Equal values have equal texts, however they are kept."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, dict):
        return f"({_text(sorted(value))}: {_text([value[k] for k in sorted(value)])})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    if hasattr(value, "get_params"):
        return type(value).__name__ + _text(value.get_params(deep=False))
    if issparse(value):
        value = value.tocsr()
        return _text([value.shape, value.data, value.indices, value.indptr])
    if hasattr(value, "nodes") and hasattr(value, "edges"):
        return _text([list(value.nodes), list(value.edges)])
    return joblib.hash(np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value)
