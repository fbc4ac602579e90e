"""What is told of a mail: its words, its files, who wrote it, and which conversation it belongs to."""

from __future__ import annotations

import pytest
from letters import heard, mail, raw, settings

from semel.channels.email.parse import ParsedMail, parse_mail
from semel.channels.email.parse_body import MAX_TEXT_CHARS

OURS = "<semel.0f9a.1f0c9a1e52d4b687@example.org>"


def test_a_new_mail_begins_a_conversation_of_its_own_and_its_subject_is_part_of_what_it_says() -> None:
    letter = heard(mail("How far are the engines?"))
    assert (letter.kind, letter.key, letter.text) == (
        "message",
        "<1@people.org>",
        "Subject: Engines\n\nHow far are the engines?",
    )
    assert letter.address.startswith("ada@people.org:thread-")
    assert letter.sender is not None
    assert (letter.sender.id, letter.sender.name, letter.sender.bot) == ("ada@people.org", "Ada Lovelace", False)
    assert (letter.title, letter.group, letter.mentioned, letter.of) == ("Engines", False, True, None)
    assert letter.at == 1795255200.0


def test_a_mail_without_words_says_its_subject() -> None:
    assert heard(mail("", subject="Call me")).text == "Call me"


def test_an_answer_to_her_own_mail_stays_in_the_conversation() -> None:
    first = heard(mail())
    second = heard(mail("One more thing", message_id="<2@people.org>", in_reply_to="<1@people.org>"))
    third = heard(
        mail(
            "And", message_id="<3@people.org>", in_reply_to="<2@people.org>", references="<1@people.org> <2@people.org>"
        )
    )
    assert first.address == second.address == third.address
    assert (second.of, third.of, second.text) == ("<1@people.org>", "<2@people.org>", "One more thing")


def test_an_answer_to_our_mail_finds_its_conversation_by_our_message_id_alone() -> None:
    letter = heard(mail("Yes", in_reply_to=OURS))
    assert letter.address == "ada@people.org:thread-1f0c9a1e52d4b687"
    assert letter.mentioned


def test_an_answer_to_a_mail_that_began_no_thread_goes_to_the_bare_address() -> None:
    assert heard(mail("Yes", in_reply_to="<semel.0f9a@example.org>")).address == "ada@people.org"


def test_another_persons_answer_in_the_thread_is_a_conversation_of_theirs() -> None:
    letter = heard(mail("Me too", in_reply_to=OURS, **{"from": "Bob <bob@people.org>"}))
    assert letter.address == "bob@people.org:thread-1f0c9a1e52d4b687"


def test_message_ids_that_look_like_ours_at_another_domain_are_not_ours() -> None:
    letter = heard(mail("Yes", in_reply_to="<semel.0f9a.1f0c9a1e52d4b687@elsewhere.org>"))
    assert letter.address != "ada@people.org:thread-1f0c9a1e52d4b687"


def test_a_copy_of_our_own_mail_is_an_echo_of_its_part() -> None:
    letter = heard(mail("Hi", message_id=OURS, **{"from": "Semel <Semel@Example.org>"}))
    assert (letter.kind, letter.key, letter.of) == ("echo", "0f9a", OURS)


def test_a_mail_of_somebody_else_is_never_taken_for_our_echo() -> None:
    assert heard(mail("Hi", message_id=OURS)).kind == "message"


# ---------------------------------------------------------------- words


def test_what_is_quoted_below_an_answer_to_us_is_left_out_and_said_so() -> None:
    letter = heard(
        mail(
            "Ship it.\n\nOn Sat, 21 Nov 2026 at 10:00, Semel <semel@example.org> wrote:\n> Shall I?\n>\n> Yours",
            in_reply_to=OURS,
        )
    )
    assert letter.text == "Ship it.\n\n[4 lines of earlier mail, quoted below this, are left out]"


