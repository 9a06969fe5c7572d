"""RBMs on binarised MNIST: the lower half of Table 1, Figures 5 and 6, and training in equal time.

There are four experiments. "paper" is the schedule of the paper for 784 x 10 units: gradient
ascent with the learning rate 1/(100 + epoch), from zero biases and from the log odds of the pixels.
"equal" compares learners with the default parameters of :class:`skmrf.RBM` and scikit-learn's
BernoulliRBM in the same processor time, with 784 x 10 units (exact log-likelihood) and 784 x 500
units (both ends of the interval of log Z). "temperatures" is the number of temperatures that an
update of SMC and of PSMC needs during training. "defaults" fits :class:`skmrf.RBM` with its default
parameters: ten seeds with 10 hidden units, and one seed with 500, whose log Z is estimated again
with ten times as many temperatures.
"""

import json
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from _common import markdown, options, save, write_tables
from boltzmann import LiteralPSMC
from sklearn.neural_network import BernoulliRBM
from threadpoolctl import threadpool_limits

from skmrf import RBM, inference, training
from skmrf._utils.codes import STATE
from skmrf._utils.rows import Batch
from skmrf.energies import BipartiteEnergy
from skmrf.learners import (
    CD,
    MCMCMLE,
    PCD,
    PSMC,
    PTT,
    SMC,
    Exact,
    ParallelTempering,
    ParticleFilteredMCMCMLE,
    TemperedTransitions,
)
from skmrf.likelihood import ais
from skmrf.samplers.smc import equal_log_weights, resample
from skmrf.training import loop
from skmrf.training.schedules import ConstantRate
from skmrf.training.settings import Settings

LEARNERS = {
    "exact": Exact,
    "PCD": lambda: PCD(n_chains=100),
    "CD-1": CD,
    "PSMC": PSMC,
    "PSMC split": lambda: PSMC(refresh="split"),
    "PSMC lean": lambda: PSMC(100, "split", fraction=0.2, ess_threshold=0.5),
    "SMC": SMC,
    "PT": ParallelTempering,
    "PTT": PTT,
    "TT": TemperedTransitions,
    "MCMC-MLE": MCMCMLE,
    "PF-MCMC-MLE": ParticleFilteredMCMCMLE,
}
PEERS = {  # learning rate, batch size, whether visible biases start at the log odds as ours
    "BernoulliRBM 0.1, 10": (0.1, 10, False),
    "BernoulliRBM 0.05, 100": (0.05, 100, False),
    "BernoulliRBM 0.01, 100": (0.01, 100, False),
    "BernoulliRBM 0.05, 100, our biases": (0.05, 100, True),
}
LONGER = 10_000  # temperatures of the second estimate of log Z
LARGE = (
    "PCD",
    "BernoulliRBM 0.05, 100",
    "PTT",
    "BernoulliRBM 0.05, 100, our biases",
    "PSMC lean",
    "PSMC split",
    "PSMC",
    "PT",
    "TT",
)
UNIFORM = {"n_particles": 200, "reference": "uniform"}
H = {"zeros": 30, "data": 100}  # with zero biases PSMC needs 1 at first, and 70 after 4 epochs
PAPER = {
    "exact": lambda _: Exact(),
    "PCD-1": lambda _: PCD(200, 1),
    "PSMC": lambda _: PSMC(**UNIFORM),
    "PSMC literal": lambda _: LiteralPSMC(**UNIFORM),
    "SMC": lambda _: SMC(**UNIFORM),
    "PCD-H": lambda h: PCD(200, h),
    "PT": lambda h: ParallelTempering(200, h, adapt=False, reference="uniform"),
    "TT": lambda h: TemperedTransitions(200, h, 0.9),
}
PRINTED = {  # Table 1: 784 x 10 train and test, 784 x 500 train and test
    "PCD-1": (-206.3846, -207.7464, -176.3767, -177.0584),
    "PCD-H": (-203.5884, -204.6717, -173.0064, -173.4998),
    "PT": (-206.2819, -206.2819, -165.2149, -166.1645),
    "TT": (-206.9033, -208.2452, -170.9312, -171.6008),
    "SMC": (-203.3672, -204.4852, -678.6464, -678.7835),
    "PSMC": (-199.9089, -201.0794, -161.6231, -162.1705),
}


