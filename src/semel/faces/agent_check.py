"""Try an agent without a gateway: start it, open a session, look for its login, its tools and its memory.

The agent gets Semel's MCP server as in a real session, which says hello and lists its tools. But each call is refused,
so that nothing is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from semel.acp_stream import Began, Fold, Op, profile_for
from semel.acp_stream.choices import read_choices
from semel.agents.acp import AcpAgent, AcpConversation
from semel.agents.codex_account import describe_codex_account, find_codex_notes
from semel.agents.model import ModelAgent
from semel.faces.busy_texts import SILENCE_S
from semel.faces.config.load import DEMO_COMMAND
from semel.faces.http import Settings, make_app
from semel.faces.http.operations import agent_tools
from semel.faces.http.server import serve, serve_unix
from semel.gateway.errors import Conflict
from semel.gateway.ports import AgentError, Answered, Asked, Died, Launch, Update
from semel.gateway.process_identity import find_tagged_processes, list_group_members
from semel.gateway.turns.live_agent import explain_no_tools
from semel.gateway.turns.turn_end import normalize_end
from semel.text.json_types import Json
from semel.tools.http_tools import MCP_PATH

TOOLS_TIMEOUT_S = 5.0
"""How long after its session is open an agent may take to start its MCP servers."""
CLOSE_GRACE_S = 1.0
QUICK_TIMEOUT_S = 45.0
"""How long a quick check lasts at most. The slowest known agent needs 10 to 58 s for its first session."""
ANSWER_TIMEOUT_S = 300.0
MAX_NOTICES = 3
"""The most notices of an agent about itself that a check shows; the last ones say why it did not answer."""
MAX_CHECKS_AT_ONCE = 4
"""How many agents are tried at the same time: each is a program or several, and slow ones keep nobody waiting."""
SAID = "it said: "
"""How a note begins that repeats what the agent said about itself."""
NO_WORD = "it answered the prompt without a word"


@dataclass
class AgentCheck:
    """What was found of an agent. `problem`: why it cannot be used, and what to do; "" if it can.

    `program`: the name that the agent gives itself. `tools`: whether it takes Semel's tools: a program reached Semel's
    MCP server, or a model answered a request that offered a tool; None if that was not tried. `servers`: how many tools
    each MCP server of a model agent lists; those that failed are in `problem`. `session_s`: seconds until its session
    was open. `memory_mb`, `processes`: memory and number of its processes, the MCP server's included.
    `answer`: its answer to the prompt, if one was sent. `answer_s`: seconds until the answer, or until the prompt
    failed; None if none was sent. `notes`: what works, but differs from what people expect.
    `key`: which API key a model's server gets, or why it gets none; or which account or key Codex keeps. `login`: which
    login the agent says that it uses; "" if it does not say.
    """

    name: str
    command: list[str]
    problem: str = ""
    program: str = ""
    profile: str = ""
    mode: str | None = None
    modes: list[str] = field(default_factory=list)
    model: str | None = None
    models: list[str] = field(default_factory=list)
    tools: bool | None = None
    servers: dict[str, int] = field(default_factory=dict)
    session_s: float | None = None
    memory_mb: int | None = None
    processes: int | None = None
    answer: str | None = None
    answer_s: float | None = None
    notes: list[str] = field(default_factory=list)
    key: str = ""
    login: str = ""

    def describe_servers(self) -> list[str]:
        """Return for each MCP server that answered how many tools it lists, such as "files: 3 tools"."""
        return [f"{name}: {tools} tool{'' if tools == 1 else 's'}" for name, tools in self.servers.items()]


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
    agent: AcpAgent | ModelAgent,
    prompt: str | None = None,
    answer_timeout: float = ANSWER_TIMEOUT_S,
    quick: bool = False,
    on_notice: Callable[[str], None] = lambda text: None,
    on_delay: Callable[[float, str | None], None] = lambda seconds, key_variable: None,
) -> AgentCheck:
    """Start the agent, open a session and end it again. With a `prompt`, wait for its answer, `answer_timeout` s.

    Of a model behind an API, only settings and MCP servers are checked without a `prompt`: it is sent no request.
    `quick`: do not wait for the tools, and do not measure the memory. `on_notice` is called with what the agent says
    about itself meanwhile, such as that it reconnects to its model; `on_delay` with the seconds since the prompt and
    the variable that holds the agent's key (None if none is set), after SILENCE_S and then each time when twice as long
    has passed.
    """
    if isinstance(agent, ModelAgent):
        return await _check_model(agent, prompt, answer_timeout)
    return await _check_program(agent, prompt, answer_timeout, quick, on_notice, on_delay)


async def _check_model(agent: ModelAgent, prompt: str | None, answer_timeout: float) -> AgentCheck:
    check = AgentCheck(agent.name, [], program="a model behind an API", model=agent.settings.model)
    try:
        await asyncio.to_thread(agent.check)
        check.key = f"it {agent.describe_key()}"
        await _try_servers(agent, check)
        if prompt is not None and not check.problem:
            begun = time.monotonic()
            try:
                async with asyncio.timeout(answer_timeout):
                    check.answer = (await agent.ask(prompt)).strip()
            finally:
                check.answer_s = round(time.monotonic() - begun, 2)
            check.tools = True
            check.problem = "" if check.answer else NO_WORD
    except AgentError as error:
        check.problem = str(error)
    except TimeoutError:
        check.problem = f"it did not answer within {answer_timeout:g} s"
    return check


async def _try_servers(agent: ModelAgent, check: AgentCheck) -> None:
    """Try the agent's MCP servers, in a temporary workspace if its own is missing."""
    with tempfile.TemporaryDirectory(prefix="semel-check-") as folder:
        trials = await agent.try_servers(agent.settings.cwd if agent.settings.cwd.exists() else Path(folder))
    check.servers = {trial.name: trial.tools for trial in trials if not trial.problem}
    check.problem = "; ".join(trial.problem for trial in trials if trial.problem)


