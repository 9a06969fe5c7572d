"""Estimators, which the top-level package exports."""
