"""Fully visible Boltzmann machines: the upper half of Table 1 and Figures 2 to 4 of the paper.

The target model has 10 units with the states -1 and 1. W is a full matrix with entries N(0, 1), so
the coupling of a pair is W_ij + W_ji. The data are 200 exact samples. All learners have 200
particles, the same initial parameters N(0, 0.01^2), and plain gradient steps with three learning
rate schedules. Both W_ij and W_ji are updated, which doubles the learning rate of a coupling.
Log-likelihoods are exact.
"""

import json
import warnings

import numpy as np
from _common import markdown, options, save, write_tables
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from skmrf import training
from skmrf._utils.codes import STATE
from skmrf._utils.log_weights import normalized_weights
from skmrf._utils.phases import States
from skmrf._utils.rows import Batch
from skmrf.energies import PairwiseEnergy
from skmrf.learners import (
    CD,
    MCMCMLE,
    PCD,
    PSMC,
    SMC,
    Exact,
    Learner,
    ParallelTempering,
    ParticleFilteredMCMCMLE,
    TemperedTransitions,
)
from skmrf.samplers.smc import equal_log_weights
from skmrf.training import loop, schedules
from skmrf.training.settings import Settings

# Algorithm 4 of Xiong, Szedmak and Piater (2014) mixes new particles with persistent particles and
# moves all of them to the new parameters. The new particles are not samples of the last model, so
# the gradient is biased, unless weights correct this.


class LiteralPSMC(PSMC):
    """Persistent SMC by Algorithm 4 as printed: new particles without weights."""

    def move(self, energy, state, rng):
        X = np.concatenate(self.old_and_fresh(state, rng))
        return self.follow(energy, state, rng, X, equal_log_weights(len(X)))


class BalancedPSMC(PSMC):
    """Persistent SMC by Algorithm 4 with weights that correct the bias of new particles."""

    def move(self, energy, state, rng):
        old, fresh = self.old_and_fresh(state, rng)
        X = np.concatenate([old, fresh])
        log_p = state.energy.log_marginal(X) - state.log_partition
        log_reference = state.reference.log_probability(X)
        share = len(fresh) / len(X)
        mixed = np.logaddexp(log_p + np.log1p(-share), log_reference + np.log(share))
        return self.follow(energy, state, rng, X, log_p - mixed)


N_UNITS, N_ROWS, H = 10, 200, 10
SCHEMES = {
    "1/(100 + t)": (schedules.InverseRate(100.0, 1.0), 500),
    "1/(20 + 0.5 t)": (schedules.InverseRate(20.0, 0.5), 100),
    "1/(10 + 0.1 t)": (schedules.InverseRate(10.0, 0.1), 40),
}
UNIFORM = {"n_particles": N_ROWS, "reference": "uniform"}
LEARNERS = {
    "exact": Exact,
    "PCD-1": lambda: PCD(N_ROWS, n_sweeps=1),
    "PCD-10": lambda: PCD(N_ROWS, n_sweeps=H),
    "PT": lambda: ParallelTempering(N_ROWS, H, adapt=False, reference="uniform"),
    "TT": lambda: TemperedTransitions(N_ROWS, H, 0.9),
    "SMC": lambda: SMC(**UNIFORM),
    "PSMC": lambda: PSMC(**UNIFORM),
    "PSMC split": lambda: PSMC(refresh="split", **UNIFORM),
    "PSMC none": lambda: PSMC(refresh="none", **UNIFORM),
    "PSMC balance": lambda: BalancedPSMC(**UNIFORM),
    "PSMC literal": lambda: LiteralPSMC(**UNIFORM),
    "CD-1": lambda: CD(1),
    "CD-10": lambda: CD(H),
    "MCMC-MLE": lambda: MCMCMLE(**UNIFORM),
    "PF-MCMC-MLE": lambda: ParticleFilteredMCMCMLE(**UNIFORM),
}
TABLE = ("PCD-1", "PCD-10", "PT", "TT", "SMC", "PSMC")
VARIANTS = ("PSMC", "PSMC split", "PSMC none", "PSMC balance", "PSMC literal")
OTHERS = ("CD-1", "CD-10", "MCMC-MLE", "PF-MCMC-MLE")
PAPER = {
    "1/(100 + t)": (-1.693, -1.691, -1.689, -1.692, -1.692, -1.691),
    "1/(20 + 0.5 t)": (-7.046, -2.612, -1.995, -2.227, -2.069, -1.891),
    "1/(10 + 0.1 t)": (-25.179, -3.714, -2.118, -4.329, -2.224, -1.976),
}


