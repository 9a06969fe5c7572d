"""Names of the types that fitted estimators consist of, for ``skops.io.load(trusted=...)``."""

import inspect
import pkgutil
from importlib import import_module

# never part of an estimator, or not to be made by a file: a checkpoint reads and writes others
LEFT_OUT = ("datasets", "io", "training.checkpoints", "plot")
OF_SCIKIT_LEARN = [  # in the path_ of a structure learner, and in grid searches
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.utils._bunch.Bunch",
]


def _own_types():
    """Names of the classes of this package that a fitted estimator may hold."""
    package = import_module("skmrf")
    left_out = tuple(f"skmrf.{room}" for room in LEFT_OUT)
    names = set()
    for module in pkgutil.walk_packages(package.__path__, "skmrf."):
        if module.name != __name__ and not module.name.startswith(left_out):
            classes = inspect.getmembers(import_module(module.name), inspect.isclass)
            names |= {f"{c.__module__}.{c.__qualname__}" for _, c in classes}
    ours = (name for name in names if name.startswith("skmrf."))
    return sorted(name for name in ours if not name.startswith(left_out))


TRUSTED_TYPES = _own_types() + OF_SCIKIT_LEARN
