"""Ways to estimate the two phases of the gradient, one algorithm a file."""

from .base import Learner
from .bp import BP, BPCD
from .bpchain_cd import BPChainCD
from .cd import CD
from .cd_percloss import CDPercLoss
from .conditional_mle import MLEBP, MLEMF
from .exact import Exact
from .grid import Grid
from .initial_mixture import completed, normal_beliefs
from .lr import LR
from .max_margin import LSSVM, MSSVM
from .mcmc_mle import MCMCMLE, ParticleFilteredMCMCMLE
from .mean_field import MeanField
from .parallel_tempering import ParallelTempering
from .pcd import PCD
from .pseudo_likelihood import PseudoLikelihood, site_log_likelihood
from .psmc import PSMC
from .smc import SMC
from .tempered_transitions import TemperedTransitions
from .variational import Variational

LEARNERS = {
    "exact": Exact,
    "cd": CD,
    "pcd": PCD,
    "mcmc-mle": MCMCMLE,
    "pf-mcmc-mle": ParticleFilteredMCMCMLE,
    "tempered-transitions": TemperedTransitions,
    "parallel-tempering": ParallelTempering,
    "smc": SMC,
    "psmc": PSMC,
    "pseudo-likelihood": PseudoLikelihood,
    "bp": BP,
    "bp-cd": BPCD,
    "bpchain-cd": BPChainCD,
    "mean-field": MeanField,
}

#: Of models of outputs given inputs.
CONDITIONAL_LEARNERS = {
    "lr": LR,
    "cd": CD,
    "cd-percloss": CDPercLoss,
    "mle-mf": MLEMF,
    "mle-bp": MLEBP,
    "lssvm": LSSVM,
    "mssvm": MSSVM,
}

#: Of models of numbers with neural potentials.
CONTINUOUS_LEARNERS = {"variational": Variational, "grid": Grid}

__all__ = [
    "BP",
    "BPCD",
    "CD",
    "CONDITIONAL_LEARNERS",
    "CONTINUOUS_LEARNERS",
    "LEARNERS",
    "LR",
    "LSSVM",
    "MCMCMLE",
    "MLEBP",
    "MLEMF",
    "MSSVM",
    "PCD",
    "PSMC",
    "SMC",
    "BPChainCD",
    "CDPercLoss",
    "Exact",
    "Grid",
    "Learner",
    "MeanField",
    "ParallelTempering",
    "ParticleFilteredMCMCMLE",
    "PseudoLikelihood",
    "TemperedTransitions",
    "Variational",
    "completed",
    "normal_beliefs",
    "site_log_likelihood",
]
