"""Search strategies by name, and the learner of each search strategy."""

from ..energies import FactorGraph
from ..learners import PCD
from ..learners.registry import make_learner
from .penalised import Nodewise, Penalized
from .removal import RemovalWhileLearning, Thresholding
from .search import PCD_SWEEPS, Search
from .wald import WaldTests

#: Factory of each strategy, keyed by its name.
SEARCHES = {
    "tests": WaldTests,
    "thresholding": Thresholding,
    "removal": RemovalWhileLearning,
    "l1": lambda: Penalized("l1"),
    "group-l1": lambda: Penalized("group-l1"),
    "nodewise": Nodewise,
}


def make_search(search):
    """Return the search strategy of the given name; an instance is returned unchanged."""
    if isinstance(search, Search):
        return search
    if isinstance(search, str) and search in SEARCHES:
        return SEARCHES[search]()
    raise ValueError(
        f"search must be one of {sorted(SEARCHES)} or a search strategy of skmrf.structure; "
        f"got {search!r}."
    )


def make_search_learner(learner, search, owner):
    """Return the learner of a search strategy, or raise an error if the two are incompatible.

    Parameters
    ----------
    learner : str or Learner
        Parameter of the structure learner. "auto" is the default learner of the search.
    search : Search
        Search strategy.
    owner : str
        Name of the estimator, for error messages.

    Returns
    -------
    Learner
        Learner that the search accepts.
    """
    named = learner if isinstance(learner, str) else None
    if named == "auto":
        return search.default_learner()
    if named == "pcd":
        learner = PCD(n_sweeps=PCD_SWEEPS)
    else:
        learner = make_learner(learner, FactorGraph, owner=owner)
    search.check_learner(learner)
    return learner
