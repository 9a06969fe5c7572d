"""Formulas as MathML, which browsers draw without a script or a network."""

import re

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

SIZES = re.compile(r"\\(?:big|Big|bigg|Bigg)[lr]?(?![A-Za-z])")


def inline(writer, node):
    """Visit a formula within a line."""
    writer.body.append(_converted(node, as_block=False))
    raise SkipNode


def block(writer, node):
    """Visit a formula of its own."""
    writer.body.append(f'<div class="math">{_converted(node, as_block=True)}</div>')
    raise SkipNode


def _converted(node, as_block):
    """MathML; brackets stretch by themselves, so TeX's sizes of them are left out."""
    return tex2mathml(SIZES.sub("", node.astext()), as_block=as_block)


def setup(app):
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True}
