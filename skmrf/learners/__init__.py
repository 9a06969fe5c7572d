"""Ways to estimate the two phases of the gradient, one algorithm a file."""

from .base import Learner
from .bpchain_cd import BPChainCD
from .cd import CD
from .exact import Exact
from .mean_field import MeanField
from .pcd import PCD
from .propagation import BP, BPCD
from .pseudo_likelihood import PseudoLikelihood, site_log_likelihood

LEARNERS = {
    "exact": Exact,
    "cd": CD,
    "pcd": PCD,
    "pseudo-likelihood": PseudoLikelihood,
    "bp": BP,
    "bp-cd": BPCD,
    "bpchain-cd": BPChainCD,
    "mean-field": MeanField,
}

__all__ = [
    "BP",
    "BPCD",
    "CD",
    "LEARNERS",
    "PCD",
    "BPChainCD",
    "Exact",
    "Learner",
    "MeanField",
    "PseudoLikelihood",
    "site_log_likelihood",
]
