"""Report of all benchmark results: RESULTS.md from the JSON files."""

import argparse
import json
from pathlib import Path

from _common import RESULTS, markdown

ORDER = (
    "gibbs",
    "gradient_step",
    "nltcs_exact",
    "learners",
    "propagation_cost",
    "propagation_chain",
    "boltzmann",
    "rbm",
    "layers",
    "layer_messages",
    "structured",
    "multilabel",
    "nnmrf_accuracy",
    "nnmrf_accuracy_paper",
    "nnmrf_density",
    "nnmrf_density_paper",
    "nnmrf_trivariate",
    "nnmrf_curves",
    "nnmrf_mnist",
    "network_kernels",
    "structure_paths",
    "structure_recovery",
    "structure_grid",
    "structure_calibration",
    "structure_real",
    "contacts",
    "density",
    "scale",
)


def section(path):
    """Return the section of one benchmark in Markdown."""
    record = json.loads(path.read_text())
    versions = ", ".join(f"{name} {v}" for name, v in record["versions"].items())
    fast = ", with --fast" if record["fast"] else ""
    return "\n\n".join(
        [
            f"## {record['name']}",
            f"{record['date']}{fast}; {record['machine']}; {versions}.",
            markdown(record["rows"], record["columns"]),
            "\n".join(f"- {note}" for note in record["notes"]),
        ]
    ).rstrip()


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON files")
    target = Path(__file__).parent / "RESULTS.md"
    parser.add_argument("--to", type=Path, default=target)
    args = parser.parse_args(argv)
    paths = [args.results / f"{name}.json" for name in ORDER]
    parts = [section(path) for path in paths if path.exists()]
    head = "# Results\n\nWritten by `report.py`; see [README.md](README.md) for what is measured."
    args.to.write_text("\n\n".join([head, *parts]) + "\n")


if __name__ == "__main__":
    main()
