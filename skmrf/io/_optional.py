"""Packages that are not always there."""

from importlib import import_module


def require(package, extra):
    """The package, or an error that says how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(
            f'{package} is not installed ({error}); pip install "skmrf[{extra}]" brings it.'
        ) from error
