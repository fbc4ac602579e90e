"""What an agent hands over in its text is stored, recorded where it stood, shown, and sent like a file."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from gateway_world import script, until
from people_world import Chat

from semel.ledger.admin import books
from semel.ledger.admin.export import ExportWriter
from semel.ledger.backup.backups import make_backup
from semel.ledger.backup.restore import restore_backup
from semel.ledger.inbound import channel_batch as received_rows
from semel.ledger.sqlite.store import Store, now_ms

Json = dict[str, Any]
KEY = "demo:chat:dm"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
IMAGE = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
SOUND = {"type": "audio", "mimeType": "audio/wav", "data": base64.b64encode(b"RIFF....WAVE").decode()}
DOCUMENT = {"type": "resource", "resource": {"uri": "file:///x/notes.md", "mimeType": "text/markdown", "text": "# Hi"}}
BINARY = {"type": "resource", "resource": {"uri": "mem://a/b.pdf", "blob": base64.b64encode(b"%PDF").decode()}}
LINK = {"type": "resource_link", "uri": "https://example.org/plan.pdf", "name": "plan\n\u202efdp", "size": 2048}
DIES = ({"sleep": 0.2}, {"die": 9})
NOTHING: list[Json] = [{"sleep": 0.01}]


def chunk(content: Json) -> Json:
    return {"update": {"sessionUpdate": "agent_message_chunk", "content": content}}


async def told(w: Chat) -> list[str]:
    """What the agent said, by the record: texts, and names of files in brackets; one that counts no more is struck."""
    found = []
    for entry in await w.entries(KEY):
        if entry["role"] == "agent":
            words = entry["text"] or " ".join(f"[{file['name']}]" for file in entry.get("files", []))
            found.append(f"~{words}~" if entry.get("superseded") else words)
    return found


def left(w: Chat) -> list[str]:
    """What reached the chat, in its order."""
    return [post.text if post.kind == "post" else f"<{post.kind}>" for post in w.chat.platform.log]


async def ask(w: Chat, *steps: Any, **more: Any) -> list[str]:
    await w.tell(script(*steps, **more))
    await w.idle(KEY)
    await w.sent()
    return left(w)


@pytest.mark.parametrize("narration", ["all", "last"])
async def test_a_file_within_a_text_is_recorded_and_sent_where_it_stood(tmp_path: Path, narration: str) -> None:
    async with Chat(tmp_path, own={"narration": narration}) as w:
        shown = await ask(w, "Here is the chart.", chunk(IMAGE), "As you see, it rises.")
        assert await told(w) == ["Here is the chart.", "[image.png]", "As you see, it rises."]
        assert shown == ["Here is the chart.", "<file>", "As you see, it rises."]


async def test_each_kind_is_stored_with_its_name_type_and_size(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        shown = await ask(w, *map(chunk, (IMAGE, SOUND, DOCUMENT, BINARY, LINK)))
        files = [file for entry in await w.entries(KEY) for file in entry.get("files", [])]
        facts = [(file["name"], file["mime"], file["size"]) for file in files]
        assert facts == [
            ("image.png", "image/png", len(PNG)), ("sound.wav", "audio/wav", 12), ("notes.md", "text/markdown", 4),
            ("b.pdf", "application/pdf", 4), ("planfdp", "application/pdf", 2048),
        ]  # fmt: skip
        stored = [(w.path / "blobs" / file["id"]).read_bytes() for file in files if "id" in file]
        assert stored == [PNG, b"RIFF....WAVE", b"# Hi", b"%PDF"]
        assert "id" not in files[-1] and files[-1]["uri"] == "https://example.org/plan.pdf"
        link = "planfdp (application/pdf, 2 KB): https://example.org/plan.pdf"
        assert shown == ["<file>", "<file>", "<file>", "<file>", link]


@pytest.mark.parametrize("facts", [{"files": False}, {"file_limit": 10}])
async def test_a_chat_that_cannot_take_it_is_told_in_words_and_the_page_has_it(tmp_path: Path, facts: Json) -> None:
    async with Chat(tmp_path, facts=facts) as w:
        before, told_, after = await ask(w, "Look:", chunk(IMAGE), "Nice?")
        assert (before, after) == ("Look:", "Nice?")
        assert told_.startswith("[A file of the agent that stays on Semel's page: image.png (image/png, ")
        assert await told(w) == ["Look:", "[image.png]", "Nice?"]


async def test_where_only_closing_texts_are_delivered_a_file_goes_with_its_text(tmp_path: Path) -> None:
    async with Chat(tmp_path, own={"narration": "last"}) as w:
        shown = await ask(w, "Let me draw.", chunk(SOUND), {"tool": "draw"}, chunk(IMAGE), "Done.")
        assert shown == ["<file>", "Done."]
        assert await told(w) == ["Let me draw.", "[sound.wav]", "[image.png]", "Done."]


async def test_a_file_alone_is_an_answer(tmp_path: Path) -> None:
    async with Chat(tmp_path, own={"narration": "last"}) as w:
        assert await ask(w, {"tool": "draw"}, chunk(IMAGE)) == ["<file>"]
        assert not [entry for entry in await w.entries(KEY) if entry["role"] == "notice"]


async def test_the_same_file_again_in_one_turn_is_an_echo(tmp_path: Path) -> None:
    async with Chat(tmp_path, own={"narration": "all"}) as w:
        steps = ("One.", chunk(IMAGE), chunk(IMAGE), {"tool": "x"}, "Two.", chunk(IMAGE), "End.")
        shown = await ask(w, *steps)
        assert shown == ["One.", "<file>", "Two.", "End."]
        assert await told(w) == ["One.", "[image.png]", "Two.", "End."]
        assert (await ask(w, chunk(IMAGE)))[-1] == "<file>", "another turn says it anew"


async def test_a_file_that_a_tool_sent_is_not_sent_again_by_the_text(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        (w.work / "chart.png").write_bytes(PNG)
        send = {"call": "send_file", "arguments": {"path": "chart.png", "text": "The chart."}}
        assert await ask(w, send, chunk(IMAGE), "Done.") == ["<file>", "Done."]


async def test_one_that_never_left_leaves_with_the_closing_text_and_counts_once(tmp_path: Path) -> None:
    async with Chat(tmp_path, own={"narration": "last"}) as w:
        assert await ask(w, "See:", chunk(IMAGE), {"tool": "x"}, "So:", chunk(IMAGE)) == ["So:", "<file>"]
        assert await told(w) == ["See:", "~[image.png]~", "So:", "[image.png]"]


@pytest.mark.parametrize("narration", ["all", "last"])
@pytest.mark.parametrize("again", [[chunk(IMAGE), "Done."], ["Done."], NOTHING])
async def test_an_attempt_that_goes_on_neither_repeats_nor_loses_it(
    tmp_path: Path, narration: str, again: list[Any]
) -> None:
    async with Chat(tmp_path, own={"narration": narration}) as w:
        shown = await ask(w, {"tool": "draw"}, "Look:", chunk(IMAGE), *DIES, resume=again)
        assert shown.count("<file>") <= 1
        record = await told(w)
        assert record.count("[image.png]") == 1
        if narration == "all" or again != ["Done."]:
            assert shown.count("<file>") == 1, "it left"
        assert shown.count("Done.") == (again != NOTHING)


@pytest.mark.parametrize("narration", ["all", "last"])
async def test_an_attempt_that_begins_anew_neither_repeats_nor_loses_it(tmp_path: Path, narration: str) -> None:
    shown = ["Look:", "<file>", "Done."]
    async with Chat(tmp_path, own={"narration": narration}) as w:
        first, second = ["Look:", chunk(IMAGE), *DIES], ["Look:", chunk(IMAGE), "Done."]
        assert await ask(w, attempts=[first, second]) == shown


async def test_the_agent_is_told_by_name_what_it_handed_over(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await ask(w, {"tool": "draw"}, "Look:", chunk(IMAGE), *DIES, resume=[{"prompt": True}])
        assert any("'image.png'" in words for words in await told(w))


async def test_nothing_else_is_lost_beside_one_that_cannot_be_stored(tmp_path: Path) -> None:
    broken = {"type": "image", "mimeType": "image/png", "data": "§§§"}
    async with Chat(tmp_path) as w:
        shown = await ask(w, "One.", chunk(broken), chunk(IMAGE), "Two.")
        assert shown[:3] == ["One.", "<file>", "Two."]
        assert "its data cannot be read" in shown[3]


async def test_a_file_that_is_too_large_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.gateway.turns.agent_files.MAX_FILE_BYTES", 16)
    async with Chat(tmp_path) as w:
        shown = await ask(w, chunk(SOUND), chunk(IMAGE), "End.")
        assert shown[:2] == ["<file>", "End."] and "it is larger than 16 bytes" in shown[2]


async def test_one_that_was_left_out_of_too_long_a_line_is_told_like_one_that_is_too_large(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        shown = await ask(w, "Look:", chunk({**IMAGE, "leftOut": 9}), "Nice?")
        assert shown[0] == "Look:Nice?" and "it is larger than 52,428,800 bytes" in shown[1]


async def test_a_file_that_nobody_recorded_is_removed_and_a_dead_gateways_too(tmp_path: Path) -> None:
    stranger = "0" * 64
    async with Chat(tmp_path) as w:
        await ask(w, chunk(IMAGE))
        await w.gateway.record.write(received_rows.record_file, stranger, 1, "x", "image/png")
        (tmp_path / "blobs" / stranger).write_bytes(b"x")
    async with Chat(tmp_path) as w:

        async def gone() -> bool:
            return not (tmp_path / "blobs" / stranger).exists()

        await until(gone)
        [file] = [file for entry in await w.entries(KEY) for file in entry.get("files", [])]
        assert (tmp_path / "blobs" / file["id"]).read_bytes() == PNG


async def test_a_deleted_conversation_takes_its_files_along(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await ask(w, chunk(IMAGE))
        [file] = [file for entry in await w.entries(KEY) for file in entry.get("files", [])]
        await w.gateway.delete(KEY)

        async def gone() -> bool:
            return not (tmp_path / "blobs" / file["id"]).exists()

        await until(gone)


async def test_a_backup_holds_it_and_what_is_put_back_has_it(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await ask(w, "Look:", chunk(IMAGE), call("pending"), call("completed", content=result(SOUND)), "Done.")
    make_backup(w.settings.ledger, tmp_path, tmp_path / "copies", semel="test", clock=now_ms)
    new = tmp_path / "new"
    restore_backup(tmp_path / "copies", new / "ledger.db", new, clock=now_ms)
    kept = sorted(one.read_bytes() for one in (new / "blobs").iterdir() if one.is_file())
    assert kept == sorted([PNG, b"RIFF....WAVE"])
    with Store.open_sync(new / "ledger.db") as store:
        assert [book.name for book in store.read_sync(books.audit) if not book.ok] == []


async def test_an_export_names_it_and_an_imported_copy_keeps_it(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await ask(w, "Look:", chunk(IMAGE))
        writer, lines = ExportWriter(), list[bytes]()
        async for records in w.gateway.export(KEY):
            lines += map(writer.format_line, records)
        document = b"".join([*lines, writer.end()])
        [file] = [file for entry in await w.entries(KEY) for file in entry.get("files", [])]
        entries = [json.loads(line) for line in document.splitlines() if b"files" in line]
        assert [entry["more"]["files"] for entry in entries if entry["role"] == "agent"] == [[file]]
        await w.gateway.import_session(io.BytesIO(document), "copy")
        [copied] = [one for entry in await w.entries("copy") for one in entry.get("files", [])]
        assert copied == file
        await w.gateway.delete(KEY)
    async with Chat(tmp_path) as w:
        assert (w.path / "blobs" / file["id"]).read_bytes() == PNG


# ---------------------------------------------------------------- in results of tool calls


def call(status: str, **more: Any) -> Json:
    kind = "tool_call" if status == "pending" else "tool_call_update"
    return {"update": {"sessionUpdate": kind, "toolCallId": "t1", "title": "shoot", "status": status, **more}}


async def tool_calls(w: Chat) -> list[Json]:
    view = await anext(w.gateway.watch(KEY))
    return [item for item in view["items"] if item["kind"] == "tool"]


def result(*blocks: Json) -> list[Json]:
    return [{"type": "content", "content": block} for block in blocks]


TEXT = {"type": "text", "text": "taken"}
BROKEN = {"type": "image", "mimeType": "image/png", "data": "§§§"}
MCP = {"content": [TEXT, IMAGE], "isError": False}


@pytest.mark.parametrize(
    "ends",
    [
        [call("completed", content=result(TEXT, IMAGE))],
        [call("in_progress", content=result(IMAGE)), call("completed", content=result(TEXT, IMAGE))],
        [call("completed", rawOutput=MCP)],
        [call("completed", rawOutput={"result": MCP}, content=result(TEXT))],
        [call("completed", rawOutput=MCP, content=result(TEXT, IMAGE))],
        [call("completed", content=result(IMAGE), rawOutput="taken"), call("completed")],
    ],
)
async def test_a_file_in_the_result_of_a_tool_call_is_shown_with_the_call(tmp_path: Path, ends: list[Json]) -> None:
    async with Chat(tmp_path) as w:
        assert await ask(w, call("pending"), *ends, "Done.") == ["Done."], "no chat is sent it"
        [item] = await tool_calls(w)
        [file] = item["files"]
        assert (file["name"], file["mime"], item["text"]) == ("image.png", "image/png", "taken")
        assert (w.path / "blobs" / file["id"]).read_bytes() == PNG
    async with Chat(tmp_path) as w:  # the next gateway cleans up, and keeps it
        assert (w.path / "blobs" / file["id"]).read_bytes() == PNG
        await w.gateway.delete(KEY)

        async def gone() -> bool:
            return not (w.path / "blobs" / file["id"]).exists()

        await until(gone)


async def test_each_file_that_is_added_to_a_result_is_kept_once(tmp_path: Path) -> None:
    def added(block: Json) -> Json:
        piece = {"type": "content", "content": block}
        return {"update": {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "t1", "content": piece}}

    async with Chat(tmp_path) as w:
        chunks = [added(block) for block in (TEXT, IMAGE, SOUND, IMAGE, BROKEN, TEXT)]
        assert await ask(w, call("pending"), *chunks, call("completed"), "Done.") == ["Done."]
        [item] = await tool_calls(w)
        assert [file["name"] for file in item["files"]] == ["image.png", "sound.wav", "image"]
        assert item["text"] == "takentaken"
        assert (w.path / "blobs" / item["files"][0]["id"]).read_bytes() == PNG


async def test_what_of_a_result_cannot_be_stored_is_named_with_the_call(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await ask(w, call("pending"), call("completed", content=result(TEXT, BROKEN, IMAGE)), "Done.")
        [item] = await tool_calls(w)
        assert [file.get("missing") for file in item["files"]] == ["its data cannot be read", None]
        assert item["text"] == "taken"


async def test_a_file_that_a_tool_returned_is_said_once_the_agent_says_it(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        steps = (call("pending"), call("completed", content=result(IMAGE)), "Here:", chunk(IMAGE))
        assert await ask(w, *steps) == ["Here:", "<file>"]


async def test_a_message_that_is_told_whole_has_its_files(tmp_path: Path) -> None:
    def whole(*blocks: Json) -> Json:
        return {"update": {"sessionUpdate": "agent_message", "messageId": "m1", "content": list(blocks)}}

    text = {"type": "text", "text": "Look: "}
    async with Chat(tmp_path) as w:
        shown = await ask(w, whole(text), whole(text, IMAGE), whole(text, IMAGE, BROKEN), whole(text, IMAGE, BROKEN))
        assert shown[:2] == ["Look: ", "<file>"] and len(shown) == 3
        assert "its data cannot be read" in shown[2]


# ---------------------------------------------------------------- that only the agent's history holds


def remembered(*blocks: Json | str) -> list[Json]:
    """What the agent said and nobody received: its gateway had died before. Its history holds it."""
    texts = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
    updates = [{"sessionUpdate": "agent_message_chunk", "messageId": "m1", "content": one} for one in texts]
    return [*({"remember": one} for one in updates), {"save": True}, *DIES]


@pytest.mark.parametrize("narration", ["all", "last"])
@pytest.mark.parametrize("block", [IMAGE, DOCUMENT, LINK])
async def test_a_file_that_only_the_history_holds_is_recorded_and_sent(
    tmp_path: Path, narration: str, block: Json
) -> None:
    async with Chat(tmp_path, own={"narration": narration}) as w:
        shown = await ask(w, {"tool": "draw"}, *remembered("Look:", block, "Nice?"), resume=NOTHING)
        assert [shown[0], *shown[2:]] == ["Look:", "Nice?"] and len(await told(w)) == 3
        assert shown[1] == (
            "<file>" if block is not LINK else "planfdp (application/pdf, 2 KB): https://example.org/plan.pdf"
        )
        [file] = [file for entry in await w.entries(KEY) for file in entry.get("files", [])]
        if "id" in file:
            assert (w.path / "blobs" / file["id"]).exists()


@pytest.mark.parametrize("narration", ["all", "last"])
async def test_a_history_adds_the_file_behind_a_text_that_was_recorded(tmp_path: Path, narration: str) -> None:
    async with Chat(tmp_path, own={"narration": narration}) as w:
        steps = ({"tool": "draw"}, {"text": "Look:", "message": "m1"}, {"sleep": 0.2}, *remembered(IMAGE))
        assert await ask(w, *steps, resume=NOTHING) == ["Look:", "<file>"]
        assert [one for one in await told(w) if one != "~Look:~"] == ["Look:", "[image.png]"]


@pytest.mark.parametrize("narration", ["all", "last"])
@pytest.mark.parametrize("again", [[chunk(IMAGE), "Done."], ["Done."], NOTHING])
async def test_a_file_that_was_recorded_is_not_taken_from_the_history_again(
    tmp_path: Path, narration: str, again: list[Any]
) -> None:
    async with Chat(tmp_path, own={"narration": narration}) as w:
        steps = ({"tool": "draw"}, "Look:", chunk(IMAGE), "Nice?", {"save": True}, *DIES)
        shown = await ask(w, *steps, resume=again)
        record = await told(w)
        assert [one for one in record if "image" in one and "~" not in one] == ["[image.png]"]
        assert shown.count("<file>") == (narration == "all" or again != ["Done."])
        if again is NOTHING:
            assert shown == ["Look:", "<file>", "Nice?"]


@pytest.mark.parametrize("mark", [True, "end"])
async def test_a_turn_that_ends_with_a_file_is_finished_from_the_history(tmp_path: Path, mark: object) -> None:
    async with Chat(tmp_path, own={"narration": "last"}) as w:
        said = [step for step in remembered(IMAGE) if "save" not in step]
        steps = (said[0], {"save": mark}, *said[1:])
        assert await ask(w, *steps, resume=NOTHING) == ["<file>"]


async def test_files_of_earlier_turns_are_told_again_and_none_of_them_is_said(tmp_path: Path) -> None:
    other = {**SOUND, "data": base64.b64encode(b"another").decode()}
    async with Chat(tmp_path, own={"narration": "all"}) as w:
        await ask(w, "One.", chunk(IMAGE), {"remember": {"sessionUpdate": "agent_message_chunk", "content": SOUND}})
        await ask(w, {"tool": "draw"}, *remembered("Two.", other), resume=["Three."])
        assert left(w) == ["One.", "<file>", "Two.", "<file>", "Three."]
        names = [file["name"] for entry in await w.entries(KEY) for file in entry.get("files", [])]
        assert names == ["image.png", "sound.wav"]

        async def gone() -> bool:  # what the history held of the first turn, and nobody recorded
            return len([one for one in (w.path / "blobs").iterdir() if one.is_file()]) == 2

        await until(gone)


async def test_a_tool_call_that_only_the_history_holds_has_the_files_of_its_result(tmp_path: Path) -> None:
    update = {"sessionUpdate": "tool_call", "toolCallId": "t9", "title": "shoot", "status": "completed"}
    async with Chat(tmp_path) as w:
        held = {**update, "content": result(TEXT, IMAGE)}
        await ask(w, "Look.", {"remember": held}, {"save": True}, *DIES, resume=["Done."])
        [item] = await tool_calls(w)
        assert [file["name"] for file in item["files"]] == ["image.png"]
        assert (w.path / "blobs" / item["files"][0]["id"]).read_bytes() == PNG
