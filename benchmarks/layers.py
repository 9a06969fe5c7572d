"""Two-layer models: Gibbs sampling and annealing against plain matrix products.

A sweep of a chain is two matrix-vector products. All chains are updated together, so the smallest
possible time is that of two matrix products. An epoch of persistent contrastive divergence is
compared with scikit-learn's ``BernoulliRBM`` on the same rows in the same precision.
"""

import warnings

import numpy as np
from _common import bars, interleaved, options, save
from sklearn.neural_network import BernoulliRBM
from threadpoolctl import threadpool_limits

from skmrf import RBM
from skmrf.energies import BipartiteEnergy
from skmrf.learners import PCD
from skmrf.samplers import Product, spawn_generators, sweep

N_CHAINS = 100
COLUMNS = {
    "model": "model",
    "dtype": "precision",
    "product": "products, ms",
    "gibbs": "Gibbs sweep, ms",
    "anneal": "annealing step, ms",
    "gibbs_ratio": "products / sweep",
    "anneal_ratio": "products / step",
    "epoch": "PCD epoch, s",
    "scikit": "BernoulliRBM epoch, s",
    "epoch_ratio": "skmrf / scikit-learn",
}


def energy_of(n_visible, n_hidden, dtype):
    """Generate an energy with small random weights."""
    rng = np.random.default_rng(0)
    weights = rng.normal(0.0, 0.1, size=(n_visible, n_hidden)).astype(dtype)
    return BipartiteEnergy(weights, rng.normal(size=n_visible), rng.normal(size=n_hidden))


def sampling(energy, n_steps):
    """Return functions that make ``n_steps`` pairs of products, sweeps and annealing steps."""
    rng = np.random.default_rng(1)
    X = Product.uniform(energy.visible_states).sample(N_CHAINS, rng)
    generators = spawn_generators(rng, N_CHAINS)
    V = X.astype(energy.weights.dtype)
    H = V @ energy.weights

    def products():
        for _ in range(n_steps):
            np.matmul(V, energy.weights, out=H)
            np.matmul(H, energy.weights.T)

    return {
        "product": products,
        "gibbs": lambda: sweep(energy, X, generators, n_sweeps=n_steps),
        "anneal": lambda: sweep(energy, X, generators, betas=np.linspace(0.0, 1.0, n_steps + 1)),
    }


def learning(n_visible, n_hidden, n_rows, dtype):
    """Return functions that train for one epoch on random rows."""
    X = (np.random.default_rng(2).random((n_rows, n_visible)) < 0.2).astype(dtype)
    ours = RBM(n_hidden, PCD(N_CHAINS), alpha=0.0, batch_size=N_CHAINS, max_iter=1, random_state=0)
    theirs = BernoulliRBM(n_hidden, batch_size=N_CHAINS, n_iter=1, random_state=0)
    return {"epoch": lambda: ours.fit(X), "scikit": lambda: theirs.fit(X)}


def measure(n_visible, n_hidden, dtype, fast):
    """Return one row of the table."""
    n_steps = 20 if fast else 200
    repeats = 3 if fast else 5
    seconds = interleaved(sampling(energy_of(n_visible, n_hidden, dtype), n_steps), repeats)
    row = {"model": f"{n_visible} x {n_hidden}", "dtype": np.dtype(dtype).name}
    row |= {k: 1e3 * s / n_steps for k, s in seconds.items()}
    row["gibbs_ratio"] = row["product"] / row["gibbs"]
    row["anneal_ratio"] = row["product"] / row["anneal"]
    if dtype == np.float32:
        row |= interleaved(learning(n_visible, n_hidden, 1000 if fast else 10_000, dtype), repeats)
        row["epoch_ratio"] = row["epoch"] / row["scikit"]
    return row


def main(argv=None):
    args = options(__doc__).parse_args(argv)
    sizes = [(64, 32)] if args.fast else [(784, 10), (784, 100), (784, 500), (2000, 1000)]
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one epoch does not converge
        for n_visible, n_hidden in sizes:
            for dtype in (np.float32, np.float64):
                rows.append(measure(n_visible, n_hidden, dtype, args.fast))
                save(args, "layers", rows, COLUMNS, NOTES)
    keys = {"product": "matrix products", "gibbs": "Gibbs sweep", "anneal": "annealing step"}
    label = "{model}, {dtype}".format_map
    bars(args, "layers", rows, keys, label, xlabel="milliseconds for 100 chains")


NOTES = (
    f"Processor time, one thread, {N_CHAINS} chains; medians of interleaved runs. Epochs are "
    f"complete fits of 10,000 rows in batches of 100, including all other work of fit.",
)

if __name__ == "__main__":
    main()
