"""Intervals of log Z by annealed importance sampling, checked with exact sums and long runs.

Part "exact" has 240 models whose log Z is a sum over one layer or over all states: RBMs and
Boltzmann machines, random ones and ones trained on binary data sets. The table has the share of the
intervals that contain log Z. Part "sparse" has RBM(128) on 1,500 sparse columns with many copies of
60 rows. The default interval, whose paths have at most 4,000 temperatures in its limit of the time,
is compared with a run of 10,000 temperatures.
"""

import time
import warnings

import numpy as np
from _common import markdown, options, save, write_tables
from density import NAMES

from skmrf import RBM, BoltzmannMachine
from skmrf.datasets import fetch_density_benchmark
from skmrf.energies import BipartiteEnergy, PairwiseEnergy
from skmrf.likelihood import ais, log_partition_bounds, raise_bound

N_ROWS = 2000  # training rows of a model
HIDDEN = (8, 12, 16)
ALPHAS = (0.0, 1e-3)
EPOCHS = (20, 200)
N_RANDOM = 80
N_COLUMNS = 15  # of Boltzmann machines, whose states are enumerated
KINDS = ("trained RBM", "random RBM", "trained Boltzmann machine", "random Boltzmann machine")
EXACT = {
    "kind": "models",
    "n": "number",
    "n_inside": "log Z inside",
    "worst_miss": "largest miss",
    "median_width": "median width",
    "n_unknown": "without upper limit",
    "seconds": "s, median",
}
SPARSE = {
    "run": "run",
    "value": "log Z",
    "low": "lower",
    "high": "upper",
    "ess": "ESS",
    "converged": "converged",
    "seconds": "s",
}


# Models with exact sums --------------------------------------------------------------------


def trained_models(args, rng):
    """Yield (kind, energy, rows) of models that were trained on the binary data sets."""
    for name in NAMES[:1] if args.fast else NAMES:
        X = fetch_density_benchmark(name, data_home=args.data_home).train
        X = X[rng.permutation(len(X))[:N_ROWS]]
        for alpha in ALPHAS:
            for max_iter in EPOCHS[:1] if args.fast else EPOCHS:
                same = {"alpha": alpha, "max_iter": max_iter, "random_state": 0}
                for n_hidden in HIDDEN[:1] if args.fast else HIDDEN:
                    model = RBM(n_hidden, **same).fit(X)
                    yield KINDS[0], model.energy_.astype(float), X[:128]
                columns = rng.choice(X.shape[1], N_COLUMNS, replace=False)
                few = X[:, columns]
                model = BoltzmannMachine(states=(0, 1), **same).fit(few)
                yield KINDS[2], model.energy_, few[:128]


def random_models(args, rng):
    """Yield (kind, energy, None) of models with random parameters of many sizes."""
    for k in range(4 if args.fast else N_RANDOM):
        scale = rng.uniform(0.05, 3.0)
        if k % 2:
            coupling = scale * np.triu(rng.normal(size=(N_COLUMNS, N_COLUMNS)), 1)
            yield KINDS[3], PairwiseEnergy(coupling + coupling.T, rng.normal(size=N_COLUMNS)), None
        else:
            shape = int(rng.integers(10, 200)), int(rng.integers(2, 17))
            parts = (rng.normal(size=n) for n in shape)
            yield KINDS[1], BipartiteEnergy(scale * rng.normal(size=shape), *parts), None


def check_interval(energy, rows):
    """Return the width of the interval of log Z, the distance of log Z from it, and seconds."""
    exact = log_partition_bounds(energy, method="exact").value
    start = time.process_time()
    found = ais(energy, start=rows, random_state=0)
    seconds = time.process_time() - start
    miss = max(found.lower - exact, exact - found.upper, 0.0)
    return found.upper - found.lower, miss, seconds


def exact_rows(args):
    """Return one row per kind of model."""
    rng = np.random.default_rng(0)
    results = {kind: [] for kind in KINDS}
    for models in (trained_models, random_models):
        for kind, energy, rows in models(args, rng):
            results[kind].append(check_interval(energy, rows))
    results["all"] = [row for found in results.values() for row in found]
    return [_summarise(kind, np.array(found)) for kind, found in results.items()]


def _summarise(kind, found):
    width, miss, seconds = found.T
    return {
        "kind": kind,
        "n": len(found),
        "n_inside": int((miss == 0.0).sum()),
        "worst_miss": float(miss.max()),
        "median_width": float(np.median(width)),
        "n_unknown": int(np.isinf(width).sum()),
        "seconds": float(np.median(seconds)),
    }


# Sparse columns ----------------------------------------------------------------------------


def make_copies(n_rows, n_columns, n_prototypes, rng):
    """Return sparse binary rows: noisy copies of a few prototypes."""
    p = rng.beta(0.3, 12.0, size=n_columns)
    prototypes = rng.random((n_prototypes, n_columns)) < p
    X = prototypes[rng.integers(n_prototypes, size=n_rows)]
    return (X ^ (rng.random(X.shape) < 0.003)).astype(int)


def sparse_rows(args):
    """Return the default estimate of log Z and a long one, and two log-likelihoods."""
    rng = np.random.default_rng(0)
    X = make_copies(600, 100, 10, rng) if args.fast else make_copies(2761, 1500, 60, rng)
    train, test = X[:-300], X[-300:]
    model = RBM(16 if args.fast else 128, random_state=0).fit(train)
    energy, rows = model.energy_, []
    for name, how in {
        "default": {},
        "10,000 temperatures": {"n_temperatures": 1000 if args.fast else 10_000},
    }.items():
        start = time.process_time()
        found = ais(energy, start=train[:128], random_state=1, **how)
        rows.append(
            {
                "run": name, "value": found.value, "low": found.lower, "high": found.upper,
                "ess": found.ess, "converged": found.converged,
                "seconds": time.process_time() - start,
            }
        )  # fmt: skip
    few = test[:40]
    score = (-energy.free_energy(few)).mean() - rows[-1]["value"]
    bound = raise_bound(energy, few, n_chains=8, random_state=0).mean()
    note = f"Test log-likelihood with the long run: {score:.2f}; of the annealed sampler (RAISE): "
    return rows, [f"{note}{bound:.2f}."]


def _round(row):
    """Return the row with two decimals of all numbers that are not counts."""
    return {k: f"{v:.2f}" if isinstance(v, float) else v for k, v in row.items()}


PARTS = {"exact": (exact_rows, EXACT), "sparse": (sparse_rows, SPARSE)}


def main(argv=None):
    parser = options(__doc__, data=True)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    for part in args.parts:
        run, columns = PARTS[part]
        found = run(args)
        rows, notes = found if isinstance(found, tuple) else (found, [])
        save(args, f"log_partition_{part}", rows, columns, notes)
        text = "\n\n".join([markdown([_round(row) for row in rows], columns), *notes])
        write_tables(args.results / "defaults.md", {f"intervals {part}": text})


if __name__ == "__main__":
    main()