@pytest.mark.parametrize(
    "below",
    [
        "-----Original Message-----\nFrom: Semel\nTo: Ada\nSubject: x\n\nShall I?",
        "____________________\nFrom: Semel <semel@example.org>\nSent: Now\nTo: Ada\nSubject: Re: x\n\nShall I?",
        "\nVon: Semel <semel@example.org>\nGesendet: Samstag\nAn: Ada\nBetreff: AW: x\n\nShall I?",
        "Am 21.11.26 um 10:00 schrieb Semel:\n> Shall I?",
        "On Sat, 21 Nov 2026 at 10:00, Semel\n<semel@example.org> wrote:\n\n> Shall I?\n\n",
    ],
)
def test_the_quotations_of_common_programs_are_known(below: str) -> None:
    text = heard(mail(f"Ship it.\n\n{below}", in_reply_to=OURS)).text
    assert text.startswith("Ship it.\n\n[") and "Shall I?" not in text


def test_answers_between_quoted_lines_stay_where_they_are() -> None:
    words = "> Shall I?\n\nYes.\n\n> When?\n\nNow."
    assert heard(mail(words, in_reply_to=OURS)).text == words


def test_a_quotation_that_we_never_saw_is_kept() -> None:
    words = "See below.\n\nOn Friday, Bob <bob@people.org> wrote:\n> The plan"
    assert "The plan" in heard(mail(words, in_reply_to="<7@people.org>")).text


def test_what_is_forwarded_is_kept_though_the_thread_is_ours() -> None:
    words = "FYI\n\n-----Original Message-----\nFrom: Bob\nTo: Ada\nSubject: x\n\nThe plan"
    assert "The plan" in heard(mail(words, in_reply_to=OURS, subject="Fwd: x")).text


def test_a_mail_of_nothing_but_a_quotation_says_that() -> None:
    assert heard(mail("> Shall I?", in_reply_to=OURS)).text == "> Shall I?"


def test_quotations_are_kept_where_that_is_configured() -> None:
    assert "Shall I?" in heard(mail("Yes\n> Shall I?", in_reply_to=OURS), quotes="keep").text


@pytest.mark.parametrize(
    "words", ["/stop", "/stop\n\n-- \nAda Lovelace\nAnalyst", "/stop\n\nSent from my engine", "\n\n/stop  \n"]
)
def test_a_command_is_a_command_though_a_signature_stands_below_it(words: str) -> None:
    assert heard(mail(words)).text == "/stop"


def test_a_pairing_code_is_given_without_the_subject() -> None:
    assert heard(mail("7K3M-9QXZ\n-- \nAda")).text == "7K3M-9QXZ"


def test_a_pairing_code_from_a_sender_that_is_not_verified_is_none() -> None:
    letter = heard(mail("7K3M-9QXZ", authentication_results=None))
    assert "7K3M" not in letter.text
    assert heard(mail("/pair 7K3M-9QXZ", authentication_results=None)).text == letter.text


def test_flowed_lines_are_put_together() -> None:
    body = b"A long line that \r\ngoes on.\r\n> quoted \r\n> too\r\n-- \r\nAda\r\n"
    letter = heard(raw("Content-Type: text/plain; format=flowed", body))
    assert letter.text == "A long line that goes on.\n> quoted too\n--\nAda"


@pytest.mark.parametrize(
    ("charset", "body", "words"),
    [
        ("iso-8859-1", "Größe".encode("latin-1"), "Größe"),
        ("koi8-r", "Привет".encode("koi8-r"), "Привет"),
        ("gb2312", "你好".encode("gb18030"), "你好"),
        ("x-unknown", "Größe".encode(), "Größe"),
        ("utf-8", "Größe".encode("latin-1"), "Größe"),
        ("rot13", b"plain", "plain"),
        ("zlib", b"plain", "plain"),
        ("us-ascii", "naïve".encode(), "naïve"),
    ],
)
def test_charsets_are_read_as_they_are_or_as_they_look(charset: str, body: bytes, words: str) -> None:
    assert heard(raw(f"Content-Type: text/plain; charset={charset}", body)).text == words


def test_control_characters_and_broken_encodings_are_no_trouble() -> None:
    letter = heard(
        raw("Content-Transfer-Encoding: base64\nSubject: =?utf-8?b?w?=\x07=?x?q?a?=", b"SGVsbG8\0\x07 d29ybGQ")
    )
    assert letter.kind == "message"
    assert "\x07" not in letter.text + letter.title


