"""Learners by class of energy, and names of small models, for the tests of learners."""

from skmrf.energies import BipartiteEnergy, ConditionalBipartiteEnergy, FactorGraph, NeuralEnergy
from skmrf.learners import BeliefLearner, ConditionalLearner, accepted

TABLE_LEARNERS = accepted(FactorGraph)
LAYERED_LEARNERS = accepted(BipartiteEnergy)
CONDITIONAL_LEARNERS = accepted(ConditionalBipartiteEnergy, ConditionalLearner)
CONTINUOUS_LEARNERS = accepted(NeuralEnergy, BeliefLearner)

VARIATIONAL = ["bp", "bp-cd", "bpchain-cd", "mean-field"]
FINITE = ["chain", "cycle", "grid", "complete", "orders", "tied", "constant_binary"]
