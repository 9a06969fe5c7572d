"""Shared code of the benchmarks: options, timing, tables, JSON and PNG files."""

import argparse
import json
import os
import platform
import re
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
CELLS = RESULTS / "cells"
PACKAGES = ("skmrf", "numpy", "scipy", "numba", "scikit-learn", "pgmpy")


def options(description, *, data=False, cells=False):
    """Return the command-line parser of a benchmark, with ``--fast`` and ``--results``."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="small problems, about a minute")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for JSON and PNG")
    if data:
        parser.add_argument(
            "--data-home", default=None, help="folder of data sets; default: SKMRF_DATA"
        )
    if cells:
        parser.add_argument(
            "--cells",
            type=Path,
            default=CELLS,
            help="folder of finished results, which are not computed again",
        )
    return parser


# Timing ------------------------------------------------------------------------------------


def interleaved(functions, repeats=5):
    """Run functions in turn, repeatedly, and return the median processor seconds of each.

    The functions are called in turn, so that noise affects all of them equally. Processor time
    excludes other programs. Limit all libraries to one thread before the call.

    Parameters
    ----------
    functions : dict of str to callable
        Functions without parameters. Each is called once untimed (compilation, caches), and then
        ``repeats`` times.
    repeats : int, default=5
        Number of timed calls of each function.
    """
    for function in functions.values():
        function()
    seconds = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.process_time()
            function()
            seconds[name].append(time.process_time() - start)
    return {name: float(np.median(s)) for name, s in seconds.items()}


def calls_in(function, seconds):
    """Return the number of calls of a function that take about the given seconds."""
    function()
    start = time.perf_counter()
    function()
    return max(1, round(seconds / max(time.perf_counter() - start, 1e-6)))


def timed(function, *args, **kwargs):
    """Call a function and return (result, seconds)."""
    start = time.perf_counter()
    result = function(*args, **kwargs)
    return result, time.perf_counter() - start


def peak_bytes():
    """Return the peak resident memory of this process in bytes."""
    peak = _read_status("VmHWM")  # ru_maxrss would include the memory of the parent at the fork
    if peak is None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak = peak if sys.platform == "darwin" else 1024 * peak
    return peak


def reset_peak():
    """Reset :func:`peak_bytes` if the system allows it, and return the current memory in bytes."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _read_status("VmRSS") or peak_bytes()


def _read_status(key):
    """Return an entry of /proc/self/status in bytes, or None if it does not exist."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    values = [line.split()[1] for line in lines if line.startswith(f"{key}:")]
    return 1024 * int(values[0]) if values else None


def in_child(function, *args, **kwargs):
    """Call a function in a new process, which has its own peak memory, and return the result."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()


# Records -----------------------------------------------------------------------------------


def _get_versions():
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _get_processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def describe_machine():
    """Return the name of the processor and the number of cores that this process may use."""
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{_get_processor()}, {n_cores} cores"


