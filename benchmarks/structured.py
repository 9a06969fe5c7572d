"""Structured prediction by conditional RBMs: the tables and figures of Ping and Ihler (2017).

The task is to restore binarised images of MNIST and Caltech-101 silhouettes, after pixels were
flipped or a patch was occluded. A cell of a table is a task, a learner, a number of training images
and a seed. Its model is trained epoch by epoch, and evaluated on the test images at the epoch with
the smallest validation error. A checkpoint is written after each epoch, from which an interrupted
cell is resumed. The result of a cell is saved in a JSON file in the folder ``--cells`` and is not
computed again, so the tables can be completed in several runs. Errors are in % of all pixels, and
in % of the corrupted pixels.
"""

import json
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
from _common import (
    computed_from,
    describe_machine,
    keep_larger_table,
    markdown,
    options,
    save,
    write_tables,
)

from skmrf import CRBMStructuredPredictor
from skmrf.datasets import fetch_caltech101_silhouettes, fetch_mnist, flip_pixels, occlude
from skmrf.learners import CD, MLEBP, MLEMF, CDPercLoss

FULL, VALIDATION, CALTECH = 50_000, 10_000, 4_100
TASKS = {
    "noisy 10%": ("mnist", flip_pixels, {"rate": 0.1}),
    "noisy 20%": ("mnist", flip_pixels, {"rate": 0.2}),
    "occluded 8x8": ("mnist", occlude, {"size": 8}),
    "occluded 12x12": ("mnist", occlude, {"size": 12}),
    "Caltech noisy 20%": ("caltech", flip_pixels, {"rate": 0.2}),
    "Caltech occluded 12x12": ("caltech", occlude, {"size": 12, "value": 1}),
}
SIZES = 4, 8, 12, 16, 20, 24, 28  # of patches, for Figure 3
OCCLUDED = {f"occluded {k}x{k}": ("mnist", occlude, {"size": k}) for k in SIZES}
LEARNERS = {
    "LR": "lr",
    "CD-1": CD(n_sweeps=1),
    "CD-10": CD(n_sweeps=10),
    "CD-PercLoss": CDPercLoss(n_sweeps=10),
    "MLE-MF": MLEMF(n_iter=7, growth=1),
    "MLE-BP": MLEBP(n_iter=7, growth=1),
    "MLE-BP, 40 iterations": "mle-bp",
    "LSSVM": "lssvm",
    "MSSVM": "mssvm",
}
# Columns All and Changed of Tables 1 to 3 of the paper, in the order of PAPER_LEARNERS.
PAPER_LEARNERS = "LR", "CD-1", "CD-10", "CD-PercLoss", "MLE-MF", "MLE-BP", "LSSVM", "MSSVM"
PAPER = {
    "noisy 10%": "1.960/12.531 1.925/12.229 1.816/11.103 1.760/11.121 1.862/11.319 1.688/10.718 "
    "1.807/11.565 1.751/11.023",
    "noisy 20%": "4.088/12.609 4.012/12.597 3.995/11.271 3.970/10.876 3.917/10.939 3.691/10.409 "
    "3.910/11.175 3.804/10.627",
    "occluded 8x8": "1.468/61.304 1.814/63.130 1.707/67.925 1.394/45.684 1.492/49.553 1.329/39.785 "
    "1.496/44.037 1.391/41.829",
    "occluded 12x12": "3.498/53.971 3.983/58.376 3.921/63.237 3.483/35.755 3.477/40.703 "
    "3.117/36.233 3.468/39.140 3.273/35.712",
    "Caltech noisy 20%": "5.653/11.460 5.876/12.423 5.736/12.013 5.622/10.808 5.617/11.083 "
    "5.445/10.731 5.628/11.468 5.549/11.389",
    "Caltech occluded 12x12": "4.771/16.587 5.033/20.300 5.149/21.087 5.081/15.102 4.692/15.995 "
    "4.548/16.541 4.703/16.014 4.534/14.918",
}
RATES, BATCHES = (0.2, 0.1, 0.05, 0.02), (20, 100)  # 0.2, 0.1 and 100 are not in the paper
COLUMNS = {
    "task": "task",
    "learner": "learner",
    "n_train": "images",
    "n_seeds": "seeds",
    "all": "All",
    "all_spread": "sd",
    "changed": "Changed",
    "paper_all": "paper, All",
    "paper_changed": "paper, Changed",
    "rate": "rate",
    "halving": "halved",
    "batch": "batch",
    "epoch": "epoch",
    "converged": "BP converged",
    "seconds": "s an epoch",
}


