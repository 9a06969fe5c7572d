"""Learners by name, and which of them an energy can be learned with."""

import inspect

from ..energies import Energy
from .base import Learner

#: Learner classes by name.
LEARNERS: dict[str, type[Learner]] = {}


def register(name, learner):
    """Make a learner available by name to every estimator whose energy meets its requirements.

    Parameters
    ----------
    name : str
        A name that is registered already is replaced.
    learner : subclass of Learner
        It is created without arguments.

    Raises
    ------
    TypeError
        No subclass of Learner, one with abstract methods, or ``requires`` that is no tuple of
        protocols.

    Notes
    -----
    A name is known in this process only. Worker processes know it if a module that they import
    registers it; an instance works everywhere.

    Examples
    --------
    >>> from skmrf.learners import CD, register
    >>> class LongCD(CD):
    ...     def __init__(self, n_sweeps=100, start="data"):
    ...         super().__init__(n_sweeps, start)
    >>> register("long-cd", LongCD)
    """
    if not (isinstance(learner, type) and issubclass(learner, Learner)):
        raise TypeError(f"learner must be a subclass of skmrf.learners.Learner; got {learner!r}.")
    if inspect.isabstract(learner):
        raise TypeError(f"{learner.__name__} has abstract methods: {_abstract_methods(learner)}.")
    _check_requires(learner)
    LEARNERS[str(name)] = learner


def _abstract_methods(learner):
    return ", ".join(sorted(learner.__abstractmethods__))


def _check_requires(learner):
    """Raise a TypeError unless ``requires`` is a tuple of protocols."""
    requires = learner.requires
    right = isinstance(requires, tuple) and all(
        isinstance(p, type) and issubclass(p, Energy) for p in requires
    )
    if not right:
        raise TypeError(
            f"requires of a learner must be a tuple of subclasses of skmrf.energies.Energy; "
            f"got {requires!r}."
        )


def accepted(energy_type, kind=Learner):
    """Return the registered learners that energies of a type can be learned with.

    Parameters
    ----------
    energy_type : subclass of Energy
    kind : subclass of Learner, default=Learner
        What else the learner must be, such as :class:`ConditionalLearner`.

    Returns
    -------
    dict of str to class
    """
    return {name: c for name, c in LEARNERS.items() if not missing(c, energy_type, kind)}


def missing(learner, energy_type, kind=Learner):
    """Return the names of what keeps a learner from learning energies of a type.

    Parameters
    ----------
    learner : Learner or subclass of Learner
    energy_type : subclass of Energy
    kind : subclass of Learner, default=Learner

    Returns
    -------
    list of str
        Protocols that the energy lacks, and ``kind`` where the learner is none.
    """
    learner_type = learner if isinstance(learner, type) else type(learner)
    lacking = [p.__name__ for p in learner.requires if not issubclass(energy_type, p)]
    return lacking + [kind.__name__] * (not issubclass(learner_type, kind))


def _check_learner(learner, energy_type, kind, owner):
    """Raise a ValueError unless energies of a type can be learned with a learner."""
    _check_requires(learner)
    lacking = missing(learner, energy_type, kind)
    if lacking:
        raise ValueError(
            f"{owner} cannot take the learner {learner!r}: {_explained(lacking, energy_type, kind)}"
            f" Take one of {sorted(accepted(energy_type, kind))} or an instance of a class behind "
            "these names."
        )


def _explained(lacking, energy_type, kind):
    protocols = [name for name in lacking if name != kind.__name__]
    reasons = []
    if protocols:
        reasons.append(
            f"it requires an energy that is a {' and a '.join(protocols)}, which "
            f"{energy_type.__name__} is not"
        )
    if kind.__name__ in lacking:
        reasons.append(f"it is not a {kind.__name__}")
    return " and ".join(reasons) + "."


def make_learner(learner, energy_type, *, kind=Learner, owner):
    """Return the learner that a parameter names, checked.

    Parameters
    ----------
    learner : str or Learner
    energy_type : subclass of Energy
    kind : subclass of Learner, default=Learner
    owner : str
        Name of the estimator, for messages.

    Returns
    -------
    Learner

    Raises
    ------
    ValueError
        An unknown name, or a learner whose requirements the energy does not meet.
    """
    if isinstance(learner, str) and learner in LEARNERS:
        learner = LEARNERS[learner]()
    if not isinstance(learner, Learner):
        raise ValueError(
            f"learner must be one of {sorted(accepted(energy_type, kind))} or an instance of a "
            f"class of skmrf.learners; got {learner!r}."
        )
    _check_learner(learner, energy_type, kind, owner)
    return learner
