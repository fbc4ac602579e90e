"""What was exported becomes a session again: whole, once, and without waking or telling anybody."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from export_house import agent, content, conversation, exported, file, header, turn, user, written
from gateway_world import World, script, until
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import semel
from semel.gateway.api import archive
from semel.gateway.errors import BadRequest, Conflict
from semel.gateway.files import blob_path
from semel.ledger.admin import erase, import_session
from semel.ledger.admin.import_file import BadFile, check_file
from semel.ledger.inbound import channel_batch

Json = dict[str, Any]


async def lived(world: World) -> bytes:
    """A session with something of everything in it, as exported."""
    await world.ask("say: one", key="k1", sender="Ann")
    await world.ask(script({"call": "send_message", "arguments": {"text": "twice"}}, "twice"), key="k2")
    await world.gateway.report("s", "note", "seen", data={"n": 1}, key="k3", wakes=False)
    await world.ask("say: you saw?")
    await world.gateway.report("s", "exec.progress", "half", wakes=False)
    await world.gateway.rename("s", "A title")
    return await exported(world.gateway, "s")


async def test_a_session_is_the_same_after_it_was_exported_and_imported(world: World) -> None:
    first = await lived(world)
    done = await world.gateway.import_session(io.BytesIO(first), "copy")
    count = len(await world.entries("s"))
    assert done == {"session": "copy", "status": "imported", "entries": count, "added": count}
    second = await exported(world.gateway, "copy")
    assert content(second) == content(first)
    assert (await world.gateway.import_session(io.BytesIO(second), "third"))["status"] == "imported"
    assert content(await exported(world.gateway, "third")) == content(first)
    was, now = await world.entries("s"), await world.entries("copy")
    for old, new in zip(was, now, strict=True):
        assert new["imported"]["from"] == "s"
        assert {k: old.get(k) for k in ("seq", "at", "role", "text", "sender", "kind", "partial")} == {
            k: new.get(k) for k in ("seq", "at", "role", "text", "sender", "kind", "partial")
        }


async def test_a_file_that_was_about_to_be_removed_stays_if_an_imported_entry_names_it(world: World) -> None:
    store, wanted, unwanted = world.gateway.file_store, "a" * 64, "b" * 64
    with store:  # nothing is removed yet
        for blob in (wanted, unwanted):
            path = blob_path(store.content.folder, blob)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("content")
            await world.gateway.record.write(channel_batch.record_file, blob, 7, "a.txt", "text/plain")
            await world.gateway.record.write(channel_batch.release_files, [blob])
        named = {"id": wanted, "name": "a.txt", "mime": "text/plain", "size": 7}
        records = [header("x", 1, 0), user(1, "see this", None, key="q", more={"files": [named]})]
        assert (await world.gateway.import_session(file(records)))["status"] == "imported"

    async def removed() -> bool:
        return not blob_path(store.content.folder, unwanted).exists()

    store.unused.set()
    await until(removed)
    assert blob_path(store.content.folder, wanted).read_text() == "content"
    await world.balanced()


async def test_in_another_ledger_it_wakes_nothing_and_a_repeated_event_is_a_duplicate(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    async with World(tmp_path / "a") as world:
        data = await lived(world)
    async with World(tmp_path / "b") as world:
        assert (await world.gateway.import_session(io.BytesIO(data)))["session"] == "s"
        (listed,) = await world.gateway.sessions()
        assert (listed["key"], listed["title"], listed["home"]) == ("s", "A title", "web:s")
        assert not world.gateway.turns.runs
        assert await world.gateway.parts() == []
        again = await world.gateway.say("s", "say: one", sender="Ann", key="k1")
        assert again.status == "duplicate"
        assert (await world.gateway.say("s", "say: other", sender="Ann", key="k1")).status == "conflict"
        before = len(await world.entries("s"))
        await world.ask("say: and on it goes")
        assert [e["seq"] for e in await world.entries("s")] == list(range(1, before + 3))
        await world.balanced()


async def test_what_waited_there_waits_here_for_the_next_turn(world: World) -> None:
    data = written([header("w", 1, 0), user(1, "still open", None, key="k")])
    await world.gateway.import_session(io.BytesIO(data))
    assert await world.texts("w") == ["still open"]
    assert (await world.gateway.session("w"))["waiting"] == 1
    assert not world.gateway.turns.runs
    await world.ask("say: both", "w")
    assert (await world.gateway.session("w"))["waiting"] == 0


async def test_a_session_that_is_there_is_never_overwritten(world: World) -> None:
    data = await lived(world)
    assert (await world.gateway.import_session(io.BytesIO(data)))["status"] == "known"
    await world.ask("say: more")
    before = await world.entries("s")
    with pytest.raises(Conflict, match="there is a session 's' already"):
        await world.gateway.import_session(io.BytesIO(data))
    assert await world.entries("s") == before
    assert {s["key"] for s in await world.gateway.sessions()} == {"s"}


async def test_an_imported_session_that_went_on_is_not_imported_over(world: World) -> None:
    data = await lived(world)
    await world.gateway.import_session(io.BytesIO(data), "copy")
    assert (await world.gateway.import_session(io.BytesIO(data), "copy"))["status"] == "known"
    await world.ask("say: more", "copy")
    assert (await world.gateway.import_session(io.BytesIO(data), "copy"))["status"] == "known"
    other = written(list(conversation(1, key="copy")))
    with pytest.raises(Conflict):
        await world.gateway.import_session(io.BytesIO(other))


async def test_a_deleted_session_comes_back_from_its_export(world: World) -> None:
    data = await lived(world)
    await world.gateway.delete("s")
    assert (await world.gateway.import_session(io.BytesIO(data)))["status"] == "imported"
    assert content(await exported(world.gateway, "s")) == content(data)
    assert (await world.gateway.say("s", "say: one", sender="Ann", key="k1")).status == "duplicate"


async def test_an_imported_session_that_was_deleted_comes_back_from_the_same_file(world: World) -> None:
    await world.gateway.import_session(file(GOOD))
    await world.gateway.delete("x")
    assert (await world.gateway.import_session(file(GOOD)))["status"] == "imported"
    assert await world.texts("x") == ["hi", "ho"]


async def test_an_imported_session_whose_content_is_erased_leaves_the_books_in_balance(world: World) -> None:
    """What it said reached people elsewhere: no session here has to know it, before its deletion or after."""
    await world.ask("say: hello", session="big")
    await world.gateway.import_session(file(list(conversation(2, key="x"))))  # to the home of that session
    await world.balanced()
    await world.gateway.delete("x")

    async def erased() -> bool:
        return not await world.gateway.record.read(erase.list_unfinished)

    await until(erased)
    await world.balanced()


async def test_an_import_whose_session_is_deleted_says_so_and_begins_anew(world: World) -> None:
    checked = check_file(file(GOOD))
    target = world.gateway.inbox.make_addressee("x")
    stand = await world.gateway.record.write(import_session.begin_import, target, checked)
    [staged] = [one["key"] for one in await world.gateway.sessions()]
    await world.gateway.delete(staged)
    with pytest.raises(import_session.ImportDisturbed, match="was deleted while it was imported"):
        await world.gateway.record.write(import_session.finish_import, stand, target, checked)
    assert (await world.gateway.import_session(file(GOOD)))["status"] == "imported"
    assert await world.texts("x") == ["hi", "ho"]


async def test_an_identity_that_is_taken_by_other_content_stays_with_it(world: World) -> None:
    await world.gateway.report("other", "note", "the first content", key="q1", source="api:big", wakes=False)
    data = written(list(conversation(2)))
    assert (await world.gateway.import_session(io.BytesIO(data)))["status"] == "imported"
    assert await world.texts("other") == ["the first content"]
    assert (await world.texts("big"))[0] == "question 1?"
    assert content(await exported(world.gateway, "big")) == content(data)


async def test_an_import_that_was_cut_off_goes_on_where_it_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "STEP_LINES", 7)
    data = written(list(conversation(20)))
    takes = 0
    write = world.gateway.record.write

    async def cut(body: Any, *args: Any, **more: Any) -> Any:
        nonlocal takes
        takes += body.__name__ == "import_lines"
        if takes == 4:
            raise ConnectionError("cut off")
        return await write(body, *args, **more)

    monkeypatch.setattr(world.gateway.record, "write", cut)
    with pytest.raises(ConnectionError):
        await world.gateway.import_session(io.BytesIO(data))
    (staged,) = await world.gateway.sessions()
    assert staged["key"].startswith("import:")
    assert staged["title"] == "big: being imported"
    await world.balanced()
    monkeypatch.setattr(world.gateway.record, "write", write)
    assert (await world.gateway.import_session(io.BytesIO(data)))["status"] == "imported"
    assert [s["key"] for s in await world.gateway.sessions()] == ["big"]
    assert content(await exported(world.gateway, "big")) == content(data)


KILLED = """
import asyncio, sys
sys.path[:0] = {paths!r}
from pathlib import Path
from gateway_world import World
from semel.gateway.api import archive
archive.STEP_LINES = 20

