"""Types and functions that all subpackages use: validation, parallel execution, interrupts."""
