"""Tests of compiled exponentials and layers of units against slow twins."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skmrf._kernels._jit import kernel
from skmrf._kernels.exponential import exponentials, logarithms, power
from skmrf._kernels.layers import draw_units, softplus_sums, unit_means

# exp overflows to inf and log takes 0 to -inf on purpose, which compiled code does not mention
pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:divide by zero encountered in log:RuntimeWarning"),
]


@kernel
def exp_in_place(x):
    exponentials(x)


@kernel
def power_in_place(x):
    for i in range(x.size):
        x[i] = power(x[i])


def applied(in_place, x):
    out = x.copy()
    in_place(out)
    return out


def exp_of(x):
    return applied(exp_in_place, x)


EXP_LIMITS = {np.float32: (87, 3e-7), np.float64: (708, 1e-15)}  # of arguments and errors
each_exp = pytest.mark.parametrize("dtype", EXP_LIMITS)


@each_exp
def test_exponentials(dtype):
    """The relative error, densely around zero, where polynomials meet, and over the range."""
    limit, within = EXP_LIMITS[dtype]
    near = np.concatenate([np.linspace(-1, 1, 40_001), np.log(2) * np.arange(-125, 126) / 2])
    x = np.append(near, np.linspace(-limit, limit, 400_001)).astype(dtype)
    found, expected = exp_of(x), np.exp(x.astype(np.longdouble))
    assert found.dtype == dtype
    assert np.abs(found / expected - 1).max() < within
    assert exp_of(np.zeros(1, dtype))[0] == 1.0


@each_exp
def test_exponentials_are_held_beyond_their_range(dtype):
    limit, within = EXP_LIMITS[dtype]
    x = np.array([limit, limit + 0.5, 800, 3e38, np.inf], dtype)
    assert_allclose(exp_of(x), np.exp(float(limit)), rtol=within)
    assert_allclose(exp_of(-x), np.exp(-float(limit)), rtol=within)
    assert exp_of(np.zeros(0, dtype)).shape == (0,)
    assert np.isnan(exp_of(np.full(70, np.nan, dtype))).all()


@each_exp
def test_powers_of_two(dtype):
    limit = {np.float32: 126, np.float64: 1022}[dtype]
    whole = np.arange(-limit, limit + 1, dtype=dtype)
    assert_array_equal(applied(power_in_place, whole), np.exp2(whole))
    y = np.concatenate([whole[1:] - dtype(0.5), np.linspace(-1, 1, 40_001), whole[1:-1] / 3])
    y = y.astype(dtype)
    found, expected = applied(power_in_place, y), np.exp2(y.astype(np.longdouble))
    assert found.dtype == dtype
    assert np.abs(found / expected - 1).max() < EXP_LIMITS[dtype][1]
    assert np.isnan(applied(power_in_place, np.full(70, np.nan, dtype))).all()


@kernel
def log_in_place(x):
    logarithms(x, np.empty(x.size, np.int32))


def log_of(x):
    out = x.copy()
    log_in_place(out)
    return out


def test_logarithms_in_single_precision():
    """Absolute errors around 1, where the result vanishes, and relative ones over the range."""
    near = np.append(np.linspace(0.5, 2.0, 200_001), 2.0 ** np.arange(-125, 127) * np.sqrt(0.5))
    ends = [np.finfo(np.float32).tiny, np.finfo(np.float32).max]
    x = np.concatenate([near, np.exp(np.linspace(-87, 88, 200_001)), ends]).astype(np.float32)
    found, expected = log_of(x), np.log(x.astype(float))
    assert found.dtype == np.float32
    assert (np.abs(found - expected) <= 2e-7 * np.maximum(1.0, np.abs(expected))).all()
    assert_array_equal(log_of(np.ones(1, np.float32)), 0.0)
    assert log_of(np.zeros(0, np.float32)).shape == (0,)


def test_logarithms_undo_exponentials():
    x = np.linspace(-80, 80, 100_001).astype(np.float32)
    assert_allclose(log_of(exp_of(x)), x, rtol=3e-7, atol=6e-7)


def test_logarithms_in_double_precision(seed):
    rng = np.random.default_rng(seed)
    powers = 2.0 ** np.arange(-1021, 1023)
    around = [powers, powers * np.sqrt(0.5), powers * np.nextafter(np.sqrt(0.5), 0)]
    near = 1 + rng.uniform(-1, 1, size=100_000) * 10.0 ** rng.uniform(-15, -0.4, size=100_000)
    ends = [np.finfo(float).tiny, np.finfo(float).max, 1.0]
    x = np.concatenate([np.exp(rng.normal(0.0, 200.0, size=1000)), near, *around, ends])
    assert_allclose(log_of(x), np.log(x), rtol=1e-15)


rows_of_biases = pytest.mark.parametrize("n_biases", [1, 7])


def layer_inputs(dtype, seed, n_biases, scale=3.0):
    """Activations of 7 chains and biases of 70 units: more than one group of factors."""
    rng = np.random.default_rng(seed)
    activation = rng.normal(0.0, scale, size=(7, 70)).astype(dtype)
    return activation, rng.normal(0.0, scale, size=(n_biases, 70)).astype(dtype), rng


@rows_of_biases
@pytest.mark.parametrize("scale", [3.0, 300.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unit_means(dtype, scale, n_biases, seed):
    activation, bias, _ = layer_inputs(dtype, seed, n_biases, scale)
    logit = activation.astype(float) + bias
    out = np.empty_like(activation)
    unit_means(activation, bias, out)
    assert ((out >= 0) & (out <= 1)).all()
    expected = 0.5 * (1 + np.tanh(0.5 * logit))
    assert_allclose(out, expected, rtol=0, atol=1e-12 if dtype == np.float64 else 1e-5)
    expected = out.copy()
    unit_means(activation, bias, activation)
    assert_array_equal(activation, expected)


@rows_of_biases
@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("scale", [3.0, 300.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softplus_sums(dtype, scale, beta, n_biases, seed):
    activation, bias, _ = layer_inputs(dtype, seed, n_biases, scale)
    before = activation.copy()
    out = np.empty(7)
    softplus_sums(activation, bias, beta, out)
    logit = beta * (activation.astype(float) + bias)
    expected = np.logaddexp(0.0, logit).sum(axis=1)
    assert_allclose(out, expected, rtol=1e-14 if dtype == np.float64 else 2e-6, atol=1e-11)
    assert_array_equal(activation, before)


def test_softplus_sums_of_no_units():
    out = np.full(3, 9.0)
    softplus_sums(np.zeros((3, 0)), np.zeros((1, 0)), 1.0, out)
    assert_array_equal(out, 0.0)


@rows_of_biases
@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_draw_units(dtype, scale, n_biases, seed):
    """1 where the noise is below the mean; noise too near to it to say is left out."""
    activation, bias, rng = layer_inputs(dtype, seed, n_biases, scale)
    shift = rng.normal(0.0, scale, size=70).astype(dtype)
    noise = rng.random(activation.shape, dtype=dtype)
    logit = 0.7 * (activation.astype(float) + bias) + shift
    mean = 0.5 * (1 + np.tanh(0.5 * logit))
    out = np.empty_like(activation)
    draw_units(activation, bias, 0.7, shift, noise, out)
    clear = np.abs(noise - mean) > 1e-4
    assert clear.mean() > 0.6
    assert_array_equal(out[clear], (noise < mean)[clear])
    assert set(np.unique(out)) <= {0.0, 1.0}
    expected = out.copy()
    draw_units(activation, bias, 0.7, shift, noise, activation)
    assert_array_equal(activation, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_certain_units_are_certain(dtype):
    """Whatever the noise, from the least to the greatest that generators return."""
    last = 1 - 2**-24 if dtype == np.float32 else 1 - 2**-53
    noise = np.array([[0.0, last] * 2], dtype=dtype)
    sure = np.array([[-200.0, -200.0, 200.0, 200.0]], dtype=dtype)
    nothing = np.zeros(4, dtype=dtype)
    out = np.empty_like(sure)
    draw_units(sure, nothing[None], 1.0, nothing, noise, out)
    assert_array_equal(out[:, :2], 0.0)
    assert_array_equal(out[:, 2:], 1.0)
