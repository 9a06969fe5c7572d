"""Features of sequences from templates: values at neighbouring positions and their conjunctions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import murmurhash3_32
from sklearn.utils.validation import check_is_fitted

from .._utils.parameters import check_number


class SequenceVectorizer(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Converter of sequences of feature dicts to sparse matrices.

    A string is a feature ``key=value`` with the number 1. A number is a feature ``key`` with this
    number, True is 1 and False is 0. Windows add the values at neighbouring positions, and
    conjunctions are products of features.

    Parameters
    ----------
    windows : dict of str to iterable of int, optional
        Offsets of the positions whose values are features, for each key of the dicts. By default
        each key has the offset 0.
    conjunctions : list of list of (str, int), optional
        Conjunctions of features. Each is a list of pairs of a key and an offset, such as
        ``[("word", -1), ("word", 0)]``. By default there are none.
    min_count : int, default=1
        Number of positions of the training sequences at which a feature must occur.
    n_columns : int, optional
        Number of columns of hashed features. By default each feature has its own column, and the
        names of the features are stored.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        Column of each feature, frequent features first. It is empty if the features are hashed.
    keys_ : list of str
        Keys of the dicts that were seen during fit.

    References
    ----------
    F. Sha and F. Pereira, "Shallow parsing with conditional random fields", NAACL 2003: windows and
    conjunctions.

    Examples
    --------
    >>> from skmrf import SequenceVectorizer
    >>> X = [[{"word": "the"}, {"word": "cat"}], [{"word": "cats", "length": 4}]]
    >>> vectorizer = SequenceVectorizer(windows={"word": [0, 1], "length": [0]}).fit(X)
    >>> sorted(vectorizer.vocabulary_)
    ['length[0]', 'word[0]=cat', 'word[0]=cats', 'word[0]=the', 'word[1]=<+1>', 'word[1]=cat']
    >>> [x.shape for x in vectorizer.transform(X)]
    [(2, 6), (1, 6)]
    """

    def __init__(self, windows=None, *, conjunctions=None, min_count=1, n_columns=None):
        self.windows = windows
        self.conjunctions = conjunctions
        self.min_count = min_count
        self.n_columns = n_columns

    def fit(self, X, y=None):
        """Learn the vocabulary of features.

        Parameters
        ----------
        X : list of list of dict
            Sequences of dicts of features.
        y : object, default=None
            Ignored.

        Returns
        -------
        self
            The fitted transformer.
        """
        self._fit(X)
        return self

    def fit_transform(self, X, y=None):
        """Learn the vocabulary of features, and return the features of the same sequences.

        Parameters
        ----------
        X : list of list of dict
            Sequences of dicts of features.
        y : object, default=None
            Ignored.

        Returns
        -------
        list of CSR matrix of shape (length, n_features)
            Features of each sequence.
        """
        return self._to_matrices(*self._fit(X))

    def transform(self, X):
        """Return the features of sequences. Features that were not seen during fit are ignored.

        Parameters
        ----------
        X : list of list of dict
            Sequences of dicts of features.

        Returns
        -------
        list of CSR matrix of shape (length, n_features)
            Features of each sequence.
        """
        check_is_fitted(self)
        lengths = _check_sequences(X)
        return self._to_matrices(self._features(X, lengths), lengths)

    def count_unseen(self, X):
        """Return the number of features of sequences that were not seen during fit.

        Parameters
        ----------
        X : list of list of dict
            Sequences of dicts of features.

        Returns
        -------
        int
            Number of occurrences of features that :meth:`transform` ignores.
        """
        check_is_fitted(self)
        features = self._features(X, _check_sequences(X))
        return sum(int((self._columns(names) < 0)[codes].sum()) for names, _, codes, _ in features)

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        ndarray of str of shape (n_features,)
            Names, such as ``"word[-1]=the"``. Hashed columns are named by their number.
        """
        check_is_fitted(self)
        if self.n_columns is not None:
            return np.array([f"column {j}" for j in range(self.n_columns)], dtype=object)
        return np.array(list(self.vocabulary_), dtype=object)

    def _fit(self, X):
        check_number("min_count", self.min_count, low=1, integer=True)
        if self.n_columns is not None:
            check_number("n_columns", self.n_columns, low=1, integer=True)
        self._check_templates()
        lengths = _check_sequences(X)
        self.keys_ = list(dict.fromkeys(key for x in X for position in x for key in position))
        features = self._features(X, lengths)
        self.vocabulary_ = {}
        if self.n_columns is None:
            counts = Counter()  # by name: a word can have the name of another feature
            for names, _, codes, _ in features:
                found = np.bincount(codes, minlength=len(names)).tolist()
                for name, n in zip(names, found, strict=True):
                    counts[name] += n
            frequent = [name for name, n in counts.most_common() if n >= self.min_count]
            self.vocabulary_ = {name: column for column, name in enumerate(frequent)}
        return features, lengths

    def _templates(self):
        windows = dict.fromkeys(self.keys_, (0,)) if self.windows is None else self.windows
        single = [((key, offset),) for key, offsets in windows.items() for offset in offsets]
        given = [tuple(map(tuple, conjunction)) for conjunction in self.conjunctions or ()]
        return list(dict.fromkeys(single + given))

    def _check_templates(self):
        """Raise a ValueError unless the windows and the conjunctions have the right form."""
        windows = {} if self.windows is None else self.windows
        is_dict = isinstance(windows, Mapping)
        if not is_dict or not all(_are_offsets(offsets) for offsets in windows.values()):
            raise ValueError(
                "windows must be a dict from keys to lists of integers, such as "
                f"{{'word': [-1, 0]}}; got {windows!r}."
            )
        for conjunction in self.conjunctions or ():
            if not conjunction or not all(_is_pair(part) for part in conjunction):
                raise ValueError(
                    "Each of conjunctions must be a list of pairs of a key and an integer, such as "
                    f"[('word', -1), ('word', 0)]; got {conjunction!r}."
                )

    def _features(self, X, lengths):
        """Return the names, positions, name indices and values of the features per template."""
        templates, starts = self._templates(), np.cumsum([0, *lengths])
        keys = dict.fromkeys(key for template in templates for key, _ in template)
        columns = {key: _read_key(X, key, starts) for key in keys}
        shifted = {
            part: _shift(*columns[part[0]], part, starts)
            for part in dict.fromkeys(part for template in templates for part in template)
        }
        return [_conjoin([shifted[part] for part in template]) for template in templates]

    def _columns(self, names):
        """Return the column index of each feature name, or -1 if it is not in the vocabulary."""
        if self.n_columns is not None:
            hashes = [murmurhash3_32(name, positive=True) % self.n_columns for name in names]
            return np.array(hashes, dtype=np.int64)
        return np.array([self.vocabulary_.get(name, -1) for name in names], dtype=np.int64)

    def _to_matrices(self, features, lengths):
        n = sum(lengths)
        rows, columns, numbers = [np.zeros(0, int)], [np.zeros(0, int)], [np.zeros(0)]
        for names, positions, codes, values in features:
            found = self._columns(names)[codes]
            is_known = found >= 0
            rows.append(positions[is_known])
            columns.append(found[is_known])
            numbers.append(values[is_known])
        width = len(self.vocabulary_) if self.n_columns is None else self.n_columns
        parts = (np.concatenate(p) for p in (numbers, rows, columns))
        data, rows, columns = parts
        matrix = sparse.csr_matrix((data, (rows, columns)), shape=(n, width))
        return _split_rows(matrix, lengths)


class AttributeVectorizer:
    """Sparse features of the positions of sequences, named as the attributes of CRFsuite.

    Parameters
    ----------
    vocabulary : dict of str to int
        Column of each attribute. Other attributes are ignored.
    """

    def __init__(self, vocabulary):
        self.vocabulary_ = vocabulary

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns."""
        return np.array(list(self.vocabulary_), dtype=object)

    def transform(self, X):
        """Return the features of sequences of dicts as a list of CSR matrices."""
        rows, columns, numbers, row = [], [], [], 0
        for example, x in enumerate(X):
            for position, features in enumerate(x):
                for name, value in _list_attributes(features, (), position, example):
                    column = self.vocabulary_.get(name)
                    if column is not None:
                        rows.append(row)
                        columns.append(column)
                        numbers.append(value)
                row += 1
        entries = np.array(numbers, dtype=float), (rows, columns)
        matrix = sparse.csr_matrix(entries, shape=(row, len(self.vocabulary_)))
        return _split_rows(matrix, [len(x) for x in X])


