"""What "verbatim" means (Law 5), and how a streaming text is held back while it may still be a repeat.

The verbatim form of a text: Unicode NFC; outside code fences every run of white space is one blank; inside fences
everything exact but for line endings; the ends trimmed; case kept. A fence stands on lines of its own: it is
parted from what surrounds it by one newline.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from semel.text.fences import fences
from semel.text.nfc import RUN, joins, nfc
from semel.text.prefix import Originals, Path


def normal(text: str) -> str:
    """The verbatim form. Two texts are the same words exactly if their forms are equal."""
    text = nfc(text)
    regions: list[str] = []
    at = 0
    for fence in fences(text):
        regions.append(" ".join(text[at : fence.lo].split()))
        regions.append(text[fence.lo : fence.hi].replace("\r\n", "\n").replace("\r", "\n"))
        at = fence.hi
    regions.append(" ".join(text[at:].split()))
    return "\n".join(region for region in regions if region).rstrip()


def verbatim_digest(text: str) -> bytes:
    """BLAKE2b-128 of the verbatim form: what a claim's `digest` holds."""
    return hashlib.blake2b(normal(text).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def begins(text: str, whole: str) -> bool:
    """Whether a text that breaks off may have been on its way to become `whole`: a preview is withheld for that."""
    hold = Hold([normal(whole)])
    hold.feed(text)
    return hold.holding


class Ended(NamedTuple):
    """How a held block ended: the text that is still to be shown, and the original it repeats, if it does."""

    text: str
    echo: str | None


class Hold:
    """Holds a streaming block back while it may turn out to repeat what was already said (Law 5).

    `originals` are the verbatim forms already said to this destination in this root (a quiet word may be among
    them). What `feed` has let through depends on the text so far, never on how it was cut into chunks: nothing
    while some continuation could still make the whole equal an original, everything from then on. White space at
    the end decides nothing: it may be trimmed. Constant work per character.
    """

    def __init__(self, originals: Iterable[str]):
        self._originals = Originals(originals)
        self._paths = [Path(self._originals)] if self._originals else []
        self._held: list[str] = []
        self._piece = ""  # the last characters, while the next may combine with them
        self._marks = 0  # how many of them join what stands before
        self._cr = False

    def __repr__(self) -> str:
        state = "holding" if self._paths else "open"
        return f"<Hold {state} held={sum(map(len, self._held))} originals={len(self._originals)}>"

    @property
    def holding(self) -> bool:
        """Whether the text so far may still be a repeat."""
        return bool(self._paths)

    def feed(self, text: str) -> str:
        """Take the next chunk; what may be shown now: "", or everything held and this chunk."""
        if not self._paths:
            return text
        self._held.append(text)
        for char in text:
            self._take(char)
            if not self._paths:
                return self._release()
        self._paths = [path for path in self._paths if path.hopeful(self._piece)]
        return "" if self._paths else self._release()

    def end(self) -> Ended:
        """The block's end decides: an echo keeps its text, anything else is shown in full."""
        self._settle()
        echo = next((whole for path in self._paths if (whole := path.ended()) is not None), None)
        self._paths = []
        return Ended("", echo) if echo is not None else Ended(self._release(), None)

    def _release(self) -> str:
        text = "".join(self._held)
        self._held.clear()
        return text

    def _take(self, char: str) -> None:
        if joins(char) and self._marks < RUN:
            self._piece += char
            self._marks += 1
            return
        self._settle()
        char = char if char.isascii() or len(alone := nfc(char)) > 1 else alone
        if char in "`~" or char.isspace():  # nothing composes with these
            self._step(char)
        else:
            self._piece, self._marks = char, int(joins(char))

    def _settle(self) -> None:
        piece, self._piece, self._marks = self._piece, "", 0
        for char in nfc(piece):
            self._step(char)

    def _step(self, char: str) -> None:
        if char == "\n" and self._cr:
            self._cr = False
            return
        self._cr = char == "\r"
        self._paths = [after for path in self._paths for after in path.step("\n" if self._cr else char)]
