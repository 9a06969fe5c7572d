"""Examples of conditional random fields: sequences, images and graphs, and their labels."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array

from .._utils.label_graphs import LabelGraphs
from .._utils.namespaces import as_numpy, is_numpy
from .categories import missing_mask
from .frame_types import is_pandas, is_polars
from .numeric import numeric_rows

MAX_DENSITY = 0.3  # share of nonzero features of a dense array that is converted to CSR
EXAMPLES = list, tuple, dict, np.ndarray  # types of an example in a list


class Form(NamedTuple):
    """Form in which examples were given, to return predictions in the same form.

    Attributes
    ----------
    kind : {"rows", "flat", "list"}
        "rows": each row of a table is a sequence of length one. "flat": rows of a table with
        ``sequence_ids``. "list": a list with one element per example.
    shapes : list of tuple of int, or None
        Shape of the labels of each example. None if all labels are in one array.
    order : ndarray of int of shape (n_nodes,) or None
        Row of the table of each node, if ``kind`` is "flat".
    """

    kind: str
    shapes: list | None = None
    order: np.ndarray | None = None

    def restore(self, values, node_ptr):
        """Return one array per example, or one array with a row per row of the table.

        Parameters
        ----------
        values : ndarray of shape (n_nodes, ...)
            One row per node.
        node_ptr : ndarray of int of shape (n_examples + 1,)
            First node of each example.

        Returns
        -------
        ndarray or list of ndarray
            Values in the form of the examples.
        """
        if self.kind == "rows":
            return values
        if self.kind == "flat":
            out = np.empty_like(values)
            out[self.order] = values
            return out
        parts = np.split(values, node_ptr[1:-1])
        tail = values.shape[1:]
        return [p.reshape(*s, *tail) for p, s in zip(parts, self.shapes, strict=True)]


class Examples(NamedTuple):
    """Examples as arrays, and the form in which they were given."""

    graphs: LabelGraphs
    form: Form


# Features ---------------------------------------------------------------------------------


def is_table(X):
    """Return whether X is one table of rows, and not a list with one element per example."""
    if isinstance(X, np.ndarray):
        return X.dtype != object or X.ndim != 1
    if not isinstance(X, list | tuple):
        return True
    return len(X) > 0 and _is_row(X[0])


def _is_row(first):
    """Return whether the first element of a list is a row of numbers or strings."""
    if isinstance(first, np.ndarray) or not is_numpy(first):
        return first.ndim < 2 and first.dtype != object
    if isinstance(first, list | tuple):
        return len(first) > 0 and not any(isinstance(v, dict | set) or np.ndim(v) for v in first)
    return not (isinstance(first, dict) or sparse.issparse(first) or _is_frame(first))


def _is_frame(x):
    return is_pandas(x) or is_polars(x)


def _check_rows(X):
    """Raise a ValueError if a list is read as a table, but not all of its elements are rows."""
    sizes = [len(x) if hasattr(x, "__len__") and not isinstance(x, str) else None for x in X]
    if len(set(sizes)) > 1:
        row = next(row for row, size in enumerate(sizes) if size != sizes[0])
        found = [repr(X[k]) if sizes[k] is None else f"{sizes[k]} values" for k in (0, row)]
        raise ValueError(
            f"X is a list whose element 0 ({found[0]}) is a row of a table, but element {row} "
            f"({found[1]}) is not a row of the same length. Give sequences as arrays of shape "
            "(length, n_features), or rows of equal length."
        )


def as_list(X):
    """Return the elements of a Series, or of an array of objects, as a list if they are examples.

    Everything else is returned as it is.
    """
    if isinstance(X, np.ndarray):
        return list(X) if X.dtype == object and X.ndim == 1 else X
    elements = X.to_list() if hasattr(X, "to_list") else []
    if not any(isinstance(x, EXAMPLES) for x in elements):
        return X
    if not all(isinstance(x, EXAMPLES) for x in elements):
        missing = next(k for k, x in enumerate(elements) if not isinstance(x, EXAMPLES))
        raise ValueError(f"Element {missing} of X is {elements[missing]!r}, not a sequence.")
    return elements


def has_dicts(X):
    """Return whether X is a list of sequences of dicts of features, or a list of dicts."""
    if not isinstance(X, list | tuple) or len(X) == 0:
        return False
    first = X[0]
    if isinstance(first, list | tuple):
        first = next((x[0] for x in X if isinstance(x, list | tuple) and len(x)), None)
    return isinstance(first, dict)


def read_examples(estimator, X, sequence_ids=None, *, graph="chain", reset):
    """Return examples as arrays, without labels.

    Parameters
    ----------
    estimator : estimator
        Its attribute ``n_features_in_`` is set or checked.
    X : list, array-like, sparse matrix or frame
        A list of examples, or one table of rows.
    sequence_ids : array-like of shape (n_rows,), optional
        Sequence of each row of a table. By default each row is a sequence of length one.
    graph : {"chain", "second-order chain", "tree", "grid", "given"}, default="chain"
        Kind of graph.
    reset : bool
        Whether the number of features is recorded. Otherwise it is compared with that of fit.

    Returns
    -------
    examples : Examples
        Examples and their form.

    Raises
    ------
    ValueError
        If an example is empty, or has features of the wrong number, shape or type, or an edge
        without nodes. The message names the example.
    """
    X = as_numpy(X)
    if isinstance(X, Iterator | Mapping | Set) and not sparse.issparse(X):
        raise TypeError(
            f"X must be a list with one element per example, or a table; got {type(X).__name__}."
        )
    if is_table(X):
        return _read_table(estimator, X, sequence_ids, graph, reset)
    if sequence_ids is not None:
        raise ValueError(
            "X is a list with one element per sequence, so sequence_ids must be None. "
            "sequence_ids divides the rows of a single table into sequences."
        )
    if graph in ("tree", "given"):
        return _read_graphs(estimator, X, reset)
    if graph == "grid":
        return _read_grids(estimator, X, reset)
    _refuse_frames(X)
    parts = [_check_part(x, e) for e, x in enumerate(X)]
    lengths = [part.shape[0] for part in parts]
    features = _stack(estimator, parts, reset)
    form = Form("list", [(n,) for n in lengths])
    return Examples(LabelGraphs.chains(features, lengths), form)


def _read_table(estimator, X, sequence_ids, graph, reset):
    if not graph.endswith("chain"):
        if isinstance(X, np.ndarray) and X.ndim > 2:
            return read_examples(estimator, list(X), graph=graph, reset=reset)
        if sequence_ids is not None:
            raise ValueError(f'sequence_ids needs graph="chain"; got graph="{graph}".')
    elif isinstance(X, np.ndarray) and X.ndim == 3:  # sequences of equal lengths
        return read_examples(estimator, list(X), graph=graph, reset=reset)
    if isinstance(X, list | tuple):
        _check_rows(X)
    rows = numeric_rows(
        estimator,
        X,
        reset=reset,
        remedy="encode it (sklearn.preprocessing.OneHotEncoder). In a list of sequences of words, "
        "give each word as a dict of features, such as {'word': 'the'}.",
        accept_sparse="csr",
        dtype=np.float64,
    )
    if sequence_ids is None:
        graphs = LabelGraphs.chains(_compress(rows), np.ones(rows.shape[0], dtype=np.int64))
        return Examples(_without_edges(graphs, graph), Form("rows"))
    rank = _number_sequences(sequence_ids, rows.shape[0])
    order = np.argsort(rank, kind="stable")
    lengths = np.bincount(rank)
    graphs = LabelGraphs.chains(_compress(rows[order]), lengths)
    return Examples(graphs, Form("flat", None, order))


def _number_sequences(sequence_ids, n_rows):
    """Return the number of the sequence of each row, in the order of their first rows."""
    ids = np.asarray(sequence_ids)
    if ids.shape != (n_rows,):
        raise ValueError(
            f"sequence_ids must have shape {(n_rows,)}, one id per row; got {ids.shape}."
        )
    is_missing = missing_mask(ids)
    if is_missing.any():
        row = int(np.flatnonzero(is_missing)[0])
        raise ValueError(f"sequence_ids[{row}] is {ids[row]!r}; each row needs an id.")
    numbers = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in ids.tolist()], dtype=np.int64)


def _without_edges(graphs, graph):
    """Return single nodes as graphs without edges, unless the graph is a chain."""
    if graph.endswith("chain"):
        return graphs
    n_kinds = 2 if graph == "grid" else 1
    return replace(
        graphs,
        edges=np.zeros((0, 2), dtype=np.int64),
        edge_ptr=np.zeros(len(graphs) + 1, dtype=np.int64),
        edge_types=np.zeros(0, dtype=np.int64),
        edge_features=np.eye(n_kinds),
    )


def _refuse_frames(X):
    """Raise a TypeError for a list of frames: their columns can have different orders."""
    for example, x in enumerate(X):
        if _is_frame(x):
            raise TypeError(
                f"Sequence {example} of X is a data frame. Concatenate the frames and pass "
                "sequence_ids, or convert each frame to an array with to_numpy()."
            )


def _check_part(x, example, *, name="Sequence"):
    """Return the features of one example as a 2-D array or CSR matrix."""
    if hasattr(x, "__len__") and not sparse.issparse(x) and len(x) == 0:
        raise ValueError(f"{name} {example} of X is empty; remove it, also from y.")
    try:
        is_ready = sparse.issparse(x) and x.format == "csr" and x.dtype == np.float64
        part = x if is_ready and x.ndim == 2 else check_array(
            x, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False,
            ensure_min_samples=0, ensure_min_features=0,
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} {example} of X must be an array of numbers of shape (length, n_features). If "
            "positions are lists of features, convert them to dicts: dict.fromkeys(features, 1.0)."
        ) from error
    if part.shape[0] == 0:
        raise ValueError(f"{name} {example} of X is empty; remove it, also from y.")
    values = part.data if sparse.issparse(part) else part
    if not np.isfinite(values).all():
        bad = ~np.isfinite(part.toarray() if sparse.issparse(part) else part)
        position, column = (int(v[0]) for v in np.nonzero(bad))
        found = "NaN" if np.isnan(values[~np.isfinite(values)][0]) else "infinity"
        raise ValueError(
            f"{name} {example} of X holds {found} at position {position}, feature {column}; give "
            "finite numbers."
        )
    return part


def _stack(estimator, parts, reset, name="Sequence"):
    """Return the features of all examples in one array, after comparing their numbers."""
    if not parts:
        raise ValueError("X has no examples; at least one is needed.")
    n_features = parts[0].shape[1] if reset else estimator.n_features_in_
    for example, part in enumerate(parts):
        if part.shape[1] != n_features:
            where = "the first" if reset else "fit"
            raise ValueError(
                f"{name} {example} of X has {part.shape[1]} features, but {where} has {n_features}."
            )
    if reset:
        estimator.n_features_in_ = n_features
        vars(estimator).pop("feature_names_in_", None)
    if any(sparse.issparse(part) for part in parts):
        return _compress(sparse.vstack(parts, format="csr"))
    return _compress(np.concatenate(parts))


def _compress(features):
    """Return sparse features as CSR with fixed index types, and dense ones as a C array."""
    if not sparse.issparse(features):
        features = np.ascontiguousarray(features, dtype=float)
        if features.size == 0 or np.count_nonzero(features) > MAX_DENSITY * features.size:
            return features
    features = sparse.csr_matrix(features)
    features.indptr = features.indptr.astype(np.int64)
    features.indices = features.indices.astype(np.int32)
    return features


def _read_grids(estimator, X, reset):
    """Return images as graphs: edges to the right have the type 0, edges downwards the type 1."""
    parts, shapes, edges, types, counts, n_nodes = [], [], [], [], [], 0
    for example, image in enumerate(X):
        image = np.asarray(image)
        if image.ndim != 3:
            raise ValueError(
                f"Image {example} of X must have shape (height, width, n_features); got "
                f"{image.shape}."
            )
        shapes.append(image.shape[:2])
        part = _check_part(image.reshape(-1, image.shape[2]), example, name="Image")
        parts.append(part)
        index = np.arange(len(part)).reshape(image.shape[:2]) + n_nodes
        right = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1)
        down = np.stack([index[:-1].ravel(), index[1:].ravel()], axis=1)
        edges += [right, down]
        types.append(np.repeat([0, 1], [len(right), len(down)]))
        counts.append(len(right) + len(down))
        n_nodes += len(part)
    features = _stack(estimator, parts, reset, "Image")
    graphs = LabelGraphs.chains(features, [len(part) for part in parts])
    graphs = replace(
        graphs,
        edges=np.concatenate(edges),
        edge_ptr=np.concatenate([[0], np.cumsum(counts)]),
        edge_types=np.concatenate(types),
        edge_features=np.eye(2),
    )
    return Examples(graphs, Form("list", shapes))


def _read_graphs(estimator, X, reset):
    """Return graphs that are given as tuples (node features, edges, features of edges)."""
    parts, edges, values, counts, n_nodes = [], [], [], [], 0
    for example, x in enumerate(X):
        if not isinstance(x, tuple | list) or len(x) not in (2, 3):
            raise ValueError(
                f"Graph {example} of X must be a tuple (node_features, edges) or (node_features, "
                "edges, edge_features)."
            )
        part = _check_part(x[0], example, name="Graph")
        ends = _check_edges(x[1], part.shape[0], example)
        features = np.ones((len(ends), 1)) if len(x) == 2 else _check_edge_features(x, example)
        parts.append(part)
        edges.append(ends + n_nodes)
        values.append(features)
        counts.append(len(ends))
        n_nodes += part.shape[0]
    sizes = {value.shape[1] for value in values}
    if len(sizes) > 1:
        raise ValueError(f"All graphs need the same number of edge features; got {sorted(sizes)}.")
    features = _stack(estimator, parts, reset, "Graph")
    distinct, types = np.unique(np.concatenate(values), axis=0, return_inverse=True)
    graphs = LabelGraphs.chains(features, [part.shape[0] for part in parts])
    graphs = replace(
        graphs,
        edges=np.concatenate(edges),
        edge_ptr=np.concatenate([[0], np.cumsum(counts)]),
        edge_types=types.ravel(),
        edge_features=distinct,
    )
    return Examples(graphs, Form("list", [(part.shape[0],) for part in parts]))


def _check_edges(edges, n_nodes, example):
    try:
        ends = np.asarray(edges)
    except ValueError:  # rows of unequal lengths
        ends = np.asarray(edges, dtype=object)
    ends = ends.reshape(0, 2).astype(np.int64) if ends.size == 0 else ends
    if ends.ndim != 2 or ends.shape[1] != 2 or ends.dtype.kind not in "iu":
        raise ValueError(
            f"The edges of graph {example} of X must be integers of shape (n_edges, 2); got shape "
            f"{ends.shape} and dtype {ends.dtype}."
        )
    is_wrong = ((ends < 0) | (ends >= n_nodes)).any(axis=1) | (ends[:, 0] == ends[:, 1])
    if is_wrong.any():
        edge = int(np.flatnonzero(is_wrong)[0])
        raise ValueError(
            f"Edge {edge} of graph {example} of X is {tuple(ends[edge].tolist())}; it must join "
            f"two different nodes from 0 to {n_nodes - 1}."
        )
    return ends.astype(np.int64)


def _check_edge_features(x, example):
    try:
        values = np.asarray(x[2], dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The edge features of graph {example} of X must be numbers; {error}."
        ) from error
    if values.ndim != 2 or len(values) != len(x[1]) or not np.isfinite(values).all():
        raise ValueError(
            f"The edge features of graph {example} of X must be finite numbers of shape "
            f"({len(x[1])}, n_edge_features); got shape {values.shape}."
        )
    return values


# Labels -----------------------------------------------------------------------------------


def flatten_labels(y, examples, name="y"):
    """Return the labels of all nodes as a list.

    Parameters
    ----------
    y : array-like or list of array-like
        Labels in the form of the examples.
    examples : Examples
        Examples.
    name : str, default="y"
        Name of the labels in error messages.

    Returns
    -------
    list of length n_nodes
        Labels, in the order of the nodes.

    Raises
    ------
    ValueError
        If an example has labels of the wrong number or shape. The message names the example.
    """
    graphs, form = examples
    if form.kind == "list":
        return _flatten_parts(y, form.shapes, name)
    try:
        values = np.asarray(y)
    except ValueError as error:
        raise ValueError(
            "y should be a 1d array with one label per row; got lists of unequal lengths."
        ) from error
    if values.ndim == 2 and values.shape[1] == 1:
        values = column_or_1d(values, warn=True)
    if values.ndim != 1:
        raise ValueError(
            f"y should be a 1d array with one label per row; got shape {values.shape}."
        )
    if len(values) != graphs.n_nodes:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {graphs.n_nodes} "
            f"rows, but y has {len(values)} labels."
        )
    if values.dtype.kind == "f":
        if np.isinf(values).any():
            raise ValueError("y contains infinity; labels must be finite or missing (nan).")
        check_classification_targets(values[~np.isnan(values)])
    values = values.tolist()
    return values if form.order is None else [values[row] for row in form.order.tolist()]


def _flatten_parts(y, shapes, name):
    if isinstance(y, str | Mapping | Set) or not hasattr(y, "__len__"):
        raise TypeError(
            f"{name} must be a list with one list of labels per example; got {type(y).__name__}."
        )
    if len(y) != len(shapes):
        raise ValueError(
            f"X has {len(shapes)} examples, but {name} has {len(y)}; give a list of labels per "
            "example."
        )
    parts = []
    for example, (labels, shape) in enumerate(zip(map(as_numpy, y), shapes, strict=True)):
        if isinstance(labels, str | Mapping | Set) or not hasattr(labels, "__len__"):
            raise ValueError(
                f"Example {example} of {name} must be a list of labels; got {labels!r}."
            )
        found = (len(labels),)
        if len(shape) > 1:
            labels = np.asarray(labels, dtype=object)
            found, labels = labels.shape, labels.ravel()
        if found != shape:
            raise ValueError(
                f"Example {example}: X has {' x '.join(map(str, shape))} positions, but {name} has "
                f"{' x '.join(map(str, found))} labels."
            )
        parts.append(labels.tolist() if isinstance(labels, np.ndarray) else labels)
    return list(chain.from_iterable(parts))
