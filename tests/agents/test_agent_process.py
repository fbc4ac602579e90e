"""The process of an agent: how it is started, watched and ended, and what is left of it (nothing)."""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from agents_house import LAUNCHER, PATIENCE, House, content, hear, running, script, turn, until

from semel.agents.acp import wire
from semel.agents.acp.environment import build_environment
from semel.gateway.ports import AgentError, Answered, Died

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


async def test_kill_9_of_an_agent_is_noticed_and_named(house: House) -> None:
    talk = await house.scripted()
    await talk.prompt([{"type": "text", "text": script("begun", {"hang": True})}])
    await talk.next()
    os.kill(talk.process.pid, signal.SIGKILL)
    heard = await hear(talk)
    assert heard.end == Died("was killed by SIGKILL")


async def test_what_an_agent_said_before_it_was_killed_is_heard(house: House) -> None:
    talk = await house.scripted()
    heard = await turn(talk, script({"text": "y" * 30_000, "chunks": 3000}, {"die": 9}))
    assert heard.text() == "y" * 30_000
    assert isinstance(heard.end, Died)


async def test_killing_a_launcher_ends_its_worker_that_holds_the_pipes(house: House) -> None:
    talk = await house.opened(LAUNCHER)
    worker = int((await turn(talk, "x")).text())
    assert worker != talk.process.pid and running(worker)
    os.kill(talk.process.pid, signal.SIGKILL)
    assert (await hear(talk)).end == Died("was killed by SIGKILL")
    await until(lambda: not running(worker), "the worker is dead")


async def test_an_agent_that_closes_its_output_is_dead_though_it_runs(house: House) -> None:
    talk = await house.opened("hello(); os.close(1); time.sleep(100)")
    assert (await hear(talk)).end == Died("closed its output")
    assert await talk.process.wait_for_exit(PATIENCE)


@linux
async def test_a_grandchild_outside_the_group_that_holds_the_pipes_delays_nothing_and_is_swept(
    house: House,
) -> None:
    talk = await house.opened(
        """
        hello()
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], start_new_session=True)
        m = expect("session/prompt")
        say(str(child.pid))
        time.sleep(100)
        """
    )
    await talk.prompt([])
    child = int((await hear(talk, lambda _: True)).text())
    os.kill(talk.process.pid, signal.SIGKILL)
    assert (await hear(talk)).end == Died("was killed by SIGKILL")
    assert running(child)
    await talk.close(1.0)
    await until(lambda: not running(child), "the grandchild is swept")


