"""Identity of an estimator: its class and parameters."""


def identity_of(estimator):
    """Return the class name and the parameters of an object; equal objects give equal results."""
    if not hasattr(estimator, "get_params"):
        return type(estimator).__name__
    return type(estimator).__name__, repr(sorted(estimator.get_params().items()))
