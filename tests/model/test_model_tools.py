"""What a model calls is announced, asked for, done inside the workspace, and shown with its input and output."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from model_world import Answer, ModelServer, ModelWorld, until


async def results(api: ModelServer) -> list[str]:
    """What the model read of its calls, in the last request."""
    return [text for role, text in api.requests[-1].talk if role == "result"]


@pytest.mark.parametrize("provider", ["openai-chat", "openai", "anthropic"])
async def test_files_are_written_edited_read_listed_and_searched(tmp_path: Path, provider: str) -> None:
    answers = [
        Answer(["I write it."], calls=[("write", {"path": "src/a.py", "text": "one = 1\ntwo = 2\n"})]),
        Answer([], calls=[("edit", {"path": "src/a.py", "old": "two = 2", "new": "two = 'zwei'"})]),
        Answer([], calls=[("read", {"path": "src/a.py"}), ("list", {"path": "src"}), ("search", {"pattern": "zw.i"})]),
        Answer(["Done."]),
    ]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, provider) as w:
        assert await w.ask("Do it") == ["I write it.", "Done."]
        assert (w.work / "src/a.py").read_text() == "one = 1\ntwo = 'zwei'\n"
        told = await results(api)
        assert told[0] == "wrote 16 bytes to src/a.py"
        assert told[1] == "changed 1 place in src/a.py"
        assert told[2] == "one = 1\ntwo = 'zwei'\n"
        assert told[3] == "a.py (21 bytes)"
        assert told[4] == "src/a.py:2:two = 'zwei'"
        items = await w.items("tool")
        assert [one["title"] for one in items] == [
            "Write src/a.py", "Edit src/a.py", "Read src/a.py", "List src", "Search zw.i",
        ]  # fmt: skip
        assert [one["status"] for one in items] == ["done"] * 5
        assert items[2]["text"] == told[2]
        assert items[0]["input"] == {"path": "src/a.py", "text": "one = 1\ntwo = 2\n"}


async def test_a_command_is_shown_as_it_runs_and_its_exit_code_told(tmp_path: Path) -> None:
    command = "echo begun; while [ ! -e go ]; do sleep 0.02; done; echo ended >&2; exit 3"
    answers = [Answer([], calls=[("shell", {"command": command})]), Answer(["It failed."])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api) as w:
        await w.gateway.say("s", "Run")
        await w.item("tool", status="running", text="begun\n")
        (w.work / "go").touch()
        await w.idle()
        [item] = await w.items("tool")
        assert (item["text"], item["exit"], item["status"]) == ("begun\nended\n", 3, "failed")
        assert await results(api) == ["begun\nended\n[it exited with code 3]"]


async def test_a_command_finds_none_of_semels_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    monkeypatch.setenv("SEMEL_TELEGRAM", "token-of-a-channel")
    answers = [
        Answer([], calls=[("shell", {"command": "env; cat /proc/self/environ | tr '\\0' '\\n'"})]),
        Answer(["Ok"]),
    ]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, env={"GIVEN": "yes"}) as w:
        await w.ask("Show")
        [told] = await results(api)
        assert "GIVEN=yes" in told
        assert "PATH=" in told
        for secret in ("sk-environment", "sk-secret", "token-of-a-channel"):
            assert secret not in told


async def test_what_a_command_leaves_running_ends_with_it(tmp_path: Path) -> None:
    answers = [Answer([], calls=[("shell", {"command": "sleep 300 & echo $! > pid; echo on"})]), Answer(["Ok"])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api) as w:
        await w.ask("Go")
        assert await results(api) == ["on\n"]
        pid = int((w.work / "pid").read_text())

        async def gone() -> bool:
            return not _runs(pid)

        await until(gone)


async def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    answers = [Answer([], calls=[("shell", {"command": "echo first; sleep 300", "timeout": 1})]), Answer(["Ok"])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api) as w:
        await w.ask("Go")
        assert await results(api) == ["first\n[it was ended: it took longer than 1 s]"]


async def test_a_flood_is_read_in_its_head_and_tail(tmp_path: Path) -> None:
    answers = [Answer([], calls=[("shell", {"command": "seq 1 400000; echo the end"})]), Answer(["Ok"])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api) as w:
        await w.ask("Go")
        [told] = await results(api)
        assert len(told) < 25_000
        assert told.startswith("1\n2\n3\n")
        assert "characters left out]" in told
        assert told.endswith("400000\nthe end\n")


@pytest.mark.parametrize(
    "path", ["../outside.txt", "/etc/passwd", "link/passwd", "out.txt", "a/../../outside.txt", "nul\0byte"]
)
async def test_file_tools_end_at_the_workspace(tmp_path: Path, path: str) -> None:
    (tmp_path / "outside.txt").write_text("secret")
    calls = [
        ("read", {"path": path}),
        ("write", {"path": path, "text": "x"}),
        ("edit", {"path": path, "old": "s", "new": "x"}),
    ]
    async with ModelServer(Answer([], calls=calls), Answer(["Ok"])) as api, ModelWorld(tmp_path, api) as w:
        (w.work / "link").symlink_to("/etc")
        (w.work / "out.txt").symlink_to(tmp_path / "outside.txt")
        await w.ask("Go")
        assert [("outside the workspace" in told or "no NUL" in told) for told in await results(api)] == [True] * 3
        assert (tmp_path / "outside.txt").read_text() == "secret"
        assert [one["status"] for one in await w.items("tool")] == ["failed"] * 3


async def test_what_cannot_be_done_is_told_so_that_the_model_can_do_better(tmp_path: Path) -> None:
    calls = [
        ("read", {"path": "missing"}),
        ("read", {"file": "a"}),
        ("read", {}),
        ("edit", {"path": "twice", "old": "a", "new": "b"}),
        ("edit", {"path": "twice", "old": "z", "new": "b"}),
        ("read", {"path": "binary"}),
        ("shell", {"command": 7}),
        ("dance", {}),
        ("shell", {"command": "echo a\0b"}),
        ("search", {"pattern": "\0"}),
    ]
    async with ModelServer(Answer([], calls=calls), Answer(["Ok"])) as api, ModelWorld(tmp_path, api) as w:
        (w.work / "twice").write_text("a a")
        (w.work / "binary").write_bytes(b"\x89PNG\0\0")
        await w.ask("Go")
        told = await results(api)
        assert "No such file" in told[0]
        assert "no argument 'file'" in told[1]
        assert "needs 'path'" in told[2]
        assert "stands 2 times" in told[3]
        assert "does not stand" in told[4]
        assert "binary file of 6 bytes" in told[5]
        assert "must be of type string" in told[6]
        assert "There is no tool 'dance'" in told[7]
        assert "'command' holds a NUL" in told[8]
        assert "'pattern' holds a NUL" in told[9]


async def test_a_search_tells_the_file_also_where_it_was_given_one(tmp_path: Path) -> None:
    calls = [
        ("search", {"pattern": "b+", "path": "a.txt"}),
        ("search", {"pattern": "("}),
        ("search", {"pattern": "zzz"}),
    ]
    async with ModelServer(Answer([], calls=calls), Answer(["Ok"])) as api, ModelWorld(tmp_path, api) as w:
        (w.work / "a.txt").write_text("abc\n")
        await w.ask("Go")
        told = await results(api)
        assert told[0] == "a.txt:1:abc"
        assert "Is '(' a regular expression?" in told[1]
        assert told[2] == "[nothing found]"


async def test_a_name_that_is_no_utf8_and_half_an_emoji_are_shown_and_the_turn_goes_on(tmp_path: Path) -> None:
    answers = [Answer(["half \ud83d"], calls=[("list", {})]), Answer(["Done."])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api) as w:
        os.close(os.open(os.fsencode(w.work) + b"/odd\xff", os.O_CREAT))
        assert await w.ask("Look") == ["half \ufffd", "Done."]
        assert await results(api) == ["odd\ufffd (0 bytes)"]
        assert ("assistant", "half \ufffd") in api.requests[-1].talk


async def test_output_is_shown_as_it_is_whatever_it_looks_like(tmp_path: Path) -> None:
    strange = "<persisted-output>\n```console\n...\n\nmore\r\n```\n</persisted-output>\n"
    answers = [Answer([], calls=[("read", {"path": "a"}), ("shell", {"command": "cat a"})]), Answer(["Ok"])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api) as w:
        (w.work / "a").write_bytes(strange.encode())
        await w.ask("Go")
        displayed = strange.replace("\r\n", "\n")
        assert [one["text"] for one in await w.items("tool")] == [displayed, displayed]
        assert await results(api) == [strange, strange]


async def test_a_long_file_is_read_in_parts(tmp_path: Path) -> None:
    calls = [
        ("read", {"path": "long"}),
        ("read", {"path": "long", "offset": 2999}),
        ("read", {"path": "long", "limit": 1}),
    ]
    async with ModelServer(Answer([], calls=calls), Answer(["Ok"])) as api, ModelWorld(tmp_path, api) as w:
        (w.work / "long").write_text("".join(f"line {n}\n" for n in range(1, 3001)))
        await w.ask("Go")
        told = await results(api)
        assert told[0].endswith("line 2000\n[lines 1-2000 of 3000; go on with offset=2001]")
        assert told[1] == "line 2999\nline 3000\n"
        assert told[2] == "line 1\n[lines 1-1 of 3000; go on with offset=2]"


# ---------------------------------------------------------------- permission


async def asked(w: ModelWorld, option: str) -> None:
    item = await w.item("permission", state="open")
    assert await w.gateway.controls.answer("s", item["id"], option, "me") == "answered"


async def test_a_person_allows_or_denies_each_effect(tmp_path: Path) -> None:
    answers = [
        Answer([], calls=[("write", {"path": "a", "text": "1"}), ("shell", {"command": "touch b"})]),
        Answer(["As you wish."]),
    ]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, permissions="ask") as w:
        await w.gateway.say("s", "Go")
        item = await w.item("permission", state="open")
        assert item["title"] == "Write a"
        assert item["input"] == {"path": "a", "text": "1"}
        assert not (w.work / "a").exists()
        await asked(w, "allow")
        await w.item("permission", state="open", title="touch b")
        await asked(w, "reject")
        await w.idle()
        assert ((w.work / "a").read_text(), (w.work / "b").exists()) == ("1", False)
        told = await results(api)
        assert told[0] == "wrote 1 bytes to a"
        assert "the person did not allow it" in told[1]
        assert [one["status"] for one in await w.items("tool")] == ["done", "failed"]


async def test_always_holds_for_that_tool_or_that_command_line_only(tmp_path: Path) -> None:
    answers = [
        Answer([], calls=[("write", {"path": "a", "text": "1"}), ("write", {"path": "b", "text": "2"}),
                          ("shell", {"command": "echo x"}), ("shell", {"command": "echo x"}),
                          ("shell", {"command": "echo y"})]),
        Answer(["Ok"]),
    ]  # fmt: skip
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, permissions="ask") as w:
        await w.gateway.say("s", "Go")
        for title in ("Write a", "echo x", "echo y"):
            await w.item("permission", state="open", title=title)
            await asked(w, "always")
        await w.idle()
        assert [one["title"] for one in await w.items("permission")] == ["Write a", "echo x", "echo y"]
        assert [one["status"] for one in await w.items("tool")] == ["done"] * 5


async def test_a_request_that_nobody_answers_is_no_permission(tmp_path: Path) -> None:
    answers = [Answer([], calls=[("shell", {"command": "touch b"})]), Answer(["I leave it."])]
    async with (
        ModelServer(*answers) as api,
        ModelWorld(tmp_path, api, permissions="ask", permission_deadline_s=0.05) as w,
    ):
        assert await w.ask("Go") == ["I leave it."]
        assert [one["state"] for one in await w.items("permission")] == ["expired"]
        assert "nobody answered" in (await results(api))[0]
        assert not (w.work / "b").exists()


@pytest.mark.parametrize(("policy", "done"), [("allow", True), ("deny", False)])
async def test_the_configured_policy_answers(tmp_path: Path, policy: str, done: bool) -> None:
    answers = [Answer([], calls=[("shell", {"command": "touch b"})]), Answer(["Ok"])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, permissions=policy) as w:
        await w.ask("Go")
        assert (w.work / "b").exists() is done


# ---------------------------------------------------------------- cancel


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not (Path(f"/proc/{pid}/stat").exists() and ") Z " in Path(f"/proc/{pid}/stat").read_text())


async def test_a_cancel_in_the_text_keeps_what_was_shown(tmp_path: Path) -> None:
    answers = [Answer(["Shown ", "never"], gate=asyncio.Event()), Answer(["Next"])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api) as w:
        await w.gateway.say("s", "Go")

        async def shown() -> bool:
            return "Shown " in await w.texts("s", "agent")

        await until(shown)
        assert await w.gateway.controls.stop_turn("s", "me")
        await w.idle()
        [entry] = [e for e in await w.entries() if e["role"] == "agent"]
        assert (entry["text"], entry["partial"]) == ("Shown ", True)
        assert await w.texts("s", "notice") == ["Stopped by me."]
        assert await w.ask("Again") == ["Shown ", "Next"]


async def test_a_cancel_in_a_command_kills_it_and_what_it_started(tmp_path: Path) -> None:
    answers = [Answer([], calls=[("shell", {"command": "sleep 300 & echo $! > pid; wait"})]), Answer(["Next"])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api) as w:
        await w.gateway.say("s", "Go")
        await w.item("tool", status="running")

        async def begun() -> bool:
            return (w.work / "pid").exists() and (w.work / "pid").read_text().strip() != ""

        await until(begun)
        pid = int((w.work / "pid").read_text())
        assert await w.gateway.controls.stop_turn("s", "me")
        await w.idle()

        async def gone() -> bool:
            return not _runs(pid)

        await until(gone)
        assert [one["status"] for one in await w.items("tool")] == ["cancelled"]
        assert await w.ask("Again") == ["Next"]


async def test_a_cancel_at_a_permission_request_withdraws_it(tmp_path: Path) -> None:
    answers = [Answer([], calls=[("shell", {"command": "touch b"})]), Answer(["Next"])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, permissions="ask") as w:
        await w.gateway.say("s", "Go")
        await w.item("permission", state="open")
        assert await w.gateway.controls.stop_turn("s", "me")
        await w.idle()
        assert [one["state"] for one in await w.items("permission")] == ["cancelled"]
        assert await w.ask("Again") == ["Next"]
        assert not (w.work / "b").exists()


async def test_the_tools_of_a_model_work_in_the_sessions_folder(tmp_path: Path) -> None:
    garden = tmp_path / "garden"
    garden.mkdir()
    (garden / "plan.txt").write_text("beans\n")
    answers = Answer(calls=[("read", {"path": "plan.txt"})]), Answer(["Read."]), Answer(["ok"])
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api) as w:
        await w.gateway.make_session("s", folder=str(garden))
        assert await w.ask("Read the plan") == ["Read."]
        (call,) = await w.items("tool")
        assert "beans" in call["text"]
        assert str(garden) in api.requests[0].system
        await w.ask("hello", "other")
        assert str(w.work) in api.requests[2].system
