"""Mails that are made to keep the gateway busy, or to fill its disk."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from imap_script import imap
from letters import heard, mail, raw
from test_mail_line import channel, running

from semel.channels.email.receive import FIRST_FETCH_BYTES
from semel.testing.inbox import KeptInbox


@pytest.mark.parametrize("charset", ["punycode", "PUNYCODE", "idna", "unicode_escape", "undefined", "zlib_codec"])
def test_a_codec_that_is_no_charset_is_not_used(charset: str) -> None:
    words = b"a" * 150_000 + b"-" + b"b" * 150_000
    begin = time.process_time()
    letter = heard(raw(f"From: ada@people.org\nContent-Type: text/plain; charset={charset}\n", words))
    assert time.process_time() - begin < 2.0
    assert (letter.files[0].name, letter.files[0].content) == ("whole-text.txt", words)


async def test_of_an_unreadable_mail_that_names_nobody_only_the_beginning_is_kept(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path)
    bomb = b"To: semel@example.org\r\nMessage-ID: <1@x>\r\n\r\n" + b"x" * 3 * FIRST_FETCH_BYTES
    async with imap() as server, running(channel(server.port), inbox):
        await inbox.wait_online()
        server.add(bomb)
        await inbox.wait(1)
        server.add(bytes(mail("behind", message_id="<2@people.org>")))
        odd, behind = await inbox.wait(2)
    assert (odd.kind, len(odd.raw), behind.text[-6:]) == ("unreadable", FIRST_FETCH_BYTES, "behind")
    assert "all of it in the mailbox" in odd.why
