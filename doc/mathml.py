"""Formulas as MathML, which browsers render without scripts or a network."""

import re

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

SIZES = re.compile(r"\\(?:big|Big|bigg|Bigg)[lr]?(?![A-Za-z])")


def inline(writer, node):
    """Render an inline formula."""
    writer.body.append(_converted(node, as_block=False))
    raise SkipNode


def block(writer, node):
    """Render a displayed formula."""
    writer.body.append(f'<div class="math">{_converted(node, as_block=True)}</div>')
    raise SkipNode


def _converted(node, as_block):
    """Convert to MathML without TeX's bracket sizes, because brackets stretch by themselves."""
    return tex2mathml(SIZES.sub("", node.astext()), as_block=as_block)


def setup(app):
    """Register the renderer; called by Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True}
