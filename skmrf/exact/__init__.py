"""Exact inference: variable elimination, enumeration, and sums over one layer."""
