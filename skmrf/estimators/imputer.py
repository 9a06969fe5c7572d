"""Imputation of missing values by Markov random fields."""

import warnings

import numpy as np
from sklearn import get_config
from sklearn.base import OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._data.categories import (
    CategoryEncoder,
    blank_unseen,
    check_seen,
    find_categories,
    missing_mask,
)
from .._data.column_types import DISCRETE_TYPES, resolve_column_types
from .._data.frame_types import to_library
from .._data.frames import (
    append_columns,
    column_names,
    declared_categories,
    holds_numbers,
    read_columns,
    replace_entries,
    select_columns,
)
from .._utils.codes import MISSING
from .._utils.log_weights import check_sample_weight
from .._utils.parameters import check_choice, check_flag, check_generator, check_number
from .._utils.warn import warn_caller
from ._base import LearnedEstimator, NestedEstimator, unchanged_on_error
from ._imputation import CodeModel, ModelChoice
from .boltzmann_machine import BoltzmannMachine
from .discrete_mrf import DiscreteMRF
from .nnmrf.density import NNMRFDensity

STRATEGIES = "mode", "marginal", "sample"
EMPTY = "empty"
IGNORE_UNSEEN = 'Use handle_unknown="ignore" to keep the category'
MODELS = DiscreteMRF, BoltzmannMachine, NNMRFDensity


