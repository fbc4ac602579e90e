"""How long a text do honest texts say twice in a row? The lengths of `semel.acp_stream.redelivery` come from this.

    python bench/honest_repeats.py [FOLDER ...]        (default: /usr/share and the installed Python packages)

An agent's answer may begin wherever a line of a real text begins. For every line start of every text file (compressed
ones, too) it looks for the longest phrase that follows itself at once, that has three different words and is not itself
a repetition; and for the longest such phrase that runs into its copy inside a word ("glued"). It reads half a gigabyte
in about five minutes.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from semel.acp_stream.redelivery import LEAST_GLUED_CHARS, LEAST_RETRY_CHARS, is_glued, is_repetition

MAX_FILE_CHARS = 2_000_000
MAX_PHRASE_CHARS = 20_000
KEY_CHARS = 16  # the beginning of a phrase that is looked for again
MAX_CANDIDATES = 50  # places where a phrase may begin again that are compared, per line start
LISTED = 8

_LINE_START = re.compile(r"(?:\A|\n)[ \t]*")
_WORD = re.compile(r"[^\W_]+")


def read_texts(folders: list[str]) -> Iterator[tuple[str, str]]:
    """(path, text) of every text file."""
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                path = Path(place, name)
                try:
                    data = b"" if path.is_symlink() else path.read_bytes()
                    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
                except (OSError, EOFError, ValueError):
                    continue
                if text and "\0" not in text:
                    yield str(path), text[:MAX_FILE_CHARS]


def find_repeats(text: str) -> Iterator[tuple[int, int]]:
    """(start, length) of phrases at line starts that follow themselves at once."""
    for line in _LINE_START.finditer(text):
        start = line.end()
        key = text[start : start + KEY_CHARS]
        again = text.find(key, start + KEY_CHARS, start + MAX_PHRASE_CHARS) if len(key) == KEY_CHARS else -1
        for _ in range(MAX_CANDIDATES):
            if again < 0:
                break
            length = again - start
            phrase = text[start:again]
            if text.startswith(phrase, again) and len(set(_WORD.findall(phrase))) > 2 and not is_repetition(phrase):
                yield start, length
            again = text.find(key, again + 1, start + MAX_PHRASE_CHARS)


def main() -> None:
    folders = sys.argv[1:] or ["/usr/share", sysconfig.get_paths()["purelib"]]
    files = characters = 0
    longest: dict[bool, list[tuple[int, str, str]]] = {False: [], True: []}
    for path, text in read_texts(folders):
        files, characters = files + 1, characters + len(text)
        best = {False: (0, 0), True: (0, 0)}
        for start, length in find_repeats(text):
            glued = is_glued(text[start : start + length], text[start:])
            best[glued] = max(best[glued], (length, start))
        for glued, (length, start) in best.items():
            if length:
                longest[glued].append((length, path, text[start : start + 60]))
    print(f"{files:,} texts, {characters:,} characters")
    for glued, least in ((False, LEAST_RETRY_CHARS), (True, LEAST_GLUED_CHARS)):
        print(
            f"\n{'glued' if glued else 'any'}: {len(longest[glued])} texts; taken for a retry from {least:,} characters"
        )
        for length, path, start in sorted(longest[glued], reverse=True)[:LISTED]:
            print(f"{length:7,}  {path}  {start!r}")


if __name__ == "__main__":
    main()
