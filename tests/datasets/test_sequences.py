"""Tests of sequences: structured sequences, features, scores, and alignments of proteins."""

import re
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from montecarlo import check_draws
from numpy.testing import assert_allclose, assert_array_equal
from twins import enumerate_structured_sequences

from skmrf import CRF, SequenceVectorizer
from skmrf.datasets import alignments, make_structured_sequences
from skmrf.datasets.alignments import average_product_correction, similarity_weights
from skmrf.metrics import sequence_scores

N_SEQUENCES = [10, 16, 26, 41, 64, 100, 157, 247, 388, 609, 956, 1501, 2357, 3701]


@pytest.mark.parametrize(("n", "expected"), list(zip(range(5, 32, 2), N_SEQUENCES, strict=True)))
def test_number_of_sequences(n, expected):
    rows = enumerate_structured_sequences(n)
    assert rows.shape == (expected, n)
    assert rows.dtype == np.int64
    assert set(np.unique(rows)) == {0, 1}
    assert all((rows[:, j : j + 5].sum(axis=1) == 3).all() for j in range(0, n - 4, 2))
    assert (np.diff(rows @ (1 << np.arange(n)[::-1])) > 0).all()  # increasing: no two equal


@pytest.mark.parametrize("n", [5, 7, 9, 11, 13])
def test_sequences_match_brute_force(n):
    rows = np.indices((2,) * n).reshape(n, -1).T
    for j in range(0, n - 4, 2):
        rows = rows[rows[:, j : j + 5].sum(axis=1) == 3]
    np.testing.assert_array_equal(enumerate_structured_sequences(n), rows)


@pytest.mark.parametrize("n", [5, 9, 15])
def test_sequences_are_uniform(n, seed):
    X, _ = make_structured_sequences(n, n_samples=20_000, random_state=seed)
    states = enumerate_structured_sequences(n)
    check_draws(X, states, np.full(len(states), 1 / len(states)))


def test_ancestral_sequences_are_not_uniform(seed):
    """Negative control: complete each window uniformly given its overlap with the last one."""
    states = enumerate_structured_sequences(15)
    p = np.full(len(states), 0.1)
    for j in range(2, 11, 2):
        p *= np.where(states[:, j : j + 3].sum(axis=1) == 2, 0.5, 1.0)
    draws = states[np.random.default_rng(seed).choice(len(states), 20_000, p=p / p.sum())]
    assert p.sum() == pytest.approx(1.0)
    with pytest.raises(AssertionError, match="was drawn"):
        check_draws(draws, states, np.full(len(states), 1 / len(states)))


@pytest.mark.parametrize("n", [5, 7, 31, 1001])
def test_sequences_shapes(n, seed):
    X, cliques = make_structured_sequences(n, n_samples=3, random_state=seed)
    assert X.shape == (3, n)
    assert X.dtype == np.int64
    assert cliques == [(j, j + 1, j + 2, j + 3, j + 4) for j in range(0, n - 4, 2)]
    assert all((X[:, clique].sum(axis=1) == 3).all() for clique in cliques)


def test_sequences_are_reproducible(seed):
    def draw(random_state):
        return make_structured_sequences(31, n_samples=50, random_state=random_state)[0]

    np.testing.assert_array_equal(draw(seed), draw(seed))
    state = np.random.RandomState(seed)
    np.testing.assert_array_equal(draw(state), draw(seed))
    assert (draw(state) != draw(seed)).any()
    assert (draw(seed + 1) != draw(seed)).any()
    assert (draw(None) != draw(None)).any()


LENGTH_ERRORS = [
    (4, "n_variables must be an integer >= 5; got 4."),
    (7.0, "n_variables must be an integer; got 7.0."),
    (
        8,
        "n_variables must be odd, because windows of 5 start at every second variable; got 8. The "
        "nearest valid numbers are 7 and 9.",
    ),
]


@pytest.mark.parametrize(("n", "message"), LENGTH_ERRORS)
def test_sequences_errors(n, message):
    message = f"^{re.escape(message)}$"
    with pytest.raises(ValueError, match=message):
        make_structured_sequences(n, n_samples=10)


@pytest.mark.parametrize("n_samples", [0, -1, 2.5, None])
def test_sequences_invalid_n_samples(n_samples):
    with pytest.raises(ValueError, match=r"^n_samples must be an integer"):
        make_structured_sequences(7, n_samples=n_samples)


LETTERS = np.array(list("-ACDEFG"))


