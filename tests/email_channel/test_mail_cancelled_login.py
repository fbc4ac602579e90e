"""A login that ends just when its caller is cancelled leaves no connection behind."""

from __future__ import annotations

import socket
from typing import Any, cast

from letters import settings

from semel.channels.email.transport import ImapConnection, MailBox


class Client:
    def __init__(self) -> None:
        self.is_shut = False

    def shutdown(self) -> None:
        self.is_shut = True


async def test_a_login_that_nobody_waits_for_any_more_is_shut_down() -> None:
    client = Client()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = ImapConnection(settings(), ours)
        connection._work = connection._pool.submit(lambda: MailBox(cast(Any, client)))
        await connection.close()
    assert client.is_shut
