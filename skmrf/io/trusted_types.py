"""List of trusted types for loading fitted estimators with ``skops.io.load(trusted=...)``."""

import inspect
import pkgutil
from importlib import import_module

# Classes of these modules are never part of an estimator, or are unsafe to load: a checkpoint
# reads and writes other files. The package _jax needs an optional dependency.
EXCLUDED_MODULES = ("_jax", "datasets", "io", "training.checkpoints", "plot")
# Bunch is in path_ of a structure learner, the others are in grid searches
SCIKIT_LEARN_TYPES = [
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.utils._bunch.Bunch",
]


def _list_own_types():
    """Return the names of the classes of this package that a fitted estimator may contain."""
    package = import_module("skmrf")
    excluded = tuple(f"skmrf.{module}" for module in EXCLUDED_MODULES)
    names = set()
    for module in pkgutil.walk_packages(package.__path__, "skmrf."):
        if module.name != __name__ and not module.name.startswith(excluded):
            classes = inspect.getmembers(import_module(module.name), inspect.isclass)
            names |= {f"{c.__module__}.{c.__qualname__}" for _, c in classes}
    own_names = (name for name in names if name.startswith("skmrf."))
    return sorted(name for name in own_names if not name.startswith(excluded))


TRUSTED_TYPES = _list_own_types() + SCIKIT_LEARN_TYPES
