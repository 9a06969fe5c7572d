"""MNIST at 10 x 10 pixels: a grid of neural potentials for each digit.

The table has accuracy, log densities and samples as in Xiong and Ruozzi (2020), section 4.3, with
four components. GaussianNB and Gaussians with full covariance for each class are shown for
comparison. NNMRFBayesClassifier classifies by densities, as in the paper. The row "NNMRF" has the
same densities and the accuracy of NNMRFClassifier. Images are reduced by averaging over areas of
2.8 x 2.8 pixels; the code of the paper used bicubic interpolation. Grey values are divided by 255.
Log densities are joint log densities log p(x, y) in nats and in these units. Pixels that are
constant in a class have an unbounded density. Each method limits it in a different way, which
affects the comparison. Therefore further rows add uniform noise of one grey level to all images,
which makes the densities bounded.
"""

import time
import warnings

import numpy as np
from _common import markdown, options, save, write_tables
from nnmrf_uci import draw_class
from scipy.stats import multivariate_normal
from sklearn.naive_bayes import GaussianNB
from threadpoolctl import threadpool_limits

from skmrf import NetworkPotentials, NNMRFBayesClassifier, NNMRFClassifier
from skmrf.datasets import fetch_mnist
from skmrf.learners import Variational

SIDE, SMALL = 28, 10
GREY = 256
RIDGE = 1e-6  # added to variances of pixels for Gaussians with full covariance
N_COMPONENTS = 4
PAPER_SETTING = {"node_layers": (3, 4, 4, 3), "edge_layers": (4, 5, 5, 4), "base": 0.01}
MAX_ITER = None  # epochs; None means the default of the estimator
N_SAMPLES = 2  # per digit
METHODS = "GaussianNB", "Gaussian", "NNMRF"
BAYES = "NNMRF, Bayes' rule"
PAPER = {
    "GaussianNB": (84.6, -1451.464),
    "Gaussian": (95.42, 260.884),
    "NNMRF": (96.02, 281.195),
}
COLUMNS = {
    "images": "images",
    "noise": "noise",
    "method": "method",
    "accuracy": "accuracy, %",
    "density": "test log p(x, y)",
    "median": "median",
    "paper_accuracy": "paper, accuracy",
    "paper_density": "paper, log-likelihood",
    "seconds": "fit s",
}


# Images ------------------------------------------------------------------------------------


def averages():
    """Return the matrix that averages SIDE pixels of an image row to SMALL pixels."""
    step = SIDE / SMALL
    left, old = step * np.arange(SMALL)[:, None], np.arange(SIDE)
    overlap = np.minimum(left + step, old + 1) - np.maximum(left, old)
    return np.maximum(overlap, 0) / step


def smaller(images):
    """Reduce images to SMALL x SMALL pixels from 0 to 1 by averaging over areas."""
    A = averages()
    square = images.reshape(-1, SIDE, SIDE).astype(float)
    return (A @ square @ A.T).reshape(len(images), -1) / 255


def data(n_train, data_home, noise):
    """Return training and test images with labels."""
    found = fetch_mnist(threshold=None, data_home=data_home)
    X, y = smaller(found.train[:n_train]), found.train_labels[:n_train]
    n_test = min(len(found.test), n_train)
    X_test, y_test = smaller(found.test[:n_test]), found.test_labels[:n_test]
    if noise:
        rng = np.random.default_rng(0)
        X, X_test = (x + rng.random(x.shape) / GREY for x in (X, X_test))
    return X, y, X_test, y_test


# Methods -----------------------------------------------------------------------------------


