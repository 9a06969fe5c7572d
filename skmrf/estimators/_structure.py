"""Search strategies, learners and training tables of the structure learner."""

import numpy as np
from sklearn.base import clone
from sklearn.utils import Bunch

from .._data.categories import encode, resolve_categories, unite_categories
from .._data.column_types import DISCRETE_TYPES, find_graph_types, resolve_column_types
from .._data.frames import column_names, read_columns
from .._data.mixed import learn_scored_columns
from .._utils.codes import MISSING
from .._utils.log_weights import check_sample_weight
from ..energies import FactorGraph
from ..learners import PCD, PseudoLikelihood
from ..learners.pseudo_likelihood import site_log_likelihood
from ..learners.registry import make_learner
from ..structure import Nodewise, Penalized, RemovalWhileLearning, Thresholding, WaldTests
from ..structure.fitted_graph import FittedGraph, MixedGraph
from ..structure.mixed import MixedModel, MixedRows, find_columns
from ..structure.pairwise import make_table_model
from ..structure.rows import Columns, Rows, TrainingTable, positive_rows
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
        learner = make_learner(learner, FactorGraph, owner=owner, others=("auto",))
    search.check_learner(learner)
    return learner


def encode_table(estimator, X, sample_weight, search):
    """Return the encoded rows of ``fit`` as a :class:`~skmrf.structure.rows.TrainingTable`.

    The search skips constant and duplicate columns. If a column is numeric, the rows are
    :class:`~skmrf.structure.mixed.MixedRows`. Otherwise they are state codes.
    """
    read = read_columns(estimator, X, reset=True)
    types = _find_types(estimator, X, read)
    numeric = np.flatnonzero(~np.isin(types, DISCRETE_TYPES))
    if not len(numeric):
        categories, rows = _encode_states(estimator, read, sample_weight)
        same_states = estimator.statistic == "agreement"
        columns = Columns.from_codes(rows.X, rows.weights, same_states=same_states)
        return TrainingTable.from_rows(categories, rows, columns, types)
    _check_takes_numbers(estimator, search, column_names(estimator)[numeric[0]], types[numeric[0]])
    weights = check_sample_weight(sample_weight, len(read[0]))
    weights = np.ones(len(read[0])) if weights is None else weights
    names, categories = column_names(estimator), estimator.categories
    encoder = learn_scored_columns(X, read, names, types, categories, weights)
    rows = positive_rows(MixedRows, encoder.encode(read), encoder.n_states, sample_weight)
    columns = find_columns(rows)
    return TrainingTable.from_rows(encoder.categories, rows, columns, types, encoder)


def encode_part(estimator, X, sample_weight, search, resume):
    """Return the encoded rows of ``partial_fit``; the search skips constant columns.

    Duplicate columns are kept, because they may differ in later rows. The number, the names, the
    types and the categories of the columns are those of the first call, if training resumes.
    """
    read = read_columns(estimator, X, reset=not resume)
    types = estimator.column_types_ if resume else _find_types(estimator, X, read)
    numeric = np.flatnonzero(~np.isin(types, DISCRETE_TYPES))
    if len(numeric):
        name = column_names(estimator)[numeric[0]]
        _check_takes_numbers(estimator, search, name, types[numeric[0]])
    known = estimator.categories_ if resume else None
    categories, rows = _encode_states(estimator, read, sample_weight, known)
    columns = Columns(np.flatnonzero(rows.n_states > 1), [], [])
    return TrainingTable.from_rows(categories, rows, columns, types)


def make_model(estimator, table):
    """Return the model of the edges of a table: of categorical columns, or of mixed columns."""
    if table.encoder is not None:
        return MixedModel(estimator.screen, estimator.max_bytes)
    settings = estimator.statistic, bool(estimator.unary), estimator.screen, estimator.max_bytes
    return make_table_model(table.rows, *settings)


