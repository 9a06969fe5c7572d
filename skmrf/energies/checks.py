"""Checks that an argument is an energy."""

from .protocols import DiscreteEnergy, FactorGraphConvertible


def check_energy(energy, protocol=DiscreteEnergy):
    """Raise a TypeError unless ``energy`` is an instance of ``protocol``."""
    if not isinstance(energy, protocol):
        raise TypeError(
            "energy must be an energy of discrete variables, such as energy_ of a DiscreteMRF; got "
            f"{type(energy).__name__}."
        )


def factor_graph_of(energy):
    """Return the factor graph of an energy, or raise a TypeError if it has none."""
    check_energy(energy, FactorGraphConvertible)
    return energy.factor_graph()
