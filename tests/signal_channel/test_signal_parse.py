"""What signal-cli hands over, as events: messages, edits, deletions, reactions, and what is none of them."""

from __future__ import annotations

from typing import Any

import pytest

from semel.channels.signal.address import EditedMessages, OwnAccount, parse_address, parse_message_id
from semel.channels.signal.parse import SignalDraft, SignalFile, parse_received
from semel.gateway.ports import Incoming, Person
from semel.testing.signal import ACCOUNT, ACCOUNT_ID, SignalDouble

OWN = OwnAccount(ACCOUNT, ACCOUNT_ID)


class Talk:
    """What people say to the account, as the channel parses it."""

    def __init__(self) -> None:
        self.double = SignalDouble(now=lambda: 1_700_000_000.5)
        self.ann, self.bob = self.double.person("Ann"), self.double.person("Bob")
        self.room = self.double.group("Family", self.ann, self.bob)
        self.edits = EditedMessages()

    def drafts(self) -> list[SignalDraft]:
        """The drafts of the last notification."""
        return parse_received(self.double.told[-1]["params"], OWN, self.edits)

    def event(self) -> Incoming:
        [draft] = self.drafts()
        return draft.incoming


@pytest.fixture
def talk() -> Talk:
    return Talk()


def test_a_message_is_known_by_its_author_and_its_time(talk: Talk) -> None:
    time = talk.double.write(talk.ann, "hello")
    event = talk.event()
    assert (event.kind, event.key, event.address) == ("message", f"{talk.ann}/{time}", talk.ann)
    assert event.sender == Person(talk.ann, "Ann")
    assert (event.text, event.at, event.group, event.mentioned) == ("hello", time / 1000, False, False)


def test_a_message_of_a_group_is_there_and_its_beginning_is_kept_for_a_quote(talk: Talk) -> None:
    talk.double.write(talk.ann, "hello", talk.room)
    event = talk.event()
    assert (event.address, event.group, event.title) == (talk.room, True, "Family")
    assert event.data == {"excerpt": "hello"}
    assert str(parse_address(event.address)) == talk.room


@pytest.mark.parametrize(
    ("text", "who", "read", "mentioned"),
    [
        ("\ufffc what is this?", ["us"], "what is this?", True),
        ("\ufffc, /status", ["us"], "/status", True),
        ("ask \ufffc or \ufffc", ["us", "bob"], "ask @you or @{bob}", True),
        ("\ufffc is late", ["bob"], "@{bob} is late", False),
        ("\ufffc", ["us"], "@you", True),
        ("a stray \ufffc", [], "a stray \ufffc", False),
    ],
)
def test_mentions_are_names_and_a_leading_one_of_us_is_left_out(
    talk: Talk, text: str, who: list[str], read: str, mentioned: bool
) -> None:
    places = [n for n, character in enumerate(text) if character == "\ufffc"]
    named = {"us": ACCOUNT_ID, "bob": talk.bob}
    mentions = [talk.double.mention(named[name], place) for name, place in zip(who, places, strict=False)]
    talk.double.write(talk.ann, text, talk.room, mentions=mentions)
    event = talk.event()
    number = talk.double.people[talk.bob]["number"]
    assert (event.text, event.mentioned) == (read.replace("{bob}", number), mentioned)


def test_styles_that_change_the_meaning_become_markdown(talk: Talk) -> None:
    text = "😀 run x not y\nor z"
    styles = [
        {"start": text.index("x") + 1, "length": 1, "style": "MONOSPACE"},
        {"start": text.index("y") + 1, "length": 1, "style": "STRIKETHROUGH"},
        {"start": 3, "length": 3, "style": "BOLD"},
    ]
    talk.double.write(talk.ann, text, textStyles=styles)
    assert talk.event().text == "😀 run `x` not ~~y~~\nor z"


def test_an_edit_names_the_first_message_also_if_it_edits_an_edit(talk: Talk) -> None:
    first = talk.double.write(talk.ann, "a")
    talk.event()
    second = talk.double.edit(talk.ann, first, "b")
    assert (talk.event().of, talk.event().key) == (f"{talk.ann}/{first}", f"{talk.ann}/{first}#e{second}")
    third = talk.double.edit(talk.ann, second, "c")
    event = talk.event()
    assert (event.kind, event.of, event.key) == ("edit", f"{talk.ann}/{first}", f"{talk.ann}/{first}#e{third}")
    assert event.text == "c"


def test_reactions_and_deletions_name_their_message(talk: Talk) -> None:
    first = talk.double.write(talk.ann, "a")
    talk.double.react(talk.bob, talk.ann, first, "👍", talk.room)
    event = talk.event()
    assert (event.kind, event.text, event.of, event.removed) == ("reaction", "👍", f"{talk.ann}/{first}", False)
    talk.double.react(talk.ann, ACCOUNT_ID, 5, "👍", removed=True)
    event = talk.event()
    assert (event.of, event.removed) == ("self/5", True)
    talk.double.remove(talk.ann, first)
    event = talk.event()
    assert (event.kind, event.of, event.sender) == ("delete", f"{talk.ann}/{first}", Person(talk.ann, "Ann"))
    deleted = {"targetAuthor": talk.bob, "targetAuthorUuid": talk.bob, "targetSentTimestamp": 9}
    talk.double.write(talk.ann, None, talk.room, adminDelete=deleted)
    assert talk.event().of == f"{talk.bob}/9"


