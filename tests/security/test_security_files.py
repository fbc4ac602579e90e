"""Files: whose they are, who may read them, and that no name, link or directory leads elsewhere."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import httpx2
import pytest
from system_house import House, script

from semel.agents.acp.wire import Trace
from semel.faces.config.load import load_config
from semel.faces.run import CannotStart, _make_directories, read_owner_token
from semel.gateway import files
from semel.gateway.files import plain_name
from semel.gateway.turns import prompt_files

Json = dict[str, Any]


def test_everything_in_the_data_directory_is_its_owners_alone(house: House) -> None:
    """The directory lets nobody in; and what matters most would not be readable if it did."""
    (next((house.data / "workspaces").iterdir()) / "note.txt").write_text("a note")
    house.say("demo:web:file", script({"call": "send_file", "arguments": {"path": "note.txt"}, "meta": "claude"}))
    house.idle("demo:web:file")
    assert stat.S_IMODE(house.data.stat().st_mode) == 0o700
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.lock", "owner.token", "gateway.json"):
        assert (house.data / name).stat().st_mode & 0o077 == 0, name
    assert (house.data / "gateway.sock").stat().st_mode & 0o077 == 0
    assert (house.data / "blobs").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in (house.data / "blobs").iterdir())


def test_a_data_directory_that_others_may_enter_is_closed_to_them(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o777)
    _make_directories(load_config(None, data, env={"HOME": str(tmp_path)}))
    assert stat.S_IMODE(data.stat().st_mode) == 0o700


def test_a_data_directory_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who made it could put a token of their own there."""
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: data.stat().st_uid + 1)
    with pytest.raises(CannotStart, match="belongs to another user"):
        _make_directories(load_config(None, data, env={"HOME": str(tmp_path)}))
    assert list(data.iterdir()) == []


def test_the_owners_token_is_made_for_the_owner_and_never_twice(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        token = read_owner_token(tmp_path)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "owner.token").stat().st_mode) == 0o600
    assert len(token) >= 43 and read_owner_token(tmp_path) == token
    (tmp_path / "owner.token").chmod(0o640)
    with pytest.raises(CannotStart, match="can be read by others"):
        read_owner_token(tmp_path)


def test_a_trace_is_for_its_owners_eyes(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        Trace(tmp_path / "traces" / "one.jsonl").close()
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "traces" / "one.jsonl").stat().st_mode) == 0o600


IDS = [
    "..%2f..%2fowner.token", "../owner.token", "..", ".", "owner.token", "A" * 64, "0" * 63, "0" * 65, "0" * 64 + "%0a",
    "%00" + "0" * 63, ".draft-0123456789abcdef", "%2fetc%2fpasswd", "0" * 62 + "/.",
]  # fmt: skip


@pytest.mark.parametrize("id", IDS)
def test_no_id_of_a_file_leads_out_of_the_store(house: House, id: str) -> None:
    got = httpx2.get(f"{house.url}/v1/blobs/{id}", timeout=60)
    assert got.status_code in (400, 404) and got.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "path", ["/page/..%2frun.py", "/page/../__init__.py", "/page/__init__.py", "/page/%2e%2e/run.py", "/page/a%00b",
             "/page//etc/passwd", "/page/.", "/page/app.js%00.html", "/page/app.js/"]
)  # fmt: skip
def test_the_page_gives_its_own_files_and_no_other(house: House, path: str) -> None:
    got = httpx2.get(house.url + path, timeout=60)
    assert got.status_code == 404 and b"import" not in got.content


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "..", "...", "a/../../b", "C:\\x\\..\\evil.exe", "..\\..\\x", "\x00", "a\x00b",
     "a\r\nContent-Type: text/html", ".ssh/authorized_keys", "~/.bashrc", "x" * 5000 + ".txt", "", " ", "\u202egpj.exe",
     ".gitignore", "-rf", "$(id)", "con", "ä" * 300, "\udce4", "a\u200bb", "a\u2028b", "\u061ca", "\ufeffa", "a\xadb"],
)  # fmt: skip
def test_a_received_files_name_leads_nowhere(tmp_path: Path, name: str) -> None:
    store, work = tmp_path / "store", tmp_path / "work"
    work.mkdir()
    draft = files.BlobDraft(store)
    draft.write(b"content")
    id = draft.finish()
    draft.commit()
    draft.discard()
    recorded = plain_name(name)
    assert "/" not in recorded and "\\" not in recorded and recorded.strip(".") and len(recorded) <= 200
    assert recorded.isprintable() or recorded == name
    for told in (recorded, name):
        prompt_files.copy_file(files.FolderFiles(store), work, {"id": id, "name": told})
    made = [path for path in tmp_path.rglob("*") if path.is_file() and store not in path.parents]
    folder = work / ".semel/received"
    assert {path.parent for path in made if path.name != ".gitignore"} == {folder}
    assert all(path.name.startswith(f"{id[:8]}-") for path in folder.iterdir())


