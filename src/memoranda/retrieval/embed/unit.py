"""Sums of vectors in, unit vectors out."""

from __future__ import annotations

import numpy as np

from memoranda.retrieval.embed.base import Vectors


def to_unit(sums: Vectors) -> Vectors:
    """Return each row at unit length, in place.

    A row of zeros has no direction. It becomes the first axis: texts without a word are like each other and like
    little else, and no NaN gets into an index.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", sums, sums))
    if not lengths.all():
        nothing = lengths == 0.0
        sums[nothing, 0] = 1.0
        lengths[nothing] = 1.0
    sums /= lengths[:, None]
    return sums