def test_encoded_subjects_and_names_are_read() -> None:
    letter = heard(raw("Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?= =?utf-8?b?IGFuIA==?= alle", b"Hi"))
    assert letter.title == "Grüße an alle"
    named = heard(b"From: =?utf-8?b?w4RkYQ==?= <ada@people.org>\r\nMessage-ID: <1@x>\r\n\r\nHi")
    assert named.sender is not None
    assert named.sender.name == "Äda"


# ---------------------------------------------------------------- HTML


def test_a_mail_of_html_alone_is_read_as_a_person_saw_it() -> None:
    one = mail()
    one.set_content(
        "<html><head><style>p {color: red}</style></head><body><div style='display:none'>hidden words</div>"
        "<p>Dear&nbsp;Semel,<br>see <a href='https://people.org/plan'>the plan</a>.</p><ul><li>one<li>two</ul>"
        "<script>alert(1)</script><blockquote>as you said</blockquote></body></html>",
        subtype="html",
    )
    assert heard(one).text == (
        "Subject: Engines\n\nDear Semel,\nsee the plan (https://people.org/plan).\n\n- one\n- two\n\n> as you said"
    )


def test_the_plain_text_is_taken_where_there_are_both() -> None:
    one = mail("plain words")
    one.add_alternative("<p>formatted words</p>", subtype="html")
    assert heard(one).text == "Subject: Engines\n\nplain words"


def test_the_html_is_taken_where_the_plain_text_says_nothing() -> None:
    one = mail(" \n")
    one.add_alternative("<p>formatted words</p>", subtype="html")
    assert heard(one).text == "Subject: Engines\n\nformatted words"


# ---------------------------------------------------------------- files


def test_files_are_kept_and_their_names_lead_nowhere() -> None:
    one = mail("see attached")
    one.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="../../etc/Größe.pdf")
    one.add_attachment("more words", filename="notes.txt")
    letter = heard(one)
    assert letter.text == "Subject: Engines\n\nsee attached"
    assert [(file.name, file.mime, file.content) for file in letter.files] == [
        ("Größe.pdf", "application/pdf", b"%PDF"),
        ("notes.txt", "text/plain", b"more words\r\n"),
    ]


def test_pictures_inside_invitations_and_strange_containers_are_files() -> None:
    one = mail("plain")
    one.add_alternative("<img src=cid:a alt='A cat'>", subtype="html")
    parts = one.get_payload()
    assert isinstance(parts, list)
    parts[1].add_related(b"\x89PNG", "image", "png", cid="<a>")
    one.add_alternative(b"BEGIN:VCALENDAR", maintype="text", subtype="calendar")
    one.add_attachment(b"\x78\x9f", maintype="application", subtype="ms-tnef", filename="winmail.dat")
    assert sorted(file.name for file in heard(one).files) == ["file.png", "invite.ics", "winmail.dat"]


def test_a_mail_that_is_attached_is_a_file() -> None:
    one = mail("see")
    one.add_attachment(mail("inner words"))
    [file] = heard(one).files
    assert (file.name, file.mime) == ("mail.eml", "message/rfc822")
    assert file.content is not None and b"inner words" in file.content


def test_signatures_of_programs_are_no_files() -> None:
    body = b'--b\r\n\r\nwords\r\n--b\r\nContent-Type: application/pgp-signature; name="signature.asc"\r\n\r\nX\r\n--b--'
    letter = heard(raw("Content-Type: multipart/signed; boundary=b", body))
    assert (letter.text, letter.files) == ("words", ())


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (
            "multipart/encrypted; boundary=b",
            b"--b\r\nContent-Type: application/pgp-encrypted\r\n\r\nVersion: 1\r\n--b\r\n"
            b"Content-Type: application/octet-stream; name=encrypted.asc\r\n\r\n-----BEGIN PGP\r\n--b--",
        ),
        ("application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m", b"MIIB"),
    ],
)
def test_an_encrypted_mail_says_that_it_cannot_be_read_and_is_kept(kind: str, body: bytes) -> None:
    letter = heard(raw(f"Content-Type: {kind}", body))
    assert "encrypted" in letter.text and "cannot be read" in letter.text
    assert len(letter.files) == 1


