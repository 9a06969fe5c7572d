"""Configuration of the documentation: ``sphinx-build -W doc doc/_build``. It needs no network."""

import re
import sys
from pathlib import Path

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

import skmrf

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import check_site  # noqa: E402
import generate  # noqa: E402

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
    "inherited-members": ", ".join(kind.__name__ for kind in check_site.BUILTINS),
    "special-members": "__call__",
}
# Names of other packages have no pages here, nor have those that begin with an underscore.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(arviz|matplotlib|networkx|numpy|pgmpy|scipy|sklearn)\..*"),
    ("py:class", r"skmrf\.(_\w+|exact|variational|estimators|\w+\.\w+)\..*"),
    ("py:obj", r"log_partition_\w*"),
]
autodoc_member_order = "groupwise"
toc_object_entries_show_parents = "hide"
# A table of methods on every page of a class, without those of tuples and floats.
numpydoc_class_members_toctree = False
numpydoc_show_inherited_class_members = {
    name: not issubclass(kind, (tuple, float)) for name, kind in check_site.public_classes().items()
} | {f"skmrf._utils.results.{name}": False for name in ("LogPartition", "Marginals", "Assignment")}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "capture_repr": (),
    "subsection_order": [
        f"../examples/{name}" for name in ("first_steps", "applications", "methods", "papers")
    ],
    "within_subsection_order": "FileNameSortKey",
    "parallel": 2,
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
    """Write the pictures and tables that are generated from the source code."""
    folder = HERE / "generated"
    folder.mkdir(exist_ok=True)
    (folder / "map.svg").write_text(generate.draw_map(HERE.parent), encoding="utf-8")
    (folder / "capabilities.md").write_text(
        generate.list_capabilities(HERE.parent), encoding="utf-8"
    )


SKLEARN = "https://scikit-learn.org/stable"
SKLEARN_PAGES = {
    "metadata_routing": f"{SKLEARN}/metadata_routing.html",
    "accuracy_score": f"{SKLEARN}/modules/model_evaluation.html#accuracy-score",
    "df_output_transform": f"{SKLEARN}/modules/df_output_transform.html",
    "sphx_glr_auto_examples_miscellaneous_plot_set_output.py": (
        f"{SKLEARN}/auto_examples/miscellaneous/plot_set_output.html"
    ),
}


def _link_to_sklearn(_app, _what, _name, member, _options, lines):
    """Replace references in inherited docstrings, which have no target here, by links or text."""
    if not (getattr(member, "__module__", None) or "").startswith("sklearn"):
        return
    for number, line in enumerate(lines):
        lines[number] = re.sub(r":(?:ref|term):`([^`<]+?)(?:\s*<([^`>]+)>)?`", _link, line)


def _link(reference):
    text, label = reference[1], reference[2] or reference[1]
    text = "this example" if text.startswith("sphx_glr") else text
    return f"`{text} <{SKLEARN_PAGES[label]}>`__" if label in SKLEARN_PAGES else text


BRACKET_SIZES = re.compile(r"\\(?:big|Big|bigg|Bigg)[lr]?(?![A-Za-z])")
THIN_SPACE = '<mspace width="0.1667em"></mspace>'
BEFORE_FUNCTION = re.compile(
    r"(</(?:mi|mn|mfrac|msub|msup|msubsup|munder|munderover)>)"
    r"(\s*<mi(?: mathvariant=\"normal\")?>(?:log|exp|tanh|artanh)</mi>)"
)
AFTER_FUNCTION = re.compile(r"<mo>&ApplyFunction;</mo>(?!\s*(?:<mo[^>]*>[(\[{]|<mspace))")
WORD_JOINER = "\u2060"


def _write_inline_formula(writer, node):
    """Write an inline formula as MathML, which browsers render without scripts or a network.

    The word joiner keeps punctuation on the line of the formula.
    """
    writer.body.append(_to_mathml(node, as_block=False) + WORD_JOINER)
    raise SkipNode


def _write_displayed_formula(writer, node):
    """Write a displayed formula as MathML."""
    writer.body.append(f'<div class="math">{_to_mathml(node, as_block=True)}</div>')
    raise SkipNode


def _to_mathml(node, as_block):
    """Convert to MathML without TeX's bracket sizes, because brackets stretch by themselves.

    Names of functions get the thin spaces that TeX writes around them: log f, not logf.
    """
    formula = tex2mathml(BRACKET_SIZES.sub("", node.astext()), as_block=as_block)
    formula = BEFORE_FUNCTION.sub(rf"\1{THIN_SPACE}\2", formula)
    return AFTER_FUNCTION.sub(THIN_SPACE, formula)


def _skip_fields(_app, _what, _name, member, _skip, _options):
    """Leave out the fields of named tuples, which the section Attributes describes."""
    is_field = (getattr(member, "__doc__", None) or "").startswith("Alias for field number")
    return True if is_field else None


def setup(app):
    """Connect the functions above; called by Sphinx."""
    app.add_html_math_renderer(
        "mathml", (_write_inline_formula, None), (_write_displayed_formula, None)
    )
    app.connect("autodoc-process-docstring", _link_to_sklearn, priority=100)
    app.connect("autodoc-skip-member", _skip_fields)
    app.connect("builder-inited", _write_generated, priority=100)
