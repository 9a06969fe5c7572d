"""Methods of inference: one function for each method of marginals, modes (MAP) and samples."""

from contextlib import suppress

import numpy as np

from .._utils.interrupts import limit_time, remaining_time
from .._utils.log_weights import log_mean_exp, normalized_weights
from .._utils.parameters import check_number
from .._utils.phases import States
from .._utils.results import Marginals
from .._utils.warn import warn_caller
from ..energies import FactorGraph
from ..exact import elimination
from ..likelihood.intervals import TRUSTED_ESS
from ..samplers import chained_bp, enumerated_states, gibbs, gibbs_queries, metropolis, windows
from ..samplers.gibbs_queries import CONVERGED_ERROR
from ..variational import belief_propagation, mean_field, tree_reweighting
from .conditioned import ZERO_PROBABILITY_MESSAGE, restrict_order

FEW_CHAINS = {"n_chains": 64, "n_sweeps": 400}  # that are enough if variables depend weakly
MANY_CHAINS = {"n_chains": 256, "n_sweeps": 1000}
MANY_ERROR = 0.0044  # largest standard error of the records of many chains that are independent
FIRST_AVERAGE_TIME = 0.75  # largest share of a time limit, until the first average of block moves


def _build_marginals(model, single, flat, *, residual, n_iter, converged, method):
    """Create a Marginals object from concatenated marginals of variables and cliques."""
    graph = model.graph
    single = np.split(single, np.cumsum(graph.n_states))[:-1]
    cliques = graph.layout.untied().split(flat)
    return Marginals(single, cliques, bool(converged), float(residual), int(n_iter), method)


def _state_frequencies(model, X, log_weights=None):
    """Return the weighted frequencies of the states of every variable and every clique."""
    n_states = model.graph.n_states
    states, size = (X + model.graph.layout.state_start).ravel(), int(n_states.sum())
    if log_weights is None:
        single = np.bincount(states, minlength=size) / len(X)
    else:
        weights = np.repeat(normalized_weights(log_weights, len(X)), X.shape[1])
        single = np.bincount(states, weights, minlength=size)
        owner = np.repeat(np.arange(len(n_states)), n_states)
        single = (
            single / np.bincount(owner, single)[owner]
        )  # rounding: the weights do not sum to 1 exactly
    untied = FactorGraph.from_layout(model.graph.layout.untied())
    flat = untied.moments(States(X, None, log_weights))["log_potentials"]
    return single, np.maximum(flat, 0.0)  # rounding can make a difference of sums negative


def exact_marginals(model):
    """Compute exact marginals by variable elimination."""
    graph, plan = model.graph, model.prepare_elimination()
    single, flat = elimination.all_marginals(
        plan, graph.flat, model.row[None], layout=graph.layout.untied()
    )
    return _build_marginals(
        model, single[0], flat, residual=0.0, n_iter=1, converged=True, method="exact"
    )


def gibbs_marginals(model, *, n_chains=256, n_sweeps=1000, n_records=50, n_jobs=None):
    """Estimate marginals by state frequencies in Gibbs chains."""
    X, residual = gibbs_queries.record_states(
        model.conditional_graph(),
        model.make_rng(),
        n_chains=n_chains,
        n_sweeps=n_sweeps,
        n_records=n_records,
        n_jobs=n_jobs,
        until_converged=model.until_converged,
    )
    X = model.insert_evidence(X)
    return _build_marginals(
        model,
        *_state_frequencies(model, X),
        residual=residual,
        n_iter=len(X),
        converged=residual < CONVERGED_ERROR,
        method="gibbs",
    )


def quick_gibbs_marginals(model):
    """Return the marginals of all variables, by more chains if those of few chains differ."""
    conditional, rng = model.conditional_graph(), model.make_rng()
    for how in (FEW_CHAINS, MANY_CHAINS):
        X, _ = gibbs_queries.record_states(conditional, rng, **how)
        singles = gibbs_queries.average_conditionals(conditional, X, how["n_chains"])
        if _standard_error(singles) < MANY_ERROR:
            break
    return model.insert_single(singles.mean(axis=0))


