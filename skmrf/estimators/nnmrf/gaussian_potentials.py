"""Gaussian potentials: fit, log density and conditional quantiles."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from ..._data.categories import merge_copies, missing_mask, to_floats
from ..._data.column_types import (
    DISCRETE_TYPES,
    find_detected,
    find_log_unseen,
    resolve_column_types,
)
from ..._data.frames import column_names, declared_categories, read_columns
from ..._data.mixed import find_discrete_categories
from ..._data.numeric import find_linear_functions
from ..._data.supports import (
    FARTHEST,
    SMALLEST_SHARE,
    find_outer_ends,
    find_smallest,
    hide_outside,
)
from ..._data.transforms import TAIL_SOFTNESS, TransformedColumns, learn_transform
from ..._kernels.gaussians import MIN_VARIANCE
from ..._utils.log_weights import check_sample_weight, logsumexp_along
from ..._utils.parameters import check_generator
from ..._utils.results import LogPartition
from ...training.part_reports import PartReports
from ...variational.expectation_maximization import MIN_ROWS, MixtureRows
from ...variational.mixture_selection import learn_mixture, score_simple_mixtures
from ...variational.mixtures import missing_patterns
from ...variational.quadrature import (
    ConditionalMoments,
    are_coarse,
    component_log_densities,
    row_log_densities,
)
from .._session import fitted_attributes

EXACT = LogPartition(0.0, 0.0, 0.0, 0.0, True, "exact", True)
N_BISECTIONS = 60
FAR_SPREAD = 3.0  # mean of far values in standard deviations; other far values can be anywhere
MAX_FAR_NUMBERS = 2**21  # of the covariances of components for far values, 16 MB
MAX_BLOCK = 2**22  # conditional means at once
MAX_GAP = 1e-3  # between the end of a cell and the outermost end, in steps
MIN_SHARE = 1e-12  # probability of a component that has an effect on a conditional distribution


def fit_gaussians(model, n_components, X, sample_weight):
    """Fit the mixture of a density with Gaussian potentials; return the fitted attributes.

    Parameters
    ----------
    model : NNMRFDensity
        Estimator with its parameters.
    n_components : "auto" or int
        Number of classes of the hidden variable.
    X : array-like or frame of shape (n_rows, n_columns)
        Training rows.
    sample_weight : array-like of shape (n_rows,) or None
        Weights of the rows.

    Returns
    -------
    dict
        Fitted attributes by name.
    """
    read = read_columns(model, X, reset=True)
    weights = check_sample_weight(sample_weight, len(read[0]))
    weights = np.ones(len(read[0])) if weights is None else weights
    is_empty, names = np.all([missing_mask(x) for x in read], axis=0), column_names(model)
    is_used = (weights > 0) & (~is_empty | is_empty.all())
    read, weights = [column[is_used] for column in read], weights[is_used]
    kept, weights, _ = merge_copies(read, np.zeros(len(weights)), weights)
    read = [column[kept] for column in read]
    columns = learn_transformed_columns(
        X, read, names, model.column_types, model.categories, weights
    )
    weights = weights * (len(weights) / weights.sum())
    columns = _choose_tails(columns, read, weights)
    codes = columns.encode(read)
    near = columns.hide_far(codes)
    rows = _mixture_rows(columns, near, weights)
    reports = PartReports(model, X, None, 1)
    rng = reports.begin(check_generator(model.random_state), codes, weights)
    seed = int(rng.integers(2**63))
    tasks = [(rows, n_components, np.random.default_rng(seed))]
    learned = reports.learn("mixture", "mixtures", learn_mixture, tasks, brief=_learn_briefly)
    mixture, history, converged = learned[0]
    is_far = np.isnan(near) & ~np.isnan(codes)
    mixture = _add_far_components(mixture, codes, is_far, weights)
    n_iter = len(history["log_likelihood"])
    epochs = list(range(1, n_iter + 1))
    history = history | {"epoch": epochs, "n_updates": epochs.copy()}
    diagnostics = {"history": history, "n_iter": n_iter, "converged": converged}
    fitted = fitted_attributes(None, seed=seed, **diagnostics)
    del fitted["energy_"]
    fitted |= {
        "mixture_": mixture,
        "categories_": columns.categories,
        "column_types_": columns.types,
        "_columns": columns,
        "_interrupted": reports.interrupted,
    }
    reports.finish(fitted)
    return fitted


def _mixture_rows(columns, codes, weights):
    """Return encoded rows for expectation-maximisation, without far values."""
    parts = [codes[~np.isnan(codes[:, j]), j] for j in columns.transforms]
    noise = np.array([transform.noise for transform in columns.transforms.values()])
    is_constant = [len(np.unique(part)) < 2 for part in parts]
    noise = np.where(is_constant, 1.0, noise)  # another value has a positive density
    return MixtureRows(codes, columns.n_states, weights, noise, find_cells(columns, codes))


def _choose_tails(columns, read, weights):
    """Return the encoder with the better transforms of heavy tails: the curved, or linear ones.

    Curved transforms describe heavy tails of each column. Student t distributions of columns with
    linear transforms describe heavy tails of several columns together. The log-likelihoods of
    held-out rows under simple mixtures are compared.
    """
    curved = [
        j
        for j, transform in columns.transforms.items()
        if np.isinf([transform.low, transform.high]).all() and transform.softness < TAIL_SOFTNESS[0]
    ]
    if len(curved) < 2 or len(weights) < MIN_ROWS:
        return columns
    linear = {
        j: learn_transform(
            to_floats(read[j], columns.names[j]), weights, columns.types[j], is_linear=True
        )
        for j in curved
    }
    encoders = columns, replace(columns, transforms=columns.transforms | linear)
    near = [encoder.hide_far(encoder.encode(read)) for encoder in encoders]
    is_hidden, scores = np.isnan(near).any(axis=0), []
    for encoder, codes in zip(encoders, near, strict=True):
        codes = np.where(is_hidden, np.nan, codes)
        rows = _mixture_rows(encoder, codes, weights)
        scores.append(score_simple_mixtures(rows, encoder.log_scale(codes)))
    return encoders[int(np.argmax(scores))]


def learn_transformed_columns(X, columns, names, column_types, categories, weights):
    """Return an encoder fitted to training rows.

    Parameters
    ----------
    X : array-like or frame
        Training rows.
    columns : list of ndarray of shape (n_rows,)
        Columns of ``X``, or of some of its rows.
    names : list
        Names of the columns.
    column_types : "auto", str, list of str, or dict
        Types of the columns, as in :func:`~skmrf._data.column_types.resolve_column_types`.
    categories : "auto" or list of lists
        Categories of each categorical column.
    weights : ndarray of shape (n_rows,)
        Weight of each row of ``columns``.

    Returns
    -------
    TransformedColumns
        Encoder of the columns.
    """
    types = resolve_column_types(column_types, X, columns, names)
    is_discrete, transforms = np.isin(types, DISCRETE_TYPES), {}
    detected = find_detected(column_types, names)
    declared = declared_categories(X, is_discrete)
    known = find_discrete_categories(columns, names, is_discrete, categories, declared)
    numeric = {j: to_floats(columns[j], names[j]) for j in np.flatnonzero(~is_discrete).tolist()}
    for j, x in numeric.items():
        if np.isnan(x).all():
            raise ValueError(f"Column {names[j]!r} has no observed entry; drop it.")
    is_linear = find_linear_functions(list(numeric.values()))
    for (j, x), linear in zip(numeric.items(), is_linear, strict=True):
        options = {"is_linear": linear, "is_detected": j in detected}
        transforms[j] = learn_transform(x, weights, types[j], names[j], **options)
    parts = zip(np.flatnonzero(is_discrete).tolist(), known, declared, strict=True)
    is_open = detected if isinstance(categories, str) else ()
    seen = {j: values for j, values, given in parts if given is None and j in is_open}
    log_unseen = find_log_unseen(columns, seen)
    return TransformedColumns(list(names), types, transforms, known, log_unseen)


class Cells(NamedTuple):
    """Cells of the rounded numbers of encoded rows: the intervals that are rounded to them.

    Attributes
    ----------
    low, high : ndarray of shape (n_rows, n_numbers)
        Ends of the cells, nan for numbers that are missing or not rounded.
    widths : ndarray of shape (n_rows, n_numbers)
        Widths of cells in which the transform is linear, nan for the same numbers.
    noise : ndarray of shape (n_numbers,)
        Variances of the rounding errors, which the covariances of a mixture include.
    spikes : ndarray of shape (n_numbers, n_slots, 2)
        Ends of the cells of point masses, nan if there are fewer.
    """

    low: np.ndarray
    high: np.ndarray
    widths: np.ndarray
    noise: np.ndarray
    spikes: np.ndarray


def find_cells(columns, codes):
    """Return the cells of the rounded numbers of encoded rows, or None if no column is rounded."""
    transforms = columns.transforms
    rounded = [(k, j) for k, (j, t) in enumerate(transforms.items()) if t.step]
    if not rounded:
        return None
    low, high, widths = np.full((3, len(codes), len(transforms)), np.nan)
    n_slots = max(1, *(len(transforms[j].spikes) for _, j in rounded))
    spikes = np.full((len(transforms), n_slots, 2), np.nan)
    for k, j in rounded:
        transform, here = transforms[j], ~np.isnan(codes[:, j])
        z = codes[here, j]
        low[here, k], high[here, k] = _cell_ends(transform, transform.restore(z)).T
        widths[here, k] = transform.step * np.exp(transform.log_slope(z))
        spikes[k, : len(transform.spikes)] = _cell_ends(transform, transform.spikes)
    noise = np.array([transform.noise for transform in transforms.values()])
    return Cells(low, high, widths, noise, spikes)


def _cell_ends(transform, x):
    """Return the transformed ends of the cells of values, shape (n_values, 2)."""
    ends = np.stack([x - transform.step / 2, x + transform.step / 2], axis=1)
    margin = MAX_GAP * transform.step
    low, high = find_outer_ends(transform)
    is_below, is_above = ends < low + margin, ends > high - margin
    return np.where(is_below, -np.inf, np.where(is_above, np.inf, transform.forward(ends)))


def _add_far_components(mixture, X, is_far, weights):
    """Add components for the rows with numbers that are far from all others.

    All rows that have far numbers in the same columns share a component, whose weight is the share
    of these rows. Its distribution is wide in these columns, and has the moments of the mixture in
    the others. The number of components is limited by their memory.
    """
    values = np.where(is_far, X, np.nan)[:, mixture.numbers]
    masks, group = np.unique(~np.isnan(values), axis=0, return_inverse=True)
    shares = np.bincount(group.ravel(), weights) / weights.sum()
    chosen = np.flatnonzero(masks.any(axis=1))
    chosen = chosen[np.argsort(-shares[chosen], kind="stable")]
    chosen = chosen[: max(MAX_FAR_NUMBERS // max(masks.shape[1], 1) ** 2, 1)]
    parts = np.exp(mixture.log_weights)
    mean, tables = parts @ mixture.means, np.tensordot(parts, mixture.tables, 1)
    deviations = mixture.means - mean
    covariance = np.tensordot(parts, mixture.covariances, 1) + (parts * deviations.T) @ deviations
    total = max(1.0 - shares[chosen].sum(), 1.0 / len(X))
    for k in chosen:
        total += shares[k]
        far = _far_moments(values[group.ravel() == k], masks[k], mean, covariance)
        mixture = mixture.with_defensive_component(*far, shares[k] / total, tables)
    return mixture


def _far_moments(values, is_far, mean, covariance):
    """Return the mean and the covariance of rows with far numbers in the same columns."""
    mean, covariance, values = mean.copy(), covariance.copy(), values[:, is_far]
    mean[is_far] = values.mean(axis=0)
    covariance[is_far] = covariance[:, is_far] = 0.0
    deviations = np.maximum(values.std(axis=0), np.abs(mean[is_far]) / FAR_SPREAD)
    covariance[is_far, is_far] = np.maximum(deviations, 1.0) ** 2
    return mean, covariance


def _learn_briefly(rows, _, rng):
    return learn_mixture(rows, 1, rng)


def log_densities(mixture, columns, codes):
    """Return the log-density of each encoded row in nats and in the units of the columns.

    Parameters
    ----------
    mixture : Mixture
        Mixture of the encoded rows.
    columns : TransformedColumns
        Encoding of the rows.
    codes : ndarray of shape (n_rows, n_variables)
        Encoded rows, with nan for missing entries.

    Returns
    -------
    ndarray of shape (n_rows,)
        Log-densities. They are -inf outside the given bounds of a column. Numbers outside detected
        bounds count as missing; :func:`~skmrf._data.supports.score_outside` has their densities.
    """
    codes = hide_outside(columns, codes)
    is_outside = (np.abs(codes) >= FARTHEST).any(axis=1)
    inside = np.where(np.abs(codes) >= FARTHEST, 0.0, codes)
    rows = MixtureRows(inside, columns.n_states, None, None, find_cells(columns, inside))
    logs = row_log_densities(mixture, rows) - columns.log_scale(inside)
    return np.where(is_outside, -np.inf, logs)


def find_log_densities(mixture, columns):
    """Return a function that averages densities over cells, and the variances of rounding errors.

    The function returns the log-densities of encoded rows under each component. Both are None if
    the densities hardly vary in the cells.
    """
    cells = find_cells(columns, np.empty((0, len(columns.n_states))))
    if not are_coarse(cells, mixture):
        return None, None
    return lambda X: component_log_densities(mixture, X, find_cells(columns, X)), cells.noise


def conditional_marginals(mixture, columns, codes, levels):
    """Return the conditional distribution of each entry, given the observed entries of its row.

    Parameters
    ----------
    mixture : Mixture
        Mixture of the encoded rows.
    columns : TransformedColumns
        Encoding of the rows.
    codes : ndarray of shape (n_rows, n_variables)
        Encoded rows, with nan for missing entries.
    levels : array-like of shape (n_levels,)
        Probabilities of the quantiles.

    Returns
    -------
    list of ndarray
        For a column with categories, probabilities of shape (n_rows, n_categories). For a numeric
        column, quantiles of shape (n_rows, n_levels) in the units of the column; those of observed
        numbers are nan.
    """
    size = max(MAX_BLOCK // max(mixture.means.size, 1), 1)
    starts = range(0, max(len(codes), 1), size)
    parts = [_marginals(mixture, columns, codes[s : s + size], levels) for s in starts]
    return [np.concatenate(found) for found in zip(*parts, strict=True)]


def _marginals(mixture, columns, codes, levels):
    """Return the conditional distributions of a block of rows."""
    X = columns.limit(codes)
    numbers = X[:, mixture.numbers]
    moments = ConditionalMoments(mixture, numbers, *missing_patterns(numbers))
    find_logs, errors = find_log_densities(mixture, columns)
    logs = find_logs(X) if find_logs else mixture.table_log_densities(X) + moments.log_densities
    logs = logs + mixture.log_weights[:, None]
    shares = np.exp(logs - logsumexp_along(logs, keepdims=True))
    variances = moments.find_variances(np.where(shares > MIN_SHARE, shares, 0.0))
    used = np.flatnonzero(shares.max(axis=1, initial=0.0) > MIN_SHARE)
    if find_logs:  # the variances include rounding errors
        variances = np.maximum(variances - errors, MIN_VARIANCE * errors)
    deviations = np.sqrt(np.where(variances > 0.0, variances, 1.0))[used]
    mixture, shares, means = mixture.take(used), shares[used], moments.means[used]
    numeric, out = list(columns.transforms), []
    for j in range(len(columns.names)):
        if j in columns.transforms:
            i = numeric.index(j)
            values = _quantiles(
                mixture, columns, codes, j,
                shares=shares, means=means[:, :, i], deviations=deviations[:, :, i], levels=levels,
            )  # fmt: skip
            out.append(values)
        else:
            out.append(_state_probabilities(mixture, codes, j, shares))
    return out


def _state_probabilities(mixture, codes, variable, shares):
    """Return the probabilities of the states of a discrete variable for each row."""
    d, q = np.searchsorted(mixture.discrete, variable), mixture.n_states[variable]
    probabilities = shares.T @ mixture.tables[:, d, :q]
    observed = ~np.isnan(codes[:, variable])
    probabilities[observed] = np.eye(q)[codes[observed, variable].astype(int)]
    return probabilities


def _quantiles(mixture, columns, codes, j, *, shares, means, deviations, levels):
    """Return quantiles of missing numbers of a column, shape (n_rows, n_levels); others are nan."""
    transform, n = columns.transforms[j], len(columns.names)
    place = n + columns.spiked.index(j) if len(transform.spikes) else None
    tables = np.ones((mixture.n_components, 1))
    if place is not None:
        d = np.searchsorted(mixture.discrete, place)
        tables = mixture.tables[:, d, : len(transform.spikes) + 1]
    out = np.full((len(codes), len(levels)), np.nan)
    here = np.flatnonzero(np.isnan(codes[:, j if place is None else place]))
    if len(here):
        out[here] = _invert_distribution(
            transform,
            shares=shares[:, here],
            means=means[:, here],
            deviations=deviations[:, here],
            tables=tables,
            levels=np.asarray(levels, dtype=float),
        )
    is_positive = transform.is_soft[0] and transform.low + transform.step / 2 >= 0.0
    return np.maximum(out, find_smallest(transform)) if is_positive else out


def _invert_distribution(transform, *, shares, means, deviations, tables, levels):
    """Return quantiles of mixtures of normal distributions and point masses by bisection."""
    spikes = transform.spikes
    places = transform.forward(spikes)
    weights = shares * tables[:, :1]
    masses = shares.T @ tables[:, 1:]
    weights, means, deviations = _largest_terms(weights, means, deviations)
    low = (means - 12.0 * deviations).min(axis=0)[:, None] + np.zeros(len(levels))
    high = (means + 12.0 * deviations).max(axis=0)[:, None] + np.zeros(len(levels))
    if len(spikes):
        low, high = np.minimum(low, places.min() - 1.0), np.maximum(high, places.max() + 1.0)
    cells = _cell_ends(transform, spikes if transform.step else spikes[:0])

    def find_mass(start, end):
        masses = [ndtr((z - means[:, :, None]) / deviations[:, :, None]) for z in (start, end)]
        return masses[1] - masses[0]

    outside = 1.0 - sum(find_mass(start, end) for start, end in cells)
    weights = weights[:, :, None] / np.maximum(outside, SMALLEST_SHARE)
    for _ in range(N_BISECTIONS):
        z = 0.5 * (low + high)
        normal = find_mass(-np.inf, z)
        normal -= sum(find_mass(start, np.clip(z, start, end)) for start, end in cells)
        total = (weights * normal).sum(axis=0)
        for place, mass in zip(places, masses.T, strict=True):
            total += mass[:, None] * (z >= place)
        is_below = total < levels
        low, high = np.where(is_below, z, low), np.where(is_below, high, z)
    values = transform.inverse(high)
    for place, spike in zip(places, spikes, strict=True):
        values[(low <= place) & (place <= high)] = spike
    return values


def _largest_terms(weights, *arrays):
    """Return the terms of each row with a weight, shape (n_terms, n_rows), for several arrays."""
    n_terms = max((weights > MIN_SHARE).sum(axis=0).max(initial=0), 1)
    order = np.argsort(-weights, axis=0)[:n_terms]
    return [np.take_along_axis(array, order, axis=0) for array in (weights, *arrays)]
