"""The loop's epochs as tasks of scikit-learn's callbacks."""


class EpochReports:
    """Tells scikit-learn's callbacks of every epoch.

    ``summary`` makes the fitted attributes of a state of the loop, where an epoch leaves a model;
    else it is None.
    """

    def __init__(self, estimator, X, y, max_iter, summary):
        self.estimator = estimator
        self.rows = {"X": X, "y": y}
        self.summary = summary
        self.root = estimator._init_callback_context(max_subtasks=max_iter)
        self.root.call_on_fit_task_begin(estimator=estimator, **self.rows)

    def begin(self):
        """An epoch begins."""
        self.epoch = self.root.subcontext(task_name="epoch")
        self.epoch.call_on_fit_task_begin(estimator=self.estimator, **self.rows)

    def end(self, state):
        """An epoch is over; True asks to stop."""
        return self.epoch.call_on_fit_task_end(
            estimator=self.estimator,
            **self.rows,
            reconstruction_attributes=self.summary and (lambda: self.summary(state)),
        )

    def finish(self, attributes=None):
        """The fit is over; ``attributes`` makes what was fitted, if it was."""
        self.root.call_on_fit_task_end(
            estimator=self.estimator, **self.rows, reconstruction_attributes=attributes
        )
