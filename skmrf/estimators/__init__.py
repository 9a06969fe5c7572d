"""Estimators, one a file. Import them from :mod:`skmrf`."""
