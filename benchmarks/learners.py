"""All learners of DiscreteMRF on the same three models in equal processor time.

Each fit is ``DiscreteMRF(cliques, learner, alpha=0.01)`` with the true graph and defaults for all
other parameters. It ends when it has converged or when its processor time is over. The table shows
how far the held-out log-likelihood, with exact log Z, is below that of the true model. Each seed
determines a model (if it is random), training rows, held-out rows and the random numbers of the
learner.
"""

import json
import time
import warnings

import numpy as np
from _common import markdown, options, save, write_tables
from threadpoolctl import threadpool_limits

from skmrf import DiscreteMRF, inference
from skmrf.datasets import make_ising
from skmrf.energies import FactorGraph
from skmrf.learners.registry import accepted

N_TRAIN, N_TEST = 2000, 10_000
TIMES = (0.1, 0.2, 0.5, 1.0, 2.0)  # processor seconds at which models are scored


def weak_grid(side, seed):
    """Generate a grid with weak couplings, for which chains mix fast."""
    field = np.random.default_rng(seed).normal(scale=0.3, size=side**2)
    return make_ising("grid", n_variables=side**2, coupling=0.25, field=field)


def strong_grid(side, _seed):
    """Generate a grid with strong couplings, whose two modes no chain can connect."""
    return make_ising("grid", n_variables=side**2, coupling=0.6)