# Data --------------------------------------------------------------------------------------


def images(kind, data_home):
    """Return training, validation and test images."""
    if kind == "caltech":
        data = fetch_caltech101_silhouettes(data_home=data_home)
        return data.train, data.valid, data.test
    data = fetch_mnist(data_home=data_home)
    order = np.random.default_rng(0).permutation(len(data.train))
    return data.train[order[VALIDATION:]], data.train[order[:VALIDATION]], data.test


def damaged(task, n_train, seed, data_home):
    """Return the damaged images (inputs) and whole images (outputs) of each data split."""
    kind, damage, how = (OCCLUDED | TASKS)[task]
    train, valid, test = images(kind, data_home)
    seeds = np.random.SeedSequence(seed).generate_state(3).tolist()
    parts = zip((train[:n_train], valid, test), seeds, strict=True)
    return [(damage(V, random_state=s, **how).astype(np.float32), V) for V, s in parts]


def errors(model, X, V):
    """Return the errors in % of all pixels and of the corrupted pixels."""
    wrong = model.predict(X) != V
    changed = X != V
    return 100 * float(wrong.mean()), 100 * float(wrong[changed].mean())


# Cells -------------------------------------------------------------------------------------


def new_model(learner, rate, batch, seed):
    """Return an estimator that trains for one epoch at each call of fit."""
    return CRBMStructuredPredictor(
        learner=LEARNERS[learner],
        optimizer="sgd",
        learning_rate=rate,
        batch_size=batch,
        max_iter=1,
        warm_start=True,
        random_state=seed,
    )


def learn(cell, data, checkpoint, max_epochs, patience):
    """Train a cell from its checkpoint until the validation error no longer decreases."""
    (X, V), valid, test = data
    model = new_model(cell["learner"], cell["rate"], cell["batch"], cell["seed"])
    if checkpoint.exists():
        model, cell = joblib.load(checkpoint)
    while len(cell["valid"]) < max_epochs and len(cell["valid"]) - cell["epoch"] < patience:
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, V, X_val=valid[0], y_val=valid[1])
        cell["seconds"] += [time.process_time() - start]
        cell["valid"] += [100 * (1 - model.history_["validation_score"][-1])]
        cell["converged"] += [model.history_.get("inference_converged", [None])[-1]]
        if cell["epoch"] == 0 or cell["valid"][-1] < cell["valid"][cell["epoch"] - 1]:
            cell["epoch"] = len(cell["valid"])
            cell["all"], cell["changed"] = errors(model, *test)
        elif cell["halving"]:
            model.set_params(learning_rate=model.learning_rate / 2)
        joblib.dump((model, cell), checkpoint)
        print(cell["task"], cell["learner"], len(X), cell["seed"], len(cell["valid"]),
              f"{cell['valid'][-1]:.3f} best {cell['all']:.3f}", flush=True)  # fmt: skip
    return cell


