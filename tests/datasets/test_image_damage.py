"""Tests of damage to images: flip_pixels and occlude."""

import re

import numpy as np
import pytest
from montecarlo import N_SIGMA, TAIL
from scipy.stats import chisquare

from skmrf.datasets import flip_pixels, occlude

DTYPES = [bool, np.uint8, np.int64, np.float32, np.float64]


# flip_pixels ------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.7])
def test_flips_have_their_rate(rate, seed):
    V = (np.random.default_rng(seed).random((400, 50)) < 0.3).astype(np.uint8)
    flipped = flip_pixels(V, rate=rate, random_state=seed) != V
    for part in (flipped[V == 0], flipped[V == 1]):
        assert abs(part.mean() - rate) < N_SIGMA * np.sqrt(rate * (1 - rate) / part.size)
    beside = flipped[:, 1:] & flipped[:, :-1]  # neighbours are independent
    error = np.sqrt(3 * rate**2 * (1 - rate**2) / beside.size)
    assert abs(beside.mean() - rate**2) < N_SIGMA * error


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (0, 4)])
def test_flips_of_rates_0_and_1(dtype, shape, seed):
    V = np.random.default_rng(seed).integers(0, 2, size=shape).astype(dtype)
    before = V.copy()
    kept, inverted = (flip_pixels(V, rate=rate, random_state=seed) for rate in (0, 1))
    assert kept.dtype == inverted.dtype == V.dtype
    np.testing.assert_array_equal(kept, V)
    np.testing.assert_array_equal(inverted, V == 0)
    assert not np.shares_memory(kept, V)
    flip_pixels(V, rate=0.5, random_state=seed)
    np.testing.assert_array_equal(V, before)


