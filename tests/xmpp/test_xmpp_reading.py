"""One stanza, as a note of what somebody did; and who they are in a room."""

from __future__ import annotations

from xml.etree.ElementTree import Element, fromstring

import pytest

from semel.channels.xmpp.archive import OWN, ArchiveCursor, ArchivePosition
from semel.channels.xmpp.parse import ParsedStanza, parse_message
from semel.channels.xmpp.rooms import Occupant, XmppRoom
from semel.gateway.ports import Person

ME = "bot@localhost"
ROOM = "lobby@muc.localhost"
USER = "http://jabber.org/protocol/muc#user"


def message(inside: str = "", *, type: str = "chat", source: str = "alice@localhost/phone") -> Element:
    return fromstring(
        f"<message xmlns='jabber:client' type='{type}' from='{source}' to='{ME}' id='w1'>{inside}</message>"
    )


def presence(nick: str, *, jid: str = "", id: str = "", codes: tuple[str, ...] = (), type: str = "") -> Element:
    address = f"jid='{jid}'" if jid else ""
    item = f"<item affiliation='none' role='participant' {address}/>"
    status = "".join(f"<status code='{code}'/>" for code in codes)
    occupant = f"<occupant-id xmlns='urn:xmpp:occupant-id:0' id='{id}'/>" if id else ""
    kind = f"type='{type}'" if type else ""
    return fromstring(
        f"<presence xmlns='jabber:client' from='{ROOM}/{nick}' {kind}><x xmlns='{USER}'>{item}{status}</x>{occupant}"
        "</presence>"
    )


def lobby(**facts: bool) -> XmppRoom:
    """A room with us in it, and alice, whose address we see."""
    room = XmppRoom(ROOM, "bot", **facts)
    room.apply_presence(presence("alice", jid="alice@localhost/phone", id="o-alice"))
    room.apply_presence(presence("bot", jid="bot@localhost/semel", id="o-bot", codes=("110",)))
    return room


def said(text: str, nick: str = "alice", inside: str = "", *, id: str = "") -> Element:
    occupant = f"<occupant-id xmlns='urn:xmpp:occupant-id:0' id='{id}'/>" if id else ""
    return message(f"<body>{text}</body>{inside}{occupant}", type="groupchat", source=f"{ROOM}/{nick}")


def group(element: Element, room: XmppRoom | None = None, live: Occupant | None = None) -> ParsedStanza:
    room = room or lobby()
    note = parse_message(element, ME, room, live or room.present.get("alice"))
    assert note is not None
    return note


def test_a_chat_message_has_its_sender_without_the_device() -> None:
    note = parse_message(message("<body>hi</body><thread>t1</thread><origin-id xmlns='urn:xmpp:sid:0' id='o1'/>"), ME)
    assert note == ParsedStanza(
        "message",
        "alice@localhost",
        "alice@localhost/phone",
        Person("alice@localhost"),
        ("o1", "w1"),
        "hi",
        thread="t1",
    )


@pytest.mark.parametrize(
    "inside",
    [
        "",
        "<body/>",
        "<composing xmlns='http://jabber.org/protocol/chatstates'/>",
        "<received xmlns='urn:xmpp:receipts' id='k'/>",
        "<displayed xmlns='urn:xmpp:chat-markers:0' id='k'/>",
        "<subject>a topic</subject>",
        f"<x xmlns='{USER}'><invite from='alice@localhost'/></x><body>come</body>",
        "<event xmlns='http://jabber.org/protocol/pubsub#event'/>",
    ],
)
def test_what_says_nothing_is_no_note(inside: str) -> None:
    assert parse_message(message(inside), ME) is None


def test_a_headline_and_a_rooms_own_words_are_no_notes() -> None:
    assert parse_message(message("<body>news</body>", type="headline"), ME) is None
    assert parse_message(message("<body>locked</body>", type="groupchat", source=ROOM), ME, lobby()) is None
    assert parse_message(message("<body>not joined</body>", type="groupchat", source=f"{ROOM}/alice"), ME) is None


def test_a_file_is_its_link_and_no_text() -> None:
    link = "https://files.example.org/a.png"
    note = parse_message(message(f"<body>{link}</body><x xmlns='jabber:x:oob'><url>{link}</url></x>"), ME)
    assert note is not None and (note.text, note.links) == ("", (link,))