def run_cell(args, task, learner, n_train, seed, rate, batch):
    """Return the result of a cell, computed now or read from its file."""
    if task.startswith("Caltech"):
        n_train = min(n_train, CALTECH)
    name = "-".join((task, learner, str(n_train), str(seed), f"{rate:g}", str(batch)))
    name += "-halving" * args.halving
    name = name.translate(str.maketrans(" ", "_", "%,"))
    path = args.cells / "structured" / f"{name}.json"
    if path.exists():
        return json.loads(path.read_text())
    path.parent.mkdir(parents=True, exist_ok=True)
    args.checkpoints.mkdir(parents=True, exist_ok=True)
    checkpoint = args.checkpoints / f"{name}.joblib"
    data = damaged(task, n_train, seed, args.data_home)
    cell = {
        "task": task, "learner": learner, "n_train": len(data[0][0]), "seed": seed, "rate": rate,
        "halving": args.halving, "batch": batch, "epoch": 0, "all": None, "changed": None,
        "valid": [], "seconds": [], "converged": [], "machine": describe_machine(),
    }  # fmt: skip
    cell = learn(cell, data, checkpoint, args.epochs, args.patience)
    path.write_text(json.dumps(cell) + "\n")
    checkpoint.unlink(missing_ok=True)
    return cell


def tuned(args, task, learner):
    """Return the learning rate and batch size with the smallest validation error on few images."""
    cells = [
        run_cell(args, task, learner, args.tune_images, 0, rate, batch)
        for rate in args.rates
        for batch in args.batches
    ]
    best = min(cells, key=lambda cell: min(cell["valid"]))
    return best["rate"], best["batch"]


# Tables ------------------------------------------------------------------------------------


def collected(args):
    """Read all saved cells."""
    return [json.loads(p.read_text()) for p in sorted((args.cells / "structured").glob("*.json"))]


def table(cells, tasks=TASKS):
    """Return a row per task, learner and number of images: means over seeds, best setting."""
    rows = []
    for task in tasks:
        paper = dict(zip(PAPER_LEARNERS, PAPER.get(task, "").split(), strict=False))
        for learner in LEARNERS:
            here = [c for c in cells if (c["task"], c["learner"]) == (task, learner)]
            for n_train in sorted({c["n_train"] for c in here}, reverse=True):
                found = [c for c in here if c["n_train"] == n_train]
                rows.append(_row(task, learner, n_train, found, paper.get(learner)))
    return rows


def _row(task, learner, n_train, cells, paper):
    first = min(cells, key=lambda c: min(c["valid"]))
    setting = _setting(first)
    cells = [c for c in cells if _setting(c) == setting]
    scores = [c["all"] for c in cells]
    paper_all, paper_changed = map(float, paper.split("/")) if paper else (None, None)
    converged = [c["converged"][c["epoch"] - 1] for c in cells]
    return {
        "task": task,
        "learner": learner,
        "n_train": n_train,
        "n_seeds": len(cells),
        "all": float(np.mean(scores)),
        "all_spread": float(np.std(scores, ddof=1)) if len(cells) > 1 else None,
        "changed": float(np.mean([c["changed"] for c in cells])),
        "paper_all": paper_all,
        "paper_changed": paper_changed,
        "rate": setting[0],
        "batch": setting[1],
        "halving": setting[2],
        "epoch": int(np.median([c["epoch"] for c in cells])),
        "converged": None if None in converged else float(np.mean(converged)),
        "seconds": float(np.mean([np.mean(c["seconds"]) for c in cells])),
    }


def _setting(cell):
    return cell["rate"], cell["batch"], cell.get("halving", False)


