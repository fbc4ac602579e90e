"""Files in Teams: people's, pictures, and the offer of a file that its person accepts or declines."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from gateway_world import script
from posting_double import find_shown
from teams_chat import chat
from teams_house import ANN, BOB, CHAT, TeamsHouse, until

from semel.channels.teams.files import FILE_TYPE, OFFER_TYPE, FileUpload
from semel.channels.teams.settings import DEFAULT_SERVICE
from semel.channels.teams.transport import UPLOAD_PIECE_BYTES, TeamsApi
from semel.gateway.ports import Kept, Missing, NotSent, Op, Rejected

PNG = b"\x89PNG\r\n\x1a\n and more"


def kept(there: TeamsHouse, file: Any) -> bytes:
    assert isinstance(file, Kept), file
    return (there.inbox.store / file.id).read_bytes()


async def test_a_persons_file_and_a_pasted_picture_are_kept(there: TeamsHouse) -> None:
    there.double.send_file(ANN, "plan.pdf", b"%PDF-1", text="read it")
    there.double.send_picture(BOB, PNG, address=there.group)
    plan, picture = await there.hear()
    assert (plan.text, plan.files[0].name, plan.files[0].mime) == ("read it", "plan.pdf", "application/pdf")
    assert kept(there, plan.files[0]) == b"%PDF-1"
    assert (picture.text, picture.address, kept(there, picture.files[0])) == ("", there.group, PNG)
    assert (picture.files[0].name, picture.files[0].mime) == ("image.png", "image/png")


async def test_a_file_that_cannot_be_fetched_never_keeps_its_message_back(there: TeamsHouse, no_delay: None) -> None:
    there.double.fail("download", "503", times=2)
    there.double.send_file(ANN, "late.txt", "late")
    there.double.fail("picture", "drop", times=None)
    there.double.send_picture(ANN, PNG, text="look")
    late, lost = await there.hear()
    assert kept(there, late.files[0]) == b"late"
    assert lost.text == "look" and isinstance(lost.files[0], Missing), lost


async def test_what_follows_a_message_in_its_chat_waits_for_the_messages_file(
    there: TeamsHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_come, keep = asyncio.Event(), there.inbox.keep

    async def keep_late(*file: Any) -> Kept:
        await may_come.wait()
        return await keep(*file)

    monkeypatch.setattr(there.inbox, "keep", keep_late)
    id = there.double.send_file(ANN, "plan.txt", "plan", text="read it")
    again = there.double.deliveries[0].payload
    there.double.write(ANN, "summarise it")
    there.double.delete(ANN, id)
    there.double.write(BOB, "hello", address=there.group)
    requests = [*there.double.take_requests(), there.double.make_request(again)]
    answers = asyncio.gather(*(there.take(*request) for request in requests))
    await until(lambda: bool(there.inbox.events))
    may_come.set()
    assert await answers == [(200, {})] * 5
    heard = [(event.kind, event.text) for event in there.inbox.events]
    assert heard == [("message", "hello"), ("message", "read it"), ("message", "summarise it"), ("delete", "")]
    assert kept(there, there.inbox.events[1].files[0]) == b"plan"
    assert there.calls("download") == ["download"], "the repeat fetches nothing"


async def test_files_of_strangers_large_files_and_pages_are_named_and_not_kept(there: TeamsHouse) -> None:
    there.channel = there.fresh(file_limit=10)
    there.double.send_file(ANN, "large.txt", "x" * 11)
    there.double.send_file(ANN, "page.txt", "x")
    there.double.files.popitem()  # it is gone
    there.double.send_file(BOB, "x.txt", "x")
    there.inbox.strangers.add(BOB)
    there.double.tell(ANN, CHAT, {"type": "message", "id": "7", "attachments": [{"contentType": "x/y", "name": "z"}]})
    reasons = [event.files[0].why for event in await there.hear() if isinstance(event.files[0], Missing)]
    assert reasons == [
        "it is larger than 10 bytes", "Microsoft does not give it: HTTP 404",
        "it was not fetched: its sender is not known here", "Teams does not give such attachments to a bot",
    ]  # fmt: skip


DRIVE = "https://contoso-my.sharepoint.com/personal/ann/_layouts/15/download.aspx?x=1"
NEVER = [
    "http://contoso.sharepoint.com/x", "https://sharepoint.com.evil.example/x", "https://evilsharepoint.com/x",
    "https://user@contoso.sharepoint.com/x", "https://contoso.sharepoint.com:8443/x", "https://169.254.169.254/x",
    "file:///etc/passwd", "", "https://[", "https://smba.trafficmanager.net/x",
]  # fmt: skip


async def test_files_are_at_microsofts_hosts_only_and_the_token_goes_where_teams_is_served(there: TeamsHouse) -> None:
    api = TeamsApi(there.fresh(service_url=DEFAULT_SERVICE).settings)
    assert api.is_file_address(DRIVE)
    for address in NEVER:
        assert not api.is_file_address(address), address
        with pytest.raises(Exception, match="not in OneDrive"):
            api.download_file(address)
        for url, content_url in ((address, DRIVE), (DRIVE, address)):
            with pytest.raises(NotSent, match="not in OneDrive"):
                await api.upload_file(FileUpload(url, content_url, "x", "", ""), b"x")
    for address in (
        *NEVER,
        f"{there.double.service_url}v3/conversations/x",
        "http://127.0.0.1:9/teams/v3/attachments/x",
    ):
        picture = {"contentType": "image/*", "contentUrl": address}
        there.double.tell(ANN, CHAT, {"type": "message", "id": f"7{len(address)}", "attachments": [picture]})
    assert all(isinstance(event.files[0], Missing) for event in await there.hear())
    assert there.calls() == ["openid", "keys"], "no request left for any of them"


def op(there: TeamsHouse, file: Path, **more: Any) -> Op:
    return there.op(kind="file", file=file, name=file.name, **more)


async def test_a_picture_is_shown_anywhere_and_other_files_in_personal_chats_only(
    there: TeamsHouse, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "a.txt").write_text("x")
    for address in (CHAT, there.group):
        await there.channel.send(op(there, tmp_path / "a.png", to=address, mime="image/png"))
        assert there.double.texts(address) == ["[a.png]"]
    begun = await there.channel.send(op(there, tmp_path / "a.png", to=there.garden, mime="image/png", marked=True))
    assert there.double.texts(begun.id.rpartition("/")[0]) == ["[(repeat) a.png]"]
    for address in (there.group, there.garden):
        with pytest.raises(Rejected, match="in personal chats only"):
            await there.channel.send(op(there, tmp_path / "a.txt", to=address))
    with pytest.raises(Rejected, match="larger than 1 bytes"):
        await there.fresh(file_limit=1).send(op(there, tmp_path / "a.png"))


async def offer(there: TeamsHouse, file: Path) -> tuple[Op, str]:
    """Offer a file to Ann. Return the part, and Teams' id of the message."""
    part = op(there, file)
    there.inbox.sent_files[part.key, CHAT] = file
    return part, (await there.channel.send(part)).id.rpartition("/")[2]


