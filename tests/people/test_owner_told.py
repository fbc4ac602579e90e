"""A request that nobody in its chat may answer is told to the owners, who answer it elsewhere (Law 13)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_world import script
from people_world import ADA, BOB, EVE, LISTED, Chat

from semel.gateway.errors import Conflict
from semel.gateway.outbound import held_chats
from semel.gateway.ports import Person
from semel.law import permissions
from semel.testing.channels import Fault

Json = dict[str, Any]
OWN, BOBS = "owner-dm", "bob-dm"
WHERE = (
    "A request is open in the conversation with bob: answer it on the page, or in the terminal with "
    "`semel chat demo:chat:bob-dm`."
)
ASK = {"permission": "rm -r build", "input": {"command": "rm -r build"}, "allowed": ["tidy"], "denied": ["left it"]}
ASKED = "The agent asks for permission: rm -r build"
ELSEWHERE = "The owner answers it on the page or in the terminal, within 10 minutes."


def asking(path: Path, *approvals: str, **more: Any) -> Chat:
    return Chat(path, agent={"approvals": approvals}, **more)


async def ask(w: Chat, who: Person, room: str, step: Json = ASK, **more: Any) -> str:
    """Somebody has the agent ask; return the request as the room shows it."""
    await w.tell(script(step), who, room, **more)
    return await w.until_shown(f"The agent asks for permission: {step['permission']}", room)


async def answer(w: Chat, session: str, words: str) -> None:
    [item] = [i for i in (await anext(w.gateway.watch(session)))["items"] if i["kind"] == "permission"]
    option = next(option for option in item["options"] if option["kind"] == words)
    assert await w.gateway.controls.answer(session, item["id"], option["optionId"], "ada") == "answered"


async def test_the_owner_is_told_in_their_own_chat_of_what_only_they_may_answer(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await w.tell(script("hello"), ADA, OWN)
        await w.until_shown("hello", OWN)
        assert (await ask(w, BOB, BOBS)).endswith(ELSEWHERE)
        told = await w.until_shown(ASKED, OWN)
        assert "in the conversation with bob" in told and "`semel chat demo:chat:bob-dm`, within 10 minutes" in told
        await w.tell("/approve", ADA, OWN)
        await w.until_shown(f"Nothing was allowed or denied here. {WHERE}", OWN)
        await answer(w, "demo:chat:bob-dm", "allow_once")
        await w.until_shown("tidy", BOBS)
        await w.tell("/approve", ADA, OWN)
        await w.until_shown(permissions.NOTHING_ASKED, OWN)
        assert len([text for text in w.shown(OWN) if ASKED in text]) == 1


ENDED = "In the conversation with bob: "


async def test_an_owner_who_was_told_of_a_request_is_told_its_answer_once(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await w.tell(script("hello"), ADA, OWN)
        await w.until_shown("hello", OWN)
        await ask(w, BOB, BOBS)
        await w.until_shown(ASKED, OWN)
        await answer(w, "demo:chat:bob-dm", "allow_once")
        assert await w.until_shown(ENDED, OWN) == f"{ENDED}Allow once, by ada (outside the chat): rm -r build"
        await w.until_shown("tidy", BOBS)
    assert len([text for text in w.shown(OWN) if ENDED in text]) == 1


@pytest.mark.parametrize(("way", "words"), [("stop", "Withdrawn"), ("deadline", "Nobody answered in time")])
async def test_an_owner_who_was_told_of_a_request_is_told_that_nobody_can_answer_it_any_more(
    tmp_path: Path, way: str, words: str
) -> None:
    async with asking(tmp_path, permission_deadline_s=1.5 if way == "deadline" else 600.0) as w:
        await w.tell(script("hello"), ADA, OWN)
        await w.until_shown("hello", OWN)
        await ask(w, BOB, BOBS)
        await w.until_shown(ASKED, OWN)
        if way == "stop":
            await w.tell("/stop", BOB, BOBS)
        assert await w.until_shown(ENDED, OWN) == f"{ENDED}{words}: rm -r build"


async def test_an_owner_is_told_of_the_end_by_the_gateway_that_finds_the_request_lost(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await w.tell(script("hello"), ADA, OWN)
        await w.until_shown("hello", OWN)
        await ask(w, BOB, BOBS)
        await w.until_shown(ASKED, OWN)
    async with asking(tmp_path) as w:
        assert await w.until_shown(ENDED, OWN) == f"{ENDED}Withdrawn: rm -r build"


async def test_a_bare_answer_is_not_taken_for_the_owners_own_request_beside_it(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await ask(w, ADA, OWN, {**ASK, "permission": "rm -r dist"})
        await ask(w, BOB, BOBS)
        await w.until_shown(ASKED, OWN)
        await w.tell("/approve", ADA, OWN)
        listed = await w.until_shown("more than one agent asks here. Say which, like /approve 1:", OWN)
        assert listed.splitlines()[1].startswith("1: rm -r dist")
        assert listed.splitlines()[-1] == "On the page or in the terminal, in the conversation with bob: rm -r build"
        assert "tidy" not in w.shown(OWN) + w.shown(BOBS)
        await w.tell("/approve 1", ADA, OWN)
        await w.until_shown("tidy", OWN)
        assert "tidy" not in w.shown(BOBS)
        await w.idle("demo:chat:owner-dm")
        await w.tell("/approve 1", ADA, OWN)
        await w.until_shown("That request is gone: Allow once, by ada", OWN)
        await answer(w, "demo:chat:bob-dm", "reject_once")
        await w.until_shown("left it", BOBS)


@pytest.mark.parametrize(
    ("fault", "fate"), [(Fault.LOSE, "may not have arrived here. "), (Fault.REJECT, "could not be shown here: ")]
)
async def test_an_owner_who_may_not_have_been_told_learns_so_in_the_own_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, fate: str
) -> None:
    monkeypatch.setattr(held_chats, "NOTIFY_AFTER_MS", 0)
    async with asking(tmp_path) as w:
        await w.tell(script("hello"), ADA, OWN)
        await w.until_shown("hello", OWN)
        w.chat.platform.fail_next(None, fault)
        await ask(w, BOB, BOBS)
        told = await w.until_shown(" in the conversation with bob " + fate, OWN)
        assert told.startswith("A permission request of ") and "rm -r" not in told
        assert told.endswith(
            "Answer it on the page, or in the terminal with `semel chat demo:chat:bob-dm`; you cannot answer here."
        )
        await w.tell("hello again", ADA, OWN)
        await w.until_shown("hello again", OWN)
        await w.gateway.outbox.wait_until_idle()
        assert sum("A permission request of" in text for text in w.shown(OWN)) == 1
        await w.tell("/approve", ADA, OWN)
        await w.until_shown(f"{permissions.NOTHING_ASKED} {WHERE}", OWN)
        await w.tell("/deny 2", ADA, OWN)
        await w.until_shown(f"There is no option 2 here. {permissions.NOTHING_ASKED} {WHERE}", OWN)
        await w.tell("/status", ADA, OWN)
        assert "Delivery here: 1 permission request " in await w.until_shown("Session demo:chat:owner-dm", OWN)
        before = (await anext(w.gateway.watch("demo:chat:owner-dm")))["rev"]
        await answer(w, "demo:chat:bob-dm", "reject_once")
        await w.until_shown(ENDED, OWN)
        [part] = await w.gateway.parts("held") + await w.gateway.parts("rejected")
        shown = [entry for entry in await w.entries("demo:chat:owner-dm") if entry.get("claim") == part["claim"]]
        assert [entry["delivery"][0]["over"] for entry in shown] == [True] and shown[0]["rev"] > before
        with pytest.raises(Conflict, match="this permission request is over"):
            await w.gateway.decide_part(part["id"], "resend")


async def test_a_message_in_that_chat_is_told_where_the_request_is_answered(tmp_path: Path) -> None:
    async with asking(tmp_path) as w:
        await ask(w, BOB, BOBS)
        await w.tell("yes", BOB, BOBS)
        hint = await w.until_shown("it does not answer the request", BOBS)
        assert hint.endswith("The owner answers it on the page or in the terminal.")


async def test_a_guest_is_told_that_the_owner_answers_elsewhere(tmp_path: Path) -> None:
    async with asking(tmp_path, own={"strangers": "guest"}) as w:
        await w.tell(script("hello"), ADA, OWN)
        await w.until_shown("hello", OWN)
        assert (await ask(w, EVE, "eve-dm")).endswith(ELSEWHERE)
        assert "in the conversation with Eve" in await w.until_shown(ASKED, OWN)


async def test_no_owner_is_told_where_the_request_can_be_answered(tmp_path: Path) -> None:
    async with asking(tmp_path, "bob") as w:
        await w.tell(script("hello"), ADA, OWN)
        await w.until_shown("hello", OWN)
        assert "The owner or bob answers /approve" in await ask(w, BOB, BOBS)
        await w.tell("/approve", BOB, BOBS)
        await w.until_shown("tidy", BOBS)
        assert "replies to this with /approve" in await ask(w, BOB, "room", group=True, mentioned=True)
        assert w.shown(OWN) == ["hello"]


async def test_a_member_whose_role_may_answer_does_so_alone_with_the_agent(tmp_path: Path) -> None:
    async with asking(tmp_path, "member", listed=LISTED) as w:
        assert "The owner or a member answers /approve" in await ask(w, BOB, BOBS)
