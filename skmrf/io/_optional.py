"""Import of optional dependencies."""

from importlib import import_module


def require(package, extra):
    """Import and return a package; raise an ImportError with install instructions if it fails."""
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(
            f'{package} is not installed ({error}); install it with pip install "skmrf[{extra}]".'
        ) from error
