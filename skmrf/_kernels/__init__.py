"""Numerical loops that are compiled with numba.

No other subpackage of skmrf imports numba.
"""
