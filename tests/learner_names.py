"""Learners by name, for the tests of each kind of model."""

from skmrf.energies import BipartiteEnergy, ConditionalBipartiteEnergy, FactorGraph, NeuralEnergy
from skmrf.learners import BeliefLearner, ConditionalLearner, accepted

TABLE_LEARNERS = accepted(FactorGraph)
LAYERED_LEARNERS = accepted(BipartiteEnergy)
CONDITIONAL_LEARNERS = accepted(ConditionalBipartiteEnergy, ConditionalLearner)
CONTINUOUS_LEARNERS = accepted(NeuralEnergy, BeliefLearner)
