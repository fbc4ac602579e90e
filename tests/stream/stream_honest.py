"""Honest texts that repeat themselves, in every chunking: none may lose a character (Law 8).

python tests/stream/stream_honest.py 100000      (folds so many texts, made and real, and says what was lost)
"""

from __future__ import annotations

import itertools
import random
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

from semel.acp_stream import PROFILES, Fold, Profile

PHRASES = [
    "I love you. ", "I love you, and I love you too. ", "Row, row, row your boat gently down the stream.\n",
    "- [ ] buy some milk\n", "| a | b | c |\n", "0 0 0 1 1 0 ", "ha ha ha, no ", "Kyrie eleison, Christe eleison. ",
    "na na na na, hey hey, goodbye ", "Holy, holy, holy is the Lord of hosts;\nthe whole earth is full of glory.\n\n",
    "    assert total == 0\n", "2026-11-23 04:24:54 INFO worker is alive\n", "again and again and ",
    "one two three ", "je t'aime, moi non plus, ", "愛しています。", "мир, труд, май ", "**Note:** read it twice. ",
    "x = 1; y = 2; z = 3; ", "\U0001f600 yes \U0001f600 ",
    "We shall not, we shall not be moved. Just like a tree that's planted by the water, ",
]  # fmt: skip
CHUNKINGS = ("characters", "words", "lines", "sentences", "short", "long", "mixed", "whole")
_BREAKS = {"words": r"(?<=\s)(?=\S)", "lines": r"(?<=\n)", "sentences": r"(?<=[.!?\n] )|(?<=\n)"}
_SIZES = {"characters": (1, 1), "short": (1, 4), "long": (5, 40), "mixed": (1, 60), "whole": (10**9, 10**9)}


def make_text(chance: random.Random) -> str:
    """A text that begins with a phrase twice or more, with anything or nothing behind it; or has it in its middle."""
    phrase = "".join(chance.choices(PHRASES, k=chance.choice((1, 1, 1, 2, 3))))
    text = phrase * chance.choice((2, 2, 2, 3, 4, 7, 12))
    if chance.random() < 0.2:
        text = text[: chance.randrange(len(phrase), len(text) + 1)]
    elif chance.random() < 0.7:
        text += "".join(chance.choices(PHRASES, k=chance.randrange(1, 4))) + "The end."
    return text if chance.random() < 0.8 else chance.choice(PHRASES) + text


def read_texts(chance: random.Random) -> Iterator[str]:
    """Pieces of the files that Python ships, from wherever a line begins; for ever."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(
        [*folder.glob("*.py"), *folder.glob("*.txt"), *folder.glob("encodings/*.py"), *folder.glob("test/*.py")]
    )
    while True:
        text = chance.choice(files).read_text(errors="replace")
        starts = [match.end() for match in re.finditer(r"(?:\A|\n)[ \t]*", text)]
        for _ in range(20):
            start = chance.choice(starts)
            yield text[start : start + chance.choice((80, 400, 2_000))]


def cut(text: str, chunking: str, chance: random.Random) -> list[str]:
    """The text in chunks of that kind."""
    if chunking in _BREAKS:
        return [piece for piece in re.split(_BREAKS[chunking], text) if piece]
    least, most = _SIZES[chunking]
    chunks, at = [], 0
    while at < len(text):
        size = chance.randint(least, most)
        chunks.append(text[at : at + size])
        at += size
    return chunks


def lose(chunks: list[str], profile: Profile, kind: str, mid: str | None) -> bool:
    """Does the view of a block that came in these chunks lack a character of it?"""
    fold = Fold(profile)
    for chunk in chunks:
        update = {"sessionUpdate": f"agent_{kind}_chunk", "content": {"type": "text", "text": chunk}}
        fold.update(update if mid is None else {**update, "messageId": mid})
    fold.end("end_turn")
    shown = [item.text for item in fold.items() if item.kind == kind and not item.fields.get("superseded")]
    return shown != ["".join(chunks)]


def lost_texts(
    count: int, seed: int, tell: Callable[[int], None] = lambda _: None
) -> Iterator[tuple[str, str, str, list[str]]]:
    """(profile, kind, chunking, chunks) of every text of which the fold loses something."""
    chance = random.Random(seed)
    real = read_texts(chance)
    turns = itertools.cycle(itertools.product(sorted(PROFILES), CHUNKINGS))
    for number in range(count):
        tell(number)
        text = make_text(chance) if chance.random() < 0.7 else next(real)
        name, chunking = next(turns)
        kind = "thought" if chance.random() < 0.25 else "message"
        chunks = cut(text, chunking, chance)
        if chunks and lose(
            chunks, PROFILES[name], kind, "msg_1" if name == "codex" else chance.choice((None, "msg_1"))
        ):
            yield name, kind, chunking, chunks


def main() -> None:
    count, seed = int(sys.argv[1]), random.randrange(10**9)
    lost = list(lost_texts(count, seed, lambda n: print(n, file=sys.stderr) if n % 10_000 == 0 else None))
    for name, kind, chunking, chunks in lost:
        print(f"{name}, {kind} in {chunking}: {chunks}")
    print(f"{count:,} texts, seed {seed}: {len(lost)} lost something")


if __name__ == "__main__":
    main()
