"""Files of models, evidence and results in the UAI formats."""

from .evidence import read_evidence
from .results import Result, read_result
from .uai import read_uai, write_uai

__all__ = ["Result", "read_evidence", "read_result", "read_uai", "write_uai"]
