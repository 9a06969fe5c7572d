"""Models and learners that the tests of learners run over."""

VARIATIONAL = ["bp", "bp-cd", "bpchain-cd", "mean-field"]
FINITE = ["chain", "cycle", "grid", "complete", "orders", "tied", "constant_binary"]