def test_a_very_long_text_is_told_as_far_as_it_fits_and_kept_whole() -> None:
    letter = heard(mail("word " * 20_000))
    assert len(letter.text) < MAX_TEXT_CHARS + 200
    assert letter.files[-1].name == "whole-text.txt"
    assert len(letter.files[-1].content or b"") > 99_000


def test_of_a_mail_that_is_too_large_the_words_are_read_and_the_files_are_named() -> None:
    one = mail("see attached")
    one.add_attachment(b"x" * 300_000, maintype="image", subtype="png", filename="cat.png")
    letter = parse_mail(bytes(one)[:50_000], settings(), size=len(bytes(one)))
    assert letter.text.startswith("Subject: Engines\n\nsee attached\n\n[This mail is too large")
    [file] = letter.files
    assert (file.name, file.content) == ("cat.png", None)
    assert "kB, which is more than is read" in file.reason


# ---------------------------------------------------------------- who can read it


def test_a_mail_to_several_is_one_of_a_group_and_names_us_where_it_is_addressed_to_us() -> None:
    to_us = heard(mail(to="semel@example.org, Bob <bob@people.org>"))
    assert (to_us.group, to_us.mentioned, to_us.data["others"]) == (True, True, ["bob@people.org"])
    copied = heard(mail(to="bob@people.org", cc="Semel <SEMEL@example.org>"))
    assert (copied.group, copied.mentioned) == (True, False)
    blind = heard(mail(to="bob@people.org"))
    assert (blind.group, blind.mentioned) == (True, False)


def test_aliases_and_where_it_was_delivered_are_us() -> None:
    assert not heard(mail(to="help@example.org"), aliases=["help@example.org"]).group
    assert not heard(mail(to="help@example.org", delivered_to="help@example.org")).group


# ---------------------------------------------------------------- programs


@pytest.mark.parametrize(
    "header",
    [
        {"auto_submitted": "auto-replied"},
        {"auto_submitted": "auto-generated; owner=x"},
        {"precedence": "Bulk"},
        {"list_id": "<news.people.org>"},
        {"list_unsubscribe": "<mailto:off@people.org>"},
        {"return_path": "<>"},
        {"x_autoreply": "yes"},
        {"from": "noreply@people.org"},
        {"from": "MAILER-DAEMON@people.org"},
    ],
)
def test_what_a_program_sent_is_a_bots(header: dict[str, str]) -> None:
    letter = heard(mail("I am away", **header))
    assert letter.sender is not None
    assert letter.sender.bot
    assert letter.data["automatic"]


def test_a_person_is_no_bot() -> None:
    letter = heard(mail("Hi", auto_submitted="no", return_path="<ada@people.org>"))
    assert letter.sender is not None
    assert not letter.sender.bot


DSN = b"""--b\r
Content-Type: text/plain\r
\r
Sorry.\r
--b\r
Content-Type: message/delivery-status\r
\r
Reporting-MTA: dns; mx.example.org\r
\r
Final-Recipient: rfc822; ada@people.org\r
Action: failed\r
Status: 5.1.1\r
Diagnostic-Code: smtp; 550 5.1.1 no such\r
 user\r
\r
--b\r
Content-Type: text/rfc822-headers\r
\r
From: semel@example.org\r
Message-ID: %s\r
\r
--b--\r
"""
REPORT = "Content-Type: multipart/report; report-type=delivery-status; boundary=b"


def bounced(*changes: tuple[bytes, bytes]) -> ParsedMail:
    """What is told of the report, with those changes."""
    one = DSN % OURS.encode()
    for old, new in changes:
        assert old in one
        one = one.replace(old, new)
    head = b"From: MAILER-DAEMON@mx.example.org\r\nMessage-ID: <b@mx>\r\n" + REPORT.encode()
    return heard(head + b"\r\n\r\n" + one)


