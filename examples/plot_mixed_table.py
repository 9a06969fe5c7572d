"""
Completing and drawing rows of a mixed table
============================================

A table of used cars: fuel and gearbox are categories, the other columns are numbers.
:class:`~skmrf.NNMRFDensity` learns the joint distribution of all columns. It completes a row in as
many ways as one likes, draws new rows, and tells combinations that do not occur although each of
their values does. The cars are simulated, so the truth is known and drawn beside every answer. It
takes some twenty seconds.
"""

# %%
# The table
# ---------
# Diesels are driven more, electric cars are recent and always automatic, strong cars are rarely
# manual, and a price falls with age and mileage. Mileage (in 1000 km), power (kW) and price (in
# 1000 euros) enter the model as logarithms, as is usual for positive sizes.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skmrf import NNMRFDensity

FUELS, GEARBOXES = ["petrol", "diesel", "electric"], ["manual", "automatic"]
SIZES = ["mileage", "power", "price"]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def simulate(n, rng):
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


def by_logarithm(cars):
    return cars.assign(**{size: np.log(cars[size]) for size in SIZES})


def draw(model, n, given=None):
    """Rows that the model draws, as a table like that of the cars."""
    given = None if given is None else by_logarithm(given)
    rows = pd.DataFrame(model.sample(n, given=given, random_state=0), columns=train.columns)
    rows = rows.astype(train.dtypes)
    return rows.assign(**{size: np.exp(rows[size]) for size in SIZES})


rng = np.random.default_rng(0)
train, test = simulate(2000, rng), simulate(1000, rng)
print(train.head(3).round(1).to_string())

# %%
# Learning
# --------
# Columns of pandas' categorical type are categories, all others are numbers. ``density="mrf"``
# scores and draws by the model itself, with log Z by annealing; the default takes the mixture that
# learning leaves beside it, which is coarser where few components have to stand for many kinds of
# cars. For comparison there is a model without any edges.

model = NNMRFDensity(density="mrf", random_state=0).fit(by_logarithm(train))
apart = NNMRFDensity("empty", density="mrf", random_state=0).fit(by_logarithm(train))
for name, found in {"all pairs of columns": model, "independent columns": apart}.items():
    score = found.score(by_logarithm(test))
    print(f"held-out log-likelihood {score:.2f} nats a car, {name}")
low, high = model.log_partition_interval_
print(f"log Z between {low:.2f} and {high:.2f}")

# %%
# New rows
# --------

drawn = draw(model, 1000)

# %%
# Completed rows
# --------------
# What is missing is drawn given the rest. Each of these rows is completed a thousand times.

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
# The truth is in simulated cars about like the row: equal where it has a category, and at most a
# tenth off where it has a number.

many = simulate(1_000_000, rng)


def alike(row):
    same = np.ones(len(many), bool)
    for column, value in row.dropna().items():
        here = many[column]
        same &= here == value if isinstance(value, str) else (here / value - 1).abs() < 0.1
    return many[same]


truth = {name: alike(row) for name, row in known.iterrows()}
for name, cars in completed.items():
    price, right = cars.price.median(), truth[name].price.median()
    print(f"{name:28} median price {price:4.1f}, in truth {right:4.1f}")

# %%
# Outliers
# --------
# Three cars of which every value alone is usual.

odd = pd.DataFrame(
    {
        "an old electric car": ["electric", "automatic", 16.0, 160.0, 110.0, 6.0],
        "hardly driven in 12 years": ["petrol", "manual", 12.0, 12.0, 80.0, 6.5],
        "too dear": ["diesel", "manual", 9.0, 160.0, 90.0, 25.0],
    },
    index=train.columns,
).T.astype(train.dtypes)
scores, usual = (
    np.stack([found.score_samples(by_logarithm(cars)) for found in (apart, model)])
    for cars in (odd, test)
)
for name, score in zip(odd.index, scores[1], strict=True):
    print(f"log p {score:6.2f}, {np.mean(usual[1] < score):.1%} of all cars below: {name}")

