"""One iteration of a deterministic solver."""

from functools import partial

from .._utils.interrupts import InterruptLater
from .settings import MAX_UPDATES
from .solvers import make_solver


class SolverIteration:
    """Stepping rule: an iteration of a deterministic solver, which counts as an epoch.

    Parameters
    ----------
    learner : Learner
        With an objective.
    data : Batch
        All training rows.
    settings : Settings

    Attributes
    ----------
    max_epochs : int
        Number of iterations after which a run ends.
    """

    guard = InterruptLater  # Ctrl-C waits for the end of an iteration

    def __init__(self, learner, data, settings):
        self.objective = partial(_objective, learner, data)
        self.settings = settings
        self.max_epochs = MAX_UPDATES if settings.max_iter is None else settings.max_iter

    def begin(self, progress):
        """Make the solver, and its state where an earlier run left none."""
        objective = partial(self.objective, progress.state.learner)
        settings = self.settings
        self.solver = make_solver(objective, settings.penalty, settings.tol, settings.multiplicity)
        if progress.state.optimizer is None:
            solver_state = self.solver.start(progress.state.energy)
            progress.update(optimizer=solver_state, converged=solver_state.converged)

    def advance(self, progress):
        """Iterate once; return the objective and the largest entry of its gradient."""
        energy, solver_state = self.solver.step(progress.state.energy, progress.state.optimizer)
        progress.update(
            energy=energy,
            n_averaged=0,
            optimizer=solver_state,
            converged=solver_state.converged,
            step=progress.state.step + 1,
        )
        return {"objective": solver_state.value, "gradient_max": solver_state.gradient_max}

    def is_done(self, state):
        """Return whether the solver has converged or cannot improve the objective."""
        return state.optimizer.is_done

    def has_converged(self, state):
        """Return whether the solver has reached a maximum."""
        return state.converged

    def finish(self, progress):
        """Drop the state of the solver."""
        progress.update(n_averaged=0, optimizer=None)


def _objective(learner, data, learner_state, energy):
    """Return the learner's objective on all rows, and its gradient."""
    return learner.objective(energy, data, learner_state)
