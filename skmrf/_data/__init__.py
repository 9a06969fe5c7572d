"""Conversion of the user's rows, targets and cliques to arrays, and back."""
