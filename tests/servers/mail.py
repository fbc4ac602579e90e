"""A real mail server, and people with mailboxes on it: Dovecot (IMAP), and aiosmtpd that delivers into its Maildirs.

    with Mail(tmp_path) as server:                     # bot@localhost, alice@localhost, bob@localhost, password "pw"
        server.imap_port, server.smtp_port             # plain, with STARTTLS; user name: the part before the @
        server.imaps_port, server.smtps_port           # TLS from the first byte; CERTIFICATE (server_process) is the CA
        alice = server.user("alice")
        id = await alice.write("bot@localhost", "Subject", "text")    # its Message-ID; also Message objects: alice.send
        await alice.wait(1)                            # until so many mails are there: [EmailMessage]
        await alice.mails()                            # all of them, by IMAP, oldest first; mails("Sent")
        server.transactions()                          # [{"from", "to", "id", "answer", "kept"}]: each DATA that ended
        server.plan({"answer": "451 4.7.1 later"})     # to the next mail; not kept
        server.plan({"drop": True}, {"hang": True})    # kept, and the answer is lost; kept, and no answer ever
        server.dovecot.kill(); server.restart()        # on the same ports, with the same mailboxes

`kept` in a step overrules whether the mail is delivered. `Mail(home, tls="required")` takes no password in the clear;
`tls="none"` has no certificate at all.
"""

from __future__ import annotations

import asyncio
import email
import email.policy
import email.utils
import imaplib
import json
import os
import shutil
import smtplib
import sys
import tempfile
from email.message import EmailMessage
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from server_process import CERTIFICATE, ServerProcess, free_ports, how, installed, started

HERE = Path(__file__).parent
NOBODY = 65534
CONFIG = """
{libraries}
base_dir = {run}
state_dir = {run}
instance_name = semel-tests
protocols = imap
listen = 127.0.0.1
log_path = {home}/dovecot.log
default_internal_user = root
default_internal_group = root
default_login_user = nobody
disable_plaintext_auth = {required}
{ssl}
mail_plugin_dir = /usr/lib/dovecot/modules
libexec_dir = /usr/lib/dovecot
mail_location = maildir:{home}/users/%n/Maildir
mail_fsync = never
mail_max_userip_connections = 100
first_valid_uid = 1
auth_failure_delay = 0
passdb {{
  driver = static
  args = password=pw
}}
userdb {{
  driver = static
  args = uid={uid} gid={uid} home={home}/users/%n
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = {imaps}
    ssl = {imaps_ssl}
  }}
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
service auth {{
  user = root
}}
service auth-worker {{
  user = root
}}
namespace inbox {{
  inbox = yes
  mailbox Sent {{
    auto = create
    special_use = \\Sent
  }}
}}
"""


class Mail:
    """A mail server for `localhost`. `home`, which is made, has a link to what it needs: that stands in a short path of
    its own, since names of sockets have at most 107 bytes, and pytest closes its folders to Dovecot's user."""

    def __init__(
        self,
        home: Path,
        accounts: tuple[str, ...] = ("bot", "alice", "bob"),
        *,
        tls: Literal["none", "offered", "required"] = "offered",
    ) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="mail-"))
        home.mkdir(parents=True, exist_ok=True)
        (home / "mail").symlink_to(self.home)
        self._installed = installed("dovecot", "email")
        self._accounts, self._tls = accounts, tls
        self.imap_port = self.imaps_port = self.smtp_port = self.smtps_port = 0

    def __repr__(self) -> str:
        return f"<Mail imap 127.0.0.1:{self.imap_port} smtp 127.0.0.1:{self.smtp_port}>"

    def __enter__(self) -> Mail:
        for folder in ("run", "users"):
            (self.home / folder).mkdir(parents=True)
        for name in self._accounts:
            self.register(name)
        self._reachable()
        self.dovecot = started(self._first_dovecot)
        try:
            self.smtp = started(self._first_smtp)
        except BaseException:
            self.dovecot.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.smtp.kill()
        self.dovecot.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def register(self, name: str) -> None:
        """One account more; also while it runs."""
        folder = self.home / "users" / name
        folder.mkdir(parents=True, exist_ok=True)
        os.chown(folder, NOBODY, NOBODY)

    def _reachable(self) -> None:
        """Dovecot opens mailboxes as another user, who must get as far as here."""
        for folder in (self.home, *self.home.parents):
            if folder.stat().st_uid == os.getuid() and not folder.stat().st_mode & 0o001:
                folder.chmod(folder.stat().st_mode | 0o011)

    def _first_dovecot(self) -> ServerProcess:
        self.imap_port, self.imaps_port = free_ports(2)
        pem = self.home / "localhost.pem"
        pem.write_bytes(CERTIFICATE.read_bytes())
        with_tls = self._tls != "none"
        root = self._installed / "root"
        libraries = f"LD_LIBRARY_PATH={root}/usr/lib/dovecot" if how(self._installed) == "overlay" else ""
        config = CONFIG.format(
            home=self.home,
            run=self.home / "run",
            uid=NOBODY,
            imap=self.imap_port,
            imaps=self.imaps_port if with_tls else 0,
            imaps_ssl="yes" if with_tls else "no",
            required="yes" if self._tls == "required" else "no",
            ssl=f"ssl = yes\nssl_cert = <{pem}\nssl_key = <{pem}" if with_tls else "ssl = no",
            libraries=f"import_environment = TZ {libraries}",
        )
        (self.home / "dovecot.conf").write_text(config)
        return self._start_dovecot()

    def _start_dovecot(self) -> ServerProcess:
        command: list[str | Path] = ["/usr/sbin/dovecot", "-F", "-c", self.home / "dovecot.conf"]
        if how(self._installed) == "overlay":
            usr = self._installed / "root/usr"
            mount = f"mount -t overlay overlay -o 'lowerdir={usr}:/usr' /usr && exec \"$@\""
            command = ["unshare", "-m", "sh", "-c", mount, "sh", *command]
        ports = [self.imap_port] + ([self.imaps_port] if self._tls != "none" else [])
        return ServerProcess(command, ports, self.home / "dovecot.out")

    def _first_smtp(self) -> ServerProcess:
        self.smtp_port, self.smtps_port = free_ports(2)
        return self._start_smtp()

    def _start_smtp(self) -> ServerProcess:
        settings: dict[str, Any] = {"port": self.smtp_port, "home": str(self.home), "owner": [NOBODY, NOBODY]}
        ports = [self.smtp_port]
        if self._tls != "none":
            settings |= {"tls_port": self.smtps_port, "certificate": str(CERTIFICATE), "tls": self._tls}
            ports.append(self.smtps_port)
        command = [sys.executable, HERE / "smtp_process.py", json.dumps(settings)]
        return ServerProcess([str(each) for each in command], ports, self.home / "smtp.out")

    def restart(self) -> None:
        """What was killed or stopped: again, with the same mailboxes, on the same ports."""
        if self.dovecot.over:
            self.dovecot = self._start_dovecot()
        if self.smtp.over:
            self.smtp = self._start_smtp()

    def user(self, name: str) -> MailUser:
        return MailUser(self, name)

    def plan(self, *steps: dict[str, Any] | None) -> None:
        """What happens to the next mails, in order; None: nothing special. It replaces what was planned."""
        part = self.home / "smtp.plan.new"
        part.write_text(json.dumps(steps))
        part.rename(self.home / "smtp.plan")

    def transactions(self) -> list[dict[str, Any]]:
        """Every SMTP transaction whose text came to its end, oldest first."""
        try:
            lines = (self.home / "smtp.log").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]


