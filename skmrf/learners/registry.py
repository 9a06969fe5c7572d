"""Registry of learners by name, and their requirements on energies."""

import inspect

from ..energies import Energy
from .base import Learner

#: Learner classes by name.
LEARNERS: dict[str, type[Learner]] = {}
#: Learner classes by name, for each family of learners. The family "" has the most learners.
FAMILIES = {"": LEARNERS}
RESERVED = ("auto",)  # names that estimators interpret


def register(name, learner):
    """Register a learner by name.

    The name can then be used as the parameter ``learner`` of each estimator whose energy meets the
    requirements of the learner.

    Parameters
    ----------
    name : str
        Name of the learner. If it is registered already, the new class replaces the old one.
    learner : subclass of Learner
        Class of the learner. It must have a default for each parameter.

    Raises
    ------
    TypeError
        If ``learner`` is not a subclass of Learner, if it has abstract methods, if a parameter has
        no default, or if ``requires`` is not a tuple of protocols.
    ValueError
        If ``name`` is "auto", which estimators interpret.

    Notes
    -----
    The name is registered in this process only. A worker process needs a module that it imports to
    register the name again. An instance of the class works everywhere without registration.

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
        raise TypeError(
            f"{learner.__name__} has abstract methods; implement {_abstract_methods(learner)}."
        )
    _check_requires(learner)
    _check_defaults(learner)
    if name in RESERVED:
        raise ValueError(f"The name {name!r} is reserved: estimators choose a learner for it.")
    FAMILIES.setdefault(learner.family, {})[str(name)] = learner


def _abstract_methods(learner):
    return ", ".join(sorted(learner.__abstractmethods__))


def _check_requires(learner):
    """Raise a TypeError unless a learner's ``requires`` is a tuple of energy protocols."""
    requires = learner.requires
    is_valid = isinstance(requires, tuple) and all(
        isinstance(p, type) and issubclass(p, Energy) for p in requires
    )
    if not is_valid:
        raise TypeError(
            f"The class attribute requires of a learner must be a tuple of subclasses of "
            f"skmrf.energies.Energy, such as (DiscreteEnergy,); got {requires!r}."
        )


def _check_defaults(learner):
    """Raise a TypeError if a parameter of a learner class has no default."""
    for name, parameter in inspect.signature(learner).parameters.items():
        is_variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not is_variable:
            raise TypeError(
                f"The parameter {name} of {learner.__name__} has no default, which a learner that "
                "is registered by name needs."
            )


def accepted(energy_type, kind=Learner):
    """Return the registered learners that can train energies of a given class.

    Parameters
    ----------
    energy_type : subclass of Energy
        Class of the energies.
    kind : subclass of Learner, default=Learner
        Required base class of the learners, such as :class:`ConditionalLearner`.

    Returns
    -------
    dict of str to class
        Learner classes by their registered name.
    """
    learners = FAMILIES.get(kind.family, {})
    return {name: c for name, c in learners.items() if not unmet_requirements(c, energy_type, kind)}


def unmet_requirements(learner, energy_type, kind=Learner):
    """Return the names of a learner's requirements that an energy class does not meet.

    Parameters
    ----------
    learner : Learner or subclass of Learner
        Learner to check.
    energy_type : subclass of Energy
        Class of the energies.
    kind : subclass of Learner, default=Learner
        Required base class of the learner.

    Returns
    -------
    list of str
        Protocols that the energy lacks, and ``kind`` if the learner is not an instance of it.
    """
    learner_type = learner if isinstance(learner, type) else type(learner)
    unmet = [p.__name__ for p in learner.requires if not issubclass(energy_type, p)]
    return unmet + [kind.__name__] * (not issubclass(learner_type, kind))


def check_learner(learner, energy_type, *, kind=Learner, owner="This energy", others=()):
    """Raise a ValueError unless a learner can train energies of a given class.

    Parameters
    ----------
    learner : Learner
        Learner to check.
    energy_type : subclass of Energy
        Class of the energies.
    kind : subclass of Learner, default=Learner
        Required base class of the learner.
    owner : str, default="This energy"
        Subject of the error message.
    others : tuple of str, default=()
        Further names that the error message lists, such as "auto".
    """
    _check_requires(learner)
    unmet = unmet_requirements(learner, energy_type, kind)
    if unmet:
        raise ValueError(
            f"{owner} cannot take the learner {learner!r}: {_describe(unmet, energy_type, kind)}"
            f" Take one of {sorted([*accepted(energy_type, kind), *others])} or an instance of one "
            "of their classes."
        )


def _describe(unmet, energy_type, kind):
    """Return the part of an error message that lists a learner's unmet requirements."""
    protocols = [name for name in unmet if name != kind.__name__]
    reasons = []
    if protocols:
        reasons.append(
            f"this learner needs a model of the type {' and '.join(protocols)}, but the model is "
            f"of the type {energy_type.__name__}"
        )
    if kind.__name__ in unmet:
        reasons.append(f"the learner must be of the type {kind.__name__}")
    return "; ".join(reasons) + "."


def make_learner(learner, energy_type, *, kind=Learner, owner, others=()):
    """Return a learner by name, or the given learner instance, after checking its requirements.

    Parameters
    ----------
    learner : str or Learner
        Value of the parameter ``learner`` of an estimator.
    energy_type : subclass of Energy
        Class of the energies that the estimator trains.
    kind : subclass of Learner, default=Learner
        Required base class of the learner.
    owner : str
        Name of the estimator, for error messages.
    others : tuple of str, default=()
        Names that the estimator itself accepts, such as "auto", for error messages.

    Returns
    -------
    Learner
        Instance of the learner.

    Raises
    ------
    ValueError
        If the name is unknown, or if the energy does not meet the requirements of the learner.
    """
    if isinstance(learner, str):
        learner = _make_by_name(learner, kind.family)
    if not isinstance(learner, Learner):
        raise ValueError(
            f"learner must be one of {sorted([*accepted(energy_type, kind), *others])} or an "
            f"instance of a class of skmrf.learners; got {learner!r}."
        )
    check_learner(learner, energy_type, kind=kind, owner=owner, others=others)
    return learner


def _make_by_name(name, family):
    """Return the learner with a name, preferably of a family, or the name if it is unknown."""
    for learners in (FAMILIES.get(family, {}), *FAMILIES.values()):
        if name in learners:
            return learners[name]()
    return name
