"""Random models, benchmark data sets, image corruption and alignment statistics."""

from .alignments import average_product_correction, similarity_weights
from .corruption import flip_pixels, occlude
from .density import fetch_density_benchmark
from .images import fetch_caltech101_silhouettes, fetch_mnist
from .ising import make_ising
from .random_models import (
    make_multimodal_mrf,
    make_non_decay_mrf,
    make_structured_sequences,
    make_weighted_3sat,
)

__all__ = [
    "average_product_correction",
    "fetch_caltech101_silhouettes",
    "fetch_density_benchmark",
    "fetch_mnist",
    "flip_pixels",
    "make_ising",
    "make_multimodal_mrf",
    "make_non_decay_mrf",
    "make_structured_sequences",
    "make_weighted_3sat",
    "occlude",
    "similarity_weights",
]
