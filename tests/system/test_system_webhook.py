"""Webhook channels from end to end: a real gateway, the scripted agent, and receivers that misbehave."""

from __future__ import annotations

import hmac
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from system_house import (
    DEMO,
    SECRET,
    House,
    Json,
    Receiver,
    answer,
    channel,
    drop,
    hang,
    opened,
    receiver,
    script,
    send,
    until,
)  # fmt: skip

CHANNELS: dict[str, Json] = {
    "last": {},
    "all": {"narration": "all"},
    "rough": {},
    "stuck": {"timeout": 1},
    "strict": {},
    "late": {},
    "once": {"key_life": 0},  # a receiver that folds nothing: at-most-once
    "slow": {},
    "door": {},
    "signed": {},
    "ops": {},
}
GITHUB = """
[channels.github]
kind = "webhook"
secret = "the secret of both sides"
session = "demo:web:github"
id_header = "X-GitHub-Delivery"
signature_header = "X-Hub-Signature-256"
kind_header = "X-GitHub-Event"
text = "{repository.full_name}: {issue.title}"
"""
CHANNELS_PAGE = Path(__file__).parents[2] / "docs/channels.md"
TURN = script("First block. ", {"tool": "look", "output": ["seen\n"]}, send("On its way."), "The closing text.")


class World(NamedTuple):
    house: House
    rx: dict[str, Receiver]

    def settled(self, name: str) -> list[Json]:
        """The parts of a channel, oldest first, once none is on its way."""

        def mine() -> list[Json]:
            return [one for one in self.house.parts() if one["dest"].startswith(name + ":")]

        until(lambda: all(one["state"] in ("sent", "rejected", "held", "dropped") for one in mine()), "at rest")
        return mine()

    def turn(self, name: str, text: str, id: str) -> str:
        """One turn in a channel's room; the session."""
        assert self.house.hook(name, {"text": text}, id).status_code == 202
        self.house.idle(room(name))
        return room(name)


def room(name: str) -> str:
    return f"demo:{name}:room-1"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as stack:
        rx = {name: stack.enter_context(receiver()) for name in CHANNELS}
        house = House(tmp_path_factory.mktemp("webhooks"))
        sections = [
            channel(name, rx[name].url, session=room(name), sessions=["demo:*"], **more)
            for name, more in CHANNELS.items()
        ]
        name = '[destinations.team]\nchannel = "ops"\naddress = "room-1"\nallow = ["demo:web:*"]\n'
        house.config = "[gateway]\nmax_live_agents = 6\n" + DEMO + "".join(sections) + name
        house.config += GITHUB
        yield World(stack.enter_context(opened(house)), rx)


def test_a_turn_in_a_webhook_room_is_posted_as_its_narration_says_and_once(world: World) -> None:
    for name, first in (("last", []), ("all", ["First block. "])):
        world.turn(name, TURN, "m1")
        world.settled(name)
        posts = world.rx[name].posts
        assert [post.text for post in posts] == [*first, "On its way.", "The closing text."]
        assert {post.data["to"] for post in posts} == {"room-1"}
        assert all(post.headers["webhook-signature"].startswith("v1,") for post in posts)


def test_a_closing_text_that_was_sent_already_is_an_echo(world: World) -> None:
    before = len(world.rx["last"].posts)
    session = world.turn("last", script(send("Done:  *it*\nworks."), "Done: *it* works."), "echo")
    world.settled("last")
    assert [post.text for post in world.rx["last"].posts[before:]] == ["Done:  *it*\nworks."]
    last = world.house.entries(session)[-1]
    assert last["text"] == "Done:  *it*\nworks." and last["echoes"] == 1


