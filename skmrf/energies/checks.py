"""Checks that an argument is an energy."""


def check_energy(energy, has="n_states"):
    """Tell an estimator, or anything else, from an energy that has an attribute."""
    if not hasattr(energy, has):
        raise TypeError(
            "energy must be an energy of discrete variables, such as energy_ of a DiscreteMRF; got "
            f"{type(energy).__name__}."
        )


def factor_graph_of(energy):
    """The factor graph of an energy."""
    check_energy(energy, "factor_graph")
    return energy.factor_graph()
