"""Try a channel without a gateway: does its platform accept the account?

The channel runs as in `semel up` until it asks for its saved cursor, which it does once the platform has accepted it
(`semel.gateway.ports.Inbox.cursor`). There it is ended: nothing is read from the platform, and nothing is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from semel.gateway.inbound.channel_supervisor import find_secrets
from semel.gateway.ports import Channel, Denied, Heard, Inbox, Incoming, Kept, Offline, Person

CHECK_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class ChannelCheck:
    """`problem`: why the platform could not be used, and what to do; "" if it accepted the account.

    `refused`: the platform was reached and refused the account, so that trying again is of no use.
    """

    problem: str = ""
    refused: bool = False


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

    async def keep(self, name: str, mime: str, content: AsyncIterable[bytes], limit: int = 0) -> Kept:
        raise _Accepted

    def online(self) -> NoReturn:
        raise _Accepted

    async def hear(self, **event: Any) -> Heard:
        raise _Accepted


async def check_channel(channel: Channel, timeout: float = CHECK_TIMEOUT_S) -> ChannelCheck:
    """Log in at the channel's platform, and out again. `timeout`: in seconds."""
    try:
        async with asyncio.timeout(timeout):
            await channel.run(_ProbeInbox())
    except _Accepted:
        return ChannelCheck()
    except Denied as error:
        return ChannelCheck(_hide_secrets(channel, str(error)), refused=True)
    except Offline as error:
        return ChannelCheck(_hide_secrets(channel, str(error)))
    except TimeoutError:
        return ChannelCheck(f"the platform did not answer within {timeout:g} s")
    except Exception as error:  # a fault of the channel, such as one of a third party
        return ChannelCheck(_hide_secrets(channel, f"it failed inside ({type(error).__name__}: {error})"))
    return ChannelCheck("the connection was closed")


def _hide_secrets(channel: Channel, text: str) -> str:
    for secret in find_secrets(channel):
        text = text.replace(secret, "[secret]")
    return text
