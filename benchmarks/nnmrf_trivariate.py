"""Trivariate mixture: KL divergence of the fitted model by components and pool size, Figure 3.

A complete graph of three neural potentials is fitted to 2,000 rows from a mixture of two correlated
Gaussians (Xiong and Ruozzi, 2020, section 4.1, with the constants of the code of the paper).
KL(true || model) in nats is estimated from 20,000 other rows, with log Z computed on a grid. Two
other values are shown: the KL divergence of the mixture of beliefs, and the value with the Bethe
approximation of log Z, as in the paper, which may be negative. "grid" is the same networks fitted
with the exact gradient, the best value that approximate inference could reach. The Gaussian mixture
with full covariances contains the true model and is only a reference.
"""

import time
import warnings

import numpy as np
from _common import markdown, options, save, write_tables
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from skmrf import NetworkPotentials, NNMRFDensity
from skmrf.learners import Grid, Variational
from skmrf.variational.free_energy import QuadratureSettings, infer

WEIGHTS = 0.3, 0.7
MEANS = (-2.5, 1.9, -1.0), (1.7, -1.5, 2.2)
DEVIATIONS = (0.5, 1.2, 0.7), (0.9, 0.7, 1.0)
CORRELATIONS = (-0.3, 0.4, 0.7), (0.5, 0.3, -0.5)  # of 12, 13, 23
N_TRAIN, N_TEST = 2000, 20_000
COMPONENTS, POOLS = (1, 2, 3, 5, 7, 10), (1, 5, 10, 20)
FIXED_COMPONENTS, FIXED_POOL = 5, 10  # if the other one varies
PAPER_SETTING = {
    "node_layers": (3, 5, 5, 3),
    "edge_layers": (5, 7, 7, 5),
    "base": 0.01,
}
GRID_POINTS, EXACT_ITER = 61, 300  # for fits with the exact gradient
BOX, CELLS, COARSE = 6.0, 100, 10  # size of the box, its cells, and relative width of outer cells
INFERENCE = 100  # iterations of inference per step, as in the paper
STYLES = {"kl": "-", "kl_mixture": "--", "kl_bethe": ":"}
COLUMNS = {
    "model": "model",
    "n_components": "components",
    "pool": "pool",
    "n_seeds": "seeds",
    "kl": "KL, log Z by grid",
    "kl_sd": "sd",
    "kl_mixture": "KL of beliefs",
    "kl_mixture_sd": "sd",
    "kl_bethe": "with the Bethe value for log Z",
    "seconds": "fit s",
}


# True model --------------------------------------------------------------------------------


def components():
    """Return the two Gaussian components of the true mixture."""
    for mean, deviations, (a, b, c) in zip(MEANS, DEVIATIONS, CORRELATIONS, strict=True):
        correlation = np.array([[1, a, b], [a, 1, c], [b, c, 1]])
        yield multivariate_normal(mean, correlation * np.outer(deviations, deviations))


def log_p(X):
    """Return the log density of the true model."""
    parts = [np.log(w) + g.logpdf(X) for w, g in zip(WEIGHTS, components(), strict=True)]
    return logsumexp(parts, axis=0)


def draw(n, rng):
    """Draw rows from the true model."""
    parts = np.stack([g.rvs(n, random_state=rng) for g in components()])
    return parts[(rng.random(n) > WEIGHTS[0]).astype(int), np.arange(n)]


def problem(seed, n_train, n_test):
    """Return training and test rows; the test rows are the same for all seeds."""
    X = draw(n_train, np.random.default_rng([1, seed]))
    return X, draw(n_test, np.random.default_rng(0))


def kl(log_q, T):
    """Estimate KL(true || q) from the test rows, in nats."""
    return float((log_p(T) - log_q).mean())


# Models ------------------------------------------------------------------------------------


def default(n_components, pool, seed):
    """Return our learner with default parameters, except components and pool size."""
    learner = Variational(n_components, pool=pool)
    return NNMRFDensity(NetworkPotentials(learner=learner), random_state=seed)


def by_beliefs(n_components, pool, seed):
    """Return our learner without chains: the negative phase is the average of the pool."""
    learner = Variational(n_components, negative="quadrature", pool=pool)
    return NNMRFDensity(NetworkPotentials(learner=learner), random_state=seed)