class TwoCopies(training.SGD):
    """Gradient ascent in W, where a coupling is the sum of two entries of W."""

    def step(self, theta, gradient, rate, state):
        rates = {"coupling": 2.0 * rate, "bias": rate}
        return {k: v + rates[k] * gradient[k] for k, v in theta.items()}, rates, state


class StateSpace:
    """All joint states of a few units, with the sufficient statistics of states and of data."""

    def __init__(self, n_units, X):
        codes = np.indices((2,) * n_units).reshape(n_units, -1).T
        self.codes = codes.astype(STATE)
        self.pairs = np.triu_indices(n_units, 1)
        self.statistics = self.compute_statistics(self.codes)
        self.data = None if X is None else self.compute_statistics(X).mean(axis=0)

    def compute_statistics(self, X):
        S = 2.0 * X - 1.0
        return np.hstack([S[:, self.pairs[0]] * S[:, self.pairs[1]], S])

    def log_p(self, energy):
        theta = np.concatenate([energy.coupling[self.pairs], energy.bias])
        log_f = self.statistics @ theta
        return log_f - logsumexp(log_f), theta, logsumexp(log_f)

    def log_likelihood(self, energy):
        _, theta, log_z = self.log_p(energy)
        return float(self.data @ theta - log_z)

    def error(self, energy, negative):
        """Return the distance of the negative phase from the exact negative phase."""
        exact = np.exp(self.log_p(energy)[0]) @ self.statistics
        weights = normalized_weights(negative.log_weights, len(negative.visible))
        return float(np.linalg.norm(weights @ self.compute_statistics(negative.visible) - exact))


class MonitoredLearner(Learner):
    """Learner that reports the exact log-likelihood and the error of the negative phase."""

    def __init__(self, learner, space):
        self.learner, self.space = learner, space

    def init(self, energy, batch, rng):
        return self.learner.init(energy, batch, rng)

    def step(self, energy, batch, state, rng):
        positive, negative, state, info = self.learner.step(energy, batch, state, rng)
        info = dict(info, log_likelihood=self.space.log_likelihood(energy))
        if isinstance(negative, States):
            info["error"] = self.space.error(energy, negative)
        return positive, negative, state, info


def problem(trial, n_units=N_UNITS):
    """Return the rows of a trial, sampled from a random target model, and the initial model."""
    rng = np.random.default_rng(trial)
    space = StateSpace(n_units, None)
    target = PairwiseEnergy(*_symmetrize(rng.normal(size=(n_units, n_units))), np.zeros(n_units))
    p = np.exp(space.log_p(target)[0])
    X = space.codes[rng.choice(len(p), N_ROWS, p=p)]
    start = PairwiseEnergy(
        *_symmetrize(rng.normal(scale=0.01, size=(n_units, n_units))),
        rng.normal(scale=0.01, size=n_units),
    )
    return X, start


def _symmetrize(W):
    """Return the symmetric coupling matrix that the weights W represent."""
    J = W + W.T
    np.fill_diagonal(J, 0.0)
    return (J,)


def fit(scheme, name, trial, n_updates=None):
    """Fit a model and return its log-likelihoods, errors and numbers of temperatures.

    The log-likelihood is recorded before each update and at the end.
    """
    X, energy = problem(trial)
    rate, length = SCHEMES[scheme]
    space, rng = StateSpace(N_UNITS, X), np.random.default_rng([trial, 1])
    settings = Settings(
        TwoCopies(), rate, batch_size=N_ROWS, max_iter=n_updates or length, average=False
    )
    learner, data = MonitoredLearner(LEARNERS[name](), space), Batch(X, rows=np.arange(N_ROWS))
    state = loop.start(energy, learner, data, settings, rng)
    state = loop.run(learner, data, settings, state)
    found = state.history.columns
    curve = [*found["log_likelihood"], space.log_likelihood(state.energy)]
    return {
        "scheme": scheme,
        "learner": name,
        "trial": trial,
        "log_likelihood": curve[-1],
        "curve": curve,
        "error": float(np.mean(found["error"])) if "error" in found else None,
        "temperatures": list(found.get("n_temperatures", [])),
        "least_ess": float(np.mean(found["least_ess"])) if "least_ess" in found else None,
    }


