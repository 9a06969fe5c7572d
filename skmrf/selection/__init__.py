"""Which pairs of variables interact: candidates, estimates, tests, and what edges are worth."""

from .bootstrap import Bootstraps, repeated
from .columns import Columns
from .corrections import average_product_correction, similarity_weights
from .estimates import Estimation, Schedule
from .findings import Findings, network
from .path import Path
from .rounds import Criteria, select, select_more
from .rows import Rows

__all__ = [
    "Bootstraps",
    "Columns",
    "Criteria",
    "Estimation",
    "Findings",
    "Path",
    "Rows",
    "Schedule",
    "average_product_correction",
    "network",
    "repeated",
    "select",
    "select_more",
    "similarity_weights",
]
