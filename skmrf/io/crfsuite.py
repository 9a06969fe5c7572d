"""Reading of text dumps of CRFsuite models."""

import os
import re

import numpy as np

from .._data.classes import LabelCodes
from .._data.vectorizer import AttributeVectorizer
from ..energies.crf import CRFEnergy
from ..estimators._session import fitted_attributes
from ..estimators.crf import CRF
from ..learners.crf import CRFLikelihood
from ._files import read_bytes

MAX_BYTES = 2**30
SECTIONS = "FILEHEADER", "LABELS", "ATTRIBUTES", "TRANSITIONS", "STATE_FEATURES"
NAME = re.compile(r"\s*(\d+): (.*)", re.DOTALL)
FEATURE = re.compile(r"\s*\(\d+\) (.*): (\S+)", re.DOTALL)
ARROW = " --> "


def read_crfsuite(path, *, max_bytes=MAX_BYTES):
    """Read a text dump of a CRFsuite model as a fitted :class:`~skmrf.CRF`.

    The command ``crfsuite dump MODEL`` and the method ``Tagger.dump`` of python-crfsuite write such
    files. They have six decimals of each weight, so log-potentials differ from those of CRFsuite by
    up to 5e-7 for each feature of a position. CRFsuite has no weights of the first and last label.

    The model takes the dicts of features that python-crfsuite takes. A string is the attribute
    ``key:value``, and a number or truth value is the value of the attribute ``key``. Lists, sets
    and dicts can be values. Attributes that the model does not have are ignored.

    Parameters
    ----------
    path : str or path-like
        File to read. It is decompressed if its name ends in ``.gz``.
    max_bytes : int, default=2**30
        Largest accepted size of the text in bytes.

    Returns
    -------
    CRF
        Fitted model of a chain. Its ``learner_`` is that of maximum likelihood.

    Raises
    ------
    ValueError
        If the file is no dump of a model of CRFsuite. The message has the line number.

    References
    ----------
    Okazaki, N., "CRFsuite: a fast implementation of conditional random fields" (2007).

    Examples
    --------
    >>> from pathlib import Path
    >>> from skmrf.io import read_crfsuite
    >>> text = '''LABELS = {
    ...       0: rainy
    ...       1: sunny
    ... }
    ... ATTRIBUTES = {
    ...       0: walk
    ... }
    ... TRANSITIONS = {
    ...   (1) rainy --> rainy: 0.700000
    ... }
    ... STATE_FEATURES = {
    ...   (0) walk --> sunny: 1.500000
    ... }
    ... '''
    >>> _ = Path("weather.txt").write_text(text)
    >>> model = read_crfsuite("weather.txt")
    >>> model.predict([[{"walk": 1}, {"clean": 1}]])
    [array(['sunny', 'rainy'], dtype='<U5')]
    >>> Path("weather.txt").unlink()
    """
    path = os.fsdecode(path)
    sections = _read_sections(path, read_bytes(path, max_bytes))
    labels, attributes = (_names(path, sections[name]) for name in ("LABELS", "ATTRIBUTES"))
    if not labels:
        raise ValueError(f"{path}: expected at least one label in the section LABELS.")
    codes = LabelCodes.of(labels)
    columns = {name: column for column, name in enumerate(attributes)}
    transitions = _weights(path, sections["TRANSITIONS"], codes.codes, codes.codes)
    features = _weights(path, sections["STATE_FEATURES"], columns, codes.codes)
    energy = _make_energy(transitions, features, len(columns), len(labels))
    model = CRF()
    model.n_features_in_ = len(columns)
    vars(model).update(
        fitted_attributes(energy),
        alpha_=None,
        alpha_path_=None,
        classes_=codes.classes,
        learner_=CRFLikelihood(),
        vectorizer_=AttributeVectorizer(columns),
        _codes=codes,
        _scaling=None,
        _loop_state=None,
    )
    return model


def _read_sections(path, data):
    """Return the lines of each section with their line numbers."""
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected text in UTF-8, found: {error}.") from error
    sections, current = {}, None
    for number, line in enumerate(lines, start=1):
        line = line.removesuffix("\r")
        if current is not None and line != "}":
            current.append((number, line))
        elif current is not None:
            current = None
        elif line.endswith(" = {") and line[:-4] in SECTIONS:
            current = sections.setdefault(line[:-4], [])
        elif line.strip():
            raise ValueError(
                f"{path}, line {number}: expected the start of one of the sections {SECTIONS}, "
                f"found {line[:40]!r}; read_crfsuite reads text dumps, not binary models (crfsuite "
                "dump MODEL, or Tagger.dump of python-crfsuite)."
            )
    missing = [name for name in SECTIONS[1:] if name not in sections]
    if missing or current is not None:
        what = f"the section {missing[0]}" if missing else "a line '}' at the end"
        raise ValueError(f"{path}: expected {what}; the file is not complete.")
    return sections


def _names(path, lines):
    """Return the names of labels or attributes, in the order of their numbers."""
    names = []
    for number, line in lines:
        found = NAME.fullmatch(line)
        if found is None or int(found[1]) != len(names):
            raise ValueError(
                f"{path}, line {number}: expected '{len(names)}: NAME', found {line[:40]!r}."
            )
        names.append(found[2])
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise ValueError(
            f"{path}: the label or attribute {twice!r} occurs twice in the section that ends in "
            f"line {lines[-1][0]}; rename one of them, or dump the model again."
        )
    return names


def _weights(path, lines, sources, targets):
    """Return the weights of pairs of names, keyed by the numbers of these names."""
    weights = {}
    for number, line in lines:
        found = FEATURE.fullmatch(line)
        pair = None if found is None else _split_pair(found[1], sources, targets)
        if pair is None or pair in weights:
            raise ValueError(
                f"{path}, line {number}: expected '(TYPE) NAME{ARROW}LABEL: WEIGHT' with known "
                f"names that occur once, found {line[:60]!r}."
            )
        weights[pair] = _read_weight(path, number, found[2])
    return weights


def _split_pair(text, sources, targets):
    """Return the numbers of both names, which may contain an arrow; None if they are unknown."""
    parts = text.split(ARROW)
    for k in range(1, len(parts)):
        source, target = ARROW.join(parts[:k]), ARROW.join(parts[k:])
        if source in sources and target in targets:
            return sources[source], targets[target]
    return None


def _read_weight(path, number, text):
    try:
        weight = float(text)
    except ValueError:
        weight = np.nan
    if not np.isfinite(weight):
        raise ValueError(f"{path}, line {number}: expected a finite weight, found {text[:40]!r}.")
    return weight


def _make_energy(transitions, features, n_features, n_labels):
    """Return the model with these weights, which has a weight for each listed pair only."""
    pairs = np.array(sorted(features), dtype=np.int64).reshape(-1, 2)
    counts = np.bincount(pairs[:, 0], minlength=n_features)
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    energy = CRFEnergy.zeros(
        n_features, n_labels, graph="chain", pairs=(ptr, pairs[:, 1].astype(np.int32))
    )
    energy.theta["coef"][:] = [features[tuple(pair)] for pair in pairs.tolist()]
    for pair, weight in transitions.items():
        energy.theta["transition"][(0, *pair)] = weight
    return energy
