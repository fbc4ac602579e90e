"""One stanza, as a note of what somebody did; and who they are in a room."""

from __future__ import annotations

from xml.etree.ElementTree import Element, fromstring

import pytest

from semel.channels.xmpp.cursor import OWN, Cursor, Mark
from semel.channels.xmpp.parse import Note, read
from semel.channels.xmpp.rooms import Occupant, Room
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


def lobby(**facts: bool) -> Room:
    """A room with us in it, and alice, whose address we see."""
    room = Room(ROOM, "bot", **facts)
    room.hear(presence("alice", jid="alice@localhost/phone", id="o-alice"))
    room.hear(presence("bot", jid="bot@localhost/semel", id="o-bot", codes=("110",)))
    return room


def said(text: str, nick: str = "alice", inside: str = "", *, id: str = "") -> Element:
    occupant = f"<occupant-id xmlns='urn:xmpp:occupant-id:0' id='{id}'/>" if id else ""
    return message(f"<body>{text}</body>{inside}{occupant}", type="groupchat", source=f"{ROOM}/{nick}")


def group(element: Element, room: Room | None = None, live: Occupant | None = None) -> Note:
    room = room or lobby()
    note = read(element, ME, room, live or room.present.get("alice"))
    assert note is not None
    return note


def test_a_chat_message_has_its_sender_without_the_device() -> None:
    note = read(message("<body>hi</body><thread>t1</thread><origin-id xmlns='urn:xmpp:sid:0' id='o1'/>"), ME)
    assert note == Note(
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
    assert read(message(inside), ME) is None


def test_a_headline_and_a_rooms_own_words_are_no_notes() -> None:
    assert read(message("<body>news</body>", type="headline"), ME) is None
    assert read(message("<body>locked</body>", type="groupchat", source=ROOM), ME, lobby()) is None
    assert read(message("<body>not joined</body>", type="groupchat", source=f"{ROOM}/alice"), ME) is None


def test_a_file_is_its_link_and_no_text() -> None:
    link = "https://files.example.org/a.png"
    note = read(message(f"<body>{link}</body><x xmlns='jabber:x:oob'><url>{link}</url></x>"), ME)
    assert note is not None and (note.text, note.links) == ("", (link,))


def test_the_quotation_for_old_clients_is_taken_away() -> None:
    fallback = (
        "<reply xmlns='urn:xmpp:reply:0' id='k1'/>"
        "<fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'><body start='0' end='{0}'/></fallback>"
    )
    body = "<body>&gt; Grüße 🎉\nthanks</body>"
    note = read(message(body + fallback.format(10)), ME)
    assert note is not None and (note.kind, note.ref, note.text) == ("message", "k1", "thanks")
    for wrong in ("99", "-1", "x", "9" * 30):
        note = read(message(body + fallback.format(wrong)), ME)
        assert note is not None and note.text == "> Grüße 🎉\nthanks", "nothing is lost"


@pytest.mark.parametrize(
    "retract",
    [
        "<retract xmlns='urn:xmpp:message-retract:1' id='k1'/>",
        "<apply-to xmlns='urn:xmpp:fasten:0' id='k1'><retract xmlns='urn:xmpp:message-retract:0'/></apply-to>",
    ],
)
def test_a_retraction_is_one_whatever_it_says_to_old_clients(retract: str) -> None:
    note = read(message(f"<body>took it back</body>{retract}"), ME)
    assert note is not None and (note.kind, note.ref, note.text) == ("delete", "k1", "")


def test_what_we_said_ourselves_is_told_from_what_people_say() -> None:
    own = message("<body>x</body>", source=f"{ME}/another-device")
    own.set("to", "alice@localhost")
    note = read(own, ME)
    assert note is not None and (note.kind, note.address, note.ids) == ("own", "alice@localhost", ("w1",))
    assert group(said("x", "bot", id="o-bot"), lobby(vouches=True), Occupant("bot", "", "o-bot")).kind == "own"


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
    hidden = Room(ROOM, "bot")
    note = read(said("x"), ME, hidden, Occupant("alice"))
    assert note is not None and note.sender == Person(f"{ROOM}/alice", "alice")


def test_an_occupant_id_tells_who_wrote_while_another_has_the_nick_now() -> None:
    room = lobby(vouches=True)
    room.hear(presence("alice", type="unavailable"))
    room.hear(presence("alice", jid="mallory@localhost/x", id="o-mallory"))
    note = read(said("x", id="o-alice"), ME, room)
    assert note is not None and note.sender == Person("alice@localhost", "alice")
    note = read(said("x", id="o-unseen"), ME, room)
    assert note is not None and note.sender == Person(f"{ROOM}/o-unseen", "alice"), "unknown, and not mallory"


def test_nobody_takes_an_address_by_writing_it_into_a_message() -> None:
    forged = f"<x xmlns='{USER}'><item jid='owner@localhost'/></x>"
    assert group(said("x", inside=forged)).sender == Person("alice@localhost", "alice"), "live: presences tell"
    closed = lobby()
    note = read(said("x", inside=forged), ME, closed)
    assert note is not None and note.sender == Person(f"{ROOM}/alice", "alice"), "the archive of a room that hides them"
    true = f"<x xmlns='{USER}'><item jid='alice@localhost/phone'/></x>"
    note = read(said("x", inside=forged + true), ME, lobby(open=True))
    assert note is not None and note.sender == Person("alice@localhost", "alice"), "the archive's own stands last"
    note = read(said("x", id="o-bot"), ME, lobby(), Occupant("alice", "alice@localhost"))
    assert note is not None and note.kind == "message", "an occupant-id counts where the room vouches for it"


def test_somebody_with_our_nick_is_not_us() -> None:
    room = lobby(vouches=True)
    assert group(said("x", "bot", id="o-mallory"), room, Occupant("bot", "", "o-mallory")).kind == "message"


def test_a_room_that_sends_us_out_or_renames_us() -> None:
    room = lobby()
    room.hear(presence("bot", type="unavailable", codes=("110", "307")))
    assert not room.inside() and not room.present
    room = lobby()
    renamed = presence("bot", type="unavailable", codes=("110", "303"))
    renamed.find(f"{{{USER}}}x/{{{USER}}}item").set("nick", "bot2")  # type: ignore[union-attr]
    room.hear(renamed)
    assert room.inside() and room.nick == "bot2"
    room.hear(presence("alice", type="unavailable"))
    assert room.inside() and "alice" not in room.present


def test_the_password_of_a_room_is_in_no_repr() -> None:
    assert "hunter2" not in repr(Room(ROOM, "bot", "hunter2"))


# ---------------------------------------------------------------- the cursor


def test_a_cursor_reads_what_it_wrote() -> None:
    cursor = Cursor({OWN: Mark("a", 1.5), ROOM: Mark("", 0.0)})
    assert Cursor.of(str(cursor)) == cursor
    assert Cursor.of(None) == Cursor() == Cursor.of('{"rooms":{}}')


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "7", '{"own":7}', '{"own":{"id":7,"at":0}}', '{"rooms":7}', '{"rooms":{"a":1}}']
)
def test_what_is_no_cursor_begins_at_the_present(text: str) -> None:
    assert Cursor.of(text) == Cursor()
