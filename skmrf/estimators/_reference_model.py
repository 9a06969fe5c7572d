"""Choice of a reference model: independent columns, or a part of a Chow-Liu tree."""

import numpy as np

from ..exact import expectations
from ..inference import row_queries
from ..structure import chow_liu
from ..training.data_moments import effective_rows
from ..training.regularization import Fold, gain_over_reference, held_out_weights

EDGE_RULES = ("none", "extended BIC", "all")  # edges of a Chow-Liu tree in the reference model


def choose_reference(energy, splits, parameters):
    """Choose the edges of the reference model by scores of held-out rows.

    Parameters
    ----------
    energy : FactorGraph
        Model of independent columns with all cliques.
    splits : list of (Batch, Batch)
        Training rows and held-out rows.
    parameters : TrainingParameters
        Parameters of the estimator.

    Returns
    -------
    callable
        Function ``rows -> FactorGraph`` that learns the reference model from rows. The model has
        all cliques. With tied tables or sparse penalties it is ``energy``.
    """
    layout = energy.layout
    if layout.is_tied or parameters.penalty != "l2":
        return lambda _: energy
    allowed = chow_liu.possible_edges(layout)
    row_scores = [[] for _ in EDGE_RULES]
    for train, test in splits:
        tree = _fit_tree(layout, allowed, train)
        for rule, scores in zip(EDGE_RULES, row_scores, strict=True):
            scores.append(_forest_scores(tree.prune(_min_gain(rule, layout, train)), test))
    weights = held_out_weights([Fold(train, test, None) for train, test in splits])
    rule = EDGE_RULES[_choose_edge_rule([np.concatenate(s) for s in row_scores], weights)]

    def reference(rows):
        tree = _fit_tree(layout, allowed, rows)
        return chow_liu.embed(tree.prune(_min_gain(rule, layout, rows)), layout)

    return reference


def _choose_edge_rule(row_scores, weights):
    """Return the index in EDGE_RULES of the best reference model, given scores of held-out rows.

    The full tree must be better than the better one of the others by one standard error.
    """
    simple = int(row_scores[1] @ weights > row_scores[0] @ weights)
    gains, errors = gain_over_reference([row_scores[simple], row_scores[2]], weights)
    return 2 if gains[1] > errors[1] else simple


def _min_gain(rule, layout, data):
    """Return the increase of the log-likelihood per parameter that an edge needs, in nats."""
    if rule == "none":
        return np.inf
    if rule == "all":
        return -np.inf
    n = len(layout.n_states)
    return 0.5 * np.log(effective_rows(data)) + np.log(max(n * (n - 1) / 2, 1))


def _fit_tree(layout, allowed, data):
    weights = None if data.log_weights is None else np.exp(data.log_weights)
    return chow_liu.fit_tree(data.X, layout.n_states, weights=weights, allowed=allowed)


def _forest_scores(forest, data):
    """Return the log-likelihood of each row under a model without cycles, in nats."""
    log_z = expectations.exact_model(forest).log_partition(forest)
    return row_queries.row_log_partitions(forest, data.X) - log_z
