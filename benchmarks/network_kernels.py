"""Stacks of small networks: the kernels of neural potentials against batched numpy.

The table shows nanoseconds per network and point, for the value and for the gradient with respect
to all parameters, in float32 and float64. The numpy implementation uses products of stacked
matrices (``matmul``), layer by layer. It is timed in two versions: for all points at once, and for
blocks of points, which keep intermediate arrays in the cache if there are few networks. Both
implementations take rows of data, so networks share their inputs. The last rows show the fraction
of the processor time of a fit in the kernels.
"""

import time
import warnings
from itertools import pairwise

import numpy as np
from _common import bars, calls_in, interleaved, markdown, options, save, write_tables
from gradient_step import clock
from threadpoolctl import threadpool_limits

from skmrf import NetworkPotentials, NNMRFDensity
from skmrf._kernels.networks import SELU_BOTTOM, SELU_SCALE
from skmrf.energies import NeuralEnergy, neural

N_POINTS, BLOCK = 1000, 100
SHAPES = (8, 8), (3, 4, 4, 3), (4, 5, 5, 4), (16, 16)
CASES = {"nodes": (12, 60), "edges": (66, 1770)}  # complete graphs of 12 and 60 variables
COMPILED = (neural, "network_values"), (neural, "network_gradients")
COLUMNS = {
    "what": "what",
    "networks": "networks",
    "layers": "hidden units",
    "dtype": "dtype",
    "ns": "ns a network and point",
    "numpy_ns": "numpy, ns",
    "blocks_ns": "numpy by blocks, ns",
    "ratio": "numpy / kernel",
    "ratio_blocks": "by blocks / kernel",
    "per_weight": "ns a weight",
    "share": "share of a fit in kernels",
    "seconds": "fit s",
}


# Numpy implementation ----------------------------------------------------------------------


class NetworkStack:
    """Networks with numerical inputs, evaluated by products of stacked matrices."""

    def __init__(self, theta, layers, members):
        self.members, self.scale, self.parts, at = members, theta[:, -1, None], [], 0
        sizes = [members.shape[1], *layers, 1]
        for a, b in pairwise(sizes):
            weights = theta[:, at : at + a * b].reshape(-1, a, b).transpose(0, 2, 1)
            at += a * b
            self.parts.append((np.ascontiguousarray(weights), theta[:, at : at + b, None]))
            at += b

    def forward(self, inputs):
        """Return the units of each layer at all points; the last are tanh of the output."""
        units = [inputs[self.members]]
        for weights, biases in self.parts[:-1]:
            net = weights @ units[-1] + biases
            low = np.expm1(np.minimum(net, 0))
            units.append(SELU_SCALE * np.maximum(net, 0) + SELU_BOTTOM * low)
        weights, biases = self.parts[-1]
        return [*units, np.tanh(weights @ units[-1] + biases)]

    def values(self, inputs):
        """Return the values of all networks, shape (n_networks, n_points)."""
        return self.scale * self.forward(inputs)[-1][:, 0]

    def gradient(self, inputs, weights):
        """Return gradients of the weighted sums of values, shape (n_networks, n_parameters)."""
        units = self.forward(inputs)
        value = units.pop()
        parts = [(value[:, 0] @ weights)[:, None]]
        slope = self.scale[:, :, None] * weights * (1 - value**2)
        for k in range(len(self.parts) - 1, -1, -1):
            by_weight = units[k] @ slope.transpose(0, 2, 1)
            parts += [slope.sum(axis=2), by_weight.reshape(len(by_weight), -1)]
            if k:
                derivative = np.where(units[k] > 0, SELU_SCALE, units[k] + SELU_BOTTOM)
                slope = (self.parts[k][0].transpose(0, 2, 1) @ slope) * derivative
        return np.concatenate(parts[::-1], axis=1)


# Timing ------------------------------------------------------------------------------------


def problem(kind, n_networks, layers, dtype, n_points):
    """Return an energy, its inputs, row weights, and the same networks in numpy."""
    n = n_networks if kind == "nodes" else round((1 + (1 + 8 * n_networks) ** 0.5) / 2)
    edges = [(i, j) for i in range(n) for j in range(i + 1, n)]
    layer_names = {"node_layers": layers, "edge_layers": layers}
    energy = NeuralEnergy.random(
        np.zeros(n, int), edges, precision=np.eye(n), dtype=dtype, random_state=0, **layer_names
    )
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(n, n_points)).astype(dtype)
    weights = (rng.random((1, n_points)) / n_points).astype(dtype)
    members = energy._members(kind, rows=True)
    return energy, inputs, weights, NetworkStack(energy.theta[kind], layers, members)


