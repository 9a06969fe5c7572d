"""
Synthetic rows, imputation and outlier detection for mixed data
===============================================================

This table of used cars has two categorical columns (fuel and gearbox) and four continuous ones.
:class:`~skmrf.NNMRFDensity` learns their joint distribution. It then draws synthetic rows, imputes
missing values many times, and detects outliers: rows in which every value is common but the
combination is not. The cars are simulated, so we can compare every result with the true
distribution. The example takes about half a minute.
"""

# %%
# Data
# ----
# Diesel cars have a higher mileage, electric cars are recent and always automatic, powerful cars
# are rarely manual, and the price decreases with age and mileage. Mileage (1000 km), power (kW) and
# price (1000 euros) are positive, so the model uses their logarithms.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skmrf import NetworkPotentials, NNMRFDensity

FUELS, GEARBOXES = ["petrol", "diesel", "electric"], ["manual", "automatic"]
SIZES = ["mileage", "power", "price"]


def sigmoid(x):
    """Return the logistic function of x."""
    return 1 / (1 + np.exp(-x))


def simulate(n, rng):
    """Return a table of n simulated cars."""
    age = rng.gamma(2.2, 3.2, n)
    electric = 0.42 * sigmoid((4.5 - age) / 1.2)
    diesel = (1 - electric) * (0.18 + 0.3 * sigmoid((age - 6) / 1.5))
    u = rng.random(n)
    fuel = np.where(u < electric, 2, np.where(u < electric + diesel, 1, 0))
    power = np.array([85, 115, 130])[fuel] * np.exp(0.3 * rng.normal(size=n))
    automatic = (fuel == 2) | (rng.random(n) < sigmoid((power - 110) / 18 - age / 12))
    yearly = np.array([11, 19, 13])[fuel] * np.exp(0.35 * rng.normal(size=n))
    mileage = yearly * (age + 0.2) ** 0.93
    price = (6 + 0.21 * power + 9 * (fuel == 2) + 3 * automatic) * np.exp(0.13 * rng.normal(size=n))
    return pd.DataFrame(
        {
            "fuel": pd.Categorical.from_codes(fuel, FUELS),
            "gearbox": pd.Categorical.from_codes(automatic.astype(int), GEARBOXES),
            "age": age,
            "mileage": mileage,
            "power": power,
            "price": price * np.exp(-0.115 * age - 0.0016 * mileage),
        }
    )


def take_logarithms(cars):
    """Replace the positive columns by their logarithms."""
    return cars.assign(**{size: np.log(cars[size]) for size in SIZES})


def draw(model, n, given=None):
    """Draw n samples of the model and return them as a table of cars."""
    given = None if given is None else take_logarithms(given)
    rows = pd.DataFrame(model.sample(n, given=given, random_state=0), columns=train.columns)
    rows = rows.astype(train.dtypes)
    return rows.assign(**{size: np.exp(rows[size]) for size in SIZES})


rng = np.random.default_rng(0)
train, test = simulate(2000, rng), simulate(1000, rng)
print(train.head(3).round(1).to_string())

# %%
# Training
# --------
# The columns with the categorical data type of pandas are categorical. The other columns of this
# table are continuous. With :class:`~skmrf.NetworkPotentials`, the potentials of pairs of columns
# are small neural networks. The default, ``potentials="gaussian"``, learns in a few seconds.
#
# With ``density="mrf"``, scores and samples come from the model itself, and log Z is estimated by
# annealed importance sampling. The default, ``density="mixture"``, uses the mixture distribution
# that is learned with the model. The mixture is faster, but less accurate if it has too few
# components for the kinds of cars. The baseline is a model of independent columns.

pairs, empty = NetworkPotentials(density="mrf"), NetworkPotentials("empty", density="mrf")
model = NNMRFDensity(pairs, random_state=0).fit(take_logarithms(train))
independent = NNMRFDensity(empty, random_state=0).fit(take_logarithms(train))
for name, found in {"all pairs of columns": model, "independent columns": independent}.items():
    score = found.score(take_logarithms(test))
    print(f"held-out log-likelihood {score:.2f} nats per car, {name}")
low, high = model.log_partition_interval_
print(f"log Z between {low:.2f} and {high:.2f}")

# %%
# Synthetic rows
# --------------
# The figure shows that the joint distribution of age, price and fuel is similar for held-out and
# for synthetic cars.

synthetic = draw(model, 1000)
colours = dict(zip(FUELS, ["#3b75af", "#c8781e", "#4b9a5b"], strict=True))
accent, plain = "#c8781e", "#b0b0b0"


def scatter(axes, cars, title):
    """Draw age, price and fuel of cars."""
    for fuel, some in cars.groupby("fuel", observed=False):
        axes.scatter(some.age, some.price, s=6, alpha=0.7, color=colours[fuel], label=fuel)
    axes.set(xlim=(-1, 25), ylim=(0.7, 80), yscale="log", title=title)
    axes.set(xlabel="age, years", ylabel="price, 1000 euros")
    axes.set_yticks([1, 3, 10, 30], [1, 3, 10, 30])
    axes.set_yticks([], minor=True)
    axes.spines[["top", "right"]].set_visible(False)


figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
scatter(panels[0], test, "held-out cars")
scatter(panels[1], synthetic, "synthetic cars")
panels[0].legend(frameon=False, markerscale=2)

# %%
# The shares of fuels and gearboxes are also similar for held-out and for synthetic cars.

many = simulate(1_000_000, rng)
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for shift, cars, colour, label in [(-0.2, many, plain, "true"), (0.2, synthetic, accent, "model")]:
    shares = cars.groupby(["fuel", "gearbox"], observed=False).size() / len(cars)
    axes.barh(np.arange(6) + shift, shares, 0.38, color=colour, label=label)
