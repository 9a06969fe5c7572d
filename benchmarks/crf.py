"""Conditional random fields: skmrf and CRFsuite with the same features and penalty.

Data: OCR letters (small and large split), CoNLL-2000 chunking, and parts of speech of UD ParTUT.
All packages have the same features and the penalty c2 times the sum of squares. c2 is 1, and 0.25
for CoNLL-2000, where it has the best span F1 on held-out training sentences (--held-out).
python-crfsuite and sklearn-crfsuite are run with L-BFGS and their default stopping rule. The fit of
sklearn-crfsuite includes the conversion of dicts of features. Seconds are processor seconds of
one fit on one core, without the extraction of features. Functions are compiled before.

The grids are images of 100 x 100 pixels with three labels, drawn from a grid model by Gibbs
sampling. The features of a pixel are indicators of its label, with noise. A label is predicted by
its largest marginal probability. The row "true parameters" has the marginals of long Gibbs chains
with the parameters that generated the images, so no method has a lower expected error.

The task "sums of chains" times log Z, the marginals and the moments (forward-backward) of 2,000
chains of 25 positions.
"""

import functools
import gzip
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
from _common import interleaved, markdown, options, save, write_tables
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from skmrf import CRF, SequenceVectorizer
from skmrf._utils.label_graphs import LabelGraphs
from skmrf.energies.structured_protocols import LabelPotentials
from skmrf.exact.label_trees import sums
from skmrf.likelihood import label_graphs
from skmrf.metrics import sequence_scores

COLUMNS = {
    "data": "data",
    "method": "method",
    "error": "label error",
    "f1": "span F1",
    "seconds": "fit s",
    "iterations": "iterations",
}
CONTRACTION_COLUMNS = {
    "data": "data",
    "method": "method",
    "converged": "converged",
    "mean": "mean difference",
    "close": "share up to .02",
    "largest": "largest difference",
    "log_z": "largest difference of log Z",
    "seconds": "s an image",
}
SPEED_COLUMNS = {"n_labels": "labels", "nanoseconds": "ns a label pair and position"}
SPEED = "sums of chains"
N_LABELS_TIMED, N_CHAINS, LENGTH = (2, 3, 5, 10, 22, 26), 2000, 25
WINDOW = range(-2, 3)
REACH = 3  # largest distance of two pixels in a conjunction


def letters(folder, split):
    """Return training and test words of the OCR data as lists of arrays."""
    with np.load(folder / "letters.npz") as file:
        pixels = np.unpackbits(file["pixels"], axis=1)[:, :128].astype(float)
        labels, lengths, folds = (file[k] for k in ("labels", "lengths", "folds"))
    ends = np.cumsum(lengths)[:-1]
    X, y = np.split(pixels, ends), np.split(labels.astype(str), ends)
    is_train = folds == 1 if split == "small" else folds != 0
    parts = []
    for mask in (is_train, ~is_train):
        rows = np.flatnonzero(mask)
        parts.append(([X[i] for i in rows], [y[i].tolist() for i in rows]))
    return parts


def conjoin_pixels(words):
    """Return sparse features of letters: pixels, and products of pixels up to REACH apart."""
    shifts = [
        (i, j)
        for i in range(REACH + 1)
        for j in range(-REACH, REACH + 1)
        if (i, j) > (0, 0) and i * i + j * j <= REACH**2
    ]
    out = []
    for word in words:
        images = np.pad(word.reshape(-1, 16, 8), ((0, 0), (0, REACH), (REACH, REACH)))
        parts = [word]
        for i, j in shifts:
            other = images[:, i : i + 16, REACH + j : REACH + j + 8]
            parts.append(word * other.reshape(len(word), -1))
        out.append(csr_matrix(np.hstack(parts)))
    return out


def conjoined_letters(folder):
    """Return the large split of the OCR data with conjunctions of pixels."""
    return [(conjoin_pixels(X), y) for X, y in letters(folder, "large")]


