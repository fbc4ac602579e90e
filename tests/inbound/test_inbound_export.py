"""What people do on a channel is in an export, and comes back by an import."""

from __future__ import annotations

import io

from inbound_world import ANN, BOB, KEY, Chat, message

from semel.faces.documents import FORMATS
from semel.gateway.ports import Incoming, Missing


async def document(chat: Chat, kind: str) -> bytes:
    writer = FORMATS[kind]()
    return b"".join([writer.page(page) async for page in chat.gateway.export(KEY)]) + writer.end()


async def test_an_export_holds_what_was_done_to_messages_and_an_import_brings_it_back(chat: Chat) -> None:
    kept = await chat.chat.attach("plan.pdf", b"%PDF", "application/pdf")
    files = (kept, Missing("b.mp4", "too large", "video/mp4"))
    await chat.tell(
        message("m1", "five?", BOB, group=True, files=files),
        Incoming("edit", "m1/2", "room", BOB, "six?", of="m1", group=True),
        Incoming("reaction", "r1", "room", ANN, "👍", of="m1", group=True),
        Incoming("delete", "m1/x", "room", BOB, of="m1", group=True),
        message("m2", "fine", group=True, of="m1"),
    )  # fmt: skip
    before = await chat.heard()
    done = await chat.gateway.import_session(io.BytesIO(await document(chat, "jsonl")), "copy")
    assert done["entries"] == 5
    after = await chat.heard("copy")
    names = ("text", "kind", "of", "quote", "whose", "emoji", "edited", "deleted", "files", "sender", "data")
    assert [[e.get(n) for n in names] for e in after] == [[e.get(n) for n in names] for e in before]
    await chat.gateway.delete(KEY)
    content, *_ = await chat.gateway.open_blob(kept.id)
    with content:
        assert content.read() == b"%PDF"  # the copy holds it, too
    assert [e["text"] for e in await chat.heard("copy")] == ["five?", "six?", "👍", "", "fine"]


async def test_documents_for_people_tell_it_in_words(chat: Chat) -> None:
    await chat.tell(
        message("m1", "five?", BOB, group=True, files=(Missing("b.mp4", "too large"),)),
        Incoming("edit", "m1/2", "room", BOB, "six?", of="m1", group=True),
        message("m2", "<b>fine</b>", group=True, of="m1"),
    )  # fmt: skip
    for kind in ("md", "html"):
        told = (await document(chat, kind)).decode()
        assert "edited in 2" in told
        assert "edits 1 (bob: " in told
        assert "replies to 1 (bob: " in told
        assert "[file b.mp4 is missing: too large]" in told
        assert "<b>fine" not in told.replace("\\<", "")


async def test_what_was_exported_after_a_deletion_refers_to_its_own_numbers(chat: Chat) -> None:
    await chat.tell(message("m1", "old", group=True))
    await chat.gateway.delete(KEY)
    await chat.tell(
        message("m2", "new", BOB, group=True), Incoming("edit", "m2/2", "room", BOB, "newer", of="m2", group=True)
    )
    await chat.gateway.import_session(io.BytesIO(await document(chat, "jsonl")), "copy")
    first, edit = await chat.heard("copy")
    assert (first["seq"], first["edited"], edit["of"]) == (1, 2, 1)