class PerEpoch(ConstantRate):
    """Learning rate of the paper, 1/(100 + epoch)."""

    def __init__(self, updates=300):
        super().__init__()
        self.updates = updates

    def value(self, state):
        return 1.0 / (100.0 + state["t"] // self.updates)


# Data and models ---------------------------------------------------------------------------


def read(path, n_train=None):
    """Return training and test rows of zeros and ones."""
    with np.load(path) as file:
        train, test = (file[name].reshape(len(file[name]), -1) for name in ("x_train", "x_test"))
    return (train[:n_train] > 127).astype(STATE), (test > 127).astype(STATE)


def log_odds(X):
    ones = X.sum(axis=0, dtype=float)
    return np.log((ones + 0.5) / (len(X) - ones + 0.5))


def first_energy(X, n_hidden, rng, biases="data"):
    """Return an initial energy: weights N(0, 0.01^2), visible biases at the log odds or zero."""
    weights = rng.normal(scale=0.01, size=(X.shape[1], n_hidden)).astype(np.float32)
    shown = log_odds(X) if biases == "data" else np.zeros(X.shape[1])
    return BipartiteEnergy(weights, shown, np.zeros(n_hidden))


def independent(train, X):
    """Return the mean log-likelihood of independent pixels."""
    p = (train.sum(axis=0) + 0.5) / (len(train) + 1.0)
    return float((X * np.log(p) + (1 - X) * np.log1p(-p)).sum(axis=1).mean())


def exact_scores(energy, sets):
    """Return the mean exact log-likelihoods of the rows under a model with few hidden units."""
    log_z = float(inference.log_partition(energy.astype(np.float64), method="exact"))
    return {k: float(energy.log_marginal(X).mean() - log_z) for k, X in sets.items()}


def estimated_scores(energy, sets, chains, n_temperatures, seed):
    """Return mean log-likelihoods with the forward estimate of log Z and with both limits."""
    found = ais(energy, start=chains, n_temperatures=n_temperatures, random_state=seed)
    out = {}
    for k, X in sets.items():
        mean = float(energy.log_marginal(X).mean())
        out |= {k: mean - found.value, f"{k}_low": mean - found.upper}
        out |= {f"{k}_high": mean - found.lower}
    return out


# Training in a given time ------------------------------------------------------------------


class SkmrfRun:
    """Training run of a learner of this package, in small pieces, with its own seconds."""

    def __init__(self, learner, energy, X, settings, seed):
        self.learner, self.X, self.settings = learner, X, settings
        self.rng = np.random.default_rng([seed, 1])
        self.rows, self.piece, self.seconds = np.empty(0, dtype=int), 1, 0.0
        start = time.process_time()
        data = Batch(X, rows=np.arange(len(X)))
        self.state = loop.start(energy, learner, data, settings, np.random.default_rng(seed))
        self.seconds += time.process_time() - start

    @property
    def updates(self):
        return self.state.step

    def continue_training(self, n_updates):
        """Continue the training run by a number of updates."""
        start = time.process_time()
        n = n_updates * self.settings.batch_size
        while len(self.rows) < n:
            self.rows = np.concatenate([self.rows, self.rng.permutation(len(self.X))])
        rows, self.rows = self.rows[:n], self.rows[n:]
        batch = Batch(self.X[rows], rows=rows)
        self.state = loop.run(self.learner, batch, self.settings, self.state)
        self.seconds += time.process_time() - start

    def energy(self):
        """Return the averaged iterate since the last decrease of the rate, as ``fit`` does."""
        return self.state.result(self.settings.average)

    def chains(self, rng):
        """Return initial states for the reverse chains of the estimate of log Z."""
        held = self.state.learner
        if not hasattr(held, "X"):
            return None
        if held.log_weights is None:
            return held.X
        return held.X[resample(held.log_weights, len(held.X), rng)]

    def diagnostics(self):
        """Return the mean diagnostics of the last fifth of the training run."""
        columns = self.state.history.columns
        names = ("n_temperatures", "distinct", "acceptance", "least_swap_rate", "ess")
        last = {k: columns[k][-max(1, len(columns[k]) // 5) :] for k in names if k in columns}
        return {k: float(np.mean(v)) for k, v in last.items()}


class ScikitLearnRun:
    """Training run of scikit-learn's BernoulliRBM, with the batches of its ``fit``, in float32."""

    def __init__(self, rate, batch_size, our_biases, n_hidden, X, seed):
        self.X, self.batch_size = X.astype(np.float32), batch_size
        self.model = model = BernoulliRBM(n_hidden, learning_rate=rate, batch_size=batch_size)
        self.rng, self.draws = np.random.default_rng([seed, 1]), np.random.RandomState(seed)
        biases = "data" if our_biases else "zeros"
        energy = first_energy(X, n_hidden, np.random.default_rng(seed), biases)
        model.components_ = np.asfortranarray(energy.weights.T)
        model.intercept_visible_ = energy.visible_bias.astype(np.float32)
        model.intercept_hidden_ = np.zeros(n_hidden, dtype=np.float32)
        model.h_samples_ = np.zeros((batch_size, n_hidden), dtype=np.float32)
        self.rows, self.updates, self.seconds = np.empty(0, dtype=int), 0, 0.0

    def continue_training(self, n_updates):
        start = time.process_time()
        for _ in range(n_updates):
            if len(self.rows) < self.batch_size:
                self.rows = self.rng.permutation(len(self.X))
            rows, self.rows = self.rows[: self.batch_size], self.rows[self.batch_size :]
            self.model._fit(self.X[rows], self.draws)
        self.updates += n_updates
        self.seconds += time.process_time() - start

    def energy(self):
        model = self.model
        return BipartiteEnergy(
            model.components_.T, model.intercept_visible_, model.intercept_hidden_
        )

    def chains(self, rng):
        means = self.energy().visible_means(self.model.h_samples_)
        return (rng.random(means.shape) < means).astype(STATE)

    def diagnostics(self):
        return {}


def make(name, X, n_hidden, seed):
    """Return the training run with Adam and an adaptive rate that has the given name."""
    if name in PEERS:
        return ScikitLearnRun(*PEERS[name], n_hidden, X, seed)
    energy = first_energy(X, n_hidden, np.random.default_rng(seed))
    settings = Settings(
        training.Adam(),
        training.AdaptiveRate(0.003, 2000, cosine=0.0, n_halvings=3),
        batch_size=100,
        max_iter=1,
        recency=8.0,
    )
    return SkmrfRun(LEARNERS[name](), energy, X, settings, seed)


def follow(run, budget, marks, spent, score):
    """Continue a training run; return its scores after each of the given processor seconds."""
    piece, curve = 1, []
    for mark in marks:
        while spent(run) < mark * budget:
            before, clock = spent(run), run.seconds
            run.continue_training(piece)
            left = mark * budget - spent(run)
            pace = max((spent(run) - before) / piece, 1e-9)
            quick = run.seconds - clock < 0.5  # pieces of about a second
            piece = int(np.clip(left / pace, 1, 2 * piece if quick else piece))
        curve.append({"seconds": run.seconds, "updates": run.updates, **score(run, mark)})
    return curve


# Experiments -------------------------------------------------------------------------------


def equal_time(args, train, test, n_hidden, names, seconds, log):
    """Train all learners on models of one size, and write each row to the log."""
    sets = {"train": train[:10_000], "test": test}

    def exact(run, _):
        found = exact_scores(run.energy(), sets)
        if isinstance(run, SkmrfRun):
            ends = {"last_test": run.state.energy, "mean_test": run.state.result(True)}
            found |= {k: exact_scores(energy, {k: test})[k] for k, energy in ends.items()}
        return found

    def estimated(run, mark):
        rng = np.random.default_rng(1)
        n_temperatures = args.temperatures if mark == 1 else args.temperatures // 8
        return estimated_scores(run.energy(), sets, run.chains(rng), n_temperatures, 2)

    small = n_hidden <= 16
    marks = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1) if small else (1 / 8, 3 / 8, 1)
    for name in names:
        make(name, train, n_hidden, 0).continue_training(2)  # compiles
        run = make(name, train, n_hidden, 0)
        curve = follow(run, seconds, marks, lambda r: r.seconds, exact if small else estimated)
        row = {"experiment": f"equal {n_hidden}", "learner": name, **curve[-1], "curve": curve}
        _write(log, row | run.diagnostics())


def paper_schedule(train, test, biases, names, epochs, log):
    """Train RBMs of 784 x 10 units with the schedule of the paper and given initial biases."""
    sets = {"train": train[:10_000], "test": test}
    for name in names:
        energy = first_energy(train, 10, np.random.default_rng(0), biases)
        settings = Settings(training.SGD(), PerEpoch(), batch_size=200, max_iter=1, average=False)
        run = SkmrfRun(PAPER[name](H[biases]), energy, train, settings, 0)
        n_updates = max(2, round(epochs * len(train) / 200))
        marks = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0])
        curve = follow(
            run,
            n_updates,
            marks,
            lambda r: r.updates,
            lambda r, _: exact_scores(r.energy(), sets) | _saturated(r.energy(), test),
        )
        row = {"experiment": f"paper {biases}", "learner": name, **curve[-1], "curve": curve}
        _write(log, row | run.diagnostics())


def _saturated(energy, X):
    """Count the hidden units that are the same for almost all rows."""
    means = energy.hidden_means(X[:2000]).mean(axis=0)
    return {"saturated": int(np.count_nonzero((means < 0.001) | (means > 0.999)))}


def temperatures(train, n_hidden, factor, log):
    """Record the temperatures of one update of SMC and PSMC at models that PCD trains."""
    run = make("PCD", train, n_hidden, 0)
    for n in (10, 30, 100, 300, 1000, 3000, 6000):
        n = max(1, round(n * factor))
        while run.updates < n:
            run.continue_training(min(100, n - run.updates))
        for name, reference in ((n, b) for n in ("SMC", "PSMC") for b in ("marginals", "uniform")):
            learner = {"SMC": SMC, "PSMC": PSMC}[name](n_particles=200, reference=reference)
            found = [_one_update(learner, run, train, seed) for seed in range(2)]
            row = {k: float(np.mean([f[k] for f in found])) for k in found[0]}
            head = {
                "experiment": f"temperatures {n_hidden}",
                "learner": name,
                "reference": reference,
            }
            _write(log, {**head, "updates": run.updates, **row})


def _reference(row):
    """Return the name of the reference, which has the key "base" in older results."""
    return row.get("reference", row.get("base"))


def _one_update(learner, run, train, seed):
    """Return diagnostics of one update of a learner whose particles are the chains of a run."""
    rng, energy = np.random.default_rng(seed), run.state.energy
    batch = Batch(train, rows=np.arange(len(train)))
    state = learner.init(energy, batch, rng)
    state.X = run.state.learner.X[rng.choice(len(run.state.learner.X), learner.n_particles)]
    state.log_weights = equal_log_weights(learner.n_particles)
    *_, info = learner.step(energy, batch, state, rng)
    return {k: float(info[k]) for k in ("n_temperatures", "distinct", "least_ess")}


def default_fits(train, test, n_hidden, seeds, log, device="cpu"):
    """Fit RBM with default parameters for each seed, and write each row to the log."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    for seed in seeds:
        start = clock()
        model = RBM(n_hidden, random_state=seed, device=device).fit(train)
        row = {
            "experiment": f"defaults {n_hidden}",
            "seed": seed,
            "seconds": clock() - start,
            "epochs": model.n_iter_,
            "strength": model.alpha_ * len(train),
            "train": model.score(train),
            "test": model.score(test),
            "method": model.log_partition_method_,
        }
        if row["method"] != "exact":
            low, high = model.log_partition_interval_
            longer = ais(
                model.energy_, start=train[:128], n_temperatures=LONGER, random_state=seed + 1,
                device=device,
            )  # fmt: skip
            row |= {
                "test_low": row["test"] + model.log_partition_ - high,
                "test_high": row["test"] + model.log_partition_ - low,
                "longer": row["test"] + model.log_partition_ - longer.value,
            }
        _write(log, row)


def _write(log, row):
    with log.open("a") as file:
        file.write(json.dumps(row) + "\n")
    shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items() if k != "curve"}
    print(shown, flush=True)


# Tables ------------------------------------------------------------------------------------

COLUMNS = {
    "experiment": "experiment",
    "learner": "learner",
    "seconds": "seconds",
    "updates": "updates",
    "train": "train",
    "test": "test",
    "test_low": "test, log Z at its upper end",
    "n_temperatures": "temperatures",
}
TABLES = {
    "equal 10": {
        "learner": "learner",
        "printed_test": "paper, test",
        "updates": "updates",
        "train": "train",
        "test": "test",
        "last_test": "test, last iterate",
        "mean_test": "test, mean iterate",
        "n_temperatures": "temperatures",
    },
    "equal 500": {
        "learner": "learner",
        "printed_test": "paper, test",
        "updates": "updates",
        "test_low": "test, upper end of log Z",
        "test": "test, forward estimate",
        "test_high": "test, lower end",
        "n_temperatures": "temperatures",
    },
    "paper zeros": {
        "learner": "learner",
        "printed_train": "paper, train",
        "printed_test": "paper, test",
        "epochs": "epochs",
        "train": "train",
        "test": "test",
        "saturated": "dead hidden units",
        "n_temperatures": "temperatures",
        "seconds": "seconds",
    },
}
TABLES["paper data"] = TABLES["paper zeros"]
TABLES["defaults 10"] = {
    "seed": "seed",
    "train": "train",
    "test": "test",
    "strength": "alpha times rows",
    "epochs": "epochs",
    "seconds": "processor seconds",
}
TABLES["defaults 500"] = TABLES["defaults 10"] | {
    "test_low": "test, upper end of log Z",
    "test_high": "test, lower end",
    "longer": f"test, {LONGER:,} temperatures",
}


def table(rows, experiment):
    """Format the table of one experiment; for equal time, the best learner is first."""
    mine = [dict(r) for r in rows if r["experiment"] == experiment]
    if experiment.startswith("equal"):
        mine.sort(key=lambda r: -r.get("test_low", r["test"]))
    for row in mine:
        if "updates" in row:
            row["epochs"] = f"{row['updates'] / 300:.1f}"
        printed = PRINTED.get({"PCD": "PCD-1"}.get(row.get("learner"), row.get("learner")))
        if printed:
            size = printed[2:] if experiment.endswith("500") else printed[:2]
            row["printed_train"], row["printed_test"] = (f"{v:.2f}" for v in size)
        for key in ("train", "test", "last_test", "mean_test", "test_low", "test_high", "longer"):
            if key in row:
                row[key] = f"{row[key]:.2f}"
        if "n_temperatures" in row:
            row["n_temperatures"] = f"{row['n_temperatures']:.0f}"
        row["seconds"] = f"{row['seconds']:.0f}"
    return markdown(mine, TABLES[experiment])


def temperature_table(rows):
    """Format the table of numbers of temperatures by updates, learner and reference."""
    lines = {}
    for row in rows:
        kind, n_hidden = row["experiment"].split()
        if kind == "temperatures":
            head = f"784 x {n_hidden}, {row['learner']}, {row['reference']}"
            line = lines.setdefault(head, {"model": head})
            line[str(row["updates"])] = f"{row['n_temperatures']:.0f} ({row['distinct']:.2f})"
    updates = sorted({int(k) for line in lines.values() for k in line if k != "model"})
    return markdown(list(lines.values()), {"model": "updates"} | {str(u): str(u) for u in updates})


# Figures -----------------------------------------------------------------------------------


def _figure(width, height):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no PNG", flush=True)
        return None
    return Figure(figsize=(width, height), layout="constrained")


def draw_equal(path, rows):
    """Draw held-out log-likelihood against processor seconds, one panel per size."""
    figure = _figure(12, 4.5)
    if figure is None:
        return
    names, handles = [*LEARNERS, *PEERS], {}
    for axes, n_hidden in zip(figure.subplots(1, 2), (10, 500), strict=True):
        mine = [r for r in rows if r["experiment"] == f"equal {n_hidden}"]
        for row in mine:
            k, curve, peer = names.index(row["learner"]), row["curve"], row["learner"] in PEERS
            x, low = ([p.get(key, p["test"]) for p in curve] for key in ("seconds", "test_low"))
            reach = [p.get("test_high", p["test"]) - y for p, y in zip(curve, low, strict=True)]
            handles[row["learner"]] = axes.errorbar(
                x,
                low,
                [[0.0] * len(x), reach],
                color="k" if row["learner"] == "exact" else f"C{(k - 1) % 10}",
                marker="s" if peer else "o",
                linestyle="--" if peer else "-",
                linewidth=1,
                markersize=4,
                capsize=2,
            )
        axes.set_xscale("log")
        axes.set_xlabel("processor seconds")
        axes.set_title(f"784 x {n_hidden}")
        if mine:
            marks = [p["seconds"] for p in mine[0]["curve"]]
            axes.set_xticks(marks, [f"{mark:.2g}" for mark in marks])
            axes.minorticks_off()
            ends = [p.get("test_low", p["test"]) for row in mine for p in row["curve"]]
            axes.set_ylim(bottom=max(min(ends), -230.0) - 3.0)
    figure.axes[0].set_ylabel("held-out log-likelihood, nats")
    figure.axes[1].set_ylabel("log Z at its upper end, bars to the lower")
    shown = [name for name in names if name in handles]
    figure.legend([handles[n] for n in shown], shown, loc="outside right center")
    figure.savefig(path, dpi=110)


def draw_paper(path, rows, levels):
    """Draw Figure 5a: the schedule of the paper, from both initial biases."""
    figure = _figure(12, 4.5)
    if figure is None:
        return
    panels, handles = figure.subplots(1, 2), {}
    for axes, biases in zip(panels, ("zeros", "data"), strict=True):
        for row in (r for r in rows if r["experiment"] == f"paper {biases}"):
            k = list(PAPER).index(row["learner"])
            x, y = [p["updates"] for p in row["curve"]], [p["test"] for p in row["curve"]]
            style = "k--" if row["learner"] == "exact" else f"C{k}o-"
            handles.setdefault(row["learner"], axes.plot(x, y, style, linewidth=1, markersize=3)[0])
        axes.axhline(levels["independent"], color="grey", linestyle=":", linewidth=1)
        axes.set_xlabel("updates (300 an epoch)")
        axes.set_title({"zeros": "zero biases", "data": "biases at the log odds"}[biases])
    panels[0].set_ylabel("test log-likelihood, nats (dotted: independent pixels)")
    panels[0].set_ylim(bottom=-360)
    figure.legend(list(handles.values()), list(handles), loc="outside right center")
    figure.savefig(path, dpi=110)


def draw_temperatures(path, rows):
    """Draw Figures 5 and 6, b and c: numbers of temperatures."""
    figure = _figure(12, 4)
    if figure is None:
        return
    for axes, n_hidden in zip(figure.subplots(1, 2), (10, 500), strict=True):
        mine = [r for r in rows if r["experiment"] == f"temperatures {n_hidden}"]
        for key in sorted({(r["learner"], _reference(r)) for r in mine}):
            here = [r for r in mine if (r["learner"], _reference(r)) == key]
            x, y = [r["updates"] for r in here], [r["n_temperatures"] for r in here]
            style = "--" if key[1] == "uniform" else "-"
            axes.plot(x, y, f"o{style}", label=f"{key[0]}, reference {key[1]}", markersize=3)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("updates of PCD, Adam")
        axes.set_ylabel("temperatures per update")
        axes.set_title(f"784 x {n_hidden}")
        if mine:
            axes.legend()
    figure.savefig(path, dpi=110)


# -------------------------------------------------------------------------------------------


def default_data():
    home = os.environ.get("SKMRF_DATA")
    return None if home is None else Path(home) / "mnist" / "mnist.npz"


def main(argv=None):
    """Run the selected parts, or with --rows make tables and figures from saved results."""
    parser = options(__doc__)
    parser.add_argument("--data", type=Path, default=default_data(), help="mnist.npz of Keras")
    parser.add_argument("--rows", action="store_true", help="read saved results, without new fits")
    parts = [f"{name}-{n}" for name in ("equal", "defaults") for n in (10, 500)]
    parts += ["temperatures", "paper-zeros", "paper-data"]
    parser.add_argument("--parts", nargs="+", default=parts, choices=parts)
    parser.add_argument("--seconds", type=float, default=120.0, help="of a fit of 10 hidden units")
    parser.add_argument(
        "--seconds-large", type=float, default=240.0, help="of a fit of 500 hidden units"
    )
    parser.add_argument("--temperatures", type=int, default=4000, help="for the estimate of log Z")
    parser.add_argument("--epochs", type=float, default=4.0, help="of the schedule of the paper")
    parser.add_argument("--learners", nargs="+", help="only these")
    parser.add_argument("--device", default="cpu", help="of the parts defaults: cpu, gpu or jax")
    args = parser.parse_args(argv)
    if args.data is None or not args.data.exists():
        sys.exit("No MNIST: give --data mnist.npz, or set SKMRF_DATA to a folder with mnist/.")
    warnings.simplefilter("ignore")
    args.results.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        train, test = read(args.data, 6000 if args.fast else None)
        if not args.rows:
            run(args, train, test)
    write(args, {k: independent(train, X) for k, X in (("train", train), ("test", test))})


def run(args, train, test):
    """Run all parts, and write the rows of each to a file."""
    factor = 1.0
    if args.fast:
        args.seconds, args.seconds_large = min(args.seconds, 0.5), min(args.seconds_large, 2.0)
        args.temperatures, factor = 40, 0.02
        args.epochs = min(args.epochs, 0.02)

    def chosen(names):
        return [name for name in names if args.learners is None or name in args.learners]

    large = LARGE[:2] if args.fast else LARGE
    jobs = {
        "equal-10": lambda log: equal_time(
            args, train, test, 10, chosen([*LEARNERS, *PEERS]), args.seconds, log
        ),
        "equal-500": lambda log: equal_time(
            args, train, test, 500, chosen(large), args.seconds_large, log
        ),
        **{
            f"defaults-{n}": lambda log, n=n, n_seeds=n_seeds: default_fits(
                train, test, n, range(2 if args.fast else n_seeds), log, args.device
            )
            for n, n_seeds in ((10, 10), (500, 1))
        },
        "temperatures": lambda log: [temperatures(train, n, factor, log) for n in (10, 500)],
        **{
            f"paper-{biases}": lambda log, biases=biases: paper_schedule(
                train, test, biases, chosen(PAPER), args.epochs, log
            )
            for biases in H
        },
    }
    for part in args.parts:
        log = args.results / f"rbm_{part}.jsonl"
        log.unlink(missing_ok=True)
        jobs[part](log)


def write(args, levels):
    """Write the tables, the JSON file and the figures."""
    logs = sorted(args.results.glob("rbm_*.jsonl"))
    rows = [json.loads(row) for log in logs for row in log.read_text().splitlines()]
    fits = [row for row in rows if not row["experiment"].startswith("temperatures")]
    fits.sort(key=lambda r: r["experiment"])
    notes = [
        "Nats; 10,000 training rows and 10,000 test rows are scored. 784 x 10 exactly.",
        f"Independent pixels: train {levels['train']:.2f}, test {levels['test']:.2f}.",
    ]
    save(args, "rbm", fits, COLUMNS, notes)
    done = {row["experiment"] for row in rows}
    tables = {f"rbm {name}": table(rows, name) for name in TABLES if name in done}
    if any(name.startswith("temperatures") for name in done):
        tables["rbm temperatures"] = temperature_table(rows)
        draw_temperatures(args.results / "rbm_temperatures.png", rows)
    write_tables(args.results / "persistent_smc.md", tables)
    draw_equal(args.results / "rbm_equal.png", rows)
    draw_paper(args.results / "rbm_paper.png", rows, {"independent": levels["test"]})


if __name__ == "__main__":
    main()
