"""The loop's epochs as tasks of scikit-learn's callbacks."""


class EpochReports:
    """Tells scikit-learn's callbacks of every epoch."""

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
            reconstruction_attributes=lambda: self.summary(state),
        )

    def finish(self, state):
        """The fit is over."""
        ran = state.epoch > state.began
        self.root.call_on_fit_task_end(
            estimator=self.estimator,
            **self.rows,
            reconstruction_attributes=(lambda: self.summary(state)) if ran else None,
        )
