"""Metrics of predicted label sequences."""

from collections import Counter

from .._data.categories import is_missing


def sequence_scores(y_true, y_pred):
    """Return the accuracy of labels, of whole sequences, and the F1 of spans.

    Spans are runs of labels of the same type, such as ``B-NP I-NP``. A label ``B-x`` starts a span.
    A label ``I-x`` starts a span if the label before it is not of the type ``x``. A predicted span
    is correct if its type and both of its ends are. These are the rules of the script ``conlleval``
    of the CoNLL-2000 task, for the formats IOB1, IOB2 and IOBES.

    Parameters
    ----------
    y_true : list of sequences of labels
        True labels of each sequence. Missing labels (None, nan or NA) do not count. A span ends
        before a missing label, in the predictions too.
    y_pred : list of sequences of labels
        Predicted labels of each sequence.

    Returns
    -------
    dict of str to float
        "label_accuracy" and "sequence_accuracy", the shares of correct labels, and of sequences
        without an error among those with a known label. If a label is a string with a prefix such
        as "B-", or if all labels are "O", also "span_precision", "span_recall" and "span_f1"
        between 0 and 1. They are 0 if there are no spans.

    Raises
    ------
    ValueError
        If there are no known labels, if a sequence is not a list of labels, or if it has different
        numbers of true and predicted labels. The message names the sequence.

    References
    ----------
    E. F. Tjong Kim Sang and S. Buchholz, "Introduction to the CoNLL-2000 shared task: chunking",
    CoNLL 2000.

    Examples
    --------
    >>> from skmrf.metrics import sequence_scores
    >>> scores = sequence_scores([["B-NP", "I-NP", "O"]], [["B-NP", "O", "O"]])
    >>> scores["label_accuracy"], scores["span_f1"]
    (0.6666666666666666, 0.0)
    """
    true, predicted = _read_sequences(y_true, "y_true"), _read_sequences(y_pred, "y_pred")
    _check_lengths(true, predicted)
    pairs = [_hide_unknown(*pair) for pair in zip(true, predicted, strict=True)]
    pairs = [(t, p) for t, p in pairs if t.count(None) < len(t)]
    if not pairs:
        raise ValueError("y_true has no known labels; the scores need at least one.")
    known = [(a, b) for pair in pairs for a, b in zip(*pair, strict=True) if a is not None]
    scores = {
        "label_accuracy": _ratio(sum(a == b for a, b in known), len(known)),
        "sequence_accuracy": _ratio(sum(t == p for t, p in pairs), len(pairs)),
    }
    labels = {label for pair in known for label in pair}
    if labels == {"O"} or any(_split_label(label)[0] in "BIES" for label in labels):
        scores |= _span_scores(pairs)
    return scores


def _read_sequences(y, name):
    """Return a list of lists of labels."""
    sequences = list(y)
    for k, labels in enumerate(sequences):
        if isinstance(labels, str) or not hasattr(labels, "__len__"):
            raise ValueError(
                f"Sequence {k} of {name} must be a list of labels; got {labels!r}. Split labels of "
                "a table into one list per sequence."
            )
    return [list(labels) for labels in sequences]


def _hide_unknown(true, predicted):
    """Return both lists of labels, with None where the true label is missing."""
    known = [not is_missing(label) for label in true]
    return [
        [label if k else None for label, k in zip(labels, known, strict=True)]
        for labels in (true, predicted)
    ]


def _check_lengths(true, predicted):
    if len(true) != len(predicted):
        raise ValueError(f"y_true has {len(true)} sequences, but y_pred has {len(predicted)}.")
    for k, (t, p) in enumerate(zip(true, predicted, strict=True)):
        if len(t) != len(p):
            raise ValueError(
                f"Sequence {k} has {len(t)} true labels, but {len(p)} predicted labels."
            )


def _ratio(part, total):
    return part / total if total else 0.0


def _span_scores(pairs):
    counts = Counter()
    for true, predicted in pairs:
        spans, found = set(_spans(true)), set(_spans(predicted))
        counts.update(true=len(spans), found=len(found), right=len(spans & found))
    precision = _ratio(counts["right"], counts["found"])
    recall = _ratio(counts["right"], counts["true"])
    f1 = _ratio(2 * precision * recall, precision + recall)
    return {"span_precision": precision, "span_recall": recall, "span_f1": f1}


def _split_label(label):
    """Return the prefix and the type of a label; the prefix is "O" outside of spans."""
    text = str(label)
    is_span = len(text) > 1 and text[1] == "-" and text[0] in "BIES"
    return (text[0], text[2:]) if is_span else ("O", "")


def _spans(labels):
    """Yield the first position, the position after the last one, and the type of each span."""
    start, before, kind = None, "O", ""
    for i, label in enumerate([*labels, "O"]):
        prefix, new = _split_label(label)
        is_inside = prefix in "IE" and before in "BI" and new == kind
        if start is not None and not is_inside:
            yield start, i, kind
            start = None
        if prefix != "O" and start is None:
            start = i
        before, kind = prefix, new
