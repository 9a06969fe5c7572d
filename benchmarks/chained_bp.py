"""The three experiments of the chained belief propagation paper: Figures 3 and 4.

Multimodal models and weighted 3-SAT models are scored by the mean log-likelihood of 100 training
rows, and structured sequences by precision and recall. All scores use the exact log Z of the
fitted model. Each learner gets the same processor seconds, in proportion to the number of
variables. The reference, exact maximum likelihood in the second setting, gets 20 seconds. There
are two settings. The first has the initial values and learning rates of the paper. The second, the
best one that we found, starts at independent columns and uses Adam with a learning rate of 0.1,
which is halved when the gradient is only noise.
"""

import json
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from _common import markdown, options, save, write_tables
from threadpoolctl import threadpool_limits

from skmrf import inference, training
from skmrf._utils.codes import STATE
from skmrf._utils.rows import Batch
from skmrf.datasets import (
    make_multimodal_mrf,
    make_structured_sequences,
    make_weighted_3sat,
)
from skmrf.energies import FactorGraph
from skmrf.energies.layout import Layout
from skmrf.exact import elimination
from skmrf.learners import BP, BPCD, CD, BPChainCD, Exact
from skmrf.training import data_moments, initial_values, loop
from skmrf.training.reports import SilentReports
from skmrf.training.schedules import ConstantRate
from skmrf.training.settings import Settings

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from twins import enumerate_structured_sequences

PAPER = {"schedule": "flooding", "damping": 0.0, "max_iter": 20, "tol": 0.0}
PRINTED = {**PAPER, "order": "index", "conditionals": "bp"}
N_DRAWS = 100
LEARNERS = {
    "exact": Exact,
    "CD-1": lambda: CD(n_sweeps=1),
    "CD-100": lambda: CD(n_sweeps=100),
    "BP-CD": lambda: BPCD(n_samples=3000, **PAPER, warm_start=False),
    "BPChain": lambda: BPChainCD(N_DRAWS, **PRINTED),
    "BPChain damped": lambda: BPChainCD(N_DRAWS, "bp", damping=0.5),
    "BPChain corrected": lambda: BPChainCD(N_DRAWS, "bp", corrected=True),
    "BPChain exact": lambda: BPChainCD(N_DRAWS, "exact"),
    "BP": BP,
}
SETTINGS = {  # the paper has no beliefs as moments; its printed algorithm is only in its setting
    "paper": [name for name in LEARNERS if name != "BP"],
    "best": [name for name in LEARNERS if name not in ("BPChain", "BP-CD")],
}
TITLES = {
    "paper": "paper's initial values and learning rates",
    "best": "initial model of independent columns, Adam",
}
REFERENCE_SECONDS = 20.0
SIZES = {
    "multimodal": range(10, 32, 3),
    "3-SAT": range(10, 32, 3),
    "sequences": range(5, 32, 2),
}
PAPER_EPOCHS = 1000


class StepwiseRate(ConstantRate):
    """Learning rate of the paper for sequences: 1, after 100 epochs 0.1, after 500 epochs 0.01."""

    def value(self, state):
        return 1.0 if state["t"] < 100 else 0.1 if state["t"] < 500 else 0.01

    def init(self):
        return {"t": 0}

    def observe(self, gradient, state, resolution):
        return {"t": state["t"] + 1}, False, False


class Budget(SilentReports):
    """Progress reports that end a fit after the given processor seconds."""

    def __init__(self, seconds):
        self.deadline = time.process_time() + seconds

    def end(self, state):
        return time.process_time() >= self.deadline


# Problems ----------------------------------------------------------------------------------


def problem(task, n, instance):
    """Return a random problem: layout of the model, training rows, true log-likelihood."""
    if task == "sequences":
        X, cliques = make_structured_sequences(n, n_samples=3000, random_state=instance)
        return Layout.build(np.full(n, 2), cliques), X.astype(STATE), None
    make = make_multimodal_mrf if task == "multimodal" else make_weighted_3sat
    graph = make(n, random_state=instance)
    X = inference.sample(graph, 1000, method="exact", random_state=instance)
    plan = elimination.prepare(graph.layout)
    return graph.layout, X, graph.log_potential(X) - elimination.log_partitions(plan, graph.flat)[0]


def paper_start(layout, rng):
    """Draw the initial potentials of the paper: absolute values of draws from N(10, 10)."""
    potentials = np.abs(rng.normal(10.0, np.sqrt(10.0), size=layout.n_parameters))
    return FactorGraph.from_layout(layout, np.log(np.maximum(potentials, 1e-3)))