class MRFImputer(OneToOneFeatureMixin, TransformerMixin, NestedEstimator):
    """Imputation of missing values by a Markov random field.

    A Markov random field of all columns is learned from incomplete rows. Each missing entry is
    imputed given the observed entries of its row [1]_. Missing entries are nan, None, NA or the
    masked entries of a masked array. Observed entries are never changed.

    Parameters
    ----------
    estimator : DiscreteMRF, BoltzmannMachine or NNMRFDensity, optional
        Unfitted model of the columns. By default it is :class:`NNMRFDensity` if a column is not
        categorical. If all columns are categorical, :meth:`fit` imputes held-out entries by three
        models, and uses the best one:

        - a latent Gaussian model (Gaussian copula) [2]_, if each column has ordered categories,
          numbers, or two categories;
        - a mixture with one component for each training row (kernel estimate) [3]_;
        - :class:`DiscreteMRF` with all pairs of columns. It is not tried if another model imputes
          5 percentage points more of the held-out entries correctly than a Chow-Liu tree.

        With fewer than 50 rows, the default is :class:`DiscreteMRF`. The first two models use at
        most 2,000 rows.
    strategy : {"mode", "marginal", "sample"}, default="mode"
        Values that are imputed.

        - "mode": the jointly most probable values of all missing entries of a row. For
          :class:`NNMRFDensity` they are searched among a limited number of candidates. For a latent
          Gaussian model and a mixture of rows, they are those of "marginal".
        - "marginal": the most probable category of each missing entry, and the conditional mean of
          a continuous entry.
        - "sample": a random draw from the conditional distribution.
    column_types : "auto", str, list of str, or dict, default="auto"
        Types of the columns: "continuous", "non-negative", "bounded", "integer", "ordinal",
        "categorical" or "boolean". "auto" detects the types. Booleans, text and categorical data
        types have categories. Whole numbers are categorical if there are at most 20 distinct values
        that look like codes, otherwise integers. These do not look like codes: counts, which have
        few rows with the largest numbers; negative and positive numbers that have few rows at both
        ends; numbers above 9 whose distinct values are more than half of the rows; and a scale of
        at least eight numbers whose order determines most of the relation to the other columns. A
        str is the type of all columns, and a list has one type for each column. A dict has the
        types of some columns, by name or index; the other columns are detected. The types select
        the default estimator, and are the types of the columns of :class:`NNMRFDensity`. In other
        models all columns are categorical; the latent Gaussian model uses the order of ordinal
        columns and of numbers.
    add_indicator : bool, default=False
        Whether to add a column for each column with missing entries in :meth:`fit`. It states
        which entries were missing, as booleans in frames and as zeros and ones in arrays.
    keep_empty_features : bool, default=False
        Whether to keep columns without an observed entry in :meth:`fit`. Their missing entries
        become 0, or stay missing in columns of text, dates or a categorical data type. By default
        these columns are dropped.
    handle_unknown : {"error", "ignore"}, default="error"
        What to do with categories that were not seen in :meth:`fit`. "error" raises a ValueError
        that names the column. "ignore" keeps the category in the result, and imputes other entries
        of the row as if the category were missing. :class:`BoltzmannMachine` always raises an
        error.
    random_state : int, RandomState, Generator or None, default=None
        Random numbers of the draws, and of training if the estimator has ``random_state=None``. An
        int makes the results reproducible.

    Attributes
    ----------
    estimator_ : DiscreteMRF, BoltzmannMachine, NNMRFDensity or other model
        Fitted model of the columns that have an observed entry. A latent Gaussian model has the
        attribute ``correlation``, a mixture of rows has ``prototypes`` and ``smoothing``.
    column_types_ : list of str
        Type of each column, or "empty" for a column without an observed entry.
    indicator_features_ : ndarray of int of shape (n_indicators,)
        Indices of the columns with missing entries in :meth:`fit`.
    n_features_in_ : int
        Number of columns seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns seen during fit. It exists only if all names are strings.

    See Also
    --------
    sklearn.impute.IterativeImputer : Imputation by one regression for each column.
    sklearn.impute.KNNImputer : Imputation by the mean of similar rows.

    References
    ----------
    .. [1] Little, R. J. A., and Rubin, D. B., "Statistical analysis with missing data", Wiley
       (2019).
    .. [2] Zhao, Y., and Udell, M., "Missing value imputation for mixed data via Gaussian copula",
       KDD 2020.
    .. [3] Aitchison, J., and Aitken, C. G. G., "Multivariate binary discrimination by the kernel
       method", Biometrika 63 (1976).

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf import DiscreteMRF, MRFImputer
    >>> X = np.array([["red", "hot"]] * 3 + [["blue", "cold"]] * 2 + [["blue", None]], dtype=object)
    >>> imputer = MRFImputer(DiscreteMRF(learner="exact", alpha=0.01))
    >>> imputer.fit_transform(X)[-1]
    array(['blue', 'cold'], dtype=object)
    """

    _doc_link_module = LearnedEstimator._doc_link_module
    _doc_link_template = LearnedEstimator._doc_link_template

    def __init__(
        self,
        estimator=None,
        *,
        strategy="mode",
        column_types="auto",
        add_indicator=False,
        keep_empty_features=False,
        handle_unknown="error",
        random_state=None,
    ):
        self.estimator = estimator
        self.strategy = strategy
        self.column_types = column_types
        self.add_indicator = add_indicator
        self.keep_empty_features = keep_empty_features
        self.handle_unknown = handle_unknown
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None):
        """Learn the model of the columns.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Training rows. nan, None and NA are missing entries.
        y : ignored
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row. By default all rows have the same weight. With weights
            and ``estimator=None``, the model of categorical columns is :class:`DiscreteMRF`.

        Returns
        -------
        self
            The fitted imputer.

        Raises
        ------
        ValueError
            If no column has an observed entry, or if the model cannot be learned from the columns.
        """
        with unchanged_on_error(self):
            self._check_parameters()
            columns = read_columns(self, X, reset=True)
            missing = _find_missing(columns)
            weights = check_sample_weight(sample_weight, len(missing))
            missing = missing if weights is None else missing[weights > 0]
            kept = np.flatnonzero(~missing.all(axis=0))
            if not len(kept):
                raise ValueError(
                    "No column of X has an observed entry; give rows with observed entries."
                )
            names = column_names(self)
            types = resolve_column_types(self.column_types, X, columns, names, by_dtype=False)
            model = self._learn(X, columns, names, types, kept, weights)
            types = np.array(types, dtype=object)
            types[missing.all(axis=0)] = EMPTY
            self.estimator_ = model
            self.column_types_ = types.tolist()
            self.indicator_features_ = np.flatnonzero(missing.any(axis=0))
        return self

    def _check_parameters(self):
        check_choice("strategy", self.strategy, STRATEGIES)
        check_choice("handle_unknown", self.handle_unknown, ("error", "ignore"))
        check_flag("add_indicator", self.add_indicator)
        check_flag("keep_empty_features", self.keep_empty_features)
        if self.estimator is not None and not isinstance(self.estimator, MODELS):
            raise ValueError(
                "estimator must be a DiscreteMRF, BoltzmannMachine or NNMRFDensity, or None; got "
                f"{self.estimator!r}."
            )

    def _learn(self, X, columns, names, types, kept, weights):
        """Return the fitted model of the columns ``kept``, which have observed entries."""
        types, rows = [types[j] for j in kept], select_columns(X, kept)
        model = self.estimator
        if model is None and all(kind in DISCRETE_TYPES for kind in types):
            columns, names = [columns[j] for j in kept], [names[j] for j in kept]
            encoder = _make_encoder(rows, columns, names, types)
            codes = encoder.encode(columns)
            if weights is None:
                model = choose_model(encoder, codes, types, self.random_state)
            else:
                model = DiscreteMRF()
            if isinstance(model, CodeModel):
                return model
        model = self._make_model(NNMRFDensity() if model is None else model, types)
        return model.fit(rows, sample_weight=weights)

    def _make_model(self, model, types):
        """Return an unfitted copy of a model, given the types of the columns."""
        model = clone(model)
        has_types = isinstance(model, NNMRFDensity)
        if has_types and isinstance(model.column_types, str) and model.column_types == "auto":
            model.set_params(column_types=types)
        if model.random_state is None:
            model.set_params(random_state=self.random_state)
        return model

    def transform(self, X):
        """Impute the missing entries.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows with missing entries.

        Returns
        -------
        ndarray or frame of shape (n_samples, n_features_out)
            Rows without missing entries, of the library and with the data types of ``X``. Imputed
            values of columns of integers are rounded. Rows without missing entries are the same as
            in ``X``, except for dropped columns and indicators.

        Raises
        ------
        ValueError
            If the columns are not those of :meth:`fit`, or if there is a category that was not seen
            in :meth:`fit` and ``handle_unknown="error"``.
        """
        imputed = self._impute(X, self.strategy, 1)[0]
        config = vars(self).get("_sklearn_output_config", {})  # of set_output
        library = config.get("transform", get_config()["transform_output"])
        return to_library(imputed, library)

    def sample_imputations(self, X, n_imputations=5):
        """Impute the missing entries several times by random draws (multiple imputation).

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows with missing entries.
        n_imputations : int, default=5
            Number of imputations.

        Returns
        -------
        list of ndarray or frames of shape (n_samples, n_features_out)
            Tables like those of :meth:`transform`, one for each imputation. They have different
            draws from the conditional distribution of the missing entries.
        """
        check_number("n_imputations", n_imputations, low=1, integer=True)
        return self._impute(X, "sample", n_imputations)

    def _impute(self, X, strategy, n_tables):
        """Return ``n_tables`` imputed tables, which differ only if ``strategy="sample"``."""
        check_is_fitted(self)
        self._check_parameters()
        columns = read_columns(self, X, reset=False)
        missing, kept = _find_missing(columns), self._kept
        rng = check_generator(self.random_state)
        incomplete = np.flatnonzero(missing[:, kept].any(axis=1))
        codes = self._encode(X, [columns[j] for j in kept])[incomplete]
        model, tables = self.estimator_, []
        for _ in range(n_tables):
            values = np.zeros(missing.shape, dtype=object)
            if len(incomplete):
                draws = (rng,) if strategy == "sample" else ()
                rows = model._encoder.decode(model._impute(codes, strategy, *draws))
                values[np.ix_(incomplete, kept)] = rows
            tables.append(self._assemble(X, missing, values))
        return tables

    @property
    def _kept(self):
        return np.flatnonzero(np.array(self.column_types_) != EMPTY)

    def _encode(self, X, columns):
        """Return the rows in the encoding of the model."""
        model = self.estimator_
        if isinstance(model, BoltzmannMachine):
            return model._encode(select_columns(X, self._kept))
        places = range(len(columns))
        if isinstance(model, NNMRFDensity):
            places = model._columns.discrete
        columns, names = list(columns), column_names(self)
        has_types = not isinstance(self.estimator, DiscreteMRF)
        for j, known in zip(places, model.categories_, strict=True):
            if self.handle_unknown == "error":
                check_seen(columns[j], known, names[self._kept[j]], IGNORE_UNSEEN, has_types)
            columns[j] = blank_unseen(columns[j], known)
        return model._encoder.encode(columns)

    def _assemble(self, X, missing, values):
        """Return the table with imputed values, without dropped columns, and with indicators."""
        is_imputed = np.array(self.column_types_) != EMPTY
        if self.keep_empty_features:
            is_imputed |= holds_numbers(X, len(is_imputed))
        out = replace_entries(X, missing & is_imputed, values)
        if not self.keep_empty_features:
            out = select_columns(out, self._kept)
        if self.add_indicator:
            names = self._indicator_names(column_names(self))
            out = append_columns(out, missing[:, self.indicator_features_], names)
        return out

    def _indicator_names(self, names):
        return [f"missingindicator_{names[j]}" for j in self.indicator_features_]

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns of the result of :meth:`transform`.

        Parameters
        ----------
        input_features : array-like of str of shape (n_features,), optional
            Names of the columns of ``X``. By default they are ``feature_names_in_``, or "x0", "x1",
            ... if the columns have no names.

        Returns
        -------
        ndarray of str of shape (n_features_out,)
            Names of the columns that are kept, and of the indicators.
        """
        names = super().get_feature_names_out(input_features)
        kept = np.arange(len(names)) if self.keep_empty_features else self._kept
        added = self._indicator_names(names) if self.add_indicator else []
        return np.array([*names[kept], *added], dtype=object)

    def __sklearn_tags__(self):
        """Return the scikit-learn tags of the imputer."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        is_numeric = isinstance(self.estimator, BoltzmannMachine)
        tags.input_tags.categorical = tags.input_tags.string = not is_numeric
        tags.transformer_tags.preserves_dtype = ["float64", "float32", "int64", "int32"]
        return tags


