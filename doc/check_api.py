"""Check that the built documentation lists every public method: ``python doc/check_api.py FOLDER``.

Inherited methods count, those of scikit-learn included. The script reads the inventory of the
built documentation, ``objects.inv``, prints what is missing and exits with 1.
"""

import importlib
import inspect
import sys
import zlib
from pathlib import Path

import skmrf

BUILTINS = (object, tuple, float)


def public_classes():
    """Return the classes that an ``__all__`` lists, keyed by their documented name."""
    found = {}
    for package in ("skmrf", *(f"skmrf.{name}" for name in sorted(skmrf._PACKAGES))):
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            if inspect.isclass(getattr(module, name)):
                found[f"{package}.{name}"] = getattr(module, name)
    return found


def public_members(kind):
    """Return the names of the public methods and properties of a class, without builtin ones."""
    found = []
    for name, member in inspect.getmembers(kind):
        owner = next((base for base in kind.__mro__ if name in vars(base)), object)
        is_method = callable(member) and not inspect.isclass(member)
        is_public = not name.startswith("_") and (is_method or isinstance(member, property))
        if is_public and owner not in BUILTINS:
            found.append(name)
    return found


def documented_names(folder):
    """Return the Python names in the inventory of a built documentation."""
    content = (Path(folder) / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(content).decode("utf-8").splitlines()
    return {line.split(" py:", 1)[0] for line in lines if " py:" in line}


def missing_names(folder):
    """Return the public classes, methods and properties without an entry."""
    known = documented_names(folder)
    names = []
    for place, kind in public_classes().items():
        names += [place, *(f"{place}.{name}" for name in public_members(kind))]
    return [name for name in names if name not in known]


def main(folder):
    """Print the missing names and return their number."""
    missing = missing_names(folder)
    for name in missing:
        print(f"{name} is not documented.")
    print(f"{len(missing)} public classes, methods and properties are not documented.")
    return len(missing)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1]) else 0)
