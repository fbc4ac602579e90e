"""Against Dovecot and a real SMTP server: heard once, sent once, and looked up where an answer was lost."""

from __future__ import annotations

import asyncio
import contextlib
import imaplib
import json
import time
from collections.abc import AsyncIterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from mail import Mail
from server_process import CERTIFICATE

from semel.channels.email import EmailSettings, make
from semel.gateway.ports import Answers, Channel, Denied, Incoming, NotSent, Offline, Op, Receipt, Rejected, Unknown
from semel.testing.inbox import KeptInbox

pytestmark = pytest.mark.channels


class Account:
    """A fresh account of ours and one of a person's, on the server."""

    made = 0

    def __init__(self, server: Mail) -> None:
        Account.made += 1
        self.server = server
        self.name = f"semel{Account.made}"
        self.address = f"{self.name}@localhost"
        server.register(self.name)
        server.register(f"ada{Account.made}")
        self.ada = server.user(f"ada{Account.made}")

    def channel(self, **more: Any) -> Channel:
        usual: dict[str, Any] = {
            "address": self.address,
            "user": self.name,
            "password": "pw",
            "imap": "localhost",
            "smtp": "localhost",
            "imap_port": self.server.imaps_port,
            "smtp_port": self.server.smtps_port,
            "ca_file": str(CERTIFICATE),
            "authserv": "localhost",
            "settle": 0.5,
        }
        return make("mail", EmailSettings(**(usual | more)))

    async def write(self, subject: str, text: str, **headers: str) -> str:
        """Ada writes; her server says that she logged in there."""
        proof = f"localhost; auth=pass smtp.auth={self.ada.address}"
        return await self.ada.write(self.address, subject, text, **({"Authentication_Results": proof} | headers))

    def imap(self) -> imaplib.IMAP4:
        client = imaplib.IMAP4("127.0.0.1", self.server.imap_port, timeout=30)
        client.login(self.name, "pw")
        return client


@pytest.fixture
def account(mail_server: Mail) -> Account:
    mail_server.plan()
    return Account(mail_server)


