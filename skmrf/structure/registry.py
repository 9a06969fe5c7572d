"""Search strategies by name."""

from .penalised import Nodewise, Penalized
from .removal import RemovalWhileLearning
from .search import Search
from .thresholding import Thresholding
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
    """Return the search strategy of a name; return a strategy unchanged."""
    if isinstance(search, Search):
        return search
    if isinstance(search, str) and search in SEARCHES:
        return SEARCHES[search]()
    raise ValueError(
        f"search must be one of {sorted(SEARCHES)} or a search strategy of skmrf.structure; "
        f"got {search!r}."
    )