def fit(setting, task, layout, X, learner, seconds, seed):
    """Fit a model, and return its energy and the state of the training loop."""
    rng = np.random.default_rng(seed)
    data = Batch(X, rows=np.arange(len(X)))
    if setting == "paper":
        energy = paper_start(layout, rng)
        rate = StepwiseRate() if task == "sequences" else ConstantRate(0.1)
        settings = Settings(
            training.SGD(), rate, batch_size=len(X), max_iter=PAPER_EPOCHS, average=False
        )
    else:
        energy = initial_values.independent_tables(layout, data, None)
        optimizer = None if learner.deterministic else training.Adam()
        moments = data_moments.complete_moments(energy, data)
        settings = Settings(
            optimizer,
            training.AdaptiveRate(0.1),
            batch_size=len(X),
            tol=1e-5,
            resolution=data_moments.estimate_resolution(moments, data),
        )
    state = loop.start(energy, learner, data, settings, rng)
    state = loop.run(learner, data, settings, state, Budget(seconds))
    return state.result(setting != "paper"), state


# Scores ------------------------------------------------------------------------------------


def log_likelihood(energy, log_z, X, rows):
    """Return the mean exact log-likelihood of 100 training rows."""
    return {"log_likelihood": float(energy.log_potential(X[rows]).mean() - log_z)}


def precision_and_recall(energy, log_z, states):
    """Return the expected precision and recall of exact samples of a model of sequences.

    M is the number of sequences that satisfy the constraints.
    """
    p = np.exp(energy.log_potential(states) - log_z)
    missed = np.exp(5 * len(states) * np.log1p(-np.minimum(p, 1 - 1e-16)))
    return {"precision": float(p.sum()), "recall": float(np.mean(1.0 - missed))}


def run_problem(task, n, instance, seconds, names):
    """Fit all learners in both settings to one problem, and return the rows of the table."""
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        layout, X, log_p = problem(task, n, instance)
        chosen = np.random.default_rng(instance).choice(len(X), 100, replace=False)
        states = enumerate_structured_sequences(n).astype(STATE) if log_p is None else None
        plan = elimination.prepare(layout)
        rows = []
        for setting, known in SETTINGS.items():
            for name in (name for name in known if name in names):
                fit(setting, task, layout, X[:64], LEARNERS[name](), 0.0, instance)  # compiles
                start = time.process_time()
                reference = (setting, name) == ("best", "exact")
                limit = max(seconds, REFERENCE_SECONDS) if reference else seconds
                energy, state = fit(setting, task, layout, X, LEARNERS[name](), limit, instance)
                spent = time.process_time() - start
                log_z = elimination.log_partitions(plan, energy.flat)[0]
                if states is None:
                    score = log_likelihood(energy, log_z, X, chosen)
                    score["bound"] = float(log_p[chosen].mean())
                else:
                    score = precision_and_recall(energy, log_z, states)
                    score["log_likelihood"] = float(energy.log_potential(X).mean() - log_z)
                last = {
                    key: float(np.mean(state.history.columns[key][-20:]))
                    for key in ("ess", "inference_converged")
                    if key in state.history.columns
                }
                if "ess" in last:
                    last["ess"] *= N_DRAWS
                rows.append(
                    {
                        "task": task,
                        "n": n,
                        "instance": instance,
                        "setting": setting,
                        "learner": name,
                        "seconds": spent,
                        "n_updates": state.step,
                        "converged": state.converged,
                        **score,
                        **last,
                    }
                )
    return rows


# Tables ------------------------------------------------------------------------------------


def summary(rows):
    """Return means and standard errors over instances for each task, size, setting and learner."""
    groups = {}
    for row in rows:
        key = row["task"], row["n"], row["setting"], row["learner"]
        groups.setdefault(key, []).append(row)
    reference = {
        (r["task"], r["n"], r["instance"]): r["log_likelihood"]
        for r in rows
        if (r["setting"], r["learner"]) == ("best", "exact")
    }
    out = []
    for (task, n, setting, learner), members in sorted(groups.items()):
        line = {"task": task, "n": n, "setting": setting, "learner": learner}
        line["instances"] = len(members)
        for key in ("log_likelihood", "precision", "recall", "ess", "inference_converged"):
            values = [m[key] for m in members if key in m]
            if values:
                line[key] = float(np.mean(values))
                line[f"{key}_error"] = float(np.std(values) / np.sqrt(max(len(values) - 1, 1)))
        gaps = [
            m["log_likelihood"] - reference[task, n, m["instance"]]
            for m in members
            if (task, n, m["instance"]) in reference
        ]
        if gaps:
            line["gap"] = float(np.mean(gaps))
            line["gap_error"] = float(np.std(gaps) / np.sqrt(max(len(gaps) - 1, 1)))
        line["n_updates"] = float(np.mean([m["n_updates"] for m in members]))
        out.append(line)
    return out