def as_paper(n_components, pool, seed):
    """Return the learner, networks and base of the paper."""
    learner = Variational(
        n_components, negative="quadrature", entropy="bethe", covariance="diag", pool=pool,
        n_iter=INFERENCE,
    )  # fmt: skip
    return NNMRFDensity(NetworkPotentials(learner=learner, **PAPER_SETTING), random_state=seed)


def floor(seed, **layers):
    """Return the default networks with the grid learner, which has the exact gradient."""
    networks = NetworkPotentials(
        learner=Grid(GRID_POINTS), optimizer="lbfgs", max_iter=EXACT_ITER, early_stopping=False,
        **layers,
    )  # fmt: skip
    return NNMRFDensity(networks, random_state=seed)


def floor_of_paper(seed):
    """Return the paper's networks with the grid learner and the default base."""
    return floor(seed, **{k: PAPER_SETTING[k] for k in ("node_layers", "edge_layers")})


VARIATIONAL = {
    "NNMRF": default,
    "NNMRF, no chains": by_beliefs,
    "NNMRF, paper's setting": as_paper,
}
FLOORS = {"grid, our networks": floor, "grid, the paper's networks": floor_of_paper}


def log_partition(energy):
    """Compute log Z on a grid, with fine cells around the data and coarse cells in the tails."""
    width = 2 * BOX / CELLS
    fine = width * (np.arange(CELLS) + 0.5) - BOX
    n_outside = int(np.ceil(8 * np.sqrt(np.diag(energy.covariance)).max() / (COARSE * width)))
    edge = max(n_outside * COARSE * width, BOX)
    coarse = np.arange(-edge + COARSE * width / 2, edge, COARSE * width)
    inside, outside = (
        np.stack(np.meshgrid(x, x, x, indexing="ij"), axis=-1).reshape(-1, 3)
        for x in (fine, coarse)
    )
    outside = outside[np.abs(outside).max(axis=1) > BOX]
    logs = [energy.log_potential(inside), energy.log_potential(outside) + 3 * np.log(COARSE)]
    return float(logsumexp(np.concatenate(logs)) + 3 * np.log(width))


def judge(model, X, T):
    """Fit a model and return its KL divergences, in the units of the data."""
    start = time.process_time()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        model.fit(X)
    seconds = time.process_time() - start
    codes = model._encode(T)
    potential = model.energy_.log_potential(codes) - model._columns.log_scale(codes)
    result = {"kl": kl(potential - log_partition(model.energy_), T), "seconds": seconds}
    learner = model.potentials.learner
    if isinstance(learner, Variational):
        beliefs = infer(model.energy_, model.mixture_, _bethe(learner), max_iter=INFERENCE)
        result["kl_mixture"] = kl(model.score_samples(T), T)
        result["kl_bethe"] = kl(potential - beliefs.value, T)
    return result


def _bethe(learner):
    """Return the settings of the Bethe free energy, with the covariances of the learner."""
    return QuadratureSettings(learner.n_points, "bethe", diagonal=learner.covariance == "diag")


def references(X, T):
    """Return the KL divergences of a Gaussian and of a mixture of two Gaussians."""
    gaussian = multivariate_normal(X.mean(axis=0), np.cov(X.T))
    mixture = GaussianMixture(2, n_init=5, random_state=0).fit(X)
    scores = {"Gaussian": gaussian.logpdf(T), "Gaussian mixture of 2": mixture.score_samples(T)}
    return {name: {"kl": kl(logs, T)} for name, logs in scores.items()}


# Table -------------------------------------------------------------------------------------


def settings(n_components, pools):
    """Return the pairs (components, pool size) of all fits; one of the two numbers varies."""
    pairs = [(k, FIXED_POOL) for k in n_components]
    return pairs + [(FIXED_COMPONENTS, t) for t in pools if (FIXED_COMPONENTS, t) not in pairs]


def summary(name, n_components, pool, results):
    """Return means and standard deviations over seeds."""
    row = {"model": name, "n_components": n_components, "pool": pool, "n_seeds": len(results)}
    for key in results[0]:
        found = [result[key] for result in results]
        row[key] = float(np.mean(found))
        if len(found) > 1:
            row[f"{key}_sd"] = float(np.std(found, ddof=1))
    return row


