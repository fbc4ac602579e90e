"""The files that go with a message of the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.faces.api_types import Accepted
from semel.faces.terminal.attachments import (
    MAX_ALL_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    Attachment,
    CannotAttach,
    attach_file,
    list_paths,
    read_attach,
)
from semel.faces.terminal.outgoing import OutgoingMessage, OutgoingQueue
from semel.gateway import files
from semel.gateway.inbound import uploads


def test_the_limits_are_those_of_the_gateway() -> None:
    limits = (files.MAX_FILE_BYTES, uploads.MAX_MESSAGE_FILES, uploads.MAX_MESSAGE_FILE_BYTES)
    assert limits == (MAX_FILE_BYTES, MAX_FILES, MAX_ALL_BYTES)


def test_only_attach_alone_or_with_a_path_attaches() -> None:
    texts = ["/attach a b.txt ", "/attach", "/attached x", "say /attach x", "/attach a\nb"]
    assert [read_attach(text) for text in texts] == ["a b.txt", "", None, None, None]


def test_what_cannot_be_attached_is_told_in_words(tmp_path: Path) -> None:
    small, large = tmp_path / "a b.txt", tmp_path / "large"
    small.write_text("roses")
    with large.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    attached = attach_file(f"'{small}'", [])
    assert attached == Attachment(str(small), 5) and attached.label == "a b.txt (5 B)"
    crowded = [Attachment(f"/{n}", 1) for n in range(MAX_FILES)]
    for path, others, reason in (
        (tmp_path, [], "is a folder"), (tmp_path / "none", [], "there is no file"), (large, [], "is too large"),
        (small, [attached], "is attached already"), (small, crowded, "at most 20 files"), ("a\0", [], "cannot be read"),
        (small, [Attachment("/x", MAX_ALL_BYTES)], "together"), ("/dev/null", [], "is no regular file"),
    ):  # fmt: skip
        with pytest.raises(CannotAttach, match=reason):
            attach_file(str(path), others)


def test_paths_are_completed_folder_by_folder(tmp_path: Path) -> None:
    (tmp_path / "Sub").mkdir()
    for name in ("some.txt", ".hidden", "Sub/in.txt"):
        (tmp_path / name).write_text("")
    assert list_paths(f"{tmp_path}/") == [f"{tmp_path}/Sub/", f"{tmp_path}/some.txt"]
    assert list_paths(f"{tmp_path}/s") == [f"{tmp_path}/Sub/", f"{tmp_path}/some.txt"]
    assert list_paths(f"{tmp_path}/.h") == [f"{tmp_path}/.hidden"]
    assert list_paths(f"{tmp_path}/none/") == []


async def test_a_message_whose_file_is_gone_is_refused_and_names_it() -> None:
    async def post(message: OutgoingMessage) -> Accepted:
        raise CannotAttach("notes.txt cannot be read: No such file or directory")

    refused = OutgoingMessage(text="", sender="ann", files=[Attachment("/notes.txt", 5)])
    queue = OutgoingQueue(
        post, keep=lambda one: None, drop=lambda one: None, on_change=lambda: None, on_answer=lambda one, answer: None
    )
    queue.messages.append(refused)
    assert await queue._send(refused)
    assert refused.state_text == "not sent: notes.txt cannot be read: No such file or directory"
