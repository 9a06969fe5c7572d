"""Conversion of chain traces to ArviZ."""

from ._files import require
from .names import check_names


def to_arviz(traces, *, names=None):
    r"""Convert the traces of Gibbs chains to ArviZ, for convergence diagnostics.

    Parameters
    ----------
    traces : ChainTraces
        Recorded chains, the result of :func:`skmrf.samplers.trace_chains`.
    names : sequence of str or int, optional
        Distinct names, one per variable. The default is 0, 1, ...

    Returns
    -------
    arviz.InferenceData, or xarray.DataTree from ArviZ 1.0 on
        The group ``posterior`` has the variable ``states``: state codes of shape
        (chain, draw, column), with ``names`` as coordinates of ``column``. The group
        ``sample_stats`` has the variable ``lp``: log-potentials of shape (chain, draw), which are
        unnormalised log-probabilities in nats.

    Raises
    ------
    ValueError
        If ``names`` does not have one entry per variable, or if the names are not distinct.
    ImportError
        If ArviZ is not installed.

    See Also
    --------
    skmrf.samplers.trace_chains : Run Gibbs chains and record their states.

    Notes
    -----
    The result can be passed to ``arviz.rhat``, ``arviz.ess`` and ``arviz.summary``. These functions
    treat the state codes as numbers. This is appropriate for variables with two states. For
    variables with more than two unordered states, the codes have no numerical meaning; use the
    diagnostics of ``lp`` instead. R-hat is undefined for a variable that never changes. Agreement
    of the chains does not prove that they have visited all modes.

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