def passes(kind, energy, inputs, weights, stack):
    """Return functions that compute values and gradients, keyed by quantity and implementation."""
    numeric = energy.n_states == 0
    members = energy._members(kind, rows=True)
    blocks = [slice(s, s + BLOCK) for s in range(0, inputs.shape[1], BLOCK)]

    def gradient():
        out = np.zeros_like(energy.theta[kind])
        energy._add_derivatives(kind, inputs, members, numeric, weights, out)
        return out

    return {
        ("value", "kernel"): lambda: energy._values(kind, inputs, members, numeric),
        ("value", "numpy"): lambda: stack.values(inputs),
        ("value", "blocks"): lambda: [stack.values(inputs[:, part]) for part in blocks],
        ("gradient", "kernel"): gradient,
        ("gradient", "numpy"): lambda: stack.gradient(inputs, weights[0]),
        ("gradient", "blocks"): lambda: sum(
            stack.gradient(inputs[:, part], weights[0, part]) for part in blocks
        ),
    }


def measure(kind, n_networks, layers, dtype, fast):
    """Return two rows of the table, for values and for gradients."""
    n_points = 3 * BLOCK if fast else N_POINTS
    functions = passes(kind, *problem(kind, n_networks, layers, dtype, n_points))
    calls = {k: calls_in(f, 0.02 if fast else 0.1) for k, f in functions.items()}
    batches = {k: lambda k=k: [functions[k]() for _ in range(calls[k])] for k in functions}
    medians = interleaved(batches, 3 if fast else 7)
    ns = {k: 1e9 * s / (calls[k] * n_networks * n_points) for k, s in medians.items()}
    sizes = [2 if kind == "edges" else 1, *layers, 1]
    n_weights = sum(a * b for a, b in pairwise(sizes))
    for what in ("value", "gradient"):
        yield {
            "what": f"{what}, {kind}",
            "networks": n_networks,
            "layers": ", ".join(map(str, layers)),
            "dtype": np.dtype(dtype).name,
            "ns": ns[what, "kernel"],
            "numpy_ns": ns[what, "numpy"],
            "blocks_ns": ns[what, "blocks"],
            "ratio": ns[what, "numpy"] / ns[what, "kernel"],
            "ratio_blocks": ns[what, "blocks"] / ns[what, "kernel"],
            "per_weight": ns[what, "kernel"] / n_weights,
        }


def share(n_rows, n_columns, max_iter):
    """Return the fraction of the processor time of a fit in the kernels of networks."""
    X = np.random.default_rng(0).normal(size=(n_rows, n_columns)) @ _mixing(n_columns)
    networks = NetworkPotentials(max_iter=max_iter, early_stopping=False)
    model = NNMRFDensity(networks, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        NNMRFDensity(NetworkPotentials(max_iter=3), random_state=0).fit(X[:100])
        with clock(COMPILED) as inside:
            start = time.process_time()
            model.fit(X)
            total = time.process_time() - start
    return {
        "what": f"a fit of {n_rows} rows of {n_columns} columns, {max_iter} epochs",
        "networks": n_columns * (n_columns + 1) // 2,
        "layers": ", ".join(map(str, networks.edge_layers)),
        "dtype": "float32",
        "share": inside[0] / total,
        "seconds": total,
    }


def _mixing(n):
    return np.eye(n) + 0.5 * np.eye(n, k=1)


def main(argv=None):
    args = options(__doc__).parse_args(argv)
    rows = []
    with threadpool_limits(1):
        for kind, sizes in CASES.items():
            for n_networks in sizes[:1] if args.fast else sizes:
                for layers in SHAPES[:2] if args.fast else SHAPES:
                    for dtype in (np.float32, np.float64):
                        rows += measure(kind, n_networks, layers, dtype, args.fast)
        for n_rows, n_columns in [(500, 4)] if args.fast else [(2000, 3), (2000, 12), (400, 60)]:
            rows.append(share(n_rows, n_columns, 5 if args.fast else 50))
    save(args, "network_kernels", rows, COLUMNS, NOTES)
    write_tables(
        args.results / "neural_potentials.md", {"network kernels": markdown(rows, COLUMNS)}
    )
    bars(
        args, "network_kernels", [r for r in rows if "ratio" in r],
        {"numpy_ns": "numpy", "blocks_ns": "numpy by blocks", "ns": "kernel"},
        lambda row: f"{row['what']}, {row['networks']} of {row['layers']}, {row['dtype']}",
        xlabel="ns a network and point",
    )  # fmt: skip


NOTES = (
    f"Processor time, one thread, {N_POINTS} points (--fast: {3 * BLOCK}), blocks of {BLOCK}; "
    "medians of interleaved runs.",
)

if __name__ == "__main__":
    main()