# Tables ------------------------------------------------------------------------------------


def summary(rows):
    """Summarise the fits: means and standard deviations over trials, and differences to exact."""
    exact = {
        (r["scheme"], r["trial"]): r["log_likelihood"] for r in rows if r["learner"] == "exact"
    }
    psmc = {(r["scheme"], r["trial"]): r["log_likelihood"] for r in rows if r["learner"] == "PSMC"}
    out = []
    for scheme in SCHEMES:
        for name in LEARNERS:
            mine = [r for r in rows if (r["scheme"], r["learner"]) == (scheme, name)]
            if not mine:
                continue
            ends = np.array([r["log_likelihood"] for r in mine])
            differences = ends - [exact[scheme, r["trial"]] for r in mine]
            behind = ends - [psmc.get((scheme, r["trial"]), np.nan) for r in mine]
            steps = [np.mean(r["temperatures"]) for r in mine if r["temperatures"]]
            errors = [r["error"] for r in mine if r["error"] is not None]
            out.append(
                {
                    "scheme": scheme,
                    "learner": name,
                    "log_likelihood": float(ends.mean()),
                    "gap": float(differences.mean()),
                    "gap_sd": float(differences.std(ddof=1)) if len(differences) > 1 else None,
                    "minus_psmc": float(behind.mean()),
                    "minus_psmc_se": float(behind.std(ddof=1) / len(behind) ** 0.5)
                    if len(behind) > 1
                    else None,
                    "error": float(np.mean(errors)) if errors else None,
                    "temperatures": float(np.mean(steps)) if steps else None,
                    "trials": len(mine),
                }
            )
    return out


COLUMNS = {
    "scheme": "rate",
    "learner": "learner",
    "log_likelihood": "log-likelihood",
    "gap": "minus exact",
    "gap_sd": "s.d.",
    "minus_psmc": "minus PSMC",
    "minus_psmc_se": "s.e.",
    "error": "error of negative phase",
    "temperatures": "temperatures",
}


def paper_table(lines):
    """Format the upper half of Table 1: results of the paper, our results, and differences."""
    found = {(line["scheme"], line["learner"]): line for line in lines}
    table = []
    for scheme, printed in PAPER.items():
        first = {"rate": scheme, "what": "paper"}
        ours = {"rate": "", "what": "here"}
        differences = {"rate": "", "what": "minus exact"}
        for name, value in zip(TABLE, printed, strict=True):
            line = found[scheme, name]
            first[name] = f"{value:.3f}"
            ours[name] = f"{line['log_likelihood']:.3f}"
            differences[name] = _plus_minus(line)
        ours["exact"] = f"{found[scheme, 'exact']['log_likelihood']:.3f}"
        table += [first, ours, differences]
    return markdown(table, {k: k for k in ("rate", "what", *TABLE, "exact")} | {"what": ""})


def gap_table(lines, names):
    """Format the differences to the exact gradient: a row per learner, a column per schedule."""
    found = {(line["scheme"], line["learner"]): line for line in lines}
    table = []
    for name in names:
        row = {"learner": name}
        for scheme in SCHEMES:
            row[scheme] = _plus_minus(found[scheme, name])
            for key in ("error", "temperatures"):
                value = found[scheme, name][key]
                row[f"{scheme} {key}"] = "" if value is None else f"{value:.2f}"
        table.append(row)
    headings = {"learner": "learner"}
    for scheme in SCHEMES:
        headings |= {scheme: scheme, f"{scheme} error": "error"}
        headings |= {f"{scheme} temperatures": "temperatures"}
    return markdown(table, headings)


def _plus_minus(line):
    sd = line["gap_sd"]
    return f"{line['gap']:.4f}" + ("" if sd is None else f" ± {sd:.4f}")


# Figures -----------------------------------------------------------------------------------


