"""Check the internal links of the built documentation: ``python doc/check_links.py FOLDER``.

The script checks links to pages, images, scripts and anchors within the folder. It ignores external
addresses, so it needs no network. It prints broken links and exits with 1 if there are any.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"href", "src", "poster", "data"}


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


def broken(folder):
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


def main(folder):
    """Print the broken links and return their number."""
    wrong = broken(folder)
    for where, link in wrong:
        print(f"{where}: {link}")
    print(f"{len(wrong)} internal links do not resolve.")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1]) else 0)
