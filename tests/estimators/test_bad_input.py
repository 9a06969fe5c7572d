"""Tests of bad input of single estimators (see also test_bad_input_everywhere.py)."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from estimator_models import classes, small
from numpy.testing import assert_array_equal
from sklearn.base import clone

from skmrf import (
    CRF,
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    MRFImputer,
    MRFStructureLearner,
    NNMRFDensity,
)
from skmrf.energies import BipartiteEnergy
from skmrf.learners import CD, LSSVM, MLEBP, MSSVM, PCD, CDPercLoss

X = np.array([[0, 1], [1, 0], [0, 0], [1, 1]] * 5)
NAMED = pd.DataFrame({"age": [1, 2, 1], "city": ["a", "b", "a"]})


def numbers(n=100):
    return np.random.default_rng(0).normal(size=(n, 2))


BAD_DATA = [
    (NAMED.iloc[:0], ValueError, r"Found array with 0 sample\(s\)"),
    (
        np.arange(40_000)[:, None],
        ValueError,
        "Column 0 has 40000 categories; at most 32767 are possible. Drop identifier columns",
    ),
    (
        np.column_stack([np.arange(20_000)] * 2),
        ValueError,
        r"Learning 400040000 log-potentials needs about 1.92e\+10 bytes, more than max_bytes=4",
    ),
]


@pytest.mark.parametrize(("data", "error", "message"), BAD_DATA, ids=range(len(BAD_DATA)))
def test_bad_data(data, error, message):
    model = DiscreteMRF("pairwise", max_iter=1)
    with pytest.raises(error, match=message):
        model.fit(data)
    assert not [name for name in vars(model) if name.endswith("_")]


BAD_PARAMETERS = [
    ({"learner": "sgd"}, r"learner must be one of \['auto', 'bp', 'bp-cd', 'bpchain-cd'"),
    ({"learner": 3}, "an instance of a class of skmrf.learners; got 3"),
    (
        {"cliques": "all"},
        r"cliques must be one of \['auto', 'independent', 'pairwise'\].*; got 'all'",
    ),
    ({"cliques": 7}, "cliques must be one of .*; got 7"),
    ({"cliques": [(0, 2)]}, r"Clique \(0, 2\) has column 2, but the columns are 0 to 1"),
    ({"cliques": [(0, "age")]}, r"has column 'age', but the columns are 0 to 1"),
    ({"cliques": [(1, 1)]}, r"Clique \(1, 1\) has column 1 twice; give each column once"),
    ({"cliques": nx.Graph([(1, 1)])}, "The graph of cliques has a loop at 1; remove it"),
    ({"cliques": nx.path_graph(3)}, "has column 2, but the columns are 0 to 1"),
    ({"cliques": [(0, 1)], "tie": [[0, 5]]}, "tie has clique 5, but the cliques are 0 to 0"),
    ({"cliques": [(0, 1)], "tie": 3}, r"tie must be groups of clique numbers, such as .*; got 3"),
    ({"categories": np.arange(2)}, r"The categories of column 0 must be a list; got np.int64\(0\)"),
    ({"optimizer": np.array(["sgd", "adam"])}, r"optimizer must be one of .*; got array"),
    ({"early_stopping": np.ones(2)}, r'early_stopping must be True, False or "auto"; got array'),
    ({"alpha": 10**400}, "alpha must be a finite number; got 1000"),
    ({"categories": [[0, 1]]}, "categories has 1 lists, but X has 2 columns; give one list per"),
    ({"categories": [[0, 0], [0, 1]]}, "categories of column 0 must be distinct"),
    ({"categories": [[0, None], [0, 1]]}, "The categories of column 0 contain a missing entry"),
    ({"categories": [[0, 1], [0, np.nan]]}, "The categories of column 1 contain a missing entry"),
    ({"categories": [[0], [0, 1]]}, "has the category 1, which was not seen in fit and is not in"),
    ({"optimizer": "newton"}, "optimizer must be one of .*; got 'newton'"),
    ({"optimizer": "lbfgs"}, 'optimizer="lbfgs" needs a deterministic objective'),
    ({"learning_rate": "fast"}, "learning_rate must be one of .*; got 'fast'"),
    ({"learning_rate": 0}, "learning_rate must be a number > 0; got 0"),
    (
        {"penalty": "lasso"},
        r"penalty must be one of \['elasticnet', 'group-l1', 'l1', 'l2'\]; got 'lasso'",
    ),
    ({"alpha": -1}, "alpha must be a number >= 0; got -1"),
    ({"alpha": np.nan}, "alpha must be a finite number; got nan"),
    ({"batch_size": 0}, "batch_size must be an integer >= 1; got 0"),
    ({"max_iter": 0}, "max_iter must be an integer >= 1; got 0"),
    ({"max_iter": 2.5}, "max_iter must be an integer; got 2.5"),
    ({"tol": -1}, "tol must be a number >= 0; got -1"),
    ({"validation_fraction": 1.5}, "validation_fraction must be a number > 0 and <= 0.9; got 1.5"),
    ({"n_iter_no_change": 0}, "n_iter_no_change must be an integer >= 1; got 0"),
    ({"max_bytes": 0}, "max_bytes must be a number > 0; got 0"),
    ({"random_state": "seed"}, "random_state must be None, an int"),
    ({"random_state": -1}, "random_state must be None, an int >= 0.*got -1"),
    ({"average": "yes"}, "average must be True or False; got 'yes'"),
    ({"learner": "exact", "max_bytes": 10}, "needs about 384 bytes, more than max_bytes=10"),
]


@pytest.mark.parametrize(("parameters", "message"), BAD_PARAMETERS, ids=range(len(BAD_PARAMETERS)))
def test_bad_parameters(parameters, message):
    model = DiscreteMRF(**({"learner": "pcd"} | parameters))
    with pytest.raises(ValueError, match=message):
        model.fit(X)
    assert not hasattr(model, "energy_")


@pytest.mark.parametrize("optimizer", ["adan", "lbfgs"])
@pytest.mark.parametrize(
    "model",
    [
        RBM(2),
        BoltzmannMachine(states=(0, 1)),
        DiscreteMRF(learner="pcd"),
        CRBMStructuredPredictor(2),
    ],
)
def test_wrong_optimizers_raise_an_error_before_training(model, optimizer, monkeypatch):
    """The error comes before the choice of the penalty, which can take minutes."""
    monkeypatch.setattr("skmrf.training.loop.start", lambda *_: pytest.fail("A model is trained."))
    rows = np.repeat(X, 30, axis=0)
    with pytest.raises(ValueError, match="optimizer"):
        clone(model).set_params(optimizer=optimizer).fit(rows, rows)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(20), "All sample weights are zero"),
        (-np.ones(20), r"sample_weight\[0\] is -1.0; weights must be finite and not negative"),
        (np.full(20, np.nan), r"sample_weight\[0\] is nan"),
        ("balanced", "sample_weight must be one number per row or example"),
        ([[1.0], [1.0, 1.0]], r"sample_weight must be one number .* inhomogeneous part\.$"),
        (np.ones(3), r"sample_weight.shape == \(3,\), expected \(20,\): one weight per row or"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        DiscreteMRF().fit(X, sample_weight=weights)


def test_a_failed_fit_leaves_the_previous_one():
    model = DiscreteMRF(learner="exact", alpha=0.1).fit(X)
    before = model.score(X)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.full((4, 3), np.inf))
    assert model.score(X) == before
    with pytest.raises(ValueError, match="has column 5"):
        model.set_params(cliques=[(5,)]).fit(np.zeros((4, 3)))
    assert model.score(X) == before


@pytest.mark.parametrize("query", ["score_samples", "predict", "marginals", "score"])
def test_queries_with_unseen_input_raise(query):
    model = DiscreteMRF(learner="exact", alpha=0.1).fit(NAMED)
    ask = getattr(model, query)
    with pytest.raises(ValueError, match=r"Column 'city' has the category 'c', .* \['a', 'b'\]"):
        ask(pd.DataFrame({"age": [1], "city": ["c"]}))
    with pytest.raises(ValueError, match="Column 'age' has the category 'old'"):
        ask(pd.DataFrame({"age": ["old"], "city": ["a"]}))
    with pytest.raises(ValueError, match="Feature names unseen at fit time"):
        ask(pd.DataFrame({"age": [1], "town": ["a"]}))
    plain = DiscreteMRF(learner="exact", alpha=0.1).fit(X)
    with pytest.raises(ValueError, match="X has 3 features, but DiscreteMRF is expecting 2"):
        getattr(plain, query)(np.zeros((2, 3)))


def test_sample_errors():
    model = DiscreteMRF(learner="exact", alpha=0.1).fit(NAMED)
    with pytest.raises(ValueError, match="n_samples must be an integer >= 1; got 0"):
        model.sample(0)
    with pytest.raises(ValueError, match=r"given has 'town', .* columns are \['age'"):
        model.sample(given={"town": "a"})
    with pytest.raises(ValueError, match=r"given must have one value for each column; got \['"):
        model.sample(2, given={"age": ["young", "old"]})
    for given in (3, "young", ["young", None]):
        with pytest.raises(ValueError, match=r"given must be a dict .*, or a two-dimensional"):
            model.sample(given=given)
    with pytest.raises(ValueError, match="Column 'city' has the category 'z'"):
        model.sample(given={"city": "z"})
    with pytest.raises(ValueError, match="given has 3 rows; give one row, or n_samples=2 rows"):
        model.sample(2, given=NAMED)
    with pytest.raises(ValueError, match="random_state must be None, an int"):
        model.sample(1, random_state="seed")


@pytest.mark.parametrize(("n", "share"), [(1, 0.1), (4, 0.9)])
def test_early_stopping_with_too_few_rows_raises(n, share):
    message = rf"validation_fraction={share} of the rows, .*; got n_samples = {n}\. Use more rows"
    with pytest.raises(ValueError, match=message):
        DiscreteMRF(early_stopping=True, validation_fraction=share).fit(X[:n])


def test_impossible_evidence():
    from skmrf.energies import FactorGraph

    table = np.array([[0.0, -np.inf], [-np.inf, -np.inf]])
    model = DiscreteMRF.from_energy(FactorGraph([2, 2], [(0, 1)], [table]))
    row = np.array([[1.0, np.nan]])
    assert model.score_samples(row)[0] == -np.inf
    for query in (model.predict, model.marginals, lambda r: model.sample(1, given=r)):
        with pytest.raises(ValueError, match="probability zero"):
            query(row)
    tables = [[0.0, -np.inf], [-np.inf, 0.0]]  # whose product is zero
    impossible = DiscreteMRF.from_energy(FactorGraph([2], [(0,), (0,)], tables))
    with pytest.raises(ValueError, match="log Z is -inf, because no state of positive probability"):
        impossible.score_samples([[0], [1]])


# Two-state models (see also test_boltzmann_machine.py and test_rbm_queries.py) -----------------

TWO_STATES = [BoltzmannMachine("pcd", states=(0, 1), max_iter=1), RBM(2, "pcd", max_iter=1)]
two_states = pytest.mark.parametrize("model", TWO_STATES, ids=lambda model: type(model).__name__)

BAD_BITS = [
    (X * 2, ValueError, "Column 0 holds 2, but the states are 0 and 1"),
    (NAMED.iloc[:0, :1], ValueError, r"Found array with 0 sample\(s\)"),
    (NAMED[["age"]], ValueError, "Column 'age' holds 2, but the states are 0 and 1"),
    (X.astype(str), ValueError, "Column 0 holds '0', which is not a number; give two states"),
]


@two_states
@pytest.mark.parametrize(("data", "error", "message"), BAD_BITS, ids=range(len(BAD_BITS)))
def test_bad_data_of_two_state_models(model, data, error, message):
    model = clone(model)
    with pytest.raises(error, match=message):
        model.fit(data)
    assert not [name for name in vars(model) if name.endswith("_")]


OF_ALL_MODELS = (
    "learner",
    "optimizer",
    "learning_rate",
    "penalty",
    "alpha",
    "batch_size",
    "max_iter",
    "tol",
    "validation_fraction",
    "n_iter_no_change",
    "max_bytes",
    "random_state",
)
SHARED = [
    (parameters, message)
    for parameters, message in BAD_PARAMETERS
    if set(parameters) <= set(OF_ALL_MODELS) and parameters.get("learner") not in ("sgd", "exact")
]


@two_states
@pytest.mark.parametrize(("parameters", "message"), SHARED, ids=range(len(SHARED)))
def test_bad_parameters_of_two_state_models(model, parameters, message):
    model = clone(model).set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X)
    assert not hasattr(model, "energy_")


@two_states
def test_bad_weights_of_two_state_models(model):
    for weights, message in (
        (np.zeros(20), "All sample weights are zero"),
        (-np.ones(20), r"sample_weight\[0\] is -1.0; weights must be finite and not negative"),
        (np.full(20, np.nan), r"sample_weight\[0\] is nan"),
        (np.ones(3), r"sample_weight.shape == \(3,\), expected \(20,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            clone(model).fit(X, sample_weight=weights)


@two_states
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_queries_of_two_state_models(model):
    model = clone(model).fit(pd.DataFrame(X, columns=["a", "b"]))
    before = model.score(pd.DataFrame(X, columns=["a", "b"]))
    wrong = pd.DataFrame({"a": [0], "b": [3]})
    for ask in (model.score_samples, model.score, lambda rows: model.sample(1, given=rows)):
        with pytest.raises(ValueError, match="Column 'b' holds 3"):
            ask(wrong)
        with pytest.raises(ValueError, match="Feature names unseen at fit time"):
            ask(wrong.rename(columns={"b": "c"}))
    with pytest.raises(ValueError, match="n_samples must be an integer >= 1; got 0"):
        model.sample(0)
    with pytest.raises(ValueError, match=r"given has 'c', .*; the 2 columns are \['a', 'b'\]\."):
        model.sample(given={"c": 1})
    with pytest.raises(ValueError, match="random_state must be None, an int"):
        model.sample(1, random_state="seed")
    with pytest.raises(ValueError, match="Column 0 holds 5"):
        model.fit(np.array([[5, 0]]))
    assert model.score(pd.DataFrame(X, columns=["a", "b"])) == before
    with pytest.raises(ValueError, match="no row is left for training; got n_samples = 1"):
        clone(model).set_params(early_stopping=True).fit(X[:1])


# Conditional models ----------------------------------------------------------------------------

OUTPUTS = np.array([[0, 1, 1], [1, 0, 1], [0, 0, 0], [1, 1, 0]] * 5)
ODD_OUTPUTS = OUTPUTS.astype(float)
ODD_OUTPUTS[3, 1] = np.nan
HALVES = np.where(OUTPUTS == 1, 0.5, 0.0)
WRONG = "outputs must be one of"


def conditional(**parameters):
    small = {"n_components": 2, "max_iter": 1, "alpha": 0.01}
    return CRBMStructuredPredictor(**small | parameters)


def not_fitted(model):
    return not [name for name in vars(model) if name.endswith("_")]


BAD_INPUTS = [
    (sp.csr_array(np.where(X > 0, np.inf, 0)), ValueError, "Column 1 holds infinity; give finite"),
    (sp.csr_array(np.where(X > 0, np.nan, 0)), ValueError, "Column 1 holds NaN, but CRBM"),
    (
        np.array([["a", "1"]] * 20),
        ValueError,
        "Column 0 holds 'a', which is not a number; encode it",
    ),
    (
        X * 1e300 + numbers(20),
        ValueError,
        "Column 0 of X holds .*, which is too large to be standard",
    ),
    (
        sp.csr_array(X * 1e300),
        ValueError,
        "Column 0 of X holds .*, which is too large to be standard",
    ),
    (X[:7], ValueError, r"y must have shape \(7, 3\), a row of outputs for each row of inputs"),
]


@pytest.mark.parametrize(("data", "error", "message"), BAD_INPUTS, ids=range(len(BAD_INPUTS)))
def test_bad_inputs(data, error, message):
    model = conditional()
    with pytest.raises(error, match=message):
        model.fit(data, OUTPUTS)
    assert not_fitted(model)


BAD_OUTPUTS = [
    (ODD_OUTPUTS, r"Output 1 of row 3 of y is nan; outputs must be one of \[0, 1\]"),
    (ODD_OUTPUTS[:, 1], "Input y contains NaN"),
    (np.where(OUTPUTS > 0, np.inf, 0), f"Output 1 of row 0 of y is inf; {WRONG}"),
    (np.where(X[:, 0] > 0, np.inf, 0), "Input y contains infinity"),
    (HALVES, rf"Output 1 of row 0 of y is 0\.5; {WRONG}"),
    (np.arange(20) / 7, "type of the target is continuous; give a column of zeros and ones for"),
    (np.arange(20) % 3, "Only binary .* target is multiclass; give a column of zeros and ones for"),
    (np.array(["a", "b", "c", "d"] * 5), "target is multiclass; give a column of zeros and ones"),
    (OUTPUTS * 2, f"Output 1 of row 0 of y is 2; {WRONG}"),
    (1 - 2 * OUTPUTS, f"Output 1 of row 0 of y is -1; {WRONG}"),
    (OUTPUTS.astype(str), f"Output 0 of row 0 of y is '0'; {WRONG}"),
    (OUTPUTS.astype(str).astype(object), f"Output 0 of row 0 of y is '0'; {WRONG}"),
    (np.array([["no", "yes"]] * 20), f"Output 0 of row 0 of y is 'no'; {WRONG}"),
    (sp.csr_array(OUTPUTS * 3), f"Output 1 of row 0 of y is 3; {WRONG}"),
    (OUTPUTS[:5], r"y must have shape \(20, 3\), a row of outputs .*; got \(5, 3\)"),
    (X[:5, 0], r"y must have shape \(20,\), a row of outputs .*; got \(5,\)"),
    (OUTPUTS[:, :0], "y has no outputs; give at least one column"),
    (np.zeros((20, 4, 0)), "y has no outputs; give at least one column"),
    (OUTPUTS[:0], r"y must have shape \(20, 3\), .*; got \(0, 3\)"),
    (None, "requires y to be passed, but the target y is None"),
    (3, "Unknown label type for y"),
    (np.where(OUTPUTS > 0, None, 0), f"Output 1 of row 0 of y is None; {WRONG}"),
    (
        pd.DataFrame({"a": pd.array([1, None] * 10, "Int64")}),
        f"Output 0 of row 1 of y is (nan|<NA>); {WRONG}",
    ),
]


@pytest.mark.parametrize(("outputs", "message"), BAD_OUTPUTS, ids=range(len(BAD_OUTPUTS)))
def test_bad_outputs(outputs, message):
    model = conditional()
    with pytest.raises(ValueError, match=message):
        model.fit(X, outputs)
    assert not_fitted(model)


KNOWN = r"one of \['cd', 'cd-percloss', 'lr', 'lssvm', 'mle-bp', 'mle-mf', 'mssvm'\]"
BAD_CONDITIONAL = [
    ({"n_components": 0}, "n_components must be an integer >= 1; got 0"),
    ({"n_components": 2.0}, r"n_components must be an integer; got 2\.0"),
    ({"n_components": 10**9}, r"needs about 2\.4e\+11 bytes, .*=4.295e\+09\. Use fewer n_comp"),
    ({"max_bytes": 100}, "Learning 34 weights needs about 1632 bytes, more than max_bytes=100"),
    ({"learner": "sgd"}, f"learner must be {KNOWN} or an instance of .*; got 'sgd'"),
    ({"learner": "pcd"}, rf"cannot take the learner PCD\(\): .*Take {KNOWN}"),
    ({"learner": "exact"}, rf"cannot take the learner Exact\(\): .*Take {KNOWN}"),
    ({"learner": PCD()}, rf"cannot take the learner PCD\(\): .*Take {KNOWN}"),
    ({"learner": MLEBP}, f"learner must be {KNOWN} or an instance of .*; got <class"),
    ({"learner": MLEBP(n_iter=0)}, "n_iter must be an integer >= 1; got 0"),
    ({"learner": MLEBP(growth=-1)}, "growth must be an integer >= 0; got -1"),
    ({"learner": MSSVM("random")}, r"schedule must be one of \['parallel', 'sequential'\]"),
    ({"learner": MSSVM(loss_weight=[1.0, 2.0])}, "loss_weight has 2 entries, but there are 3 out"),
    ({"learner": LSSVM(loss_weight=np.ones(4))}, "loss_weight has 4 entries, but there are 3 out"),
    ({"learner": LSSVM(loss_weight=-1)}, "loss_weight must be a number of at least 0, or a list"),
    ({"learner": LSSVM(loss_weight="all")}, "loss_weight must be a number of at least 0, or a"),
    ({"learner": CD(n_sweeps=0)}, "n_sweeps must be an integer >= 1; got 0"),
    ({"learner": CDPercLoss(n_sweeps=0)}, "n_sweeps must be an integer >= 1; got 0"),
    ({"learner": "mssvm", "optimizer": "lbfgs"}, 'optimizer="lbfgs" needs a deterministic obj'),
    ({"early_stopping": "always"}, r"early_stopping must be .*; got 'always'"),
    ({"early_stopping": 1}, r"early_stopping must be .*; got 1"),
]
OF_CONDITIONAL = [case for case in SHARED if "max_bytes" not in case[0]] + BAD_CONDITIONAL


@pytest.mark.parametrize(("parameters", "message"), OF_CONDITIONAL, ids=range(len(OF_CONDITIONAL)))
def test_bad_parameters_of_conditional_models(parameters, message):
    model = conditional(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, OUTPUTS)
    assert not_fitted(model)


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ({"X_val": X}, "X_val and y_val must be given together"),
        ({"y_val": OUTPUTS}, "X_val and y_val must be given together"),
        ({"X_val": X[:, :1], "y_val": OUTPUTS}, "X has 1 features, but CRBM.* is expecting 2"),
        ({"X_val": X[:0], "y_val": OUTPUTS[:0]}, r"Found array with 0 sample\(s\)"),
        ({"X_val": X, "y_val": OUTPUTS[:, :2]}, r"y_val must have shape \(20, 3\), .* \(20, 2\)"),
        ({"X_val": X[:9], "y_val": OUTPUTS}, r"y_val must have shape \(9, 3\), .* \(20, 3\)"),
        ({"X_val": X, "y_val": OUTPUTS * 2}, f"Output 1 of row 0 of y_val is 2; {WRONG}"),
        ({"X_val": X * np.nan, "y_val": OUTPUTS}, "holds NaN, but CRBM"),
    ],
)
def test_bad_validation_rows(validation, message):
    model = conditional()
    with pytest.raises(ValueError, match=message):
        model.fit(X, OUTPUTS, **validation)
    assert not_fitted(model)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_failing_fits_of_conditional_models_leave_the_previous_one():
    names = pd.DataFrame(X, columns=["a", "b"])
    model = conditional().fit(names, OUTPUTS)
    before = model.decision_function(names)
    for rows, outputs, weights, message in (
        (X, OUTPUTS, np.zeros(20), "All sample weights are zero"),
        (X, OUTPUTS, -np.ones(20), r"sample_weight\[0\] is -1.0; weights must be finite and not"),
        (X, OUTPUTS, np.full(20, np.nan), r"sample_weight\[0\] is nan"),
        (X, OUTPUTS, np.ones(3), r"sample_weight.shape == \(3,\), expected \(20,\)"),
        (X[:, :1], OUTPUTS * 2, None, WRONG),
        (np.full((20, 5), np.nan), OUTPUTS, None, "NaN"),
        (X[:, :1], np.arange(20), None, "multiclass"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(rows, outputs, sample_weight=weights)
        np.testing.assert_array_equal(model.decision_function(names), before)
    with pytest.raises(ValueError, match="learner must be one of"):
        model.set_params(learner="none").fit(X, OUTPUTS)
    model.set_params(learner="mle-bp", learning_rate=1e39, optimizer="sgd", max_iter=5)
    with (
        np.errstate(all="ignore"),
        pytest.raises(ValueError, match=r"Learning diverged|weights of"),
    ):
        model.fit(X[:, ::-1], OUTPUTS)
    np.testing.assert_array_equal(model.decision_function(names), before)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="no row is left for training; got n_samples = 1"):
        conditional(early_stopping=True).fit(X[:1], OUTPUTS[:1])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("query", ["predict", "predict_proba", "decision_function"])
def test_queries_of_conditional_models(query):
    ask = getattr(conditional().fit(X, OUTPUTS), query)
    for rows, message in (
        (np.zeros((2, 3)), "X has 3 features, but CRBMStructuredPredictor is expecting 2"),
        (np.full((2, 2), np.nan), "holds NaN, but CRBM.* needs complete rows"),
        (X[:0], r"Found array with 0 sample\(s\)"),
        (X[0], "Expected 2D array, got 1D array"),
        (X.astype(str), "Column 0 holds .*, which is not a number; encode it"),
    ):
        if rows.dtype.kind == "U":
            rows = np.where(rows == "0", "a", "b")
        with pytest.raises(ValueError, match=message):
            ask(rows)


# Neural potentials (see also test_nnmrf_input.py) ---------------------------------------------


@pytest.mark.parametrize(("parameters", "message"), SHARED, ids=range(len(SHARED)))
def test_bad_parameters_of_neural_models(parameters, message):
    rows = numbers(20)
    model = small(**{"max_iter": 1} | parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(rows)
    assert not_fitted(model)
    model = classes(**{"max_iter": 1} | parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(rows, X[:, 0])
    assert not_fitted(model)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([None] * 10 + ["b"] * 10, "y holds None; remove the rows without a label"),
        ([pd.NA] * 10 + ["b"] * 10, "y holds <NA>; remove the rows without a label"),
        (["a"] * 10 + [1] * 10, r"y mixes labels of the types \['int', 'str'\]"),
        (["a"] * 10 + [np.nan] * 10, r"y mixes labels of the types \['float', 'str'\]"),
        ([1.0] * 10 + [np.nan] * 10, "Input y contains NaN"),
    ],
)
def test_bad_labels_of_classes(labels, message):
    model = classes(max_iter=1)
    labels = np.array(labels, dtype=None if isinstance(labels[0], float) else object)
    with pytest.raises(ValueError, match=message):
        model.fit(numbers(20), labels)
    assert not_fitted(model)


def test_huge_weights_and_penalties():
    """Numbers near the largest double precision number have the effect that they should have."""
    model = DiscreteMRF(learner="exact", alpha=0.1)
    expected = model.fit(X, sample_weight=np.arange(1, 21)).score_samples(X)
    found = clone(model).fit(X, sample_weight=1e306 * np.arange(1, 21)).score_samples(X)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    independent = DiscreteMRF(learner="exact", alpha=10**30).fit(X)
    np.testing.assert_allclose(independent.log_potentials_[-1], 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("estimator", "name", "value"),
    [
        (DiscreteMRF(), "learner__n_chains", "learner is 'auto'"),
        (NNMRFDensity(), "potentials__alpha", "potentials is 'gaussian'"),
        (MRFStructureLearner(), "learner__n_chains", "learner is 'auto'"),
        (MRFImputer(), "estimator__alpha", "estimator is None"),
        (RBM(), "n_components__alpha", "n_components is 256"),
        (DiscreteMRF(), "rows__alpha", "Invalid parameter 'rows'"),
    ],
)
def test_parameters_of_a_string_raise(estimator, name, value):
    with pytest.raises(ValueError, match=value):
        estimator.set_params(**{name: 3})


def test_parameters_of_an_object_that_is_given_with_them():
    model = RBM().set_params(learner=PCD(), learner__n_chains=3)
    assert model.learner.n_chains == 3


def test_words_instead_of_features():
    with pytest.raises(ValueError, match=r"'the', which is not a number.* as a dict of"):
        CRF().fit([["the", "cat"]], [["D", "N"]])


@pytest.mark.parametrize(
    "names", [[["a", "b"], ["c"]], [["a", "b"], ["c", "d"]], [{"a", "b"}, {"c"}]]
)
def test_lists_of_features_instead_of_dicts(names):
    with pytest.raises(ValueError, match=r"Sequence 0 of X .* to dicts: dict\.fromkeys\("):
        CRF().fit([names], [["D", "N"]])
    CRF(alpha=0.1).fit([[dict.fromkeys(v, 1.0) for v in names]], [["D", "N"]])


def test_rows_with_different_numbers_of_outputs():
    with pytest.raises(ValueError, match=r"rows of y have different .* with .*MultiLabelBinarizer"):
        CRBMStructuredPredictor().fit(np.eye(2), [[0, 1], [1]])


def test_tied_cliques_are_positions_in_the_list_of_cliques():
    rows = np.random.default_rng(0).integers(2, size=(50, 4))
    model = DiscreteMRF([(2, 3), (1, 2)], "exact", alpha=0.1, tie=[[0, 1]]).fit(rows)
    assert model.cliques_ == ((2, 3), (1, 2), (0,))
    assert_array_equal(model.log_potentials_[0], model.log_potentials_[1])
    for cliques in ("pairwise", nx.path_graph(4), MRFStructureLearner()):
        with pytest.raises(ValueError, match="tie has positions in the list cliques"):
            DiscreteMRF(cliques, tie=[[0, 1]]).fit(rows)


def test_models_with_hidden_units_are_no_models_of_columns():
    with pytest.raises(ValueError, match="The BipartiteEnergy has hidden units"):
        DiscreteMRF.from_energy(BipartiteEnergy(np.ones((3, 2)), np.zeros(3), np.zeros(2)))


@pytest.mark.parametrize(
    ("kind", "x", "message"),
    [
        ("integer", [1.0, 2.5, 3.0], "Column 'a' has the type 'integer' but holds 2.5; give it"),
        ("non-negative", [1.0, -2.0], "Column 'a' has the type 'non-negative' but holds -2.0"),
    ],
)
def test_values_that_contradict_the_type_raise(kind, x, message):
    with pytest.raises(ValueError, match=message):
        NNMRFDensity(column_types=kind).fit(pd.DataFrame({"a": x}))
