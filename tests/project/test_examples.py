"""The examples run as the scripts they are, and save the picture that they announce."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {name for name, _ in SCRIPTS}


SCRIPTS = [
    ("clusters.py", "The numbers agree, bit for bit."),
    ("plot_belief_propagation.py", "error of marginals"),
    ("plot_digits_completion.py", "log-likelihood of a held-out digit"),
    ("plot_graph_recovery.py", "16 of 16 edges found, 0 false"),
    ("plot_house_votes.py", "class, physician-fee-freeze"),
    ("plot_ising_of_spikes.py", "Ising       log probability of a frequent pattern off by 0."),
    ("plot_learners_multimodal.py", "psmc                  0.0"),
    ("plot_missing_values.py", "missing entries rightly"),
    ("plot_mixed_table.py", "of all cars below: too dear"),
    ("plot_multilabel.py", "conditional RBM {'bars right'"),
    ("plot_neural_density.py", "NNMRFDensity      -2."),
    ("plot_nn_mrf_classifiers.py", "NNMRFClassifier    moons"),
    ("plot_parallel_tempering_swaps.py", "tempered chains: 0.7"),
    ("plot_rbm_features.py", "RBM  "),
    ("plot_restored_digits.py", "of the pixels wrong, margin"),
    ("plot_sandwich_log_z.py", "plain path mean width in nats"),
    ("plot_six_bits.py", "Total variation distance after 100 sweeps: 0.49"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "says"), SCRIPTS)
def test_example(name, says, tmp_path):
    script = shutil.copy(EXAMPLES / name, tmp_path)
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        env=os.environ | {"MPLBACKEND": "Agg"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert says in done.stdout
    if not name.startswith("plot_"):
        return
    picture = tmp_path / done.stdout.rsplit("saved ", 1)[1].strip()
    assert picture.read_bytes().startswith(b"\x89PNG")
