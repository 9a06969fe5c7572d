"""Compiled loops: arrays in, arrays out. The only folder that imports numba."""
