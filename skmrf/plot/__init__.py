"""Pictures of what was learned: displays as scikit-learn has them. Needs ``skmrf[plot]``.

``from_estimator`` computes and draws, the constructor takes the numbers themselves, and ``plot``
draws again, into axes that are given or its own. matplotlib is imported when something is drawn.
"""

from .chains import ChainsDisplay
from .coupling_graph import CouplingGraphDisplay
from .filters import FiltersDisplay
from .history import HistoryDisplay
from .log_partition import LogPartitionDisplay
from .moments import MomentsDisplay
from .structure_path import StructurePathDisplay

__all__ = [
    "ChainsDisplay",
    "CouplingGraphDisplay",
    "FiltersDisplay",
    "HistoryDisplay",
    "LogPartitionDisplay",
    "MomentsDisplay",
    "StructurePathDisplay",
]
