"""Record the numbers that every estimator, learner and query returns on small data.

A refactoring must not change any number. Record before it and compare after it, on one computer:

    python tests/fingerprint.py record before.json
    python tests/fingerprint.py compare before.json

``compare`` lists every number that differs in its first 12 digits and ends with status 1 if there
is one. ``tests/project/test_code_structure.py`` tests that two recordings of one version are equal.
"""

import json
import sys
import warnings
from functools import partial

import numpy as np

from skmrf import (
    CRF,
    RBM,
    BoltzmannMachine,
    CRBMStructuredPredictor,
    DiscreteMRF,
    MRFImputer,
    MRFStructureLearner,
    NetworkPotentials,
    NNMRFBayesClassifier,
    NNMRFClassifier,
    NNMRFDensity,
    inference,
    likelihood,
)
from skmrf.datasets import make_ising
from skmrf.datasets.random_models import make_random_mrf
from skmrf.energies import BipartiteEnergy
from skmrf.learners import CD, PCD, BPChainCD, Variational
from skmrf.structure import Nodewise, RemovalWhileLearning, Thresholding, WaldTests

N_ROWS = 40
DIGITS = 12
TABLE_LEARNERS = (
    "exact",
    "cd",
    "pcd",
    "mcmc-mle",
    "pf-mcmc-mle",
    "tempered-transitions",
    "parallel-tempering",
    "ptt",
    "smc",
    "psmc",
    "pseudo-likelihood",
    "bp",
    "bp-cd",
    "bpchain-cd",
    "mean-field",
)
CHAIN_LEARNERS = TABLE_LEARNERS[:10]
GRAPH_LEARNERS = ("exact", "bp", "pseudo-likelihood", "ssvm", "perceptron")
CONDITIONAL_LEARNERS = ("lr", "cd", "cd-percloss", "mle-mf", "mle-bp", "lssvm", "mssvm")
SHORT = {"max_iter": 3, "random_state": 0}
SMALL_NETWORKS = {"node_layers": (3,), "edge_layers": (3,), "max_iter": 3}


def tables(missing=False):
    """Return rows of four categorical columns with 2, 3, 2 and 3 levels."""
    rng = np.random.default_rng(1)
    first = rng.integers(2, size=(N_ROWS, 1))
    X = np.hstack([first, first + rng.integers(2, size=(N_ROWS, 1)), first ^ 1, first * 2]) * 1.0
    X[:, 2] = np.where(rng.random(N_ROWS) < 0.3, 1 - X[:, 2], X[:, 2])
    X[:, 3] = np.where(rng.random(N_ROWS) < 0.4, rng.integers(3, size=N_ROWS), X[:, 3])
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    return X


def bits(n_columns=5, missing=False):
    """Return rows of correlated zeros and ones."""
    rng = np.random.default_rng(2)
    X = ((rng.random((N_ROWS, 1)) < 0.5) ^ (rng.random((N_ROWS, n_columns)) < 0.25)) * 1.0
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    return X


def mixed(missing=False):
    """Return rows of two continuous columns and one categorical column."""
    rng = np.random.default_rng(3)
    label = rng.integers(2, size=N_ROWS)
    X = np.column_stack([rng.normal(size=(N_ROWS, 2)) + 2.0 * label[:, None], label])
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, label


def weights():
    """Return sample weights."""
    return np.random.default_rng(4).uniform(0.5, 1.5, size=N_ROWS)


def density_numbers(model, X):
    """Return the numbers of a fitted density estimator."""
    found = {"score_samples": model.score_samples(X)}
    found["sample"] = model.sample(5, random_state=0)
    found["sample_given"] = model.sample(3, given={0: X[0, 0]}, random_state=0)
    found["log_partition"] = [model.log_partition_, *model.log_partition_interval_]
    found["n_iter"] = model.n_iter_
    return found