def test_the_quotation_for_old_clients_is_taken_away() -> None:
    fallback = (
        "<reply xmlns='urn:xmpp:reply:0' id='k1'/>"
        "<fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'><body start='0' end='{0}'/></fallback>"
    )
    body = "<body>&gt; Grüße 🎉\nthanks</body>"
    note = parse_message(message(body + fallback.format(10)), ME)
    assert note is not None and (note.kind, note.ref, note.text) == ("message", "k1", "thanks")
    for wrong in ("99", "-1", "x", "9" * 30):
        note = parse_message(message(body + fallback.format(wrong)), ME)
        assert note is not None and note.text == "> Grüße 🎉\nthanks", "nothing is lost"


def test_a_quotation_that_covers_the_whole_text_is_kept() -> None:
    marks = (
        "<reply xmlns='urn:xmpp:reply:0' id='k1'/>"
        "<fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'><body start='0' end='6'/></fallback>"
    )
    note = parse_message(message("<body>thanks</body>" + marks), ME)
    assert note is not None and note.text == "thanks"


def test_reactions_keep_their_order_because_the_keys_of_their_events_count_them() -> None:
    emojis = tuple("🎉👍😀🚀🌱🐢")
    inside = "".join(f"<reaction>{emoji}</reaction>" for emoji in emojis)
    note = parse_message(message(f"<reactions xmlns='urn:xmpp:reactions:0' id='k1'>{inside}</reactions>"), ME)
    assert note is not None and (note.ref, note.emojis) == ("k1", emojis)


def test_every_linked_file_is_named() -> None:
    links = ("https://files.example.org/a.png", "https://files.example.org/b.png")
    note = parse_message(message("".join(f"<x xmlns='jabber:x:oob'><url>{link}</url></x>" for link in links)), ME)
    assert note is not None and note.links == links


@pytest.mark.parametrize(
    "retract",
    [
        "<retract xmlns='urn:xmpp:message-retract:1' id='k1'/>",
        "<apply-to xmlns='urn:xmpp:fasten:0' id='k1'><retract xmlns='urn:xmpp:message-retract:0'/></apply-to>",
    ],
)
def test_a_retraction_is_one_whatever_it_says_to_old_clients(retract: str) -> None:
    note = parse_message(message(f"<body>took it back</body>{retract}"), ME)
    assert note is not None and (note.kind, note.ref, note.text) == ("delete", "k1", "")


def test_what_we_said_ourselves_is_told_from_what_people_say() -> None:
    own = message("<body>x</body>", source=f"{ME}/another-device")
    own.set("to", "alice@localhost")
    note = parse_message(own, ME)
    assert note is not None and (note.kind, note.address, note.ids) == ("own", "alice@localhost", ("w1",))
    assert group(said("x", "bot", id="o-bot"), lobby(has_occupant_ids=True), Occupant("bot", "", "o-bot")).kind == "own"


@pytest.mark.parametrize(
    ("text", "rest", "mentioned"),
    [
        ("bot: what is new?", "what is new?", True),
        ("BOT, what is new?", "what is new?", True),
        ("@bot what is new?", "what is new?", True),
        ("ask bot about it", "ask bot about it", True),
        ("bot is slow today", "bot is slow today", True),
        ("bot", "bot", True),
        ("bot:", "bot:", True),
        ("/new@bot now", "/new now", True),
        ("/new", "/new", False),
        ("robots and bottles", "robots and bottles", False),
        ("hello all", "hello all", False),
    ],
)
def test_our_name_in_a_room(text: str, rest: str, mentioned: bool) -> None:
    note = group(said(text))
    assert (note.text, note.mentioned, note.group) == (rest, mentioned, True)


def test_a_reference_and_a_reply_to_us_are_mentions() -> None:
    reference = f"<reference xmlns='urn:xmpp:reference:0' type='mention' uri='xmpp:{ROOM}/bot'/>"
    assert group(said("you there", inside=reference)).mentioned
    assert group(said("yes", inside=f"<reply xmlns='urn:xmpp:reply:0' to='{ROOM}/bot' id='k1'/>")).mentioned
    assert not group(said("yes", inside=f"<reply xmlns='urn:xmpp:reply:0' to='{ROOM}/bob' id='k1'/>")).mentioned


# ---------------------------------------------------------------- who somebody is


