"""The call that sends a part, and what its answer means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from semel.channels.signal.address import EditedMessages, OwnAccount, parse_message_id
from semel.channels.signal.process import SignalReply
from semel.channels.signal.receipts import receipt_of
from semel.channels.signal.render import render
from semel.channels.signal.send import make_call, name_file
from semel.channels.signal.settings import SignalSettings
from semel.gateway.ports import Answers, NotSent, Op, Receipt, Rejected, Unknown
from semel.testing.signal import ACCOUNT, ACCOUNT_ID

OWN = OwnAccount(ACCOUNT, ACCOUNT_ID)
ANN = "00000000-5e3e-4000-8000-000000000001"
ROOM = "group:" + "A" * 43 + "="


def make(kind: Any, text: str = "", to: str = ANN, edits: EditedMessages | None = None, **more: Any) -> Any:
    call = make_call(Op("key", kind, to, text, **more), OWN, edits or EditedMessages())
    return call.method, call.params


@pytest.mark.parametrize(
    ("markdown", "text", "styles"),
    [
        ("plain", "plain", []),
        ("**b** *i* ~~s~~ `c`", "b i s c", ["0:1:BOLD", "2:1:ITALIC", "4:1:STRIKETHROUGH", "6:1:MONOSPACE"]),
        ("😀 **b**", "😀 b", ["3:1:BOLD"]),
        ("```py\nx = 1\n```", "x = 1", ["0:5:MONOSPACE"]),
        ("# One\ntwo", "One\ntwo", ["0:3:BOLD"]),
        ("- a\n- b", "• a\n• b", []),
        ("[here](https://a.b)", "here (https://a.b)", []),
        ("https://a.b/c", "https://a.b/c", []),
        ("> a **b**\n> c\n\nd", "> a b\n> c\n\nd", ["4:1:BOLD"]),
        ("> **a\n> b**", "> a\n> b", ["2:5:BOLD"]),
        ("<b> & &amp;", "<b> & &amp;", []),
        ("---", "———", []),
    ],
)
def test_markdown_becomes_text_and_styles(markdown: str, text: str, styles: list[str]) -> None:
    assert render(markdown, 2000) == (text, styles)


def test_what_would_be_too_long_goes_as_it_was_written() -> None:
    assert render("- a\n- **b**", 10) == ("- a\n- **b**", [])
    assert render("- a\n- **b**", 11) == ("• a\n• b", ["6:1:BOLD"])
    assert render("", 10) == ("", [])


def test_a_repeat_is_marked_before_the_text() -> None:
    assert make("post", "**b**", marked=True) == (
        "send",
        {"recipient": [ANN], "message": "(repeat) b", "textStyle": ["9:1:BOLD"]},
    )


def test_each_kind_of_part_is_a_call_of_its_own() -> None:
    edits = EditedMessages()
    assert make("post", "x", ROOM) == ("send", {"groupId": ROOM.removeprefix("group:"), "message": "x"})
    assert make("post", "x", ACCOUNT_ID) == ("send", {"noteToSelf": True, "message": "x"})
    change = {"recipient": [ANN], "message": "x", "editTimestamp": 5}
    assert make("edit", "x", target="self/5", edits=edits) == ("send", change)
    edits.note_edit(parse_message_id("self/5"), 9)
    assert make("edit", "x", target="self/5", edits=edits) == ("send", {**change, "editTimestamp": 9})
    assert make("delete", target="self/5", edits=edits) == ("remoteDelete", {"recipient": [ANN], "targetTimestamp": 5})
    reaction = {"recipient": [ANN], "emoji": "👍", "targetAuthor": ANN, "targetTimestamp": 5}
    assert make("react", "👍", target=f"{ANN}/5") == ("sendReaction", reaction)
    assert make("react", "👍", target="self/5") == ("sendReaction", {**reaction, "targetAuthor": ACCOUNT})


def test_in_a_group_the_first_part_quotes_what_it_answers_and_so_does_its_edit() -> None:
    answers = Answers(f"{ANN}/5", ANN, {"excerpt": "why?"})
    quote = {"quoteTimestamp": 5, "quoteAuthor": ANN, "quoteMessage": "why?"}
    assert make("post", "x", ROOM, answers=answers)[1].items() >= quote.items()
    assert make("edit", "x", ROOM, answers=answers, target="self/7")[1].items() >= quote.items()
    assert "quoteTimestamp" not in make("post", "x", ROOM, answers=answers, n=1)[1]
    assert "quoteTimestamp" not in make("post", "x", ANN, answers=answers)[1]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("post", {"text": "x", "to": "nowhere"}),
        ("post", {"text": "  "}),
        ("edit", {"text": "x", "target": f"{ANN}/5"}),
        ("delete", {"target": "5"}),
        ("react", {"target": "self/5", "text": " "}),
    ],
)
def test_what_cannot_be_sent_is_rejected(kind: str, fields: dict[str, Any]) -> None:
    with pytest.raises(Rejected):
        make(kind, **fields)


def test_a_file_goes_under_its_name_and_the_link_is_removed(tmp_path: Path) -> None:
    stored = tmp_path / "0a1b"
    stored.write_bytes(b"cat")
    op = Op("key", "file", ANN, "look", file=stored, name="../my cat.png")
    with name_file(op, tmp_path / "journal") as path:
        assert path is not None
        assert (path.name, path.read_bytes()) == ("_my cat.png", b"cat")
        assert make_call(op, OWN, EditedMessages(), path).params["attachment"] == [str(path)]
    assert list((tmp_path / "journal").iterdir()) == []
    stored.unlink()
    with pytest.raises(Rejected, match="cannot be read"), name_file(op, tmp_path / "journal"):
        pass


def failed(code: int, *kinds: str, text: str = "Failed to send message", **fields: Any) -> SignalReply:
    """An answer that nobody got the message."""
    results = [{"type": kind, "recipientAddress": {"number": "+49"}, **fields} for kind in kinds]
    return SignalReply(None, code, text, {"response": {"timestamp": 5, "results": results}} if kinds else {})


def sent(*kinds: str) -> SignalReply:
    return SignalReply({"timestamp": 5, "results": [{"type": kind} for kind in kinds]})


@pytest.mark.parametrize(
    ("reply", "outcome", "words"),
    [
        (sent("SUCCESS"), Receipt, ""),
        (sent("UNREGISTERED_FAILURE", "SUCCESS", "NETWORK_FAILURE"), Receipt, ""),
        (sent(), Receipt, ""),
        (sent("NETWORK_FAILURE"), Unknown, ""),
        (SignalReply({}), Unknown, "names no message"),
        (SignalReply({"timestamp": True}), Unknown, ""),
        (failed(-1, "UNREGISTERED_FAILURE"), Rejected, "not registered"),
        (failed(-1, "UNREGISTERED_FAILURE", "NETWORK_FAILURE"), Unknown, "connection"),
        (failed(-1, "SOMETHING_NEW"), Unknown, ""),
        (failed(-4, "IDENTITY_FAILURE"), Rejected, f"signal-cli -a {ACCOUNT} trust"),
        (failed(-5, "RATE_LIMIT_FAILURE", retryAfterSeconds=90), NotSent, "too many"),
        (failed(-5, "RATE_LIMIT_FAILURE", token="t0", retryAfterSeconds=90), NotSent, "--challenge t0"),
        (failed(-5), NotSent, ""),
        (failed(-1, "INVALID_PRE_KEY_FAILURE"), NotSent, ""),
        (failed(-1, text="Group not found: x"), Rejected, "Group not found"),
        (failed(-32601, text="Method not implemented"), Rejected, ""),
        (failed(-32603, text="x (AttachmentInvalidException)"), Rejected, "file"),
        (failed(-32603, text="Failed to send message: reset (SocketException)"), Unknown, "reset"),
        (failed(-3, text="io"), Unknown, ""),
        (failed(0, text="?"), Unknown, ""),
    ],
)
def test_an_answer_is_a_receipt_a_no_or_unknown(reply: SignalReply, outcome: type, words: str) -> None:
    op = Op("key", "post", ANN, "x")
    if outcome is Receipt:
        assert receipt_of(op, reply, ACCOUNT) == Receipt("self/5")
        return
    with pytest.raises(outcome) as raised:
        receipt_of(op, reply, ACCOUNT)
    assert words in str(raised.value)
    if isinstance(raised.value, NotSent):
        assert raised.value.retry_after == (90 if "retryAfterSeconds" in str(reply.data) else 60)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "account should be"),
        ({"account": "4915"}, "account should be"),
        ({"account": ACCOUNT, "command": "signal-cli"}, "command should be"),
        ({"account": ACCOUNT, "command": []}, "command should be"),
        ({"account": ACCOUNT, "timeout": 0}, "timeout should be"),
        ({"account": ACCOUNT, "pace": -1}, "pace should be"),
        ({"account": ACCOUNT, "file_limit": -1}, "file_limit should be"),
    ],
)
def test_a_wrong_setting_is_named(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SignalSettings(**fields)
