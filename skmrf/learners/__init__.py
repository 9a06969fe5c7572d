"""Learners: training algorithms, which estimate the gradient of the log-likelihood."""

from .._utils.phases import CliqueMoments, States
from .._utils.rows import Batch
from .base import DataPhase, Learner
from .bp import BP, BPCD, MeanField
from .bpchain_cd import BPChainCD
from .cd import CD, CDPercLoss
from .conditional import LR, MLEBP, MLEMF, ConditionalLearner
from .crf import (
    SSVM,
    CRFLikelihood,
    CRFPropagation,
    CRFPseudoLikelihood,
    GraphLearner,
    Perceptron,
)
from .exact import Exact
from .max_margin import LSSVM, MSSVM
from .mcmc_mle import MCMCMLE, ParticleFilteredMCMCMLE
from .pcd import PCD
from .pseudo_likelihood import PseudoLikelihood
from .ptt import PTT
from .registry import register
from .smc import PSMC, SMC
from .tempering import ParallelTempering, TemperedTransitions
from .variational import BeliefLearner, Grid, Variational

for _name, _learner in {
    "exact": Exact,
    "cd": CD,
    "pcd": PCD,
    "mcmc-mle": MCMCMLE,
    "pf-mcmc-mle": ParticleFilteredMCMCMLE,
    "tempered-transitions": TemperedTransitions,
    "parallel-tempering": ParallelTempering,
    "ptt": PTT,
    "smc": SMC,
    "psmc": PSMC,
    "pseudo-likelihood": PseudoLikelihood,
    "bp": BP,
    "bp-cd": BPCD,
    "bpchain-cd": BPChainCD,
    "mean-field": MeanField,
    "lr": LR,
    "cd-percloss": CDPercLoss,
    "mle-mf": MLEMF,
    "mle-bp": MLEBP,
    "lssvm": LSSVM,
    "mssvm": MSSVM,
    "variational": Variational,
    "grid": Grid,
}.items():
    register(_name, _learner)

for _name, _learner in {  # of the family "crf"
    "exact": CRFLikelihood,
    "bp": CRFPropagation,
    "pseudo-likelihood": CRFPseudoLikelihood,
    "ssvm": SSVM,
    "perceptron": Perceptron,
}.items():
    register(_name, _learner)

__all__ = [
    "BP",
    "BPCD",
    "CD",
    "LR",
    "LSSVM",
    "MCMCMLE",
    "MLEBP",
    "MLEMF",
    "MSSVM",
    "PCD",
    "PSMC",
    "PTT",
    "SMC",
    "SSVM",
    "BPChainCD",
    "Batch",
    "BeliefLearner",
    "CDPercLoss",
    "CRFPropagation",
    "CliqueMoments",
    "ConditionalLearner",
    "DataPhase",
    "Exact",
    "GraphLearner",
    "Grid",
    "Learner",
    "MeanField",
    "ParallelTempering",
    "ParticleFilteredMCMCMLE",
    "Perceptron",
    "PseudoLikelihood",
    "States",
    "TemperedTransitions",
    "Variational",
    "register",
]
