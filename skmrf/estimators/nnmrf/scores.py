"""Log-likelihoods of neural-network potentials, and imputations of all densities."""

from functools import partial

import numpy as np

from ..._kernels.gaussians import MIN_VARIANCE, find_regressions, predict_number
from ..._utils.log_weights import log_mean_exp, normalized_weights
from ...learners.initial_mixture import impute_normal
from ...variational.mixtures import missing_patterns
from ...variational.quadrature import component_log_densities
from .gaussian_potentials import conditional_marginals, find_cells, find_log_densities

N_SCORING = 10_000  # draws for the log Z of a score
MAX_REDRAWS = 10  # of a number that is rounded to a point mass
N_LEVELS = 32  # quantiles whose mean is the conditional mean
N_CANDIDATES = 100  # draws from the proposal for each row with missing entries
MAX_BLOCK = 2**22  # coefficients of regressions at once


def held_out_score(learner, held_out, density):
    """Return a function that computes the mean log-likelihood of held-out rows.

    Parameters
    ----------
    learner : BeliefLearner
        Learner whose state has the mixture.
    held_out : Batch or None
        Held-out rows.
    density : {"mixture", "mrf"}
        Distribution that is scored: the mixture or the model. The model scores complete rows only.
        If there are none, the mixture is scored.

    Returns
    -------
    callable or None
        ``(energy, state) -> float`` in nats. None without held-out rows.
    """
    if held_out is None:
        return None
    weights = normalized_weights(held_out.log_weights, len(held_out.X))
    complete = ~np.isnan(held_out.X).any(axis=1)
    if density == "mrf" and complete.any():
        shares = weights[complete] / max(weights[complete].sum(), 1e-300)
        return _model_score(learner, held_out.X[complete], shares)

    def score(energy, state):
        beliefs = learner.beliefs(energy, state.learner)
        return float(weights @ beliefs.log_density(held_out.X))

    return score


def _model_score(learner, X, weights):
    """Return a function that computes the mean log-likelihood of complete rows.

    The returned function estimates log Z by importance sampling. Each call uses the same seed, so
    that a resumed fit has the scores of an uninterrupted one.
    """

    def score(energy, state):
        proposal = learner.proposal(energy, state.learner)
        draws = proposal.sample(N_SCORING, np.random.default_rng(0))
        logs = energy.log_potential(draws) - proposal.log_density(draws)
        return float(weights @ energy.log_potential(X)) - log_mean_exp(logs)

    return score


def observed_log_potential(energy, proposal, codes, log_partition, seed):
    """Return each row's log of the unnormalised density, integrated over its missing entries.

    Parameters
    ----------
    energy : NeuralEnergy
        Model.
    proposal : Mixture
        Mixture close to the model, from which missing entries are drawn.
    codes : ndarray of shape (n_rows, n_columns)
        Encoded rows, with nan for missing entries.
    log_partition : float
        log Z in nats: the result for rows without observed entries.
    seed : int
        Seed of the draws. It is the same for all rows.

    Returns
    -------
    ndarray of shape (n_rows,)
        Unnormalised log-probabilities in nats. They are exact for complete rows.
    """
    complete, empty = ~np.isnan(codes).any(axis=1), np.isnan(codes).all(axis=1)
    out = np.empty(len(codes))
    out[complete] = energy.log_potential(codes[complete])
    out[empty] = log_partition
    for r in np.flatnonzero(~complete & ~empty):
        _, logs = _draw_candidates(energy, proposal, codes[r], np.random.default_rng(seed))
        out[r] = log_mean_exp(logs) + proposal.log_density(codes[r : r + 1])[0]
    return out


def draw_by_importance(energy, proposal, codes, rng):
    """Impute each row by one of 100 draws, selected with probability proportional to its weight.

    Parameters
    ----------
    energy : NeuralEnergy
        Model.
    proposal : Mixture
        Mixture close to the model, from which imputations are drawn.
    codes : ndarray of shape (n_rows, n_columns)
        Encoded rows, with nan for missing entries.
    rng : Generator
        Random numbers of the draws.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        Complete rows.
    """
    out = np.empty_like(codes)
    for r, row in enumerate(codes):
        X, logs = _draw_candidates(energy, proposal, row, rng)
        out[r] = X[np.argmax(logs + rng.gumbel(size=len(logs)))]
    return out


