"""Tests that the examples run as scripts and save their pictures."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


OUTPUTS = {
    "applications/plot_house_votes.py": "class, physician-fee-freeze",
    "applications/plot_ising_of_spikes.py": "Ising       mean error of the log probability",
    "applications/plot_mixed_table.py": "of all held-out cars are lower: too expensive",
    "applications/plot_multilabel.py": "conditional RBM {'correct segments'",
    "applications/plot_nn_mrf_classifiers.py": "NNMRFClassifier    moons",
    "first_steps/plot_digits_completion.py": "log-likelihood of a held-out digit",
    "first_steps/plot_graph_recovery.py": "16 of 16 edges found, 0 false",
    "first_steps/plot_missing_values.py": "entries correctly",
    "first_steps/plot_neural_density.py": "NNMRFDensity      -2.",
    "first_steps/plot_rbm_features.py": "RBM           accuracy 9",
    "methods/plot_belief_propagation.py": "error of marginals",
    "methods/plot_clusters.py": "All results are identical.",
    "methods/plot_parallel_tempering_swaps.py": "tempered chains: 0.7",
    "methods/plot_sandwich_log_z.py": "plain path mean width in nats",
    "papers/plot_learners_multimodal.py": "psmc                  0.0",
    "papers/plot_restored_digits.py": "of the pixels wrong, maximum margin",
    "papers/plot_six_bits.py": "Total variation distance after 100 sweeps: 0.49",
}


def test_all_examples_are_listed():
    found = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py")}
    assert found == OUTPUTS.keys()


def test_all_sections_have_a_header():
    for section in {name.split("/")[0] for name in OUTPUTS}:
        assert (EXAMPLES / section / "GALLERY_HEADER.rst").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "output"), OUTPUTS.items())
def test_example(name, output, tmp_path):
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
    assert output in done.stdout
    picture = tmp_path / done.stdout.rsplit("saved ", 1)[1].strip()
    assert picture.read_bytes().startswith(b"\x89PNG")