def test_a_reaction_to_an_edit_of_ours_is_one_to_the_message(talk: Talk) -> None:
    talk.edits.note_edit(parse_message_id("self/5"), 8)
    talk.double.react(talk.ann, ACCOUNT_ID, 8, "👍")
    assert talk.event().of == "self/5"
    assert talk.edits.find_latest(parse_message_id("self/5")) == 8


def test_a_quote_is_a_reply_and_one_of_ours_mentions_us(talk: Talk) -> None:
    quote: dict[str, Any] = {"id": 5, "authorUuid": ACCOUNT_ID, "authorNumber": ACCOUNT, "text": "what we said"}
    talk.double.write(talk.ann, "why?", talk.room, quote=quote)
    event = talk.event()
    assert (event.of, event.mentioned) == ("self/5", True)
    assert event.data["replied"] == {"from": "", "text": "what we said"}
    quote = {"id": 6, "authorUuid": talk.bob, "authorNumber": None, "text": "x"}
    talk.double.write(talk.ann, "why?", talk.room, quote=quote)
    event = talk.event()
    assert (event.of, event.mentioned) == (f"{talk.bob}/6", False)


def test_files_come_by_their_names_in_the_directory(talk: Talk) -> None:
    files = [
        {"contentType": "image/png", "filename": "cat.png", "id": "x1.png", "size": 9},
        {"contentType": "text/x-signal-plain", "filename": None, "id": "x2", "size": 5000},
        {"contentType": "audio/aac", "filename": None, "id": "x3.aac", "size": None},
    ]
    talk.double.write(talk.ann, None, attachments=files)
    [draft] = talk.drafts()
    assert draft.incoming.text == ""
    assert draft.files == (
        SignalFile("x1.png", "cat.png", "image/png", 9),
        SignalFile("x2", "message.txt", "text/plain", 5000),
        SignalFile("x3.aac", "x3.aac", "audio/aac", 0, is_voice=True),
    )


def test_the_note_to_self_is_the_owners_word_and_what_they_write_elsewhere_is_not(talk: Talk) -> None:
    time = talk.double.write_elsewhere("remind me")
    event = talk.event()
    assert (event.key, event.address, event.sender) == (f"self/{time}", ACCOUNT_ID, Person(ACCOUNT_ID, "Me"))
    talk.double.write_elsewhere("hello Ann", talk.ann)
    assert talk.drafts() == []
    talk.double.write_elsewhere("hello all", group=talk.room)
    assert talk.drafts() == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"sticker": {"packId": "a", "stickerId": 1}}, "[sticker]"),
        ({"contacts": [{"name": {"display": "Cy"}, "phone": [{"value": "+49"}]}]}, "[contact: Cy, +49]"),
        ({"pollCreate": {"question": "When?", "options": ["now", "later"]}}, "[poll: When?]\n- now\n- later"),
        ({"payment": {"note": "", "receipt": ""}}, "[payment]"),
    ],
)
def test_other_content_comes_in_words(talk: Talk, content: dict[str, Any], words: str) -> None:
    talk.double.write(talk.ann, None, **content)
    assert talk.event().text == words


@pytest.mark.parametrize(
    "content",
    [
        {"typingMessage": {"action": "STARTED", "timestamp": 1}},
        {"receiptMessage": {"when": 1, "isDelivery": True, "timestamps": [1]}},
        {"callMessage": {"offerMessage": {}}},
        {"storyMessage": {"allowsReplies": True}},
        {"dataMessage": {"timestamp": 1, "message": None, "isExpirationUpdate": True}},
        {"dataMessage": {"timestamp": 1, "message": None, "groupInfo": {"groupId": "A", "type": "UPDATE"}}},
        {"dataMessage": {"timestamp": 1, "message": None, "pollVote": {}}},
        {"syncMessage": {"readMessages": [{"timestamp": 1}]}},
        {"syncMessage": {"type": "CONTACTS_SYNC"}},
    ],
)
def test_what_is_no_message_is_nothing(talk: Talk, content: dict[str, Any]) -> None:
    talk.double.tell(talk.ann, **content)
    assert talk.drafts() == []


def test_what_cannot_be_read_is_reported(talk: Talk) -> None:
    talk.double.tell_fault(talk.ann, "invalid message", "ProtocolInvalidMessageException")
    event = talk.event()
    assert event.kind == "unreadable"
    assert "Ann: invalid message" in event.why
    talk.double.tell_fault(talk.ann, "seen before", "ProtocolDuplicateMessageException")
    assert talk.drafts() == []
    [draft] = parse_received({"envelope": {"sourceUuid": talk.ann, "dataMessage": {"message": 5}}}, OWN, talk.edits)
    assert draft.incoming.kind == "unreadable"
    assert parse_received({"envelope": []}, OWN, talk.edits) == []


def test_a_subscription_wraps_what_is_received(talk: Talk) -> None:
    talk.double.write(talk.ann, "hello")
    params = {"subscription": 0, "result": talk.double.told[-1]["params"]}
    [draft] = parse_received(params, OWN, talk.edits)
    assert draft.incoming.text == "hello"


@pytest.mark.parametrize("address", ["", "ann", "group:", "group:x y", "+0123", "self", "00000000-0000"])
def test_other_texts_are_no_addresses(address: str) -> None:
    with pytest.raises(ValueError, match="not a Signal address"):
        parse_address(address)
    with pytest.raises(ValueError, match="not the id of a Signal message"):
        parse_message_id(f"{address}/x")