async def _check_program(
    agent: AcpAgent,
    prompt: str | None,
    answer_timeout: float,
    quick: bool,
    on_notice: Callable[[str], None],
    on_delay: Callable[[float, str | None], None],
) -> AgentCheck:
    check = AgentCheck(agent.name, list(agent.command))
    gateway = _CheckGateway(agent)
    with tempfile.TemporaryDirectory(prefix="semel-check-") as folder:
        socket = Path(folder) / "socket"
        async with gateway.serve(socket) as tools_url:
            begun = time.monotonic()
            try:
                conversation = await agent.open(_make_launch(socket, tools_url))
            except AgentError as error:
                check.problem = str(error)
                return check
            try:
                check.session_s = round(time.monotonic() - begun, 2)
                _read_choices(conversation, agent, check)
                check.notes += find_codex_notes(agent)
                check.key = describe_codex_account(agent)
                if prompt is not None and not check.problem:
                    delay = asyncio.create_task(_report_delay(on_delay, conversation.login_advice.key_variable))
                    try:
                        await _ask(conversation, prompt, answer_timeout, check, on_notice)
                    finally:
                        delay.cancel()
                if agent.command == DEMO_COMMAND:
                    gateway.tools_reached.set()  # it starts Semel's MCP server when it first calls one of its tools
                if not quick:
                    await _look_at_processes(conversation, check, gateway.tools_reached)
                check.login = _describe_login(conversation)
            finally:
                await conversation.close(CLOSE_GRACE_S)
    return check


def _make_launch(socket: Path, tools_url: str) -> Launch:
    async def on_start(pid: int, pgid: int, born: str) -> None:
        """Do nothing: without a gateway, there is no ledger in which to record the process."""

    return Launch("check", 0, secrets.token_urlsafe(32), socket, None, on_start, tools_url)


def _read_choices(conversation: AcpConversation, agent: AcpAgent, check: AgentCheck) -> None:
    check.program, check.profile = conversation.agent_name, conversation.profile
    offers = {"modes": conversation.modes, "models": conversation.models}
    check.mode, modes = read_choices(offers, "mode")
    check.model, models = read_choices(offers, "model")
    check.modes, check.models = list(modes), list(models)
    if conversation.login_status.kind == "none" and conversation.login_advice.key_variable is None:
        check.problem = f"agent {agent.name!r} is not logged in: {conversation.login_advice.help}"
    if agent.permissions != "allow" and conversation.decides_alone:
        where = f"in the mode {check.mode} " if check.mode else ""
        check.notes.append(f"{where}it decides by itself what it may do, and asks nobody")


