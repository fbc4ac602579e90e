"""The mails that we send: what people and programs see of them, and that nobody can write into their headers."""

from __future__ import annotations

import email
import email.policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from letters import settings

from semel.channels.email.compose import AnsweredMail, compose, read_answered
from semel.channels.email.parse import base_subject
from semel.gateway.ports import Answers, Op, Rejected
from semel.text.visible import visible

THREAD = "ada@people.org:thread-1f0c9a1e52d4b687"
QUESTION = AnsweredMail("<2@people.org>", "Re: Engines", ("<1@people.org>",))


def op(text: str = "Hello", **more: Any) -> Op:
    usual: dict[str, Any] = {"key": "0f9a", "kind": "post", "address": THREAD, "at": 1795255200.0}
    return Op(text=text, **(usual | more))


def made(one: Op, answers: AnsweredMail | None = QUESTION, **more: Any) -> EmailMessage:
    raw = compose(one, settings(**more), answers)
    assert raw.isascii() and max(map(len, raw.split(b"\r\n"))) < 999
    assert b"\n" not in raw.replace(b"\r\n", b"")
    return email.message_from_bytes(raw, policy=email.policy.default)  # type: ignore[return-value]


def test_an_answer_stands_in_its_thread() -> None:
    mail = made(op())
    assert mail["From"] == "Semel <semel@example.org>"
    assert mail["To"] == "ada@people.org"
    assert mail["Subject"] == "Re: Engines"
    assert mail["Message-ID"] == "<semel.0f9a.1f0c9a1e52d4b687@example.org>"
    assert mail["In-Reply-To"] == "<2@people.org>"
    assert mail["References"] == "<1@people.org> <2@people.org>"
    assert mail["Date"] == "Sat, 21 Nov 2026 10:00:00 -0000"
    assert "Bcc" not in mail


def test_a_mail_that_answers_none_begins_a_thread_of_its_own() -> None:
    mail = made(op(address="ada@people.org"), None, subject="From the office")
    assert mail["Subject"] == "From the office"
    assert mail["Message-ID"] == "<semel.0f9a@example.org>"
    assert (mail["In-Reply-To"], mail["References"]) == (None, None)


def test_it_says_that_a_program_sent_it_so_that_no_machine_answers() -> None:
    assert made(op())["Auto-Submitted"] == "auto-replied"
    mail = made(op(), None)
    assert mail["Auto-Submitted"] == "auto-generated"
    assert (mail["Precedence"], mail["X-Auto-Response-Suppress"]) == ("auto_reply", "OOF, AutoReply")


def test_each_retry_is_the_same_mail_byte_for_byte(tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(bytes(range(256)) * 50)
    one = op("Grüße", kind="file", file=file, name="größe.bin")
    assert compose(one, settings(), QUESTION) == compose(one, settings(), QUESTION)


def test_the_words_come_as_they_were_written_and_as_html() -> None:
    mail = made(op("# Plan\n\n**now** in `main.py`\nnext line\n\n| a | b |\n|---|---|\n| 1 | 2 |"))
    plain, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert plain is not None and html is not None
    assert plain.get_content().replace("\r", "").startswith("# Plan\n\n**now** in `main.py`\nnext line")
    shown = html.get_content()
    assert "<h1>Plan</h1>" in shown and "<strong>now</strong> in <code>main.py</code><br>" in shown
    assert "<td>2</td>" in shown


@pytest.mark.parametrize(
    "text",
    [
        "![a cat](https://evil.org/pixel.png)",
        "<img src=https://evil.org/x> <script>alert(1)</script>",
        "[click](javascript:alert(1)) [data](data:text/html,x)",
        '![x](https://evil.org/a"onerror=alert(1))',
        "<style>@import 'https://evil.org'</style>",
    ],
)
def test_nothing_is_active_in_it_and_nothing_is_fetched(text: str) -> None:
    html = made(op(text)).get_body(("html",))
    assert html is not None
    shown = html.get_content().lower()
    assert not any(
        word in shown for word in ("<img", "<script", "<style", 'href="javascript', 'href="data', " onerror=")
    )


def test_a_picture_is_a_link_that_somebody_may_follow() -> None:
    html = made(op("![a cat](https://people.org/cat.png)")).get_body(("html",))
    assert html is not None
    assert '<a href="https://people.org/cat.png">[image: a cat]</a>' in html.get_content()


def test_names_of_files_are_no_links() -> None:
    html = made(op("see main.py and https://people.org/a.py")).get_body(("html",))
    assert html is not None
    assert html.get_content().count("<a ") == 1


def test_a_very_long_text_goes_as_plain_text() -> None:
    mail = made(op("word " * 30_000))
    assert mail.get_content_type() == "text/plain"
    assert mail.get_content().split() == ["word"] * 30_000


def test_a_file_goes_with_its_caption(tmp_path: Path) -> None:
    file = tmp_path / "blob"
    file.write_bytes(b"%PDF\x00\xff")
    mail = made(op("here it is", kind="file", file=file, name='plan "größe".pdf', mime="application/pdf"))
    [part] = mail.iter_attachments()
    assert (part.get_filename(), part.get_content_type()) == ("plan _größe_.pdf", "application/pdf")
    assert part.get_content() == b"%PDF\x00\xff"
    body = mail.get_body(("plain",))
    assert body is not None
    assert body.get_content().strip() == "here it is"


def test_a_file_without_a_caption_goes_alone(tmp_path: Path) -> None:
    file = tmp_path / "blob"
    file.write_bytes(b"x")
    mail = made(op("", kind="file", file=file, name="x", mime="message/rfc822"))
    [part] = mail.iter_parts()
    assert (part.get_content_type(), part.get_content()) == ("application/octet-stream", b"x")


def test_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="cannot be read"):
        made(op("x", kind="file", file=tmp_path / "gone"))


