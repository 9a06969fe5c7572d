"""Search strategies by name."""

from .penalised import Nodewise, Penalized
from .removal import RemovalWhileLearning
from .search import Search
from .thresholding import Thresholding
from .wald import WaldTests

#: Functions without arguments that return a strategy, by name.
SEARCHES = {
    "tests": WaldTests,
    "thresholding": Thresholding,
    "removal": RemovalWhileLearning,
    "l1": lambda: Penalized("l1"),
    "group-l1": lambda: Penalized("group-l1"),
    "nodewise": Nodewise,
}


def make_search(search):
    """Return the search strategy that a parameter names.

    Parameters
    ----------
    search : str or Search

    Returns
    -------
    Search

    Raises
    ------
    ValueError
        Neither a known name nor a strategy.
    """
    if isinstance(search, Search):
        return search
    if isinstance(search, str) and search in SEARCHES:
        return SEARCHES[search]()
    raise ValueError(
        f"search must be one of {sorted(SEARCHES)} or an instance of a class of skmrf.structure; "
        f"got {search!r}."
    )
