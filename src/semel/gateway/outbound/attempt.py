"""Make one attempt to send a part, or one look-up of it, with a time limit. Each returns an `AttemptOutcome`.

The outcome of an attempt is "receipt", "not sent" (provably), "refused" or "silence" (unknown). An unexpected error of
the channel counts as silence, because bytes may have left.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from semel.gateway.clock import Clock
from semel.gateway.ports import CLOCK_MARGIN_S, Answers, Button, Caps, Channel, NotSent, Op, Receipt, Rejected, Unknown
from semel.ledger.delivery.send_queue import AttemptOutcome, Departure

MAX_RETRY_AFTER_S = 30 * 86400.0
"""The longest Retry-After in seconds that is accepted from a platform."""

_log = logging.getLogger("semel.outbox")
_abandoned_calls: set[asyncio.Future[Any]] = set()


class _NoAnswer(Exception):
    pass


def make_op(departure: Departure, file: Path | None = None) -> Op:
    """Return the `Op` for a departure, that is, for a part to be sent. `file`: the content of its file."""
    op = departure.op
    return Op(
        key=departure.key,
        kind=op.get("kind", "post"),
        address=departure.dest.partition(":")[2],
        text=op.get("text", ""),
        target=op.get("target"),
        file=file,
        name=op.get("name"),
        mime=op.get("mime"),
        session=departure.session,
        marked=departure.is_marked,
        at=departure.at / 1000,
        n=departure.n,
        answers=None if departure.answers is None else Answers(**departure.answers),
        buttons=tuple(Button(**button) for button in op.get("buttons", ())),
    )


def find_unsupported(caps: Caps, op: Op) -> str | None:
    """Return why the channel does not support this operation, in words; None if it supports the operation."""
    if op.kind == "edit" and not caps.edits:
        return "this channel cannot edit messages"
    if op.kind == "delete" and not caps.deletes:
        return "this channel cannot delete messages"
    if op.kind == "react" and not caps.reactions:
        return "this channel has no reactions"
    if op.kind == "file" and not caps.files:
        return "this channel takes no files"
    if op.kind in ("edit", "delete", "react") and op.target is None:
        return "the id of the message it refers to is not known: it was never delivered, or its platform gave none"
    return None


async def send(
    channel: Channel,
    op: Op,
    clock: Clock,
    stop_waiting: asyncio.Event,
    timeout: float | None = None,
    text: Callable[[], str] | None = None,
) -> AttemptOutcome:
    """Make exactly one attempt to send, and return its outcome.

    `timeout`: in seconds; None takes `caps.timeout` of the channel. `stop_waiting`: once this is set, the attempt ends
    without waiting for the answer any longer. `text`: returns the text to send instead of the text of `op`; it is
    called at the moment when the attempt begins, and raises NotSent if nothing is to be sent any more.
    """
    if problem := find_unsupported(channel.caps, op):
        return AttemptOutcome("refused", reason=problem)
    work = channel.send(op) if text is None else _send_current_text(channel, op, text)
    try:
        receipt = await _run_bounded(work, timeout or channel.caps.timeout, clock, stop_waiting)
        return AttemptOutcome("receipt", receipt=receipt.id)
    except NotSent as error:
        return AttemptOutcome("not sent", reason=_describe_error(error), retry_after=_retry_delay_ms(error.retry_after))
    except Rejected as error:
        return AttemptOutcome("refused", reason=_describe_error(error))
    except (Unknown, _NoAnswer) as error:
        return AttemptOutcome("silence", reason=_describe_error(error))
    except Exception as error:
        _log.exception("channel %s failed while sending %s", channel.name, op.key)
        return AttemptOutcome("silence", reason=f"the channel failed: {_describe_error(error)}")


async def check_answers(channel: Channel, address: str, clock: Clock, stop_waiting: asyncio.Event) -> str:
    """Return why the channel does not answer at this address now, in words; "" if it answers, or cannot be asked.

    It is asked to show the typing sign, which changes nothing. `stop_waiting`: as in `send`.
    """
    if not channel.caps.typing:
        return ""
    try:
        await _run_bounded(channel.typing(address), channel.caps.timeout, clock, stop_waiting)  # type: ignore[attr-defined]
    except Exception as error:
        return f"the platform gives no answers now: {_describe_error(error)}"
    return ""


async def _send_current_text(channel: Channel, op: Op, text: Callable[[], str]) -> Receipt:
    return await channel.send(replace(op, text=text()))


async def look_up(channel: Channel, op: Op, first: int, clock: Clock, stop_waiting: asyncio.Event) -> AttemptOutcome:
    """Look up a part that may have arrived, and return the outcome of the look-up.

    `first`: the time of the part's first attempt, in ms. `stop_waiting`: as in `send`.
    """
    since = first / 1000 - CLOCK_MARGIN_S
    try:
        receipt = await _run_bounded(channel.find(op, since), channel.caps.timeout, clock, stop_waiting)
    except (Rejected, NotImplementedError) as error:
        return AttemptOutcome("hold", reason=f"the platform cannot say whether it arrived: {_describe_error(error)}")
    except (NotSent, Unknown, _NoAnswer) as error:
        return AttemptOutcome("cannot tell", reason=_describe_error(error))
    except Exception as error:
        _log.exception("channel %s failed while looking for %s", channel.name, op.key)
        return AttemptOutcome("cannot tell", reason=f"the channel failed: {_describe_error(error)}")
    return AttemptOutcome("found", receipt=receipt.id) if receipt else AttemptOutcome("absent")


async def _run_bounded(
    work: Coroutine[Any, Any, Receipt | Any], timeout: float, clock: Clock, stop_waiting: asyncio.Event
) -> Any:
    """Return the result of `work`. Raises _NoAnswer after `timeout` seconds, or once `stop_waiting` is set.

    In that case `work` is cancelled but not awaited, so that a channel which ignores cancellation delays nothing.
    """
    task = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(clock.sleep(timeout))
    stopped = asyncio.ensure_future(stop_waiting.wait())
    try:
        await asyncio.wait({task, timer, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if task.cancelled():  # the channel cancelled itself
            raise _NoAnswer("the channel gave no reason")
        if task.done():
            return task.result()
        late = f"no answer within {timeout:g} s"
        raise _NoAnswer(late if timer.done() else "the gateway stopped before the answer came")
    finally:
        for waiter in (task, timer, stopped):
            waiter.cancel()
        if not task.done():
            _abandoned_calls.add(task)
            task.add_done_callback(_discard_stray)


def _discard_stray(task: asyncio.Future[Any]) -> None:
    _abandoned_calls.discard(task)
    if not task.cancelled():
        task.exception()  # its outcome was recorded as unknown already


def _retry_delay_ms(seconds: float | None) -> int | None:
    """Return the platform's retry delay in ms, at most MAX_RETRY_AFTER_S; None if `seconds` is not a finite number."""
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return None
    return round(min(max(0.0, seconds), MAX_RETRY_AFTER_S) * 1000)


def _describe_error(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # a third-party exception whose `__str__` fails
        return type(error).__name__
