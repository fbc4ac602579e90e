"""Checks of `run` without a gateway: what a channel puts into its inbox, what it has put when it says `online`, and how
it ends when the platform is lost.

They are quick, and come before the checks of `receiving`, which kill gateways: a mistake is named here first.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

from semel.gateway.ports import Incoming, Offline, Receipt
from semel.testing.conformance.attempts import ChannelTrial, run_channel, start_trial, wait_until_run_is_online
from semel.testing.conformance.network import open_network
from semel.testing.conformance.process import CHANNEL_NAME, wait_until
from semel.testing.conformance.receiving import LOST_HINT
from semel.testing.conformance.rig import ConformanceError, NumberedTexts, Rig, demand
from semel.testing.inbox import KeptInbox

OUTAGE_S = 20.0
"""How long the platform is away at most. By then `run` must have ended."""
LATE_S = 5.0
"""How long messages may come after `online()` that had to come before it, so that these are told from lost ones."""


class DiskFull(OSError):
    """The error with which `WatchedInbox` refuses a put."""


class WatchedInbox(KeptInbox):
    """An inbox that remembers what it had at each call of `online`, and can refuse the next messages.

    `at_online`: the texts of messages that were put before each call of `online`. `refuses`: whether it refuses the
    next put of events.
    """

    def __init__(self, store: Path) -> None:
        super().__init__(store)
        self.at_online: list[list[str]] = []
        self.refuses = False

    async def put(self, events: Sequence[Incoming], cursor: str | None = None) -> None:
        if events and self.refuses:
            self.refuses = False
            raise DiskFull("no space left on device")
        await super().put(events, cursor)

    def online(self) -> None:
        self.at_online.append(self.texts())
        super().online()

    def texts(self) -> list[str]:
        """Return the texts of the messages that were put."""
        return [event.text for event in self.events if event.kind == "message"]


async def _wait_until_put(inbox: KeptInbox, words: NumberedTexts, text: str) -> None:
    async def is_put() -> bool:
        return text in words.among(event.text for event in inbox.events)

    await wait_until(is_put, f"what a person wrote ({text!r}) was not put")


async def online_is_called_only_once_everything_missed_was_put(rig: Rig, home: Path) -> None:
    """Check that `online` is called after the last page of what people wrote while the channel was down.

    The cursor must move with it. What the channel says is online is what people rely on: that nothing was missed.
    """
    async with rig, open_network(rig) as net:
        inbox, words = WatchedInbox(home / "files"), NumberedTexts("o")
        async with run_channel(rig, rig.make(CHANNEL_NAME, net.ports), inbox):
            first_cursor = inbox.at
        missed = words.some(rig.page + 7)
        for text in missed:
            await rig.write(text, "")
        calls = len(inbox.at_online)
        async with run_channel(rig, rig.make(CHANNEL_NAME, net.ports), inbox):
            put_before = words.among(inbox.at_online[calls])
            late = [text for text in missed if text not in put_before]
            if late:
                await _explain_late(inbox, words, late, len(missed))
        _check_cursor_moved(inbox, first_cursor)


async def _explain_late(inbox: WatchedInbox, words: NumberedTexts, late: Sequence[str], missed: int) -> None:
    """Wait for the messages that were not put before `online()`. Raise ConformanceError, which says what is wrong."""

    async def are_put() -> bool:
        return set(late) <= set(words.among(inbox.texts()))

    with contextlib.suppress(ConformanceError):
        await wait_until(are_put, "what was missed was not put", LATE_S)
    lost = [text for text in late if text not in words.among(inbox.texts())]
    demand(not lost, f"{len(lost)} of {missed} missed messages were not put, such as {lost[:5]}. {LOST_HINT}")
    demand(
        False,
        f"online() was called before {len(late)} of {missed} missed messages were put, such as {list(late[:5])}: put "
        "what was missed to the last page, then call it",
    )


def _check_cursor_moved(inbox: KeptInbox, first_cursor: str | None) -> None:
    """Raise ConformanceError if the cursor still is the first one. None: the platform keeps track by itself."""
    demand(
        first_cursor is None or inbox.at != first_cursor,
        f"messages were put, and the cursor stayed {first_cursor!r}: each start would read everything since then "
        "again. Save it with them: `await inbox.put(messages, cursor)`",
    )


async def what_a_failed_put_did_not_keep_is_put_again(rig: Rig, home: Path) -> None:
    """Check that messages whose `put` failed, as on a full disk, are put again by the next call of `run`."""
    async with rig, open_network(rig) as net:
        inbox, words = WatchedInbox(home / "files"), NumberedTexts("f")
        async with run_channel(rig, rig.make(CHANNEL_NAME, net.ports), inbox, also=DiskFull):
            inbox.refuses, (refused, later) = True, words.some(2)
            await rig.write(refused, "")

            async def is_refused() -> bool:
                return not inbox.refuses

            await wait_until(is_refused, f"what a person wrote ({refused!r}) was not put")
            await rig.write(later, "")
            await _wait_until_put(inbox, words, later)
            demand(
                refused in words.among(inbox.texts()),
                f"a put of {refused!r} failed, and it was not put again before later ones: let the error of put leave "
                f"run. {LOST_HINT}",
            )


async def what_the_channel_sent_is_not_put_as_a_message_of_a_person(rig: Rig, home: Path) -> None:
    """Check that the account's own messages, which many platforms deliver to it, too, are no messages to answer."""
    async with start_trial(rig, home) as trial:
        sent = await _send_and_edit(trial)
        written = trial.words.new()
        await rig.write(written, "")
        await _wait_until_put(trial.inbox, trial.words, written)
        own = [event for event in trial.inbox.events if event.kind in ("message", "edit")
               and set(trial.words.among([event.text])) & set(sent)]  # fmt: skip
        demand(
            not own,
            f"the channel put what it had sent itself as {own[:1]}, and the agent would answer itself: "
            'drop the messages of its own account, or put them as Incoming("echo", key=op.key, of=ID)',
        )


