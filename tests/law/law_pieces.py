"""Reads a block and joins the pieces that went home side by side: how they were cut says nothing."""

from __future__ import annotations

from collections.abc import Iterable

from semel.text.message_markup import MarkupReader, Piece, Said


def read(chunks: Iterable[str], names: tuple[str, ...] = ("a", "b"), addressed: bool = True) -> list[Piece]:
    reader = MarkupReader(addressed, names)
    pieces = [piece for chunk in chunks for piece in reader.feed(chunk)]
    return joined([*pieces, *reader.end()])


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    out: list[Piece] = []
    for piece in pieces:
        last = out[-1] if out else None
        same = isinstance(last, Said) and last.dest is None and not last.final
        if isinstance(piece, Said) and isinstance(last, Said) and piece.dest is None and same:
            out[-1] = Said(None, last.text + piece.text, piece.final)
        else:
            out.append(piece)
    return [Said(None, one.text) if isinstance(one, Said) and one.dest is None else one for one in out]
