"""Where the agent speaks is not for those to choose who only report: nodes, and services that POST webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from security_house import bearer
from system_house import DEMO, SECRET, House, Receiver, opened, receiver, until

NODE, NAMED, WIDE, GUEST = (f"{who}-token-0123456789abcdef" for who in ("node", "named", "wide", "guest"))
ENVIRONMENT = {"OUT": SECRET, "NODE": NODE, "NAMED": NAMED, "WIDE": WIDE, "GUEST": GUEST}
CONFIG = (
    DEMO
    + """
[channels.hooko]
kind = "webhook"
secret = "env:OUT"
url = "URL"
allow_private = true

[channels.guests]
kind = "webhook"
token = "env:GUEST"
url = "URL"
allow_private = true
role = "guest"
session = "main:hooko:set"
sessions = ["hg:*", "hn:hooko:named", "*:guests:*"]

[nodes.node]
token = "env:NODE"
sessions = ["n:*", "*:hooko:tail"]

[nodes.named]
token = "env:NAMED"
sessions = ["n:hooko:*"]

[nodes.wide]
token = "env:WIDE"
sessions = ["*"]
"""
)


@pytest.fixture(scope="module")
def there() -> Iterator[Receiver]:
    """Where `hooko` leads: it keeps what is POSTed."""
    with receiver() as one:
        yield one


@pytest.fixture(scope="module")
def places(there: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    config = CONFIG.replace("URL", there.url)
    with opened(House(tmp_path_factory.mktemp("places"), config, env=dict(ENVIRONMENT))) as one:
        yield one


def report(house: House, token: str, session: str, key: str = "k") -> httpx2.Response:
    """A node tells that something happened."""
    body = {"kind": "deploy", "text": f"deployed {session}", "key": f"{session}/{key}"}
    where = f"{house.url}/v1/sessions/{session}/events"
    return httpx2.post(where, json=body, headers=bearer(token), timeout=60)


def guest(house: House, session: str | None, key: str = "k") -> httpx2.Response:
    """A service that has the guests' token says something."""
    body = {"text": f"hello {session}"} | ({"session": session} if session else {})
    headers = {**bearer(GUEST), "idempotency-key": f"{session}/{key}"}
    return httpx2.post(f"{house.url}/v1/hooks/guests", json=body, headers=headers, timeout=60)


def home(house: House, session: str) -> Any:
    """Where the agent speaks by itself in that session, once it has answered there."""
    house.idle(session)
    assert house.texts(session)[-1:], "it was answered, wherever that is seen"
    one = house.session(session)
    assert one is not None
    return one["home"]


def told(house: House, there: Receiver) -> list[str]:
    """The addresses that something was POSTed to."""
    house.settled()
    return [post.data["to"] for post in there.posts]


@pytest.mark.parametrize(
    "session", ["n:hooko:evil-address", "n:guests:evil-address", "n:x:hooko:tail", "n:hooko:hooko:tail"]
)
def test_a_node_does_not_choose_where_the_agent_speaks(places: House, there: Receiver, session: str) -> None:
    """Its pattern names no channel, or another place there: the session it makes is at home on the page."""
    assert report(places, NODE, session).status_code == 202
    assert home(places, session) == f"web:{session}"
    assert not {"evil-address", "tail", "hooko:tail"} & set(told(places, there))


@pytest.mark.parametrize("session", ["hg:hooko:someone-else", "hg:hooko:set", "hg:hooko:named"])
def test_a_webhook_does_not_choose_where_the_agent_speaks(places: House, there: Receiver, session: str) -> None:
    assert guest(places, session).status_code == 202
    assert home(places, session) == f"web:{session}"
    assert "someone-else" not in told(places, there)


def test_who_is_given_a_channel_by_its_name_speaks_there_and_a_webhook_at_its_own(
    places: House, there: Receiver
) -> None:
    for answer, session, to in (
        (report(places, NAMED, "n:hooko:chosen"), "n:hooko:chosen", "hooko:chosen"),
        (report(places, NODE, "n:hooko:tail"), "n:hooko:tail", "hooko:tail"),
        (guest(places, "hn:hooko:named"), "hn:hooko:named", "hooko:named"),
        (guest(places, None), "main:hooko:set", "hooko:set"),
        (guest(places, "hg:guests:own"), "hg:guests:own", "guests:own"),
    ):
        assert answer.status_code == 202, answer.text
        assert home(places, session) == to
    until(lambda: {"chosen", "tail", "named", "set", "own"} <= set(told(places, there)), "all of them are told")


def test_a_session_that_is_there_keeps_its_home_whoever_reports(places: House, there: Receiver) -> None:
    places.say("n:hooko:house", "hello")
    assert home(places, "n:hooko:house") == "hooko:house"
    before = told(places, there).count("house")
    assert report(places, NODE, "n:hooko:house").status_code == 202
    assert home(places, "n:hooko:house") == "hooko:house"
    assert told(places, there).count("house") == before + 1


def test_a_session_of_a_place_is_not_made_without_its_home_before_somebody_speaks_there(places: House) -> None:
    """A channel's own sessions are `AGENT:CHANNEL:ADDRESS`: one that was made with another home would stay without
    an answer for whoever writes there later."""
    refused = report(places, WIDE, "demo:hooko:later")
    assert refused.status_code == 400 and "nobody has written yet" in refused.json()["detail"]
    assert '"demo:hooko:*"' in refused.json()["detail"] and places.session("demo:hooko:later") is None
    places.say("demo:hooko:later", "hello")
    assert home(places, "demo:hooko:later") == "hooko:later"
    assert report(places, WIDE, "demo:hooko:later").json()["status"] == "accepted", "the refused one left nothing"
    assert report(places, WIDE, "demo:hooko").status_code == 202, "which names no place"


def test_what_a_command_makes_is_made_by_the_same_rule(places: House, there: Receiver) -> None:
    headers = {**bearer(GUEST), "idempotency-key": "help"}
    body = {"text": "/help", "session": "hg:hooko:helped"}
    assert httpx2.post(f"{places.url}/v1/hooks/guests", json=body, headers=headers, timeout=60).status_code == 202
    until(lambda: places.texts("hg:hooko:helped", "notice"), "it is answered")
    one = places.session("hg:hooko:helped")
    assert one is not None and one["home"] == "web:hg:hooko:helped"
    assert "helped" not in told(places, there)
