"""Parameters of a given graph, by conditional likelihoods and by the learner."""

import numpy as np

from .nodewise import fit_nodes

COMPLETIONS = 8
MATRICES = 4  # of the size of a column's parameters squared


def estimate_parameters(rows, edges, model, estimation, previous=None):
    """Learn the parameters of a graph.

    Learning begins at the maximum of the conditional likelihoods, which is near that of the
    likelihood. Missing entries are sampled and the conditional likelihoods fitted several times
    first.

    Parameters
    ----------
    rows : Rows
    edges : ndarray of shape (n_edges, 2)
    model : PairwiseModel
    estimation : Estimation
    previous : LogLinearEnergy, optional
        Energy of another graph to take initial parameters from.

    Returns
    -------
    energy : LogLinearEnergy
    completed : Rows
        The rows with missing entries imputed.
    fits : NodeFits
        Conditional likelihoods fitted to ``completed``.
    """
    energy = model.independent(rows, edges)
    if previous is not None:
        energy = transfer_parameters(previous, energy)
    for _ in range(COMPLETIONS if rows.has_missing else 1):
        completed = rows.completed(energy, estimation.rng)
        fits = fit_conditionals(completed, energy, model, estimation.n_jobs)
        energy = energy.with_theta(fits.theta)
    energy = estimation.learn(energy, rows, warm=True)
    if rows.has_missing:
        completed = rows.completed(energy, estimation.rng)
        fits = fit_conditionals(completed, energy, model, estimation.n_jobs)
    return energy, completed, fits


def fit_conditionals(rows, energy, model, n_jobs):
    """Return the fitted conditional likelihoods of a graph.

    Raises
    ------
    ValueError
        The parameters of one variable need more memory than ``model.max_bytes``.
    """
    form = energy.form
    sizes = np.diff(form.pair_start).astype(float)
    ends = form.edges.ravel()
    each = np.bincount(ends, np.repeat(sizes, 2), minlength=energy.n_variables)
    needed = 8.0 * MATRICES * each.max(initial=0.0) ** 2
    if needed > model.max_bytes:
        raise ValueError(
            f"The edges of one column have {each.max():.0f} parameters, whose covariance takes "
            f"about {needed:.3g} bytes, more than max_bytes={model.max_bytes:.3g}. Give a level "
            'as screen, merge rare categories, use statistic="agreement", or raise max_bytes.'
        )
    return fit_nodes(rows.X, rows.weights, form, n_jobs=n_jobs)


def transfer_parameters(source, target):
    """Return ``target`` with the parameters of ``source`` where both have the same edge."""
    edges = map(tuple, source.form.edges.tolist())
    known = dict(zip(edges, source.edge_parameters(), strict=True))
    others = map(tuple, target.form.edges.tolist())
    pairs = [
        known.get(edge, zeros) for edge, zeros in zip(others, target.edge_parameters(), strict=True)
    ]
    flat = np.concatenate(pairs) if pairs else np.zeros(0)
    return target.with_theta({"unary": source.theta["unary"], "pairs": flat})