def curves(args, cells):
    """Draw ``structured_curves.png``: validation errors and converged fractions by epoch."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no PNG", flush=True)
        return
    largest = {}
    for cell in cells:
        key = cell["task"], cell["learner"]
        worth = cell["n_train"], -min(cell["valid"])
        if key not in largest or worth > largest[key][0]:
            largest[key] = worth, cell
    tasks = [task for task in TASKS if any(of == task for of, _ in largest)] or list(TASKS)[:1]
    n_rows = -(-len(tasks) // 2)
    figure = Figure(figsize=(11, 4 * n_rows), layout="constrained")
    for axes, task in zip(figure.subplots(n_rows, 2, squeeze=False).flat, tasks, strict=False):
        _draw_task(axes, task, {name: c for (of, name), (_, c) in largest.items() if of == task})
    figure.savefig(args.results / "structured_curves.png", dpi=120)


def _draw_task(axes, task, cells):
    """Draw validation errors of a task, and fractions of converged propagations as dotted lines."""
    share = axes.twinx()
    share.set_ylim(0, 1)
    share.set_ylabel("propagation converged, dotted")
    for k, learner in enumerate(LEARNERS):
        if learner not in cells:
            continue
        cell = cells[learner]
        epochs = np.arange(1, len(cell["valid"]) + 1)
        axes.plot(epochs, cell["valid"], f"C{k}", label=f"{learner}, {cell['n_train']}")
        if learner.startswith("MLE-BP"):
            share.plot(epochs, cell["converged"], f"C{k}:")
    axes.set_title(task)
    axes.set_xlabel("epoch")
    axes.set_ylabel("validation error, %")
    if cells:
        axes.legend(fontsize="x-small", loc="upper right")


def occlusion(args, cells):
    """Draw ``structured_occlusion.png`` (Figure 3): errors by size of the occluded patch."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    rows = table(cells, OCCLUDED)
    for n_train in sorted({row["n_train"] for row in rows}):
        for learner in LEARNERS:
            here = [r for r in rows if (r["learner"], r["n_train"]) == (learner, n_train)]
            if len(here) > 2:
                sizes = [int(row["task"].split("x")[-1]) for row in here]
                errors = [row["all"] for row in here]
                axes.plot(sizes, errors, "o-", label=f"{learner}, {n_train:,} images")
    axes.set_xticks(sorted({int(row["task"].split("x")[-1]) for row in rows}))
    axes.set_xlabel("side of the hidden patch, pixels")
    axes.set_ylabel("test error, % of all pixels")
    if axes.lines:
        axes.legend()
    figure.savefig(args.results / "structured_occlusion.png", dpi=120)


def main(argv=None):
    parser = options(__doc__, data=True, cells=True)
    parser.add_argument("--tasks", nargs="*", choices=TASKS | OCCLUDED, default=list(TASKS))
    parser.add_argument("--learners", nargs="*", choices=LEARNERS, default=list(LEARNERS))
    parser.add_argument("--n-train", type=int, default=FULL)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--rates", type=float, nargs="*", default=RATES)
    parser.add_argument("--batches", type=int, nargs="*", default=BATCHES)
    parser.add_argument(
        "--halving",
        action="store_true",
        help="halve the rate after epochs without improvement",
    )
    parser.add_argument("--tune-images", type=int, default=5_000)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--patience", type=int, default=4, help="epochs without improvement")
    parser.add_argument("--checkpoints", type=Path, default=Path("checkpoints"))
    parser.add_argument(
        "--table-only", action="store_true", help="make tables from saved cells only"
    )
    args = parser.parse_args(argv)
    n_train = args.tune_images if args.fast else args.n_train
    for task in [] if args.table_only else args.tasks:
        for learner in args.learners:
            single = len(args.rates) * len(args.batches) == 1
            rate, batch = (args.rates[0], args.batches[0]) if single else tuned(args, task, learner)
            for seed in args.seeds:
                run_cell(args, task, learner, n_train, seed, rate, batch)
    cells = collected(args)
    args = keep_larger_table(args, "conditional_rbm.md", "structured largest", len(cells))
    source = computed_from(len(cells))
    rows = table(cells)
    save(args, "structured", rows, COLUMNS, [source])
    largest = {(r["task"], r["learner"]): r["n_train"] for r in reversed(rows)}
    shown = {
        "structured largest": [r for r in rows if largest[r["task"], r["learner"]] == r["n_train"]],
        "structured seeds": [r for r in rows if r["n_seeds"] > 1],
    }
    tables = {name: f"{markdown(part, COLUMNS)}\n\n{source}" for name, part in shown.items()}
    write_tables(args.results / "conditional_rbm.md", tables)
    curves(args, cells)
    occlusion(args, cells)


if __name__ == "__main__":
    main()
