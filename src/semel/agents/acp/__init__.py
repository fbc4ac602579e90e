"""Agents that speak the Agent Client Protocol (ACP) over stdio: start, drive and end their processes."""

from __future__ import annotations

import copy
import logging
import os
import re
import shlex
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from semel.acp_stream.profiles import profile_for
from semel.agents.acp.conversation import AcpConversation
from semel.agents.acp.environment import build_environment, find_missing_interpreter
from semel.agents.acp.open_session import SessionOptions, initialize, open_session
from semel.agents.acp.process import GuardedProcess
from semel.agents.acp.session import TOOL_SERVER_COMMAND, InitializeResult
from semel.agents.acp.wire import Trace
from semel.agents.known import explain_plain_program, recognise_command
from semel.gateway.ports import AgentError, Launch
from semel.gateway.process_identity import SOCKET_VARIABLE, kill_group_if_same, read_identity
from semel.gateway.settings.agents import McpTransport

__all__ = ["AcpAgent", "AcpConversation", "kill_group_if_same", "read_identity"]

log = logging.getLogger("semel.agents")

START_TIMEOUT_S = 120.0  # on a busy machine, OpenClaw, Kilo Code and Deep Agents Code took up to 65 s to answer


class AcpAgent:
    """A configured ACP agent (`semel.gateway.ports.Agent`).

    - `command`: its argv. The program is looked up on the PATH that the agent gets.
    - `cwd`: its workspace, an absolute path.
    - `env`: variables added to the ordinary ones (`semel.agents.acp.environment`).
    - `permissions`: "ask", "allow" or "deny" its permission requests. The gateway answers them; an agent that would
      decide by itself is put into a mode in which it asks.
    - `mode`, `model`: the mode and model with which each session starts; None leaves them to the agent.
    - `hidden`: names of variables that are never passed on from the gateway's environment.
    - `trace`: the directory for traces of the messages, in the format that `semel fold` reads; None writes none.
    - `timeout`: seconds for each of initialize, session/load, session/resume and session/new.
    - `mcp_transport`: how Semel's MCP server is offered: "stdio" or "http"; None: as the agent's profile says.
    - `tools`: the command of the MCP server that the agent gets; only tests change it.
    """

    process = True

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        cwd: Path,
        env: Mapping[str, str] | None = None,
        *,
        permissions: str = "ask",
        hidden: Collection[str] = (),
        trace: Path | None = None,
        timeout: float = START_TIMEOUT_S,
        tools: Sequence[str] = TOOL_SERVER_COMMAND,
        mode: str | None = None,
        model: str | None = None,
        mcp_transport: McpTransport | None = None,
    ) -> None:
        if not command:
            raise ValueError(f"agent {name!r} has an empty command")
        self.name = name
        self.command = tuple(command)
        self.cwd = cwd
        self.env = dict(env or {})
        self.permissions = permissions
        self._hidden = hidden
        self._trace = trace
        self._timeout = timeout
        self._tools = tuple(tools)
        self.mode = mode
        self.model = model
        self.mcp_transport = mcp_transport

    def __repr__(self) -> str:
        return f"<AcpAgent {self.name} {' '.join(self.command)}>"

    def copy_to(self, cwd: Path) -> AcpAgent:
        """Return the same agent with another workspace.

        A program that is named by a path relative to the old workspace stays the same.
        """
        other = copy.copy(self)
        other.cwd = cwd
        if "/" in self.command[0]:
            other.command = (str(self.cwd / self.command[0]), *self.command[1:])
        return other

    async def open(self, launch: Launch) -> AcpConversation:
        """Start the process, initialize it, then load, resume or create the session.

        Return the conversation. Raises AgentError.
        """
        if launch.folder is not None and launch.folder != self.cwd:
            return await self.copy_to(launch.folder).open(launch)
        env = {**self.environment(), SOCKET_VARIABLE: str(launch.socket)}
        conversation = await self._start(env, launch.on_start, self._open_trace(launch), launch.spawn)
        try:
            initialized = await initialize(conversation, self.command, self._timeout, env)
            await open_session(conversation, launch, initialized, self._session_options(env))
        except BaseException as error:
            await conversation.close(0.0)
            if isinstance(error, AgentError):
                profile = profile_for(conversation.agent_name)
                hinted = profile.add_hints(str(error), conversation.process.stderr.tail(20))
                raise AgentError(hinted, passing=error.passing, logged_out=error.logged_out) from error
            raise
        return conversation

    @asynccontextmanager
    async def initialized(
        self, show_url: Callable[[str, str], None] | None
    ) -> AsyncIterator[tuple[AcpConversation, InitializeResult]]:
        """Start the process and initialize it, without a session; end it when the `async with` block ends.

        `show_url`: shows the person what the agent says, and the URL that it wants opened; None without a person. The
        ledger does not record the process: it ends when this one does. Raises AgentError.
        """

        async def on_start(pid: int, pgid: int, born: str) -> None:
            pass

        env = self.environment()
        conversation = await self._start(env, on_start, None, 0)
        conversation.show_url = show_url
        try:
            yield conversation, await initialize(conversation, self.command, self._timeout, env)
        finally:
            await conversation.close(1.0)

    async def _start(
        self,
        env: Mapping[str, str],
        on_start: Callable[[int, int, str], Awaitable[None]],
        trace: Trace | None,
        spawn: int,
    ) -> AcpConversation:
        try:
            process = await GuardedProcess.start(
                self.command,
                cwd=self.cwd,
                env=env,
                on_start=on_start,
                log=lambda line: self._log_stderr(spawn, line, trace),
            )
        except BaseException as error:
            if trace:
                trace.close()
            if not isinstance(error, OSError):
                raise
            reason = error.strerror or error
            raise AgentError(f"agent {self.name!r} could not be started: {reason}") from error
        return AcpConversation(self.name, process, process.stdout, trace)

    def _session_options(self, env: Mapping[str, str]) -> SessionOptions:
        return SessionOptions(
            self.command, str(self.cwd), env, self._timeout, self._tools, self.mode, self.model, self.mcp_transport
        )

    def environment(self) -> dict[str, str]:
        """Check that workspace and command exist. Return the environment for the agent's process. Raises AgentError."""
        env = build_environment(self.command, self.env, hidden=self._hidden)
        if not self.cwd.is_dir():
            raise AgentError(f"the workspace of agent {self.name!r} is not a directory: {self.cwd}")
        if (reason := explain_plain_program(self.command)) is not None:
            raise AgentError(f"agent {self.name!r}: {reason} as `command` under [agents.{self.name}]")
        self.check_command(env["PATH"])
        return env

    def check_command(self, path: str | None = None) -> None:
        """Check that the agent's program can be executed. Raises AgentError.

        `path`: the PATH on which to look it up; None takes the PATH that the agent gets.
        """
        path = build_environment(self.command, self.env, hidden=self._hidden)["PATH"] if path is None else path
        program = self.command[0]
        place = str(self.cwd / program) if "/" in program else program
        if (found := shutil.which(place, path=path)) is not None:
            self._check_interpreter(found, path)
            return
        if shutil.which(place, os.F_OK, path) is not None:
            raise AgentError(f"{program!r} of agent {self.name!r} is not executable. Allow it: chmod +x {program}")
        installers = (known.install_command for known in recognise_command(self.command) if known.command[0] == program)
        installer = shlex.join(next(installers, ()))
        install = f"Install it with `{installer}`" if installer else "Install it"
        raise AgentError(
            f"command not found: {program!r} of agent {self.name!r}. "
            f"{install}, or correct `command` under [agents.{self.name}]"
        )

    def _check_interpreter(self, program: str, path: str) -> None:
        """Check that the agent's program, if it is a script such as npm's, finds its interpreter. Raises AgentError."""
        if (interpreter := find_missing_interpreter(program, path)) is None:
            return
        name = "Node.js (`node`)" if interpreter == "node" else f"`{interpreter}`"
        raise AgentError(
            f"{name} was not found on the gateway's PATH, and {program} of agent {self.name!r} needs it. Install it, "
            f"or start the gateway where `{interpreter} --version` works. A service has a PATH of its own: run "
            f"`semel service install` again in such a shell, or write a PATH with the folder of {interpreter} into its "
            f"`env` under [agents.{self.name}]. The PATH is {path}"
        )

    def _log_stderr(self, spawn: int, line: str, trace: Trace | None) -> None:
        if trace:
            trace.record_value("stderr", line)
        log.debug("agent %s (spawn %d): %s", self.name, spawn, line)

    def _open_trace(self, launch: Launch) -> Trace | None:
        if self._trace is None:
            return None
        session = re.sub(r"[^A-Za-z0-9.-]+", "-", launch.session)[:80]
        path = self._trace / f"{self.name}-{session}-{launch.spawn}.jsonl"
        try:
            trace = Trace(path, launch.token)
        except OSError as error:
            log.warning("no trace of agent %s can be kept in %s: %s", self.name, path, error)
            return None
        trace.record_value("note", {"spawn": list(self.command), "cwd": str(self.cwd)})
        return trace