def read_columns(text, columns, is_conllu=False):
    """Return sentences of a file with one token a line: features, and labels.

    Files in the format CoNLL-U have comments, and lines of several words, such as "3-4".
    """
    X, y = [[]], [[]]
    for line in text.splitlines():
        parts = line.split("\t") if is_conllu else line.split()
        if is_conllu and (line.startswith("#") or "-" in parts[0]):
            continue
        if parts == [] or parts == [""]:
            X.append([])
            y.append([])
            continue
        X[-1].append({"word": parts[columns[0]], "tag": parts[columns[1]]})
        y[-1].append(parts[columns[2]])
    return [x for x in X if x], [labels for labels in y if labels]


def chunks(folder):
    """Return the sentences of CoNLL-2000, with the features of words, tags and conjunctions."""
    with zipfile.ZipFile(folder / "conll2000.zip") as archive:
        names = {Path(name).name: name for name in archive.namelist()}
        texts = [archive.read(names[name]).decode() for name in ("train.txt", "test.txt")]
    parts = [read_columns(text, (0, 1, 2)) for text in texts]
    tags = [[("tag", i), ("tag", i + 1)] for i in range(-2, 2)]
    tags += [[("tag", i), ("tag", i + 1), ("tag", i + 2)] for i in range(-2, 1)]
    words = [[("word", i), ("word", i + 1)] for i in (-1, 0)]
    vectorizer = SequenceVectorizer({"word": WINDOW, "tag": WINDOW}, conjunctions=words + tags)
    return vectorize(vectorizer, parts)


def speech(folder):
    """Return the sentences of UD ParTUT: words, suffixes and shapes, and parts of speech."""
    parts = []
    for name in ("train", "test"):
        with gzip.open(folder / f"en_partut-ud-{name}.conllu.gz", "rt", encoding="utf-8") as file:
            X, y = read_columns(file.read(), (1, 1, 3), is_conllu=True)
        parts.append(([[describe(token["word"]) for token in x] for x in X], y))
    keys = dict.fromkeys(parts[0][0][0][0], (0,))
    return vectorize(SequenceVectorizer(keys | {"word": (-1, 0, 1)}), parts)


def describe(word):
    """Return features of a word."""
    out = {"word": word.lower(), "title": word.istitle(), "upper": word.isupper()}
    out |= {"digit": any(c.isdigit() for c in word)}
    return out | {f"suffix {n}": word[-n:].lower() for n in (1, 2, 3)}


def vectorize(vectorizer, parts):
    """Return the features of training and test sequences as CSR matrices."""
    (X, y), (X_test, y_test) = parts
    return (vectorizer.fit_transform(X), y), (vectorizer.transform(X_test), y_test)


def fit_skmrf(train, test, c2):
    """Fit a CRF of skmrf; return its predictions, seconds and number of iterations."""
    CRF(alpha=1.0, max_iter=2).fit(train[0][:20], train[1][:20]).predict(test[0][:5])
    start = time.process_time()
    model = CRF(alpha=2.0 * c2 / len(train[0])).fit(*train)
    seconds = time.process_time() - start
    return model.predict(test[0]), seconds, model.n_iter_


def to_items(x):
    """Return the features of a sequence as dicts, in the format of python-crfsuite."""
    if isinstance(x, np.ndarray):
        rows = [{str(j): v for j, v in enumerate(row) if v} for row in x.tolist()]
    else:
        rows = []
        for a, b in zip(x.indptr[:-1], x.indptr[1:], strict=True):
            names = map(str, x.indices[a:b].tolist())
            rows.append(dict(zip(names, x.data[a:b].tolist(), strict=True)))
    return [row | {"bias": 1.0} for row in rows]