def _find_missing(columns):
    """Return a boolean mask of the missing entries, shape (n_rows, n_columns)."""
    return np.stack([missing_mask(column) for column in columns], axis=1)


def _make_encoder(X, columns, names, types):
    """Return an encoder of categorical columns, with ordered categories in their order."""
    known = find_categories(columns, names)
    declared = declared_categories(X, np.ones(len(columns), dtype=bool))
    for j, (kind, order) in enumerate(zip(types, declared, strict=True)):
        if kind == "ordinal" and order is not None:
            seen = set(known[j].tolist())
            known[j] = np.array([c for c in order.tolist() if c in seen], dtype=known[j].dtype)
    return CategoryEncoder(names, known)


def choose_model(encoder, codes, types, random_state):
    """Choose a model of categorical columns by a :class:`~._imputation.ModelChoice`.

    The result is a fitted :class:`~._imputation.CodeModel`, or an unfitted ``DiscreteMRF``. The
    random numbers are those of the pairwise model in the comparison.
    """
    choice = ModelChoice(encoder, codes, types)
    if not choice.is_possible:
        return choice.pairwise
    try:
        is_better = choice.is_open() and choice.is_better(_fit_pairwise(choice, random_state))
    except KeyboardInterrupt:
        is_better = False
        warn_caller(
            "Interrupted while models were compared; the model is the best one so far.",
            ConvergenceWarning,
        )
    return choice.pairwise if is_better else choice.quick_model()


def _fit_pairwise(choice, random_state):
    """Return the pairwise model, fitted to the rows of a comparison; raise after Ctrl-C."""
    seed = int(check_generator(random_state).integers(2**31)) if random_state is not None else None
    known, rows = [np.arange(q) for q in choice.n_states], choice.held_out.rows
    fitted = clone(choice.pairwise).set_params(categories=known, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.fit(np.where(rows == MISSING, np.nan, rows))
    if fitted._interrupted:
        raise KeyboardInterrupt
    return fitted
