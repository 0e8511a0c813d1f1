"""Measure embedders, so that their cosines become relevances from 0 to 1 that are comparable.

A cosine says little by itself: unrelated texts have a cosine of 0.0 with one embedder and 0.7 with another. So each
embedder is measured once, on pairs that are known to be relevant (`PAIRS`) and on the same texts crossed, which are
not; a logistic curve through both gives the relevance of a cosine. `bench/calibrate.py` prints the result.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.model.entry import Calibration
from memoranda.retrieval.embed.base import Embedder

Numbers = NDArray[np.floating[Any]]

# Only the nearest third of the unrelated texts count: distant ones are easy to tell apart, and with them the curve
# would be so steep that everything on the topic of a query had a relevance of 1.
_NEAREST = 1 / 3
# The curve of an embedder that hardly separates related from unrelated texts is flatter than `_FLATTEST`. That is not
# an error, it may be a fake for tests; this calibration makes equal texts relevant, and few others.
_FLATTEST = 4.0
_FALLBACK = Calibration(middle=0.5, steepness=10.0)
# L2 penalty: keeps the curve finite if an embedder separates all pairs. With a smaller one its middle would lie
# anywhere between the two groups.
_PENALTY = 1e-3
_STEPS = 50


def calibrate(embedder: Embedder) -> Calibration:
    """Measure the calibration of an embedder by embedding `PAIRS`."""
    return fit(cosines(embedder))


def cosines(embedder: Embedder) -> Numbers:
    """Return the cosine of each query (a row) with each text (a column); the relevant ones are on the diagonal."""
    vectors = embedder.embed([query for query, _ in PAIRS] + [text for _, text in PAIRS])
    return (vectors[: len(PAIRS)] @ vectors[len(PAIRS) :].T).astype(np.float64)


def fit(cosines: Numbers) -> Calibration:
    """Fit the curve that best separates the diagonal of a square matrix of cosines from the nearest of the others.

    Both groups have the same total weight, so the middle is where both are equally likely.
    """
    related = np.diagonal(cosines)
    beside = cosines[~np.eye(len(cosines), dtype=bool)].reshape(len(cosines), -1)
    count = math.ceil(beside.shape[1] * _NEAREST)
    unrelated = np.sort(beside, axis=1)[:, -count:].ravel()
    if related.mean() <= unrelated.mean():
        return _FALLBACK
    curve = _logistic(related, unrelated)
    return curve if curve.steepness >= _FLATTEST else _FALLBACK


def _logistic(related: Numbers, unrelated: Numbers) -> Calibration:
    """Logistic regression by Newton's method, with an L2 penalty on the slope."""
    both = np.concatenate((related, unrelated))
    truth = np.concatenate((np.ones(len(related)), np.zeros(len(unrelated))))
    weights = np.where(truth == 1.0, 0.5 / len(related), 0.5 / len(unrelated))
    center, spread = both.mean(), both.std()
    inputs = np.stack((np.ones(len(both)), (both - center) / spread), axis=1)
    penalty = np.diag((0.0, _PENALTY))
    line = np.zeros(2)
    for _ in range(_STEPS):
        guess = 1.0 / (1.0 + np.exp(-(inputs @ line)))
        gradient = inputs.T @ (weights * (truth - guess)) - penalty @ line
        hessian = (inputs * (weights * guess * (1.0 - guess))[:, None]).T @ inputs + penalty
        step = np.linalg.solve(hessian, gradient)
        line = line + step
        if np.abs(step).max() < 1e-9:
            break
    return Calibration(middle=float(center - line[0] / line[1] * spread), steepness=float(line[1] / spread))


_GROUPS = msgspec.toml.decode(Path(__file__).with_name("pairs.toml").read_bytes(), type=dict[str, dict[str, str]])
PAIRS = tuple(pair for group in _GROUPS.values() for pair in group.items())
