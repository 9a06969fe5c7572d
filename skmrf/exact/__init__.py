"""Exact inference: variable elimination, enumeration of states, and sums over one layer."""
