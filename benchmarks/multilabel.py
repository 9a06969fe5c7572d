"""Multi-label classification: conditional RBMs with default parameters against logistic regression.

The three data sets have their published splits. Hamming loss is the fraction of wrong labels.
Subset accuracy is the fraction of rows whose labels are all right. Log-loss is the mean of -log p
of a label in nats, for methods with probabilities. All methods get the same standardised inputs,
except that the binary inputs of medical are not standardised. Methods of scikit-learn do not accept
labels that are constant in the training set; for them, such labels are predicted by their
frequency. Learners with random initial weights or random samples are run with several seeds; the
table shows mean and standard deviation.
"""

import time
import warnings
from pathlib import Path

import numpy as np
from _common import bars, markdown, options, save, write_tables
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.preprocessing import StandardScaler

from skmrf import CRBMStructuredPredictor

NAMES = "emotions", "yeast", "medical"
LEARNERS = "mle-bp", "mle-mf", "mssvm", "lssvm", "cd", "cd-percloss", "lr"
COLUMNS = {
    "name": "data",
    "method": "method",
    "hamming": "Hamming loss",
    "hamming_sd": "sd",
    "subset": "subset accuracy",
    "subset_sd": "sd",
    "log_loss": "log-loss",
    "seconds": "fit s",
}

SMALLER_IS_BETTER = {"Hamming loss": True, "subset accuracy": False, "log-loss": True}


class VaryingLabelsClassifier:
    """Multi-label classifier that predicts constant labels by their frequency."""

    def __init__(self, classifier):
        self.classifier = classifier

    def fit(self, X, Y):
        self.varies = Y.min(axis=0) < Y.max(axis=0)
        self.frequency = (Y.sum(axis=0) + 0.5) / (len(Y) + 1)
        self.classifier.fit(X, Y[:, self.varies])
        return self

    def predict_proba(self, X):
        P = self.classifier.predict_proba(X)
        P = np.stack([p[:, 1] for p in P], axis=1) if isinstance(P, list) else P
        out = np.tile(self.frequency, (len(X), 1))
        out[:, self.varies] = P
        return out

    def predict(self, X):
        out = np.tile(self.frequency > 0.5, (len(X), 1)).astype(int)
        out[:, self.varies] = self.classifier.predict(X)
        return out


def read(name, data_home):
    """Return standardised inputs and labels of the training and the test set."""
    with np.load(Path(data_home) / "multilabel" / f"{name}.npz") as file:
        X, Y, X_test, Y_test = (file[k] for k in ("X_train", "Y_train", "X_test", "Y_test"))
    X, X_test = X.astype(float), X_test.astype(float)
    if not np.isin(X, (0, 1)).all():
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    return X, Y.astype(int), X_test, Y_test.astype(int)


def judge(model, X, Y, X_test, Y_test):
    """Fit a model and return its losses."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y)
    seconds = time.process_time() - start
    found = model.predict(X_test)
    result = {
        "hamming": float((found != Y_test).mean()),
        "subset": float((found == Y_test).all(axis=1).mean()),
        "seconds": seconds,
    }
    if hasattr(model, "predict_proba"):
        P = np.clip(model.predict_proba(X_test), 1e-6, 1 - 1e-6)
        result["log_loss"] = float(-np.log(np.where(Y_test == 1, P, 1 - P)).mean())
    return result


def row_measures(model, X, Y, X_test, Y_test):
    """Fit a model; return the measures of each test row, and the processor time of the fit."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y)
    seconds = time.process_time() - start
    wrong = model.predict(X_test) != Y_test
    P = np.clip(model.predict_proba(X_test), 1e-6, 1 - 1e-6)
    measures = {
        "Hamming loss": wrong.mean(axis=1),
        "subset accuracy": (~wrong.any(axis=1)).astype(float),
        "log-loss": -np.log(np.where(Y_test == 1, P, 1 - P)).mean(axis=1),
    }
    return measures, seconds


def measure_defaults(data, n_seeds):
    """Return measures of test rows by logistic regression and by each default fit, and seconds."""
    logistic = LogisticRegression(max_iter=2000)
    baseline = VaryingLabelsClassifier(MultiOutputClassifier(logistic))
    expected, _ = row_measures(baseline, *data)
    fits = [row_measures(CRBMStructuredPredictor(random_state=s), *data) for s in range(n_seeds)]
    found = {measure: [measures[measure] for measures, _ in fits] for measure in expected}
    return expected, found, float(np.mean([seconds for _, seconds in fits]))


def summary(name, method, results):
    """Return means and standard deviations over seeds."""
    row = {"name": name, "method": method}
    for key in results[0]:
        row[key] = float(np.mean([r[key] for r in results]))
        if len(results) > 1 and key in ("hamming", "subset"):
            row[f"{key}_sd"] = float(np.std([r[key] for r in results], ddof=1))
    return row


def main(argv=None):
    parser = options(__doc__, data=True)
    parser.add_argument("--sets", nargs="*", choices=NAMES, default=NAMES)
    parser.add_argument("--n-seeds", type=int, default=5)
    args = parser.parse_args(argv)
    n_seeds = 1 if args.fast else args.n_seeds
    rows = []
    for name in args.sets:
        data = read(name, args.data_home)
        logistic = LogisticRegression(max_iter=2000)
        rivals = {
            "MultiOutputClassifier": [VaryingLabelsClassifier(MultiOutputClassifier(logistic))],
            "ClassifierChain": [
                VaryingLabelsClassifier(
                    ClassifierChain(logistic, order="random", random_state=seed)
                )
                for seed in range(n_seeds)
            ],
        }
        ours = {
            learner: [
                CRBMStructuredPredictor(learner=learner, random_state=seed)
                for seed in range(n_seeds)
            ]
            for learner in LEARNERS
        }
        for method, models in (rivals | ours).items():
            rows.append(summary(name, method, [judge(m, *data) for m in models]))
            print(rows[-1], flush=True)
    save(args, "multilabel", rows, COLUMNS)
    write_tables(args.results / "conditional_rbm.md", {"multilabel": markdown(rows, COLUMNS)})
    bars(
        args, "multilabel", rows, {"hamming": "Hamming loss"},
        lambda row: f"{row['name']}, {row['method']}", xlabel="Hamming loss", log=False,
    )  # fmt: skip


if __name__ == "__main__":
    main()
