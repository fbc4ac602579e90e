"""The rig of the email channel: Dovecot and aiosmtpd, a person for each address, one thread that they write in."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mail import Mail

from semel.channels.email.address import format_address, hash_id
from semel.gateway.ports import Safety
from semel.testing.conformance import Front, Rig, TcpFront


class EmailRig(Rig):
    kind = "email"
    safety = Safety.RECONCILABLE
    finds: ClassVar[bool] = True
    http = False
    page = 50

    def __init__(self, server: Mail) -> None:
        self.server = server
        mark = secrets.token_hex(3)
        self.names = [f"{name}{mark}" for name in ("ann", "ben", "cyd", "dan")]
        self.account = f"bot{mark}"
        self.person = f"{self.names[0]}@localhost"
        self.thread = f"<{mark}@localhost>"

    async def __aenter__(self) -> EmailRig:
        for name in (*self.names, self.account):
            self.server.register(name)
        return self

    def fronts(self) -> Mapping[str, Front]:
        return {
            "smtp": TcpFront(
                self.server.smtp_port,
                lambda sent: sent.count(b"\r\n.\r\n"),
                not_now=lambda sent: b"451 4.3.0 Try again later\r\n",
                no=lambda sent: b"554 5.7.1 Refused\r\n",
            ),
            "imap": TcpFront(self.server.imap_port),
        }

    def settings(self, ports: Mapping[str, int]) -> Mapping[str, Any]:
        return {
            "address": f"{self.account}@localhost", "user": self.account, "password": "pw",
            "imap": "127.0.0.1", "imap_port": ports["imap"], "imap_tls": "none",
            "smtp": "127.0.0.1", "smtp_port": ports["smtp"], "smtp_tls": "none",
            "allow_plaintext": True, "trust_from": True, "poll": 1.0, "settle": 1.0, "timeout": 5.0,
        }  # fmt: skip

    def addresses(self) -> Sequence[str]:
        return [f"{name}@localhost" for name in self.names]

    def home(self) -> str:
        return format_address(self.person, hash_id(self.thread))

    async def shown(self, address: str) -> Sequence[str]:
        mails = await self.server.user(address.partition("@")[0]).mails()
        bodies = [mail.get_body(("plain",)) for mail in mails]
        return [str(body.get_content()) for body in bodies if body is not None]

    async def write(self, text: str, gateway: str) -> None:
        person, to = self.server.user(self.names[0]), f"{self.account}@localhost"
        await person.write(to, "Conformance", text, references=self.thread, in_reply_to=self.thread)