def _are_offsets(values):
    is_list = isinstance(values, Iterable) and not isinstance(values, str | Mapping)
    return is_list and all(isinstance(v, Integral) for v in values)


def _is_pair(part):
    is_list = isinstance(part, Sequence) and not isinstance(part, str)
    return is_list and len(part) == 2 and isinstance(part[1], Integral)


def _check_sequences(X):
    """Return the lengths of sequences of dicts, or raise a ValueError for another entry."""
    for example, x in enumerate(X):
        if isinstance(x, str | Mapping) or not isinstance(x, Iterable):
            raise ValueError(f"Sequence {example} of X must be a list of dicts; got {x!r}.")
        for position, features in enumerate(x):
            if not isinstance(features, Mapping):
                raise ValueError(
                    f"Position {position} of sequence {example} of X is {features!r}; it must be a "
                    'dict of features, such as {"word": "cat"}.'
                )
    return [len(x) for x in X]


def _list_attributes(features, keys, position, example):
    """Yield the names and values of the attributes of a position, as in python-crfsuite."""
    is_dict = isinstance(features, dict)
    for key in features:
        value = features[key] if is_dict else 1.0
        if isinstance(value, dict | list | set | tuple):
            yield from _list_attributes(value, (*keys, key), position, example)
        elif isinstance(value, str):
            yield ":".join(map(str, (*keys, key, value))), 1.0
        elif isinstance(value, bool | np.bool_ | Real) and np.isfinite(_to_float(value)):
            yield ":".join(map(str, (*keys, key))), float(value)
        else:
            raise ValueError(
                f"Feature {key!r} of position {position} of sequence {example} is {value!r}; it "
                "must be a string, a finite number, a truth value, or a list or dict of them."
            )