def machine(n, seed):
    """Generate a Boltzmann machine without hidden units, with couplings of both signs."""
    rng = np.random.default_rng(seed)
    coupling = rng.normal(scale=0.4, size=n * (n - 1) // 2)
    field = rng.normal(scale=0.3, size=n)
    return make_ising("complete", n_variables=n, coupling=coupling, field=field)


MODELS = {
    "weak grid": (weak_grid, 6, "6 x 6 grid, couplings 0.25"),
    "strong grid": (strong_grid, 6, "6 x 6 grid, couplings 0.6"),
    "machine": (machine, 16, "16 columns, all pairs coupled"),
}
SMALL = {"weak grid": 3, "strong grid": 3, "machine": 6}


class Clock:
    """Callback that stores the model at given processor seconds and stops the fit at the last."""

    def __init__(self, times):
        self.times = times
        self.energies = []

    def setup(self, estimator, context):
        """Start the clock before a fit."""
        self.start = time.process_time()

    def teardown(self, estimator, context):
        """Do nothing after a fit."""

    def on_fit_task_begin(self, estimator, context):
        """Do nothing when an epoch begins."""

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        """Store the model of an epoch, and return True if the time is over."""
        if fitted_estimator is None or context.max_subtasks != 0:
            return False
        spent = time.process_time() - self.start
        while len(self.energies) < len(self.times) and spent >= self.times[len(self.energies)]:
            self.energies.append(fitted_estimator.energy_)
        return len(self.energies) == len(self.times)


def fit(learner, cliques, train, seed, times):
    """Fit a model; return its energies at the given processor seconds and the estimator."""
    clock = Clock(times)
    model = DiscreteMRF(cliques, learner, alpha=0.01, random_state=seed)
    model.set_callbacks(clock).fit(train)
    left = len(times) - len(clock.energies)  # it converged before
    return clock.energies + left * [model.energy_], model


def score(energy, X):
    """Return the mean log-likelihood in nats, with exact log Z."""
    graph = energy.factor_graph()
    log_z = inference.log_partition(graph, method="exact").value
    return float(graph.log_potential(X).mean() - log_z)


def run_model(name, size, seed, times, learners):
    """Return a row for each learner: nats below the true model at each time."""
    truth = MODELS[name][0](size, seed)
    rng = np.random.default_rng([seed, 1])
    X = inference.sample(truth, N_TRAIN + N_TEST, method="exact", random_state=rng)
    train, test = X[:N_TRAIN], X[N_TRAIN:]
    cliques = truth.factor_graph().cliques
    best = score(truth, test)
    rows = []
    for learner in learners:
        fit(learner, cliques, train[:300], seed, [0.0])  # compiles
        start = time.process_time()
        energies, model = fit(learner, cliques, train, seed, times)
        rows.append(
            {
                "model": name,
                "learner": learner,
                "seed": seed,
                "seconds": time.process_time() - start,
                "epochs": model.n_iter_,
                "converged": model.converged_,
                "gaps": [best - score(energy, test) for energy in energies],
            }
        )
    return rows


# Tables ------------------------------------------------------------------------------------


def mean_and_error(values):
    """Return the mean and its standard error over seeds, along the first axis."""
    values = np.asarray(values, dtype=float)
    error = values.std(axis=0, ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0 * values[0]
    return values.mean(axis=0), error


def gaps_of(rows, name, learner):
    """Return log-likelihoods below the true model, an array of shape (n_seeds, n_times)."""
    return np.array([r["gaps"] for r in rows if (r["model"], r["learner"]) == (name, learner)])


def table(rows, times):
    """Return a row per learner: nats below the true model at the end, and converged fits."""
    names = list(dict.fromkeys(row["model"] for row in rows))
    lines = []
    for learner in dict.fromkeys(row["learner"] for row in rows):
        line = {"learner": f'`"{learner}"`'}
        mine = [row for row in rows if row["learner"] == learner]
        for name in names:
            gap, error = mean_and_error(gaps_of(rows, name, learner))
            early = int(np.searchsorted(times, times[-1] / 10, side="right")) - 1
            line[f"{name} early"] = f"{gap[early]:.3f}"
            line[name] = f"{gap[-1]:.3f} ± {error[-1]:.3f}"
        line["converged"] = f"{sum(row['converged'] for row in mine)} of {len(mine)}"
        lines.append(line)
    columns = {"learner": "learner"}
    for name in names:
        columns[f"{name} early"] = f"{name}, {times[-1] / 10:g} s"
        columns[name] = f"{name}, {times[-1]:g} s"
    return lines, columns | {"converged": "converged fits"}


def draw(path, rows, times):
    """Draw nats below the true model against processor seconds, one panel per model."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no PNG", flush=True)
        return
    names = list(dict.fromkeys(row["model"] for row in rows))
    figure = Figure(figsize=(13, 4.8), layout="constrained")
    panels = figure.subplots(1, len(names), sharex=True)
    handles = {}
    for axes, name in zip(panels, names, strict=True):
        for k, learner in enumerate(dict.fromkeys(row["learner"] for row in rows)):
            gap, error = mean_and_error(gaps_of(rows, name, learner))
            style = {"color": "black", "linewidth": 2.5} if learner == "exact" else {}
            handles[learner] = axes.errorbar(
                np.array(times) * 1.015 ** (k - 7),
                gap,
                np.minimum(error, 0.999 * np.abs(gap)),
                **({"color": f"C{k % 10}", "linewidth": 1.2} | style),
                linestyle="-" if k < 10 else "--",
                marker="o^sDvPX"[k % 7],
                markersize=4,
            )
        axes.set(title=MODELS[name][2], xscale="log", yscale="log", xlabel="processor seconds")
        axes.set_xticks(times, [f"{t:g}" for t in times])
        axes.minorticks_off()
    panels[0].set_ylabel("held-out log-likelihood below the truth's, nats")
    figure.legend(handles.values(), handles, loc="outside right center")
    figure.savefig(path, dpi=120)


def run_all(args, sizes, times, log):
    """Run all models and write each row to the log when it is finished."""
    warnings.simplefilter("ignore")
    with threadpool_limits(1), log.open("w") as file:
        for name, size in sizes.items():
            for seed in range(args.seeds):
                rows = run_model(name, size, seed, times, args.learners)
                file.writelines(json.dumps(row) + "\n" for row in rows)
                file.flush()


def main(argv=None):
    """Run all learners on all models, or with --rows make the table and figure again."""
    parser = options(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    names = list(accepted(FactorGraph))
    parser.add_argument("--learners", nargs="+", default=names, choices=names)
    parser.add_argument("--rows", action="store_true", help="read saved results, without new fits")
    args = parser.parse_args(argv)
    times = TIMES
    sizes = {name: size for name, (_, size, _) in MODELS.items()}
    if args.fast:
        times, sizes, args.seeds = (0.02, 0.2), SMALL, min(args.seeds, 2)
    args.results.mkdir(parents=True, exist_ok=True)
    log = args.results / "learners.jsonl"
    if not args.rows:
        run_all(args, sizes, times, log)
    rows = [json.loads(row) for row in log.read_text().splitlines()]
    lines, columns = table(rows, times)
    note = (
        f"Nats of held-out log-likelihood below the truth's; means of {args.seeds} seeds and "
        f"standard errors. {N_TRAIN} training rows, exact log Z."
    )
    save(args, "learners", lines, columns, [note])
    write_tables(args.results / "defaults.md", {"learners": markdown(lines, columns)})
    draw(args.results / "learners.png", rows, times)


if __name__ == "__main__":
    main()
