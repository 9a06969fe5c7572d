"""Two-sample test by a classifier that distinguishes two tables."""

from typing import NamedTuple

import numpy as np
from scipy.stats import norm, rankdata

from .._data.categories import missing_mask, to_floats
from .._data.column_types import DISCRETE_TYPES, resolve_column_types
from .._data.frames import as_columns, find_column_names
from .._utils.parameters import check_number

MAX_CATEGORIES = 254  # of a categorical column of the boosted trees; rarer ones are merged


class TwoSampleResult(NamedTuple):
    """Result of :func:`classifier_two_sample_test`.

    Attributes
    ----------
    auc : float
        Area under the ROC curve of the classifier on left-out rows. It is about 0.5 if the tables
        have the same distribution, and 1 if the classifier separates them.
    lower, upper : float
        Limits of the 95% confidence interval of the area.
    std_error : float
        Standard error of the area (DeLong).
    """

    auc: float
    lower: float
    upper: float
    std_error: float


def classifier_two_sample_test(
    X, Y, *, column_types="auto", classifier=None, cv=5, random_state=None
):
    """Measure how well a classifier distinguishes two tables, such as real and synthetic rows.

    The classifier is trained on some of the rows, and the area under its ROC curve is computed on
    the other rows by cross-validation. Tables may have numbers, categories and missing entries.

    Parameters
    ----------
    X : array-like or frame of shape (n_rows, n_columns)
        First table, such as real rows. Missing entries are nan, None or NA.
    Y : array-like or frame of shape (m_rows, n_columns)
        Second table, such as synthetic rows, with the same columns.
    column_types : "auto", str, list of str, or dict, default="auto"
        Types of the columns, as in :class:`~skmrf.NNMRFDensity`. "auto" detects them in ``X``.
    classifier : classifier, optional
        Unfitted scikit-learn classifier that has probabilities and accepts missing values. It
        receives numbers and category codes. By default it is
        :class:`~sklearn.ensemble.HistGradientBoostingClassifier`, with categories as such.
    cv : int, default=5
        Number of folds.
    random_state : int, RandomState, Generator or None, default=None
        Random numbers of the folds and of the default classifier. An int makes the result
        reproducible.

    Returns
    -------
    TwoSampleResult
        Area under the ROC curve ``auc``, the limits ``lower`` and ``upper`` of its 95% confidence
        interval, and its standard error ``std_error``.

    Raises
    ------
    ValueError
        If the tables have different columns, or a table has fewer rows than folds.

    References
    ----------
    Lopez-Paz, D., and Oquab, M., "Revisiting classifier two-sample tests", ICLR 2017.

    E. DeLong, D. DeLong and D. Clarke-Pearson, "Comparing the areas under two or more correlated
    receiver operating characteristic curves", Biometrics 1988.

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf.metrics import classifier_two_sample_test
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(200, 2)), rng.normal(2.0, size=(200, 2))
    >>> bool(classifier_two_sample_test(X, Y, random_state=0).lower > 0.8)
    True
    """
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    check_number("cv", cv, low=2, integer=True)
    rng = np.random.default_rng(
        random_state if _is_seed(random_state) else _draw_seed(random_state)
    )
    table, is_discrete = _join(X, Y, column_types)
    labels = np.repeat([0, 1], [len(as_columns(X)[0]), len(as_columns(Y)[0])])
    if np.bincount(labels).min() < cv:
        raise ValueError(
            f"Each table needs at least cv={cv} rows; got {np.bincount(labels).tolist()} rows."
        )
    seed = int(rng.integers(2**31))
    model = _default_classifier(is_discrete, seed) if classifier is None else clone(classifier)
    folds = StratifiedKFold(cv, shuffle=True, random_state=seed)
    scores = cross_val_predict(model, table, labels, cv=folds, method="predict_proba")[:, 1]
    return _auc_interval(scores[labels == 0], scores[labels == 1])


def _is_seed(random_state):
    return random_state is None or isinstance(random_state, int | np.integer | np.random.Generator)


def _draw_seed(random_state):
    return int(random_state.randint(2**31))


def _default_classifier(is_discrete, seed):
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(categorical_features=is_discrete, random_state=seed)


def _join(X, Y, column_types):
    """Return the rows of both tables as floats, and the mask of columns with categories."""
    columns, others, names = as_columns(X), as_columns(Y), find_column_names(X, np.shape(X)[1])
    if len(columns) != len(others) or find_column_names(Y, len(others)) != names:
        raise ValueError(
            "X and Y must have the same columns, with the same names in the same order; X has "
            f"{len(columns)} columns and Y has {len(others)}."
        )
    types = resolve_column_types(column_types, X, columns, names)
    is_discrete = np.isin(types, DISCRETE_TYPES)
    joined = [
        _to_codes(x, y) if discrete else np.concatenate([to_floats(c, name) for c in (x, y)])
        for x, y, name, discrete in zip(columns, others, names, is_discrete, strict=True)
    ]
    return np.stack(joined, axis=1), is_discrete


def _to_codes(x, y):
    """Return the rank of each category by its frequency, with nan for missing entries."""
    values = np.concatenate([x.astype(object), y.astype(object)])
    missing = missing_mask(values)
    keys = np.array([str(v) if isinstance(v, str) else repr(_plain(v)) for v in values])
    _, codes, counts = np.unique(keys, return_inverse=True, return_counts=True)
    rank = np.empty(len(counts))
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return np.where(missing, np.nan, np.minimum(rank[codes], MAX_CATEGORIES))


def _plain(value):
    """Convert a number to a float, so that 1 and 1.0 are the same category."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return float(value) if is_number else value


def _auc_interval(first, second):
    """Return the area under the ROC curve with its confidence interval by DeLong's method."""
    n, m = len(first), len(second)
    ranks = rankdata(np.concatenate([first, second]))
    below = (ranks[n:] - rankdata(second)) / n
    above = 1.0 - (ranks[:n] - rankdata(first)) / m
    auc = float(below.mean())
    error = float(np.sqrt(below.var(ddof=1) / m + above.var(ddof=1) / n))
    reach = norm.ppf(0.975) * error
    return TwoSampleResult(auc, max(auc - reach, 0.0), min(auc + reach, 1.0), error)
