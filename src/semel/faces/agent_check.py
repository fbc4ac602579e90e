"""Try an agent without a gateway: start it, open a session, look for its login, its tools and its memory.

The agent gets Semel's MCP server as in a real session. Its unix socket is answered here: the server says hello and
lists its tools, but each call is refused, so that nothing is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from semel.agents.acp import AcpAgent, AcpConversation
from semel.gateway.ports import AgentError, Answered, Asked, Died, Launch, Update
from semel.gateway.process_identity import find_tagged_processes, list_group_members
from semel.text.json_types import Json, object_at, text_at
from semel.tools.gateway_link import PROBLEM_URN

TOOLS_TIMEOUT_S = 5.0
"""How long after its session is open an agent may take to start its MCP servers."""
CLOSE_GRACE_S = 1.0
QUICK_TIMEOUT_S = 45.0
"""How long a quick check lasts at most. The slowest known agent needs 10 to 58 s for its first session."""
_LENGTH = re.compile(rb"^content-length:\s*(\d+)\r$", re.I | re.M)


@dataclass
class AgentCheck:
    """What was found of an agent. `problem`: why it cannot be used, and what to do; "" if it can.

    `program`: what it calls itself. `tools`: it started Semel's MCP server. `session_s`: seconds to the open session.
    `memory_mb`, `processes`: of its process group, with the MCP server. `answer`: to the prompt, if there was one.
    `notes`: what works, but differs from what people expect.
    """

    name: str
    command: list[str]
    problem: str = ""
    program: str = ""
    profile: str = ""
    mode: str | None = None
    modes: list[str] = field(default_factory=list)
    model: str | None = None
    tools: bool = False
    session_s: float | None = None
    memory_mb: int | None = None
    processes: int | None = None
    answer: str | None = None
    answer_s: float | None = None
    notes: list[str] = field(default_factory=list)


async def check_quickly(agent: AcpAgent) -> AgentCheck:
    """Start the agent, open a session and end it again, within QUICK_TIMEOUT_S. Its tools and memory are not checked.

    If the agent's workspace is missing, a temporary one is used: the gateway makes it at its start.
    """
    with tempfile.TemporaryDirectory(prefix="semel-check-") as folder:
        if not agent.cwd.exists():
            agent = agent.copy_to(Path(folder))
        try:
            async with asyncio.timeout(QUICK_TIMEOUT_S):
                return await check_agent(agent, quick=True)
        except TimeoutError:
            problem = (
                f"it opened no session within {QUICK_TIMEOUT_S:g} s. Is its command a program that speaks ACP? "
                f"To wait longer: semel agents check {agent.name}"
            )
            return AgentCheck(agent.name, list(agent.command), problem)


async def check_agent(
    agent: AcpAgent, prompt: str | None = None, answer_timeout: float = 300.0, quick: bool = False
) -> AgentCheck:
    """Start the agent, open a session and end it again. With a `prompt`, wait for its answer, `answer_timeout` s.

    `quick`: do not wait for its tools, and do not measure its memory.
    """
    check = AgentCheck(agent.name, list(agent.command))
    tools_reached = asyncio.Event()
    with tempfile.TemporaryDirectory(prefix="semel-check-") as folder:
        socket = Path(folder) / "socket"
        async with _tool_gateway(socket, agent, tools_reached):
            begun = time.monotonic()
            try:
                conversation = await agent.open(_make_launch(socket))
            except AgentError as error:
                check.problem = str(error)
                return check
            try:
                check.session_s = round(time.monotonic() - begun, 2)
                _read_choices(conversation, agent, check)
                if prompt is not None and not check.problem:
                    await _ask(conversation, prompt, answer_timeout, check)
                if not quick:
                    await _look_at_processes(conversation, check, tools_reached)
            finally:
                await conversation.close(CLOSE_GRACE_S)
    return check


def _make_launch(socket: Path) -> Launch:
    async def on_start(pid: int, pgid: int, born: str) -> None:
        """There is no ledger that records the spawn."""

    return Launch("check", 0, secrets.token_urlsafe(32), socket, None, on_start)


def _read_choices(conversation: AcpConversation, agent: AcpAgent, check: AgentCheck) -> None:
    check.program, check.profile = conversation.agent_name, conversation.profile
    modes = conversation.modes or {}
    check.mode = text_at(modes, "currentModeId")
    check.modes = [str(mode.get("id")) for mode in modes.get("availableModes") or () if isinstance(mode, dict)]
    models = conversation.models or {}
    check.model = text_at(models, "currentModelId") or text_at(models, "currentValue")
    if conversation.is_logged_out:
        check.problem = f"agent {agent.name!r} is not logged in: {conversation.login_help}"
    if agent.permissions == "ask" and conversation.decides_alone:
        check.notes.append(f"in the mode {check.mode} it decides by itself what it may do, and asks nobody")


async def _look_at_processes(conversation: AcpConversation, check: AgentCheck, tools_reached: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(tools_reached.wait(), TOOLS_TIMEOUT_S)
    check.tools = tools_reached.is_set()
    pids = {*list_group_members(conversation.process.pgid), *find_tagged_processes(conversation.process.mark)}
    check.processes = len(pids)
    check.memory_mb = _resident_mb(pids)
    if not check.tools:
        check.notes.append(
            "it has not started Semel's MCP server. Unless it does so later, it cannot send messages or files in the "
            "middle of its turn"
        )


async def _ask(conversation: AcpConversation, prompt: str, timeout: float, check: AgentCheck) -> None:
    begun, texts = time.monotonic(), []
    await conversation.prompt([{"type": "text", "text": prompt}])
    try:
        async with asyncio.timeout(timeout):
            while True:
                match await conversation.next():
                    case Update(data) if data.get("sessionUpdate") == "agent_message_chunk":
                        texts.append(text_at(object_at(data, "content"), "text") or "")
                    case Asked(id):
                        await conversation.answer(id, None)
                    case Answered(_, error):
                        check.problem = error or ""
                        break
                    case Died(why):
                        check.problem = f"it {why}"
                        break
    except TimeoutError:
        check.problem = f"it did not answer within {timeout:g} s"
    check.answer, check.answer_s = "".join(texts).strip(), round(time.monotonic() - begun, 2)
    if not check.problem and not check.answer:
        check.problem = "it answered the prompt without a word"


def _resident_mb(pids: set[int]) -> int | None:
    """Return the resident memory of these processes in MiB; None where there is no /proc."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            status = Path(f"/proc/{pid}/status").read_text()
            total += int(status.partition("VmRSS:")[2].split()[0])
    return total // 1024 or None