def block_gibbs_marginals(model, *, n_chains=128, n_sweeps=100, n_jobs=None):
    """Average the conditional marginals of Gibbs chains that draw most variables together."""
    check_number("n_chains", n_chains, low=2, integer=True)
    check_number("n_sweeps", n_sweeps, low=1, integer=True)
    conditional, rng = model.conditional_graph(), model.make_rng()
    # Without a first average, the remaining time is that of "gibbs".
    with limit_time((FIRST_AVERAGE_TIME if model.until_converged else 1.0) * remaining_time()):
        path = windows.BlockPath.one(conditional, rng, n_jobs)
        X, generators = path.start_chains(n_chains, rng)
        X, singles, cliques = path.record(X, generators)
    n_done, error = 1, np.inf
    with suppress(TimeoutError):
        while n_done < n_sweeps or (model.until_converged and error >= CONVERGED_ERROR):
            X, single, flat = path.record(X, generators)
            singles, cliques, n_done = singles + single, cliques + flat, n_done + 1
            error = _standard_error(singles / n_done)
    singles, cliques = singles / n_done, cliques / (n_done * n_chains)
    error = _standard_error(singles)
    untied = conditional.layout.untied()
    return _build_marginals(
        model,
        *model.insert_marginals(singles.mean(axis=0), cliques[: untied.n_parameters]),
        residual=error,
        n_iter=n_done * n_chains,
        converged=error < CONVERGED_ERROR,
        method="block-gibbs",
    )


def _standard_error(singles):
    """Return the largest standard error of the means over the rows, which are independent."""
    return float(singles.std(axis=0, ddof=1).max(initial=0.0)) / np.sqrt(len(singles))


def _marginals_from_beliefs(model, result, method):
    if result.log_partition == -np.inf:
        raise elimination.ImpossibleEvidence(0)
    return _build_marginals(
        model,
        result.single,
        result.cliques,
        residual=result.residual,
        n_iter=result.n_iter,
        converged=result.converged,
        method=method,
    )


def bp_marginals(model, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8):
    """Approximate marginals by sum-product belief propagation."""
    propagation = belief_propagation.Propagation(schedule, damping, max_iter, tol)
    result = belief_propagation.belief_propagation(model.graph, propagation, evidence=model.row)
    return _marginals_from_beliefs(model, result, "bp")


def trw_marginals(model, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8):
    """Approximate marginals by tree-reweighted belief propagation."""
    propagation = belief_propagation.Propagation(schedule, damping, max_iter, tol)
    result = tree_reweighting.tree_reweighted(model.graph, propagation, evidence=model.row)
    return _marginals_from_beliefs(model, result.beliefs, "trw")


def mean_field_marginals(model, *, max_iter=1000, tol=1e-9):
    """Approximate marginals by naive mean field."""
    conditional = model.conditional_graph()
    if _is_impossible(conditional):
        raise elimination.ImpossibleEvidence(0)
    result = mean_field.mean_field(conditional, max_iter=max_iter, tol=tol)
    single = model.insert_single(result.single)
    untied = model.graph.layout.untied()
    return _build_marginals(
        model,
        single,
        mean_field.clique_moments(model.graph, single, untied),
        residual=result.residual,
        n_iter=result.n_iter,
        converged=result.converged and result.lower_bound > -np.inf,
        method="mean-field",
    )


def _is_impossible(graph):
    """Return whether a table, or the tables of a single variable, allow no state."""
    fields = [np.zeros(q) for q in graph.n_states]
    for clique, table in zip(graph.cliques, graph.log_potentials, strict=True):
        if len(clique) == 1:
            fields[clique[0]] = fields[clique[0]] + table
    tables = (*fields, *graph.log_potentials)
    return any(not (table > -np.inf).any() for table in tables)


