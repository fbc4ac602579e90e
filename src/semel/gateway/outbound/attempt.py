"""Make one attempt to send a part, or one look-up of it: time-limited, and always with an outcome.

The outcome of an attempt is a receipt, "not sent" (provably), "refused", or "silence" (unknown). An unexpected error of
the channel counts as silence, because bytes may have left.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from semel.gateway.clock import Clock
from semel.gateway.ports import Answers, Caps, Channel, NotSent, Op, Receipt, Rejected, Unknown
from semel.ledger.delivery.outgoing import Departure, Outcome

CLOCK_MARGIN_S = 60.0
"""A look-up starts this many seconds before the first attempt, because the platform's clock may differ from ours."""
MAX_RETRY_AFTER_S = 30 * 86400.0
"""Longest wait in seconds that is accepted from a platform."""

_log = logging.getLogger("semel.outbox")
_strays: set[asyncio.Future[Any]] = set()


class _NoAnswer(Exception):
    pass


def make_op(departure: Departure, files: Path | None = None) -> Op:
    """The `Op` of a departure. A file named by its blob id is resolved in the directory `files`."""
    op = departure.op
    file = Path(op["file"]) if op.get("file") else None
    if file is not None and files is not None:
        file = files / file  # an absolute path stays as it is
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
        marked=departure.marked,
        at=departure.at / 1000,
        n=departure.n,
        answers=None if departure.answers is None else Answers(**departure.answers),
    )


def find_unsupported(caps: Caps, op: Op) -> str | None:
    """Why the channel does not support this operation; None if it does."""
    if op.kind == "edit" and not caps.edits:
        return "this channel cannot edit messages"
    if op.kind == "delete" and not caps.deletes:
        return "this channel cannot delete messages"
    if op.kind == "react" and not caps.reactions:
        return "this channel has no reactions"
    if op.kind == "file" and not caps.files:
        return "this channel takes no files"
    if op.kind in ("edit", "delete", "react") and op.target is None:
        return "the message it refers to has no id that is known: it was never delivered, or its platform told none"
    return None


async def send(channel: Channel, op: Op, clock: Clock, halt: asyncio.Event, timeout: float | None = None) -> Outcome:
    """Make exactly one attempt, of at most `timeout` seconds (default: the channel's `caps.timeout`)."""
    if why := find_unsupported(channel.caps, op):
        return Outcome("refused", why=why)
    try:
        receipt = await _bounded(channel.send(op), timeout or channel.caps.timeout, clock, halt)
        return Outcome("receipt", receipt=receipt.id)
    except NotSent as no:
        return Outcome("not sent", why=_describe_error(no), retry_after=_wait(no.retry_after))
    except Rejected as no:
        return Outcome("refused", why=_describe_error(no))
    except (Unknown, _NoAnswer) as lost:
        return Outcome("silence", why=_describe_error(lost))
    except Exception as fault:
        _log.exception("channel %s failed while sending %s", channel.name, op.key)
        return Outcome("silence", why=f"the channel failed: {_describe_error(fault)}")


async def look(channel: Channel, op: Op, first: int, clock: Clock, halt: asyncio.Event) -> Outcome:
    """Look up a part that may have arrived. `first`: the time of its first attempt, in ms."""
    since = first / 1000 - CLOCK_MARGIN_S
    try:
        receipt = await _bounded(channel.find(op, since), channel.caps.timeout, clock, halt)
    except (Rejected, NotImplementedError) as no:
        return Outcome("hold", why=f"the platform cannot say whether it arrived: {_describe_error(no)}")
    except (NotSent, Unknown, _NoAnswer) as lost:
        return Outcome("cannot tell", why=_describe_error(lost))
    except Exception as fault:
        _log.exception("channel %s failed while looking for %s", channel.name, op.key)
        return Outcome("cannot tell", why=f"the channel failed: {_describe_error(fault)}")
    return Outcome("found", receipt=receipt.id) if receipt else Outcome("absent")


async def _bounded(work: Coroutine[Any, Any, Receipt | Any], timeout: float, clock: Clock, halt: asyncio.Event) -> Any:
    """The result of `work`; raises _NoAnswer after `timeout`, or once `halt` is set.

    The task is cancelled but not awaited, so that a channel which ignores cancellation blocks nobody.
    """
    task = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(clock.sleep(timeout))
    halted = asyncio.ensure_future(halt.wait())
    try:
        await asyncio.wait({task, timer, halted}, return_when=asyncio.FIRST_COMPLETED)
        if task.cancelled():  # the channel cancelled itself
            raise _NoAnswer("the channel gave up without saying why")
        if task.done():
            return task.result()
        late = f"no answer within {timeout:g} s"
        raise _NoAnswer(late if timer.done() else "the gateway stopped before the answer came")
    finally:
        for each in (task, timer, halted):
            each.cancel()
        if not task.done():
            _strays.add(task)
            task.add_done_callback(_forget)


def _forget(task: asyncio.Future[Any]) -> None:
    _strays.discard(task)
    if not task.cancelled():
        task.exception()  # its outcome was recorded as unknown already


def _wait(seconds: float | None) -> int | None:
    """The platform's retry delay in ms, capped; None if it gave none, or no finite number."""
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return None
    return round(min(max(0.0, seconds), MAX_RETRY_AFTER_S) * 1000)


def _describe_error(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # a third-party exception whose `__str__` fails
        return type(error).__name__