@contextlib.asynccontextmanager
async def _tool_gateway(socket: Path, agent: AcpAgent, tools_reached: asyncio.Event) -> AsyncIterator[None]:
    """Answer the MCP server's requests on this unix socket, in place of a gateway (`semel.tools.gateway_link`)."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError)
        with contextlib.suppress(*ended):
            while head := await reader.readuntil(b"\r\n\r\n"):
                if length := _LENGTH.search(head):
                    await reader.readexactly(int(length[1]))
                tools_reached.set()
                writer.write(_answer(head, agent))
                await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(serve, str(socket))
    try:
        yield
    finally:
        server.close()


def _answer(head: bytes, agent: AcpAgent) -> bytes:
    status, media_type, body = "200 OK", "application/json", _GREETING | {"workspace": str(agent.cwd)}
    if b"/v1/tools/hello" not in head.partition(b"\r\n")[0]:
        status, media_type, body = "409 Conflict", "application/problem+json", _REFUSAL
    content = json.dumps(body).encode()
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {len(content)}\r\n\r\n".encode() + content
    )


_GREETING: Json = {"session": "check", "home": True, "names": [], "instructions": ""}
_REFUSAL: dict[str, Any] = {
    "type": f"{PROBLEM_URN}conflict", "title": "Only a check", "status": 409,
    "detail": "This is only a check: nothing is sent.",
}  # fmt: skip