def test_a_receiver_that_drops_or_is_busy_shows_each_message_once_and_in_order(world: World) -> None:
    rx, stuck, event = world.rx["rough"], world.rx["stuck"], threading.Event()
    rx.ways = [drop, answer(429, retry_after="2"), answer(500)]
    stuck.ways = [hang(event)]
    world.house.hook("rough", {"text": script(send("one"), send("two"), "three")}, "m1")
    world.turn("stuck", script(send("one"), "two"), "m1")
    world.settled("stuck")
    world.house.idle(room("rough"))
    world.settled("rough")
    event.set()
    assert [post.text for post in rx.posts] == ["one"] * 4 + ["two", "three"], "two waits for one"
    assert len({post.id for post in rx.posts[:4]}) == 1, "the same id on every attempt"
    assert len({post.headers["webhook-timestamp"] for post in rx.posts[:4]}) > 1, "each attempt has its own time"
    assert rx.posts[2].at - rx.posts[1].at >= 2.0, "Retry-After is kept"
    assert rx.shown == ["one", "two", "three"]
    assert [post.text for post in stuck.posts] == ["one", "one", "two"] and stuck.posts[0].id == stuck.posts[1].id


def test_a_definite_no_is_told_once_and_the_line_goes_on(world: World) -> None:
    world.rx["strict"].ways = [answer(400, b'{"error": "no such room"}')]
    session = world.turn("strict", script(send("refused"), "taken"), "m1")
    notices = until(lambda: world.house.texts(session, "notice")[1:], "a notice of the record, and one to the receiver")
    assert len(notices) == 1 and "400" in notices[0]
    assert [part["state"] for part in world.settled("strict")] == ["rejected", "sent", "sent"]
    assert len(world.house.texts(session, "user")) == 1, "nothing was woken by it"
    world.turn("strict", script({"prompt": True}), "m2")
    assert "no such room" in world.house.texts(session)[-1], "it rides in the agent's next prompt"


def test_a_receiver_that_comes_up_later_gets_everything_in_order(world: World) -> None:
    port = world.rx["late"].port
    world.rx["late"].close()
    for n in range(2):
        world.turn("late", script(send(f"{n}a"), f"{n}b"), f"m{n}")
    waiting = [one for one in world.house.parts() if one["dest"].startswith("late:")]
    assert len(waiting) == 4 and {one["state"] for one in waiting} <= {"queued", "sending"}
    world.rx["late"] = Receiver(port)
    world.settled("late")
    assert [post.text for post in world.rx["late"].posts] == ["0a", "0b", "1a", "1b"]
    world.rx["late"].close()


def test_a_gateway_killed_between_departure_and_receipt_sends_the_same_id_again(tmp_path: Path) -> None:
    event = threading.Event()
    with receiver() as rx:
        rx.ways = [hang(event)]
        with opened(House(tmp_path, DEMO + channel("last", rx.url, session=room("last")))) as house:
            house.hook("last", {"text": script(send("one"), "two")}, "m1")
            until(lambda: rx.posts, "it departed")
            house.idle(room("last"))
            house.kill()
            house.up()
            house.settled()
            event.set()
            assert [post.text for post in rx.posts] == ["one", "one", "two"]
            assert rx.posts[0].id == rx.posts[1].id
            assert house.texts(room("last")) == ["one", "two"]


def test_what_may_have_arrived_is_held_until_a_person_says_what_happened(world: World) -> None:
    house, rx = world.house, world.rx["once"]
    rx.ways = [drop] * 3
    world.turn("once", script(*(send(word) for word in ("lost", "arrived", "dropped")), "later"), "m1")
    lost, arrived, dropped = [f"p{one['id']}" for one in world.settled("once") if one["state"] == "held"]
    assert [post.text for post in rx.posts] == ["lost", "arrived", "dropped", "later"], "the line goes on"
    listed = house.cli("outbox", "list", "--state", "held").stdout
    assert [part in listed for part in (lost, arrived, dropped)] == [True] * 3
    assert "lost" in house.cli("outbox", "show", lost).stdout
    house.cli("outbox", "arrived", arrived)
    house.cli("outbox", "drop", dropped)
    house.cli("outbox", "resend", lost)
    states = [one["state"] for one in world.settled("once")]
    assert states == ["sent", "sent", "dropped", "sent"]
    assert [post.text for post in rx.posts[4:]] == ["lost"] and rx.posts[-1].data["repeat"] is True
    assert house.cli("outbox", "resend", lost, rc=1).stderr.count("\n") == 1, "it is not held any more"