def collect_results(selection, search, table, estimation, bootstraps):
    """Return a dict of the fitted attributes of a selected graph."""
    graph_type = FittedGraph if table.encoder is None else MixedGraph
    graph = graph_type(selection, table.columns, table.all_rows, search.adjustment)
    fitted = graph.attributes(bootstraps) | {
        "rounds_": selection.rounds,
        "n_candidates_": selection.n_candidates,
        "categories_": table.categories,
        "column_types_": table.types,
        "history_": estimation.history,
        "n_iter_": estimation.n_iter,
        "converged_": estimation.converged and selection.converged,
        "_scorer": None,
    }
    if table.encoder is None:
        fitted["path_"] = Bunch(**estimation.path.summary(table.columns.kept))
    else:
        parts = {"encoder": table.encoder, "kept": table.columns.kept}
        fitted["_scorer"] = parts | {"fits": selection.energy}
    return fitted if estimation.alpha is None else fitted | {"alpha_": estimation.alpha}


def score_rows(estimator, X):
    """Return the mean pseudo-log-likelihood of rows without missing entries, in nats."""
    columns, names = read_columns(estimator, X, reset=False), column_names(estimator)
    scorer = estimator._scorer
    if scorer is None:
        codes = encode(columns, estimator.categories_, names)
        complete = (codes != MISSING).all(axis=1)
    else:
        codes = scorer["encoder"].encode(columns)
        complete = ~np.isnan(codes).any(axis=1)
    if not complete.any():
        raise ValueError(
            "score needs at least one row without missing entries, but every row of X has "
            "some. Impute them with DiscreteMRF.predict."
        )
    if scorer is None:
        return float(np.mean(site_log_likelihood(estimator.energy_, codes[complete])[0]))
    kept = scorer["kept"]
    n_states = np.array(scorer["encoder"].n_states)[kept]
    rows = MixedRows(codes[np.ix_(complete, kept)], np.ones(complete.sum()), n_states)
    return float(np.mean(scorer["fits"].score(rows)))


def clone_for_categories(learner, categories, random_state):
    """Return an unfitted copy of a structure learner for columns that are all categorical.

    Parameters
    ----------
    learner : MRFStructureLearner
        Structure learner. Its ``random_state`` is replaced if it is None.
    categories : "auto" or list of lists
        Categories of each column. A list replaces those of the structure learner.
    random_state : int, RandomState, Generator or None
        Random numbers.

    Returns
    -------
    MRFStructureLearner
        The copy.
    """
    structure = clone(learner)
    given = structure.get_params(deep=False)
    changes = {"column_types": "categorical"} if "column_types" in given else {}
    if given.get("random_state") is None:
        changes["random_state"] = random_state
    if not isinstance(categories, str):
        changes["categories"] = categories
    return structure.set_params(**changes)


def _find_types(estimator, X, columns):
    """Return the types of the columns; given categories make all columns categorical."""
    given, names = estimator.column_types, column_names(estimator)
    if isinstance(given, str) and given == "auto" and not isinstance(estimator.categories, str):
        return ["categorical"] * len(names)
    return resolve_column_types(given, X, columns, names, find=find_graph_types)


def _encode_states(estimator, columns, sample_weight, categories=None):
    """Return the categories of the columns, and the encoded rows with a positive weight."""
    names = column_names(estimator)
    if categories is None:
        categories = resolve_categories(estimator.categories, columns, names)
        if estimator.statistic == "agreement" and max(map(len, categories)) > 2:
            categories = unite_categories(categories)
    codes = encode(columns, categories, names)
    return categories, positive_rows(Rows, codes, [len(c) for c in categories], sample_weight)


def _check_takes_numbers(estimator, search, name, kind):
    """Raise a ValueError if the parameters do not support numeric columns."""
    is_default = isinstance(estimator.learner, str) and estimator.learner == "auto"
    learner = make_search_learner(estimator.learner, search, owner=type(estimator).__name__)
    problems = {
        'Use learner="auto"': not (is_default or isinstance(learner, PseudoLikelihood)),
        'Use search="tests", "nodewise", "group-l1" or "l1"': not search.takes_numbers,
        'Use statistic="table"': estimator.statistic != "table",
        "Use unary=True": not estimator.unary,
    }
    for remedy, is_wrong in problems.items():
        if is_wrong:
            parameter = remedy.split()[1].split("=")[0]
            raise ValueError(
                f"Column {name!r} has the type {kind!r}, but "
                f"{parameter}={getattr(estimator, parameter)!r} needs categorical columns. "
                f"{remedy}, discretise the column (sklearn.preprocessing.KBinsDiscretizer), or "
                'give it the type "categorical" in column_types.'
            )