def bpchain_marginals(
    model, *, n_samples=4000, conditionals="auto", order="elimination", clip=1e-3
):
    """Estimate marginals by importance sampling from chained belief propagation."""
    check_number("n_samples", n_samples, low=1, integer=True)
    conditional = model.conditional_graph()
    settings = chained_bp.ChainSettings(
        conditionals, restrict_order(order, model.observed), clip=clip
    )
    chain = chained_bp.ChainedSampler(conditional.layout, settings, n_samples)
    rng = model.make_rng()
    draws = chain.draw(conditional.flat, n_samples, rng)
    known = enumerated_states.EnumeratedStates(
        draws.X[:0] if chain.exact else gibbs.annealed_states(conditional, n_samples, rng)
    )
    weights = known.compute_weights(conditional, draws)
    log_z = log_mean_exp(weights.estimates())
    if log_z == -np.inf:
        raise ValueError(ZERO_PROBABILITY_MESSAGE.format(n_samples))
    averaged = weights.draws + np.log(draws.counts / n_samples)
    X = model.insert_evidence(np.concatenate([known.X, draws.X]))
    single, flat = _state_frequencies(model, X, np.concatenate([weights.enumerated, averaged]))
    error = _largest_standard_error(
        model, X[len(known.X) :], averaged - log_z, draws.counts, single
    )
    ess = weights.effective_size(chain.log_density(conditional.flat, known.X), log_z)
    return _build_marginals(
        model,
        single,
        flat,
        residual=max(error, 1.0 / max(ess, 1.0)),
        n_iter=n_samples,
        converged=error < CONVERGED_ERROR and ess >= TRUSTED_ESS,
        method="bpchain",
    )


def _largest_standard_error(model, X, log_shares, counts, single):
    """Return the largest standard error of the importance-sampling marginals (delta method).

    Only the draws contribute to the error. The enumerated states have none.
    """
    square = np.exp(2.0 * log_shares) / counts
    states = (X + model.graph.layout.state_start).ravel()
    hit = np.bincount(states, np.repeat(square, X.shape[1]), minlength=len(single))
    variance = hit * (1.0 - 2.0 * single) + square.sum() * single**2
    return float(np.sqrt(np.maximum(variance, 0.0).max(initial=0.0)))


MARGINALS = {
    "exact": exact_marginals,
    "gibbs": gibbs_marginals,
    "block-gibbs": block_gibbs_marginals,
    "bp": bp_marginals,
    "trw": trw_marginals,
    "mean-field": mean_field_marginals,
    "bpchain": bpchain_marginals,
}


MAX_DECIMATION_SECONDS = 10.0
START_PROPAGATION = belief_propagation.Propagation(max_iter=50)


def exact_mode(model):
    """Compute a most probable (MAP) state by max-product variable elimination."""
    return elimination.maximise(model.prepare_elimination(), model.graph.flat, model.row[None])[0]


def annealed_mode(model, *, n_chains=64, n_sweeps=500, n_jobs=None):
    """Search for a most probable (MAP) state by simulated annealing."""
    best, _ = gibbs_queries.anneal(
        model.conditional_graph(),
        model.make_rng(),
        n_chains=n_chains,
        n_sweeps=n_sweeps,
        n_jobs=n_jobs,
    )
    return model.insert_evidence(best[None])[0]


def local_search_mode(model, *, n_windows=100, n_chains=64, n_sweeps=500, n_jobs=None):
    """Search for a most probable (MAP) state by annealing, decimation and local search.

    The local search maximises exactly over random windows, each with most variables.
    """
    check_number("n_windows", n_windows, low=0, integer=True)
    graph = model.conditional_graph()
    rng, time = model.make_rng(), remaining_time()
    with limit_time(0.2 * time if np.isfinite(time) else None):
        best, _ = gibbs_queries.anneal(
            graph, rng, n_chains=n_chains, n_sweeps=n_sweeps, n_jobs=n_jobs
        )
    with limit_time(min(0.2 * time, MAX_DECIMATION_SECONDS)):
        starts = np.stack([best, belief_propagation.decimate(graph, START_PROPAGATION).states])
    if graph.n_variables <= windows.MAX_VARIABLES:
        best = windows.WindowSearch(graph, rng, n_windows).improve(starts)
    else:
        best = starts[np.argmax(graph.log_potential(starts))]
    return model.insert_evidence(best[None])[0]


def decimated_mode(model, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8):
    """Search for a most probable (MAP) state by max-product belief propagation and decimation.

    Decimation repeatedly clamps the variables with the clearest maximum, and continues with
    the others.
    """
    propagation = belief_propagation.Propagation(schedule, damping, max_iter, tol)
    return belief_propagation.decimate(model.graph, propagation, evidence=model.row)[0]


