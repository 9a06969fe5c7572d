"""Line search by the strong Wolfe conditions."""

import numpy as np

C1 = 1e-4  # sufficient increase: least share of the first slope that the mean slope has
C2 = 0.9  # curvature: largest share of the first slope that the last slope has
GROWTH = 4.0
MARGIN = 0.1  # of an interval, at its ends
MAX_TRIALS = 20
ROUNDING = 1e-14  # of values, relative


def wolfe_point(evaluate, first):
    """Return a point that satisfies the strong Wolfe conditions.

    Parameters
    ----------
    evaluate : callable, step -> point
        A point has ``step``, ``value``, which is maximised, and ``slope``, its derivative by the
        step. The first step tried is 1.
    first : point
        At step 0, with a positive slope.

    Returns
    -------
    point or None
        After 20 trials the best one of sufficient increase, None if there is none. An increase
        within rounding is sufficient where the curvature condition holds.

    References
    ----------
    J. Nocedal and S. J. Wright, "Numerical optimization" (2006), algorithms 3.5 and 3.6.
    """
    low, high, step = first, None, 1.0
    rounded = first.value - ROUNDING * max(1.0, abs(first.value))
    for _ in range(MAX_TRIALS):
        point = evaluate(step)
        is_flat = abs(point.slope) <= C2 * first.slope
        has_increased = point.value >= first.value + C1 * step * first.slope
        if is_flat and (has_increased or point.value >= rounded):
            return point
        if not (has_increased and point.value > low.value):  # true of nan
            high = point
        else:
            direction = 1.0 if high is None else high.step - low.step
            if point.slope * direction <= 0:
                high = low
            low = point
        step = GROWTH * step if high is None else _interpolate(low, high)
    return low if low.step > 0 else None


def _interpolate(low, high):
    """Return the step at which the cubic through two points has its maximum, or the middle."""
    width = high.step - low.step
    mean = (high.value - low.value) / width
    curvature = low.slope + high.slope - 3.0 * mean
    with np.errstate(all="ignore"):
        root = np.sign(width) * np.sqrt(curvature**2 - low.slope * high.slope)
        share = 1.0 - (curvature - high.slope + root) / (low.slope - high.slope + 2.0 * root)
    if not np.isfinite(share):
        share = 0.5
    return low.step + width * float(np.clip(share, MARGIN, 1.0 - MARGIN))
