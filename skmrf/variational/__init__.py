"""Variational inference: belief propagation, mean field, and mixture distributions."""
