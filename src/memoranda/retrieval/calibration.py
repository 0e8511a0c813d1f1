"""Cosines and shared words in, relevances from 0 to 1 out, which mean the same for every embedder.

A cosine says little by itself: among unrelated texts one embedder gives 0.0 and another 0.7. So each embedder is
measured once, on pairs that are known to be relevant (`pairs.py`) and the same texts crossed, which are not; a logistic
curve through the two says how relevant a cosine is. `bench/calibrate.py` prints what comes of it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda.model.collection import Calibration
from memoranda.retrieval.embed.base import Embedder
from memoranda.retrieval.pairs import PAIRS

Numbers = NDArray[np.floating[Any]]

# Of the unrelated texts only the nearest third count: those that are far off are easy to tell, and with them the curve
# would be so steep that everything on the topic of a query had a relevance of 1.
_NEAREST = 1 / 3
# For an embedder to whom related texts are hardly nearer than others, so that the curve is flatter than this. There is
# nothing to refuse in that, it may be a stand-in that somebody tests with: equal texts are relevant, and few others.
_FLATTEST = 4.0
_UNMEASURABLE = Calibration(middle=0.5, steepness=10.0)
# Keeps the curve finite when an embedder tells all pairs apart. With a weaker pull its middle would lie anywhere
# between the two groups.
_PULL = 1e-3
_STEPS = 50

# Beyond this a relevance is zero for every purpose, and a power of e would no longer fit into single precision.
_FARTHEST = 60.0

# What it is worth when an entry holds every word of a query: the odds of its meaning alone are multiplied by e^5, so
# that the number of an invoice finds the invoice although its digits mean nothing.
_WORDS_IN_COMMON = 5.0


def relevance(cosine: Numbers, calibration: Calibration) -> Numbers:
    """Return how relevant texts at these cosines are, from 0 to 1."""
    far = calibration.steepness * (calibration.middle - cosine)
    return 1.0 / (1.0 + np.exp(np.minimum(far, _FARTHEST)))


def combine(semantic: Numbers, lexical: Numbers) -> Numbers:
    """Return the relevance of entries from that of their meaning and their share of the query's words, both 0 to 1.

    Where no word is shared the meaning decides alone; each shared one makes the entry more relevant, never less.
    """
    odds = semantic * np.exp(_WORDS_IN_COMMON * lexical)
    return odds / (odds + (1.0 - semantic))


def log_odds(cosine: Numbers, lexical: Numbers, calibration: Calibration) -> Numbers:
    """Return what puts entries in the same order as their combined relevance, and is had without a power of e."""
    return calibration.steepness * cosine + _WORDS_IN_COMMON * lexical


def calibrate(embedder: Embedder) -> Calibration:
    """Return how an embedder's cosines become relevances, measured by embedding the pairs."""
    return fit(cosines(embedder))


def cosines(embedder: Embedder) -> Numbers:
    """Return the cosine of each query (a row) with each text (a column); the relevant ones are on the diagonal."""
    vectors = embedder.embed([query for query, _ in PAIRS] + [text for _, text in PAIRS])
    return (vectors[: len(PAIRS)] @ vectors[len(PAIRS) :].T).astype(np.float64)


def fit(cosines: Numbers) -> Calibration:
    """Return the curve that best tells the diagonal of a square of cosines from what lies nearest beside it.

    Relevant and unrelated ones count the same as a whole, so the middle is where both are equally likely.
    """
    related = np.diagonal(cosines)
    beside = cosines[~np.eye(len(cosines), dtype=bool)].reshape(len(cosines), -1)
    count = math.ceil(beside.shape[1] * _NEAREST)
    unrelated = np.sort(beside, axis=1)[:, -count:].ravel()
    if related.mean() <= unrelated.mean():
        return _UNMEASURABLE
    curve = _logistic(related, unrelated)
    return curve if curve.steepness >= _FLATTEST else _UNMEASURABLE


def _logistic(related: Numbers, unrelated: Numbers) -> Calibration:
    """Return the logistic curve of greatest likelihood, by Newton's method, with a slight pull towards a flat one."""
    both = np.concatenate((related, unrelated))
    truth = np.concatenate((np.ones(len(related)), np.zeros(len(unrelated))))
    weights = np.where(truth == 1.0, 0.5 / len(related), 0.5 / len(unrelated))
    center, spread = both.mean(), both.std()
    inputs = np.stack((np.ones(len(both)), (both - center) / spread), axis=1)
    pull = np.diag((0.0, _PULL))
    line = np.zeros(2)
    for _ in range(_STEPS):
        guess = 1.0 / (1.0 + np.exp(-(inputs @ line)))
        slope = inputs.T @ (weights * (truth - guess)) - pull @ line
        bend = (inputs * (weights * guess * (1.0 - guess))[:, None]).T @ inputs + pull
        step = np.linalg.solve(bend, slope)
        line = line + step
        if np.abs(step).max() < 1e-9:
            break
    return Calibration(middle=float(center - line[0] / line[1] * spread), steepness=float(line[1] / spread))
