"""Reading and writing of UAI and libDAI files, and conversion to pgmpy, networkx and ArviZ."""

from .arviz import to_arviz
from .evidence import read_evidence
from .fg import read_fg, write_fg
from .names import NamedFactorGraph
from .networkx import to_networkx
from .pgmpy import from_pgmpy, to_pgmpy
from .results import Result, read_result
from .uai import read_uai, write_uai

__all__ = [
    "NamedFactorGraph",
    "Result",
    "from_pgmpy",
    "read_evidence",
    "read_fg",
    "read_result",
    "read_uai",
    "to_arviz",
    "to_networkx",
    "to_pgmpy",
    "write_fg",
    "write_uai",
]
