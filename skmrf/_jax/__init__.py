"""Computations on devices with JAX, the only package that imports it.

JAX is imported by the first call of :func:`open_device` with another name than "cpu".
"""

from .._utils.parameters import check_choice

DEVICES = ("cpu", "cuda", "gpu", "jax")


def open_device(name):
    """Return the JAX devices of the given name, or None for "cpu" (functions compiled by numba).

    Parameters
    ----------
    name : {"cpu", "gpu", "cuda", "jax"}
        "gpu" and "cuda" are all GPUs. "jax" are the devices that JAX uses by default. Chains and
        batches are divided among them. ``transform`` and predictions use the first one.

    Returns
    -------
    Device or None
        The devices.

    Raises
    ------
    ImportError
        If JAX is not installed.
    ValueError
        If the name is unknown, or JAX finds no GPU.
    """
    check_choice("device", name, DEVICES)
    if name == "cpu":
        return None
    try:
        from .devices import find_device
    except ImportError as error:
        extra = "jax" if name == "jax" else "cuda"
        raise ImportError(
            f'device="{name}" needs JAX: pip install "skmrf[{extra}]". The default, '
            'device="cpu", does not need it.'
        ) from error
    return find_device(name)


def inference():
    """Return the module for inference in bipartite models with JAX arrays."""
    from . import rows

    return rows