def test_a_receiver_that_hangs_delays_only_its_own_channel(world: World) -> None:
    event, before = threading.Event(), len(world.rx["last"].posts)
    world.rx["slow"].ways = [hang(event)]
    world.turn("slow", script("for the slow one"), "m1")
    until(lambda: world.rx["slow"].posts, "the slow one has it")
    world.turn("last", script("for the quick one"), "quick")
    until(
        lambda: [post.text for post in world.rx["last"].posts[before:]] == ["for the quick one"],
        "not delayed",
    )
    slow = [one for one in world.house.parts() if one["dest"].startswith("slow:")]
    assert [one["state"] for one in slow] == ["sending"]
    event.set()
    assert world.settled("slow") and world.rx["slow"].shown == ["for the slow one"]


def test_the_door_of_a_webhook_takes_each_id_once_and_nothing_unsigned(world: World) -> None:
    house, body = world.house, {"text": "hello", "kind": "exec.progress"}
    assert house.hook("door", body, "k").json()["status"] == "accepted"
    assert house.hook("door", body, "k").json()["status"] == "duplicate"
    other = house.hook("door", {**body, "text": "other", "sender": "ci"}, "k")
    assert other.status_code == 409 and {"event", "kept", "given"} <= other.json().keys()
    assert other.json()["type"] == "urn:semel:problem:conflict"
    wrong, foreign = {"webhook-signature": "v1,AAAA"}, {"origin": "https://evil.example"}
    deep = b'{"text": "x", "data": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    refusals = {
        "bad signature": (house.hook("door", body, "a", headers=wrong), 401, "bad-signature"),
        "no signature": (house.post("/v1/hooks/door", body), 401, "bad-signature"),
        "old": (house.hook("door", body, "b", at=-400), 401, "bad-signature"),
        "from the future": (house.hook("door", body, "c", at=400), 401, "bad-signature"),
        "unknown channel": (house.hook("nope", body, "d"), 404, "not-found"),
        "too long": (house.hook("door", b'{"text": "' + b"x" * 1_100_000 + b'"}', "e"), 413, "too-large"),
        "no JSON": (house.hook("door", b"text=hello", "f"), 400, "bad-json"),
        "a list": (house.hook("door", [1], "g"), 400, "bad-field"),
        "a number": (house.hook("door", {"text": 1}, "h"), 400, "bad-field"),
        "half a pair": (house.hook("door", b'{"text": "\\ud800"}', "i"), 400, "bad-json"),
        "deep": (house.hook("door", deep, "j"), 400, "bad-json"),
        "another session": (house.hook("door", {**body, "session": "other:x"}, "k2"), 403, "channel-scope"),
        "a browser": (house.hook("door", body, "l", headers=foreign), 403, "foreign-origin"),
    }
    for why, (got, status, code) in refusals.items():
        assert (got.status_code, got.json()["type"]) == (status, f"urn:semel:problem:{code}"), (why, got.text)
        assert got.headers["content-type"] == "application/problem+json" and got.json()["detail"], why
    assert house.texts(room("door"), "event", "user") == ["hello"]
    [door] = [one for one in house.get("/v1/channels")["channels"] if one["name"] == "door"]
    assert door["refused"] == {"bad-field": 2, "bad-json": 3, "bad-signature": 4, "channel-scope": 1, "too-large": 1}
    assert door["counts"] == {"accepted": 1, "duplicate": 1, "conflict": 1, "quarantined": 0}
    [listed] = [line for line in house.cli("channels").stdout.splitlines() if line.startswith("door\t")]
    assert listed.split("\t")[4:8] == ["1", "1", "1", "11"], "accepted, repeated, in conflict, refused"
    assert door["last_refused"]["reason"] == "channel-scope"
    reasons = "2 bad-field, 3 bad-json, 4 bad-signature, 1 channel-scope, 1 too-large"
    counted = f"11 requests were refused ({reasons}), the last at "
    assert counted in house.cli("status").stdout and counted in house.cli("doctor").stdout
    told = house.cli("why", f"e{other.json()['event']}").stdout.splitlines()
    assert "Later it came again once" in told[0] and "the same key came with other content (" in told[-1]
    lines = house.cli("logs").stdout.splitlines()
    [conflict] = [line for line in lines if "an id came again with other content" in line]
    assert conflict.split()[-4:] == ["channel=door", "id=k", "sender=ci", f"first=e{other.json()['event']}"]
    logged = [line for line in lines if "request refused  channel=door" in line]
    assert [line.partition("reason=")[2].split()[0] for line in logged] == [
        "bad-signature", "too-large", "bad-json", "bad-field", "channel-scope"
    ], "each reason once a minute"  # fmt: skip


