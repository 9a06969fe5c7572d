"""Exact inference by variable elimination, enumeration of states, or sums over one layer."""