def naive_correction(S):
    n = len(S)
    others = [[j for j in range(n) if j != i] for i in range(n)]
    row = [np.mean([S[i][j] for j in others[i]]) for i in range(n)]
    total = np.mean([S[i][j] for i in range(n) for j in others[i]])
    out = np.zeros((n, n))
    for i in range(n):
        for j in others[i]:
            out[i, j] = S[i][j] - row[i] * row[j] / total
    return out


def naive_weights(X, identity, gap=None):
    return np.array([1 / sum(naive_is_similar(a, b, identity, gap) for b in X) for a in X])


def naive_is_similar(a, b, identity, gap):
    if list(a) == list(b):
        return True
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if gap is None or gap not in (x, y)]
    return bool(pairs) and sum(x == y for x, y in pairs) / len(pairs) >= identity


def related_rows(rng, n_rows, n_columns, n_letters=5, change=0.3):
    """Return rows of codes that are mutations of a few ancestors; some rows are equal."""
    ancestors = rng.integers(n_letters, size=(4, n_columns))
    X = ancestors[rng.integers(4, size=n_rows)]
    fresh = rng.integers(n_letters, size=X.shape)
    X = np.where(rng.random(X.shape) < change, fresh, X)
    X[: n_rows // 5] = X[-(n_rows // 5) :]
    return X


def symmetric(rng, n):
    S = rng.exponential(size=(n, n))
    return S + S.T


# Average product correction ---------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 20])
def test_correction_matches_naive_implementation(n, seed):
    S = symmetric(np.random.default_rng(seed), n)
    given = S.copy()
    corrected = average_product_correction(S)
    assert_allclose(corrected, naive_correction(S), atol=1e-12)
    assert_array_equal(S, given)
    assert_array_equal(np.diag(corrected), 0.0)


def test_correction_ignores_the_diagonal(seed):
    S = symmetric(np.random.default_rng(seed), 8)
    with_diagonal = S + np.diag([np.nan, -3.0, np.inf, 1e9, 0, 0, 0, 0])
    assert_array_equal(average_product_correction(with_diagonal), average_product_correction(S))


def test_correction_removes_a_rank_one_matrix(seed):
    # The means of S = a a' without the diagonal are nearly proportional to a for large n.
    a = np.random.default_rng(seed).uniform(1, 2, size=1000)
    S = np.outer(a, a)
    assert np.abs(average_product_correction(S)).max() < 1e-2 * S.mean()


def test_correction_is_equivariant(seed):
    rng = np.random.default_rng(seed)
    S, order = symmetric(rng, 9), rng.permutation(9)
    corrected = average_product_correction(S)
    assert_allclose(
        average_product_correction(S[np.ix_(order, order)]), corrected[np.ix_(order, order)]
    )
    assert_allclose(average_product_correction(7 * S), 7 * corrected)


def test_correction_ranks_a_coupled_pair_above_hubs():
    general = np.r_[[2.0] * 5, [1.0] * 25]
    S = np.outer(general, general)
    # below the pairs of hubs, but above the average product of these two columns
    S[28, 29] = S[29, 28] = 3.0
    corrected = average_product_correction(S)
    assert S[28, 29] < S[0, 1]
    assert corrected[28, 29] == corrected.max()


def test_correction_of_equal_strengths_is_zero():
    assert_allclose(average_product_correction(np.full((5, 5), 2.0)), 0.0, atol=1e-15)
    assert_array_equal(average_product_correction(np.zeros((4, 4))), np.zeros((4, 4)))


def strength_with_entry(i, j, value):
    S = np.ones((4, 4))
    S[i, j] = value
    return S


@pytest.mark.parametrize(
    ("strength", "match"),
    [
        (np.ones((3, 4)), "square"),
        (np.ones(4), "square"),
        (np.ones((2, 2, 2)), "square"),
        (np.ones((1, 1)), "square"),
        (strength_with_entry(1, 2, 1.5), "symmetric"),
        (strength_with_entry(1, 2, np.nan), r"strength\[1, 2\] is nan"),
        (strength_with_entry(3, 0, np.inf), r"strength\[3, 0\] is inf"),
        (strength_with_entry(0, 1, -0.1), r"strength\[0, 1\] is -0.1"),
    ],
)
def test_invalid_strength_raises(strength, match):
    with pytest.raises(ValueError, match=match):
        average_product_correction(strength)


# Similarity weights -----------------------------------------------------------------------


@pytest.mark.parametrize("gap", [None, 0])
@pytest.mark.parametrize("identity", [0.3, 0.5, 0.6, 0.8, 1.0])
def test_weights_match_naive_implementation(identity, gap, seed):
    X = related_rows(np.random.default_rng(seed), 60, 10)
    expected = naive_weights(X, identity, gap)
    assert_allclose(similarity_weights(X, identity=identity, gap=gap), expected, rtol=1e-15)


@given(st.integers(1, 12), st.integers(1, 30), st.integers(0, 2**32), st.booleans())
def test_weights_match_naive_implementation_at_any_identity(n_columns, tenths, seed, with_gap):
    X = related_rows(np.random.default_rng(seed), 12, n_columns, 3)
    X[0, 0] = 0
    gap, identity = 0 if with_gap else None, tenths / 30
    expected = naive_weights(X, identity, gap)
    assert_array_equal(similarity_weights(X, identity=identity, gap=gap), expected)


@pytest.mark.parametrize("n_columns", [7, 10, 53])
def test_identity_threshold_is_not_affected_by_rounding(n_columns):
    for least in range(1, n_columns + 1):
        X = np.zeros((2, n_columns), dtype=int)
        X[1, least:] = 1
        assert similarity_weights(X, identity=least / n_columns).sum() == 1.0
        if least < n_columns:
            assert similarity_weights(X, identity=(least + 0.5) / n_columns).sum() == 2.0


def test_identical_rows_share_a_weight_of_one():
    X = np.tile([0, 1, 2, 3], (7, 1))
    assert_allclose(similarity_weights(X), 1 / 7)
    assert_allclose(similarity_weights(np.r_[X, X + 4]).sum(), 2.0)


def test_dissimilar_rows_have_weight_one():
    X = np.arange(50)[:, None] + np.zeros(6, dtype=int)
    assert_array_equal(similarity_weights(X), 1.0)
    assert_array_equal(similarity_weights(X[:1]), 1.0)


def test_similarity_is_not_transitive():
    X = [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]]
    assert_allclose(similarity_weights(X, identity=0.75), [1 / 2, 1 / 3, 1 / 2])


