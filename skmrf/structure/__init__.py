"""Which pairs of variables interact: candidates, estimates, tests, and what edges are worth."""

from .bootstrap import Bootstraps, repeated
from .columns import Columns
from .estimation import Estimation, Schedule
from .fitted_graph import FittedGraph, network
from .path import Path
from .rows import Rows
from .stepwise import Criteria, select, select_more

__all__ = [
    "Bootstraps",
    "Columns",
    "Criteria",
    "Estimation",
    "FittedGraph",
    "Path",
    "Rows",
    "Schedule",
    "network",
    "repeated",
    "select",
    "select_more",
]