def test_a_bounce_is_a_failure_of_the_mail_that_it_is_about() -> None:
    letter = bounced()
    assert (letter.kind, letter.key, letter.of) == ("failed", "<b@mx>", OURS)
    assert letter.text == "ada@people.org: 5.1.1 550 5.1.1 no such user"
    assert f"<semel.{letter.data['key']}.1f0c9a1e52d4b687@example.org>" == OURS


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (b"Action: FAILED\r\nStatus: 4.4.7", "failed"),  # given up, for a passing reason
        (b"Action: delayed\r\nStatus: 4.4.1", "bounce"),
        (b"Action: relayed\r\nStatus: 2.0.0", "bounce"),
        (b"Action: delivered\r\nStatus: 5.0.0", "bounce"),
        (b"Status: 5.1.1", "failed"),
        (b"Status: 4.4.1", "bounce"),
        (b"Action: nonsense", "bounce"),
    ],
)
def test_only_what_says_that_it_failed_is_a_failure(told: bytes, kind: str) -> None:
    assert bounced((b"Action: failed\r\nStatus: 5.1.1", told)).kind == kind


def test_of_several_recipients_the_one_that_is_not_us_counts() -> None:
    other = b"Final-Recipient: rfc822; semel@example.org\r\nAction: %s\r\nStatus: 2.0.0\r\n\r\nFinal-Recipient:"
    both = bounced((b"Final-Recipient:", other % b"delivered"))
    assert (both.kind, both.text[:21]) == ("failed", "ada@people.org: 5.1.1")
    ours = bounced(
        (b"Final-Recipient:", other % b"failed"), (b"Action: failed\r\nStatus: 5", b"Action: delayed\r\nStatus: 4")
    )
    assert ours.kind == "bounce"


def test_a_report_about_an_id_that_nobody_gave_is_told_as_it_is() -> None:
    """Whoever makes one up does not know a key: the gateway finds no part of that one."""
    letter = bounced((OURS.encode(), b"<semel.guess@example.org>"))
    assert (letter.kind, letter.data["key"]) == ("failed", "guess")


def test_a_report_that_is_late_speaks_in_nobodys_conversation() -> None:
    letter = bounced((b"Action: failed", b"Action: delayed"))
    assert (letter.kind, letter.of) == ("bounce", OURS)
    assert letter.text.startswith("This mail was not delivered to ada@people.org yet")
    assert (letter.sender, letter.address) == (None, ""), "whoever mailed it is not who it was for"


def test_a_bounce_of_a_mail_that_is_not_ours_is_a_mail_of_a_program() -> None:
    letter = heard(raw(REPORT, DSN % b"<x@people.org>"))
    assert letter.kind == "message"


# ---------------------------------------------------------------- identity


def test_a_mail_without_a_message_id_is_the_same_one_when_it_is_delivered_twice() -> None:
    first = heard(b"Received: from a\r\n\tby b\r\nFrom: ada@people.org\r\n\r\nHi")
    again = heard(b"Received: from c\r\nX-Spam: no\r\nFrom: ada@people.org\r\n\r\nHi")
    other = heard(b"Received: from a\r\nFrom: ada@people.org\r\n\r\nHo")
    assert first.key == again.key != other.key
    assert first.key.startswith("hash:")


def test_a_mail_that_nobody_sent_is_unreadable_and_kept() -> None:
    letter = heard(b"Subject: x\r\n\r\nHi")
    assert (letter.kind, letter.raw) == ("unreadable", b"Subject: x\r\n\r\nHi")


def test_parts_without_end_are_read_as_far_as_it_goes() -> None:
    deep = b"From: ada@people.org\r\n"
    for n in range(150):
        deep += b'Content-Type: multipart/mixed; boundary="b%d"\r\n\r\n--b%d\r\n' % (n, n)
    assert heard(deep + b"\r\nwords").kind == "message"
    deeper = deep + b'Content-Type: multipart/mixed; boundary="c"\r\n\r\n--c\r\n' * 100
    assert (heard(deeper).kind, heard(deeper).reason) == ("unreadable", "its parts are nested too deeply")
    wide = b"From: ada@people.org\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b\r\n\r\nx\r\n" * 3000
    letter = heard(wide)
    assert letter.kind == "message"
    assert "[This mail is too large" in letter.text