axes.set_yticks(range(6), [", ".join(names) for names in shares.index])
axes.invert_yaxis()
axes.set_xlabel("share of cars")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)

# %%
# Multiple imputation
# -------------------
# ``sample`` draws the missing values given the observed ones. We impute each of the following
# incomplete rows a thousand times.

N_TIMES = 1000
known = pd.DataFrame(
    {
        "5 years": ["diesel", None, 5, None, None, None],
        "5 years, 140 000 km": ["diesel", None, 5, 140, None, None],
        "5 years, 140 000 km, 150 kW": ["diesel", None, 5, 140, 150, None],
        "2 years": [None, None, 2, None, None, None],
        "2 years, 12 000 euros": [None, None, 2, None, None, 12],
        "10 years": [None, None, 10, None, None, None],
        "10 years, 250 000 km": [None, None, 10, 250, None, None],
    },
    index=train.columns,
).T.astype(train.dtypes)
completed = draw(model, N_TIMES * len(known), known.loc[known.index.repeat(N_TIMES)])
completed = {row: completed[k * N_TIMES :][:N_TIMES] for k, row in enumerate(known.index)}

# %%
# We compare the imputed values with similar cars in a large simulated table. A similar car has the
# same categories, and its continuous values differ by less than 10 %.


def find_similar(row):
    """Return the simulated cars that are similar to a row in its observed columns."""
    same = np.ones(len(many), bool)
    for column, value in row.dropna().items():
        here = many[column]
        same &= here == value if isinstance(value, str) else (here / value - 1).abs() < 0.1
    return many[same]


truth = {name: find_similar(row) for name, row in known.iterrows()}
for name, cars in completed.items():
    price, right = cars.price.median(), truth[name].price.median()
    print(f"{name:28} median price {price:4.1f}, true {right:4.1f}")

# %%
# The histograms show the price of a diesel car: the orange lines are imputed values, the grey areas
# the true distribution. From top to bottom, more columns are observed, and the distribution becomes
# narrower.

# sphinx_gallery_thumbnail_number = 3
priced = [name for name, row in known.iterrows() if row.fuel == "diesel"]
bins = np.geomspace(4, 50, 31)
figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
for k, name in enumerate(priced):
    for cars, style in [
        (truth[name], {"fill": True, "color": plain}),
        (completed[name], {"color": accent, "linewidth": 1.8}),
    ]:
        share = np.histogram(cars.price, bins)[0] / len(cars)
        axes.stairs(share - 0.32 * k, bins, baseline=-0.32 * k, **style)
    axes.text(4.2, 0.12 - 0.32 * k, name.replace(", ", "\n"), va="center")
axes.set(xscale="log", xlim=(4, 50), ylim=(-0.65, 0.25), yticks=[])
axes.set_xticks([5, 10, 20, 40], [5, 10, 20, 40])
axes.set_xticks([], minor=True)
axes.set_xlabel("price, 1000 euros")
axes.spines[["top", "right"]].set_visible(False)

path = "mixed_table.png"
figure.savefig(path, dpi=120)

# %%
# The bars show the imputed fuel of cars whose fuel is missing. Pale bars are the true shares.

missing = [name for name in known.index if name not in priced]
figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for k, name in enumerate(missing):
    for shift, cars, alpha in [(-0.2, truth[name], 0.5), (0.2, completed[name], 1)]:
        shares = [np.mean(cars.fuel == fuel) for fuel in FUELS]
        left = np.cumsum([0, *shares[:-1]])
        axes.barh(k + shift, shares, 0.38, left=left, color=colours.values(), alpha=alpha)
for fuel, position in zip(FUELS, (0.15, 0.6, 0.97), strict=True):
    axes.text(position, -0.55, fuel, color=colours[fuel], ha="right" if position > 0.9 else "left")
axes.set_yticks(range(len(missing)), [name.replace(", ", "\n") for name in missing])
axes.set(xlim=(0, 1), ylim=(len(missing) - 0.5, -0.9), xlabel="share")
axes.spines[["top", "right"]].set_visible(False)

# %%
# Outlier detection
# -----------------
# Each value of the following three cars is common, but the combination of the values is not. The
# joint model gives these cars a low log density. The model of independent columns does not detect
# these cars.

odd = pd.DataFrame(
    {
        "old electric car": ["electric", "automatic", 16.0, 160.0, 110.0, 6.0],
        "12 years, 12 000 km": ["petrol", "manual", 12.0, 12.0, 80.0, 6.5],
        "too expensive": ["diesel", "manual", 9.0, 160.0, 90.0, 25.0],
    },
    index=train.columns,
).T.astype(train.dtypes)
odd_scores, test_scores = (
    np.stack([found.score_samples(take_logarithms(cars)) for found in (independent, model)])
    for cars in (odd, test)
)
for name, score in zip(odd.index, odd_scores[1], strict=True):
    share = np.mean(test_scores[1] < score)
    print(f"log p {score:6.2f}, {share:.1%} of all held-out cars are lower: {name}")

figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
axes.scatter(*test_scores, s=6, color=plain, label="held-out cars")
axes.scatter(*odd_scores, color=accent, label="outliers")
for name, at, shift in zip(odd.index, odd_scores.T, (6, -6, 0), strict=True):
    axes.annotate(name, at, (-8, shift), textcoords="offset points", ha="right", va="center")
axes.set(xlim=(-21, -3))
axes.set(xlabel="log p, independent columns", ylabel="log p, all pairs of columns")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)

print(f"saved {path}")
plt.show()