def impute_rows(energy, mixture, codes, strategy, rng):
    """Impute missing entries of encoded rows.

    Parameters
    ----------
    energy : NeuralEnergy or None
        Model. None: the mixture is the model.
    mixture : Mixture
        Mixture close to the model.
    codes : ndarray of shape (n_rows, n_columns)
        Encoded rows, with nan for missing entries.
    strategy : {"mode", "marginal", "sample"}
        Most probable values, conditional means and modes of single entries, or random draws.
    rng : Generator or int
        Random numbers of draws. "marginal" needs a seed if there is an energy.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        Complete rows.
    """
    if strategy == "mode":
        log_density = mixture.log_density if energy is None else energy.log_potential
        return impute_modes(mixture, codes, log_density)
    if energy is None:
        is_draw = strategy == "sample"
        return mixture.impute(codes, rng) if is_draw else mixture.impute_marginally(codes)
    impute = draw_by_importance if strategy == "sample" else impute_by_importance
    return impute(energy, mixture, codes, rng)


def impute_modes(mixture, codes, log_density):
    """Impute each row by the candidate of highest density.

    The candidates are the conditional means of the components of the mixture, and of the mixture.

    Parameters
    ----------
    mixture : Mixture
        Mixture close to the model.
    codes : ndarray of shape (n_rows, n_columns)
        Encoded rows, with nan for missing entries.
    log_density : callable
        Function of encoded complete rows. It returns the log-density of each row, up to a constant.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        Complete rows.
    """
    candidates, _ = mixture.impute_by_components(codes)
    candidates = np.concatenate([candidates, mixture.impute_marginally(codes)[None]])
    logs = np.stack([log_density(rows) for rows in candidates])
    return candidates[logs.argmax(axis=0), np.arange(len(codes))]


def impute_by_importance(energy, proposal, codes, seed):
    """Impute missing numbers by weighted means of draws, and categories by weighted votes.

    Parameters
    ----------
    energy : NeuralEnergy
        Model.
    proposal : Mixture
        Mixture close to the model, from which 100 imputations of each row are drawn.
    codes : ndarray of shape (n_rows, n_columns)
        Encoded rows, with nan for missing entries.
    seed : int
        Seed of the draws. It is the same for all rows.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        Complete rows.
    """
    out = codes.copy()
    for r in np.flatnonzero(np.isnan(codes).any(axis=1)):
        X, logs = _draw_candidates(energy, proposal, codes[r], np.random.default_rng(seed))
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        for i in np.flatnonzero(np.isnan(codes[r])):
            if proposal.n_states[i]:
                votes = np.bincount(X[:, i].astype(int), weights, proposal.n_states[i])
                out[r, i] = votes.argmax()
            else:
                out[r, i] = weights @ X[:, i]
    return out


def _draw_candidates(energy, proposal, row, rng):
    """Draw imputations of a row from a proposal distribution; return them and their log weights."""
    X = proposal.impute(np.tile(row, (N_CANDIDATES, 1)), rng)
    return X, energy.log_potential(X) - proposal.log_density(X)


def impute_gaussians(mixture, columns, codes, strategy, rng):
    """Impute missing entries of encoded rows.

    Parameters
    ----------
    mixture : Mixture
        Mixture of the encoded rows.
    columns : TransformedColumns
        Encoding of the rows.
    codes : ndarray of shape (n_rows, n_variables)
        Encoded rows, with nan for missing entries.
    strategy : {"mode", "marginal", "sample"}
        Values of numbers: conditional medians, conditional means, or random draws. Categories are
        the most probable ones, or random draws.
    rng : Generator or int
        Random numbers of draws.

    Returns
    -------
    ndarray of shape (n_rows, n_variables)
        Complete rows.
    """
    rng = rng if strategy == "sample" else np.random.default_rng(0)
    find_logs, errors = find_log_densities(mixture, columns)
    draw = None if errors is None else partial(_draw_rounded_numbers, columns, errors)
    parts, n = (find_logs, draw), len(columns.names)
    out = mixture.impute(columns.limit(codes), rng, *parts)
    out = np.where(np.isnan(codes), out, codes)
    if strategy == "sample":
        return _redraw_near_spikes(mixture, columns, codes, out, rng, parts)
    levels = [0.5] if strategy == "mode" else (np.arange(N_LEVELS) + 0.5) / N_LEVELS
    marginals = conditional_marginals(mixture, columns, codes, levels)
    for j, found in enumerate(marginals):
        transform = columns.transforms.get(j)
        if transform is None:
            out[:, j] = found.argmax(axis=1)
            continue
        place = n + columns.spiked.index(j) if len(transform.spikes) else j
        is_missing = np.isnan(codes[:, place])
        means = found[is_missing].mean(axis=1)
        if len(transform.spikes):
            out[is_missing, place] = transform.find_states(means)
        out[is_missing, j] = transform.forward(transform.inverse(transform.forward(means)))
    return out