async def test_400_kb_of_stderr_block_nobody_and_the_last_of_it_is_kept(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    def lines() -> list[str]:
        return [
            str(record.args[2]) for record in caplog.records if record.msg == "agent %s (spawn %d): %s" and record.args
        ]

    caplog.set_level(logging.DEBUG, "semel.agents")
    talk = await house.scripted()
    heard = await turn(talk, script({"stderr": "e" * 99, "times": 4000}, {"stderr": "last words"}, "done"))
    assert heard.text() == "done"
    await until(lambda: len(lines()) == 4001, "every line was logged")
    assert talk.process.stderr.tail(1) == "last words"
    await turn(talk, script({"stderr": "z" * 1_000_000}))
    await until(lambda: lines()[-1].startswith("zz"), "a line without end is cut")
    assert len(lines()[-1]) == 4096


@pytest.mark.parametrize("line", ["y", "", "{"])
async def test_a_program_that_prints_without_end_is_refused_at_once(house: House, line: str) -> None:
    with pytest.raises(AgentError, match="'test' printed line after line that is not ACP") as refused:
        await house.open(house.agent(["yes", line]))
    assert ("it printed" in str(refused.value)) is bool(line)


async def test_an_agent_that_prints_other_text_without_end_is_ended_and_its_last_words_are_told(house: House) -> None:
    talk = await house.opened('hello(); expect("session/prompt"); os.execvp("yes", ["yes", "Building ..."])')
    heard = await turn(talk, "x")
    assert heard.end == Died("printed line after line that is not ACP; its last words: Building ...")


async def test_others_go_on_beside_an_agent_that_prints_as_fast_as_it_can(house: House) -> None:
    """Every 1,000 lines of other text, it sends a message, so that it is never ended."""
    talk = await house.opened(
        """
        hello(); expect("session/prompt")
        while True:
            os.write(1, b"{\\n" * 1000)
            say("z")
        """
    )
    await talk.prompt([])
    await talk.next()
    reader = asyncio.create_task(hear(talk))
    busy_seconds = []
    for _ in range(30):  # each waits for the event loop, as a request of somebody else does
        began = time.thread_time()
        await asyncio.sleep(0.01)
        busy_seconds.append(time.thread_time() - began)
    assert sum(busy_seconds[10:]) / 20 < 0.05  # a pipe full of such lines takes more
    await talk.close(0.5)
    assert isinstance((await reader).end, Died)


async def test_a_line_of_8_mb_is_read_whole(house: House) -> None:
    talk = await house.scripted()
    heard = await turn(talk, script({"sleep": 0}, {"prompt": True, "chunks": 1}, {"text": "."}) + "z" * 8_000_000)
    assert len(heard.text()) > 8_000_000
    assert heard.end == Answered("end_turn")


async def test_a_line_above_the_bound_ends_the_agent_with_a_clear_reason(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_LINE_BYTES", 2 * 1024 * 1024)
    talk = await house.scripted()
    heard = await turn(talk, script("ok", {"prompt": True, "chunks": 1}) + "z" * 3_000_000)
    assert heard.end == Died("sent a line of more than 2 MB; a file of more than 50 MiB is better named by its path")
    assert await talk.process.wait_for_exit(PATIENCE)


async def test_a_file_in_a_line_above_the_bound_is_left_out_and_the_turn_goes_on(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_LINE_BYTES", 2 * 1024 * 1024)
    talk = await house.scripted()
    image = {"type": "image", "mimeType": "image/png", "data": "z" * 3_000_000}
    update = {"sessionUpdate": "agent_message_chunk", "content": image}
    heard = await turn(talk, script("Before. ", {"update": update}, "After."))
    told = [one["content"] for one in heard.updates("agent_message_chunk")]
    assert "".join(one.get("text", "<file>") for one in told) == "Before. <file>After."
    assert [one["leftOut"] > 2_000_000 for one in told if "text" not in one] == [True]
    assert heard.end == Answered("end_turn")


async def test_a_prompt_larger_than_the_pipe_waits_for_an_agent_that_reads_late(house: House) -> None:
    talk = await house.opened(
        """
        hello()
        time.sleep(0.3)
        m = expect("session/prompt")
        say(str(len(m["params"]["prompt"][0]["text"])))
        m = expect("session/cancel")
        out(id=2, result={"stopReason": "end_turn"})
        read()
        """
    )
    began = time.monotonic()
    await talk.prompt([{"type": "text", "text": "z" * 4_000_000}])
    await talk.cancel()
    assert time.monotonic() - began < 0.25, "writing waited for the agent"
    assert (await hear(talk, lambda _: True)).text() == "4000000"


async def test_where_there_is_no_pidfd_a_death_is_noticed_too(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.pidfd_open", raising=False)
    talk = await house.scripted()
    assert (await turn(talk, script("x", {"exit": 4}))).end == Died("exited with code 4")


# ---------------------------------------------------------------- ending


async def ended(house: House, code: str, grace: float) -> tuple[float, int | None]:
    talk = await house.opened(code)
    began = time.monotonic()
    await talk.close(grace)
    assert talk.process.code is not None
    assert isinstance(await talk.next(), Died)
    return time.monotonic() - began, talk.process.code


async def test_an_agent_that_ends_with_its_input_is_not_signalled(house: House) -> None:
    took, code = await ended(house, "hello(); read()", 10.0)
    assert code == 0 and took < 5


async def test_an_agent_that_ignores_the_end_of_its_input_is_terminated(house: House) -> None:
    took, code = await ended(house, "hello(); time.sleep(100)", 0.3)
    assert code == -signal.SIGTERM and took >= 0.3


async def test_an_agent_that_ignores_sigterm_too_is_killed(house: House) -> None:
    took, code = await ended(house, "signal.signal(signal.SIGTERM, signal.SIG_IGN); hello(); time.sleep(100)", 0.3)
    assert code == -signal.SIGKILL and took >= 0.6


async def test_closing_without_grace_kills_at_once_even_while_a_gentler_end_waits(house: House) -> None:
    talk = await house.opened("signal.signal(signal.SIGTERM, signal.SIG_IGN); hello(); time.sleep(100)")
    gentle = asyncio.create_task(talk.close(60.0))
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await talk.close(0.0)
        await gentle
    assert talk.process.code == -signal.SIGKILL


@linux
@pytest.mark.parametrize("deaf", [False, True], ids=["holds our pipe", "has closed our pipe"])
async def test_a_worker_that_still_writes_when_its_launcher_is_gone_may_finish(house: House, deaf: bool) -> None:
    saved, ready = house.tmp / "saved", house.tmp / "ready"
    worker = house.tmp / "worker.py"
    worker.write_text(
        f"""
import os, pathlib, signal, sys, time
if {deaf}: os.close(1)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path({str(ready)!r}).touch()
sys.stdin.read()
time.sleep(0.3)
pathlib.Path({str(saved)!r}).write_text("all")
"""
    )
    talk = await house.opened(f"hello(); subprocess.Popen([sys.executable, {str(worker)!r}]); read()")
    await until(ready.exists, "the worker runs")
    await talk.close(10.0)
    assert talk.process.code == 0
    assert content(saved) == "all"


@linux
async def test_orphans_that_fall_to_the_gateway_are_reaped(house: House) -> None:
    """As process 1 of a container it inherits them."""
    libc, subreaper = ctypes.CDLL(None), 36
    assert libc.prctl(subreaper, 1) == 0
    try:
        talk = await house.opened(LAUNCHER)
        worker = int((await turn(talk, "x")).text())
        os.kill(talk.process.pid, signal.SIGKILL)
        await hear(talk)
        await talk.close(1.0)
        assert not Path(f"/proc/{worker}").exists(), "a zombie is left"
        assert not Path(f"/proc/{talk.process.pid}").exists()
    finally:
        libc.prctl(subreaper, 0)


# ---------------------------------------------------------------- what an agent is started with


async def test_secrets_of_the_gateway_do_not_reach_an_agent(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_TOKEN", "1:x")
    monkeypatch.setenv("SEMEL_OWNER", "y")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    talk = await house.opened(
        'hello(); expect("session/prompt"); say(json.dumps(dict(os.environ))); read()', env={"GIVEN": "1"}
    )
    await talk.prompt([])
    env = json.loads((await hear(talk, lambda _: True)).text())
    assert "TELEGRAM_TOKEN" not in env and "SEMEL_OWNER" not in env
    assert env["GIVEN"] == "1" and env["LC_ALL"] == "C.UTF-8" and env["PATH"] == os.environ["PATH"]
    assert env["SEMEL_SPAWN"] == talk.process.mark and env["SEMEL_SOCKET"] == str(house.tmp / "sock")
    assert "tok-secret" not in json.dumps(env)


def test_an_agent_gets_the_variables_of_its_own_vendor_only() -> None:
    base = {
        "ANTHROPIC_API_KEY": "a",
        "OPENAI_API_KEY": "o",
        "SEMEL_X": "s",
        "HOME": "/h",
        "CLAUDE_HIDDEN": "h",
    }
    for command in (["claude-agent-acp"], ["npx", "-y", "@agentclientprotocol/claude-agent-acp@0.100.0"]):
        env = build_environment(command, {}, hidden=["CLAUDE_HIDDEN"], base=base)
        assert env == {"ANTHROPIC_API_KEY": "a", "HOME": "/h", "PATH": os.defpath, "LANG": "C.UTF-8"}
    assert "OPENAI_API_KEY" in build_environment(["node", "/x/codex-acp/dist/index.js"], {}, base=base)
    assert "OPENAI_API_KEY" not in build_environment(["my-agent"], {}, base=base)


async def test_the_mcp_server_an_agent_is_given_carries_this_spawns_token(house: House) -> None:
    talk = await house.opened(
        """
        m = expect("initialize")
        caps = m["params"]["clientCapabilities"]
        assert caps["fs"] == {"readTextFile": False, "writeTextFile": False} and caps["terminal"] is False
        assert caps["_meta"] == {"terminal_output": True, "terminal-auth": True}
        assert caps["auth"] == {"terminal": True} and m["params"]["protocolVersion"] == 1
        out(id=m["id"], result={})
        m = expect("session/new")
        out(id=m["id"], result={"sessionId": "s1"})
        expect("session/prompt")
        say(json.dumps(m["params"]))
        read()
        """
    )
    await talk.prompt([])
    told = json.loads((await hear(talk, lambda _: True)).text())
    (server,) = told["mcpServers"]
    assert told["cwd"] == str(house.work)
    assert (server["name"], server["command"]) == ("semel", sys.executable)
    assert server["args"] == ["-P", "-m", "semel.tools"]
    assert {one["name"]: one["value"] for one in server["env"]} == {
        "SEMEL_SOCKET": str(house.tmp / "sock"),
        "SEMEL_TOKEN": "tok-secret",
        "SEMEL_SPAWN": talk.process.mark,
    }


async def test_a_workspace_that_is_not_there_is_named(house: House) -> None:
    house.work.rmdir()
    with pytest.raises(AgentError, match=r"workspace of agent 'test' is not a directory"):
        await house.scripted()


async def test_a_file_that_cannot_be_executed_is_reported(house: House) -> None:
    broken = house.tmp / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    with pytest.raises(AgentError, match=r"cannot start .*broken"):
        await house.open(house.agent([str(broken)]))


async def test_a_trace_keeps_the_wire_and_not_the_token(house: House) -> None:
    talk = await house.scripted(trace=house.tmp / "traces")
    await turn(talk, script("hi", {"stderr": "warn"}, {"wait": str(house.tmp)}, {"raw": "not json"}))
    await talk.close(1.0)
    (path,) = (house.tmp / "traces").iterdir()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert "tok-secret" not in path.read_text()
    assert rows[0]["dir"] == "note"
    methods = [row["msg"]["method"] for row in rows if row["dir"] == "c2a"]
    assert methods == ["initialize", "session/new", "session/prompt"]
    assert all(set(row) == {"t", "dir", "msg"} for row in rows)
    assert {("a2c_raw", "not json"), ("stderr", "warn")} <= {
        (row["dir"], row["msg"]) for row in rows if isinstance(row["msg"], str)
    }
    (end,) = [row["msg"]["result"] for row in rows if row["dir"] == "a2c" and "stopReason" in str(row["msg"])]
    assert end["stopReason"] == "end_turn"


async def test_a_trace_that_cannot_be_kept_stops_nobody(house: House) -> None:
    (house.tmp / "file").write_text("")
    talk = await house.scripted(trace=house.tmp / "file")
    assert (await turn(talk, script("hi"))).text() == "hi"


@pytest.mark.parametrize(
    "line", ["#!/usr/bin/env node", "#!/usr/bin/env -S node --no-warnings", "#! /usr/bin/env node"]
)
async def test_a_script_whose_interpreter_is_not_on_path_says_so_and_what_to_do(house: House, line: str) -> None:
    """As with the programs that npm installs, under a service whose PATH lacks Node.js: they exit with code 127."""
    script = house.work / "agent"
    script.write_text(f"{line}\nprocess.exit()\n")
    script.chmod(0o755)
    said = (
        r"`node`\) was not found on the gateway's PATH, and .*/agent of agent 'test' needs it\..*semel service install"
    )
    with pytest.raises(AgentError, match=said):
        await house.open(house.agent([str(script)], env={"PATH": "/no-such-folder"}))
