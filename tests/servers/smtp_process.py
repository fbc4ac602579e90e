"""aiosmtpd as a process of its own that delivers into Dovecot's Maildirs; started by `tests/servers/mail.py`.

    python smtp_process.py {"port": ..., "tls_port"?: ..., "home": ..., "certificate"?: ..., "owner"?: [uid, gid]}

Each transaction that reached DATA's end is a line of `home/smtp.log`: {"from", "to", "id", "answer"}. What is in
`home/smtp.plan` (JSON, a list) happens to the next ones, in order: see `Mail.plan`.
"""

from __future__ import annotations

import asyncio
import email
import email.policy
import itertools
import json
import os
import ssl
import sys
import time
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

NUMBERS = itertools.count()


class Desk:
    """Takes what comes in for the accounts that there are."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.home = Path(settings["home"])
        self.owner = settings.get("owner")

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if not (self.home / "users" / address.partition("@")[0]).is_dir():
            return "550 5.1.1 there is no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        content = envelope.content
        assert isinstance(content, bytes)
        step = self._next()
        kept = step.get("kept", "answer" not in step)
        if kept:
            for address in dict.fromkeys(each.partition("@")[0] for each in envelope.rcpt_tos):
                self._deliver(address, content)
        answer = step.get("answer", "250 2.0.0 taken")
        headers = email.message_from_bytes(content, policy=email.policy.default)
        line = {"from": envelope.mail_from, "to": envelope.rcpt_tos, "id": str(headers["message-id"]), "answer": answer}
        with (self.home / "smtp.log").open("a") as log:
            log.write(json.dumps(line | {"kept": kept}) + "\n")
        if step.get("hang"):
            await asyncio.Event().wait()
        if step.get("drop"):
            assert server.transport is not None
            server.transport.abort()
        return str(answer)

    def _next(self) -> dict[str, Any]:
        plan = self.home / "smtp.plan"
        try:
            steps = json.loads(plan.read_text())
        except FileNotFoundError:
            return {}
        if not steps:
            return {}
        part = plan.with_suffix(".part")
        part.write_text(json.dumps(steps[1:]))
        part.rename(plan)
        return dict(steps[0] or {})

    def _deliver(self, name: str, content: bytes) -> None:
        """As the Maildir format demands: written below tmp, durable, then moved to new."""
        maildir = self.home / "users" / name / "Maildir"
        seconds, rest = divmod(time.time_ns() // 1000, 10**6)
        file = f"{seconds}.M{rest:06d}P{os.getpid()}Q{next(NUMBERS):06d}.localhost"
        for folder in ("", "tmp", "new", "cur"):
            (maildir / folder).mkdir(parents=True, exist_ok=True)
            self._own(maildir / folder)
        part = maildir / "tmp" / file
        part.write_bytes(content)
        self._own(part)
        part.rename(maildir / "new" / file)

    def _own(self, path: Path) -> None:
        if self.owner:
            os.chown(path, *self.owner)


def login(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    right = isinstance(data, LoginPassword) and data.password == b"pw"
    return AuthResult(success=right, handled=False)


async def main(settings: dict[str, Any]) -> None:
    desk = Desk(settings)
    context = None
    if settings.get("certificate"):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(settings["certificate"])
    loop = asyncio.get_running_loop()

    def make(starttls: bool) -> SMTP:
        return SMTP(
            desk, hostname="localhost", authenticator=login, auth_require_tls=False, enable_SMTPUTF8=True,
            data_size_limit=10_000_000, tls_context=context if starttls else None,
            require_starttls=starttls and settings.get("tls") == "required",
        )  # fmt: skip

    servers = [await loop.create_server(lambda: make(bool(context)), "127.0.0.1", settings["port"])]
    if context:
        servers.append(await loop.create_server(lambda: make(False), "127.0.0.1", settings["tls_port"], ssl=context))
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
