"""Training history: the diagnostics of each epoch."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class History:
    """Training history: the diagnostics of each epoch.

    Attributes
    ----------
    columns : dict of str to list
        Values of each diagnostic, one per epoch.
    """

    columns: dict[str, list] = field(default_factory=dict)

    def append(self, row: dict[str, Any]):
        """Add the diagnostics of one epoch.

        Parameters
        ----------
        row : dict of str to object
            Value of each diagnostic. A diagnostic has nan in epochs without a value.
        """
        length = max((len(c) for c in self.columns.values()), default=0)
        for name in row:
            self.columns.setdefault(name, [np.nan] * length)
        for name, column in self.columns.items():
            column.append(row.get(name, np.nan))


class Latest(float):
    """Diagnostic whose last value in an epoch is stored in the history, instead of its mean.

    Parameters
    ----------
    x : float
        Value of the diagnostic.
    """
