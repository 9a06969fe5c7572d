"""Corruption of images by pixel noise and occlusion."""

import math
import numbers

import numpy as np

from .._utils.parameters import check_number
from .random_models import generator


def flip_pixels(V, *, rate, random_state=None):
    """Flip each pixel of binary images independently with a given probability.

    The experiments of [1]_ use the rates 0.1 and 0.2.

    Parameters
    ----------
    V : array-like of any shape
        Binary images: zeros and ones of a boolean, integer or floating dtype.
    rate : float
        Probability that a pixel is flipped, from 0 to 1.
    random_state : int, RandomState instance or None, default=None
        Seed of the random numbers. An int gives the same result at every call.

    Returns
    -------
    ndarray of the shape of V
        Corrupted copy of ``V``, with the same dtype.

    Raises
    ------
    ValueError
        If ``V`` has entries other than 0 and 1, or if ``rate`` is outside [0, 1].

    See Also
    --------
    occlude : Overwrite a rectangular patch of each image.

    References
    ----------
    .. [1] W. Ping and A. Ihler, "Belief propagation in conditional RBMs for structured
       prediction", AISTATS 2017, section 6.

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf.datasets import flip_pixels
    >>> flip_pixels(np.zeros((2, 8), dtype=int), rate=0.2, random_state=0)
    array([[0, 0, 1, 0, 0, 0, 0, 0],
           [0, 0, 0, 0, 1, 0, 0, 0]])
    """
    V = _check_numbers(V)
    wrong = V[(V != 0) & (V != 1)]
    if wrong.size:
        raise ValueError(f"V must contain only 0 and 1; found {wrong[0]}.")
    check_number("rate", rate, low=0, high=1)
    flips = generator(random_state).random(V.shape) < rate
    return (flips != V).astype(V.dtype)


def occlude(V, *, size, value=0, image_shape=None, random_state=None):
    """Overwrite a rectangular patch of each image with a constant value.

    The position of the patch is drawn for each image independently, uniformly over all positions
    where the patch lies completely inside the image. The experiments of [1]_ use patches of 8 x 8
    and 12 x 12 pixels.

    Parameters
    ----------
    V : array-like of shape (n, height * width) or (n, height, width)
        Images of booleans, integers or floats. If each image is a row, its pixels are in C order.
    size : int or (int, int)
        Height and width of the patch in pixels. An int gives a square patch.
    value : bool, int or float, default=0
        Value of the pixels in the patch. The dtype of ``V`` must be able to represent it.
    image_shape : (int, int) or None, default=None
        Height and width of the images in pixels. With None, the shape is taken from ``V`` if it
        has three axes; otherwise the images are assumed to be square.
    random_state : int, RandomState instance or None, default=None
        Seed of the random numbers. An int gives the same result at every call.

    Returns
    -------
    ndarray of the shape of V
        Corrupted copy of ``V``, with the same dtype.

    Raises
    ------
    ValueError
        If the patch is larger than the images, if the rows do not fit ``image_shape`` or are not
        square images, or if the dtype of ``V`` cannot represent ``value``.

    See Also
    --------
    flip_pixels : Flip each pixel independently.

    References
    ----------
    .. [1] W. Ping and A. Ihler, "Belief propagation in conditional RBMs for structured
       prediction", AISTATS 2017, section 6.

    Examples
    --------
    >>> import numpy as np
    >>> from skmrf.datasets import occlude
    >>> V = np.ones((1, 16), dtype=int)
    >>> occlude(V, size=2, random_state=0).reshape(4, 4)
    array([[0, 0, 1, 1],
           [0, 0, 1, 1],
           [1, 1, 1, 1],
           [1, 1, 1, 1]])
    """
    V = _check_numbers(V)
    shape = _check_image_shape(V, image_shape)
    size = _check_size(size, shape)
    _check_value(value, V.dtype)
    rng = generator(random_state)
    rows, columns = (
        rng.integers(whole - part, size=(len(V), 1, 1), endpoint=True) + np.arange(part)
        for whole, part in zip(shape, size, strict=True)
    )
    occluded = np.array(V, order="C")
    images = occluded.reshape(len(V), *shape)
    images[np.arange(len(V))[:, None, None], rows.swapaxes(1, 2), columns] = value
    return occluded


# Checks ------------------------------------------------------------------------------------


def _check_numbers(V):
    V = np.asarray(V)
    if V.dtype.kind not in "biuf":
        raise ValueError(f"V must contain booleans, integers or floats; got dtype {V.dtype}.")
    return V


def _check_image_shape(V, image_shape):
    """Check the shape of the images, and return their height and width."""
    if V.ndim not in (2, 3):
        raise ValueError(
            "V must have shape (n, height * width) or (n, height, width); got an array of shape "
            f"{V.shape}."
        )
    if image_shape is None:
        return V.shape[1:] if V.ndim == 3 else _square(V.shape[1])
    shape = tuple(
        int(check_number(f"image_shape[{i}]", n, low=1, integer=True))
        for i, n in enumerate(_pair("image_shape", image_shape, "a pair (height, width) or None"))
    )
    if V.shape[1:] not in (shape, (math.prod(shape),)):
        raise ValueError(
            f"V must have shape (n, {math.prod(shape)}) or (n, {shape[0]}, {shape[1]}) for "
            f"image_shape={shape}; got an array of shape {V.shape}."
        )
    return shape


def _square(n_pixels):
    side = math.isqrt(n_pixels)
    if side**2 != n_pixels:
        raise ValueError(
            f"V has rows of {n_pixels} pixels, which is not a square number; give "
            "image_shape=(height, width)."
        )
    return side, side


def _check_size(size, shape):
    """Return height and width of the patch, or raise a ValueError if the patch is too large."""
    if isinstance(size, numbers.Number):
        size = size, size
    parts = _pair("size", size, "an integer or a pair (height, width)")
    return tuple(
        int(check_number(f"The {side} of size", part, low=1, high=whole, integer=True))
        for side, part, whole in zip(("height", "width"), parts, shape, strict=True)
    )


def _pair(name, value, accepted):
    try:
        first, second = value
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be {accepted}; got {value!r}.") from None
    return first, second


def _check_value(value, dtype):
    if not isinstance(value, numbers.Real | np.bool_):
        raise ValueError(f"value must be a number; got {value!r}.")
    if dtype.kind != "f" and not _can_represent(dtype, value):
        raise ValueError(
            f"value must be a number that the dtype {dtype} of V can represent; got {value!r}."
        )


def _can_represent(dtype, value):
    try:
        with np.errstate(invalid="ignore"):
            return bool(np.asarray(value).astype(dtype) == value)
    except OverflowError:
        return False
