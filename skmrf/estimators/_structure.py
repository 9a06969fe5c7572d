"""Search strategies, learners and training tables of the structure learner."""

import numpy as np

from .._data.categories import encode, read_training_columns, unite_categories
from ..energies import FactorGraph
from ..learners import PCD
from ..learners.registry import make_learner
from ..structure import Nodewise, Penalized, RemovalWhileLearning, Thresholding, WaldTests
from ..structure.rows import Columns, TrainingTable, positive_rows
from ..structure.search import PCD_SWEEPS, Search

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


def encode_table(estimator, X, sample_weight):
    """Return the encoded rows of ``fit`` as a :class:`~skmrf.structure.rows.TrainingTable`.

    The search skips constant and duplicate columns.
    """
    categories, rows = _encode_rows(estimator, X, sample_weight, resume=False)
    same_states = estimator.statistic == "agreement"
    columns = Columns.from_codes(rows.X, rows.weights, same_states=same_states)
    return TrainingTable.from_rows(categories, rows, columns)


def encode_part(estimator, X, sample_weight, resume):
    """Return the encoded rows of ``partial_fit``; the search skips constant columns.

    Duplicate columns are kept, because they may differ in later rows.
    """
    categories, rows = _encode_rows(estimator, X, sample_weight, resume)
    columns = Columns(np.flatnonzero(rows.n_states > 1), [], [])
    return TrainingTable.from_rows(categories, rows, columns)


def _encode_rows(estimator, X, sample_weight, resume):
    """Return the categories of the columns, and the encoded rows with a positive weight.

    The number and the names of the columns are recorded, or checked if training resumes.
    """
    columns, categories, names = read_training_columns(estimator, X, resume)
    if not resume and estimator.statistic == "agreement" and max(map(len, categories)) > 2:
        categories = unite_categories(categories)
    codes = encode(columns, categories, names)
    return categories, positive_rows(codes, categories, sample_weight)
