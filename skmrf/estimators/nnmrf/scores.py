"""Log-likelihoods and imputations of densities with neural-network potentials."""

import numpy as np

from ..._utils.log_weights import log_mean_exp, normalized_weights
from ...learners.initial_mixture import impute_normal

N_SCORING = 10_000  # draws for the log Z of a score
N_CANDIDATES = 100  # draws from the proposal for each row with missing entries


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
