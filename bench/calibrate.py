"""Fit the curve that turns an embedder's cosines into relevance, and print how well it separates.

    python bench/calibrate.py                       the default embedder
    python bench/calibrate.py hashing:256 onnx:/path/to/folder openai:text-embedding-3-small

Each query of `memoranda.retrieval.calibration` has one relevant text; those of all the others are unrelated to it.
What is printed is the same on every run and every machine, up to rounding.
"""

from __future__ import annotations

import sys

import numpy as np

from memoranda.model.entry import Calibration
from memoranda.retrieval.analysis.analyser import analyse
from memoranda.retrieval.calibration import PAIRS, cosines, fit
from memoranda.retrieval.embed.registry import resolve
from memoranda.retrieval.rank import combine, relevance

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)


def main(names: list[str]) -> None:
    """Print the tables of each embedder that is named."""
    words_in_common = coverage()
    for name in names:
        embedder = resolve(name)
        measured = cosines(embedder)
        curve = fit(measured)
        scores = relevance(measured, curve)
        print(f"{embedder.id}: {embedder.dimension} dimensions, {len(PAIRS)} pairs")
        print(f"  curve    {show(curve)}, relevance 0.7 at cosine {cosine_at(0.7, curve):.3f}")
        if embedder.calibration is not None:
            print(f"  shipped  {show(embedder.calibration)}")
        print_quantiles(
            {"cosine": measured, "relevance": scores, "with shared words": combine(scores, words_in_common)}
        )
        print_shares({"meaning alone": scores, "with shared words": combine(scores, words_in_common)}, words_in_common)
        print_halves(measured, words_in_common)
        print()


def coverage() -> np.ndarray:
    """Return, for each query and text, the share of the query's words that the text holds, weighted by rarity."""
    queries, texts = ([analyse(text).terms.split() for text in side] for side in zip(*PAIRS, strict=True))
    holders = [set(words) for words in texts]

    def rarity(word: str) -> float:
        holding = sum(word in held for held in holders)
        return float(np.log(1 + (len(holders) - holding + 0.5) / (holding + 0.5)))

    return np.array([
        [sum(rarity(word) for word in query if word in held) / sum(map(rarity, query)) for held in holders]
        for query in queries
    ])  # fmt: skip


def cosine_at(score: float, curve: Calibration) -> float:
    """Return the cosine that has a relevance."""
    return curve.middle + float(np.log(score / (1 - score))) / curve.steepness


def show(curve: Calibration) -> str:
    """Return a curve as text."""
    return f"middle {curve.middle:.3f}, steepness {curve.steepness:.1f}"


def sides(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what belongs to the relevant pairs, and what to the unrelated ones."""
    related = np.eye(len(matrix), dtype=bool)
    return matrix[related], matrix[~related]


def print_quantiles(measures: dict[str, np.ndarray]) -> None:
    """Print the mean and the quantiles of each measure, of relevant and of unrelated pairs."""
    print(f"\n  {'':30}{'mean':>8}" + "".join(f"{f'{q:.0%}':>8}" for q in QUANTILES))
    for name, matrix in measures.items():
        for side, values in zip(("relevant", "unrelated"), sides(matrix), strict=True):
            shown = "".join(f"{value:8.3f}" for value in (values.mean(), *np.quantile(values, QUANTILES)))
            print(f"  {name + ', ' + side:30}{shown}")


def print_shares(measures: dict[str, np.ndarray], words_in_common: np.ndarray) -> None:
    """Print how many relevant and unrelated pairs reach each threshold, and the relevant ones by shared words."""
    print(f"\n  {'reaching a threshold of':40}" + "".join(f"{value:>8}" for value in THRESHOLDS))
    sharing = np.diagonal(words_in_common) > 0
    for name, matrix in measures.items():
        related, unrelated = sides(matrix)
        for line, values in (
            (f"{name}, relevant", related),
            (f"   {sharing.sum()} of them that share words", related[sharing]),
            (f"   {(~sharing).sum()} of them that share none", related[~sharing]),
            (f"{name}, unrelated", unrelated),
        ):
            print(f"  {line:40}" + "".join(f"{(values >= threshold).mean():8.1%}" for threshold in THRESHOLDS))


def print_halves(measured: np.ndarray, words_in_common: np.ndarray) -> None:
    """Print what a curve that was fitted on half of the pairs does to the other half."""
    print("\n  fitted on one half, tried on the other (threshold 0.7)")
    for half in (0, 1):
        chosen = np.arange(len(PAIRS)) % 2 == half
        curve = fit(measured[np.ix_(chosen, chosen)])
        rest = np.ix_(~chosen, ~chosen)
        scores = combine(relevance(measured[rest], curve), words_in_common[rest])
        related, unrelated = sides(scores)
        print(f"  {show(curve)}: relevant {(related >= 0.7).mean():.1%}, unrelated {(unrelated >= 0.7).mean():.1%}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["wordllama"])