class Gaussians:
    """Classifier with a Gaussian of full covariance for each class."""

    def fit(self, X, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.log_prior = np.log(counts / counts.sum())
        ridge = RIDGE * np.eye(X.shape[1])
        parts = [X[y == k] for k in self.classes_]
        self.parts = [multivariate_normal(Z.mean(axis=0), np.cov(Z.T) + ridge) for Z in parts]
        return self

    def predict_joint_log_proba(self, X):
        return np.stack([g.logpdf(X) for g in self.parts], axis=1) + self.log_prior

    def sample(self, n, k, rng):
        return self.parts[k].rvs(n, random_state=rng)


def model_of(method, seed, paper):
    """Return the classifier with the given name."""
    if method == "GaussianNB":
        return GaussianNB()
    if method == "Gaussian":
        return Gaussians()
    if not paper:
        learner, more = Variational(N_COMPONENTS), {}
    else:
        learner = Variational(
            N_COMPONENTS, negative="quadrature", entropy="bethe", covariance="diag", pool=20,
            n_iter=100,
        )  # fmt: skip
        more = PAPER_SETTING
    networks = NetworkPotentials("grid", learner, max_iter=MAX_ITER, **more)
    return NNMRFBayesClassifier(networks, transform_columns=False, random_state=seed)


def judge(method, images, seed, paper):
    """Fit a model; return it and a row with accuracy and log density for each decision rule."""
    X, y, X_test, y_test = images
    start = time.process_time()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        model = model_of(method, seed, paper).fit(X, y)
    seconds = time.process_time() - start
    is_ours = method == "NNMRF" and not paper
    rows = [measured(BAYES if is_ours else method, model, X_test, y_test) | {"seconds": seconds}]
    if is_ours:
        rows.insert(0, rows[0] | {"method": method} | classify(images, seed))
    return model, rows


def classify(images, seed):
    """Return the accuracy and the fit time of NNMRFClassifier."""
    X, y, X_test, y_test = images
    start = time.process_time()
    with threadpool_limits(1):
        model = NNMRFClassifier(random_state=seed).fit(X, y)
    seconds = time.process_time() - start
    return {"accuracy": 100 * float(model.score(X_test, y_test)), "seconds": seconds}


def measured(method, model, X, y):
    """Return the accuracy and the mean log density of test images."""
    joint = model.predict_joint_log_proba(X)
    found = model.classes_[joint.argmax(axis=1)]
    logs = joint[np.arange(len(joint)), np.searchsorted(model.classes_, y)]
    accuracy, density = PAPER.get(method, PAPER["NNMRF"])
    return {
        "method": method,
        "accuracy": 100 * float((found == y).mean()),
        "density": float(logs.mean()),
        "median": float(np.median(logs)),
        "paper_accuracy": accuracy,
        "paper_density": density,
    }


def draws(method, model, rng):
    """Draw N_SAMPLES images of each digit, sorted by digit."""
    if method == "NNMRF":
        return np.concatenate([draw_class(model, k, N_SAMPLES) for k in model.classes_])
    if method == "Gaussian":
        return np.concatenate([model.sample(N_SAMPLES, k, rng) for k in range(10)])
    deviation = np.sqrt(np.repeat(model.var_, N_SAMPLES, axis=0))
    return np.repeat(model.theta_, N_SAMPLES, axis=0) + deviation * rng.normal(size=deviation.shape)


def draw_images(args, models):
    """Draw ``nnmrf_mnist.png``: a row of samples for each method."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no PNG", flush=True)
        return
    rng = np.random.default_rng(0)
    figure = Figure(figsize=(12, 0.9 * len(models)), layout="constrained")
    for axes, (method, model) in zip(figure.subplots(len(models)), models.items(), strict=True):
        images = draws(method, model, rng).reshape(-1, SMALL, SMALL)
        strip = np.concatenate([np.pad(v, 1, constant_values=0.5) for v in images], axis=1)
        axes.imshow(strip, cmap="gray", vmin=0, vmax=1)
        axes.set_ylabel(method, rotation=0, ha="right", va="center")
        axes.set_xticks([])
        axes.set_yticks([])
    figure.savefig(args.results / "nnmrf_mnist.png", dpi=120)


def main(argv=None):
    parser = options(__doc__, data=True)
    parser.add_argument("--n-train", type=int, default=None, help="default 60000, --fast 2000")
    parser.add_argument("--paper-setting", action="store_true", help="the paper's learner")
    parser.add_argument("--noise", type=int, nargs="*", choices=(0, 1), default=[0, 1])
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    n_train = args.n_train or (2000 if args.fast else 60_000)
    rows = []
    for noise in args.noise:
        images, models = data(n_train, args.data_home, noise), {}
        for method in METHODS:
            models[method], found = judge(method, images, args.seed, args.paper_setting)
            about = {"images": n_train, "noise": "one grey level" if noise else "none"}
            rows += [about | row for row in found]
            save(args, "nnmrf_mnist", rows, COLUMNS, NOTES)
        draw_images(args, models)
    write_tables(args.results / "neural_potentials.md", {"mnist": markdown(rows, COLUMNS)})


NOTES = (
    "10 x 10 pixels by averages over areas, grey values from 0 to 1. The paper uses bicubic "
    "interpolation and does not state the units.",
    f"Gaussian: a full covariance for each class, {RIDGE:g} added to variances.",
)

if __name__ == "__main__":
    main()
