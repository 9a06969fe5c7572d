"""Density estimation from incomplete rows: NNMRFDensity beside GaussianMixture.

Measures a number of README. A fifth of the training entries is removed at random.
``NNMRFDensity`` is fitted to the incomplete rows.
``GaussianMixture`` does not accept missing values: it is fitted after imputation, by column means
or by ``IterativeImputer``. Its number of components (1 to 6) and covariance type minimise the BIC
of the imputed training rows. The score is the mean log density of complete held-out rows, in nats,
of columns standardised by the training rows.
"""

import time
import warnings

import numpy as np
from _common import options, save
from sklearn.datasets import load_iris, load_wine
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skmrf import NNMRFDensity

SETS = {"iris": load_iris, "wine": load_wine}
IMPUTERS = {
    "column means": SimpleImputer,
    "IterativeImputer": lambda: IterativeImputer(random_state=0),
}
COVARIANCES = "full", "tied", "diag", "spherical"
MISSING = 0.2
COLUMNS = {
    "name": "data",
    "method": "method",
    "n_splits": "splits",
    "score": "held-out log density",
    "below": "below NNMRFDensity",
    "error": "s.e.",
    "seconds": "fit s",
}


def read(name, seed):
    """Return incomplete training rows and complete held-out rows, standardised."""
    train, test = train_test_split(SETS[name]().data, random_state=seed)
    scaler = StandardScaler().fit(train)
    removed = np.random.default_rng(seed).random(train.shape) < MISSING
    return np.where(removed, np.nan, scaler.transform(train)), scaler.transform(test)


def best_mixture(X):
    """Return the Gaussian mixture of smallest BIC."""
    fits = [
        GaussianMixture(n, covariance_type=kind, n_init=3, random_state=0).fit(X)
        for n in range(1, 7)
        for kind in COVARIANCES
    ]
    return min(fits, key=lambda model: model.bic(X))


def scores(train, test):
    """Return the held-out log density and the seconds of the fit, keyed by method."""
    start = time.perf_counter()
    model = NNMRFDensity(random_state=0).fit(train)
    found = {"NNMRFDensity": model.score(test)}
    seconds = {"NNMRFDensity": time.perf_counter() - start}
    for name, imputer in IMPUTERS.items():
        start = time.perf_counter()
        method = f"{name}, GaussianMixture"
        found[method] = best_mixture(imputer().fit_transform(train)).score(test)
        seconds[method] = time.perf_counter() - start
    return found, seconds


def main(argv=None):
    parser = options(__doc__)
    parser.add_argument("--n-splits", type=int, default=10)
    args = parser.parse_args(argv)
    n_splits = 2 if args.fast else args.n_splits
    rows = []
    for name in SETS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs = [scores(*read(name, seed)) for seed in range(n_splits)]
        for method in runs[0][0]:
            below = np.array([found["NNMRFDensity"] - found[method] for found, _ in runs])
            row = {
                "name": name,
                "method": method,
                "n_splits": n_splits,
                "score": float(np.mean([found[method] for found, _ in runs])),
                "seconds": float(np.median([seconds[method] for _, seconds in runs])),
            }
            if method != "NNMRFDensity":
                row["below"] = float(below.mean())
                row["error"] = float(below.std(ddof=1) / np.sqrt(n_splits))
            rows.append(row)
    save(args, "readme_figures", rows, COLUMNS)


if __name__ == "__main__":
    main()
