"""Conversion of user input to arrays and back."""
