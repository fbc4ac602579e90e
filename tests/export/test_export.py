"""An export holds the whole session; for people it is readable, and nothing in it is active."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from export_house import agent, conversation, exported, header, turn, user
from gateway_world import World, script

from semel.faces.documents import FORMATS, HtmlDocument, MarkdownDocument
from semel.faces.documents.markdown import contain_markdown
from semel.gateway.errors import NoSuchSession
from semel.ledger.admin import export
from semel.ledger.transcript import entries, views

Json = dict[str, Any]


async def lines(world: World, key: str) -> list[Json]:
    return [json.loads(line) for line in (await exported(world.gateway, key)).splitlines()]


async def test_every_entry_is_there_with_its_event_its_turn_and_its_claim(world: World) -> None:
    await world.ask("say: one", key="k1", sender="Ann")
    await world.gateway.report("s", "note", "seen", data={"n": 1}, key="k2", wakes=False)
    head, *rest, end = await lines(world, "s")
    assert (head["format"], head["version"], head["key"], head["entries"]) == ("semel.session", 1, "s", 3)
    assert [line["line"] for line in rest] == ["turn", "entry", "entry", "entry"]
    first, said, note = rest[1:]
    assert (first["seq"], first["role"], first["text"], first["more"]) == (1, "user", "say: one", {"sender": "Ann"})
    assert (first["event"]["source"], first["event"]["key"], first["event"]["turn"]) == ("api:s", "k1", 1)
    assert len(first["event"]["digest"]) == 32
    assert (said["role"], said["text"], said["turn"]) == ("agent", "one", 1)
    assert (said["claim"]["how"], said["claim"]["dest"], said["claim"]["turn"]) == ("block", "web:s", 1)
    assert note["event"]["payload"] == {"data": {"n": 1}}
    assert note["event"]["turn"] is None
    assert end["entries"] == 3


async def test_what_was_not_said_is_there_with_its_outcome(world: World) -> None:
    await world.ask(script({"call": "send_message", "arguments": {"text": "twice"}}, "twice"))
    claims = [line for line in await lines(world, "s") if line["line"] == "claim"]
    assert [(c["outcome"], c["text"], c["of"]) for c in claims] == [("echo", "twice", 2)]
    copy = io.BytesIO(await exported(world.gateway, "s"))
    await world.gateway.import_session(copy, "copy")
    assert (await world.entries("copy"))[1]["echoes"] == 1


async def test_an_export_of_nothing_is_refused(world: World) -> None:
    with pytest.raises(NoSuchSession):
        await exported(world.gateway, "nowhere")


async def test_entries_that_come_while_it_is_written_are_not_in_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PAGE", 2)
    for n in range(5):
        await world.gateway.report("s", "note", f"n{n}", wakes=False)
    writer, out = export.ExportWriter(), b""
    async for records in world.gateway.export("s"):
        await world.gateway.report("s", "note", "late", wakes=False)
        out += b"".join(map(writer.format_line, records))
    found = [json.loads(line) for line in out.splitlines()]
    assert [line["text"] for line in found if line["line"] == "entry"] == [f"n{n}" for n in range(5)]
    assert found[0]["entries"] == 5


async def test_what_was_deleted_before_is_not_in_it(world: World) -> None:
    await world.ask("say: secret", key="k1")
    await world.gateway.delete("s")
    with pytest.raises(NoSuchSession):
        await exported(world.gateway, "s")
    await world.ask("say: anew", key="k2")
    data = await exported(world.gateway, "s")
    assert b"secret" not in data
    found = [json.loads(line) for line in data.splitlines()]
    assert [line["seq"] for line in found if line["line"] == "entry"] == [1, 2]
    assert (await world.gateway.import_session(io.BytesIO(data), "copy"))["status"] == "imported"


# ---------------------------------------------------------------- for people

EVIL = '<script>alert(1)</script><img src=x onerror=alert(1)> & "quoted" </div></article> javascript:alert(1)'


def page(text: str, role: str = "user", **more: Any) -> list[Json]:
    made = agent(1, text, 1) if role == "agent" else user(1, text, 1)
    return [header("k", 1, 1, **more), turn(1), {**made, "role": role}]


@pytest.mark.parametrize("role", ["user", "agent", "event", "notice"])
def test_nothing_of_a_text_is_active_in_an_html_document(role: str) -> None:
    document = HtmlDocument()
    html = (
        document.page(
            page(EVIL + f"\n\n[x](javascript:alert(1)) ![p](http://e.example/p.png) {EVIL}", role, title=EVIL)
        )
        + document.end()
    ).decode()
    assert "<script" not in html
    assert not re.search(r"<[^>]*\son\w+\s*=", html)
    assert not re.search(r'(?:href|src)="?\s*javascript:', html)
    assert "<img" not in html
    assert not re.search(
        r"(?:src|url)\s*[=(]", re.sub(r"&[a-z]+;|<style>.*?</style>", "", html, flags=re.S).replace("src=x", "")
    )
    assert "default-src 'none'" in html
    assert html.count("<article") == html.count("</article>") == 1


@pytest.mark.parametrize("name", ["sender", "kind", "from", "to"])
def test_names_are_text_too(name: str) -> None:
    records = page("hello", "event" if name == "kind" else "agent" if name == "from" else "user")
    records[-1]["more"] = {name: EVIL}
    assert "<script" not in HtmlDocument().page(records).decode()
    assert "\n<" not in MarkdownDocument().page(records).decode()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("plain *text* _here_", "plain *text* _here_"),
        ("# Title\n## 7 · user · forged", "### Title\n#### 7 · user · forged"),
        ("###### six", "###### six"),
        ("Title\n===\nmore", "Title\n\\===\nmore"),
        ("a\n\n---\n\nb", "a\n\n---\n\nb"),
        ("<details>x</details>", "\\<details>x\\</details>"),
        ("1 < 2 <3", "1 < 2 <3"),
        ("```\n# not a heading <b>\n```", "```\n# not a heading <b>\n```"),
        ("```\nleft open", "```\nleft open\n```"),
        ("~~~~\n# x", "~~~~\n# x\n~~~~"),
    ],
)
def test_a_text_stays_inside_its_entry_in_a_markdown_document(text: str, kept: str) -> None:
    assert contain_markdown(text) == kept


def test_a_markdown_document_has_a_heading_an_entry() -> None:
    document = MarkdownDocument()
    told = document.page(list(conversation(2))).decode()
    assert told.startswith("# big\n")
    assert re.findall(r"^## (\d+) · ([\w ]+?) ·", told, re.M) == [
        ("1", "the owner"),
        ("2", "agent"),
        ("3", "the owner"),
        ("4", "agent"),
    ]
    assert "\nquestion 2?\n" in told


@pytest.mark.parametrize("format", FORMATS)
def test_a_document_is_the_same_in_whatever_pages_it_is_written(format: str) -> None:
    records = list(conversation(20))
    whole, pieces = FORMATS[format](), FORMATS[format]()
    one = whole.page(records) + whole.end()
    assert one == b"".join(pieces.page([record]) for record in records) + pieces.end()


# ---------------------------------------------------------------- tool calls and decisions, for people


async def documents(world: World) -> tuple[str, str, list[Json]]:
    """The session as Markdown and HTML, and the records of which they are made."""
    records = [record async for page in world.gateway.export("s", with_items=True) for record in page]
    return MarkdownDocument().page(records).decode(), HtmlDocument().page(records).decode(), records


def add_item(kind: str, **body: Any) -> Any:
    def write(tx: Any) -> None:
        session = views.find_session(tx, "s")
        assert session is not None
        entries.add_item(tx, session.id, turn=None, kind=kind, body=body, live=False)

    return write


OPTIONS = [{"optionId": "y", "name": "Allow once"}, {"optionId": "n", "name": "Reject"}]


@pytest.mark.parametrize("page_size", [1, 2, 3, 200])
async def test_a_document_says_what_was_run_and_who_allowed_it_in_its_place(
    world: World, monkeypatch: pytest.MonkeyPatch, page_size: int
) -> None:
    monkeypatch.setattr(export, "PAGE", page_size)
    write = world.gateway.record.write
    await world.gateway.report("s", "note", "first", wakes=False)
    await write(add_item("tool", title="ls -la", status="done"))
    await write(add_item("thought"))
    await world.gateway.report("s", "note", "second", wakes=False)
    answered = {"state": "answered", "answer": "y", "by": "ann", "options": OPTIONS}
    await write(add_item("permission", title="rm -r ./build", **answered))
    await write(add_item("tool", title="rm -r ./build", status="failed", exit=1))
    await world.gateway.report("s", "note", "third", wakes=False)
    await write(add_item("permission", title="reboot", state="expired", options=OPTIONS))

    markdown, html, records = await documents(world)
    shown = [line for line in markdown.splitlines() if line.startswith((">", "first", "second", "third"))]
    assert shown == [
        "first", "> tool · ls -la · done",
        "second", "> permission · rm -r ./build · Allow once by ann", "> tool · rm -r ./build · failed · exit 1",
        "third", "> permission · reboot · expired",
    ]  # fmt: skip
    assert "<b>permission</b><span>rm -r ./build</span><span>Allow once by ann</span>" in html
    assert [record["line"] for record in records].count("item") == 4
    assert b'"item"' not in await exported(world.gateway, "s")


async def test_a_title_of_a_tool_call_is_text_in_a_document(world: World) -> None:
    await world.gateway.report("s", "note", "first", wakes=False)
    await world.gateway.record.write(add_item("tool", title=f"{EVIL}\n## 7 · forged", status="done"))
    markdown, html, _ = await documents(world)
    assert "<script" not in html and "<img" not in html
    assert "\n## 7" not in markdown and "\n<" not in markdown and " <script" not in markdown
