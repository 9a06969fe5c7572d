"""Loops over arrays that numba compiles.

No other subpackage of skmrf imports numba.
"""
