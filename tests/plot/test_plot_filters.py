"""Tests of displays of filters."""

import numpy as np
import pytest
from displayed_models import digits
from numpy.testing import assert_allclose, assert_array_equal

from skmrf import RBM, CRBMStructuredPredictor
from skmrf.plot import FiltersDisplay

pytestmark = [
    pytest.mark.filterwarnings("ignore:Learning had not converged"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def test_filters_of_an_rbm(models):
    model = models["rbm"]
    display = FiltersDisplay.from_estimator(model, n_filters=3)
    order = np.argsort(-np.linalg.norm(model.components_, axis=1))[:3]
    assert_array_equal(display.units, order)
    mosaic = display.image_.get_array().filled(np.nan)
    assert mosaic.shape == (17, 17)
    assert np.isnan(mosaic[8]).all()
    assert np.isnan(mosaic[:, 8]).all()
    assert np.isnan(mosaic[9:, 9:]).all()
    corners = mosaic[:8, :8], mosaic[:8, 9:], mosaic[9:, :8]
    for part, unit in zip(corners, order, strict=True):
        assert_allclose(part, model.components_[unit].reshape(8, 8))
    low, high = display.image_.get_clim()
    assert low == -high
    assert high == pytest.approx(np.quantile(np.abs(model.components_[order]), 0.995))


def test_filters_by_activity(models):
    model = models["rbm"]
    display = FiltersDisplay.from_estimator(model, sort="activity", image_shape=(4, 16))
    assert_array_equal(display.units, np.argsort(-model.hidden_stds_))
    assert display.filters.shape == (5, 4, 16)
    with pytest.raises(ValueError, match="only an RBM has"):
        FiltersDisplay.from_estimator(models["crbm"], sort="activity")


def test_filters_of_outputs(models):
    display = FiltersDisplay.from_estimator(models["crbm"])
    assert display.filters.shape == (4, 3, 4)
    weights = models["crbm"].energy_.weights.T[display.units].reshape(4, 3, 4)
    assert_allclose(display.filters, weights)
    assert (np.diff(np.linalg.norm(display.filters, axis=(1, 2))) <= 0).all()


def test_a_mosaic_has_no_empty_columns():
    assert FiltersDisplay(np.ones((2, 16, 1)), [0, 1]).plot().image_.get_array().shape == (16, 3)


def test_shapes_of_filters_are_checked(models):
    with pytest.raises(ValueError, match=r"image_shape=\(8, 7\) has 56 pixels, but there are 64"):
        FiltersDisplay.from_estimator(models["rbm"], image_shape=(8, 7))
    narrow = RBM(2, "pcd", max_iter=1, random_state=0).fit(digits()[:, :6])
    with pytest.raises(ValueError, match="6 visible units make no square"):
        FiltersDisplay.from_estimator(narrow)
    blind = CRBMStructuredPredictor(learner="lr", max_iter=1).fit(digits(), digits()[:, :4])
    with pytest.raises(ValueError, match="has no hidden units"):
        FiltersDisplay.from_estimator(blind)
    with pytest.raises(ValueError, match="n_filters must be an integer >= 1"):
        FiltersDisplay.from_estimator(models["rbm"], n_filters=0)
