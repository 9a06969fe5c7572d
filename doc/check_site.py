"""Check the built documentation: ``python doc/check_site.py FOLDER``.

Every internal link must resolve: links to pages, images, scripts and anchors within the folder. The
script ignores external addresses, so it needs no network. Every public method must have an entry in
the reference (the inventory ``objects.inv``), inherited methods included. The script prints what is
wrong and exits with 1 if there is anything.
"""

import importlib
import inspect
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import skmrf

LINKS = {"href", "src", "poster", "data"}
BUILTINS = (object, tuple, float)


class Page(HTMLParser):
    """Links and anchors of an HTML page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Collect links and anchors."""
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in LINKS:
                self.links.append((self.getpos()[0], value))
            elif name == "srcset":
                self.links += [(self.getpos()[0], one.split()[0]) for one in value.split(",")]


def broken_links(folder):
    """Return pairs of a position, ``page:line``, and a broken link."""
    folder = Path(folder).resolve()
    files = [path for path in folder.rglob("*.html") if "_static" not in path.parts]  # templates
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in files}
    if not pages:
        raise FileNotFoundError(f"{folder} has no HTML pages; build the documentation first.")
    wrong = []
    for path, page in sorted(pages.items()):
        for line, link in page.links:
            if not _resolves(link, path, pages):
                wrong.append((f"{path.relative_to(folder)}:{line}", link))
    return wrong


def _resolves(link, path, pages):
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return False
    return target not in pages or unquote(parts.fragment) in pages[target].anchors


def report_links(folder):
    """Print the broken links and return their number."""
    wrong = broken_links(folder)
    for where, link in wrong:
        print(f"{where}: {link}")
    print(f"{len(wrong)} internal links do not resolve.")
    return len(wrong)


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


def report_names(folder):
    """Print the missing names and return their number."""
    missing = missing_names(folder)
    for name in missing:
        print(f"{name} is not documented.")
    print(f"{len(missing)} public classes, methods and properties are not documented.")
    return len(missing)


def main(folder):
    """Print the broken links and the missing names, and return their number."""
    return report_links(folder) + report_names(folder)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1]) else 0)
