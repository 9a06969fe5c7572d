"""Many rows and many columns: time and memory of persistent contrastive divergence.

The first model is a default estimator with all pairs, fitted to msnbc (17 columns), repeated to a
million rows. The second model has 500 binary columns and 2,000 pairs. It is fitted to samples of a
random sparse Ising model with the same pairs, and its couplings are compared with the true ones.
"""

import itertools
import warnings

import numpy as np
from _common import bars, in_child, options, peak_bytes, reset_peak, save, timed

from skmrf import DiscreteMRF
from skmrf.datasets import fetch_density_benchmark, make_ising
from skmrf.samplers.gibbs_queries import draw

COLUMNS = {
    "model": "model",
    "n_rows": "rows",
    "n_columns": "columns",
    "n_pairs": "pairs",
    "seconds": "fit s",
    "updates": "updates",
    "converged": "converged",
    "input_mb": "input MB",
    "added_mb": "peak above input, MB",
    "train": "train",
    "correlation": "correlation of couplings",
    "rms_error": "RMS error",
    "expected_error": "expected by sampling",
}


def fit(X, **parameters):
    """Fit a model; return it and the columns of time and memory. The memory of X is excluded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        DiscreteMRF(max_iter=1, random_state=0, **parameters).fit(X[:512])  # compiles
        before = reset_peak()
        model = DiscreteMRF(random_state=0, **parameters)
        _, seconds = timed(model.fit, X)
    return model, {
        "n_rows": len(X),
        "n_columns": X.shape[1],
        "n_pairs": sum(len(c) == 2 for c in model.cliques_),
        "seconds": seconds,
        "updates": int(model.history_["n_updates"][-1]),
        "converged": model.converged_,
        "input_mb": X.nbytes / 2**20,
        "added_mb": (peak_bytes() - before) / 2**20,
    }


def long_data(n_rows, data_home):
    """Return the row of msnbc, repeated to ``n_rows`` rows."""
    train = fetch_density_benchmark("msnbc", data_home=data_home).train
    X = np.resize(train, (n_rows, train.shape[1]))
    model, row = fit(X)
    return {"model": "msnbc repeated", **row, "train": model.score(train)}


def random_ising(n, n_pairs, rng):
    """Generate an Ising model on random pairs, with couplings weak enough for fast mixing."""
    pairs = np.array(list(itertools.combinations(range(n), 2)))
    pairs = pairs[np.sort(rng.choice(len(pairs), n_pairs, replace=False))]
    coupling, field = rng.normal(0.0, 0.15, n_pairs), rng.normal(0.0, 0.2, n)
    return make_ising(pairs.tolist(), n_variables=n, coupling=coupling, field=field), pairs


def recovered(model, pairs):
    """Return couplings of the states -1 and 1, a quarter of the interaction of each table."""
    tables = dict(zip(model.cliques_, model.log_potentials_, strict=True))
    signs = np.array([[1.0, -1.0], [-1.0, 1.0]])
    return np.array([0.25 * (signs * tables[tuple(pair)]).sum() for pair in pairs.tolist()])


def wide_model(n, n_pairs, n_rows, seed=0):
    """Fit a sparse Ising model to its samples and return one row of the table."""
    rng = np.random.default_rng(seed)
    energy, pairs = random_ising(n, n_pairs, rng)
    X = draw(energy, n_rows, rng, n_sweeps=400)
    cliques = [(i,) for i in range(n)] + [tuple(pair) for pair in pairs.tolist()]
    model, row = fit(X, cliques=cliques, categories=[[0, 1]] * n)
    truth, found = energy.coupling[pairs[:, 0], pairs[:, 1]], recovered(model, pairs)
    return {
        "model": "sparse Ising",
        **row,
        "correlation": float(np.corrcoef(truth, found)[0, 1]),
        "rms_error": float(np.sqrt(np.mean((truth - found) ** 2))),
        "expected_error": _sampling_error(energy, pairs, X),
    }


def _sampling_error(energy, pairs, X):
    """Return the RMS standard error of a coupling by pseudo-likelihood, other parameters known."""
    spins = 2.0 * X - 1.0
    field = spins @ energy.coupling + energy.bias
    slack = 1.0 - np.tanh(field) ** 2  # curvature of log p(s_i | rest) with respect to the field
    i, j = pairs.T
    information = slack[:, i].sum(axis=0) + slack[:, j].sum(axis=0)
    return float(np.sqrt(np.mean(2.0 / information)))


def main(argv=None):
    parser = options(__doc__, data=True)
    parser.add_argument("--long-rows", type=int, default=None)
    args = parser.parse_args(argv)
    n_rows = args.long_rows or (100_000 if args.fast else 1_000_000)
    wide = (60, 120, 2_000) if args.fast else (500, 2_000, 20_000)
    rows = [in_child(long_data, n_rows, args.data_home)]
    rows.append(in_child(wide_model, *wide))
    save(args, "scale", rows, COLUMNS, NOTES)
    bars(
        args, "scale", rows, {"seconds": "fit, seconds", "added_mb": "peak above input, MB"},
        lambda row: f"{row['model']}\n{row['n_rows']:,} x {row['n_columns']}", xlabel="",
    )  # fmt: skip


NOTES = (
    "Wall-clock time, after compilation. Peak: resident memory in addition to the loaded input.",
    "Expected error: from the curvature of the pseudo-likelihood if all other parameters are "
    "known.",
)

if __name__ == "__main__":
    main()
