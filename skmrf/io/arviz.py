"""Records of chains for ArviZ."""

from ._optional import require
from .names import check_names


def to_arviz(traces, *, names=None):
    r"""Records of chains as ArviZ takes them, to judge whether the chains have mixed.

    Parameters
    ----------
    traces : ChainTraces
        Of :func:`skmrf.samplers.trace_chains`.
    names : sequence of str or int, optional
        Name of every variable; by default 0, 1, ...

    Returns
    -------
    arviz.InferenceData, or xarray.DataTree from ArviZ 1.0 on
        The group ``posterior`` has ``states``, the state codes, of shape (chain, draw, column)
        with ``names`` as the coordinates of ``column``. The group ``sample_stats`` has ``lp``,
        the log-potentials of shape (chain, draw), in nats and not normalised.

    Raises
    ------
    ValueError
        Names that are not one a variable, and distinct.
    ImportError
        ArviZ is not installed.

    See Also
    --------
    skmrf.samplers.trace_chains : Runs chains and records them.

    Notes
    -----
    ``arviz.rhat``, ``arviz.ess`` and ``arviz.summary`` take what is returned. They see numbers:
    of two states the code of a variable is its indicator, but of more states without an order the
    codes mean little as numbers, and ``lp`` is the better witness. A variable that never changes
    has no R-hat. That chains agree does not prove that they have seen everything.

    Examples
    --------
    >>> import arviz
    >>> from skmrf.datasets import make_ising
    >>> from skmrf.io import to_arviz
    >>> from skmrf.samplers import trace_chains
    >>> traces = trace_chains(make_ising("chain", n_variables=4, coupling=0.2), random_state=0)
    >>> data = to_arviz(traces, names=["a", "b", "c", "d"])
    >>> bool(arviz.rhat(data)["states"].sel(column="b") < 1.01)
    True
    """
    arviz = require("arviz", "interop")
    names = check_names(names, None, traces.states.shape[2], int)
    groups = {
        "posterior": {"states": traces.states},
        "sample_stats": {"lp": traces.log_potential},
    }
    labels = {"coords": {"column": names}, "dims": {"states": ["column"]}}
    if arviz.__version__.startswith("0."):
        return arviz.from_dict(**groups, **labels)
    return arviz.from_dict(groups, **labels)
