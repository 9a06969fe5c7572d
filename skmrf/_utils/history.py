"""Diagnostics of learning by epoch."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class History:
    """Diagnostics by epoch; every column has one entry an epoch."""

    columns: dict[str, list] = field(default_factory=dict)

    def append(self, row: dict[str, Any]):
        """Add one epoch; a column that starts late is padded with nan."""
        length = max((len(c) for c in self.columns.values()), default=0)
        for name in row:
            self.columns.setdefault(name, [np.nan] * length)
        for name, column in self.columns.items():
            column.append(row.get(name, np.nan))


class Latest(float):
    """Diagnostic whose last value of an epoch enters the history, not its mean.

    Parameters
    ----------
    x : float
    """
