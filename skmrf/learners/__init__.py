"""Ways to estimate the two phases of the gradient, one algorithm a file."""

from .base import Learner
from .cd import CD
from .exact import Exact
from .pcd import PCD
from .pseudo_likelihood import PseudoLikelihood, site_log_likelihood

LEARNERS = {
    "exact": Exact,
    "cd": CD,
    "pcd": PCD,
    "pseudo-likelihood": PseudoLikelihood,
}

__all__ = [
    "CD",
    "LEARNERS",
    "PCD",
    "Exact",
    "Learner",
    "PseudoLikelihood",
    "site_log_likelihood",
]
