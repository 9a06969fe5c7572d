"""Exact inference: variable elimination, enumeration, sums over one layer."""