COLUMNS = {
    "task": "task",
    "n": "n",
    "setting": "setting",
    "learner": "learner",
    "log_likelihood": "log-likelihood",
    "gap": "minus exact",
    "gap_error": "s.e.",
    "precision": "precision",
    "recall": "recall",
    "ess": "ESS",
    "inference_converged": "converged",
    "n_updates": "updates",
}


SCORES = {
    "models": {"gap": "log-likelihood minus that of exact maximum likelihood"},
    "sequences": {"precision": "precision", "recall": "recall"},
}


def draw(path, lines, key, ylabel):
    """Draw the score against the number of variables, one panel per setting."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    figure = Figure(figsize=(12, 4.5), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    handles = {}
    for axes, setting in zip(panels, SETTINGS, strict=True):
        for k, name in enumerate(LEARNERS):
            here = [
                line
                for line in lines
                if (line["setting"], line["learner"]) == (setting, name) and key in line
            ]
            if here:
                handles[name] = axes.errorbar(
                    [line["n"] + 0.12 * (k - 4) for line in here],
                    [line[key] for line in here],
                    [line[f"{key}_error"] for line in here],
                    fmt="k--" if name == "exact" else "o-",
                    color=None if name == "exact" else f"C{k}",
                    markersize=3,
                    linewidth=1,
                )
        axes.set_title(TITLES[setting])
        axes.set_xlabel("variables")
    if key == "gap":
        panels[0].set_yscale("symlog", linthresh=0.01)
    panels[0].set_ylabel(ylabel)
    names = [name for name in LEARNERS if name in handles]
    figure.legend([handles[name] for name in names], names, loc="outside right center")
    figure.savefig(path, dpi=120)


def pivot(lines, setting, key):
    """Format means and standard errors in Markdown: a row per size, a column per learner."""
    found = {(line["n"], line["learner"]): line for line in lines if line["setting"] == setting}
    names = [name for name in LEARNERS if any((n, name) in found for n, _ in found)]
    rows = []
    for n in sorted({n for n, _ in found}):
        row = {"n": str(n)}
        for name in names:
            line = found.get((n, name), {})
            if key in line:
                row[name] = f"{line[key]:.3f} ± {line[f'{key}_error']:.3f}"
        rows.append(row)
    return markdown(rows, {name: name for name in ("n", *names)})


def task_tables(lines, keys):
    """Format the tables of a task for the documentation."""
    parts = []
    for key, title in keys.items():
        for setting in SETTINGS:
            parts += [f"**{title}, {TITLES[setting]}**", pivot(lines, setting, key)]
    return "\n\n".join(parts)


def main(argv=None):
    """Run the selected tasks, or with --rows make tables and figures from saved results."""
    parser = options(__doc__)
    parser.add_argument("--rows", action="store_true", help="read saved results, without new fits")
    parser.add_argument("--tasks", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS), choices=list(LEARNERS))
    parser.add_argument("--instances", type=int, default=10)
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of variables; default: all")
    parser.add_argument("--seconds", type=float, default=8.0, help="of a fit at the largest n")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    args = parser.parse_args(argv)
    if args.fast:
        args.instances, args.seconds, args.sizes = 2, 1.0, args.sizes or [11, 13]
    args.results.mkdir(parents=True, exist_ok=True)
    for task in args.tasks:
        log = args.results / f"chained_bp_{task}.jsonl"
        if not args.rows:
            run_task(task, args, log)
        rows = [json.loads(row) for row in log.read_text().splitlines()]
        lines = summary(rows)
        note = f"{args.seconds:g} n / 31 processor seconds a fit; standard errors over instances."
        save(args, f"chained_bp_{task}", lines, COLUMNS, [note])
        shown = SCORES["sequences" if task == "sequences" else "models"]
        extra = {"ess": f"effective sample size of {N_DRAWS} draws"}
        tables = {task: task_tables(lines, shown | extra)}
        write_tables(args.results / "chained_bp.md", tables)
        for key, ylabel in shown.items():
            draw(args.results / f"chained_bp_{task}_{key}.png", lines, key, ylabel)


def run_task(task, args, log):
    """Run all instances of a task and write their rows to the log."""
    jobs = [
        (task, n, instance, args.seconds * n / SIZES[task][-1], args.learners)
        for instance in range(args.instances)
        for n in SIZES[task]
        if args.sizes is None or n in args.sizes
    ]
    with (
        ProcessPoolExecutor(args.workers, mp_context=get_context("spawn")) as pool,
        log.open("w") as file,
    ):
        for done in as_completed([pool.submit(run_problem, *job) for job in jobs]):
            file.writelines(json.dumps(row) + "\n" for row in done.result())
            file.flush()


if __name__ == "__main__":
    main()
