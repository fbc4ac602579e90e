"""Slack: events, messages of the history, presses and commands -> what is told -> rows, and the cursor behind them.

Whatever they hold, the channel does not stop at it: each is a row or known to be nothing; what cannot be read is kept
as it came. A cursor is read as it was written, and is never in the future.
"""

from __future__ import annotations

import json
import time
from typing import Any

from proof.fuzz.house import House
from proof.fuzz.source import Source, given
from semel.channels.slack.account import SlackIdentity
from semel.channels.slack.address import SlackCursor, parse_address
from semel.channels.slack.channel import SlackChannel
from semel.channels.slack.events_http import RequestRefused, read_request, sign
from semel.channels.slack.parse import SlackParser
from semel.channels.slack.settings import SlackSettings
from semel.channels.slack.sockets import parse_envelope
from semel.gateway.ports import Person
from semel.text.json_types import Json, object_at, text_at

US = SlackIdentity("T1", "UB", "B1")
SECRET = "0" * 32
HEAD: Json = {
    "type": "message",
    "channel": "C1",
    "user": "U7",
    "ts": "1790000000.000100",
    "event_ts": "1790000000.000100",
}


def _event(**event: Any) -> Json:
    return {"type": "events_api", "envelope_id": "e", "payload": {"type": "event_callback", "event_id": "Ev1",
        "event": {**HEAD, **event}}}  # fmt: skip


TEMPLATES: list[Any] = [
    _event(text="<@UB> hello &lt;b&gt; <https://x.y|x> <#C2|ops> <!here>", client_msg_id="g", thread_ts=HEAD["ts"]),
    _event(text="in a thread", thread_ts="1780000000.000001", parent_user_id="UB", subtype="thread_broadcast"),
    _event(subtype="message_changed", message={**HEAD, "text": "new",
        "edited": {"user": "U7", "ts": "1790000009.000001"}}, previous_message={**HEAD, "text": "<@UB> old"}),
    _event(subtype="message_deleted", deleted_ts="1790000000.000100", previous_message={**HEAD, "text": "old"}),
    _event(type="reaction_added", reaction="thumbsup", item={"type": "message", "channel": "C1", "ts": HEAD["ts"]}),
    _event(subtype="file_share", text="", files=[{"id": "F1", "name": "a/../b.png", "mimetype": "image/png", "size": 9,
        "url_private_download": "https://files.slack.com/x", "mode": "hosted"}, {"id": "F2", "mode": "tombstone"}]),
    _event(user="UB", bot_id="B1", metadata={"event_type": "semel_part", "event_payload": {"key": "k1"}}, text="ours"),
    _event(subtype="bot_message", bot_id="B9", username="CI", text="", attachments=[{"fallback": "built"}], user=None),
    {"type": "interactive", "envelope_id": "e", "payload": {"type": "block_actions",
        "user": {"id": "U7", "name": "ann"}, "channel": {"id": "C1"},
        "message": {"ts": HEAD["ts"], "thread_ts": "1780000000.000001"},
        "container": {"message_ts": HEAD["ts"], "channel_id": "C1"}, "trigger_id": "t", "actions": [{"type": "button",
        "action_id": "a", "block_id": "k1", "value": "/approve 3", "action_ts": "1790000001.000001"}]}},
    {"type": "slash_commands", "envelope_id": "e", "payload": {"command": "/semel", "text": "stop", "user_id": "U7",
        "channel_id": "D1", "channel_name": "directmessage", "trigger_id": "t"}},
]  # fmt: skip
_house = House()


def one(data: bytes) -> None:
    source = Source(data)
    policy = source.pick(["start", "own", "room"])
    settings = SlackSettings("xoxb-" + "1" * 20, "xapp-" + "1" * 20, threads=policy, fetch=False)
    receiver = SlackChannel("s", settings)._receiver
    body = given(source, TEMPLATES)
    _check_request(body)
    envelope = parse_envelope(body.decode("utf-8", "replace"))
    if envelope is None:
        return
    now = time.time()
    cursor = receiver._cursor = SlackCursor("T1", "UB", 0.0, 1_780_000_000.0, {("C1", "1780000000.000001"): True})
    parser = receiver._parser = SlackParser(US, cursor, policy)
    drafts = receiver._parse_envelope(envelope)
    event = object_at(envelope.payload, "event")
    drafts += parser.parse_history(text_at(event, "channel") or "C1", event)
    for draft in drafts:  # names are looked up at Slack, and nobody is asked here
        sender = draft.incoming.sender
        if sender is not None:
            receiver._directory._people[sender.id] = "Ann"
            receiver._directory._titles[draft.incoming.address.partition(":")[0]] = "ops"
    inbox = _house.fresh()
    _house.run(receiver._put(drafts, inbox))
    for what in _house.check():
        assert what.kind != "unreadable" or (what.raw and what.why), "what cannot be read is not kept"
        assert not what.address or str(parse_address(what.address)) == what.address, "an address is not read as written"
        assert what.sender is None or isinstance(what.sender, Person)
    assert SlackCursor.load(cursor.dump()) == cursor, "the cursor is not read as it was written"
    assert cursor.at <= now + 60, "the cursor is in the future: what is written until then would be missed"


def _check_request(body: bytes) -> None:
    """A body that is signed is read, or refused in words."""
    for kind in ("application/json", "application/x-www-form-urlencoded"):
        headers = {"X-Slack-Request-Timestamp": "1", "X-Slack-Signature": sign(SECRET, "1", body), "Content-Type": kind}
        try:
            json.dumps(read_request(SECRET, headers, body, 1.0).payload)
        except RequestRefused as refusal:
            assert str(refusal)


SEEDS = [
    *(bytes([k, 0, n, 0]) for n in range(len(TEMPLATES)) for k in range(3)),
    *(
        bytes([k % 3, 0, n, 3, k, 0, 1, k + 4, k + 9, 2, k + 17, 5, k])
        for n in range(len(TEMPLATES))
        for k in (3, 11, 24)
    ),
    b'\x00\x04{"type":"events_api","payload":{"event":{"type":"message","channel":"C1","ts":"1e999","user":"U7"}}}',
    b"\x00\x04payload=%7B",
]