@pytest.mark.parametrize("planted", [".semel", ".semel/received", ".semel/.gitignore", "the copy itself"])
def test_a_link_planted_where_received_files_go_is_not_followed(tmp_path: Path, planted: str) -> None:
    store, work, outside = tmp_path / "store", tmp_path / "work", tmp_path / "outside"
    (work / ".semel/received").mkdir(parents=True)
    outside.mkdir()
    secret = outside / "secret"
    secret.write_text("untouched")
    draft = files.BlobDraft(store)
    draft.write(b"content")
    id = draft.finish()
    draft.commit()
    draft.discard()
    file = {"id": id, "name": "note.txt"}
    if planted == "the copy itself":
        (work / prompt_files.workspace_path(file)).symlink_to(secret)
    elif planted == ".semel/.gitignore":
        (work / planted).symlink_to(outside / "made")
    else:
        for path in sorted((work / planted).rglob("*"), reverse=True):
            path.rmdir()
        (work / planted).rmdir()
        (work / planted).symlink_to(outside)
    try:
        prompt_files.copy_file(files.FolderFiles(store), work, file)
    except OSError:
        assert planted in (".semel", ".semel/received")
    assert secret.read_text() == "untouched" and list(outside.iterdir()) == [secret]
    if planted == "the copy itself":
        assert not (work / prompt_files.workspace_path(file)).is_symlink()
        assert (work / prompt_files.workspace_path(file)).read_bytes() == b"content"


def sent(house: House, session: str, name: str) -> Json:
    """A file that the agent sent, as its entry names it."""
    (next((house.data / "workspaces").iterdir()) / name).write_text(f"note {name[:4]}")
    house.say(session, script({"call": "send_file", "arguments": {"path": name}, "meta": "claude"}))
    house.idle(session)
    [file] = [file for one in house.entries(session) for file in one.get("files") or ()]
    return dict(file)


def test_a_store_whose_file_was_replaced_by_a_link_gives_nothing_of_its_target(house: House, tmp_path: Path) -> None:
    """Neither to who asks for it over HTTP nor to what reads it inside; nor is a pipe in its place waited for."""
    id = str(sent(house, "demo:web:link", "link.txt")["id"])
    stored, url = house.data / "blobs" / id, f"{house.url}/v1/blobs/{id}"
    assert httpx2.get(url, timeout=60).text == "note link"
    content = stored.read_bytes()
    try:
        for target in (house.data / "owner.token", house.data):
            stored.unlink()
            stored.symlink_to(target)
            assert httpx2.get(url, timeout=60).status_code == 404
            with pytest.raises(files.StoreFailed):
                files.open_blob(house.data / "blobs", id)
        stored.unlink()
        os.mkfifo(stored)
        assert httpx2.get(url, timeout=60).status_code == 404
    finally:
        stored.unlink()
        stored.write_bytes(content)


def test_a_stored_file_is_given_in_parts_and_by_its_head(house: House) -> None:
    url = f"{house.url}/v1/blobs/{sent(house, 'demo:web:part', 'part.txt')['id']}"
    for asked, status, told in (("bytes=5-6", 206, "pa"), ("bytes=0-0,5-5", 206, None), ("bytes=99-", 416, None)):
        got = httpx2.get(url, headers={"range": asked}, timeout=60)
        assert got.status_code == status and told in (None, got.text)
    head = httpx2.head(url, timeout=60)
    assert (head.status_code, head.headers["content-length"], head.text) == (200, "9", "")


def test_a_sent_files_name_ends_as_it_reads(house: House) -> None:
    file = sent(house, "demo:web:turned", "cod\u202egpj.exe")
    assert file["name"] == "codgpj.exe"
    told = httpx2.get(f"{house.url}/v1/blobs/{file['id']}", timeout=60).headers["content-disposition"]
    assert told == 'attachment; filename="codgpj.exe"'


def test_an_agents_file_is_sent_by_what_it_is_and_not_by_where_it_points(house: House, tmp_path: Path) -> None:
    """Over a real agent and its tool: links, parents, pipes and devices are refused, in words, and nothing is said."""
    work = next((house.data / "workspaces").iterdir())
    (work / "link").symlink_to(house.data / "owner.token")
    (work / "up").symlink_to(house.data)
    os.mkfifo(work / "pipe")
    asked = ["link", "up/owner.token", "../../owner.token", str(house.data / "owner.token"), "pipe", ".", "/dev/zero",
             f"{work}/../../owner.token", "note\x00.txt", "/proc/self/environ"]  # fmt: skip
    calls = [{"call": "send_file", "arguments": {"path": path}, "meta": "claude"} for path in asked]
    house.say("demo:web:links", script(*calls, "done"))
    house.idle("demo:web:links")
    entries = house.entries("demo:web:links")
    assert not [one for one in entries if one.get("files")], "nothing was sent"
    assert [one["text"] for one in entries if one["role"] == "agent"] == ["done"]
