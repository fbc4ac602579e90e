"""Guests whose requests for permission stay open do not hold every agent: whoever else writes is served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_world import script, until
from people_world import ADA, EVE, Chat

from semel.gateway.ports import Person
from semel.gateway.turns.permissions import DENIED_CROWDED
from semel.law.access import may_hold_agent

Json = dict[str, Any]
ASK = {"permission": "ls", "input": {"command": "ls"}, "allowed": ["listed"], "denied": ["refused"]}
MAX = Person("@max", "Max")
ZOE = Person("@zoe", "Zoe")


def house(path: Path, most: int) -> Chat:
    return Chat(path, own={"strangers": "guest"}, max_live_agents=most)


async def asks(w: Chat, who: Person, room: str, *, group: bool = False) -> Json:
    """Somebody has the agent ask for permission there; the request, once it is recorded."""
    before = len(await requests_in(w, room))
    await w.tell(script(ASK), who, room, group=group, mentioned=group)

    async def is_asked() -> bool:
        return len(await requests_in(w, room)) > before

    await until(is_asked)
    return (await requests_in(w, room))[-1]


async def requests_in(w: Chat, room: str) -> list[Json]:
    if not any(one["key"] == f"demo:chat:{room}" for one in await w.gateway.sessions()):
        return []
    items = (await anext(w.gateway.watch(f"demo:chat:{room}")))["items"]
    return [one for one in items if one["kind"] == "permission"]


async def test_a_guest_holds_one_agent_and_all_guests_hold_half_of_them(tmp_path: Path) -> None:
    async with house(tmp_path, 4) as w:
        assert (await asks(w, EVE, "eve"))["state"] == "open"
        assert (await asks(w, EVE, "elsewhere"))["by"] == DENIED_CROWDED
        await w.until_shown("refused", "elsewhere")
        assert (await asks(w, MAX, "max"))["state"] == "open"
        assert (await asks(w, ZOE, "zoe"))["by"] == DENIED_CROWDED
        assert (await asks(w, ADA, "dm"))["state"] == "open"
        await w.sent()
        await w.tell("/approve", ADA)
        await w.until_shown("listed")
        [held] = await requests_in(w, "eve")
        assert await w.gateway.controls.answer("demo:chat:eve", held["id"], "reject", "Ada") == "answered"
        await w.idle("demo:chat:eve")
        assert (await asks(w, ZOE, "zoe"))["state"] == "open"


async def test_where_one_agent_lives_no_guest_holds_it(tmp_path: Path) -> None:
    async with house(tmp_path, 1) as w:
        assert (await asks(w, EVE, "eve"))["by"] == DENIED_CROWDED
        await w.until_shown("refused", "eve")
        assert (await asks(w, ADA, "dm"))["state"] == "open"


async def test_what_the_owner_asked_for_as_well_waits_like_the_owners(tmp_path: Path) -> None:
    async with house(tmp_path, 1) as w:
        await w.tell("say: hello", ADA, "room", group=True, mentioned=True)
        await w.idle("demo:chat:room")
        assert (await asks(w, ADA, "room", group=True))["state"] == "open"


@pytest.mark.parametrize(
    ("guests", "others", "most", "may"),
    [
        ({"a"}, [], 4, True),
        ({"a"}, [], 2, True),
        ({"a"}, [], 1, False),
        ({"a"}, [{"b"}], 4, True),
        ({"a"}, [{"b"}, {"c"}], 4, False),
        ({"a"}, [{"a"}], 8, False),
        ({"a", "b"}, [{"b", "c"}], 8, False),
        ({"a", "b"}, [{"c"}], 3, False),
    ],
)
def test_how_many_agents_guests_may_hold(guests: set[str], others: list[set[str]], most: int, may: bool) -> None:
    assert may_hold_agent(guests, others, most) is may
