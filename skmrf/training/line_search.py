"""How far to go in a direction: the strong Wolfe conditions."""

import numpy as np

RISE = 1e-4  # share of the first slope that the mean slope must reach
FLAT = 0.9  # share of the first slope that may be left
GROWTH = 4.0
MARGIN = 0.1  # of an interval, at its ends
MOST_TRIALS = 20
ROUNDING = 1e-14  # of values, relative


def wolfe_point(visit, first):
    """A point that has gained enough, where the slope has fallen enough.

    Parameters
    ----------
    visit : callable, step -> point
        A point has ``step``, ``value``, which is to be large, and ``slope``, its derivative by the
        step. The first step tried is 1.
    first : point
        At step 0, with a positive slope.

    Returns
    -------
    point or None
        After 20 trials the best one that has gained enough, None if none has. What rounding may
        have cost counts as enough where the slope has fallen.

    References
    ----------
    J. Nocedal and S. J. Wright, "Numerical optimization" (2006), algorithms 3.5 and 3.6.
    """
    near, far, step = first, None, 1.0
    level = first.value - ROUNDING * max(1.0, abs(first.value))
    for _ in range(MOST_TRIALS):
        point = visit(step)
        flat = abs(point.slope) <= FLAT * first.slope
        enough = point.value >= first.value + RISE * step * first.slope
        if flat and (enough or point.value >= level):
            return point
        if not (enough and point.value > near.value):  # nor is nan enough
            far = point
        else:
            onward = 1.0 if far is None else far.step - near.step
            if point.slope * onward <= 0:
                far = near
            near = point
        step = GROWTH * step if far is None else _between(near, far)
    return near if near.step > 0 else None


def _between(near, far):
    """Where the cubic through two points has its maximum, or the middle."""
    width = far.step - near.step
    mean = (far.value - near.value) / width
    bend = near.slope + far.slope - 3.0 * mean
    with np.errstate(all="ignore"):
        root = np.sign(width) * np.sqrt(bend**2 - near.slope * far.slope)
        share = 1.0 - (bend - far.slope + root) / (near.slope - far.slope + 2.0 * root)
    if not np.isfinite(share):
        share = 0.5
    return near.step + width * float(np.clip(share, MARGIN, 1.0 - MARGIN))