def _describe_login(conversation: AcpConversation) -> str:
    """Return which login the agent says that it uses, or the variable that is set although it says that it has none."""
    if conversation.login_status.kind != "none":
        return conversation.login_status.description
    variable = conversation.login_advice.key_variable
    return "" if variable is None else f"{variable} is set"


async def _look_at_processes(conversation: AcpConversation, check: AgentCheck, tools_reached: asyncio.Event) -> None:
    if not conversation.tools_problem:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(tools_reached.wait(), TOOLS_TIMEOUT_S)
    check.tools = tools_reached.is_set()
    pids = {*list_group_members(conversation.process.pgid), *find_tagged_processes(conversation.process.mark)}
    check.processes = len(pids)
    check.memory_mb = _resident_mb(pids)
    if not check.tools:
        reason = "it has not started Semel's MCP server, unless it does so later"
        check.notes.append(explain_no_tools(conversation, reason))


async def _ask(
    conversation: AcpConversation, prompt: str, timeout: float, check: AgentCheck, on_notice: Callable[[str], None]
) -> None:
    """Send the prompt, and store in `check` the answer, or why there is none, and the agent's last notices."""
    begun, fold = time.monotonic(), Fold(profile_for(conversation.profile))
    notices: dict[str, None] = {}  # in their order, each once
    fold.prompt(prompt)
    await conversation.prompt([{"type": "text", "text": prompt}])
    try:
        async with asyncio.timeout(timeout):
            while True:
                match await conversation.next():
                    case Update(data):
                        for notice in _read_notices(fold.update(data)):
                            if notice not in notices:
                                on_notice(notice)
                            notices[notice] = None
                    case Asked(id):
                        await conversation.answer(id, None)
                    case Answered() as end:
                        check.problem = normalize_end(end, fold.failure).error or ""
                        break
                    case Died(why):
                        check.problem = f"it {why}"
                        break
    except TimeoutError:
        check.problem = f"it did not answer within {timeout:g} s"
    fold.end("end_turn")
    messages = [item for item in fold.items() if item.kind == "message" and item.fields.get("role") == "agent"]
    texts = [message.text for message in messages if not message.fields.get("superseded")]
    check.answer, check.answer_s = "".join(texts).strip(), round(time.monotonic() - begun, 2)
    if not check.problem and not check.answer:
        check.problem = "; its last report: ".join([NO_WORD, *list(notices)[-1:]])
    check.notes += [SAID + text for text in list(notices)[-MAX_NOTICES:] if text not in check.problem]


async def _report_delay(on_delay: Callable[[float, str | None], None], key_variable: str | None) -> None:
    """Report that the answer is not complete, after SILENCE_S and then each time when twice as long has passed."""
    waited, seconds = 0.0, SILENCE_S
    while True:
        await asyncio.sleep(seconds - waited)
        on_delay(seconds, key_variable)
        waited, seconds = seconds, 2 * seconds


def _read_notices(ops: Iterable[Op]) -> list[str]:
    """Return the notices that these operations begin, each on one line."""
    notices = [str(op.fields["text"]) for op in ops if isinstance(op, Began) and op.kind == "notice"]
    return [" ".join(text.split()) for text in notices if text]


def _resident_mb(pids: set[int]) -> int | None:
    """Return the resident memory of these processes in MiB; None where there is no /proc."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            status = Path(f"/proc/{pid}/status").read_text()
            total += int(status.partition("VmRSS:")[2].split()[0])
    return total // 1024 or None


class _CheckGateway:
    """Answers the agent's tool requests in place of a gateway: it says hello, and refuses each call."""

    def __init__(self, agent: AcpAgent) -> None:
        self.tools_reached = asyncio.Event()
        self._greeting: Json = {"session": "check", "home": True, "names": [], "workspace": str(agent.cwd)}

    async def tools(self, method: str, params: Json) -> Json:
        self.tools_reached.set()
        if method != "hello":
            raise Conflict("this is only a check: nothing is sent")
        return self._greeting

    @contextlib.asynccontextmanager
    async def serve(self, path: Path) -> AsyncIterator[str]:
        """Serve the tools at this unix socket and on a port. Yields the URL of the MCP server over HTTP."""
        app = make_app(cast(Any, self), Settings(), agent_tools.router.operations)
        local = await serve_unix(app, path)
        server = await serve(app, "127.0.0.1", 0)
        try:
            yield server.url + MCP_PATH
        finally:
            await asyncio.gather(local.stop(0.0), server.stop(0.0))