def test_damage_repeats(seed):
    V = np.ones((20, 100), dtype=np.uint8)
    for damage in (
        lambda state: flip_pixels(V, rate=0.5, random_state=state),
        lambda state: occlude(V, size=3, random_state=state),
    ):
        first = damage(seed)
        np.testing.assert_array_equal(damage(seed), first)
        np.testing.assert_array_equal(damage(np.random.RandomState(seed)), first)
        assert (damage(seed + 1) != first).any()
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        assert (damage(None) != first).any()
        np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize(
    ("V", "rate", "message"),
    [
        ([0, 1, 2], 0.1, "V must hold only 0 and 1; it holds 2."),
        ([0.0, np.nan], 0.1, "V must hold only 0 and 1; it holds nan."),
        (["0"], 0.1, "V must hold booleans, integers or floats; got dtype <U1."),
        ([0, 1], 1.1, "rate must be a number >= 0 and <= 1; got 1.1."),
        ([0, 1], -0.1, "rate must be a number >= 0 and <= 1; got -0.1."),
        ([0, 1], None, "rate must be a number; got None."),
    ],
)
def test_flip_errors(V, rate, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        flip_pixels(V, rate=rate)


# occlude ----------------------------------------------------------------------------------


def corners_of(changed, size):
    """Upper left corners, after a check that the changed pixels are rectangles of that size."""
    down, across = changed.any(axis=2), changed.any(axis=1)
    assert (changed == down[:, :, None] & across[:, None, :]).all()
    corners = []
    for lines, length in ((down, size[0]), (across, size[1])):
        first = lines.argmax(axis=1)
        place = np.arange(lines.shape[1]) - first[:, None]
        assert (lines == ((place >= 0) & (place < length))).all()
        corners.append(first)
    return corners


@pytest.mark.parametrize(
    ("shape", "size"),
    [((6, 6), 3), ((6, 6), 1), ((5, 8), (2, 4)), ((5, 8), (5, 3)), ((4, 7), (1, 7))],
)
def test_patches_are_uniform(shape, size, seed):
    V = np.ones((20_000, *shape), dtype=np.uint8)
    changed = occlude(V, size=size, random_state=seed) != V
    pair = (size, size) if isinstance(size, int) else size
    top, left = corners_of(changed, pair)
    places = shape[0] - pair[0] + 1, shape[1] - pair[1] + 1
    counts = np.bincount(np.ravel_multi_index((top, left), places), minlength=np.prod(places))
    assert chisquare(counts).pvalue > TAIL
    if len(counts) > 1:
        assert len(np.unique(np.diff(top * shape[1] + left))) > 1  # not the same for all images


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_and_images_are_the_same(dtype, order, seed):
    V = np.random.default_rng(seed).integers(0, 2, size=(30, 5, 7)).astype(dtype, order=order)
    before = V.copy()
    stacked = occlude(V, size=(2, 3), value=1, random_state=seed)
    rows = np.asarray(V.reshape(30, 35), order=order)
    flat = occlude(rows, size=(2, 3), value=1, image_shape=(5, 7), random_state=seed)
    assert stacked.dtype == flat.dtype == V.dtype
    assert stacked.shape == V.shape
    np.testing.assert_array_equal(flat, stacked.reshape(30, 35))
    np.testing.assert_array_equal(V, before)
    again = occlude(V, size=(2, 3), value=1, image_shape=(5, 7), random_state=seed)
    np.testing.assert_array_equal(again, stacked)
    square = occlude(np.zeros((4, 49), dtype=dtype), size=7, value=1)
    np.testing.assert_array_equal(square, np.ones((4, 49)))


def test_values_of_patches():
    whole = {"size": 2}
    assert (occlude(np.zeros((3, 2, 2), dtype=np.int8), value=-1, **whole) == -1).all()
    assert np.isnan(occlude(np.zeros((3, 4), dtype=np.float32), value=np.nan, **whole)).all()
    assert (occlude(np.zeros((3, 4), dtype=np.float32), value=np.float64(0.1), **whole) > 0).all()
    assert occlude(np.zeros((3, 4), dtype=bool), value=True, **whole).all()
    assert occlude(np.zeros((0, 4)), **whole).shape == (0, 4)


OCCLUDE_ERRORS = [
    (
        {"V": np.zeros((2, 12))},
        "V has rows of 12 pixels, which are no square; give image_shape=(height, width).",
    ),
    (
        {"V": np.zeros(16)},
        "V must have shape (n, height * width) or (n, height, width); got an array of shape (16,).",
    ),
    ({"V": [["a"]]}, "V must hold booleans, integers or floats; got dtype <U1."),
    (
        {"image_shape": (4, 5)},
        "V must have shape (n, 20) or (n, 4, 5) for image_shape=(4, 5); got an array of shape "
        "(2, 16).",
    ),
    (
        {"V": np.zeros((2, 4, 5)), "image_shape": (5, 4)},
        "V must have shape (n, 20) or (n, 5, 4) for image_shape=(5, 4); got an array of shape "
        "(2, 4, 5).",
    ),
    ({"image_shape": 4}, "image_shape must be a pair (height, width) or None; got 4."),
    ({"image_shape": (4, 4.0)}, "image_shape[1] must be an integer; got 4.0."),
    ({"image_shape": (-4, -4)}, "image_shape[0] must be an integer >= 1; got -4."),
    ({"size": 5}, "The height of size must be an integer >= 1 and <= 4; got 5."),
    ({"size": (2, 0)}, "The width of size must be an integer >= 1 and <= 4; got 0."),
    ({"size": 2.0}, "The height of size must be an integer; got 2.0."),
    ({"size": (1, 2, 3)}, "size must be an integer or a pair (height, width); got (1, 2, 3)."),
    ({"size": None}, "size must be an integer or a pair (height, width); got None."),
    ({"value": "0"}, "value must be a number; got '0'."),
    ({"value": [0, 1]}, "value must be a number; got [0, 1]."),
    ({"value": -1}, "value must be a number that V's dtype uint8 holds; got -1."),
    ({"value": 0.5}, "value must be a number that V's dtype uint8 holds; got 0.5."),
    ({"value": np.nan}, "value must be a number that V's dtype uint8 holds; got nan."),
    ({"value": 10**30}, f"value must be a number that V's dtype uint8 holds; got {10**30}."),
    (
        {"V": np.zeros((2, 16), dtype=bool), "value": 2},
        "value must be a number that V's dtype bool holds; got 2.",
    ),
]


@pytest.mark.parametrize(("options", "message"), OCCLUDE_ERRORS)
def test_occlude_errors(options, message):
    options = {"V": np.zeros((2, 16), dtype=np.uint8), "size": 2} | options
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        occlude(options.pop("V"), **options)
