"""A channel tells that a message of ours failed after it was taken: judged by what it is about, bounded, never lost."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from inbound_world import KEY, Chat, message, until

from semel.faces import transcript
from semel.faces.cli import outbox
from semel.gateway.inbound import admission
from semel.gateway.ports import Incoming
from semel.ledger.admin.import_file import EntryDelivery
from semel.testing.channels import Post


async def answered(chat: Chat) -> Post:
    """What the agent answered, as the platform took it."""
    await chat.told(message("m1", "hello"))

    async def left() -> bool:
        return len(chat.chat.platform.log) == 1 and not (await chat.gateway.parts("sending"))

    await until(left)
    return chat.chat.platform.log[0]


async def notices(chat: Chat) -> list[dict[str, Any]]:
    return [entry for entry in await chat.entries(KEY) if entry["role"] == "notice"]


async def test_it_is_seen_counted_and_told_to_the_agent_in_its_next_prompt(chat: Chat) -> None:
    post = await answered(chat)
    turns = len(chat.prompts())
    await chat.chat.bounce(post, "550 no\nsuch user", copies=3)
    await chat.idle(KEY)
    [notice] = await notices(chat)
    assert notice["kind"] == "delivery.failed"
    assert "was sent, and failed later: 550 no such user." in notice["text"]
    assert len(chat.prompts()) == turns, "it wakes nobody"
    [way] = [way for entry in await chat.entries(KEY) for way in entry.get("delivery", [])]
    assert (way["state"], way["failed"], way["error"]) == ("sent", True, "550 no such user")
    [one] = chat.gateway.channel_manager.list()
    assert (one["counts"]["duplicate"], one["counts"]["quarantined"], one["refused"]) == (2, 0, {})
    assert (await chat.gateway.metrics())['semel_parts_failed_total{channel="chat"}'] == 1
    await chat.told(message("m2", "and now?"))
    assert "failed later: 550 no such user" in chat.asked()


async def test_one_about_nothing_known_is_quarantined_and_names_no_stranger(chat: Chat) -> None:
    await chat.tell(Incoming("failed", "b1", of="nothing", text="no"), cursor="4", copies=3)
    [odd] = await chat.gateway.quarantined()
    assert (odd["key"], odd["kind"], odd["raw"], odd["repeats"]) == ("b1", "failed", "no", 2)
    assert "no message of this channel has that id" in odd["why"]
    assert odd["data"]["of"] == "nothing"
    assert await chat.gateway.sessions() == []
    assert await chat.gateway.channel_manager.inboxes["chat"].cursor() == "4"


async def test_a_flood_of_them_is_counted_and_leaves_no_more_rows_than_what_cannot_be_read(chat: Chat) -> None:
    post = await answered(chat)
    flood = [
        Incoming("failed", f"x{n}", of=f"guess-{n}", text="no") for n in range(admission.MAX_UNREADABLE_PER_HOUR + 30)
    ]
    await chat.tell(*flood, cursor="9")
    await chat.tell(*flood, cursor="9")
    [one] = chat.gateway.channel_manager.list()
    assert one["counts"]["quarantined"] == admission.MAX_UNREADABLE_PER_HOUR
    assert one["refused"] == {"unreadable": 60}
    await chat.chat.bounce(post, "it is true")
    assert (await chat.gateway.metrics())['semel_parts_failed_total{channel="chat"}'] == 1, "a true one is heard"


async def test_one_that_names_no_message_or_has_no_key_is_kept_as_it_came(chat: Chat) -> None:
    await chat.tell(
        Incoming("failed", "b1", text="no"), Incoming("failed", "", of="m1", text="no"),
        Incoming("failed", "b2", of="m1", data={"no": object()}), cursor="7",
    )  # fmt: skip
    whys = sorted(odd["why"] for odd in await chat.gateway.quarantined())
    assert len(whys) == 3
    assert whys[0].startswith("a report that a message of our own failed, without")
    assert await chat.gateway.channel_manager.inboxes["chat"].cursor() == "7"


async def test_an_echo_in_the_same_batch_is_known_to_the_report_behind_it(chat: Chat) -> None:
    post = await answered(chat)
    echo = Incoming("echo", post.key, of=post.id)
    await chat.tell(echo, Incoming("failed", "b1", of=post.key, text="gone"), cursor="3", copies=3)
    [notice] = await notices(chat)
    assert "gone" in notice["text"]


async def test_a_late_failure_in_a_deleted_session_begins_nothing_and_leaves_nothing(chat: Chat) -> None:
    post = await answered(chat)
    await chat.chat.bounce(post, "a secret reason")
    await chat.gateway.delete(KEY)

    async def erased() -> bool:
        found = await chat.gateway.why(f"failed/{post.id}")
        return any("was deleted" in line["text"] for line in found["lines"])

    await until(erased)
    story = await chat.gateway.why(f"failed/{post.id}")
    assert not any("secret reason" in line["text"] for line in story["lines"])


async def test_the_terminal_shows_it_in_the_list_in_the_part_and_beside_the_message(
    chat: Chat, capsys: pytest.CaptureFixture[str]
) -> None:
    post = await answered(chat)
    await chat.chat.bounce(post, "no such user")
    [part] = await chat.gateway.parts()
    assert outbox._format_state(part) == "failed later"
    assert outbox._format_state({**part, "failed": None}) == "sent"
    outbox._print_part(part)
    told = capsys.readouterr()
    assert "no such user" in told.out
    assert f"see 'semel why e{part['failed']}'" in told.err
    [marks] = [transcript.list_remarks(entry) for entry in await chat.entries(KEY) if entry.get("delivery")]
    assert "chat:room: sent, failed later" in marks


async def test_an_export_tells_it_and_an_import_takes_it(chat: Chat) -> None:
    post = await answered(chat)
    await chat.chat.bounce(post, "no such user")
    lines = [line async for page in chat.gateway.export(KEY) for line in page]
    [way] = [way for line in lines for way in line.get("delivery", [])]
    assert (way["state"], way["failed"], way["error"]) == ("sent", True, "no such user")
    assert msgspec.convert(way, EntryDelivery).failed


async def test_one_that_comes_after_its_session_was_deleted_does_not_bring_it_back(chat: Chat) -> None:
    post = await answered(chat)
    await chat.gateway.delete(KEY)

    async def erased() -> bool:
        [part] = await chat.gateway.parts()
        return part["text"] == ""

    await until(erased)
    await chat.chat.bounce(post, "no such user", copies=3)
    [part] = await chat.gateway.parts()
    assert part["state"] == "sent"
    assert part["failed"], "the part says so; the reason goes with what is left of the session"
    assert await chat.gateway.sessions() == []
    await chat.told(message("m2", "hello again"))
    texts = [entry["text"] for entry in await chat.entries(KEY)]
    assert not any("no such user" in text for text in texts), "it begins anew"