def test_a_repeat_says_so_to_people_under_the_same_message_id() -> None:
    mail = made(op(marked=True))
    assert mail["Subject"] == "(repeat) Re: Engines"
    body = mail.get_body(("plain",))
    assert body is not None
    assert body.get_content().startswith("(repeat) Hello")
    assert mail["Message-ID"] == made(op())["Message-ID"]


@pytest.mark.parametrize(
    "address", ["ada", "ada@people.org, bob@people.org", "ada@people.org\r\nBcc: x@y.org", "<a@b>", ""]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(Rejected, match="not a mail address"):
        made(op(address=address))


HOSTILE = st.text(st.characters() | st.sampled_from('\r\n:<>"=?\x00\u2028\ud800'), max_size=80)


@hypothesis_settings(max_examples=40, deadline=None)
@given(HOSTILE, HOSTILE, st.lists(HOSTILE, max_size=3), HOSTILE, HOSTILE)
def test_no_header_can_be_injected(subject: str, name: str, references: list[str], id: str, text: str) -> None:
    data = {"subject": subject, "references": [f"<{each}>" for each in references]}
    answers = read_answered(Answers(f"<{id}>", "ada@people.org", data))
    own = settings(display_name="".join(char for char in name if char.isprintable()) or "x")
    raw = compose(op(text), own, answers)
    mail = email.message_from_bytes(raw, policy=email.policy.default)
    known = {"from", "to", "subject", "date", "message-id", "in-reply-to", "references", "auto-submitted", "precedence"}
    known |= {"x-auto-response-suppress", "content-type", "mime-version", "content-transfer-encoding"}
    assert {each.lower() for each in mail.keys()} <= known  # noqa: SIM118 (it is no mapping)
    assert len(mail.get_all("subject", [])) == len(mail.get_all("to", [])) == 1
    assert "ada@people.org" in str(mail["to"])


@hypothesis_settings(max_examples=40, deadline=None)
@given(HOSTILE)
def test_any_text_can_be_sent(text: str) -> None:
    mail = made(op(text))
    body = mail.get_body(("plain",))
    assert body is not None
    wanted = visible(text.encode("utf-8", "replace").decode())
    assert body.get_content().replace("\r", "").rstrip("\n") == wanted.rstrip("\n")


@pytest.mark.parametrize(
    ("subject", "base"),
    [
        ("Re: RE: AW: x", "x"),
        ("Re[2]: x", "x"),
        ("Fwd: x", "x"),
        ("Regarding x", "Regarding x"),
        ("re:", ""),
        ("x", "x"),
    ],
)
def test_a_subject_is_answered_once(subject: str, base: str) -> None:
    assert base_subject(subject) == base


def test_what_the_gateway_remembers_of_no_mail_is_no_answer() -> None:
    assert read_answered(None) is None
    assert read_answered(Answers("not an id")) is None
    assert read_answered(Answers("<1@x>", data={"references": 7, "subject": None})) == AnsweredMail("<1@x>")
