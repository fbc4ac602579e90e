"""A reply in pieces: every character of the agent's text is handed out once, in order, whatever happens to its turn."""

from __future__ import annotations

from typing import Any

from semel.faces.reply_stream import Activity, NoticePiece, Piece, ReplyReader, TextPiece

Json = dict[str, Any]


def entry(seq: int, text: str, turn: int = 1, **more: Any) -> Json:
    return {"seq": seq, "born": seq, "rev": seq, "role": "agent", "turn": turn, "text": text, **more}


def said(pieces: list[Piece]) -> str:
    """The texts, with a bar between two of them."""
    out: dict[int, str] = {}
    for piece in pieces:
        if isinstance(piece, TextPiece):
            out[piece.id] = out.get(piece.id, "") + piece.text
    return "|".join(out.values())


def read(*steps: list[Json]) -> list[Piece]:
    reader = ReplyReader()
    return [piece for rows in steps for piece in reader.read(rows)]


def test_a_growing_text_is_handed_out_once() -> None:
    pieces = read([entry(2, "One", live=True)], [entry(2, "One two", live=True)], [entry(2, "One two")])
    assert pieces == [TextPiece(2, "One", False), TextPiece(2, " two", False), TextPiece(2, "", True)]


def test_a_row_that_comes_again_adds_nothing() -> None:
    once = read([entry(2, "One"), entry(3, "Two")])
    assert read([entry(2, "One"), entry(3, "Two")], [entry(2, "One"), entry(3, "Two")]) == once


def test_a_text_waits_for_the_text_before_it() -> None:
    pieces = read(
        [entry(2, "Fir", live=True), entry(3, "Second")],
        [entry(2, "First")],
    )
    assert [(piece.id, piece.text) for piece in pieces if isinstance(piece, TextPiece)] == [
        (2, "Fir"), (2, "st"), (3, "Second"),
    ]  # fmt: skip


def test_a_tool_that_runs_on_holds_no_text_back() -> None:
    tool = {"id": 5, "born": 2, "rev": 2, "kind": "tool", "turn": 1, "live": True}
    pieces = read([tool, entry(3, "Meanwhile")], [{**tool, "live": False}])
    assert pieces == [Activity(tool), TextPiece(3, "Meanwhile", True), Activity({**tool, "live": False})]


def test_a_restart_that_says_the_same_again_continues_the_text() -> None:
    pieces = read(
        [entry(2, "The answer is 4", live=True)],
        [entry(2, "The answer is 4", partial=True), entry(3, "The ans", turn=2, live=True)],
        [entry(3, "The answer is 42", turn=2, live=True)],
        [entry(2, "The answer is 4", partial=True, superseded=True), entry(3, "The answer is 42.", turn=2)],
    )
    assert said(pieces) == "The answer is 42."


def test_a_restart_that_says_something_else_adds_a_text() -> None:
    pieces = read(
        [entry(2, "The answer is 4", live=True)],
        [entry(2, "The answer is 4", partial=True), entry(3, "The ans", turn=2, live=True)],
        [entry(3, "The anscestor", turn=2)],
    )
    assert said(pieces) == "The answer is 4|The anscestor"


def test_who_asks_later_gets_only_what_replaced_a_lost_text() -> None:
    lost = entry(2, "The answer is 4", partial=True, superseded=True)
    assert said(read([lost, entry(3, "The answer is 42.", turn=2)])) == "The answer is 42."


def test_an_equal_text_in_the_same_turn_is_a_second_text() -> None:
    assert said(read([entry(2, "ha"), entry(3, "ha")])) == "ha|ha"


def test_a_rewritten_text_follows_whole() -> None:
    pieces = read([entry(2, "Good mor", live=True)], [entry(2, "Good evening")])
    assert said(pieces) == "Good mor|Good evening"


def test_a_file_is_a_link_at_the_end_of_its_text() -> None:
    files = [
        {"id": "b1", "name": "a.png"},
        {"name": "b.png", "missing": "it is too large"},
        {"uri": "https://x.example/c"},
    ]
    reader = ReplyReader("http://gateway")
    pieces = [*reader.read([entry(2, "Here", live=True)]), *reader.read([entry(2, "Here", files=files)])]
    assert said(pieces) == (
        "Here\n\n[a.png](http://gateway/v1/blobs/b1)\n\nb.png: it is too large\n\n[file](https://x.example/c)"
    )


def test_a_reaction_is_no_text() -> None:
    assert read([entry(2, "", emoji="+1", of=1)]) == []


def test_what_went_elsewhere_is_no_part_of_the_reply() -> None:
    notice = {"seq": 4, "born": 4, "rev": 4, "role": "notice", "turn": 1, "text": "n", "kind": "turn.empty"}
    pieces = read([entry(2, "to others", to="chat:room"), entry(3, "afterwards", late=True), notice])
    assert pieces == [NoticePiece(notice)]
