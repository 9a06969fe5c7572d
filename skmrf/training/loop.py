"""The training loop. It never asks which energy or learner it holds."""

from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._utils.interrupts import InterruptLater
from .._utils.warn import warn_caller
from .epoch import StochasticEpoch
from .iteration import SolverIteration
from .reports import SilentReports
from .state import Progress, recover


def run(learner, data, settings, state, reports=None, began=None):
    """Train until done.

    Parameters
    ----------
    learner : Learner
    data : Batch
        All training rows.
    settings : Settings
    state : LoopState
        From :func:`start` or :func:`resume`, or one that an earlier run returned.
    reports : object with the methods of :class:`SilentReports`, optional
        It is called when an epoch begins and ends.
    began : int, optional
        Number of complete epochs when this run began, where the state is that of an unfinished
        run. By default those of the state.

    Returns
    -------
    LoopState
        After Ctrl-C, with a warning, that of the last complete update, from which training can
        resume; the optimizer and the window of an adaptive rate then start anew. Ctrl-C stops
        training after the current update. Pressed again a second later, it stops immediately, and
        some arrays of the averaged iterates may then hold the next iterate.

    Raises
    ------
    ValueError
        The parameters are not finite any more.
    KeyboardInterrupt
        After Ctrl-C, where ``settings.interruptible`` is False.

    Notes
    -----
    Arrays of the size of the parameters: the iterate, its gradient, the state of the optimizer
    (none for ``SGD``, one for ``Momentum``, two for ``Adam``; 41 for L-BFGS, two for FISTA), and
    optionally the average of the iterates, the two sums of an adaptive rate and the best model by
    held-out score, which takes two while averages are scored. Interruptions need no array: an
    iterate is never written to, and the state is replaced as a whole.
    """
    progress = Progress(replace(state, began=state.epoch if began is None else began))
    del state  # the progress holds the only reference
    stepping = SolverIteration if settings.optimizer is None else StochasticEpoch
    rule = stepping(learner, data, settings)
    try:
        _train(rule, settings, progress, SilentReports() if reports is None else reports)
    except KeyboardInterrupt:
        if not settings.interruptible:
            raise
        progress.state = recover(progress.state, settings)
        _warn_interrupted(progress.state)
    _warn_inference(progress.state, settings)
    return progress.state


def _train(rule, settings, progress, reports):
    """Advance by a stepping rule until it is done, a limit is reached or a report stops it."""
    rule.begin(progress)
    while not _is_over(rule, settings, progress.state):
        reports.begin()
        with rule.guard():
            info = rule.advance(progress)
            with InterruptLater():
                progress.record(info, settings)
        if reports.end(progress.state):
            break
    else:
        _warn_unconverged(rule, settings, progress.state)
    rule.finish(progress)


def _is_over(rule, settings, state):
    return (
        state.epoch - state.began >= rule.max_epochs
        or rule.is_done(state)
        or _is_past_best(settings, state)
    )


def _is_past_best(settings, state):
    """Return whether the last ``patience`` epochs of this run had no better held-out score."""
    if settings.score is None or state.epoch == state.began:
        return False
    scores = state.history.columns["validation_score"][state.began :]
    return len(scores) - 1 - int(np.argmax(scores)) >= settings.patience


def _warn_unconverged(rule, settings, state):
    if not settings.complete or rule.has_converged(state) or _is_past_best(settings, state):
        return
    warn_caller(
        f"Learning had not converged after {state.epoch} epochs ({state.step} updates); raise "
        "max_iter, or accept the model as it is (see history_).",
        ConvergenceWarning,
    )


def _warn_interrupted(state):
    warn_caller(
        f"Interrupted; the model is that of the last complete update, {state.step}, after "
        f"{state.epoch} epochs.",
        ConvergenceWarning,
    )


def _warn_inference(state, settings):
    """Warn if the learner's inference did not converge in the last epoch."""
    share = state.history.columns.get("inference_converged", [1.0])[-1]
    if share < settings.converged_share:
        warn_caller(
            f"Inference converged in {100 * share:.0f}% of its runs in the last epoch, so the "
            "gradient has an error that is not known; give the learner more iterations or damping, "
            "or take another one (see inference_converged in history_).",
            ConvergenceWarning,
        )