def discrete_numbers(model, X):
    """Return the numbers of a fitted DiscreteMRF or BoltzmannMachine."""
    found = density_numbers(model, X)
    incomplete = X.copy()
    incomplete[:, 1] = np.nan
    found["predict"] = model.predict(incomplete)
    found["marginals"] = model.marginals(incomplete)[1]
    return found


def rbm_numbers(model, X):
    """Return the numbers of a fitted RBM."""
    found = density_numbers(model, X)
    found["free_energy"] = model.free_energy(X)
    found["transform"] = model.transform(X)
    found["gibbs"] = model.gibbs(X, random_state=0)
    return found


def label_numbers(model, X):
    """Return the numbers of a fitted classifier or structured predictor."""
    found = {"predict": model.predict(X)}
    for name in ("decision_function", "predict_proba", "score_samples"):
        if hasattr(model, name):
            found[name] = getattr(model, name)(X)
    return found


def marginal_numbers(model, X):
    """Return the marginals, the weights and the iterations of a fitted CRF."""
    found = {"marginals": np.concatenate([p.ravel() for p in model.predict_marginals(X)])}
    return found | {"coef": model.coef_, "transition": model.transition_, "n_iter": model.n_iter_}


def sequence_numbers(model, X):
    """Return the numbers of a fitted CRF of sequences."""
    labels = model.predict(X)
    found = {"predict": np.concatenate(labels)}
    found["sample"] = np.hstack(model.sample(X, random_state=0))
    found["log_likelihood"] = model.log_likelihood(X, labels)
    found["best"] = np.concatenate(model.predict_best(X, 2)[1])
    return found | marginal_numbers(model, X)


def structure_numbers(model, X):
    """Return the numbers of a fitted structure learner."""
    coupling = model.coupling_
    return {
        "edges": model.edges_,
        "coupling": coupling if isinstance(coupling, np.ndarray) else np.concatenate(coupling),
        "p_values": model.p_values_,
        "edge_probability": model.edge_probability_,
        "score": model.score(X),
        "n_iter": model.n_iter_,
    }


def _fit_and_ask(model, X, ask, y=None, sample_weight=None):
    return ask(model.fit(X, *(() if y is None else (y,)), sample_weight=sample_weight), X)


def _twice(model, X, ask, y=None):
    """Return the fitted numbers of an estimator after two calls of partial_fit."""
    for half in np.split(np.arange(len(X)), 2):
        model.partial_fit(X[half], *(() if y is None else (y[half],)))
    return ask(model, X)


def discrete_cases():
    """Return the cases of DiscreteMRF."""
    X, incomplete = tables(), tables(missing=True)
    ask = discrete_numbers
    for name in TABLE_LEARNERS:
        fit = partial(_fit_and_ask, ask=ask)
        yield f"discrete {name}", partial(fit, DiscreteMRF("pairwise", name, **SHORT), X)
        model = DiscreteMRF("pairwise", name, alpha=0.1, **SHORT)
        yield f"discrete {name} missing", partial(fit, model, incomplete)
        yield f"discrete {name} weights", partial(fit, model, X, sample_weight=weights())
        model = DiscreteMRF("pairwise", name, penalty="group-l1", alpha=0.05, **SHORT)
        yield f"discrete {name} group-l1", partial(fit, model, X)
        model = DiscreteMRF("pairwise", name, alpha=0.1, random_state=0)
        yield f"discrete {name} partial", partial(_twice, model, X, ask)
    model = DiscreteMRF("pairwise", "exact", alpha=0.1)
    yield "discrete exact converged", partial(_fit_and_ask, model, X, ask)
    model = DiscreteMRF("pairwise", early_stopping=True, random_state=0, max_iter=20)
    yield "discrete early stopping", partial(_fit_and_ask, model, X, ask)
    model = DiscreteMRF([(0, 1), (2, 3)], "exact", optimizer="adam", **SHORT)
    yield "discrete exact adam", partial(_fit_and_ask, model, X, ask)
    for conditionals in ("bp", "exact"):
        model = DiscreteMRF("pairwise", BPChainCD(conditionals=conditionals), alpha=0.1, **SHORT)
        yield f"discrete bpchain {conditionals}", partial(_fit_and_ask, model, X, ask)
    model = DiscreteMRF(MRFStructureLearner(random_state=0), "exact", alpha=0.1)
    yield "discrete structure", partial(_fit_and_ask, model, X, ask)