class MailUser:
    """A person with a mailbox. Every method is async and does not block the loop."""

    def __init__(self, server: Mail, name: str) -> None:
        self.server, self.name, self.address = server, name, f"{name}@localhost"

    def __repr__(self) -> str:
        return f"<MailUser {self.address}>"

    async def write(self, to: str, subject: str, text: str, **headers: str) -> str:
        """A plain mail; its Message-ID. `headers`: `in_reply_to="<...>"` and the like; "_" stands for "-"."""
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = self.address, to, subject
        for name, value in headers.items():
            mail[name.replace("_", "-")] = value
        mail.set_content(text)
        return await self.send(mail, to)

    async def send(self, mail: EmailMessage, *to: str) -> str:
        """Any mail, to these addresses (or those of its To and Cc); its Message-ID."""
        if "message-id" not in mail:
            mail["Message-ID"] = email.utils.make_msgid(domain="localhost")
        if "date" not in mail:
            mail["Date"] = email.utils.localtime()
        await asyncio.to_thread(self._send, mail, to)
        return str(mail["message-id"])

    def _send(self, mail: EmailMessage, to: tuple[str, ...]) -> None:
        with smtplib.SMTP("127.0.0.1", self.server.smtp_port, timeout=30) as client:
            if self.server._tls == "required":
                client.starttls()
            client.send_message(mail, self.address, to or None)

    async def raw(self, content: bytes, *to: str) -> None:
        """Bytes that need not be a mail, as they are, into these people's mailboxes."""
        await asyncio.to_thread(self._raw, content, to)

    def _raw(self, content: bytes, to: tuple[str, ...]) -> None:
        with smtplib.SMTP("127.0.0.1", self.server.smtp_port, timeout=30) as client:
            if self.server._tls == "required":
                client.starttls()
            client.sendmail(self.address, to, content)

    async def mails(self, mailbox: str = "INBOX") -> list[EmailMessage]:
        """All of a mailbox, oldest first."""
        return await asyncio.to_thread(self._mails, mailbox)

    def _mails(self, mailbox: str) -> list[EmailMessage]:
        with imaplib.IMAP4("127.0.0.1", self.server.imap_port, timeout=30) as client:
            if self.server._tls == "required":
                client.starttls()
            client.login(self.name, "pw")
            status, _ = client.select(mailbox, readonly=True)
            assert status == "OK", f"there is no mailbox {mailbox}"
            _, found = (
                client.fetch("1:*", "(BODY.PEEK[])") if client.untagged_responses["EXISTS"] != [b"0"] else ("", [])
            )
            contents = [each[1] for each in found if isinstance(each, tuple)]
        return [email.message_from_bytes(each, policy=email.policy.default) for each in contents]  # type: ignore[misc]

    async def wait(self, count: int, mailbox: str = "INBOX", seconds: float = 60.0) -> list[EmailMessage]:
        """Until so many mails are in the mailbox. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while len(found := await self.mails(mailbox)) < count:  # noqa: ASYNC110 (it is asked, it does not tell)
                await asyncio.sleep(0.05)
        return found
