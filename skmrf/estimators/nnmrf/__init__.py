"""Markov random fields with neural-network potentials."""
