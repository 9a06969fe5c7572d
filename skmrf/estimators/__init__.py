"""Estimators. Import them from :mod:`skmrf`."""