def test_a_live_sender_is_who_has_the_nick_now() -> None:
    room = lobby()
    assert group(said("x"), room).sender == Person("alice@localhost", "alice")
    hidden = XmppRoom(ROOM, "bot")
    note = parse_message(said("x"), ME, hidden, Occupant("alice"))
    assert note is not None and note.sender == Person(f"{ROOM}/alice", "alice")


@pytest.mark.parametrize("nick", ["\U0001fae8", "\u00aa", "a\u05d0"])
def test_a_nick_is_taken_as_the_room_wrote_it(nick: str) -> None:
    """slixmpp's addresses follow Unicode 3.2: they refuse newer emoji and mixed directions, and make \u00aa an a."""
    note = parse_message(said("x", nick), ME, XmppRoom(ROOM, "bot"), Occupant(nick))
    assert note is not None and (note.source, note.sender) == (f"{ROOM}/{nick}", Person(f"{ROOM}/{nick}", nick))


def test_an_occupant_id_tells_who_wrote_while_another_has_the_nick_now() -> None:
    room = lobby(has_occupant_ids=True)
    room.apply_presence(presence("alice", type="unavailable"))
    room.apply_presence(presence("alice", jid="mallory@localhost/x", id="o-mallory"))
    note = parse_message(said("x", id="o-alice"), ME, room)
    assert note is not None and note.sender == Person("alice@localhost", "alice")
    note = parse_message(said("x", id="o-unseen"), ME, room)
    assert note is not None and note.sender == Person(f"{ROOM}/o-unseen", "alice"), "unknown, and not mallory"


def test_nobody_takes_an_address_by_writing_it_into_a_message() -> None:
    forged = f"<x xmlns='{USER}'><item jid='owner@localhost'/></x>"
    assert group(said("x", inside=forged)).sender == Person("alice@localhost", "alice"), "live: presences tell"
    closed = lobby()
    note = parse_message(said("x", inside=forged), ME, closed)
    assert note is not None and note.sender == Person(f"{ROOM}/alice", "alice"), "the archive of a room that hides them"
    true = f"<x xmlns='{USER}'><item jid='alice@localhost/phone'/></x>"
    note = parse_message(said("x", inside=forged + true), ME, lobby(non_anonymous=True))
    assert note is not None and note.sender == Person("alice@localhost", "alice"), "the archive's own stands last"
    note = parse_message(said("x", id="o-bot"), ME, lobby(), Occupant("alice", "alice@localhost"))
    assert note is not None and note.kind == "message", "an occupant-id counts where the room vouches for it"


def test_somebody_with_our_nick_is_not_us() -> None:
    room = lobby(has_occupant_ids=True)
    assert group(said("x", "bot", id="o-mallory"), room, Occupant("bot", "", "o-mallory")).kind == "message"


def test_a_room_that_sends_us_out_or_renames_us() -> None:
    room = lobby()
    room.apply_presence(presence("bot", type="unavailable", codes=("110", "307")))
    assert not room.inside() and not room.present
    room = lobby()
    renamed = presence("bot", type="unavailable", codes=("110", "303"))
    renamed.find(f"{{{USER}}}x/{{{USER}}}item").set("nick", "bot2")  # type: ignore[union-attr]
    room.apply_presence(renamed)
    assert room.inside() and room.nick == "bot2"
    room.apply_presence(presence("alice", type="unavailable"))
    assert room.inside() and "alice" not in room.present


def test_the_password_of_a_room_is_in_no_repr() -> None:
    assert "hunter2" not in repr(XmppRoom(ROOM, "bot", "hunter2"))


# ---------------------------------------------------------------- the cursor


def test_a_cursor_reads_what_it_wrote() -> None:
    cursor = ArchiveCursor({OWN: ArchivePosition("a", 1.5), ROOM: ArchivePosition("", 0.0)})
    assert ArchiveCursor.of(str(cursor)) == cursor
    assert ArchiveCursor.of(None) == ArchiveCursor() == ArchiveCursor.of('{"rooms":{}}')


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "7", '{"own":7}', '{"own":{"id":7,"at":0}}', '{"rooms":7}', '{"rooms":{"a":1}}']
)
def test_what_is_no_cursor_begins_at_the_present(text: str) -> None:
    assert ArchiveCursor.of(text) == ArchiveCursor()