def save(args, name, rows, columns, notes=()):
    """Print the table of a benchmark, and write it to a JSON file.

    Parameters
    ----------
    args : parsed options
        Options of the command; ``args.results`` is the folder of the file.
    name : str
        Name of the file, without ``.json``.
    rows : list of dict
        Rows of the table.
    columns : dict of str to str
        Keys of the rows and their headings, in order. Other keys are only in the file.
    notes : sequence of str
        Lines to print below the table.
    """
    print(markdown(rows, columns), *notes, sep="\n", flush=True)
    args.results.mkdir(parents=True, exist_ok=True)
    record = {
        "name": name,
        "fast": args.fast,
        "date": date.today().isoformat(),
        "machine": describe_machine(),
        "versions": _get_versions(),
        "columns": columns,
        "rows": rows,
        "notes": list(notes),
    }
    (args.results / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


# Tables of cells ---------------------------------------------------------------------------


def computed_from(n_results, n_missing=0):
    """Return the text below a table that states the number of summarised results.

    Parameters
    ----------
    n_results : int
        Number of results in the table.
    n_missing : int, default=0
        Number of requested results that have not been computed.
    """
    missing = f" Requested results that are missing: {n_missing:,}." if n_missing else ""
    return f"Computed from {n_results:,} results.{missing}"


def read_tables(path):
    """Return the tables in a file of :func:`write_tables`, keyed by name."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found = re.findall(r"^<!-- (.+) -->\n(.*?)^<!-- end of \1 -->$", text, re.DOTALL | re.MULTILINE)
    return {name: table.strip() for name, table in found}


def write_tables(path, tables):
    """Write named tables into one Markdown file.

    Parameters
    ----------
    path : Path
        File to write. Its tables with other names are kept.
    tables : dict of str to str
        Texts of the tables, keyed by name. A page can include the text between ``<!-- name -->``
        and ``<!-- end of name -->``.
    """
    parts = [
        f"## {name}\n\n<!-- {name} -->\n\n{text}\n\n<!-- end of {name} -->\n"
        for name, text in (read_tables(path) | tables).items()
    ]
    path.write_text("\n".join(parts), encoding="utf-8")


def keep_larger_table(args, file, table, n_results):
    """Return options that write to another folder if the existing table has more results.

    Parameters
    ----------
    args : parsed options
        Options of the command.
    file : str
        Name of a Markdown file in ``args.results``.
    table : str
        Name of a table in the file. If this table was computed from more results than the new one
        (see :func:`computed_from`), the returned ``results`` is the folder ``partial`` in
        ``args.results``.
    n_results : int
        Number of results of the new table. If it is 0, the program ends.
    """
    if not n_results:
        raise SystemExit(f"There are no cells in {args.cells}. Run without --table-only first.")
    path = args.results / file
    text = read_tables(path).get(table, "")
    found = re.search(r"^Computed from ([\d,]+) results", text, re.MULTILINE)
    n_previous = int(found[1].replace(",", "")) if found else 0
    if n_previous <= n_results:
        return args
    folder = args.results / "partial"
    folder.mkdir(exist_ok=True)
    print(
        f"{path} is computed from {n_previous:,} results, but {args.cells} has only "
        f"{n_results:,}. {path} is unchanged, and the new tables are in {folder}.",
        flush=True,
    )
    return argparse.Namespace(**(vars(args) | {"results": folder}))


def _format_value(value):
    if value is None:
        return ""
    if isinstance(value, float):
        if abs(value) >= 1e9:
            return f"{value:.1e}"
        return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def markdown(rows, columns):
    """Format rows as a Markdown table with aligned columns."""
    cells = [list(columns.values())]
    cells += [[_format_value(row.get(k)) for k in columns] for row in rows]
    widths = [max(len(line[c]) for line in cells) for c in range(len(columns))]
    lines = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in cells]
    rule = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def bars(args, name, rows, keys, label, *, xlabel, log=True):
    """Write a bar chart to ``name.png``, or print a message if matplotlib is not installed.

    Parameters
    ----------
    args : parsed options
        Options of the command; ``args.results`` is the folder of the file.
    name : str
        Name of the file, without ``.png``.
    rows : list of dict
        Rows of the table. Each has a group of bars.
    keys : dict of str to str
        Keys of the rows and their names in the legend. Each has one bar in a group.
    label : callable, row -> str
        Function that returns the label of a row.
    xlabel : str
        Label of the horizontal axis.
    log : bool, default=True
        Whether the horizontal axis is logarithmic.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no PNG", flush=True)
        return
    figure = Figure(figsize=(8, 1 + 0.3 * len(rows) * len(keys)), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(keys)
    for k, (key, legend) in enumerate(keys.items()):
        values = [row.get(key) for row in rows]
        here = [r for r, v in enumerate(values) if v is not None]
        places = [r + k * height for r in here]
        axes.barh(places, [values[r] for r in here], height, label=legend)
    axes.set_yticks(np.arange(len(rows)) + 0.4 - height / 2, [label(row) for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log" if log else "linear")
    axes.set_xlabel(xlabel)
    axes.legend()
    figure.savefig(args.results / f"{name}.png", dpi=120)
