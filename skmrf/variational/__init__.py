"""Variational inference: belief propagation, tree reweighting, mean field, mixtures."""