# %%
# The picture
# -----------
# Above: held-out cars, cars that the model drew, and how often fuels and gearboxes go together.
# Below: the price of a diesel, by what else is known of it; the fuel of a car of which that is
# missing; and the log density of held-out cars, by the model and by independent columns, which see
# nothing odd in the three.

colours = dict(zip(FUELS, ["#3b75af", "#c8781e", "#4b9a5b"], strict=True))
accent, plain = "#c8781e", "#b0b0b0"
figure, panels = plt.subplots(2, 3, figsize=(12, 7.6), layout="constrained")
for axes, cars, title in zip(
    panels[0], [test, drawn], ["held-out cars", "drawn cars"], strict=False
):
    for fuel, some in cars.groupby("fuel", observed=False):
        axes.scatter(some.age, some.price, s=6, alpha=0.7, color=colours[fuel], label=fuel)
    axes.set(xlim=(-1, 25), ylim=(0.7, 80), yscale="log", title=title)
    axes.set(xlabel="age, years", ylabel="price, 1000 euros")
    axes.set_yticks([1, 3, 10, 30], [1, 3, 10, 30])
    axes.set_yticks([], minor=True)
panels[0, 0].legend(frameon=False, markerscale=2)

axes = panels[0, 2]
for shift, cars, colour, label in [(-0.2, many, plain, "truth"), (0.2, drawn, accent, "drawn")]:
    shares = cars.groupby(["fuel", "gearbox"], observed=False).size() / len(cars)
    axes.barh(np.arange(6) + shift, shares, 0.38, color=colour, label=label)
axes.set_yticks(range(6), [f"{fuel}\n{gearbox}" for fuel, gearbox in shares.index])
axes.invert_yaxis()
axes.set(xlabel="share of cars", title="fuel and gearbox")
axes.legend(frameon=False)

priced = [name for name, row in known.iterrows() if row.fuel == "diesel"]
bins = np.geomspace(4, 50, 31)
for k, name in enumerate(priced):
    axes = panels[1, 0]
    for cars, style in [
        (truth[name], {"fill": True, "color": plain}),
        (completed[name], {"color": accent, "linewidth": 1.8}),
    ]:
        share = np.histogram(cars.price, bins)[0] / len(cars)
        axes.stairs(share - 0.32 * k, bins, baseline=-0.32 * k, **style)
    axes.text(4.2, 0.12 - 0.32 * k, name.replace(", ", "\n"), va="center", fontsize="small")
axes.set(xscale="log", xlim=(4, 50), ylim=(-0.65, 0.25), yticks=[], title="price of a diesel")
axes.set_xticks([5, 10, 20, 40], [5, 10, 20, 40])
axes.set_xticks([], minor=True)
axes.set_xlabel("price, 1000 euros")

missing = [name for name in known.index if name not in priced]
axes = panels[1, 1]
for k, name in enumerate(missing):
    for shift, cars, strength in [(-0.2, truth[name], 0.5), (0.2, completed[name], 1)]:
        shares = [np.mean(cars.fuel == fuel) for fuel in FUELS]
        left = np.cumsum([0, *shares[:-1]])
        axes.barh(k + shift, shares, 0.38, left=left, color=colours.values(), alpha=strength)
axes.text(0.01, -0.2, "truth", va="center", fontsize="small")
axes.text(0.01, 0.2, "completed", va="center", fontsize="small", color="white")
axes.set_yticks(range(len(missing)), [name.replace(", ", "\n") for name in missing])
axes.invert_yaxis()
axes.set(xlim=(0, 1), xlabel="share", title="fuel, where it is missing")

axes = panels[1, 2]
axes.scatter(*usual, s=6, color=plain)
axes.scatter(*scores, color=accent)
for name, at in zip(odd.index, scores.T, strict=True):
    axes.annotate(name, at, (-8, 0), textcoords="offset points", ha="right", va="center")
axes.set(xlim=(-21, -3))
axes.set(
    xlabel="log p, independent columns", ylabel="log p, all pairs of columns", title="odd cars"
)

for axes in panels.flat:
    axes.spines[["top", "right"]].set_visible(False)
path = "mixed_table.png"
figure.savefig(path, dpi=120)
print(f"saved {path}")
plt.show()
