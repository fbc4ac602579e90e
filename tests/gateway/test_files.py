"""Copying a promised file into the store (semel.gateway.files)."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from semel.gateway import files
from semel.gateway.files import (
    FileRefused,
    FolderFiles,
    StoreFailed,
    blob_path,
    clear_drafts,
    copy_from_workspace,
    open_blob,
)

LIMIT = 10 << 20


class Place:
    """A workspace, a store, and a secret outside."""

    def __init__(self, base: Path):
        self.workspace = base / "workspace"
        self.store = base / "data" / "blobs"
        self.outside = base / "outside"
        (self.workspace / "out").mkdir(parents=True)
        self.outside.mkdir()
        (self.outside / "secret.txt").write_bytes(b"secret")
        (self.workspace / "out" / "report.pdf").write_bytes(b"%PDF report")

    def copy(self, wanted: str, limit: int = LIMIT) -> files.Blob:
        return copy_from_workspace(self.workspace, wanted, FolderFiles(self.store), limit)

    def stored(self) -> list[str]:
        return sorted(path.name for path in self.store.iterdir()) if self.store.exists() else []


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_copy_keeps_the_content_and_says_what_it_is(place: Place) -> None:
    blob = place.copy("out/report.pdf")
    digest = hashlib.blake2b(b"%PDF report", digest_size=32).hexdigest()
    assert blob == files.Blob(digest, 11, "report.pdf", "application/pdf")
    (place.workspace / "out" / "report.pdf").write_bytes(b"changed afterwards")
    with open_blob(place.store, blob.id) as content:
        assert content.read() == b"%PDF report"
    assert stat.S_IMODE(blob_path(place.store, blob.id).stat().st_mode) == 0o600
    assert stat.S_IMODE(place.store.stat().st_mode) == 0o700


@pytest.mark.parametrize("form", ["out/report.pdf", "./out/./report.pdf", "out//report.pdf", "{}/out/report.pdf"])
def test_a_path_may_be_relative_to_the_workspace_or_absolute_inside_it(place: Place, form: str) -> None:
    assert place.copy(form.format(place.workspace)).name == "report.pdf"


def test_a_workspace_may_itself_be_reached_through_a_link(place: Place, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(place.workspace)
    for wanted in ("out/report.pdf", f"{link}/out/report.pdf", f"{place.workspace}/out/report.pdf"):
        assert copy_from_workspace(link, wanted, FolderFiles(place.store), LIMIT).size == 11


def test_names_may_hold_anything_a_file_name_may(place: Place) -> None:
    for name in ("ünï 日本.txt", "می\u200cخواهم 👩\u200d🔬.txt", "..hidden", "new\nline", "-rf", "a" * 255):
        (place.workspace / name).write_bytes(name.encode())
        assert place.copy(name).name == name.replace("\n", "")  # recorded without what cannot be seen


def test_what_has_no_known_type_is_a_stream_of_bytes(place: Place) -> None:
    (place.workspace / "thing").write_bytes(b"")
    blob = place.copy("thing")
    assert (blob.size, blob.mime) == (0, "application/octet-stream")


def link_file(place: Place) -> str:
    (place.workspace / "link.txt").symlink_to(place.outside / "secret.txt")
    return "link.txt"


def link_directory(place: Place) -> str:
    (place.workspace / "dir").symlink_to(place.outside)
    return "dir/secret.txt"


def link_inside(place: Place) -> str:
    (place.workspace / "same.pdf").symlink_to("out/report.pdf")
    return "same.pdf"


def pipe(place: Place) -> str:
    os.mkfifo(place.workspace / "pipe")
    return "pipe"


def large(place: Place) -> str:
    with (place.workspace / "large").open("wb") as file:
        file.truncate(LIMIT + 1)
    return "large"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda place: str(place.outside / "secret.txt"), "outside the workspace"),
        (lambda place: str(place.workspace) + "-other/x", "outside the workspace"),
        (lambda place: "/etc/hostname", "outside the workspace"),
        (lambda place: "../outside/secret.txt", "'..'"),
        (lambda place: "out/../out/report.pdf", "'..'"),
        (lambda place: f"{place.workspace}/../outside/secret.txt", "'..'"),
        (lambda place: "", "empty"),
        (lambda place: "a\0b", "NUL"),
        (lambda place: "\ud800", "not valid text"),
        (lambda place: "missing.txt", "no file"),
        (lambda place: "missing/report.pdf", "no file"),
        (lambda place: "a" * 300, "cannot be read"),
        (lambda place: "out", "is a directory"),
        (lambda place: ".", "is a directory"),
        (lambda place: str(place.workspace) + "/", "is a directory"),
        (link_file, "symbolic link, 'link.txt'"),
        (link_directory, "symbolic link, 'dir'"),
        (link_inside, "symbolic link, 'same.pdf'"),
        (lambda place: "out/report.pdf/below", "no file"),
        (pipe, "not a regular file"),
        (large, "larger than"),
    ],
)
def test_what_may_not_be_sent_is_refused_with_a_sentence(place: Place, make: Callable[[Place], str], said: str) -> None:
    with pytest.raises(FileRefused, match=said):
        place.copy(make(place))
    assert place.stored() == []


def test_devices_and_files_without_an_end_are_refused(place: Place) -> None:
    with pytest.raises(FileRefused, match="not a regular file"):
        copy_from_workspace(Path("/dev"), "zero", FolderFiles(place.store), LIMIT)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file that is longer than it says")
def test_the_limit_holds_for_what_is_read_and_not_for_what_the_file_says_its_size_is(place: Place) -> None:
    with pytest.raises(FileRefused, match="larger than 100 bytes"):
        copy_from_workspace(Path(f"/proc/{os.getpid()}"), "maps", FolderFiles(place.store), 100)
    assert place.stored() == []


def test_a_workspace_that_is_gone_is_said_to_be(place: Place, tmp_path: Path) -> None:
    with pytest.raises(FileRefused, match=r"workspace .* cannot be opened"):
        copy_from_workspace(tmp_path / "gone", "x", FolderFiles(place.store), LIMIT)


def test_equal_content_shares_one_blob_and_other_content_does_not(place: Place) -> None:
    (place.workspace / "again.pdf").write_bytes(b"%PDF report")
    (place.workspace / "other.pdf").write_bytes(b"%PDF REPORT")
    first = place.copy("out/report.pdf")
    inode = blob_path(place.store, first.id).stat().st_ino
    assert place.copy("again.pdf").id == first.id
    assert place.copy("other.pdf").id != first.id
    assert blob_path(place.store, first.id).stat().st_ino == inode
    assert len(place.stored()) == 2


def test_a_blob_that_lost_bytes_is_replaced_by_the_next_copy(place: Place) -> None:
    blob = place.copy("out/report.pdf")
    blob_path(place.store, blob.id).write_bytes(b"")
    assert place.copy("out/report.pdf").id == blob.id
    with open_blob(place.store, blob.id) as content:
        assert content.read() == b"%PDF report"


def test_a_tree_that_changes_under_the_copy_never_lets_anything_outside_through(place: Place) -> None:
    """The check is the opening: a directory that turns into a link between two looks finds no gap."""
    inside, elsewhere = place.workspace / "dir", place.workspace / "real"
    elsewhere.mkdir()
    (elsewhere / "secret.txt").write_bytes(b"public")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            inside.symlink_to(place.outside)
            inside.unlink()
            elsewhere.rename(inside)
            inside.rename(elsewhere)

    thread = threading.Thread(target=swap)
    thread.start()
    copied, refused, end = 0, 0, time.monotonic() + 20
    try:
        while (copied < 20 or refused < 200) and time.monotonic() < end:
            try:
                blob = place.copy("dir/secret.txt")
            except FileRefused:
                refused += 1
                continue
            copied += 1
            with open_blob(place.store, blob.id) as content:
                assert content.read() == b"public"
    finally:
        stop.set()
        thread.join()
    assert copied
    assert refused


def test_a_full_disk_is_said_to_be_and_leaves_nothing_behind(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "write", full)
    with pytest.raises(StoreFailed, match="disk is full: free some space"):
        place.copy("out/report.pdf")
    monkeypatch.undo()
    assert place.stored() == []
    assert place.copy("out/report.pdf").size == 11


def test_a_store_that_cannot_be_made_is_our_fault_and_says_so(place: Place) -> None:
    place.store.parent.parent.joinpath("data").write_text("a file in the way")
    with pytest.raises(StoreFailed, match="cannot be written"):
        place.copy("out/report.pdf")


def test_a_copy_cut_short_by_kill_9_leaves_no_blob_and_its_draft_is_cleared(place: Place) -> None:
    with (place.workspace / "endless").open("wb") as file:
        file.truncate(1 << 34)
    code = (
        "import sys; from pathlib import Path; from semel.gateway.files import FolderFiles, copy_from_workspace\n"
        "copy_from_workspace(Path(sys.argv[1]), 'endless', FolderFiles(Path(sys.argv[2])), 1 << 40)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, place.workspace, place.store])
    end = time.monotonic() + 20
    while not place.stored():
        assert time.monotonic() < end
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (draft,) = place.stored()
    assert draft.startswith(files.DRAFT_PREFIX)
    blob = place.copy("out/report.pdf")
    assert clear_drafts(place.store) == 1
    assert place.stored() == [blob.id]


def test_a_blob_that_is_not_there_and_an_id_that_is_none(place: Place) -> None:
    with pytest.raises(StoreFailed, match="cannot be read"):
        open_blob(place.store, "0" * 64)
    for id in ("", "../../etc/passwd", "0" * 63, "Z" * 64, "0" * 64 + "\n"):
        with pytest.raises(ValueError, match="not the id"):
            open_blob(place.store, id)
