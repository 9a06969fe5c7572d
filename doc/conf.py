"""Configuration of the documentation: ``sphinx-build -W doc doc/_build``. It needs no network."""

import sys
from pathlib import Path

import skmrf

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import draw_map  # noqa: E402
import list_capabilities  # noqa: E402
import list_learners  # noqa: E402

project = "skmrf"
author = "The skmrf developers"
project_copyright = f"2026, {author}"
version = release = skmrf.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "mathml",
]
html_math_renderer = "mathml"
exclude_patterns = ["_build", "generated", "results"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["skmrf.css"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}

# The reference lists what every __all__ names, so a new public name cannot be forgotten.
autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
autodoc_default_options = {
    "members": True,
    "exclude-members": (
        "set_fit_request, set_partial_fit_request, set_score_request, set_score_samples_request"
    ),
}
# Names of other packages have no pages here, nor have those that begin with an underscore.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(arviz|matplotlib|networkx|numpy|pgmpy|scipy|sklearn)\..*"),
    ("py:class", r"skmrf\.(_\w+|exact|variational|estimators|\w+\.\w+)\..*"),
    ("py:obj", r"log_partition_\w*"),
]
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "within_subsection_order": "FileNameSortKey",
}

html_theme = "pydata_sphinx_theme"
html_title = "skmrf"
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


def _write_generated(_app):
    """Pictures and tables that are read off the source, afresh at every build."""
    folder = HERE / "generated"
    folder.mkdir(exist_ok=True)
    (folder / "map.svg").write_text(draw_map.draw(HERE.parent), encoding="utf-8")
    (folder / "learners.md").write_text(list_learners.table(), encoding="utf-8")
    (folder / "capabilities.md").write_text(list_capabilities.table(HERE.parent), encoding="utf-8")


def setup(app):
    """Called by Sphinx."""
    app.connect("builder-inited", _write_generated, priority=100)