def layered_cases():
    """Return the cases of BoltzmannMachine and RBM."""
    X, incomplete = bits(), bits(missing=True)
    for name in CHAIN_LEARNERS:
        fit = partial(_fit_and_ask, ask=discrete_numbers)
        model = BoltzmannMachine(name, states=(0, 1), alpha=0.1, **SHORT)
        yield f"boltzmann {name}", partial(fit, model, X)
        yield f"boltzmann {name} missing", partial(fit, model, incomplete)
        fit = partial(_fit_and_ask, ask=rbm_numbers)
        yield f"rbm {name}", partial(fit, RBM(3, name, **SHORT), X)
        model = RBM(3, name, alpha=0.01, **SHORT)
        yield f"rbm {name} weights", partial(fit, model, X, sample_weight=weights())
        yield f"rbm {name} partial", partial(_twice, RBM(3, name, random_state=0), X, rbm_numbers)
    model = BoltzmannMachine("exact", states=(-1, 1), binarize=0.5, alpha=0.01)
    yield "boltzmann exact converged", partial(_fit_and_ask, model, X, discrete_numbers)
    model = RBM(3, CD(n_sweeps=2), early_stopping=True, max_iter=20, random_state=0)
    yield "rbm early stopping", partial(_fit_and_ask, model, X, rbm_numbers)
    model = RBM(16, PCD(n_chains=20), **SHORT)
    wide = bits(20)
    yield "rbm annealed", partial(_fit_and_ask, model, wide, rbm_numbers)


def conditional_cases():
    """Return the cases of CRBMStructuredPredictor."""
    X, Y = mixed()[0], bits(4)
    for name in CONDITIONAL_LEARNERS:
        model = CRBMStructuredPredictor(3, name, **SHORT)
        yield f"crbm {name}", partial(_fit_and_ask, model, X, label_numbers, Y)
        yield f"crbm {name} single", partial(_fit_and_ask, model, X, label_numbers, Y[:, 0])
        model = CRBMStructuredPredictor(3, name, alpha=0.01, random_state=0)
        yield f"crbm {name} partial", partial(_twice, model, X, label_numbers, Y)
    model = CRBMStructuredPredictor(3, early_stopping=True, max_iter=10, random_state=0)
    yield "crbm early stopping", partial(_fit_and_ask, model, X, label_numbers, Y)


def sequence_cases():
    """Return the cases of CRF."""
    (X, y), sizes = mixed(), [7, 1, 12, 20]
    ends = np.cumsum(sizes)[:-1]
    chains, labels = np.split(X, ends), np.split(y, ends)
    weight = [1.0, 0.5, 2.0, 1.5]
    for name in GRAPH_LEARNERS:
        for graph in ("chain", "second-order chain"):
            model = CRF(graph, name, alpha=0.1, **SHORT)
            fit = partial(_fit_and_ask, model, chains, sequence_numbers, labels)
            yield f"crf {graph} {name}", fit
            yield f"crf {graph} {name} weights", partial(fit, sample_weight=weight)
        model = CRF("grid", name, alpha=0.1, **SHORT)
        images, states = [X.reshape(5, 8, 3)], [y.reshape(5, 8)]
        yield f"crf grid {name}", partial(_fit_and_ask, model, images, marginal_numbers, states)
    yield "crf auto", partial(_fit_and_ask, CRF(), chains, sequence_numbers, labels)