def test_duplicate_rows_share_their_weight(seed):
    X = np.unique(related_rows(np.random.default_rng(seed), 40, 8), axis=0)
    once, twice = similarity_weights(X, identity=1.0), similarity_weights(np.r_[X, X], identity=1.0)
    assert_allclose(twice, np.r_[once, once] / 2)


def test_gap_is_a_category_unless_given():
    X = np.array([list("--AC"), list("--AD"), list("CD--"), list("EFAC")])
    assert_allclose(similarity_weights(X, identity=0.75), [1 / 2, 1 / 2, 1, 1])
    # Rows 0 and 3 agree in all columns without gaps; rows 0 and 2 have no such column.
    assert_allclose(similarity_weights(X, identity=0.75, gap="-"), [1 / 2, 1, 1, 1 / 2])


def test_rows_of_gaps_are_similar_to_equal_rows_only():
    X = np.array([list("---"), list("---"), list("-A-"), list("AAA")])
    assert_allclose(similarity_weights(X, gap="-"), [1 / 2, 1 / 2, 1 / 2, 1 / 2])
    assert_allclose(similarity_weights(X[[0, 3]], gap="-"), [1, 1])


def test_frames_and_dtypes(seed):
    X = related_rows(np.random.default_rng(seed), 50, 6, len(LETTERS))
    expected = similarity_weights(X, gap=0)
    names = [f"c{i}" for i in range(6)]
    strings = LETTERS[X]
    for same in (strings, strings.astype(object), pd.DataFrame(strings, columns=names),
                 pl.DataFrame(strings, schema=names), strings.tolist()):  # fmt: skip
        assert_array_equal(similarity_weights(same, gap="-"), expected)
    assert_array_equal(similarity_weights(X.astype(float), gap=0), expected)
    assert_array_equal(similarity_weights(X.astype(np.uint8), gap=0), expected)
    assert_array_equal(similarity_weights(np.asfortranarray(X)[:, ::-1], gap=0), expected)
    pairs = np.empty(X.shape, dtype=object)
    pairs[:] = [[(int(v), "x") for v in row] for row in X]
    assert_array_equal(similarity_weights(pairs, gap=(0, "x")), expected)


def test_columns_with_different_categories():
    frame = pd.DataFrame(
        {"a": [1, 1, 2, 3], "b": ["x", "x", "x", "y"], "c": [True, True, False, True]}
    )
    expected = naive_weights(frame.to_numpy().tolist(), 0.3)
    assert_array_equal(similarity_weights(frame, identity=0.3), expected)


