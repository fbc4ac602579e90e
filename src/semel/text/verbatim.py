"""The verbatim form of a text (Law 5), and `EchoHold`, which withholds a streaming text that may still become an echo.

The verbatim form is in Unicode NFC. Outside code fences, every run of white space becomes one blank; inside fences,
everything is exact except for line endings. Both ends are trimmed, and letter case is kept. One newline separates a
fence from the text around it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from semel.text.fences import find_fences
from semel.text.graphemes import MAX_JOINING_RUN, may_join_previous, nfc
from semel.text.prefix import Originals, PrefixReading


def verbatim_form(text: str) -> str:
    """Return the verbatim form of a text. Two texts are verbatim equal if and only if their forms are equal."""
    text = nfc(text)
    regions: list[str] = []
    offset = 0
    for fence in find_fences(text):
        regions.append(" ".join(text[offset : fence.lo].split()))
        regions.append(text[fence.lo : fence.hi].replace("\r\n", "\n").replace("\r", "\n"))
        offset = fence.hi
    regions.append(" ".join(text[offset:].split()))
    return "\n".join(region for region in regions if region).rstrip()


def verbatim_digest(text: str) -> bytes:
    """Return the BLAKE2b-128 hash of the verbatim form (16 bytes), the `digest` of a claim."""
    return hashlib.blake2b(verbatim_form(text).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def may_become(text: str, original: str) -> bool:
    """Whether a text that broke off may be the beginning of `original`: the preview of such a text is withheld."""
    hold = EchoHold([verbatim_form(original)])
    hold.feed(text)
    return hold.is_holding


class HoldEnd(NamedTuple):
    """The result of `EchoHold.end`. `text`: the text still to be shown. `echo`: the original it repeats, or None."""

    text: str
    echo: str | None


class EchoHold:
    """Withholds a streaming block while it may still repeat what was already said (Law 5).

    `originals`: the verbatim forms of the texts said to this destination in this root, and of the words by which an
    agent stays quiet. While some continuation could still make the text equal an original, `feed` releases nothing;
    after that it releases everything. How the text is cut into chunks makes no difference. White space at the end is
    ignored, since it may be trimmed. The work per character is constant.
    """

    def __init__(self, originals: Iterable[str]):
        self._originals = Originals(originals)
        self._paths = [PrefixReading(self._originals)] if self._originals else []
        self._held: list[str] = []
        self._piece = ""  # the latest characters, as long as the next one may combine with them
        self._marks = 0  # how many of them may join the character before
        self._cr = False  # whether the last character was CR

    def __repr__(self) -> str:
        state = "holding" if self._paths else "open"
        return f"<Hold {state} held={sum(map(len, self._held))} originals={len(self._originals)}>"

    @property
    def is_holding(self) -> bool:
        """Whether the text so far may still be a repeat."""
        return bool(self._paths)

    def feed(self, text: str) -> str:
        """Add a chunk. Returns the text that may be shown now: "", or all withheld text including this chunk."""
        if not self._paths:
            return text
        self._held.append(text)
        for char in text:
            self._take_char(char)
            if not self._paths:
                return self._release()
        self._paths = [path for path in self._paths if path.can_match(self._piece)]
        return "" if self._paths else self._release()

    def end(self) -> HoldEnd:
        """End the block. An echo stays withheld; all other withheld text is released."""
        self._settle_piece()
        echo = next((original for path in self._paths if (original := path.find_equal()) is not None), None)
        self._paths = []
        return HoldEnd("", echo) if echo is not None else HoldEnd(self._release(), None)

    def _release(self) -> str:
        text = "".join(self._held)
        self._held.clear()
        return text

    def _take_char(self, char: str) -> None:
        if may_join_previous(char) and self._marks < MAX_JOINING_RUN:
            self._piece += char
            self._marks += 1
            return
        self._settle_piece()
        char = char if char.isascii() or len(alone := nfc(char)) > 1 else alone
        if char in "`~" or char.isspace():  # nothing composes with these
            self._step_paths(char)
        else:
            self._piece, self._marks = char, int(may_join_previous(char))

    def _settle_piece(self) -> None:
        piece, self._piece, self._marks = self._piece, "", 0
        for char in nfc(piece):
            self._step_paths(char)

    def _step_paths(self, char: str) -> None:
        if char == "\n" and self._cr:
            self._cr = False
            return
        self._cr = char == "\r"
        self._paths = [after for path in self._paths for after in path.step("\n" if self._cr else char)]
