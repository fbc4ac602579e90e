"""Semel as an editor's agent, through the gateway: answer the editor's ACP requests with operations of the API.

The ACP session id is the session's key. Sessions belong to the gateway, and go on when the editor ends. They are
listed, loaded and resumed from the ledger, which starts no agent. `initialize` is answered at once, without an agent.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import secrets
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import semel
from semel.faces.acp.connection.editor_pipe import EditorPipe
from semel.faces.acp.connection.gateway_link import GatewayLink
from semel.faces.acp.connection.opening import (
    Opening,
    check_session,
    find_or_make_agent,
    find_session,
    make_key,
    read_session,
)
from semel.faces.acp.connection.read_message import read_message
from semel.faces.acp.connection.read_params import (
    read_blocks,
    read_folder,
    read_servers,
    read_session_id,
    read_text,
)
from semel.faces.acp.connection.request_errors import INVALID_PARAMS, METHOD_NOT_FOUND, RequestFailed, describe_error
from semel.faces.acp.editor_profiles import UNMEASURED, read_editor_profile
from semel.faces.acp.session.deliveries import ANSWER, CANCEL
from semel.text.json_types import Json, object_at, text_at
from semel.tools.address import NoGateway

if TYPE_CHECKING:
    from semel.faces.acp.session.open_prompt import OpenPrompt
    from semel.faces.acp.session.open_session import OpenSession
    from semel.faces.client import AsyncClient

PROTOCOL_VERSION = 1
LIST_PAGE_SESSIONS = 50
RECORD_TIMEOUT_S = 20.0  # after the editor has closed its end, for prompts that no gateway has recorded
RECORD_TIMEOUT_WITHOUT_START_S = 3.0  # the same, if no gateway is started for them
SIGNAL_TIMEOUT_S = 1.0  # after a signal, for these prompts; no gateway is started
DELIVERY_TIMEOUT_S = 2.0  # after the editor has closed its end, for cancels and answers to permission requests
REMEDIES = {
    CANCEL: "The turn may run on: /stop on the page or in a chat ends it.",
    ANSWER: "The request may still be open: answer it on the page or in a chat.",
}


class EditorServer:
    """Serves one editor."""

    def __init__(self, pipe: EditorPipe, link: GatewayLink, opening: Opening) -> None:
        self.profile = UNMEASURED
        self.key_prefix = f"acp-{secrets.token_hex(8)}"
        self.name = "editor"
        self._pipe = pipe
        self._link = link
        self._opening = opening
        self._agent, self._session, self._command = opening
        self._sessions: dict[str, OpenSession] = {}
        self._open_locks: dict[str, asyncio.Lock] = collections.defaultdict(asyncio.Lock)  # by session, one at a time
        self._answer_handlers: dict[str, Callable[[Json], None]] = {}  # called with the answers, by our request's id
        self._open_prompts: dict[str, tuple[OpenPrompt, str]] = {}  # with its session, by its request's id as JSON
        self._arriving_prompts: dict[OpenPrompt, str] = {}  # not yet given to their session -> its key
        self._unrecorded: dict[str, str] = {}  # the session of each prompt that no gateway is known to have, by its id
        self._refused_after_close: list[tuple[str, str]] = []  # the prompts that were refused then: session, reason
        self._failed_start: str | None = None  # why no gateway could be started for those that are not recorded
        self._all_recorded = asyncio.Event()
        self._is_closing = False
        self._numbers = 0
        self._tasks: set[asyncio.Task[None]] = set()
        pipe.on_room = self._show_all
        self._methods: dict[str, Callable[[Json], Awaitable[Json]]] = {
            "authenticate": self._authenticate,
            "session/new": self._new_session,
            "session/load": partial(self._reopen_session, replays=True),
            "session/resume": partial(self._reopen_session, replays=False),
            "session/list": self._list_sessions,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
        }

    def __repr__(self) -> str:
        return f"<EditorServer of {self.profile.name}: {len(self._sessions)} sessions>"

    async def serve(self) -> None:
        """Serve the editor until it closes its end of the pipes, and what it said has arrived or is given up."""
        reading = asyncio.ensure_future(self._handle_lines())
        try:
            await asyncio.shield(reading)
            await self._finish_recording()
        except asyncio.CancelledError:  # by a signal, whose sender may kill us soon
            self._is_closing, self._link.may_start = True, False
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._pipe.wait_until_quiet(), SIGNAL_TIMEOUT_S)
            await self._wait_until_recorded(SIGNAL_TIMEOUT_S)
            raise
        finally:
            await self._await_delivery()
            reading.cancel()
        for task in list(self._tasks):
            task.cancel()
        for open_session in self._sessions.values():
            open_session.close()
        self._pipe.close()

    async def _handle_lines(self) -> None:
        async for line in self._pipe.lines():
            self._handle_line(line)

    async def _finish_recording(self) -> None:
        """Give the prompts that no gateway has recorded a limited time to be sent. A gateway is started for them."""
        self._link.skip_restart_delay()
        if self._unrecorded:
            self._spawn(self._start_gateway())
        await self._wait_until_recorded(RECORD_TIMEOUT_S if self._link.may_start else RECORD_TIMEOUT_WITHOUT_START_S)

    async def _start_gateway(self) -> None:
        try:
            await self._link.start_if_away()
        except NoGateway as error:
            self._failed_start = str(error)
            self._all_recorded.set()  # nothing more is to be expected

    async def _wait_until_recorded(self, timeout_s: float) -> None:
        """Wait until every prompt is recorded or refused, at most `timeout_s`. The editor is about to end."""
        self._is_closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._unrecorded and self._failed_start is None:
                    self._all_recorded.clear()
                    await self._all_recorded.wait()

    async def _await_delivery(self) -> None:
        """Give cancels and answers that are on their way a limited time to reach the gateway."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DELIVERY_TIMEOUT_S):
                for open_session in list(self._sessions.values()):
                    await open_session.await_delivery()

    @property
    def undelivered(self) -> list[tuple[str, str]]:
        """What the editor said that the gateway may not have, except prompts: each with its session."""
        return [
            (key, delivery) for key, open_session in self._sessions.items() for delivery in open_session.undelivered
        ]

    def describe_losses(self, *, has_unread_lines: bool) -> list[str]:
        """Return a sentence for each thing that the editor said and that the gateway may not have.

        `has_unread_lines`: whether the editor wrote something that was never read.
        """
        unconfirmed = self._failed_start or "no gateway confirmed it"
        prompts = [*self._refused_after_close, *((session, unconfirmed) for session in self._unrecorded.values())]
        losses = [
            f"a message to session {key} was not recorded, as far as is known: {reason.rstrip('.')}. "
            f"Send it again if `semel show {key}` lacks it."
            for key, reason in prompts
        ]
        if has_unread_lines:
            losses.append("what the editor wrote last was not read. Send it again if the session lacks it.")
        return losses + [
            f"{delivery} in session {key} has not reached the gateway, as far as is known. {REMEDIES[delivery]}"
            for key, delivery in self.undelivered
        ]

    # ---- lines

    def _handle_line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = read_message(line)
        except RequestFailed as error:
            self._send_error(None, error)
            return
        try:
            self._handle_message(message)
        except Exception as error:  # a bug of ours: the sessions of this editor go on
            if "method" in message and "id" in message:
                self._send_error(message["id"], error)

    def _handle_message(self, message: Json) -> None:
        method, params = message.get("method"), object_at(message, "params")
        if method is None:
            done = self._answer_handlers.pop(str(message.get("id")), None)
            if done is not None:
                done(message)
        elif method == "initialize":
            self._send(id=message.get("id"), result=self._initialize(params))
        elif method == "session/cancel":
            self._cancel_turn(str(params.get("sessionId")))
        elif method == "$/cancel_request":
            self._cancel_prompt(json.dumps(params.get("requestId")))
        elif "id" in message:
            if method == "session/prompt":
                self._spawn(self._handle_prompt(self._note_prompt(message["id"], params), params))
            else:
                self._spawn(self._answer_request(message["id"], str(method), params))

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _send(self, **message: Any) -> None:
        self._pipe.write([json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"])

    async def _answer_request(self, id: Any, method: str, params: Json) -> None:
        """Answer a request that is no prompt."""
        try:
            if method not in self._methods:
                raise RequestFailed(METHOD_NOT_FOUND, f"Method not found: {method}")
            result = await self._methods[method](params)
            self._send(id=id, result=result)
            if method == "session/new":
                self._sessions[result["sessionId"]].begin_showing()
        except Exception as error:  # also a bug of ours: an editor that waits for ever would be worse
            self._send_error(id, error)

    def _send_error(self, id: Any, error: Exception) -> None:
        self._send(id=id, error=describe_error(error))

    # ---- what sessions use (`editor_port.Editor`)

    @property
    def written_bytes(self) -> int:
        """How many bytes were written to the editor, read or not."""
        return self._pipe.written_bytes

    @property
    def bytes_read_by_editor(self) -> int:
        """How many of them the editor has read at least."""
        return self._pipe.bytes_read_by_editor

    def check_full(self) -> bool:
        """Return whether so much waits for the editor that no more should be written now (`EditorPipe.check_full`)."""
        return self._pipe.check_full()

    def write(self, lines: Sequence[bytes]) -> None:
        """Write lines to the editor."""
        self._pipe.write(lines)

    def ask(self, method: str, params: Json, done: Callable[[Json], None]) -> str:
        """Send a request to the editor, and return its id. `done`: called with the answer, which may never come."""
        self._numbers += 1
        id = f"{self.key_prefix}-{self._numbers}"
        self._answer_handlers[id] = done
        self._send(id=id, method=method, params=params)
        return id

    def cancel_request(self, request: str) -> None:
        """Tell the editor that a request needs no answer any more. One that comes all the same is taken (`forget`)."""
        self._send(method="$/cancel_request", params={"requestId": request})

    def forget(self, request: str) -> None:
        """Ignore the answer to a request."""
        self._answer_handlers.pop(request, None)

    def _show_all(self) -> None:
        for open_session in self._sessions.values():
            open_session.show()

    # ---- requests

    def _initialize(self, params: Json) -> Json:
        self.profile = read_editor_profile(params)
        self.name = text_at(params, "clientInfo", "title") or text_at(params, "clientInfo", "name") or "editor"
        capabilities = {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},  # which an agent lacks is told when it has started
            "sessionCapabilities": {"list": {}, "resume": {}},
        }
        agent = self._agent or (Path(self._command[0]).name if self._command else "")
        title = f"Semel: {agent}" if agent else "Semel"
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": {"name": "semel", "title": title, "version": semel.__version__},
            "agentCapabilities": capabilities,
            "authMethods": [],
        }

    async def _authenticate(self, params: Json) -> Json:
        raise RequestFailed(INVALID_PARAMS, "Semel needs no login; `semel agents login NAME` logs an agent in")

    async def _new_session(self, params: Json) -> Json:
        folder, agent = read_folder(params), self._agent
        if self._session is not None:
            await self._link.ask(partial(check_session, opening=self._opening))
        if agent is None and self._command:
            agent = await self._link.ask(partial(find_or_make_agent, command=self._command, folder=folder))
        key = self._session or make_key(agent, folder)
        servers = read_servers(params)
        about = {"agent": agent, "folder": folder}
        try:
            row = await self._link.ask(partial(self._start_agent, key=key, about=about, servers=servers))
        except Exception:
            if self._session is None:
                await self._delete_unused_session(key)
            raise
        from semel.faces.acp.session.session_offers import describe_left_out_servers

        async with self._open_locks[key]:
            open_session = await self._watch_session(key, row, replays=False, skips=self._session is None)
            if (words := describe_left_out_servers(row)) is not None:
                open_session.remark("left-out-servers", words)
        return {"sessionId": key, **open_session.offers.describe(row)}

    async def _start_agent(self, client: AsyncClient, key: str, about: Json, servers: list[Json]) -> Json:
        """Start the agent of a session, which is made first if it is new, and return the session.

        `about`: agent and folder of a new session. `servers`: the editor's MCP servers, for the agent.
        """
        from semel.faces.client import session_path
        from semel.faces.client.connection import AGENT_START_TIMEOUT_S

        path = session_path(key)
        if self._session is None or await find_session(client, key) is None:
            await client.put(path, about)
        if servers:
            await client.put(f"{path}/mcp-servers", {"servers": servers})
        body = {"await_commands": False}  # they are written when they come
        return await client.post(f"{path}/agent", body, timeout_s=AGENT_START_TIMEOUT_S)

    async def _delete_unused_session(self, key: str) -> None:
        """Delete a new session whose agent did not start: the editor never learns its id, and lists would show it."""
        from semel.faces.client import OutcomeUnknown, RequestRefused, session_path

        with contextlib.suppress(RequestRefused, OutcomeUnknown, NoGateway):
            await self._link.ask_running(lambda client: client.delete(session_path(key)))

    async def _watch_session(self, key: str, row: Json, *, replays: bool, skips: bool = True) -> OpenSession:
        from semel.faces.acp.session.open_session import OpenSession

        if (previous := self._sessions.pop(key, None)) is not None:
            previous.close()
        open_session = self._sessions[key] = OpenSession(key, self, self._link, row, previous)
        await open_session.watch(replays=replays, skips=skips)
        return open_session

    async def _reopen_session(self, params: Json, *, replays: bool) -> Json:
        """Open a session again, for `session/load` or `session/resume`."""
        key, folder = read_session_id(params), read_folder(params)
        row = await self._link.ask(partial(read_session, key=key))
        if row.get("folder") is not None and os.path.normpath(folder) != row["folder"]:
            raise RequestFailed(INVALID_PARAMS, f"cwd must be the folder of session {key}, which is {row['folder']}")
        if servers := read_servers(params):
            await self._put_setting(key, "mcp-servers", {"servers": servers})  # from the agent's next start on
        async with self._open_locks[key]:
            open_session = await self._watch_session(key, row, replays=replays)
            result = open_session.offers.describe(open_session.view.session)
            open_session.begin_showing()
        return result

    async def _list_sessions(self, params: Json) -> Json:
        from semel.faces.client import RequestRefused

        folder = None if params.get("cwd") is None else read_folder(params)
        cursor = None if params.get("cursor") is None else read_text(params, "cursor")

        async def read_page(client: AsyncClient) -> Json:
            return await client.get("/v1/sessions", limit=LIST_PAGE_SESSIONS, folder=folder, after=cursor)

        try:
            page = await self._link.ask(read_page)
        except RequestRefused as error:
            if error.code != "no-such-session":
                raise
            raise RequestFailed(INVALID_PARAMS, "cursor: no page had this nextCursor; begin without one") from None
        cursor_field = {"nextCursor": page["next"]} if page.get("more") else {}
        return {"sessions": [_describe_session(row) for row in page["sessions"]], **cursor_field}

    async def _set_mode(self, params: Json) -> Json:
        await self._put_setting(read_session_id(params), "mode", {"mode": read_text(params, "modeId")})
        return {}

    async def _set_option(self, params: Json) -> Json:
        from semel.faces.acp.session.session_offers import read_options, stands_for_modes

        key, option, value = read_session_id(params), read_text(params, "configId"), params.get("value")
        if not isinstance(value, str | bool):
            raise RequestFailed(INVALID_PARAMS, "value must be a string, or true or false for a switch")
        row = await self._link.ask(partial(read_session, key=key))
        current = {known.get("id"): known.get("currentValue") for known in read_options(row)}
        if current.get(option) != value or option not in current:
            if stands_for_modes(row, option):
                await self._put_setting(key, "mode", {"mode": value})
            else:
                await self._put_setting(key, "option", {"option": option, "value": value})
            row = await self._link.ask(partial(read_session, key=key))
        return {"configOptions": read_options(row)}

    async def _put_setting(self, key: str, setting: str, body: Json) -> None:
        from semel.faces.client import session_path

        async def choose(client: AsyncClient) -> Json:
            return await client.put(f"{session_path(key)}/{setting}", body)

        await self._link.ask(choose)

    # ---- prompts

    def _note_prompt(self, id: Any, params: Json) -> OpenPrompt:
        """Note a prompt at once: the next line may cancel it."""
        from semel.faces.acp.session.open_prompt import OpenPrompt

        def answer(result: Json | None, error: Json | None) -> None:
            self._arriving_prompts.pop(prompt, None)
            self._forget_prompt(id, error)
            self._send(id=id, **({"result": result} if error is None else {"error": error}))

        self._numbers += 1
        name, session = json.dumps(id), str(params.get("sessionId"))
        seen = self._sessions[session].shown_rev if session in self._sessions else None
        prompt = OpenPrompt(f"{self.key_prefix}-{self._numbers}", answer, partial(self._note_recorded, id), seen)
        self._open_prompts[name] = prompt, session
        self._unrecorded[name] = self._arriving_prompts[prompt] = session
        return prompt

    def _forget_prompt(self, id: Any, error: Json | None) -> None:
        """Note that a prompt is answered. An editor that has closed its end may not read that it was refused."""
        self._open_prompts.pop(json.dumps(id), None)
        if (session := self._unrecorded.get(json.dumps(id))) is not None:
            if self._is_closing and error is not None:
                self._refused_after_close.append((session, error["message"]))
            self._note_recorded(id)

    def _note_recorded(self, id: Any) -> None:
        self._unrecorded.pop(json.dumps(id), None)
        if not self._unrecorded:
            self._all_recorded.set()

    async def _handle_prompt(self, prompt: OpenPrompt, params: Json) -> None:
        """Give a prompt to its session, which sends it, unless it is cancelled before.

        An editor may continue a session that it never opened on this connection.
        """
        try:
            key, blocks = read_session_id(params), read_blocks(params)
            async with self._open_locks[key]:
                if key not in self._sessions or self._sessions[key].has_ended:
                    row = await self._link.ask(partial(read_session, key=key))
                    (await self._watch_session(key, row, replays=False)).begin_showing()
            open_session = self._sessions[key]
            await open_session.has_view.wait()
            if self._arriving_prompts.pop(prompt, None) is not None:
                open_session.add_prompt(prompt, blocks)
        except Exception as error:  # also a bug of ours: an editor that waits for ever would be worse
            prompt.answer(None, describe_error(error))

    def _cancel_turn(self, key: str) -> None:
        """Cancel all prompts of a session; if there is none, the turn that the editor's person sees."""
        open_session = self._sessions.get(key)
        arriving = [prompt for prompt, session in self._arriving_prompts.items() if session == key]
        if open_session is not None:
            open_session.cancel(has_arriving_prompt=bool(arriving))
        for prompt in arriving:
            self._discard_prompt(prompt, open_session)

    def _cancel_prompt(self, id: str) -> None:
        """Cancel the prompt with this request id, and no other. `id`: as JSON. Another request is answered as usual."""
        prompt, key = self._open_prompts.get(id, (None, ""))
        open_session = self._sessions.get(key)
        if prompt in self._arriving_prompts:
            self._discard_prompt(prompt, open_session)
        elif prompt is not None and open_session is not None:
            open_session.cancel_prompt(prompt)

    def _discard_prompt(self, prompt: OpenPrompt, open_session: OpenSession | None) -> None:
        if open_session is not None:
            open_session.discard_prompt(prompt)
        else:
            prompt.answer({"stopReason": "cancelled"}, None)


def _describe_session(row: Json) -> Json:
    """Return a session as ACP's SessionInfo."""
    updated = datetime.fromtimestamp(row["at"] / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    title = {"title": row["title"]} if row.get("title") else {}
    folder = row.get("workspace") or row.get("folder") or str(Path.home())
    return {"sessionId": row["key"], "cwd": folder, **title, "updatedAt": updated}