async def _send_and_edit(trial: ChannelTrial) -> list[str]:
    """Send a message and, if the channel can, edit it. Returns the texts."""
    op = trial.new_message()
    receipt = await trial.attempt(op)
    demand(isinstance(receipt, Receipt), f"a send that nothing disturbed came to {receipt!r}")
    if not trial.channel.caps.edits or not isinstance(receipt, Receipt):
        return [op.text]
    edit = trial.make_op("edit", trial.words.new(), receipt.id)
    await trial.attempt(edit)
    return [op.text, edit.text]


async def run_ends_with_offline_when_the_platform_is_lost(rig: Rig, home: Path) -> None:
    """Check that `run` raises Offline once connections break and new ones are refused.

    Only then do people see that the channel is offline, and the gateway waits longer before each further attempt.
    """
    async with rig, open_network(rig) as net:
        inbox = KeptInbox(home / "files")
        running = asyncio.create_task(rig.make(CHANNEL_NAME, net.ports).run(inbox))
        try:
            await wait_until_run_is_online(rig, running, inbox, 1)
            if not running.done():
                await net.down()
                await asyncio.wait({running}, timeout=OUTAGE_S)
            has_ended = running.done()
        finally:
            running.cancel()
            ended = (await asyncio.gather(running, return_exceptions=True))[0]
    demand(
        has_ended,
        f"the platform was away for {OUTAGE_S:g} s, and run went on: the channel would be shown as online through an "
        "outage. Do not reconnect inside run, and switch it off in your client library: raise Offline, and the gateway "
        "calls run again",
    )
    how = f"raised {ended!r}" if isinstance(ended, BaseException) else "returned"
    demand(inbox.onlines, f"run {how} while the platform was there, and before the channel was online")
    demand(isinstance(ended, Offline), f"the platform was lost, and run {how}: it should raise Offline")