@pytest.mark.parametrize("gap", [None, 0])
@pytest.mark.parametrize("n_bytes", [1, 50, 900, 10**6])
def test_block_size_does_not_change_weights(n_bytes, gap, seed, monkeypatch):
    X = related_rows(np.random.default_rng(seed), 70, 12)
    expected = similarity_weights(X, identity=0.7, gap=gap)
    monkeypatch.setattr(alignments, "BLOCK_BYTES", n_bytes)
    assert_array_equal(similarity_weights(X, identity=0.7, gap=gap), expected)


@pytest.mark.parametrize("n_columns", [255, 256, 300])
def test_counts_of_many_columns_do_not_overflow(n_columns):
    X = np.zeros((3, n_columns), dtype=int)
    X[1, 0] = X[2, 1] = 1
    assert_allclose(similarity_weights(X, identity=0.99), 1 / 3)
    assert_allclose(similarity_weights(X, identity=0.99, gap=1), 1 / 3)


def test_many_categories_do_not_overflow():
    X = np.tile(np.arange(600)[:, None], (1, 3))
    assert_array_equal(similarity_weights(X), 1.0)


def test_memory_is_not_quadratic_in_rows(seed):
    X = related_rows(np.random.default_rng(seed), 4000, 20, 20).astype(np.uint8)
    similarity_weights(X[:100])
    tracemalloc.start()
    similarity_weights(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6  # one byte per pair of rows would be 16 MB


def test_protein_family(data_folder):
    with np.load(data_folder("msa") / "PF00014_ArDCA.npz") as file:
        X, letters = file["msa"][::20], np.array(list(str(file["alphabet"])))
    weights = similarity_weights(X)
    assert_array_equal(weights, similarity_weights(letters[X]))
    agree = (X[:, None] == X).mean(axis=2)
    assert_array_equal(weights, 1 / (agree >= 0.8).sum(axis=1))


@pytest.mark.parametrize("identity", [0.0, -0.5, 1.01, 80, np.nan, "0.8", True, None])
def test_invalid_identity_raises(identity):
    with pytest.raises(ValueError, match="identity"):
        similarity_weights([[0, 1], [1, 0]], identity=identity)


@pytest.mark.parametrize(
    ("X", "gap", "match"),
    [
        ([[0.0, np.nan], [1.0, 0.0]], None, "Column 1 has missing"),
        (np.array([["a", None], ["b", "c"]], dtype=object), None, "Column 1 has missing"),
        ([["a", "b"], ["b", "b"]], "-", "No column has the category gap='-'"),
        (np.zeros((0, 3)), None, "minimum of 1"),
        (np.zeros(3), None, "2D"),
    ],
)
def test_invalid_rows_raise(X, gap, match):
    with pytest.raises(ValueError, match=match):
        similarity_weights(X, gap=gap)


def test_unhashable_entries_raise():
    X = np.empty((2, 1), dtype=object)
    X[:, 0] = [[1], [2]]
    with pytest.raises(TypeError, match="hashable"):
        similarity_weights(X)


def test_vectorizer():
    X = [[{"w": "a", "n": 2}, {"w": "b", "flag": True}], [{"w": "a"}]]
    vectorizer = SequenceVectorizer(
        {"w": [-1, 0], "n": [0]}, conjunctions=[[("w", 0), ("w", 1)], [("w", 0), ("n", 0)]]
    )
    names = vectorizer.fit(X).get_feature_names_out().tolist()
    first = dict(zip(names, vectorizer.transform(X)[0].toarray()[0], strict=True))
    assert {k: v for k, v in first.items() if v} == {
        "w[-1]=<-1>": 1.0, "w[0]=a": 1.0, "n[0]": 2.0, "w[0]=a|w[1]=b": 1.0, "w[0]=a|n[0]": 2.0,
    }  # fmt: skip
    assert vectorizer.count_unseen([[{"w": "z"}]]) == 2
    assert vectorizer.transform([[{"w": "z"}]])[0].nnz == 1
    hashed = SequenceVectorizer(n_columns=16).fit_transform(X)
    assert hashed[0].shape == (2, 16)
    assert hashed[0].sum() == 5.0
    rare = SequenceVectorizer({"w": [0]}, min_count=2).fit(X)
    assert list(rare.vocabulary_) == ["w[0]=a"]
    with pytest.raises(ValueError, match="Feature 'w' of position 1 of sequence 0 is"):
        SequenceVectorizer().fit([[{"w": "a"}, {"w": object()}]])
    with pytest.raises(ValueError, match="Feature 'n' of position 1 of sequence 0 is inf"):
        SequenceVectorizer().fit([[{"n": 1}, {"n": 10**400}]])
    with pytest.raises(
        ValueError, match="Position 1 of sequence 0 of X is 'cat'; it must be a dict"
    ):
        SequenceVectorizer().fit([[{"w": "the"}, "cat"]])
    with pytest.raises(ValueError, match="Sequence 0 of X must be a list of dicts"):
        vectorizer.transform([{"w": "the"}])
    with pytest.raises(ValueError, match="Position 0 of sequence 1 of X is"):
        CRF().fit([[{"w": "the"}], np.ones((1, 1))], [["d"], ["n"]])


def test_repeated_templates_are_one_template():
    X = [[{"w": "a"}, {"w": "b"}]]
    expected = SequenceVectorizer({"w": [0]}).fit_transform(X)[0].toarray()
    repeated = [[("w", 0)], [("w", 0)]]
    found = SequenceVectorizer({"w": [0, 0]}, conjunctions=repeated).fit_transform(X)[0]
    assert_array_equal(found.toarray(), expected)


def test_words_that_look_like_other_features():
    """Features with the same name share a column."""
    X = [[{"w": "a"}, {"w": "<+1>"}, {"w": "b"}]]
    vectorizer = SequenceVectorizer({"w": [0, 1]}).fit(X)
    names = vectorizer.get_feature_names_out().tolist()
    assert len(set(names)) == len(names)
    found = vectorizer.transform(X)[0].toarray()[:, names.index("w[1]=<+1>")]
    assert_array_equal(found, [1.0, 0.0, 1.0])  # the next word, and the end of the sequence


@pytest.mark.parametrize(
    ("windows", "conjunctions", "message"),
    [
        ({"w": -1}, None, r"windows must be a dict .*; got \{'w': -1\}"),
        ({"w": ["a"]}, None, "windows must be a dict"),
        ({"w": "01"}, None, "windows must be a dict"),
        (["w"], None, "windows must be a dict"),
        (None, [["w", "n"]], r"list of pairs of a key and an integer.*; got \['w', 'n'\]"),
        (None, [[("w", "n")]], "list of pairs of a key and an integer"),
        (None, [[]], r"list of pairs of a key and an integer.*; got \[\]"),
    ],
)
def test_invalid_templates(windows, conjunctions, message):
    with pytest.raises(ValueError, match=message):
        SequenceVectorizer(windows, conjunctions=conjunctions).fit([[{"w": "a"}]])


def test_scores_of_sequences():
    true = [["B-x", "I-x", "O", "B-y"], ["O", "I-x", "I-y"], ["O"]]
    wrong = [["B-x", "I-x", "O", "B-x"], ["O", "I-x", "O"], ["O"]]
    scores = sequence_scores(true, wrong)
    assert_allclose(scores["label_accuracy"], 6 / 8)
    assert_allclose(scores["sequence_accuracy"], 1 / 3)
    assert_allclose(scores["span_precision"], 2 / 3)  # three spans are found, four are true
    assert_allclose(scores["span_recall"], 2 / 4)
    assert_allclose(scores["span_f1"], 4 / 7)
    assert "span_f1" not in sequence_scores([["A"]], [["A"]])
    for wrong in (["O", "O"], ["B-x", "O"]):  # such as in a fold of a cross-validation
        assert sequence_scores([["O", "O"]], [wrong])["span_f1"] == 0
    with pytest.raises(ValueError, match="Sequence 0 has 4 true labels, but 1 predicted"):
        sequence_scores(true[:1], [["O"]])
    for empty in ([], [[]]):
        with pytest.raises(ValueError, match="y_true has no known labels"):
            sequence_scores(empty, empty)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_labels_do_not_count_in_scores(missing):
    true = [["B-x", missing, "I-x", "O"], [missing, missing], ["O", missing]]
    predicted = [["B-x", "I-x", "I-x", "B-y"], ["B-x", "O"], ["O", "B-y"]]
    scores = sequence_scores(true, predicted)
    assert_allclose(scores["label_accuracy"], 3 / 4)
    assert_allclose(scores["sequence_accuracy"], 1 / 2)
    assert_allclose(scores["span_precision"], 2 / 3)
    assert_allclose(scores["span_recall"], 1)
    with pytest.raises(ValueError, match="y_true has no known labels"):
        sequence_scores(true[1:2], predicted[1:2])


@pytest.mark.parametrize("labels", [["B-x", "O"], np.array(["a", "b"]), [1, 2]])
def test_scores_need_a_list_of_labels_per_sequence(labels):
    with pytest.raises(ValueError, match="Sequence 0 of y_true must be a list of labels; got"):
        sequence_scores(labels, labels)