async def main():
    world = World(Path({path!r}))
    await world.start()
    print("importing", flush=True)
    with open({file!r}, "rb") as file:
        await world.gateway.import_session(file)
    print("whole", flush=True)

asyncio.run(main())
"""


def run_and_kill(code: str, wait: float) -> None:
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    next(line for line in child.stdout if line == "importing\n")
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(wait)  # for nothing in particular: a kill at some moment
    child.send_signal(signal.SIGKILL)
    child.wait(20)
    child.stdout.close()


@pytest.mark.long
async def test_a_gateway_killed_during_an_import_leaves_a_session_whole_or_not_there(tmp_path: Path) -> None:
    data = written(list(conversation(600)))
    (tmp_path / "big.jsonl").write_bytes(data)
    here = Path(__file__).parents[1] / "gateway"
    for wait in (0.05, 0.15, 0.3):
        code = KILLED.format(paths=[str(here)], path=str(tmp_path), file=str(tmp_path / "big.jsonl"))
        run_and_kill(code, wait)
    async with World(tmp_path) as world:
        await world.balanced()
        keys = {s["key"] for s in await world.gateway.sessions()}
        assert "big" not in keys or len(await world.entries("big")) == 1000
        assert (await world.gateway.import_session(io.BytesIO(data)))["status"] in ("imported", "known")
        assert [s["key"] for s in await world.gateway.sessions()] == ["big"]
        assert content(await exported(world.gateway, "big")) == content(data)


# ---------------------------------------------------------------- what is not a whole export

GOOD = [header("x", 2, 1), turn(1), user(1, "hi", 1, key="k"), agent(2, "ho", 1)]


def with_(place: int, /, **more: Any) -> list[Json]:
    return [{**record, **more} if n == place else record for n, record in enumerate(GOOD)]


@pytest.mark.parametrize(
    ("records", "told"),
    [
        (GOOD[1:], "line 1: the first line, and only it, must be the header"),
        (with_(0, format="other"), "line 1: its format is 'other'"),
        (with_(0, version=2), "line 1: its version is 2; this Semel reads version 1"),
        (with_(0, key="no spaces"), "line 1: a session key holds"),
        (with_(0, entries=3), "line 5: it has 2 entries, and should have 3"),
        (with_(0, since=4), "line 1: since: there is no entry 4"),
        (with_(1, chapter=2), "line 2: chapter 2 comes after the last one, 1"),
        (with_(3, chapter=9), "line 4: chapter 9 comes after the last one, 1"),
        (with_(0, odd=1), "line 1: Object contains unknown field `odd`"),
        (with_(1, state="done?"), r"line 2: Invalid enum value 'done\?'"),
        (with_(1, root=7), "line 2: its root 7 is not a first attempt"),
        (with_(1, attempt=2), "line 2: it is attempt 2 of root 1, and should be attempt 1"),
        (
            [{**GOOD[0], "turns": 2}, {**GOOD[1], "state": "lost"}, turn(2, root=1), *GOOD[2:]],
            "line 3: it is attempt 1 of root 1, and should be attempt 2",
        ),
        (
            [{**GOOD[0], "turns": 2}, {**GOOD[1], "state": "lost"}, turn(2, root=1, attempt=3), *GOOD[2:]],
            "line 3: it is attempt 3 of root 1, and should be attempt 2",
        ),
        (with_(1, turn=2, root=2), "line 2: the turn's number must be above the one before"),
        (with_(1, state="lost"), "line 3: event: turn 1 was lost"),
        (with_(2, seq=2), "line 3: entry 2 follows entry 0; the next one is 1"),
        (with_(2, role="king"), "line 3: Invalid enum value 'king'"),
        (with_(2, event=None), "line 3: an entry of role 'user' needs its event"),
        (with_(2, more={"html": "<script>"}), "line 3: more: the field 'html' is reserved"),
        (with_(2, more={"text": "other"}), "line 3: more: the field 'text' is reserved"),
        (with_(2, more={"files": "x"}), "line 3: Expected `array`"),
        (with_(2, event={**GOOD[2]["event"], "payload": {"data": "x"}}), "line 3: Expected `object"),
        (with_(2, at=-1), "line 3: Expected `int` >= 0"),
        (with_(2, text=None), "line 3: Expected `str`, got `null`"),
        (with_(3, claim=None), "line 4: an entry of role 'agent' needs its claim"),
        (with_(3, turn=9), "line 4: there is no turn 9 above"),
        ([*GOOD[:3], {**user(2, "hi", 1, key="k")}], r"line 4: event: \(api:big, k\) is on line 3 already"),
        ([GOOD[0], GOOD[2], GOOD[1], GOOD[3]], "line 2: there is no turn 1 above"),
        ([*GOOD, turn(1)], "line 5: it is out of order"),
        (
            [{**GOOD[0], "chapter": 2}, GOOD[1], {**GOOD[2], "chapter": 2}, GOOD[3]],
            "line 3: turn 1 is of an earlier chapter than the first entry",
        ),
    ],
)
async def test_a_file_that_is_wrong_is_refused_with_its_line_and_nothing_is_done(
    world: World, records: list[Json], told: str
) -> None:
    with pytest.raises(BadRequest, match=told):
        await world.gateway.import_session(file(records))
    assert await world.gateway.sessions() == []


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda data: b"", "line 1: the file ends too early"),
        (lambda data: data[: data.rindex(b'{"line":"end"')], "line 5: the file ends too early"),
        (lambda data: data[:-30], "line 5: it is not a JSON object"),
        (lambda data: data.replace(b'"ho"', b'"no"'), "line 5: its digest is wrong"),
        (lambda data: data + b"\n", "line 6: it is not a JSON object"),
        (lambda data: data + data, "line 6: the first line, and only it"),
        (lambda data: b"\xff\xfe" + data, "line 1: it is not a JSON object"),
        (lambda data: b"[" * 100_000, "line 1: "),
        (lambda data: b"# a Markdown document\n", "line 1: it is not a JSON object"),
        (lambda data: b"\0" * 1000, "line 1: it is not a JSON object"),
    ],
)
async def test_a_file_that_was_cut_or_changed_is_refused(world: World, harm: Any, told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        await world.gateway.import_session(io.BytesIO(harm(written(GOOD))))
    assert await world.gateway.sessions() == []


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_no_damage_to_a_file_is_anything_but_a_bad_file(data: st.DataObject) -> None:
    """Bytes changed, lines lost or doubled, values replaced: refused with its line, or what it was."""
    lines = written(GOOD).splitlines(keepends=True)
    kind = data.draw(st.sampled_from(["bytes", "drop", "double", "swap", "value"]))
    at = data.draw(st.integers(0, len(lines) - 1))
    if kind == "bytes":
        raw = bytearray(b"".join(lines))
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        lines = bytes(raw).splitlines(keepends=True)
    elif kind == "drop":
        del lines[at]
    elif kind == "double":
        lines.insert(at, lines[at])
    elif kind == "swap":
        lines[at], lines[0] = lines[0], lines[at]
    else:
        record = json.loads(lines[at])
        name = data.draw(st.sampled_from(sorted(record)))
        record[name] = data.draw(
            st.none() | st.integers() | st.text(max_size=5) | st.booleans() | st.lists(st.none(), max_size=2)
            | st.dictionaries(st.text(max_size=3), st.none(), max_size=2)
        )  # fmt: skip
        lines[at] = json.dumps(record).encode() + b"\n"
    try:
        check_file(lines)
    except BadFile as bad:
        assert re.match(r"line \d+: ", str(bad))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40), min_size=1, max_size=6)
)
async def test_whatever_was_said_is_said_the_same_after_an_import(texts: list[str], tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("world")
    records = [header("x", 2 * len(texts), len(texts)), *(turn(n + 1) for n in range(len(texts)))]
    for n, text in enumerate(texts):
        records += [user(2 * n + 1, text, n + 1), agent(2 * n + 2, text, n + 1)]
    data = written(records)
    async with World(path) as world:
        await world.gateway.import_session(io.BytesIO(data))
        assert content(await exported(world.gateway, "x")) == content(data)


# ---------------------------------------------------------------- the house


def test_no_code_outside_the_ledger_adds_an_entry() -> None:
    """Law 4: one writer of the transcript. `entry_add` and `import_entry` are run in two files, and nowhere else."""
    package = Path(semel.__file__).parent
    found = set()
    for path in package.rglob("*.py"):
        source = path.read_text("utf-8")
        if "entry_add" not in source and "import_entry" not in source:
            continue  # to parse all takes long
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and node.value in ("entry_add", "import_entry"):
                found.add(str(path.relative_to(package)))
    assert found == {"ledger/transcript/entries.py", "ledger/admin/import_session.py"}