def runs(args, pairs):
    """Yield name, components, pool size and a function of the seed for each model."""
    for name in args.models:
        if name in FLOORS:
            yield name, None, None, FLOORS[name]
        else:
            make = VARIATIONAL[name]
            for k, t in pairs:
                yield name, k, t, lambda seed, k=k, t=t, make=make: make(k, t, seed)


def draw_panels(args, rows):
    """Draw ``nnmrf_trivariate.png``: KL divergence by components and by pool size."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no PNG", flush=True)
        return
    figure = Figure(figsize=(11, 6), layout="constrained")
    panels = ("n_components", "pool", FIXED_POOL), ("pool", "n_components", FIXED_COMPONENTS)
    both = figure.subplots(1, 2, sharey=True)
    for axes, (key, other, fixed) in zip(both, panels, strict=True):
        _draw_panel(axes, rows, key, lambda row, o=other, f=fixed: row[o] == f)
        axes.set_title(f"{other.removeprefix('n_')}: {fixed}")
    both[0].set_ylabel("KL(true || model), nats (bars: sd over seeds)")
    handles, labels = both[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize="small")
    figure.savefig(args.results / "nnmrf_trivariate.png", dpi=120)


def _draw_panel(axes, rows, key, belongs):
    for c, name in enumerate(VARIATIONAL):
        here = sorted((r for r in rows if r["model"] == name and belongs(r)), key=lambda r: r[key])
        for measure, style in STYLES.items() if here else ():
            x, values = ([row[k] for row in here] for k in (key, measure))
            spread = [row.get("kl_sd", np.nan) for row in here] if measure == "kl" else None
            label = f"{name}: {COLUMNS[measure]}"
            axes.errorbar(x, values, spread, fmt=f"C{c}o{style}", markersize=4, label=label)
    flat = [row for row in rows if row["n_components"] is None]
    for c, row in enumerate(flat, len(VARIATIONAL)):
        axes.axhline(row["kl"], color=f"C{c}", linewidth=1, label=row["model"])
    axes.axhline(0.0, color="black", linewidth=0.5)
    axes.set_xticks(COMPONENTS if key == "n_components" else POOLS)
    axes.set_xlabel("mixture components" if key == "n_components" else "pool size")


def main(argv=None):
    parser = options(__doc__)
    names = [*VARIATIONAL, *FLOORS]
    parser.add_argument("--models", nargs="*", choices=names, default=names)
    parser.add_argument("--components", type=int, nargs="*", default=COMPONENTS)
    parser.add_argument("--pools", type=int, nargs="*", default=POOLS)
    parser.add_argument("--seeds", type=int, default=None, help="default 3, with --fast 1")
    args = parser.parse_args(argv)
    n_seeds = args.seeds or (1 if args.fast else 3)
    pairs = settings(args.components, args.pools)
    if args.fast:
        pairs = [(1, FIXED_POOL), (FIXED_COMPONENTS, 1), (FIXED_COMPONENTS, FIXED_POOL)]
    problems = [problem(seed, N_TRAIN, N_TEST) for seed in range(n_seeds)]
    found = [references(*data) for data in problems]
    rows = [summary(name, None, None, [f[name] for f in found]) for name in found[0]]
    entropy = -log_p(problems[0][1]).mean()
    error = log_p(problems[0][1]).std() / N_TEST**0.5
    notes = (
        f"KL divergences are in nats, estimated from {N_TEST:,} test rows. The standard error from "
        f"the log density of the true model alone is {error:.3f}. The entropy of the true model, "
        f"estimated from the same rows, is {entropy:.4f} nats.",
        "The family of the Gaussian mixture contains the true model, so its row is a reference. "
        "The Bethe value is not a bound of log Z, so the column with the Bethe value is not a KL "
        "divergence.",
    )
    for name, n_components, pool, make in runs(args, pairs):
        results = [judge(make(seed), *data) for seed, data in enumerate(problems)]
        rows.append(summary(name, n_components, pool, results))
        print(rows[-1], flush=True)
        save(args, "nnmrf_trivariate", rows, COLUMNS, notes)
    write_tables(
        args.results / "neural_potentials.md",
        {"trivariate": "\n\n".join([markdown(rows, COLUMNS), *notes])},
    )
    draw_panels(args, rows)


if __name__ == "__main__":
    main()
