"""What each role may: the table of the law, whole, and what comes of it in a conversation."""

from __future__ import annotations

from pathlib import Path

import pytest
from people_world import ADA, BOB, EVE, Chat, said

from semel.gateway.inbound.commands import find_refusal
from semel.gateway.ports import Person
from semel.law import access
from semel.law.commands import COMMANDS

GUESTS = {"help", "status", "history"}


def test_every_command_is_somebodys_and_the_owner_may_all() -> None:
    assert set(access.ROLES) == set(access.ROLE_NAMES) == {"owner", "member", "guest"}
    assert access.ROLES["owner"].commands == access.ROLES["member"].commands == set(COMMANDS)
    assert access.ROLES["guest"].commands == GUESTS
    assert all(may.commands <= set(COMMANDS) for may in access.ROLES.values())


@pytest.mark.parametrize("role", access.ROLE_NAMES)
@pytest.mark.parametrize("name", COMMANDS)
def test_the_answer_to_each_command_of_each_role(role: access.Role, name: str) -> None:
    refusal = find_refusal(name, role)
    if name in access.APPROVALS:
        assert (refusal is None) == (role == "owner")
    else:
        assert (refusal is None) == (role != "guest" or name in GUESTS)
    assert refusal is None or refusal.startswith(f"/{name}")


APPROVALS = [  # role, person, alone with it, whom the agent's `approvals` name, may
    ("owner", "", False, (), True),
    ("owner", "ada", True, ("member",), True),
    ("member", "bob", True, ("owner",), False),
    ("member", "bob", True, ("owner", "member"), True),
    ("member", "bob", False, ("owner", "member"), False),
    ("member", "bob", False, ("owner", "bob"), True),
    ("member", "", True, ("owner", "bob"), False),
    ("member", "carol", True, ("owner", "bob"), False),
    ("guest", "eve", True, ("owner", "member", "guest", "eve"), False),
    ("guest", "", True, ("",), False),
    ("member", "", False, ("",), False),
]


@pytest.mark.parametrize(("role", "person", "direct", "named", "may"), APPROVALS)
def test_who_may_answer_what_an_agent_asks(
    role: access.Role, person: str, direct: bool, named: tuple[str, ...], may: bool
) -> None:
    assert access.may_approve(role, person, direct, named) is may
    assert (find_refusal("approve", role, person, direct, frozenset(named)) is None) is may


GROUPS = [  # policy, mentioned, heard: None: no; True: as ever; False: without a wake
    ("mention", True, True),
    ("mention", False, False),
    ("always", True, True),
    ("always", False, True),
    ("never", True, None),
    ("never", False, None),
]


@pytest.mark.parametrize(("policy", "mentioned", "heard"), GROUPS)
def test_what_is_heard_in_a_group(policy: access.Policy, mentioned: bool, heard: bool | None) -> None:
    assert access.decide_group_wake(policy, mentioned) is heard


@pytest.mark.parametrize(
    ("called", "taken", "name"),
    [
        ("Ada Lovelace", (), "Ada-Lovelace"),
        ("ada", ("ada",), "ada-2"),
        ("ada", ("ada", "ada-2"), "ada-3"),
        ("owner", (), "owner-2"),
        ("guest", ("guest-2",), "guest-3"),
        ("Zoë Ångström", (), "Zoe-Angstrom"),
        ("Ада", (), "somebody"),
        ("", ("somebody",), "somebody-2"),
        ("-_-", (), "somebody"),
        ("x" * 99, (), "x" * 40),
    ],
)
def test_a_name_that_somebody_gives_themselves_is_nobody_elses(called: str, taken: tuple[str, ...], name: str) -> None:
    assert access.make_unique_name(called, taken) == name


async def test_a_guest_talks_and_is_told_what_a_guest_may_not(tmp_path: Path) -> None:
    async with Chat(tmp_path, own={"strangers": "guest"}) as w:
        await w.tell("hello", EVE)
        await w.idle("demo:chat:dm")
        await w.until_shown("hello")
        await w.tell("/stop", EVE)
        assert await w.until_shown("/stop") == "/stop is not for guests; /help lists what you can do here."
        await w.tell("/help", EVE)
        told = await w.until_shown("/history")
        assert all(f"/{name}" in told for name in GUESTS)
        assert not any(f"{command.usage}  " in told for command in COMMANDS.values() if command.name not in GUESTS)
        await w.tell("/steer into that turn", EVE)
        await w.until_shown("/steer is not for guests")
        assert w.refused() == {"command": 2}
        entries = await w.entries("demo:chat:dm")
        assert [e["text"] for e in entries if e.get("kind") == "command" and e["role"] == "user"] == [
            "/stop",
            "/help",
            "/steer into that turn",
        ]


async def test_help_lists_approvals_only_to_those_who_may_answer_a_request_there(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        for room, who, is_listed in (("bobs", BOB, False), ("adas", ADA, True)):
            await w.tell("/help", who, room)
            told = await w.until_shown("/history", room)
            assert ("/approve [N]  " in told, "/deny [N]  " in told) == (is_listed, is_listed), told
            assert "/retry  " in told


async def test_the_token_of_the_owner_is_the_owner_and_a_webhook_is_what_its_section_says(tmp_path: Path) -> None:
    async with Chat(tmp_path, own={"role": "guest"}) as w:
        await w.chat.write("dm", "/stop", key="h1", sender="Program")
        assert "is not for guests" in await w.until_shown("/stop")
        await w.gateway.say("demo:chat:dm", "/stop")
        await w.until_shown("Nothing runs here.")
        roles = [w.people.role_of(source) for source in ("api:s", "channel:chat", "node:ci", "channel:gone")]
        assert roles == ["owner", "guest", "owner", "owner"]


async def test_who_is_known_talks_with_their_name_and_role(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        assert [(v.role, v.person) for v in [await w.judge(said("hi", who)) for who in (ADA, BOB)]] == [
            ("owner", "ada"),
            ("member", "bob"),
        ]
        assert (await w.judge(said("hi", EVE))).refused == "stranger"
        assert await w.people.may_speak("chat", ADA) and not await w.people.may_speak("chat", Person("@ada2", "Ada"))


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ((), "the owner"),
        (("owner",), "the owner"),
        (("owner", "member"), "the owner or a member"),
        (("bob",), "the owner or bob"),
        (("carol", "member", "bob"), "the owner, a member, bob or carol"),
    ],
)
def test_who_answers_in_words(named: tuple[str, ...], words: str) -> None:
    assert access.format_approvers(named) == words