def kind_of(there: TeamsHouse, id: str) -> str:
    return str(there.double.sent[id]["message"]["attachments"][0]["contentType"])


async def test_a_file_is_offered_uploaded_in_pieces_and_its_card_takes_the_place_of_the_offer(
    there: TeamsHouse, tmp_path: Path
) -> None:
    content = b"0123456789abcdef" * (UPLOAD_PIECE_BYTES // 16 + 1)
    (tmp_path / "a:b.bin").write_bytes(content)
    part, id = await offer(there, tmp_path / "a:b.bin")
    assert kind_of(there, id) == OFFER_TYPE and there.double.texts(CHAT) == ["[a_b.bin]"]
    there.double.answer_offer(ANN, id)
    [echo] = await there.hear()
    assert (echo.kind, echo.key, echo.of) == ("echo", part.key, f"{CHAT}/{id}")
    [file] = there.double.drive.values()
    assert (file.name, file.content) == ("a_b.bin", content) and there.calls("upload") == ["upload"] * 2
    assert kind_of(there, id) == FILE_TYPE and there.double.texts(CHAT) == ["[a_b.bin]"]
    there.double.post_again()
    assert await there.hear() == [] and len(there.calls("upload")) == 2


async def test_an_offer_that_is_accepted_twice_at_once_is_uploaded_once(there: TeamsHouse, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    _, id = await offer(there, tmp_path / "a.txt")
    for _ in range(2):
        there.double.answer_offer(ANN, id)
    requests = there.double.take_requests()
    assert await asyncio.gather(*(there.take(*request) for request in requests)) == [(200, {})] * 2
    assert there.calls("upload") == ["upload"] and kind_of(there, id) == FILE_TYPE


async def test_an_offer_that_is_declined_while_it_is_uploaded_has_not_failed(there: TeamsHouse, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    _, id = await offer(there, tmp_path / "a.txt")
    for accepts in (True, False):
        there.double.answer_offer(ANN, id, accepts=accepts)
    await asyncio.gather(*(there.take(*request) for request in there.double.take_requests()))
    assert [event.kind for event in there.inbox.events] == ["echo"] and kind_of(there, id) == FILE_TYPE


async def test_a_card_that_teams_does_not_take_does_not_ask_for_the_file_again(
    there: TeamsHouse, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("x")
    _, id = await offer(there, tmp_path / "a.txt")
    there.double.fail("edit", "error")
    there.double.answer_offer(ANN, id)
    assert [event.kind for event in await there.hear()] == ["echo"]
    assert [file.content for file in there.double.drive.values()] == [b"x"]


@pytest.mark.parametrize(("call", "how"), [("upload", "503"), ("upload", "drop"), ("edit", "502"), ("edit", "cut")])
async def test_a_file_that_did_not_arrive_can_be_accepted_again(
    there: TeamsHouse, tmp_path: Path, call: str, how: Any
) -> None:
    (tmp_path / "a.txt").write_text("x")
    _, id = await offer(there, tmp_path / "a.txt")
    there.double.fail(call, how)
    there.double.answer_offer(ANN, id)
    [request] = there.double.take_requests()
    assert (await there.take(*request))[0] == 503 and there.inbox.events == []
    there.double.answer_offer(ANN, id)
    assert [event.kind for event in await there.hear()] == ["echo"]
    assert kind_of(there, id) == FILE_TYPE and there.double.texts(CHAT) == ["[a.txt]"]
    assert [file.content for file in there.double.drive.values() if file.content] == [b"x"]


async def test_a_declined_file_and_one_that_was_deleted_have_failed(there: TeamsHouse, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    part, id = await offer(there, tmp_path / "a.txt")
    other, deleted = await offer(there, tmp_path / "a.txt")
    there.double.answer_offer(ANN, id, accepts=False)
    there.inbox.sent_files[other.key, CHAT] = None
    there.double.answer_offer(ANN, deleted)
    declined, gone = [event for event in await there.hear() if event.kind == "failed"]
    assert [(e.of, e.text) for e in (declined, gone)] == [
        (part.key, "the person does not want the file"),
        (other.key, "the file was deleted before the person agreed to it"),
    ]
    assert there.calls("upload") == []
    assert there.double.texts(CHAT) == ["a.txt was not delivered. Ask for it again if you want it."] * 2


async def test_an_answer_after_the_first_one_changes_neither_the_file_nor_what_is_recorded(
    there: TeamsHouse, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("x")
    _, arrived = await offer(there, tmp_path / "a.txt")
    part, declined = await offer(there, tmp_path / "a.txt")
    for id, accepts in ((arrived, True), (arrived, False), (declined, False), (declined, True)):
        there.double.answer_offer(ANN, id, accepts=accepts)
    heard = [(event.kind, event.of) for event in await there.hear()]
    assert heard == [("echo", f"{CHAT}/{arrived}"), ("echo", f"{CHAT}/{declined}"), ("failed", part.key)]
    assert kind_of(there, arrived) == FILE_TYPE and kind_or_none(there, declined) is None
    _, declined = await offer(there, tmp_path / "a.txt")
    there.double.fail("edit", "503")
    there.double.answer_offer(ANN, declined, accepts=False)
    assert [event.kind for event in await there.hear()] == ["echo", "failed"] and kind_of(there, declined) == OFFER_TYPE
    there.double.answer_offer(ANN, declined)
    assert await there.hear() == [] and kind_or_none(there, declined) is None
    assert there.calls("upload") == ["upload"]


async def test_nobody_gets_a_file_that_was_offered_to_another_or_sends_it_elsewhere(
    there: TeamsHouse, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("x")
    _, id = await offer(there, tmp_path / "a.txt")
    there.double.answer_offer(BOB, id)
    there.double.answer_offer(BOB, id, accepts=False)
    there.double.answer_offer(ANN, id, uploadUrl="http://192.0.2.1/x")
    for request in there.double.take_requests():
        assert (await there.take(*request))[0] == 503
    assert there.inbox.events == []
    for value in ({"action": "accept", "context": {}}, {"action": "else", "context": {"semel": "k"}}, 7):
        there.double.tell(
            ANN, CHAT, {"type": "invoke", "name": "fileConsent/invoke", "id": "f:1", "replyToId": id, "value": value}
        )
    assert [event.kind for event in await there.hear()] == ["unreadable"] * 3
    assert there.calls("upload") == [] and kind_of(there, id) == OFFER_TYPE


async def test_an_agents_file_reaches_its_person_and_the_agent_learns_that_one_was_declined(tmp_path: Path) -> None:
    async with chat(tmp_path) as (world, house):
        (world.work / "a.txt").write_text("the list")
        call = {"call": "send_file", "arguments": {"path": "a.txt", "text": "Here it is."}}
        house.double.write(ANN, script(call))
        id = await find_shown(house.double, CHAT, "[a.txt]")
        await find_shown(house.double, CHAT, "Here it is.")
        house.double.answer_offer(ANN, id)
        await until(lambda: kind_of(house, id) == FILE_TYPE)
        assert [file.content for file in house.double.drive.values()] == [b"the list"]
        house.double.write(ANN, script(call))
        await until(lambda: house.double.texts(CHAT).count("[a.txt]") == 2)
        await world.sent()
        other = next(each["id"] for each in house.double.shown(CHAT) if kind_or_none(house, each["id"]) == OFFER_TYPE)
        house.double.answer_offer(ANN, other)
        [(headers, late)] = house.double.take_requests()  # of another device, which still shows the offer
        house.double.answer_offer(ANN, other, accepts=False)

        async def is_told() -> bool:
            entries = await world.gateway.entries(f"demo:teams:{CHAT}")
            return any("does not want the file" in str(entry) for entry in entries)

        await until(is_told)
        await until(lambda: kind_or_none(house, other) is None)
        assert (await world.gateway.hook("teams", headers, late))[0] == 200
        assert kind_or_none(house, other) is None
        assert [file.content for file in house.double.drive.values() if file.content] == [b"the list"]


def kind_or_none(there: TeamsHouse, id: str) -> str | None:
    return kind_of(there, id) if there.double.sent[id]["message"].get("attachments") else None
