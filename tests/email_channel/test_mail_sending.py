"""One mail is handed over once, and every way in which that can end is told truly."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from letters import settings
from smtp_script import DROP, HANG, smtp

from semel.channels.email import make
from semel.gateway.ports import Channel, NotSent, Op, Receipt, Rejected, Unknown

CERTIFICATE = Path(__file__).parent.parent / "servers" / "localhost.test.pem"
POST = Op("0f9a", "post", "ada@people.org:thread-1f0c9a1e52d4b687", "Hello")
ID = "<semel.0f9a.1f0c9a1e52d4b687@example.org>"


@pytest.fixture(autouse=True)
def no_mailbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread is known to be gone: these tests are about SMTP."""

    async def gone(*_: Any) -> None:
        return None

    monkeypatch.setattr("semel.channels.email.channel.EmailChannel._find_answered_mail", gone)


def channel(port: int, **more: Any) -> Channel:
    usual: dict[str, Any] = {"smtp_tls": "none", "allow_plaintext": True, "smtp_port": port, "timeout": 5.0}
    return make("mail", settings(**(usual | more)))


async def test_a_mail_is_handed_over_with_a_blind_copy_for_ourselves() -> None:
    async with smtp() as server:
        assert await channel(server.port).send(POST) == Receipt(ID)
    assert (server.connections, len(server.mails)) == (1, 1)
    assert server.recipients == ["RCPT TO:<ada@people.org>", "RCPT TO:<semel@example.org>"]
    assert b"Bcc" not in server.mails[0]
    assert "EHLO [127.0.0.1]" in server.commands
    assert server.commands[-1] == "QUIT"


async def test_where_the_provider_keeps_sent_mail_there_is_no_copy() -> None:
    async with smtp() as server:
        await channel(server.port, proof="sent").send(POST)
    assert server.recipients == ["RCPT TO:<ada@people.org>"]


async def test_a_mail_to_ourselves_has_one_recipient() -> None:
    async with smtp() as server:
        await channel(server.port).send(Op("k", "post", "semel@example.org", "note"))
    assert server.recipients == ["RCPT TO:<semel@example.org>"]


async def test_lines_that_begin_with_a_dot_arrive_as_they_are() -> None:
    async with smtp() as server:
        await channel(server.port).send(Op("k", "post", "ada@people.org", ".\n..\n.end"))
    assert b"\r\n..\r\n...\r\n..end" in server.mails[0]


@pytest.mark.parametrize(
    ("step", "answer", "what"),
    [
        ("connect", "554 no service", NotSent),
        ("connect", "421 busy", NotSent),
        ("connect", DROP, NotSent),
        ("connect", HANG, NotSent),
        ("connect", "nonsense", NotSent),
        ("EHLO", "550 no", NotSent),
        ("EHLO", HANG, NotSent),
        ("AUTH", "535 5.7.8 wrong password", NotSent),
        ("AUTH", DROP, NotSent),
        ("AUTH", HANG, NotSent),
        ("MAIL", "451 4.3.0 later", NotSent),
        ("MAIL", "530 5.7.0 log in first", NotSent),
        ("MAIL", "550 5.7.1 not you", Rejected),
        ("MAIL", "552 5.3.4 too big", Rejected),
        ("MAIL", DROP, NotSent),
        ("MAIL", HANG, NotSent),
        ("RCPT", "450 4.2.1 later", NotSent),
        ("RCPT", "550 5.1.1 nobody", Rejected),
        ("RCPT", DROP, NotSent),
        ("RCPT", HANG, NotSent),
        ("RCPT", "299 hm", Unknown),
        ("RCPT semel@", "550 no copies", NotSent),
        ("RCPT semel@", "450 later", NotSent),
        ("RCPT semel@", DROP, NotSent),
        ("DATA", "451 later", NotSent),
        ("DATA", "554 no", Rejected),
        ("end", "421 4.3.2 closing", NotSent),
        ("end", "451 4.7.1 greylisted", NotSent),
        ("end", "554 5.7.1 spam", Rejected),
        ("end", DROP, Unknown),
        ("end", HANG, Unknown),
        ("end", "nonsense", Unknown),
        ("end", "299 hm", Unknown),
    ],
)
async def test_every_end_of_an_attempt_is_told_and_there_is_one(step: str, answer: str, what: type[Exception]) -> None:
    async with smtp(**{step: answer}) as server:
        with pytest.raises(what) as told:
            patience = 3.0 if step == "end" else 0.4
            await channel(server.port, timeout=patience if answer == HANG else 10.0).send(POST)
    assert isinstance(told.value, what)
    assert str(told.value)
    assert "a secret" not in str(told.value)
    assert server.connections == 1
    assert len(server.mails) == (step == "end")


