"""Try a channel without a gateway: does its platform accept the account, and a test message?

The channel runs as in `semel up` until it asks for its saved cursor, which it does once the platform has accepted it
(`semel.gateway.ports.Inbox.cursor`). There it is ended: nothing is read from the platform. A channel may then check
more (`check`). A test message is sent only to an address that a person names.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from semel.gateway.inbound.channel_supervisor import find_secrets
from semel.gateway.ports import (
    CLOCK_MARGIN_S,
    Channel,
    Denied,
    Heard,
    Inbox,
    Incoming,
    Kept,
    NotSent,
    Offline,
    Op,
    Person,
    Rejected,
)

CHECK_TIMEOUT_S = 30.0
LOGIN_TIMEOUT_S = 5.0
"""Seconds that a test message waits for the login; a webhook has none."""
MAX_SETTLE_S = 10.0
TEST_MESSAGE = "A test message: Semel can write here."


@dataclass(frozen=True)
class ChannelCheck:
    """`problem`: why the platform could not be used, and what to do; "" if it accepted the account.

    `refused`: the platform was reached and refused the account, so that trying again is of no use. `settings`: the
    names of those that are wrong, or of which one is; () if the problem is not known to be one of settings.
    """

    problem: str = ""
    refused: bool = False
    settings: tuple[str, ...] = ()


class _Accepted(Exception):
    """The platform has accepted the account."""


class _ProbeInbox(Inbox):
    """Ends the channel's run at its first call, which it makes only once the platform has accepted the account."""

    async def cursor(self) -> NoReturn:
        raise _Accepted

    async def put(self, events: Sequence[Incoming], cursor: str | None = None) -> NoReturn:
        raise _Accepted

    async def known(self, sender: Person, group: str = "") -> NoReturn:
        raise _Accepted

    async def has_heard(self, key: str) -> NoReturn:
        raise _Accepted

    async def keep(self, name: str, mime: str, content: AsyncIterable[bytes], limit: int = 0) -> Kept:
        raise _Accepted

    def lend_file(self, key: str, address: str) -> NoReturn:
        raise _Accepted

    def online(self) -> NoReturn:
        raise _Accepted

    async def hear(self, **event: Any) -> Heard:
        raise _Accepted


async def check_channel(channel: Channel, timeout: float = CHECK_TIMEOUT_S) -> ChannelCheck:
    """Log in at the channel's platform, and out again. `timeout`: in seconds."""
    try:
        async with asyncio.timeout(timeout):
            await _log_in(channel)
    except Denied as error:
        return ChannelCheck(_hide_secrets(channel, str(error)), refused=True, settings=error.settings)
    except Offline as error:
        return ChannelCheck(_hide_secrets(channel, str(error)))
    except TimeoutError:
        return ChannelCheck(f"the platform did not answer within {timeout:g} s")
    except Exception as error:  # a fault of the channel, such as one of a third party
        return ChannelCheck(_hide_secrets(channel, f"it failed inside ({type(error).__name__}: {error})"))
    return ChannelCheck()


async def _log_in(channel: Channel) -> None:
    """Run the channel until the platform has accepted it, and let it check the rest. Raises Denied or Offline."""
    with contextlib.suppress(_Accepted):
        await channel.run(_ProbeInbox())
        raise Offline("the connection was closed")
    check = getattr(channel, "check", None)
    if check is not None:
        await check()


@dataclass(frozen=True)
class SentTest:
    """`receipt`: the platform's id of the message, "" if it did not confirm it. `was_read_back`: a look-up found it.

    `problem`: why the platform did not confirm it, or else why it could not be read back.
    """

    receipt: str = ""
    was_read_back: bool = False
    problem: str = ""


class _WaitingInbox(_ProbeInbox):
    """Lets a channel log in, and stops it there: nothing is read from the platform."""

    def __init__(self) -> None:
        self.accepted = asyncio.Event()

    async def cursor(self) -> NoReturn:
        self.accepted.set()
        await asyncio.Event().wait()
        raise _Accepted


def describe_test(channel: Channel) -> str:
    """Return what `send_test_message` does with a channel, and how long that takes at most, for people."""
    if not channel.caps.finds:
        return f"up to {LOGIN_TIMEOUT_S + CHECK_TIMEOUT_S:g} s"
    wait = min(channel.caps.settle, MAX_SETTLE_S)
    return f"and reading it back after {wait:g} s; up to {LOGIN_TIMEOUT_S + 2 * CHECK_TIMEOUT_S:g} s"


async def send_test_message(channel: Channel, address: str, timeout: float = CHECK_TIMEOUT_S) -> SentTest:
    """Send one message to an address, by one attempt, and look it up if the channel can (`Caps.finds`).

    `timeout`: seconds for the login, for the attempt and for the look-up, each.
    """
    inbox = _WaitingInbox()
    running = asyncio.ensure_future(channel.run(inbox))
    accepted = asyncio.ensure_future(inbox.accepted.wait())
    try:
        await asyncio.wait({running, accepted}, timeout=LOGIN_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        return await _send_once(channel, address, timeout)
    finally:
        for task in (running, accepted):
            task.cancel()
        await asyncio.gather(running, accepted, return_exceptions=True)


async def _send_once(channel: Channel, address: str, timeout: float) -> SentTest:
    since = time.time()
    op = Op(secrets.token_hex(12), "post", address, TEST_MESSAGE, at=since)
    try:
        async with asyncio.timeout(timeout):
            receipt = await channel.send(op)
    except TimeoutError:
        return SentTest(problem=f"no answer came within {timeout:g} s; look whether it arrived")
    except (NotSent, Rejected) as error:
        return SentTest(problem=_hide_secrets(channel, f"it was not sent: {error}"))
    except Exception as error:
        return SentTest(problem=_hide_secrets(channel, f"nobody knows whether it arrived: {error}"))
    if not channel.caps.finds:
        return SentTest(receipt.id)
    try:
        async with asyncio.timeout(timeout):
            await asyncio.sleep(min(channel.caps.settle, MAX_SETTLE_S))
            found = await channel.find(op, since - CLOCK_MARGIN_S)
    except Exception as error:
        return SentTest(receipt.id, problem=_hide_secrets(channel, str(error) or type(error).__name__))
    return SentTest(receipt.id, found is not None, "" if found is not None else "the platform does not show it")


def _hide_secrets(channel: Channel, text: str) -> str:
    for secret in find_secrets(channel):
        text = text.replace(secret, "[secret]")
    return text