def fit_crfsuite(train, test, c2):
    """Fit python-crfsuite; return its predictions, seconds and number of iterations."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    for x, y in zip(*train, strict=True):
        trainer.append(pycrfsuite.ItemSequence(to_items(x)), y)
    trainer.set_params({"c1": 0.0, "c2": c2, "max_iterations": 1000})
    tagger = pycrfsuite.Tagger()
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "model.crfsuite")
        start = time.process_time()
        trainer.train(place)
        seconds = time.process_time() - start
        tagger.open(place)
        predicted = [tagger.tag(pycrfsuite.ItemSequence(to_items(x))) for x in test[0]]
    return predicted, seconds, trainer.logparser.last_iteration["num"]


def fit_sklearn_crfsuite(train, test, c2):
    """Fit sklearn-crfsuite; return its predictions, seconds and number of iterations."""
    from sklearn_crfsuite import CRF as OtherCRF

    items = [list(map(to_items, X)) for X in (train[0], test[0])]
    model = OtherCRF("lbfgs", c1=0.0, c2=c2, max_iterations=1000)
    start = time.process_time()
    model.fit(items[0], train[1])
    seconds = time.process_time() - start
    return model.predict(items[1]), seconds, model.training_log_.last_iteration["num"]


# Grids ------------------------------------------------------------------------------------

N_LABELS, NOISE, N_IMAGES = 3, 1.0, 2
GRIDS = {  # weights of neighbours in a row and in a column
    "grid directional": [1.5 * np.roll(np.eye(N_LABELS), 1, axis=1), 1.5 * np.eye(N_LABELS)],
    "grid Potts": [1.1 * np.eye(N_LABELS)] * 2,
}


def draw_grid(tables, scores, n_sweeps, rng):
    """Return the last labels of a Gibbs chain on a grid, and the mean probabilities of labels."""
    height, width, q = scores.shape
    labels, total = rng.integers(q, size=(height, width)), np.zeros(scores.shape)
    is_odd = np.indices((height, width)).sum(axis=0) % 2
    for sweep in range(n_sweeps):
        for colour in (0, 1):
            log_p = scores.copy()
            log_p[:, 1:] += tables[0][labels[:, :-1]]
            log_p[:, :-1] += tables[0].T[labels[:, 1:]]
            log_p[1:] += tables[1][labels[:-1]]
            log_p[:-1] += tables[1].T[labels[1:]]
            p = np.exp(log_p - log_p.max(axis=2, keepdims=True))
            p /= p.sum(axis=2, keepdims=True)
            drawn = (p.cumsum(axis=2) < rng.random((height, width, 1))).sum(axis=2)
            labels = np.where(is_odd == colour, np.minimum(drawn, q - 1), labels)
            if 5 * sweep >= n_sweeps:
                total += np.where(is_odd == colour, 1, 0)[..., None] * p
    return labels, total


def grids(task, size):
    """Return training and test images with a random noise, and their labels."""
    rng, blank = np.random.default_rng(0), np.zeros((size, size, N_LABELS))
    parts = []
    for _ in ("train", "test"):
        y = [draw_grid(GRIDS[task], blank, 300, rng)[0] for _ in range(N_IMAGES)]
        parts.append(([np.eye(N_LABELS)[v] + NOISE * rng.normal(size=blank.shape) for v in y], y))
    return parts


def fit_grid(train, test, c2, learner="auto"):
    """Fit a CRF of skmrf to images; return its predictions, seconds and number of iterations."""
    CRF("grid", learner, max_iter=2).fit([x[:5] for x in train[0]], [v[:5] for v in train[1]])
    start = time.process_time()
    model = CRF("grid", learner, alpha=2.0 * c2 / len(train[0])).fit(*train)
    seconds = time.process_time() - start
    predicted = [model.classes_[p.argmax(axis=-1)] for p in model.predict_marginals(test[0])]
    return predicted, seconds, model.n_iter_


def fit_pixels(train, test, c2):
    """Fit a logistic regression of single pixels."""
    rows = np.concatenate([x.reshape(-1, N_LABELS) for x in train[0]])
    start = time.process_time()
    model = LogisticRegression(C=0.5 / c2, max_iter=500)
    model.fit(rows, np.concatenate([v.ravel() for v in train[1]]))
    seconds = time.process_time() - start
    predicted = [model.predict(x.reshape(-1, N_LABELS)) for x in test[0]]
    return predicted, seconds, int(model.n_iter_[0])


def judge_grid(task, train, test, c2):
    """Yield the row of each method on images."""
    methods = {
        "skmrf, loopy BP": fit_grid,
        "skmrf, pseudo-likelihood": lambda *data: fit_grid(*data, "pseudo-likelihood"),
        "logistic regression": fit_pixels,
    }
    for name, fit in methods.items():
        predicted, seconds, n_iter = fit(train, test, c2)
        yield {"method": name, "seconds": seconds, "iterations": n_iter}, predicted
    rng, scale = np.random.default_rng(1), NOISE**-2
    chains = [draw_grid(GRIDS[task], scale * x, 600, rng)[1] for x in test[0]]
    yield {"method": "true parameters"}, [p.argmax(axis=-1) for p in chains]


def contraction_rows(task, n_images=20):
    """Compare approximate marginals with exact ones on images of 8 x 50 pixels."""
    rng, blank = np.random.default_rng(0), np.zeros((8, 50, N_LABELS))
    y = [draw_grid(GRIDS[task], blank, 100, rng)[0] for _ in range(n_images)]
    X = [np.eye(N_LABELS)[v] + NOISE * rng.normal(size=blank.shape) for v in y]
    model = CRF("grid", "bp", alpha=1.0, max_iter=1)
    model.fit([x[:4] for x in X], [v[:4] for v in y])
    coef, tables = NOISE**-2 * np.eye(N_LABELS), np.array(GRIDS[task])
    model.energy_ = model.energy_.with_theta(
        model.energy_.theta | {"coef": coef, "intercept": np.zeros(3), "transition": tables}
    )
    examples = model._examples(X, None)
    graphs, potentials = examples.graphs, model.energy_.potentials(examples.graphs)
    exact = label_graphs.sums(graphs, potentials, method="exact")
    for name, shapes in (("loopy BP", None), ("matrix product states", examples.form.shapes)):
        start = time.process_time()
        found = label_graphs.sums(graphs, potentials, method="bp", shapes=shapes)
        seconds = time.process_time() - start
        gaps = np.abs(exact.nodes - found.nodes).max(axis=1)
        gaps = gaps[np.repeat(found.converged, graphs.sizes)]
        yield {
            "data": task,
            "method": name,
            "converged": float(found.converged.mean()),
            "mean": f"{gaps.mean():.1e}",
            "close": float(np.mean(gaps <= 0.02)),
            "largest": f"{gaps.max():.1e}",
            "log_z": f"{np.abs(exact.log_z - found.log_z)[found.converged].max():.1e}",
            "seconds": seconds / n_images,
        }


def grid_rows(task, c2, is_fast):
    """Return the rows of the table for a grid."""
    train, test = grids(task, 20 if is_fast else 100)
    return [
        {"data": task, **row, "error": float(np.mean(np.ravel(found) != np.ravel(test[1])))}
        for row, found in judge_grid(task, train, test, c2)
    ]


def sum_rows(is_fast):
    """Return rows with the time of log Z, marginals and moments of random chains."""
    rng, rows = np.random.default_rng(0), []
    for n_labels in N_LABELS_TIMED[:2] if is_fast else N_LABELS_TIMED:
        n_nodes = LENGTH * (100 if is_fast else N_CHAINS)
        graphs = LabelGraphs.chains(np.zeros((n_nodes, 0)), np.full(n_nodes // LENGTH, LENGTH))
        nodes, table = rng.normal(size=(n_nodes, n_labels)), rng.normal(size=(n_labels, n_labels))
        potentials = LabelPotentials(nodes, table[None], None, n_labels)
        call = {"sums": functools.partial(sums, graphs, potentials)}
        with threadpool_limits(1):
            seconds = interleaved(call, 5 if is_fast else 200)["sums"]
        rows.append({"n_labels": n_labels, "nanoseconds": 1e9 * seconds / n_nodes / n_labels**2})
    return rows


C2 = {"CoNLL-2000": 0.25}  # chosen by --held-out; 1 for other data
PENALTIES, HELD_OUT = (0.25, 0.5, 1.0, 2.0), 0.15
METHODS = {
    "skmrf": fit_skmrf,
    "python-crfsuite": fit_crfsuite,
    "sklearn-crfsuite": fit_sklearn_crfsuite,
}
TASKS = {
    "OCR small": lambda folder: letters(folder, "small"),
    "OCR large": lambda folder: letters(folder, "large"),
    "OCR large, conjunctions": conjoined_letters,
    "CoNLL-2000": chunks,
    "UD ParTUT": speech,
}


def compare_penalties(task, X, y):
    """Print the scores of penalties on 15% of the training sequences, after a fit to the rest."""
    order = np.random.default_rng(0).permutation(len(X))
    n_held_out = round(HELD_OUT * len(X))
    held_out, kept = np.sort(order[:n_held_out]), np.sort(order[n_held_out:])
    train, test = (([X[i] for i in rows], [y[i] for i in rows]) for rows in (kept, held_out))
    for c2 in PENALTIES:
        print({"c2": c2} | judge(task, "skmrf", train, test, c2), flush=True)


def judge(task, method, train, test, c2):
    """Fit a method and return a row of the table."""
    predicted, seconds, n_iter = METHODS[method](train, test, c2)
    scores = sequence_scores(test[1], predicted)
    row = {"data": task, "method": method, "error": 1.0 - scores["label_accuracy"]}
    f1 = scores.get("span_f1") if task == "CoNLL-2000" else None
    return row | {"f1": f1, "seconds": seconds, "iterations": n_iter}


def used_columns(rows):
    """Return the columns that have an entry in any row."""
    return {k: v for k, v in COLUMNS.items() if any(row.get(k) is not None for row in rows)}


def main(argv=None):
    parser = options(__doc__, data=True)
    tasks = [*TASKS, *GRIDS, SPEED]
    parser.add_argument("--tasks", nargs="+", default=tasks, choices=tasks)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--c2", type=float, default=None, help="penalty c2 times sum of squares")
    parser.add_argument(
        "--held-out", action="store_true", help="only compare penalties on held-out training data"
    )
    args = parser.parse_args(argv)
    folder, rows = Path(args.data_home or "") / "sequences", []
    for task in args.tasks:
        if task == SPEED:
            continue
        if task in GRIDS:
            rows += grid_rows(task, args.c2 or 1.0, args.fast)
            print(*rows[-4:], sep="\n", flush=True)
            continue
        train, test = TASKS[task](folder)
        if args.fast:
            train, test = ((X[:100], y[:100]) for X, y in (train, test))
        if args.held_out:
            compare_penalties(task, *train)
            continue
        for method in args.methods:
            rows.append(judge(task, method, train, test, args.c2 or C2.get(task, 1.0)))
            print(rows[-1], flush=True)
    if args.held_out:
        return
    if rows:
        save(args, "crf", rows, COLUMNS, [__doc__.partition("\n\n")[2].strip()])
    parts = {
        "crf": [row for row in rows if row["data"] not in GRIDS],
        "crf grids": [row for row in rows if row["data"] in GRIDS],
    }
    tables = {name: markdown(part, used_columns(part)) for name, part in parts.items() if part}
    contracted = [row for task in args.tasks if task in GRIDS for row in contraction_rows(task)]
    if contracted:
        tables["crf propagation"] = markdown(contracted, CONTRACTION_COLUMNS)
    if SPEED in args.tasks:
        tables["crf speed"] = markdown(sum_rows(args.fast), SPEED_COLUMNS)
        print(tables["crf speed"], flush=True)
    write_tables(args.results / "labels.md", tables)


if __name__ == "__main__":
    main()