def _draw_rounded_numbers(columns, errors, mixture, X, chosen, noise):
    """Draw missing numbers one after the other, each given the rounded numbers before it.

    The variance of a number before rounding is smaller than its conditional variance by that of its
    rounding error, as in the scores.
    """
    (pattern, masks), is_missing, n = missing_patterns(X), np.isnan(X), X.shape[1]
    pairs, group = np.unique(chosen * len(masks) + pattern, return_inverse=True)
    size = max(MAX_BLOCK // n**2, 1)
    means = mixture.draw_numbers(X.copy(), chosen, np.zeros(X.shape))
    precisions, deviations = mixture.find_precisions(), np.zeros(X.shape)
    for start in range(0, len(pairs), size):
        components, patterns = np.divmod(pairs[start : start + size], len(masks))
        coefficients, variances = np.zeros((len(patterns), n, n)), np.zeros((len(patterns), n))
        find_regressions(masks[patterns], components, precisions, coefficients, variances)
        scales = np.sqrt(np.maximum(variances - errors, MIN_VARIANCE * errors))
        is_here = (start <= group) & (group < start + size)
        for i, transform in enumerate(columns.transforms.values()):
            rows = np.flatnonzero(is_here & is_missing[:, i])
            places, z = group[rows] - start, np.empty(len(rows))
            predict_number(i, rows, places, coefficients, deviations, z)
            z += means[rows, i] + scales[places, i] * noise[rows, i]
            if transform.step:
                z = transform.forward(transform.inverse(np.clip(z, *transform.reach)))
            X[rows, i], deviations[rows, i] = z, z - means[rows, i]
    return X


def _redraw_near_spikes(mixture, columns, codes, drawn, rng, parts):
    """Draw numbers again that are rounded to a point mass, because its state was not drawn.

    The number is drawn from the component of the row, which is drawn given the row.
    """
    for place, j in enumerate(columns.spiked, start=len(columns.names)):
        transform, chosen = columns.transforms[j], None
        for _ in range(MAX_REDRAWS if transform.step else 0):
            states = transform.find_states(transform.inverse(drawn[:, j]))
            again = np.isnan(codes[:, place]) & (drawn[:, place] == 0) & (states > 0)
            if not again.any():
                break
            rows = columns.limit(drawn[again])
            if chosen is None:
                chosen = np.zeros(len(drawn), dtype=int)
                chosen[again] = _draw_components(mixture, columns, rows, rng, parts)
            rows[:, j] = np.nan
            for k in np.unique(chosen[again]):
                here = chosen[again] == k
                rows[here] = mixture.take([k]).impute(rows[here], rng, *parts)
            drawn[again, j] = rows[:, j]
    return drawn


def _draw_components(mixture, columns, rows, rng, parts):
    """Draw the component of each row, given also numbers that are rounded to a point mass."""
    if parts[0] is None:  # the densities hardly vary in the cells
        with np.errstate(divide="ignore"):
            logs = np.log(mixture.component_shares(rows))
    else:
        cells = find_cells(columns, rows)
        cells = cells._replace(spikes=np.full_like(cells.spikes, np.nan))
        logs = mixture.log_weights[:, None] + component_log_densities(mixture, rows, cells)
    return np.argmax(logs + rng.gumbel(size=logs.shape), axis=0)


def impute_unobserved_columns(rows, labels):
    """Impute a column in the rows of a class if the class has no observed entry of the column.

    The imputed values are quantiles of the column over all classes, in random order. Other missing
    entries stay missing.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        Encoded rows.
    labels : ndarray of int, shape (n_rows,)
        Number of the class of each row.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        Rows with imputed columns.
    """
    out, rng = rows.copy(), np.random.default_rng(0)
    for k in range(labels.max() + 1):
        here = np.flatnonzero(labels == k)
        for j in np.flatnonzero(np.isnan(rows[here]).all(axis=0)):
            observed = rows[~np.isnan(rows[:, j]), j]
            shares = (rng.permutation(len(here)) + 0.5) / len(here)
            if len(observed):  # categories of a data type may have no observed entry at all
                out[here, j] = np.quantile(observed, shares, method="nearest")
    return out


def impute_class_numbers(X, labels, weights):
    """Impute missing numbers by draws from a normal distribution of each class.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n)
        Rows of numbers.
    labels : ndarray of int, shape (n_rows,)
        Number of the class of each row.
    weights : ndarray of shape (n_rows,) or None
        Weights of the rows.

    Returns
    -------
    ndarray of shape (n_rows, n)
        Complete rows.
    """
    weights = np.ones(len(X)) if weights is None else weights
    X, numbers, rng = X.copy(), np.zeros(X.shape[1], int), np.random.default_rng(0)
    for k in range(labels.max() + 1):
        here = labels == k
        X[here] = impute_normal(X[here], numbers, weights[here] / weights[here].sum(), rng)
    return X