def draw_curves(path, rows, names):
    """Draw Figures 2a to 4a: the difference to the exact gradient, one panel per schedule."""
    figure = _figure(12, 4.2)
    if figure is None:
        return
    exact = {(r["scheme"], r["trial"]): r["curve"] for r in rows if r["learner"] == "exact"}
    panels = figure.subplots(1, len(SCHEMES))
    for axes, scheme in zip(panels, SCHEMES, strict=True):
        for k, name in enumerate(names):
            mine = [r for r in rows if (r["scheme"], r["learner"]) == (scheme, name)]
            differences = [np.subtract(r["curve"], exact[scheme, r["trial"]]) for r in mine]
            if not differences:
                continue
            mean = np.mean(differences, axis=0)
            sd = np.std(differences, axis=0, ddof=len(differences) > 1)
            line = axes.plot(mean, label=name, linewidth=1)[0]
            at = np.arange(len(mean) // 12 * (k + 1) // len(names), len(mean), len(mean) // 10 or 1)
            axes.errorbar(at, mean[at], sd[at], fmt="none", color=line.get_color(), linewidth=1)
        axes.axhline(0.0, color="k", linestyle="--", linewidth=1)
        axes.set_yscale("symlog", linthresh=0.01)
        axes.set_title(f"rate {scheme}")
        axes.set_xlabel("updates")
    panels[0].set_ylabel("log-likelihood minus exact gradient's, nats")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    figure.savefig(path, dpi=110)


def draw_temperatures(path, rows, names=("SMC", "PSMC")):
    """Draw Figures 2 to 4, b and c: the number of temperatures of each update."""
    figure = _figure(12, 3.4)
    if figure is None:
        return
    panels = figure.subplots(1, len(SCHEMES), sharey=True)
    for axes, scheme in zip(panels, SCHEMES, strict=True):
        for name in names:
            mine = [r for r in rows if (r["scheme"], r["learner"]) == (scheme, name)]
            if mine:
                counts = [r["temperatures"] for r in mine]
                whole = f"{name}, mean {np.mean(counts):.1f}"
                axes.plot(np.mean(counts, axis=0), label=whole, linewidth=1)
        axes.set_title(f"rate {scheme}")
        axes.set_xlabel("updates")
        axes.set_ylim(bottom=0)
        axes.legend()
    panels[0].set_ylabel("temperatures per update")
    figure.savefig(path, dpi=110)


def _figure(width, height):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no PNG", flush=True)
        return None
    return Figure(figsize=(width, height), layout="constrained")


def main(argv=None):
    """Run all fits, or with --rows make tables and figures from saved results."""
    parser = options(__doc__)
    parser.add_argument("--rows", action="store_true", help="read saved results, without new fits")
    parser.add_argument("--trials", type=int, default=5)
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    args.results.mkdir(parents=True, exist_ok=True)
    log = args.results / "boltzmann.jsonl"
    if not args.rows:
        run(args, log)
    write(args, [json.loads(row) for row in log.read_text().splitlines()])


def run(args, log):
    """Run all fits and write each result to the log when it is finished."""
    trials, n_updates = (2, 10) if args.fast else (args.trials, None)
    with threadpool_limits(1), log.open("w") as file:
        for scheme in SCHEMES:
            for name in LEARNERS:
                rows = [fit(scheme, name, trial, n_updates) for trial in range(trials)]
                file.writelines(json.dumps(row) + "\n" for row in rows)
                file.flush()


def write(args, rows):
    """Write the tables, the JSON file and the figures."""
    lines = summary(rows)
    trials = max(line["trials"] for line in lines)
    notes = [
        f"{trials} trials, log-likelihoods in nats; 200 particles or chains, uniform reference.",
        "Minus exact: difference to the exact gradient with the same steps. s.e.: of paired "
        "differences.",
    ]
    save(args, "boltzmann", lines, COLUMNS, notes)
    tables = {
        "boltzmann table 1": paper_table(lines),
        "boltzmann variants": gap_table(lines, VARIANTS),
        "boltzmann others": gap_table(lines, OTHERS),
    }
    write_tables(args.results / "persistent_smc.md", tables)
    draw_curves(args.results / "boltzmann_table1.png", rows, TABLE)
    draw_curves(args.results / "boltzmann_variants.png", rows, VARIANTS)
    draw_temperatures(args.results / "boltzmann_temperatures.png", rows)


if __name__ == "__main__":
    main()
