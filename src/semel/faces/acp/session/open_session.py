"""One session that an editor has open: it watches the session, shows what is new, and answers the editor's prompts.

All that is known of the gateway is the session's view (`faces.view`). After a break, the stream goes on after the
view's rev, and `RowWriter` writes only what the editor lacks. So the gateway may be killed and come back at any time;
the editor's prompt stays open meanwhile, and its message is sent again under the same key (Law 1).

A prompt is answered when the turn that took it has ended: its entry says so (`ended`). All rows of that turn are
written before (Law 8). What an editor sends is recognised by its key and is never shown to it again.

What happens outside of the editor's turns is shown at once, as a turn of its own, or with its next prompt, as the
editor's profile says (`editor_profiles`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any

from semel.faces.acp.connection.editor_port import Editor
from semel.faces.acp.connection.gateway_link import RESTART_AFTER_S, GatewayLink, GatewayNotStarted, is_unavailable
from semel.faces.acp.connection.request_errors import (
    INTERNAL_ERROR,
    RequestFailed,
    describe_error,
    ignore_deleted_session,
)
from semel.faces.acp.session.catch_up import choose_rows, describe_left_out, hold_back_said, is_request
from semel.faces.acp.session.deliveries import ANSWER, CANCEL, Deliveries
from semel.faces.acp.session.history import read_history
from semel.faces.acp.session.open_prompt import DISCARDED_REMARK, OpenPrompt, describe_failed_start, describe_outage
from semel.faces.acp.session.permission_dialogs import PermissionDialogs
from semel.faces.acp.session.pushed_turns import PushedTurns
from semel.faces.acp.session.recent_turns import UNSEEN_CANCEL_REMARK, RecentTurns
from semel.faces.acp.session.session_offers import SessionOffers
from semel.faces.acp.session.turn_ends import TURN_FAILED_KIND, describe_failure, has_reply, read_stop_reason
from semel.faces.acp.updates.row_writer import RowWriter, name_row
from semel.faces.client import AsyncClient, NoGateway, OutcomeUnknown, RequestRefused
from semel.faces.view import SessionView
from semel.text.json_types import Json, object_at

AWAY_REMARK_S = 5.0  # how long the gateway may be away before an open prompt is told so


class OpenSession:
    """A session in an editor. `session_row`: the session, as the gateway listed it. Close it with `close`.

    `previous`: the same session, which the editor opens again; its open prompts are answered here.
    """

    def __init__(
        self, key: str, editor: Editor, link: GatewayLink, session_row: Json, previous: OpenSession | None = None
    ) -> None:
        self.key = key
        self.view = SessionView()
        self.offers = SessionOffers(session_row)
        self._editor = editor
        self._link = link
        self._writer = RowWriter(key, editor.profile)
        self._dialogs = PermissionDialogs(key, editor, self._writer, self._send_answer, self.remark)
        self._waiting_remarks: dict[str, str] = {}  # remarks of ours that the editor could not show yet
        self._prompts: dict[str, OpenPrompt] = previous._prompts if previous is not None else {}
        self._prompt_order = asyncio.Lock()  # prompts are heard in the order in which the editor sent them
        self._unshown_rows: dict[tuple[str, int], None] = {}  # rows with news that the editor does not have
        self._pushed_turns = PushedTurns(key, editor, self._writer, self._show_refused)
        self._recent_turns = RecentTurns(editor)
        self._is_open = False
        self._is_away = False  # the gateway: its stream broke, and nothing came since
        self.has_ended = False  # the session was deleted, or its stream failed for good
        self.shown_rev: int | None = None  # the rev of the view up to which it was shown all but what is held back
        self._timer: asyncio.TimerHandle | None = None
        self._watching: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._deliveries = Deliveries()
        self._failure: RequestFailed | None = None  # why it could not be opened
        self.has_view = asyncio.Event()

    def __repr__(self) -> str:
        return f"<OpenSession {self.key} {len(self._prompts)} prompts, {len(self._unshown_rows)} rows unshown>"

    # ---- opening and closing

    async def watch(self, *, replays: bool, skips: bool = True) -> None:
        """Begin to watch the session, and wait for its view. Raises RequestFailed if it ends before that.

        `replays`: write the history, for `session/load`. `skips`: the editor has or does not want the history;
        otherwise it counts as not shown yet.
        """
        self._watching = self._spawn(self._follow_until_end(replays, skips), self._end)
        await self.has_view.wait()
        if self._failure is not None:
            self.close()
            raise self._failure

    def begin_showing(self) -> None:
        """Show from now on what happens. Before, the editor does not know the session."""
        self._is_open = True
        self._editor.write(self.offers.write_changes(self._writer, self.view.session, is_first=True))
        self.show_missed()
        self.show()

    def close(self) -> None:
        """Stop watching. Messages that are on their way to the gateway still reach it.

        Nothing refers to itself afterwards, so the session's rows are freed at once: an editor may open many sessions,
        and the collector of cycles hardly runs where nearly everything is text.
        """
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        if self._timer is not None:
            self._timer.cancel()
        self._recent_turns.stop_watching()
        self._is_open = False
        self._dialogs.close()
        self._pushed_turns.close()

    def _spawn(self, work: Coroutine[Any, Any, object], tell: Callable[[Json], None]) -> asyncio.Task[None]:
        """Run `work` as a task. If it fails, `tell` is called with the error (`describe_error`)."""

        async def run() -> None:
            try:
                await work
            except Exception as error:  # also a bug of ours: an editor that waits for ever would be worse
                tell(describe_error(error))

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def undelivered(self) -> list[str]:
        """What the editor said, except prompts, that the gateway may not have: `CANCEL` or `ANSWER` for each."""
        return self._deliveries.list_pending()

    async def await_delivery(self) -> None:
        """Wait until nothing is `undelivered`."""
        while self.undelivered:
            self._deliveries.changed.clear()
            await self._deliveries.changed.wait()

    # ---- watching

    async def _follow_until_end(self, replays: bool, skips: bool) -> None:
        """Watch the session until it is deleted; then, or after an error, answer what the editor waits for."""
        with ignore_deleted_session():
            await self._follow_stream(replays, skips)
        self._end({"code": INTERNAL_ERROR, "message": "the session was deleted; open another one"})

    def _end(self, error: Json) -> None:
        self.has_ended = True
        if not self.has_view.is_set():
            self._failure = RequestFailed(error["code"], error["message"])
        self.has_view.set()
        for prompt in list(self._prompts.values()):
            self._fail_prompt(prompt, error)

    async def _follow_stream(self, replays: bool, skips: bool) -> None:
        loop = asyncio.get_running_loop()
        last_contact, failures, has_restarted = loop.time(), 0, False
        while True:
            try:
                async with aclosing(self._link.stream(self.key, self.view.rev)) as frames:
                    async for frame in frames:
                        last_contact, failures, has_restarted, self._is_away = loop.time(), 0, False, False
                        if self.has_view.is_set():
                            self._handle_frame(frame)
                        else:
                            await self._handle_first_frame(frame, replays, skips)
                        if self.view.session.get("state") == "deleted":
                            return
                    self._is_away = False
            except NoGateway:
                pass
            except RequestRefused as error:
                if not is_unavailable(error):
                    raise
            if not self._is_away:  # it was there until now
                last_contact = loop.time()
            self._is_away = True
            away_s = loop.time() - last_contact
            if away_s > AWAY_REMARK_S and self._prompts:
                self._tell_away()
            if away_s > RESTART_AFTER_S and not has_restarted:
                has_restarted = self._start_gateway()  # once: more attempts would delay whoever starts it by hand
            failures += 1
            await self._link.wait_before_retry(failures)

    def _start_gateway(self) -> bool:
        """Start a gateway for a session that is opened; for a recorded prompt, only if the last one was killed.

        Return whether there is either. A prompt that is not recorded starts one itself (`_send_message`).
        """
        if not self.has_view.is_set():
            self._spawn(self._link.start_if_away(), self._end)
            return True
        if any(prompt.is_recorded for prompt in self._prompts.values()):
            self._spawn(self._link.restart_killed(), lambda error: self._tell_failed_start(error["message"]))
            return True
        return False

    def _tell_failed_start(self, reason: str) -> None:
        """Say why the gateway did not start for which a prompt waits."""
        if self._prompts:
            newest = next(reversed(self._prompts))
            self.remark(f"not-started-{newest}", describe_failed_start(reason, self._link.data_dir))

    def _tell_away(self) -> None:
        """Say that the gateway is away, and what becomes of the open prompts."""
        name, text = describe_outage(self._prompts.values(), self._link.may_start, self._link.data_dir)
        self.remark(f"{name}-{self.view.rev}", text)

    async def _handle_first_frame(self, frame: Json, replays: bool, skips: bool) -> None:
        rows = self.view.apply(frame)
        self._note_turn()
        if replays:
            rows, is_cut = await read_history(await self._link.connect(), self.key, self.view, frame)
            self._replay(rows, is_cut)
        elif skips:
            running = self.view.session.get("turn")
            for row in rows:
                if not (is_request(row) or row.get("live") or (running is not None and row.get("turn") == running)):
                    self._writer.skip_row(row)
        self._note_rows([row for row in rows if not self._writer.has_row(row)])
        self.has_view.set()

    def _replay(self, rows: list[Json], is_cut: bool) -> None:
        """Write the session's history. `is_cut`: older rows were left out."""
        now = asyncio.get_running_loop().time()
        lines: list[bytes] = []
        if is_cut:
            lines += self._writer.write_remark("cut", describe_left_out(self.key), is_history=True)
        for row in rows:
            lines += [] if is_request(row) else self._writer.write_row(row, now, is_history=True)
        self._editor.write([*lines, *self._writer.end_turn()])

    def _handle_frame(self, frame: Json) -> None:
        if frame["type"] == "snapshot" and frame["rev"] < (self.view.rev or 0):
            self._writer.distrust_revs()
        self._note_rows(self.view.apply(frame))
        self._note_turn()
        if self._is_open:
            self._editor.write(self.offers.write_changes(self._writer, self.view.session))
            self.show()

    def _note_turn(self) -> None:
        self._recent_turns.note_running(self.view.session.get("turn"))

    def _note_rows(self, rows: list[Json]) -> None:
        for row in rows:
            if "ended" in row:
                self._writer.note_end(row["ended"]["turn"])
            if "seq" not in row or not self._is_own(row):
                self._unshown_rows[name_row(row)] = None
            elif (prompt := self._prompts.get(row["key"])) is not None:
                prompt.seq = row["seq"]
                prompt.set_recorded()

    def _is_own(self, row: Json) -> bool:
        """Return whether this connection has sent the entry (the stream may be faster than the answer to a request)."""
        return row["role"] == "user" and str(row.get("key") or "").startswith(f"{self._editor.key_prefix}-")

    # ---- showing

    @property
    def _may_show(self) -> bool:
        """Whether the editor shows an agent's rows now."""
        return bool(self._prompts) or self._editor.profile.out_of_turn != "until_prompt"

    def show(self) -> None:
        """Write what the editor lacks and can show now, then answer the prompts whose turn has ended."""
        if self._editor.check_full() or not self._is_open:
            return
        if self._may_show:
            for row in self._pop_unshown_rows():
                self._show_row(row)
            self.shown_rev = self.view.rev
        self._dialogs.close_ended(self.view.items, self._may_show)
        self._pushed_turns.end_turn(self.view.entries, is_idle=self._is_idle)
        self._answer_ended_prompts()
        self._schedule_flush()

    def _pop_unshown_rows(self) -> list[Json]:
        """Return the rows with news that can be shown, in the order of the view; requests for permission last."""
        tables = {"seq": self.view.entries, "id": self.view.items}
        rows = [tables[kind][number] for kind, number in self._unshown_rows if number in tables[kind]]
        entries = {} if self._is_idle else self.view.entries
        rows, held_back = hold_back_said(rows, entries, self._writer.has_begun, self._editor.profile)
        self._unshown_rows = dict.fromkeys(map(name_row, held_back))
        return sorted(rows, key=lambda row: (is_request(row), int(row["born"])))

    def _show_row(self, row: Json) -> None:
        if is_request(row):
            self._dialogs.ask_if_open(row)
            return
        if "seq" in row and self._is_shown_as_error(row):
            return
        if not self._prompts and self._pushed_turns.begin_turn(row, is_idle=self._is_idle):
            return
        self._editor.write(self._writer.write_row(row, asyncio.get_running_loop().time()))

    @property
    def _is_idle(self) -> bool:
        return bool(self.view.session.get("state") == "idle")

    def _show_refused(self, row: Json) -> None:
        """Show a message as text, because the editor does not draw its turn."""
        self._unshown_rows[name_row(row)] = None
        self.show()

    def _is_shown_as_error(self, row: Json) -> bool:
        """Whether this notice says that a turn failed whose prompt is answered with the same words."""
        if row.get("kind") != TURN_FAILED_KIND:
            return False
        entries = [self.view.entries.get(prompt.seq or 0) or {} for prompt in self._prompts.values()]
        return any(object_at(entry, "ended").get("turn") == row.get("turn") for entry in entries)

    def show_missed(self) -> None:
        """Write what happened while the editor could not show it: the newest of it, and how much is left out."""
        if not self._may_show or not self._is_open or self._editor.check_full():
            return
        for name, text in self._waiting_remarks.items():
            self._editor.write(self._writer.write_remark(name, text))
        self._waiting_remarks.clear()
        lacking = [row for row in self._pop_unshown_rows() if not self._writer.has_row(row)]
        chosen, left_out = choose_rows(lacking, self._writer.has_begun)
        for row in left_out:
            self._writer.skip_row(row)
        if left_out:
            text = describe_left_out(self.key, left_out)
            self._editor.write(self._writer.write_remark(f"missed-{left_out[-1]['born']}", text))
        for row in chosen:
            self._show_row(row)

    def remark(self, name: str, text: str) -> None:
        """Say something of our own, at once or with the next prompt. `name`: its message id, for nothing else."""
        self._waiting_remarks[name] = text
        self.show_missed()

    def _schedule_flush(self) -> None:
        due_at = self._writer.due_at
        if due_at is not None and self._timer is None and self._may_show and not self._editor.check_full():
            self._timer = asyncio.get_running_loop().call_at(due_at, self._flush_output)

    def _flush_output(self) -> None:
        self._timer = None
        if not self._editor.check_full():
            self._editor.write(self._writer.flush(asyncio.get_running_loop().time()))
        self._schedule_flush()

    # ---- prompts

    def add_prompt(self, prompt: OpenPrompt, blocks: list[Json]) -> None:
        """Send a prompt to the session."""
        self._prompts[prompt.key] = prompt
        self.show_missed()
        self._spawn(self._send_prompt(prompt, blocks), partial(self._fail_prompt, prompt))

    async def _send_prompt(self, prompt: OpenPrompt, blocks: list[Json]) -> None:
        async def say(client: AsyncClient) -> None:
            has_gateway = await self._link.is_answering()
            if prompt.is_answered:
                return
            if not has_gateway:  # it counts as sent only while somebody can get it
                raise NoGateway(self._link.data_dir)
            was_sent, prompt.is_sent = prompt.is_sent, True
            try:
                await client.say(self.key, blocks=blocks, id=prompt.key, sender=self._editor.name, seen=prompt.seen)
            except NoGateway:  # it got no connection
                prompt.is_sent = was_sent
                if prompt.is_cancelled and not was_sent:
                    self.discard_prompt(prompt)
                raise
            prompt.set_recorded()

        async with self._prompt_order:
            if not prompt.is_answered:
                await self._send_message(say)

    async def _send_message(self, say: Callable[[AsyncClient], Any]) -> None:
        """Send a message, however long the gateway is away. If none runs, one is started; if that fails, the editor is
        told, and the message waits for another one. Raises RequestRefused.
        """

        def tell(error: NoGateway) -> None:
            self._tell_failed_start(str(error))

        try:
            await self._link.ask(say)
        except GatewayNotStarted as error:
            tell(error)
            await self._link.ask_until_answered(say)
        except (NoGateway, OutcomeUnknown):
            await self._link.ask_until_answered(say, tell)

    def _answer_ended_prompts(self) -> None:
        """Answer the prompts whose turn has ended."""
        for prompt in list(self._prompts.values()):
            entry = self.view.entries.get(prompt.seq or 0)
            if entry is None:
                continue
            if "ended" in entry:
                self._answer_ended(prompt, entry["ended"])
            elif entry.get("kind") == "command" and has_reply(self.view.entries.values(), entry):
                self._finish_prompt(prompt, {"stopReason": "end_turn"}, None)

    def _answer_ended(self, prompt: OpenPrompt, ended: Json) -> None:
        if ended["state"] == "failed" and not prompt.is_cancelled:
            message = describe_failure(self.view.entries.values(), ended)
            self._fail_prompt(prompt, {"code": INTERNAL_ERROR, "message": message})
        else:
            stop = "cancelled" if ended["state"] == "failed" else read_stop_reason(ended)
            self._finish_prompt(prompt, {"stopReason": stop}, None)

    def _finish_prompt(self, prompt: OpenPrompt, result: Json | None, error: Json | None) -> None:
        if self._prompts.pop(prompt.key, None) is not None:
            self._editor.write(self._writer.end_turn())
        prompt.answer(result, error)

    def _fail_prompt(self, prompt: OpenPrompt, error: Json) -> None:
        self._finish_prompt(prompt, None, error)

    # ---- stopping and answering

    def cancel(self, has_arriving_prompt: bool) -> None:
        """Cancel the editor's prompts; if the editor has none open, stop the turn that its person sees.

        `has_arriving_prompt`: whether a prompt of the editor was on its way to this session.
        """
        prompts = list(self._prompts.values())
        for prompt in prompts:
            self.cancel_prompt(prompt)
        if not prompts and not has_arriving_prompt:
            self._stop_seen_turn()

    def cancel_prompt(self, prompt: OpenPrompt) -> None:
        """Stop the turn that answers a prompt of the editor, or withdraw its message. One not sent is discarded."""
        prompt.is_cancelled = True
        if not prompt.is_sent:
            self.discard_prompt(prompt)
            return
        self._deliveries.add(CANCEL, self._spawn(self._stop_prompt(prompt), self._tell_not_stopped))
        if self._is_away:
            self._tell_away()

    def discard_prompt(self, prompt: OpenPrompt) -> None:
        """Answer a prompt that was never sent as cancelled, and never send it."""
        self.remark(f"discarded-{prompt.key}", DISCARDED_REMARK)
        self._finish_prompt(prompt, {"stopReason": "cancelled"}, None)

    async def _stop_prompt(self, prompt: OpenPrompt) -> None:
        """Withdraw a prompt that waits, or stop the turn that has taken it, however often that has to be repeated."""
        async with self._prompt_order:  # behind the prompt, if it is not recorded yet; before one that comes next
            if prompt.is_answered:
                return
            is_withdrawn = False
            with ignore_deleted_session():
                is_withdrawn = await self._link.ask_until_answered(
                    lambda client: client.withdraw(self.key, prompt.key, self._editor.name)
                )
        if is_withdrawn:  # no turn runs for it, and none will: its end in the transcript need not be awaited
            self._finish_prompt(prompt, {"stopReason": "cancelled"}, None)

    def _stop_seen_turn(self) -> None:
        turn = self._recent_turns.find_turn_to_cancel()
        running = self.view.session.get("turn")
        if turn is not None and self._may_show:  # otherwise its person sees none
            stopping = self._spawn(self._stop_turn(turn, self.view.rev), self._tell_not_stopped)
            self._deliveries.add(CANCEL, stopping)
        if running not in (None, turn) and self._may_show:
            self.remark(f"unseen-{self.view.rev}", UNSEEN_CANCEL_REMARK)

    async def _stop_turn(self, turn: int, seen: int | None) -> None:
        """Stop this turn, seen at the rev `seen`, and no other, however often the request has to be repeated."""
        with ignore_deleted_session():
            await self._link.ask_until_answered(
                lambda client: client.stop(self.key, self._editor.name, turn=turn, seen=seen)
            )

    def _tell_not_stopped(self, error: Json) -> None:
        text = f"The turn was not stopped: {error['message']}"
        self.remark(f"stop-{self.view.rev}", text)

    def _send_answer(self, item: int, option: str | None, seen: int) -> None:
        def tell(error: Json) -> None:
            self._dialogs.tell(item, f"Your answer was not taken, and allows nothing: {error['message']}")

        self._deliveries.add(ANSWER, self._spawn(self._answer_permission(item, option, seen), tell))

    async def _answer_permission(self, item: int, option: str | None, seen: int) -> None:
        outcome = await self._link.ask_until_answered(
            lambda client: client.answer(self.key, item, option, by=self._editor.name, seen=seen)
        )
        self._dialogs.note_outcome(item, option, outcome)
        self.show()
