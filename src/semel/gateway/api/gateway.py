"""`Gateway` starts and stops the components, and is the API that the CLI and the HTTP server call.

The order of `start` matters. First it settles a ledger that was restored from a backup (Law 14), then it kills the
agents of a dead gateway (Law 10), and only then it connects channels and runs turns. `stop` first ends input, then
running turns, agents and the outbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import logging
import re
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

import structlog

from semel.gateway.api.archive import ArchiveApi
from semel.gateway.api.list_stream import ListApi
from semel.gateway.api.reads import ReadApi
from semel.gateway.api.replies import ReplyApi
from semel.gateway.errors import PROBLEM_URN, BadRequest, NoSuchSession, NotFound
from semel.gateway.file_store import HeldFiles
from semel.gateway.files import clear_drafts
from semel.gateway.inbound.prompt_content import check_content, hold_files
from semel.gateway.inbound.uploads import StoredUpload, check_attached, measure_images
from semel.gateway.ports import Heard
from semel.gateway.seats import Seats
from semel.law.identity import CUSTOMARY_NAME
from semel.law.wake import Busy as Mode
from semel.ledger.backup import settle_restored
from semel.ledger.storage.errors import LedgerError
from semel.ledger.turns import limits, sessions
from semel.ledger.turns import spawns as spawn_rows
from semel.text.json_types import Json
from semel.timing.walltime import format_utc

log = structlog.get_logger("semel.gateway")

CHANNEL_TASK_PREFIX = "channel "  # how the names of the channels' tasks begin
DUTIES_RETRY_S = 1.0  # delay after a ledger error while the duties are taken
HAND_OVER_GRACE_S = 2.0  # how long a gateway that stops waits for messages under way, before another one has the duties
MIN_SENDING_GRACE_S = 5.0  # how long parts are sent, and waited for, after the turns; less if `grace` is shorter
STOP_TIMEOUT_S = 10.0  # how long `stop` waits for cancelled background tasks, such as a channel's `run`


class Gateway(ReadApi, ReplyApi, ListApi, ArchiveApi):
    """A gateway.

    Create it with `Gateway(settings, store, agents, channels)`, call `start`, use its API, then call `stop`.
    """

    # ------------------------------------------------------------ start and stop

    async def start(self) -> None:
        """Recover what an earlier gateway left unfinished, then start sending, receiving and running turns.

        A gateway of a cluster that does not have the duties only runs turns.
        """
        if self.has_duties:
            await self._settle_copy()
        await self._note_restore()
        await asyncio.to_thread(clear_drafts, self.file_store.content.folder)
        await self._end_orphaned_agents()
        await (self.people.start() if self.has_duties else self.people.load())
        if self.has_duties:
            await self._prepare_duties()
        await self.commands.start()
        unfinished = await self.record.read(sessions.list_sessions_to_resume)
        if self.has_duties:
            self._start_channels()
        self._start_task("files", self.file_store.take_in_files())
        for session in unfinished:
            self.turns.wake(session)
        if self.has_duties:
            self._start_timers()
        self._start_task("jobs", self.jobs.run())
        self._start_task("search", self.searches.run())
        if self.seats is not None:
            self._start_task("seats", self.seats.run(self.record, self, self.name))
        log.log(logging.INFO if unfinished else logging.DEBUG, "gateway started", unfinished=len(unfinished))

    async def _prepare_duties(self) -> None:
        await self.channel_manager.release_unheard_files(is_alone=self.seats is None)
        await self.record.write(limits.ask_again, self.settings.limits.policy)
        await self.schedules.configure(self.settings.schedules)

    def _start_channels(self) -> None:
        self._start_task("outbox", self.outbox.run())
        for name, supervisor in self.channel_manager.make_supervisors().items():
            self._start_task(f"{CHANNEL_TASK_PREFIX}{name}", supervisor.run())

    def _start_timers(self) -> None:
        self._start_task("schedules", self.schedules.run())
        self._start_task("erasures", self.erasures.run())
        self._start_task("retention", self.retention.run())
        self._start_task("uploads", self.uploads.run())
        self._start_task("books", self.book_checks.run())

    def take_duties(self) -> None:
        """Begin with what only the active gateway does, because the one before is gone."""
        if self.seats is not None and not self.seats.has_duties and not self.stopping:
            self.seats.has_duties = True
            self.book_checks.after_crash = not self.store.was_closed
            self._start_task("duties", self._take_duties(self.seats))

    async def _take_duties(self, seats: Seats) -> None:
        while True:
            try:
                await self.people.start()
                await self._prepare_duties()
                break
            except LedgerError as error:
                log.warning("the duties are taken later", why=str(error))
                await asyncio.sleep(DUTIES_RETRY_S)
        self._start_channels()
        self._start_timers()
        log.warning("this gateway is the active one now")
        seats.look_soon()

    def look_at(self, session: int) -> None:
        """Do what another gateway may have recorded for a session: a command, an event, or a stop."""
        self.commands.wake(session)
        self.turns.look_at(session)

    def is_attended(self, session: int) -> bool:
        """Return whether the session is being served, or a timer will wake it."""
        return self.turns.is_attended(session)

    def look_at_duties(self) -> None:
        """Look at what this gateway sends and fires: another one may have recorded something for it."""
        self.outbox.kick()
        self.schedules.wake_timer()
        self.erasures.look_at_ledger()

    def _start_task(self, name: str, run: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = asyncio.create_task(run, name=name)
        self._tasks[name].add_done_callback(_log_failure)

    async def _settle_copy(self) -> None:
        """Settle a ledger that was restored from a backup: whatever may have happened since is doubtful (Law 14)."""
        if await self.record.read(settle_restored.is_unsettled_copy):
            settled = await self.record.write(settle_restored.settle_copy)
            if settled is not None:
                log.warning(
                    "the ledger was restored from a copy: nothing is repeated that may have happened since",
                    copied=format_utc(settled.copied), parts=settled.parts, unanswered=settled.unanswered,
                )  # fmt: skip

    async def _note_restore(self) -> None:
        """Take note of when the ledger was restored last: what happened before may have been done already."""
        restored_at = await self.record.read(settle_restored.last_settled_at)
        self.schedules.doubtful_until = self.jobs.doubtful_until = restored_at
        self.channel_manager.doubt_events(restored_at)

    async def _end_orphaned_agents(self) -> None:
        """Kill the agent processes of a dead gateway, if they are still the same, before new ones start (Law 10)."""
        for orphan in await self.record.read(spawn_rows.list_orphaned, self.cluster_name):
            killed = await asyncio.to_thread(self.reap, orphan) if self.reap is not None else False
            reason = "killed: its gateway was gone" if killed else "it had ended with its gateway"
            await self.record.write(spawn_rows.record_end, orphan.id, reason)

    async def stop(self, grace: float | None = None) -> None:
        """Start nothing new, wait up to `grace` seconds for running turns, then end everything.

        The channels go on until the turns have ended: a person can still answer what an agent asks, and what they write
        is recorded for the next gateway, which also resumes the turns that did not finish. Then what is due is sent,
        for up to MIN_SENDING_GRACE_S. The parts that are then under way have the rest of the grace, or as long again.
        `grace`: None takes the setting `grace_s`.
        """
        await self.jobs.stop()
        if "jobs" in self._tasks:
            await asyncio.wait({self._tasks.pop("jobs")})
        self.stopping = True
        grace = self.settings.grace_s if grace is None else grace
        ends_at = asyncio.get_running_loop().time() + grace
        sending = self._tasks.pop("outbox", None)
        await self._end_tasks({name for name in self._tasks if not name.startswith(CHANNEL_TASK_PREFIX)})
        for deletion in self._deletions:
            deletion.cancel()
        if self.seats is not None and sending is not None:
            await self._hand_over_duties(self.seats, sending)
            sending = None
        await self.turns.stop(grace)
        await self.commands.stop()
        await self.typing.stop()
        await self.spawns.stop(2.0)
        sending_grace = min(grace, MIN_SENDING_GRACE_S)
        if sending is not None:
            await self.outbox.send_due(sending_grace)  # what the turns said last, too
        await self.outbox.stop(max(sending_grace, ends_at - asyncio.get_running_loop().time()))
        if sending is not None:
            await sending
        await self._end_tasks(set(self._tasks))
        await self.searches.close()
        if self.seats is not None:
            await asyncio.to_thread(self.seats.hints.close)

    async def _end_tasks(self, names: set[str]) -> None:
        """Cancel these background tasks, and wait for their end."""
        tasks = [self._tasks.pop(name) for name in names]
        for task in tasks:
            task.cancel()
        if tasks:
            _, unfinished = await asyncio.wait(tasks, timeout=STOP_TIMEOUT_S)
            for task in unfinished:  # a channel that swallows its cancellation must not block the stop
                log.error("it was told to end and did not; it is left behind", task=task.get_name())

    async def _hand_over_duties(self, seats: Seats, sending: asyncio.Task[None]) -> None:
        """Let another gateway send, receive and fire, while running turns end here. It sends what they still say."""
        await self.outbox.stop(HAND_OVER_GRACE_S)
        await sending
        await self._end_tasks(set(self._tasks))
        seats.has_duties = False
        await asyncio.to_thread(self.hand_over)

    # ------------------------------------------------------------ accepting messages

    async def upload(self, name: str, content: AsyncIterable[bytes]) -> StoredUpload:
        """Store a file for a message (`Uploads.take_in`)."""
        self._check_running()
        return await self.uploads.take_in(name, content)

    async def say(
        self,
        session: str,
        text: str = "",
        *,
        blocks: Sequence[Json] | None = None,
        attached: Sequence[Json] = (),
        sender: str | None = None,
        key: str | None = None,
        source: str | None = None,
        busy: Mode | None = None,
        automatic: bool = False,
        seen: int | None = None,
        wakes: bool | None = None,
    ) -> Heard:
        """Accept a person's message. Return after the commit. A missing session is created.

        `session`: the session's key. `text`, or else `blocks`: the message, as text or as ACP content blocks, which the
        agent gets as they are. `attached`: uploaded files that come with the text, each {"id", "name"?}; the text may
        be blank then. `key`: the idempotency key. `source`: None names the API callers of this session.
        `busy`: the busy mode for this message; None takes that of the session. `automatic`: a program wrote the
        message. `seen`: the rev of the view that the person saw; a command never answers a request that is newer (Law
        13). `wakes`: False lets the message wait for the next turn without starting one. Raises BadRequest, NotFound,
        GatewayUnavailable.
        """
        self._check_running()
        if blocks is None and not attached and not text.strip():
            raise BadRequest("text: a message needs a text that is not blank")
        if blocks is not None and attached:
            raise BadRequest("files: a message in `blocks` has its files there; send `text` with `files`")
        note = await self.explain_default_agent(session)
        hear = partial(
            self.inbox.hear, source=source or f"api:{session}", session=session, key=key, sender=sender, busy=busy,
            automatic=automatic, seen=seen, wakes=wakes,
        )  # fmt: skip
        if blocks is None:
            stable = ("text", "sender", "files") if attached else ("text", "sender")
            named = await measure_images(self.file_store, check_attached(attached))
            heard = await hear(text=text, stable=stable, attached=named)
        else:
            heard = await self._hear_blocks(hear, text, blocks, automatic)
        return replace(heard, note=note) if note is not None and heard.status == "accepted" else heard

    async def _hear_blocks(
        self, hear: Callable[..., Awaitable[Heard]], text: str, blocks: Sequence[Json], automatic: bool
    ) -> Heard:
        """Accept a message in content blocks: first its files are stored, then it is recorded together with them."""
        if text:
            raise BadRequest("blocks: a message has either `text` or `blocks`")
        if automatic:
            raise BadRequest("blocks: what a program sends is data for the agent; send it as `text`")
        content = await check_content(blocks)
        held = HeldFiles(self.record, self.file_store)
        try:
            await hold_files(held, content)
            return await hear(text=content.text, content=content, stable=("blocks", "sender"))
        finally:
            await held.release()

    async def explain_default_agent(self, session: str) -> str | None:
        """Return a note that the default agent will answer, if a new session's key begins with an unknown agent's name.

        Return None if no note is needed.
        """
        name, colon, _ = session.partition(":")
        agents = self.settings.agents
        if not colon or name in agents or name == CUSTOMARY_NAME:
            return None
        with contextlib.suppress(NoSuchSession):
            await self.record.find_session(session)
            return None
        nearest = difflib.get_close_matches(name, agents, n=1, cutoff=0.6)
        hint = f"; did you mean {nearest[0]}?" if nearest else "."
        note = f"No agent is named {name!r}{hint} The default agent, {self.settings.default_agent}, answers here."
        return note if nearest else f"{note} If semel.toml names it by now, restart the gateway."

    async def describe_new_session(self, session: str, *, for_owner: bool) -> str | None:
        """Return a note that an event is about to create this session; None if the session exists.

        `for_owner`: whether the note may name agents; a node does not learn which ones there are.
        """
        with contextlib.suppress(NoSuchSession):
            await self.record.find_session(session)
            return None
        note = await self.explain_default_agent(session) if for_owner else None
        return f"The session {session} is new.{f' {note}' if note else ''}"

    async def hook(self, channel: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Json]:
        """Handle a platform's HTTP request to a channel.

        Return (HTTP status, response body) after the commit (Law 1). Raises NotFound.
        """
        self._check_running()
        receive = getattr(self.channels.get(channel), "receive", None)
        if receive is None:
            raise NotFound(f"no webhook channel is named {channel!r}")
        try:
            status, answer = await receive(self.channel_manager.inboxes[channel], headers, body)
        except BadRequest as error:
            self._note_refused_request(channel, "bad-field", str(error))
            raise
        if 400 <= status < 500 and status != HTTPStatus.CONFLICT:  # a conflict was recorded and counted
            known = re.fullmatch(rf"{PROBLEM_URN}([a-z-]+)", str(answer.get("type")))
            self._note_refused_request(channel, known[1] if known else "request", str(answer.get("detail", "")))
        return int(status), dict(answer)

    def confirm_hook(self, channel: str, token: str) -> bool:
        """Return whether a platform shows the token by which it confirms the address of a channel's webhook.

        Raises NotFound if the channel has none.
        """
        self._check_running()
        knows_token = getattr(self.channels.get(channel), "knows_token", None)
        if knows_token is None:
            raise NotFound(f"no channel whose address a platform confirms is named {channel!r}")
        if not (is_known := bool(knows_token(token))):
            self._note_refused_request(channel, "no-token", "a platform confirms the address with another verify_token")
        return is_known

    def _note_refused_request(self, channel: str, reason: str, detail: str) -> None:
        self.channel_manager.status[channel].note_refused_request(reason, detail)
        self.people.strangers.count(channel, reason)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.error("a part of the gateway stopped until the next start", task=task.get_name(), exc_info=fault)
