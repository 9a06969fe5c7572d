"""Exact inference by variable elimination, or by enumeration of states."""