@pytest.mark.skipif(not (shutil.which("openssl") and shutil.which("curl")), reason="the example needs them")
def test_the_documentations_examples_of_a_signature_are_accepted(world: World) -> None:
    blocks = re.findall(r"```(sh|python)\n(.*?)```", CHANNELS_PAGE.read_text(encoding="utf-8"), re.DOTALL)
    examples = {language: code for language, code in blocks if "webhook-signature" in code}
    interpreters = {"sh": ["sh", "-ec"], "python": [sys.executable, "-c"]}
    assert examples.keys() == interpreters.keys()
    env = {**os.environ, "CI_WEBHOOK_SECRET": SECRET}
    for number, (language, code) in enumerate(examples.items(), 12):
        here = code.replace("https://semel.example.org/v1/hooks/ci", f"{world.house.url}/v1/hooks/signed")
        assert here != code
        for status in ("accepted", "duplicate"):
            command = [*interpreters[language], here]
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0 and json.loads(done.stdout)["status"] == status, done
        assert world.house.texts(room("signed"), "event")[-1] == f"Build {number} failed"


def test_a_service_sends_in_its_own_form_and_is_heard_once(world: World) -> None:
    house, key = world.house, b"the secret of both sides"
    body = json.dumps({"repository": {"full_name": "a/b"}, "issue": {"title": "It broke"}}).encode()
    headers = {
        "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "X-GitHub-Event": "issues",
        "X-Hub-Signature-256": f"sha256={hmac.new(key, body, 'sha256').hexdigest()}",
        "Content-Type": "application/json",
    }
    answers = [house.request("POST", "/v1/hooks/github", content=body, headers=headers) for _ in range(2)]
    assert [(answer.status_code, answer.json()["status"]) for answer in answers] == [
        (202, "accepted"), (202, "duplicate")
    ]  # fmt: skip
    forged = house.request("POST", "/v1/hooks/github", content=body + b" ", headers=headers)
    assert (forged.status_code, forged.json()["type"]) == (401, "urn:semel:problem:bad-signature")
    house.idle("demo:web:github")
    [event] = [entry for entry in house.entries("demo:web:github") if entry["role"] == "event"]
    assert (event["kind"], event["text"]) == ("github.issues", "a/b: It broke")


def test_what_is_said_to_another_sessions_home_is_an_entry_there_too(world: World) -> None:
    house = world.house
    house.hook("ops", {"text": "a note", "kind": "exec.progress"}, "m1")
    house.say("demo:web:x", script(send("Disk is full.", to="team"), 'Bye <message to="team">Look!</message>'))
    house.idle("demo:web:x")
    world.settled("ops")
    assert [post.text for post in world.rx["ops"].posts] == ["Disk is full.", "Look!"]
    there = [one for one in house.entries(room("ops")) if one["role"] == "agent"]
    told = [(one["text"], one["from"]) for one in there]
    assert told == [("Disk is full.", "demo:web:x"), ("Look!", "demo:web:x")]
    assert (house.session(room("ops")) or {})["state"] == "idle", "it was told, not woken"
