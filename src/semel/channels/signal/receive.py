"""Receive what signal-cli hands over: run signal-cli, and read its journal (`read_journal.py`).

A signal-cli that ends is started again: at once, if it was of use before; else a little later each time, until `run`
raises Offline. One that does not get as far as loading the account is Offline, or Denied, at once.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import Any

from semel.channels.signal.address import EditedMessages, read_own_account
from semel.channels.signal.downloads import SignalFetcher
from semel.channels.signal.journal import Journal, JournalPosition
from semel.channels.signal.process import SignalCli, end_leftovers, make_request_id
from semel.channels.signal.read_journal import JournalReader, SignalCursor, parse_answer, parse_json
from semel.channels.signal.send import forget_files
from semel.channels.signal.settings import SignalSettings
from semel.channels.signal.startup import ACCOUNT_IN_USE, check_version, explain_end
from semel.gateway.ports import Inbox, Offline, Unknown
from semel.text.json_types import value_at

START_TIMEOUT_S = 60.0
"""How long signal-cli may take to load the account."""
OTHER_PROGRAM_WAIT_S = 10.0
"""How long it may wait for another one that uses the account."""
QUIET_S = 1.0
"""Signal's queue counts as read if nothing came for so long. signal-cli does not tell when it is."""
MAX_CATCH_UP_S = 60.0
"""After so long the channel counts as online although messages still come without a pause."""
POLL_INTERVAL_S = 0.1
ANSWER_POLL_INTERVAL_S = 0.02
"""Seconds between two looks at the journal, without and with an answer to wait for."""
FIRST_RUN_MARGIN_MS = 60_000
"""Messages that are older than the first run by so much are not reported: clocks differ."""
HANG_CHECK_TIMEOUT_S = 10.0
MAX_USELESS_RUNS = 4
"""How many runs of signal-cli in a row may load the account and end without having been of use."""
RESTART_DELAY_S = 0.5
"""Seconds between the first useless run and the next one; doubled after each further one."""

_log = logging.getLogger("semel.signal")


