"""Received files are kept before their message is heard, go to the agent, and go away if no message brings them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from inbound_world import ANN, EVE, KEY, Chat, message, until

from semel.gateway.files import FolderFiles, plain_mime, plain_name
from semel.gateway.ports import Kept, Offline, TooLarge
from semel.gateway.turns import prompt_files

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40


def stored(chat: Chat) -> list[str]:
    return sorted(path.name for path in (chat.path / "blobs").iterdir())


async def gone(chat: Chat) -> None:
    """Wait until the store is empty."""

    async def empty() -> bool:
        return not (chat.path / "blobs").exists() or not stored(chat)

    await until(empty)


async def test_a_file_is_an_entrys_and_the_agent_finds_it_in_its_workspace(chat: Chat) -> None:
    kept = await chat.chat.attach("notes.txt", b"hello", "text/plain")
    entries = await chat.told(message("m1", "read this", files=(kept,)))
    assert entries[0]["files"] == [{"id": kept.id, "name": "notes.txt", "mime": "text/plain", "size": 5}]
    copy = chat.work / ".semel/received" / f"{kept.id[:8]}-notes.txt"
    assert copy.read_bytes() == b"hello"
    about, text, link = chat.prompts()[-1][-3:]
    assert f".semel/received/{kept.id[:8]}-notes.txt" in about["text"]
    assert text == {"type": "text", "text": "read this"}
    assert link == {
        "type": "resource_link", "uri": copy.absolute().as_uri(), "name": "notes.txt", "mimeType": "text/plain",
        "size": 5,
    }  # fmt: skip
    content, name, mime = await chat.gateway.open_blob(kept.id)
    with content:
        assert (content.read(), name, mime) == (b"hello", "notes.txt", "text/plain")
    assert (chat.work / ".semel/.gitignore").read_text() == "*\n"


async def test_a_file_alone_is_a_message(chat: Chat) -> None:
    kept = await chat.chat.attach("a.gif", b"GIF89a\x02\0\x01\0", "image/gif")
    [entry] = [entry for entry in await chat.told(message("m1", "", files=(kept,))) if entry["role"] == "user"]
    assert (entry["files"][0]["width"], entry["files"][0]["height"]) == (2, 1)
    kinds = [block["type"] for block in chat.prompts()[-1]]
    assert kinds[-2:] == ["text", "resource_link"]


async def test_deleting_the_session_removes_the_file(chat: Chat) -> None:
    kept = await chat.chat.attach("notes.txt", b"hello")
    await chat.tell(message("m1", "x", group=True, files=(kept,)))
    assert stored(chat) == [kept.id]
    await chat.gateway.delete(KEY)
    await gone(chat)


async def test_equal_content_is_one_file_and_stays_while_anything_holds_it(chat: Chat) -> None:
    one, two = await chat.chat.attach("a.txt", b"same"), await chat.chat.attach("b.txt", b"same")
    assert one.id == two.id
    await chat.tell(
        message("m1", "x", group=True, files=(one,)), message("m2", "y", group=True, address="b", files=(two,))
    )
    await chat.gateway.delete(KEY)
    assert stored(chat) == [one.id]
    assert [file["name"] for e in await chat.heard("demo:chat:b") for file in e["files"]] == ["b.txt"]


async def test_a_file_that_comes_slowly_keeps_no_other_from_being_removed(chat: Chat) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    kept = await chat.chat.attach("notes.txt", b"hello")
    await chat.tell(message("m1", "x", group=True, files=(kept,)))
    hangs = asyncio.create_task(chat.gateway.channel_manager.inboxes["chat"].keep("b", "text/plain", slow()))
    await asyncio.sleep(0)
    await chat.gateway.delete(KEY)

    async def removed() -> bool:
        return kept.id not in stored(chat)

    await until(removed)
    hangs.cancel()
    await asyncio.gather(hangs, return_exceptions=True)
    assert stored(chat) == []


async def test_a_strangers_file_goes(chat: Chat) -> None:
    kept = await chat.chat.attach("bad.exe", b"x" * 100)
    await chat.tell(message("m1", "take it", EVE, files=(kept,)))
    await gone(chat)


async def test_a_repeat_brings_its_file_again_and_leaves_no_copy(chat: Chat) -> None:
    await chat.tell(message("m1", "x", group=True, files=(await chat.chat.attach("a", b"one"),)))
    [first] = stored(chat)
    again = await chat.chat.attach("a", b"other")  # fetched anew, and it differs
    await chat.tell(message("m1", "x", group=True, files=(again,)))

    async def only() -> bool:
        return stored(chat) == [first]

    await until(only)


async def test_what_was_kept_and_never_put_goes_when_the_run_ends(chat: Chat) -> None:
    await chat.chat.attach("a", b"one")
    assert len(stored(chat)) == 1
    chat.chat.lose(Offline("gone"))
    await gone(chat)


async def test_what_was_kept_and_never_put_goes_at_the_next_start(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    await chat.start()
    held = await chat.chat.attach("a", b"one")
    await chat.chat.attach("b", b"two")
    await chat.tell(message("m1", "x", group=True, files=(held,)))
    for keeper in [task for task in asyncio.all_tasks() if task.get_name() == "channel chat"]:
        keeper.get_coro().close  # noqa: B018 - the run is cut off below, as by SIGKILL: nothing of its end is done
    chat.gateway.channel_manager.inboxes["chat"].received_files._held.clear()
    await chat.stop()
    async with Chat(tmp_path) as again:

        async def cleaned() -> bool:
            return stored(again) == [held.id]

        await until(cleaned)


@pytest.mark.parametrize("fault", [TooLarge, OSError])
async def test_a_file_that_breaks_off_leaves_nothing(chat: Chat, fault: type[Exception]) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"x" * 900
        if fault is OSError:
            raise OSError("the connection broke")
        yield b"x" * 200

    inbox = chat.gateway.channel_manager.inboxes["chat"]
    with pytest.raises(fault):
        await inbox.keep("a", "text/plain", pieces(), limit=1000)
    assert stored(chat) == []
    assert chat.gateway.file_store.open == 0


# ---------------------------------------------------------------- into the workspace


def kept_in(store: Path, name: str, content: bytes, mime: str = "text/plain") -> dict[str, Any]:
    from semel.gateway import files

    draft = files.BlobDraft(store)
    draft.write(content)
    id = draft.finish()
    draft.commit()
    draft.discard()
    return {"id": id, "name": name, "mime": mime, "size": len(content)}


def test_the_copy_follows_no_symlink(tmp_path: Path) -> None:
    store, work, outside = tmp_path / "blobs", tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    file = kept_in(store, "a.txt", b"hello")
    (work / ".semel").symlink_to(outside)
    with pytest.raises(OSError):
        prompt_files.copy_file(FolderFiles(store), work, file)
    (work / ".semel").unlink()
    (work / ".semel/received").mkdir(parents=True)
    target = work / prompt_files.workspace_path(file)
    target.symlink_to(outside / "victim")
    prompt_files.copy_file(FolderFiles(store), work, file)
    assert not target.is_symlink()
    assert target.read_bytes() == b"hello"
    assert list(outside.iterdir()) == []


def test_the_copy_is_made_once_and_made_anew_where_it_is_damaged(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    file = kept_in(tmp_path / "blobs", "a.txt", b"hello")
    prompt_files.copy_file(FolderFiles(tmp_path / "blobs"), work, file)
    target = work / prompt_files.workspace_path(file)
    before = target.stat().st_ino
    prompt_files.copy_file(FolderFiles(tmp_path / "blobs"), work, file)
    assert target.stat().st_ino == before
    target.write_bytes(b"hell")
    prompt_files.copy_file(FolderFiles(tmp_path / "blobs"), work, file)
    assert target.read_bytes() == b"hello"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("../../etc/passwd", ".._etc_passwd"), ("a/b", "a_b"), (".hidden", "_hidden"), ("x\ny", "x_y"),
        ("", "file"), ("ünïcode 1.pdf", "ünïcode 1.pdf"), ("n" * 300 + ".pdf", "n.pdf"), ("-rf", "_rf"),
    ],
)  # fmt: skip
def test_a_name_stays_one_plain_name(name: str, ends: str) -> None:
    place = prompt_files.workspace_path({"id": "0" * 64, "name": name})
    assert place.startswith(".semel/received/00000000-")
    assert place.endswith(ends)
    assert place.count("/") == 2
    assert len(place.encode()) < 200


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("a/b\\c.txt", "c.txt"), ("x\u202egpj.exe", "xgpj.exe"), ("..", "file"), ("\ud800", "\ufffd"),
        ("n" * 300 + ".tar", "n" * 196 + ".tar"),
    ],
)  # fmt: skip
def test_a_files_name_is_recorded_without_what_cannot_be_seen(given: str, plain: str) -> None:
    assert plain_name(given) == plain


def test_a_media_type_is_one_or_none() -> None:
    assert plain_mime("Text/HTML; charset=utf-8") == "text/html"
    assert plain_mime("evil\r\nheader: x/y") == "application/octet-stream"


async def test_images_are_shown_where_the_agent_takes_them_by_what_they_are(tmp_path: Path) -> None:
    store, work = tmp_path / "blobs", tmp_path / "work"
    work.mkdir()
    image, fake = kept_in(store, "a.png", PNG, "image/png"), kept_in(store, "b.png", b"<svg/>", "image/png")
    large = kept_in(store, "c.png", PNG + b"\0" * 5_000_000, "image/png")

    class Event:
        entry_fields = {"files": [image, fake, large]}  # noqa: RUF012
        blocks = ()

    given = await prompt_files.copy_received_files(FolderFiles(store), work, [Event()], images=True)  # type: ignore[list-item]
    assert set(given.paths) == {image["id"], fake["id"], large["id"]}
    assert {id: mime for id, (mime, _) in given.images.items()} == {image["id"]: "image/png"}
    assert not (await prompt_files.copy_received_files(FolderFiles(store), work, [Event()], images=False)).images  # type: ignore[list-item]


async def test_a_workspace_that_takes_nothing_is_told_and_the_message_goes_on(chat: Chat) -> None:
    kept: Kept = await chat.chat.attach("a.txt", b"hello")
    (chat.work / ".semel").write_text("in the way")
    entries = await chat.told(message("m1", "read", ANN, files=(kept,)))
    assert [entry["role"] for entry in entries] == ["user", "agent"]
    assert "could not be put into your workspace" in chat.asked()