def neural_cases():
    """Return the cases of NNMRFDensity and NNMRFBayesClassifier."""
    (X, y), (incomplete, _) = mixed(), mixed(missing=True)
    columns = {"column_types": {2: "categorical"}}
    learners = {
        "chains": Variational(2),
        "quadrature": Variational(2, negative="quadrature"),
        "grid": "grid",
    }
    for name, learner in learners.items():
        networks = NetworkPotentials(learner=learner, **SMALL_NETWORKS)
        model = NNMRFDensity(networks, **columns, random_state=0)
        yield f"neural {name}", partial(_fit_and_ask, model, X, density_numbers)
        yield f"neural {name} missing", partial(_fit_and_ask, model, incomplete, density_numbers)
        networks = NetworkPotentials(learner=learner, density="mrf", **SMALL_NETWORKS)
        model = NNMRFDensity(networks, **columns, random_state=0)
        yield f"neural {name} mrf", partial(_fit_and_ask, model, X, density_numbers)
    networks = NetworkPotentials(learner=Variational(2), **SMALL_NETWORKS)
    bayes = NNMRFBayesClassifier(networks, **columns, random_state=0)
    conditional = NNMRFClassifier(max_iter=5, n_centers=20, **columns, random_state=0)
    for name, model in (("conditional", conditional), ("bayes", bayes)):
        yield f"classifier {name}", partial(_fit_and_ask, model, X, label_numbers, y)
        yield (
            f"classifier {name} missing",
            partial(_fit_and_ask, model, incomplete, label_numbers, y),
        )


def structure_cases():
    """Return the cases of MRFStructureLearner."""
    X, incomplete = np.tile(bits(), (10, 1)), np.tile(bits(missing=True), (10, 1))
    flip = np.random.default_rng(5).random(X.shape) < 0.2
    X, incomplete = np.abs(X - flip), np.abs(incomplete - flip)
    options = {
        "default": {},
        "exact": {"learner": "exact"},
        "agreement": {"statistic": "agreement", "search": WaldTests(control="fdr")},
        "nodewise": {"search": "nodewise"},
        "nodewise cv": {"search": Nodewise(alpha="cv")},
        "l1": {"search": "l1", "learner": "pseudo-likelihood", "max_iter": 50},
        "threshold": {"search": Thresholding(0.3), "learner": "exact"},
        "removal": {"search": RemovalWhileLearning(0.1, warmup=5), "max_iter": 30},
        "bootstraps": {"n_bootstraps": 2, "learner": "exact"},
    }
    for name, parameters in options.items():
        model = MRFStructureLearner(random_state=0, **parameters)
        yield f"structure {name}", partial(_fit_and_ask, model, X, structure_numbers)
    for name in ("default", "nodewise"):
        model = MRFStructureLearner(random_state=0, **options[name])
        ask = partial(_ask_of_complete, X)
        yield f"structure {name} missing", partial(_fit_and_ask, model, incomplete, ask)


def _ask_of_complete(X, model, _):
    return structure_numbers(model, X)


def imputer_cases():
    """Return the cases of MRFImputer."""
    tables_with_holes, (mixed_with_holes, _) = tables(missing=True), mixed(missing=True)
    for name, X in (("tables", tables_with_holes), ("mixed", mixed_with_holes)):
        for strategy in ("mode", "marginal", "sample"):
            model = MRFImputer(strategy=strategy, random_state=0)
            yield f"imputer {name} {strategy}", partial(_impute, model, X)


def _impute(model, X):
    return {"transform": model.fit(X).transform(X)}