class SignalReceiver:
    """The receiving half of one account. `edits` is shared with the sending half. `own`: our account."""

    def __init__(self, name: str, settings: SignalSettings, cli: SignalCli, edits: EditedMessages) -> None:
        self._name = name
        self._settings = settings
        self._cli = cli
        self._edits = edits
        self.own = read_own_account(settings.account, settings.config_folder)
        self._journal = Journal(settings.journal_folder)
        files = settings.config_folder / "attachments"
        self._fetcher = SignalFetcher(files, settings.fetch, settings.file_limit)

    def __repr__(self) -> str:
        return f"<SignalReceiver of {self._name}, {self._cli!r}>"

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        await asyncio.to_thread(end_leftovers, self._journal.folder)
        await asyncio.to_thread(forget_files, self._journal.folder)
        useless_runs = 0
        try:
            while True:
                was_of_use = await self._run_once(inbox)
                useless_runs = 0 if was_of_use else useless_runs + 1
                if useless_runs > MAX_USELESS_RUNS:
                    raise explain_end(self._settings.account, self._cli.stderr_text, self._cli.exit_code)
                await self._cli.end_process()
                if useless_runs:
                    await asyncio.sleep(RESTART_DELAY_S * 2 ** (useless_runs - 1))
        finally:
            await self._cli.end_process()
            self._cli.fail_calls()

    async def _run_once(self, inbox: Inbox) -> bool:
        """Run signal-cli until it ends. Returns whether it was of use: it has sent or received something.

        Raises Offline or Denied, and what the inbox raises.
        """
        began_at = self._journal.find_end()
        await self._cli.start(self._journal)
        await self._wait_until_ready(began_at)
        cursor = await self._fetch_cursor(inbox, began_at)
        reader = JournalReader(
            self._journal, self._cli, self._fetcher, self._edits, self.own, inbox, cursor, began_at
        )  # fmt: skip
        await self._read(reader, inbox)
        if self._cli.exit_code is not None:
            await self._cli.wait_for_stderr()
            _log.warning("signal-cli of channel %s ended with exit code %s", self._name, self._cli.exit_code)
        return reader.was_of_use

    async def _wait_until_ready(self, position: JournalPosition) -> None:
        """Wait until signal-cli has loaded the account: it answers. Raises Offline or Denied."""
        given_up_at = asyncio.get_running_loop().time() + OTHER_PROGRAM_WAIT_S
        asking = asyncio.ensure_future(
            self._cli.send_request("version", {}, make_request_id("version"), START_TIMEOUT_S)
        )
        try:
            await self._answer_until(asking, position, given_up_at)
            if not self._cli.is_running:
                await self._cli.wait_for_stderr()
                raise explain_end(self._settings.account, self._cli.stderr_text, self._cli.exit_code)
            if not asking.done():
                raise Offline(ACCOUNT_IN_USE)
            reply = await asking
        except Unknown as error:
            await self._cli.wait_for_stderr()
            if not self._cli.is_running:
                raise explain_end(self._settings.account, self._cli.stderr_text, self._cli.exit_code) from None
            raise Offline(f"{error}, when it was started") from None
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        check_version(str(value_at(reply.result, "version") or ""))
        self.own = await asyncio.to_thread(read_own_account, self._settings.account, self._settings.config_folder)
        self._cli.note_ready()

    async def _fetch_cursor(self, inbox: Inbox, began_at: JournalPosition) -> SignalCursor:
        """Return the saved cursor, or on the first run one that begins at `began_at`, once it is saved."""
        fetching = asyncio.ensure_future(inbox.cursor())
        try:
            await self._answer_until(fetching, began_at)  # a message may be sent meanwhile
            text = await fetching
        finally:
            fetching.cancel()
            await asyncio.gather(fetching, return_exceptions=True)
        if text is None:
            cursor = SignalCursor(began_at, int(time.time() * 1000) - FIRST_RUN_MARGIN_MS)
            await inbox.put((), cursor.dump())
            return cursor
        cursor = SignalCursor.load(text)
        cursor.position = self._journal.find_start(cursor.position)
        self._edits.restore_edits(cursor.edits)
        return cursor

    async def _answer_until(
        self, task: asyncio.Future[Any], position: JournalPosition, given_up_at: float = math.inf
    ) -> None:
        """Hand answers over until a task is done, or signal-cli has ended. `position`: where to read from.

        `given_up_at`: when to give up one that waits for another signal-cli, by the event loop's clock.
        """
        loop = asyncio.get_running_loop()
        while not task.done() and self._cli.is_running:
            if self._cli.waits_for_another and loop.time() > given_up_at:
                return
            for line in await asyncio.to_thread(self._journal.read_lines, position):
                position = line.after
                if (answer := parse_answer(parse_json(line))) is not None:
                    self._cli.resolve_request(*answer)
            await asyncio.wait({task}, timeout=ANSWER_POLL_INTERVAL_S)

    async def _read(self, reader: JournalReader, inbox: Inbox) -> None:
        """Read the journal until signal-cli has ended and everything is read.

        The channel is online once what was missed has been put. Raises Offline, and what the inbox raises.
        """
        loop = asyncio.get_running_loop()
        began = quiet_since = loop.time()
        online = False
        while True:
            was_running = self._cli.is_running
            if await reader.read_on():
                quiet_since = loop.time()
                if not was_running or (not online and quiet_since - began < MAX_CATCH_UP_S):
                    continue
            if not was_running:
                self._cli.fail_calls()
                return
            if not online and (loop.time() - quiet_since >= QUIET_S or loop.time() - began >= MAX_CATCH_UP_S):
                await reader.save()
                online = True
                inbox.online()
            if self._cli.hangs:
                await self._check_hang(reader)
            if online and self._journal.is_full(reader.cursor.position) and not self._cli.is_waiting:
                await self._end_for_new_file(reader)
                return
            await self._wait_for_more()

    async def _end_for_new_file(self, reader: JournalReader) -> None:
        """End signal-cli, so that its next run begins a new file of the journal, and read what it still wrote."""
        await self._cli.end_process()
        while await reader.read_on():
            pass
        await reader.save()

    async def _wait_for_more(self) -> None:
        """Wait until the journal may have grown."""
        self._cli.called.clear()
        if self._cli.is_waiting:
            await asyncio.sleep(ANSWER_POLL_INTERVAL_S)
            return
        try:
            async with asyncio.timeout(POLL_INTERVAL_S):
                await self._cli.called.wait()
        except TimeoutError:
            pass

    async def _check_hang(self, reader: JournalReader) -> None:
        """Ask a signal-cli that left a call unanswered for its version. Raises Offline if it does not answer."""
        self._cli.hangs = False
        patience = min(HANG_CHECK_TIMEOUT_S, self._settings.timeout)
        asking = asyncio.ensure_future(self._cli.send_request("version", {}, make_request_id("alive"), patience))
        try:
            while not asking.done() and self._cli.is_running:
                await reader.read_on()
                await asyncio.wait({asking}, timeout=ANSWER_POLL_INTERVAL_S)
            if asking.done():
                await asking
        except Unknown:
            raise Offline("signal-cli does not answer any more; it is started anew") from None
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
