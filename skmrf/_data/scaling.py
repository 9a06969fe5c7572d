"""Standardisation of input columns that are not binary."""

import numpy as np
from scipy.sparse import issparse
from sklearn.preprocessing import StandardScaler

from .._utils.rows import dense_rows


def fit_scaler(X, weights):
    """Return a scaler of the columns that are not binary, or None if all columns are binary."""
    sparse = issparse(X)
    if sparse:
        others = np.unique(X.indices[(X.data != 0) & (X.data != 1)])
    else:
        others = np.flatnonzero(((X != 0) & (X != 1)).any(axis=0))
    if len(others) == 0:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        weights = None if weights is None else weights / weights.max()
        scaler = StandardScaler(with_mean=not sparse).fit(X, sample_weight=weights)
        if sparse:  # the mean is not subtracted, so it is part of the scale
            scaler.scale_ = np.sqrt(scaler.var_ + scaler.mean_**2)
            scaler.scale_[scaler.scale_ == 0] = 1.0
    # The variance is checked too: where it overflows, StandardScaler sets the scale to 1.
    means = 0.0 if sparse else scaler.mean_
    wrong = np.flatnonzero(~np.isfinite(scaler.scale_ + scaler.var_ + means))
    if wrong.size:
        largest = abs(X[:, [wrong[0]]]).max()
        raise ValueError(
            f"Column {wrong[0]} of X holds {largest:.4g}, which is too large to be standardised. "
            "Remove the row if this is an outlier, or divide the column by a power of ten."
        )
    binary = np.setdiff1d(np.arange(X.shape[1]), others)
    scaler.scale_[binary] = 1.0
    if not sparse:
        scaler.mean_[binary] = 0.0
    return scaler


def scale_inputs(scaler, X):
    """Return the scaled inputs; if ``scaler`` is None, return the inputs unchanged."""
    if scaler is None:
        return X
    return scaler.transform(dense_rows(X) if scaler.with_mean else X)
