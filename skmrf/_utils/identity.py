"""Identity of an estimator: its class and parameters."""


def identity_of(estimator):
    """Class and parameters, for telling whether a state belongs to an estimator like this one."""
    if not hasattr(estimator, "get_params"):
        return type(estimator).__name__
    return type(estimator).__name__, repr(sorted(estimator.get_params().items()))
