"""What all benchmarks share: options, side-by-side timing, tables, JSON and PNG files."""

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
    """Return a parser with ``--fast``, ``--results``; on request ``--data-home``, ``--cells``."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="small problems, about a minute")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of JSON and PNG")
    if data:
        parser.add_argument(
            "--data-home", default=None, help="folder of data sets; default: SKMRF_DATA"
        )
    if cells:
        parser.add_argument(
            "--cells",
            type=Path,
            default=CELLS,
            help="folder of finished cells, which are not computed again",
        )
    return parser


# Timing ------------------------------------------------------------------------------------


def interleaved(functions, repeats=5):
    """Median processor seconds of every function, called in turn so that noise falls on all alike.

    Processor time leaves out what other programs take; limit all libraries to one thread.

    Parameters
    ----------
    functions : dict of str to callable
        Each is called once untimed (compilation, caches), then ``repeats`` times.
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
    """How many calls of a function take that many seconds."""
    function()
    start = time.perf_counter()
    function()
    return max(1, round(seconds / max(time.perf_counter() - start, 1e-6)))


def timed(function, *args, **kwargs):
    """(result, seconds) of one call."""
    start = time.perf_counter()
    result = function(*args, **kwargs)
    return result, time.perf_counter() - start


def peak_bytes():
    """Largest resident memory of this process so far."""
    peak = _status("VmHWM")  # ru_maxrss would count what the parent held when it forked
    if peak is None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak = peak if sys.platform == "darwin" else 1024 * peak
    return peak


def restart_peak():
    """Resident memory now, from which :func:`peak_bytes` counts anew where the system allows it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS") or peak_bytes()


def _status(key):
    """Bytes of an entry of /proc/self/status, None where there is none."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith(f"{key}:")]
    return 1024 * int(found[0]) if found else None


def in_child(function, *args, **kwargs):
    """Result of a call in a fresh process, whose peak memory is then its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()


# Records -----------------------------------------------------------------------------------


def _versions():
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def machine():
    """Processor and number of its cores that this process may use."""
    able = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{_processor()}, {able} cores"


def save(args, name, rows, columns, notes=()):
    """Print the table and write ``name.json``.

    Parameters
    ----------
    args : parsed options
    name : str
    rows : list of dict
    columns : dict of str to str
        Keys of the rows and their headings, in order; other keys are only in the file.
    notes : sequence of str
    """
    print(markdown(rows, columns), *notes, sep="\n", flush=True)
    args.results.mkdir(parents=True, exist_ok=True)
    record = {
        "name": name,
        "fast": args.fast,
        "date": date.today().isoformat(),
        "machine": machine(),
        "versions": _versions(),
        "columns": columns,
        "rows": rows,
        "notes": list(notes),
    }
    (args.results / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


# Tables of cells ---------------------------------------------------------------------------


def computed_from(n_results, n_missing=0):
    """Return the line below a table that says how many results it summarises.

    Parameters
    ----------
    n_results : int
    n_missing : int, default=0
        Number of requested results that have not been computed.
    """
    missing = f" Requested results that are missing: {n_missing:,}." if n_missing else ""
    return f"Computed from {n_results:,} results.{missing}"


def read_tables(path):
    """Return the texts of the tables in a file of :func:`write_tables`, keyed by their names."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found = re.findall(r"^<!-- (.+) -->\n(.*?)^<!-- end of \1 -->$", text, re.DOTALL | re.MULTILINE)
    return {name: table.strip() for name, table in found}


def write_tables(path, tables):
    """Write named tables into one Markdown file.

    Parameters
    ----------
    path : Path
        Tables of other names that the file has are kept.
    tables : dict of str to str
        Names and texts. A page includes one of them between ``<!-- name -->`` and
        ``<!-- end of name -->``.
    """
    parts = [
        f"## {name}\n\n<!-- {name} -->\n\n{text}\n\n<!-- end of {name} -->\n"
        for name, text in (read_tables(path) | tables).items()
    ]
    path.write_text("\n".join(parts), encoding="utf-8")


def keep_larger_table(args, file, table, n_results):
    """Return options whose tables do not replace a table of more results.

    Parameters
    ----------
    args : parsed options
    file : str
        Name of a Markdown file in ``args.results``.
    table : str
        Name of a table in it. If its line of :func:`computed_from` has a larger number of
        results, the returned ``results`` is the folder ``partial`` in ``args.results``.
    n_results : int
        Number of results of the new table; 0 ends the program.
    """
    if not n_results:
        raise SystemExit(f"There are no cells in {args.cells}. Run without --table-only first.")
    path = args.results / file
    text = read_tables(path).get(table, "")
    found = re.search(r"^Computed from ([\d,]+) results", text, re.MULTILINE)
    known = int(found[1].replace(",", "")) if found else 0
    if known <= n_results:
        return args
    folder = args.results / "partial"
    folder.mkdir(exist_ok=True)
    print(
        f"{path} is computed from {known:,} results and {args.cells} has only {n_results:,}: "
        f"{path} is kept, and the new tables are in {folder}.",
        flush=True,
    )
    return argparse.Namespace(**(vars(args) | {"results": folder}))


def _cell(value):
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def markdown(rows, columns):
    """The rows as a table in Markdown, padded so that it reads well on a terminal too."""
    cells = [list(columns.values())] + [[_cell(row.get(k)) for k in columns] for row in rows]
    widths = [max(len(line[c]) for line in cells) for c in range(len(columns))]
    lines = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in cells]
    rule = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def bars(args, name, rows, keys, label, *, xlabel, log=True):
    """``name.png``: a group of bars for every row, one bar a key; nothing without matplotlib.

    Parameters
    ----------
    keys : dict of str to str
        Keys of the rows and their names in the legend.
    label : callable, row -> str
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