def query_cases():
    """Return the cases of the inference and likelihood functions."""
    rng = np.random.default_rng(6)
    models = {
        "tables": make_random_mrf(6, n_cliques=8, n_states=(2, 3), random_state=0),
        "ising": make_ising("grid", n_variables=9, coupling=0.4, field=0.1),
        "layers": BipartiteEnergy(rng.normal(size=(6, 4)), rng.normal(size=6), rng.normal(size=4)),
    }
    for name, energy in models.items():
        for method in ("auto", "exact", "ais", "bpchain", "bethe", "trw"):
            ask = partial(_limits, inference.log_partition, energy, method)
            yield f"log_partition {name} {method}", ask
        for method in ("exact", "gibbs", "bp", "trw", "mean-field", "bpchain"):
            yield f"marginals {name} {method}", partial(_marginals, energy, method)
        for method in ("exact", "local-search", "annealing", "decimation"):
            yield f"map {name} {method}", partial(_mode, energy, method)
        for method in ("exact", "bp"):
            yield f"marginal_map {name} {method}", partial(_marginal_mode, energy, method)
        for method in ("exact", "gibbs", "bpchain"):
            yield f"sample {name} {method}", partial(_draws, energy, method)
        yield f"ais {name}", partial(_limits, likelihood.ais, energy)


def _limits(function, energy, *method):
    options = {"method": method[0]} if method else {}
    if not method or method[0] in ("ais", "bpchain"):
        options["random_state"] = 0
    found = function(energy, **options)
    return {"value": [found.value, found.lower, found.upper]}


def _seeded(method):
    return (
        {"random_state": 0} if method in ("gibbs", "bpchain", "annealing", "local-search") else {}
    )


def _marginals(energy, method):
    found = inference.marginals(energy, evidence={1: 0}, method=method, **_seeded(method))
    return {"single": np.concatenate(found.single)}


def _mode(energy, method):
    found = inference.map_assignment(energy, evidence={1: 0}, method=method, **_seeded(method))
    return {"states": found.states, "log_potential": found.log_potential}


def _marginal_mode(energy, method):
    found = inference.marginal_map(energy, [0, 2], method=method)
    return {"states": found.states, "log_potential": found.log_potential}


def _draws(energy, method):
    return {"X": inference.sample(energy, 5, method=method, random_state=0)}


GROUPS = {
    "discrete": discrete_cases,
    "layered": layered_cases,
    "conditional": conditional_cases,
    "sequence": sequence_cases,
    "neural": neural_cases,
    "structure": structure_cases,
    "imputer": imputer_cases,
    "query": query_cases,
}


def record(groups=tuple(GROUPS)):
    """Return the numbers of all cases as lists, by case and quantity; errors as text."""
    found = {}
    for group in groups:
        for name, ask in GROUPS[group]():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = _numbers_of(ask)
    return found


def _numbers_of(ask):
    try:
        numbers = ask()
    except ValueError as error:
        return {"error": type(error).__name__}
    return {k: np.asarray(v, dtype=float).ravel().tolist() for k, v in numbers.items()}


def differences(before, after):
    """Return a line for every quantity that differs in its first 12 digits."""
    lines = [f"{name}: only in one recording" for name in sorted(before.keys() ^ after.keys())]
    for name in sorted(before.keys() & after.keys()):
        for quantity in sorted(before[name].keys() | after[name].keys()):
            old, new = before[name].get(quantity), after[name].get(quantity)
            if not _equal(old, new):
                lines.append(f"{name}, {quantity}: {str(old)[:100]} / {str(new)[:100]}")
    return lines


def _equal(old, new):
    if old is None or new is None or isinstance(old, str) or isinstance(new, str):
        return old == new
    rtol = 0.5 * 10.0 ** (1 - DIGITS)
    return len(old) == len(new) and np.allclose(old, new, rtol=rtol, atol=1e-14, equal_nan=True)


def main(action, path, *groups):
    """Record the numbers in a file, or compare them with the numbers in a file."""
    found = record(groups or tuple(GROUPS))
    if action == "record":
        with open(path, "w") as file:
            json.dump(found, file)
        print(f"{len(found)} cases recorded.")
        return 0
    with open(path) as file:
        before = json.load(file)
    lines = differences({k: v for k, v in before.items() if k in found}, found)
    print("\n".join(lines) or f"{len(found)} cases are equal.")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