MODES = {
    "exact": exact_mode,
    "local-search": local_search_mode,
    "annealing": annealed_mode,
    "decimation": decimated_mode,
}


def exact_marginal_mode(model, maximised):
    """Compute a marginal MAP state exactly: variable elimination sums first, then maximises."""
    plan = model.prepare_elimination(maximised=maximised)
    states, value = elimination.marginal_map(plan, model.graph.flat, model.row[None])
    return states[0], float(value[0])


def bp_marginal_mode(
    model, maximised, *, schedule="sequential", damping="auto", max_iter=500, tol=1e-8
):
    """Search for a marginal MAP state by mixed-product belief propagation.

    The value of the decoded state is its Bethe approximation by sum-product propagation.
    """
    propagation = belief_propagation.Propagation(schedule, damping, max_iter, tol)
    result = belief_propagation.belief_propagation(
        model.graph, propagation, evidence=model.row, maximised=maximised
    )
    if result.log_partition == -np.inf:
        raise elimination.ImpossibleEvidence(0)
    states = model.row.copy()
    free = np.flatnonzero(maximised & ~model.observed)
    beliefs = np.split(result.single, np.cumsum(model.graph.n_states)[:-1])
    for i in free:
        states[i] = int(np.argmax(beliefs[i]))
    value = belief_propagation.belief_propagation(
        model.graph, propagation, evidence=states
    ).log_partition
    return states, value


MARGINAL_MODES = {"exact": exact_marginal_mode, "bp": bp_marginal_mode}


def exact_samples(model, n_samples):
    """Draw independent samples by variable elimination."""
    graph = model.graph
    return elimination.sample(
        model.prepare_elimination(), graph.flat, n_samples, model.make_rng(), model.row[None]
    )


def gibbs_samples(model, n_samples, *, n_sweeps=1000, n_jobs=None, device="cpu"):
    """Draw samples by Gibbs sampling: the last states of ``n_samples`` independent chains."""
    options = {"n_sweeps": n_sweeps, "n_jobs": n_jobs, "device": device}
    X = gibbs_queries.draw(model.conditional_graph(), n_samples, model.make_rng(), **options)
    return model.insert_evidence(X)


def block_gibbs_samples(model, n_samples, *, n_sweeps=20, n_jobs=None):
    """Draw samples by Gibbs chains that draw most variables together, after an annealing path."""
    check_number("n_sweeps", n_sweeps, low=1, integer=True)
    rng = model.make_rng()
    path = windows.BlockPath.one(model.conditional_graph(), rng, n_jobs)
    X, generators = path.start_chains(n_samples, rng)
    with suppress(TimeoutError):
        for _ in range(n_sweeps):
            X = path.settle(X, generators)
    return model.insert_evidence(X)


def bpchain_samples(
    model, n_samples, *, n_steps=0, conditionals="auto", order="elimination", clip=0.0
):
    """Draw samples by chained belief propagation, with optional Metropolis-Hastings steps.

    These are independence steps: each proposal is a new draw by chained belief propagation.
    """
    check_number("n_steps", n_steps, low=0, integer=True)
    conditional = model.conditional_graph()
    settings = chained_bp.ChainSettings(
        conditionals, restrict_order(order, model.observed), clip=clip
    )
    chain = chained_bp.ChainedSampler(conditional.layout, settings, n_samples * (n_steps + 1))
    X, _ = metropolis.chain_states(chain, conditional, n_samples, n_steps, model.make_rng())
    n_impossible = np.count_nonzero(conditional.log_potential(X) == -np.inf)
    if n_impossible == n_samples:
        raise ValueError(ZERO_PROBABILITY_MESSAGE.format(n_samples))
    if n_impossible:
        warn_caller(
            f"{n_impossible} of {n_samples} draws have probability zero. Increase n_steps, or use "
            'method="exact".',
        )
    return model.insert_evidence(X)


SAMPLES = {
    "exact": exact_samples,
    "gibbs": gibbs_samples,
    "block-gibbs": block_gibbs_samples,
    "bpchain": bpchain_samples,
}
