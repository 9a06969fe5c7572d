"""UAI, libDAI and CRFsuite files, and conversion to pgmpy, networkx and ArviZ."""

from .crfsuite import read_crfsuite
from .export import to_arviz, to_networkx
from .fg import read_fg, write_fg
from .pgmpy import from_pgmpy, to_pgmpy
from .uai import read_evidence, read_result, read_uai, write_uai

__all__ = [
    "from_pgmpy",
    "read_crfsuite",
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
