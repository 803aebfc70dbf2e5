"""Texts with labels that the words alone decide."""

import csv
from pathlib import Path

import numpy as np

WORDS = {"negative": ("awful", "bad", "dull", "poor"), "positive": ("bright", "fine", "good", "lovely")}
OTHERS = ("a", "actor", "and", "film", "music", "of", "plot", "scene", "story", "the", "was", "with")


def reviews(count: int = 240) -> list[tuple[str, str]]:
    """Texts and labels in turns. Which word of a class a text has, and where, is drawn."""
    draw = np.random.default_rng(0)
    found = []
    for number in range(count):
        label = list(WORDS)[number % 2]
        words = [*draw.choice(OTHERS, 6), *draw.choice(WORDS[label], 2)]
        draw.shuffle(words)
        found.append((" ".join(words), label))
    return found


def write_table(file: Path, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> Path:
    with file.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened, delimiter="\t" if file.suffix == ".tsv" else ",").writerows([header, *rows])
    return file
