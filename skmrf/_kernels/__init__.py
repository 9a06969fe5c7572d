"""Compiled loops over arrays; no other package imports numba."""