def _to_float(value):
    """Return a number as a float, or infinity if it is too large."""
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _split_rows(matrix, lengths):
    """Return the blocks of rows of a CSR matrix, which share its memory."""
    parts, start = [], 0
    for length in lengths:
        indptr = matrix.indptr[start : start + length + 1]
        a, b = indptr[0], indptr[-1]
        part = sparse.csr_matrix((length, matrix.shape[1]))
        part.indptr = indptr - a
        part.indices, part.data = matrix.indices[a:b], matrix.data[a:b]
        parts.append(part)
        start += length
    return parts


def _read_key(X, key, starts):
    """Return the names of a key's features, and each position's name index (-1: none) and value."""
    known, n = {}, starts[-1]
    codes, values = np.full(n, -1), np.ones(n)
    i = 0
    for example, x in enumerate(X):
        for position, features in enumerate(x):
            value = features.get(key)
            if isinstance(value, str):
                codes[i] = known.setdefault("=" + value, len(known))
            elif isinstance(value, bool | np.bool_ | Real) and value == value:
                values[i] = _to_float(value)
                if values[i] != 0.0:
                    codes[i] = known.setdefault("", len(known))
            elif value is not None:
                raise ValueError(
                    f"Feature {key!r} of position {position} of sequence {example} is {value!r}; "
                    "it must be a string, a finite number or a truth value."
                )
            i += 1
    if not np.isfinite(values).all():
        i = int(np.flatnonzero(~np.isfinite(values))[0])
        example = int(np.searchsorted(starts, i, side="right")) - 1
        raise ValueError(
            f"Feature {key!r} of position {i - starts[example]} of sequence {example} is "
            f"{values[i]}; it must be a finite number."
        )
    return list(known), codes, values


def _shift(names, codes, values, part, starts):
    """Shift the features of a key by an offset; add names for positions outside of a sequence."""
    key, offset = part
    names = [f"{key}[{offset}]{name}" for name in names]
    if offset == 0 or len(codes) == 0:
        return names, codes, values
    lengths = np.diff(starts)
    begin, end = np.repeat(starts[:-1], lengths), np.repeat(starts[1:], lengths)
    target = np.arange(len(codes)) + offset
    beyond = np.where(target < begin, target - begin, np.maximum(target - end + 1, 0))
    inside = np.clip(target, 0, len(codes) - 1)
    out, numbers = codes[inside], values[inside].copy()
    for distance in np.unique(beyond[beyond != 0]).tolist():
        is_here = beyond == distance
        out[is_here], numbers[is_here] = len(names), 1.0
        names.append(f"{key}[{offset}]=<{distance:+d}>")
    return names, out, numbers


def _conjoin(parts):
    """Return names, positions, name indices and values of the conjunction of features."""
    names, codes, values = parts[0]
    is_present = codes >= 0
    for _, more, _ in parts[1:]:
        is_present = is_present & (more >= 0)
    positions = np.flatnonzero(is_present)
    codes, values = codes[positions], values[positions]
    for more_names, more, numbers in parts[1:]:
        pairs = codes * len(more_names) + more[positions]
        found, codes = np.unique(pairs, return_inverse=True)
        first, second = np.divmod(found, max(len(more_names), 1))
        names = [
            f"{names[a]}|{more_names[b]}"
            for a, b in zip(first.tolist(), second.tolist(), strict=True)
        ]
        values = values * numbers[positions]
    return names, positions, codes, values