@contextlib.asynccontextmanager
async def running(one: Channel, inbox: KeptInbox) -> AsyncIterator[asyncio.Task[None]]:
    """Connected, until the end of the block."""
    task = asyncio.create_task(one.run(inbox))
    online = asyncio.create_task(inbox.wait_online(inbox.onlines + 1, 60))
    try:
        await asyncio.wait({task, online}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        yield task
    finally:
        for each in (task, online):
            each.cancel()
        await asyncio.gather(task, online, return_exceptions=True)


def post(key: str, to: Incoming | str, text: str = "Hello", **more: Any) -> Op:
    if isinstance(to, str):
        return Op(key, "post", to, text, at=time.time(), **more)
    assert to.sender is not None
    answers = Answers(to.key, to.sender.id, json.loads(json.dumps(dict(to.data))))
    return Op(key, more.pop("kind", "post"), to.address, text, at=time.time(), answers=answers, **more)


async def test_a_conversation_stands_in_one_thread(account: Account, tmp_path: Path) -> None:
    await account.write("Old", "what lay there before is not told")
    inbox, channel = KeptInbox(tmp_path), account.channel()
    async with running(channel, inbox):
        asked = await account.write("Engines", "How far are they?")
        [first] = await inbox.wait(1)
        assert (first.key, first.text) == (asked, "Subject: Engines\n\nHow far are they?")
        receipt = await channel.send(post("k1", first, "**Far.**"))
        [answer] = await account.ada.wait(1)
        assert answer["Message-ID"] == receipt.id
        assert (answer["In-Reply-To"], answer["Subject"]) == (asked, "Re: Engines")
        await account.write("Re: Engines", "Good\n\nOn Monday, Semel wrote:\n> **Far.**", in_reply_to=receipt.id)
        *_, echo, second = await inbox.wait(3)
    assert (echo.kind, echo.key, echo.of) == ("echo", "k1", receipt.id)
    assert (second.address, second.of, second.mentioned) == (first.address, receipt.id, True)
    assert second.text == "Good\n\n[2 lines of earlier mail, quoted below this, are left out]"


async def test_files_go_both_ways(account: Account, tmp_path: Path) -> None:
    inbox, channel = KeptInbox(tmp_path / "kept"), account.channel()
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = account.ada.address, account.address, "Plan"
    mail["Authentication-Results"] = f"localhost; auth=pass smtp.auth={account.ada.address}"
    mail.set_content("see attached")
    mail.add_attachment(b"%PDF" * 100_000, maintype="application", subtype="pdf", filename="größe.pdf")
    async with running(channel, inbox):
        await account.ada.send(mail)
        [heard] = await inbox.wait(1)
        [file] = heard.files
        kept: Any = file
        assert (kept.name, kept.mime, kept.size) == ("größe.pdf", "application/pdf", 400_000)
        path = tmp_path / "kept" / kept.id
        assert path.read_bytes() == b"%PDF" * 100_000
        await channel.send(post("k1", heard, "here you are", kind="file", file=path, name="Rück.pdf", mime=kept.mime))
    [back] = await account.ada.wait(1)
    [part] = back.iter_attachments()
    assert (part.get_filename(), part.get_content()) == ("Rück.pdf", b"%PDF" * 100_000)


async def test_what_a_stranger_attached_is_not_kept(account: Account, tmp_path: Path) -> None:
    inbox, channel = KeptInbox(tmp_path / "kept"), account.channel()
    inbox.strangers.add(account.ada.address)
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = account.ada.address, account.address, "Plan"
    mail["Authentication-Results"] = f"localhost; auth=pass smtp.auth={account.ada.address}"
    mail.set_content("see attached")
    mail.add_attachment(b"x" * 1_000_000, maintype="application", subtype="pdf", filename="x.pdf")
    async with running(channel, inbox):
        await account.ada.send(mail)
        [heard] = await inbox.wait(1)
    assert (heard.files, (tmp_path / "kept").exists()) == ((), False)


async def test_an_answer_that_is_lost_is_found_and_what_was_not_taken_is_proved_absent(
    account: Account, tmp_path: Path
) -> None:
    channel, inbox = account.channel(), KeptInbox(tmp_path)
    async with running(channel, inbox):
        account.server.plan({"drop": True}, {"drop": True, "kept": False})
        taken, lost = post("taken", account.ada.address), post("lost", account.ada.address)
        since = time.time() - 60
        for op in (taken, lost):
            with pytest.raises(Unknown):
                await channel.send(op)
        [echo] = await inbox.wait(1)
        assert (echo.kind, echo.key) == ("echo", "taken")
        assert await channel.find(taken, since) == Receipt("<semel.taken@localhost>")
        assert await channel.find(lost, since) is None
        again = await channel.send(lost)
    assert [mail["Message-ID"] for mail in await account.ada.wait(2)] == ["<semel.taken@localhost>", again.id]
    tries = [
        each["id"]
        for each in account.server.transactions()
        if each["id"].endswith(("taken@localhost>", "lost@localhost>"))
    ]
    assert len(tries) == 3


async def test_a_copy_is_found_wherever_the_server_put_it(account: Account) -> None:
    channel, op = account.channel(), post("moved", account.ada.address)
    await channel.send(op)
    with account.imap() as client:
        client.select("INBOX")
        client.copy("1", "Sent")
        client.store("1", "+FLAGS", "\\Deleted")
        client.expunge()
    assert await channel.find(op, time.time() - 60) == Receipt("<semel.moved@localhost>")


async def test_a_server_that_takes_mail_no_more_and_one_that_says_later(account: Account) -> None:
    channel = account.channel()
    account.server.plan({"answer": "451 4.7.1 later"}, {"answer": "554 5.7.1 spam"})
    for what in (NotSent, Rejected):
        with pytest.raises(what):
            await channel.send(post("k", account.ada.address))
    with pytest.raises(Rejected, match="no such mailbox"):
        await channel.send(post("k", "nobody-at-all@localhost"))
    assert await account.ada.mails() == []


async def test_more_than_a_page_that_came_meanwhile_is_put_in_order_with_its_cursor(
    account: Account, tmp_path: Path
) -> None:
    inbox, channel = KeptInbox(tmp_path), account.channel()
    async with running(channel, inbox):
        pass
    ids = [await account.write("More", f"number {n}") for n in range(45)]
    async with running(channel, inbox):
        heard = await inbox.wait(45, 60)
    assert [each.key for each in heard] == ids
    pages = [(len(events), json.loads(cursor or "")["uid"]) for events, cursor in inbox.puts if events]
    assert pages == [(20, 20), (20, 40), (5, 45)]


async def test_a_run_that_dies_before_the_commit_tells_it_again(account: Account, tmp_path: Path) -> None:
    inbox, channel = KeptInbox(tmp_path), account.channel()
    async with running(channel, inbox):
        pass
    await account.write("One", "first")
    inbox.fail = OSError("a full disk")
    with pytest.raises(OSError, match="full disk"):
        await channel.run(inbox)
    async with running(channel, inbox):
        await inbox.wait(1)


async def test_a_mailbox_that_is_numbered_anew_is_read_again_from_the_first_run_on(
    account: Account, tmp_path: Path
) -> None:
    await account.write("Old", "before")
    with account.imap() as client:
        client.select("INBOX")
        client.append(
            "INBOX", "", '"01-Jan-2020 10:00:00 +0000"', b"From: ada@people.org\r\nMessage-ID: <old@x>\r\n\r\nold"
        )  # type: ignore[arg-type]
    inbox, channel = KeptInbox(tmp_path), account.channel()
    async with running(channel, inbox):
        await account.write("One", "first")
        await inbox.wait(1)
    cursor = json.loads(inbox.at or "")
    inbox.at = json.dumps(cursor | {"uidvalidity": cursor["uidvalidity"] + 1, "uid": 999})
    two = await account.write("Two", "second")
    async with running(channel, inbox):
        heard = await inbox.wait(2)
    assert heard[-1].key == two
    assert "<old@x>" not in {event.key for event in heard}
    assert inbox.repeats[heard[0].key] == 1
    assert json.loads(inbox.at)["uidvalidity"] == cursor["uidvalidity"]


async def test_mail_stays_unread_unless_that_is_configured(account: Account, tmp_path: Path) -> None:
    for mark_seen, flagged in ((False, False), (True, True)):
        inbox, channel = KeptInbox(tmp_path), account.channel(mark_seen=mark_seen)
        async with running(channel, inbox):
            await account.write("One", "read me")
            await inbox.wait(1)
            if mark_seen:
                await account.write("Two", "and me")
                await inbox.wait(2)
        with account.imap() as client:
            client.select("INBOX", readonly=True)
            _, seen = client.search(None, "SEEN")
        assert bool(seen[0]) is flagged


async def test_a_mail_that_is_too_large_tells_its_words_and_names_its_files(account: Account, tmp_path: Path) -> None:
    inbox, channel = KeptInbox(tmp_path), account.channel(mail_limit=2_000_000)
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = account.ada.address, account.address, "Film"
    mail["Authentication-Results"] = f"localhost; auth=pass smtp.auth={account.ada.address}"
    mail.set_content("see attached")
    mail.add_attachment(b"x" * 3_000_000, maintype="video", subtype="mp4", filename="cat.mp4")
    async with running(channel, inbox):
        await account.ada.send(mail)
        [heard] = await inbox.wait(1)
    assert heard.text.startswith("Subject: Film\n\nsee attached")
    [file] = heard.files
    assert file.name == "cat.mp4"
    assert "which is more than is read" in getattr(file, "why", "")


async def test_a_thread_is_found_again_in_the_mailbox_by_a_gateway_that_has_forgotten_it(
    account: Account, tmp_path: Path
) -> None:
    inbox, channel = KeptInbox(tmp_path), account.channel()
    async with running(channel, inbox):
        asked = await account.write("Engines", "How far are they?")
        await account.write("Other", "Something else")
        first, _ = await inbox.wait(2)
    await account.channel().send(post("later", first.address, "The job is done."))
    [mail] = await account.ada.wait(1)
    assert (mail["In-Reply-To"], mail["References"], mail["Subject"]) == (asked, asked, "Re: Engines")
    assert "thread" not in str(mail["To"])


async def test_a_forged_sender_is_nobody_that_is_known(account: Account, tmp_path: Path) -> None:
    inbox, channel = KeptInbox(tmp_path), account.channel()
    async with running(channel, inbox):
        await account.write("Hi", "it is me", Authentication_Results="evil.org; dmarc=pass header.from=localhost")
        [heard] = await inbox.wait(1)
    assert heard.sender is not None
    assert heard.sender.id == f"unverified:{account.ada.address}"


async def test_a_wrong_password_is_denied_and_a_server_that_is_away_is_offline(
    account: Account, tmp_path: Path
) -> None:
    with pytest.raises(Denied, match="app password"):
        await account.channel(password="wrong").run(KeptInbox(tmp_path))
    with pytest.raises(Denied, match="Set mailbox"):
        await account.channel(mailbox="Nowhere").run(KeptInbox(tmp_path))
    with pytest.raises(Offline, match="localhost"):
        await account.channel(ca_file=None).run(KeptInbox(tmp_path))  # a certificate that nobody trusts


async def test_a_server_that_dies_is_offline_and_what_came_meanwhile_is_told_after(tmp_path: Path) -> None:
    with Mail(tmp_path / "server") as server:
        account, inbox = Account(server), KeptInbox(tmp_path / "kept")
        channel = account.channel()
        async with running(channel, inbox) as task:
            server.dovecot.kill()
            with pytest.raises(Offline):
                await asyncio.wait_for(task, 60)
        await account.write("One", "meanwhile")
        server.restart()
        async with running(channel, inbox):
            [heard] = await inbox.wait(1)
    assert heard.text.endswith("meanwhile")


@pytest.mark.parametrize("mode", ["starttls", "none"])
async def test_other_ways_to_be_protected(account: Account, tmp_path: Path, mode: str) -> None:
    server = account.server
    inbox = KeptInbox(tmp_path)
    channel = account.channel(
        imap_tls=mode, smtp_tls=mode, imap_port=server.imap_port, smtp_port=server.smtp_port, allow_plaintext=True
    )
    async with running(channel, inbox):
        receipt = await channel.send(post(f"k-{mode}", account.ada.address))
        [echo] = await inbox.wait(1)
    assert echo.of == receipt.id


async def test_hostile_mails_lie_there_and_the_next_one_is_heard(account: Account, tmp_path: Path) -> None:
    inbox, channel = KeptInbox(tmp_path), account.channel()
    hostile = [
        b"",
        b"\x00\xff\xfe",
        b"no header at all",
        b"From: \r\nSubject: =?utf-8?b?////?=\r\n\r\n\x00",
        b"From: a@b.c\r\nContent-Type: multipart/mixed\r\n\r\n--x\r\n",
        b'From: a@b.c\r\nContent-Type: text/plain; charset="\xff"\r\nContent-Transfer-Encoding: base64\r\n\r\n!!!!',
        b"From: a@b.c\r\n" + b"X: y\r\n" * 20_000 + b"\r\nbody",
    ]
    async with running(channel, inbox):
        for one in hostile:
            await account.ada.raw(one, account.address)
        good = await account.write("Hi", "still there?")
        heard = await inbox.wait(len(hostile) + 1)
    assert heard[-1].key == good
    assert {event.kind for event in heard[:-1]} <= {"unreadable", "message"}


async def test_a_bounce_is_a_failure_of_the_mail_that_the_server_had_taken(account: Account, tmp_path: Path) -> None:
    inbox, channel = KeptInbox(tmp_path), account.channel()
    async with running(channel, inbox):
        receipt = await channel.send(post("k1", account.ada.address))
        [copy] = await inbox.wait(1)
        assert (copy.kind, copy.key) == ("echo", "k1")
        report = (
            f"From: MAILER-DAEMON@localhost\r\nMessage-ID: <bounce-of-k1@localhost>\r\nTo: {account.address}\r\n"
            "Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n"
            "--b\r\nContent-Type: text/plain\r\n\r\nSorry.\r\n"
            "--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; localhost\r\n\r\n"
            f"Final-Recipient: rfc822; {account.ada.address}\r\nAction: failed\r\nStatus: 5.2.2\r\n"
            "Diagnostic-Code: smtp; 552 mailbox full\r\n\r\n"
            f"--b\r\nContent-Type: text/rfc822-headers\r\n\r\nMessage-ID: {receipt.id}\r\n\r\n--b--\r\n"
        ).encode()
        await account.ada.raw(report, account.address)
        *_, failed = await inbox.wait(2)
    assert (failed.kind, failed.of, failed.key) == ("failed", "k1", "<bounce-of-k1@localhost>")
    assert failed.text == f"{account.ada.address}: 5.2.2 552 mailbox full"
