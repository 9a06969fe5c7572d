"""Display objects that plot fitted models, with the interface of scikit-learn displays.

The displays need the optional dependencies ``skmrf[plot]``. The class method ``from_estimator``
computes the values and plots them. The constructor accepts values that were computed before. The
method ``plot`` plots the values again, in given axes or in new ones. Matplotlib is imported when
the first plot is made.
"""

from .coupling_graph import CouplingGraphDisplay
from .history import HistoryDisplay
from .log_partition import LogPartitionDisplay
from .moments import MomentsDisplay
from .paths import RegularizationPathDisplay, StructurePathDisplay
from .samples import ChainsDisplay, SyntheticRowsDisplay
from .weights import CRFWeightsDisplay, FiltersDisplay

__all__ = [
    "CRFWeightsDisplay",
    "ChainsDisplay",
    "CouplingGraphDisplay",
    "FiltersDisplay",
    "HistoryDisplay",
    "LogPartitionDisplay",
    "MomentsDisplay",
    "RegularizationPathDisplay",
    "StructurePathDisplay",
    "SyntheticRowsDisplay",
]
