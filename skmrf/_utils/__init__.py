"""Shared types, input validation, parallel execution and interrupt handling."""
