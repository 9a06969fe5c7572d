"""Inference of labels of sequences, trees and graphs, exactly or by belief propagation."""

from ..exact import label_trees


def sums(graphs, potentials, weights=None, *, method="auto", **options):
    return label_trees.sums(graphs, potentials, weights)


def maxima(graphs, potentials):
    return label_trees.maxima(graphs, potentials)


def draws(graphs, potentials, rng):
    return label_trees.draws(graphs, potentials, rng)


def best(graphs, potentials, k):
    return label_trees.best(graphs, potentials, k)


def is_tractable(graphs):
    return graphs.trees is not None