async def test_a_goodbye_that_goes_wrong_does_not_undo_the_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.channels.email.send.QUIT_TIMEOUT_S", 0.3)
    for answer in (DROP, HANG, "500 stay"):
        async with smtp(QUIT=answer) as server:
            assert await channel(server.port).send(POST) == Receipt(ID)


async def test_nobody_listens_is_not_sent() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(NotSent, match="localhost"):
            await channel(taken.getsockname()[1]).send(POST)


async def test_a_password_that_a_server_repeats_is_not_told_on() -> None:
    for step in ("connect", "EHLO", "AUTH", "MAIL"):
        async with smtp(**{step: "554 a secret is what you said"}) as server:
            with pytest.raises((NotSent, Rejected)) as told:
                await channel(server.port).send(POST)
        assert "a secret" not in str(told.value)


async def test_an_attempt_that_is_cancelled_leaves_no_connection() -> None:
    async with smtp(end=HANG) as server:
        task = asyncio.create_task(channel(server.port).send(POST))
        async with asyncio.timeout(20):
            await server.came.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("mode", ["tls", "starttls"])
async def test_a_certificate_that_is_not_trusted_is_not_sent(mode: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    served: dict[str, Any] = {mode: context}
    async with smtp(**served) as server:
        with pytest.raises(NotSent):
            await channel(server.port, smtp_tls=mode).send(POST)
    assert not server.mails
    assert "AUTH ..." not in server.commands


@pytest.mark.parametrize("mode", ["tls", "starttls"])
async def test_a_certificate_that_is_trusted_carries_the_mail(mode: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    served: dict[str, Any] = {mode: context}
    async with smtp(**served) as server:
        assert await channel(server.port, smtp_tls=mode, ca_file=str(CERTIFICATE)).send(POST) == Receipt(ID)


async def test_a_server_without_tls_gets_no_password() -> None:
    async with smtp(EHLO="250-mx\r\n250 AUTH PLAIN") as server:
        with pytest.raises(NotSent, match="STARTTLS"):
            await channel(server.port, smtp_tls="starttls").send(POST)
    assert "AUTH ..." not in server.commands


async def test_a_relay_needs_no_login() -> None:
    async with smtp(EHLO="250 mx") as server:
        assert await channel(server.port, smtp_login=False).send(POST) == Receipt(ID)


async def test_letters_beyond_ascii_in_an_address_need_a_server_that_takes_them() -> None:
    op = Op("k", "post", "ädä@people.org", "Hello")
    async with smtp() as server:
        await channel(server.port).send(op)
        assert "RCPT TO:<ädä@people.org>" in server.recipients
    async with smtp(EHLO="250-mx\r\n250 AUTH PLAIN") as server:
        with pytest.raises(Rejected, match="SMTPUTF8"):
            await channel(server.port).send(op)


@pytest.mark.parametrize("kind", ["edit", "react", "delete"])
async def test_what_was_sent_cannot_be_changed(kind: Any) -> None:
    one = channel(1)
    assert not (one.caps.edits or one.caps.reactions or one.caps.deletes)
    with pytest.raises(Rejected, match="cannot be changed"):
        await one.send(Op("k", kind, "ada@people.org", "x", target=ID))


async def test_a_file_that_is_too_large_is_refused_before_anything_leaves(tmp_path: Path) -> None:
    file = tmp_path / "big"
    file.write_bytes(b"x" * 3_000_000)
    async with smtp() as server:
        with pytest.raises(Rejected, match="file_limit"):
            await channel(server.port, file_limit=1000).send(Op("k", "file", "ada@people.org", "", file=file))
    assert server.connections == 0


async def test_an_address_of_a_stranger_that_was_not_verified_can_be_answered() -> None:
    async with smtp() as server:
        await channel(server.port).send(Op("k", "post", "unverified:ada@people.org:thread-1f0c9a1e52d4b687", "Who?"))
    assert server.recipients[0] == "RCPT TO:<ada@people.org>"
