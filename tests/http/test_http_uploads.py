"""Files from the owner's faces: uploaded first, then taken by a message with its text, together or not at all."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from gateway_house import GatewayHouse, PlayedConversation, until

from semel.gateway import Gateway
from semel.gateway.files import MAX_FILE_BYTES, blob_id
from semel.gateway.inbound import uploads
from semel.ledger.admin import books
from semel.ledger.inbound import uploads as rows

Json = dict[str, Any]
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x10\0\0\0\x09" + bytes(range(256)) * 8
OCTETS = {"Content-Type": "application/octet-stream"}


async def upload(client: httpx2.AsyncClient, content: bytes = PNG, name: str = "plan.png") -> Json:
    response = await client.post("/v1/files", params={"name": name}, content=content, headers=OCTETS)
    assert response.status_code == 201, response.text
    return dict(response.json())


async def say(client: httpx2.AsyncClient, session: str = "s", **body: Any) -> httpx2.Response:
    return await client.post(f"/v1/sessions/{session}/messages", json=body)


def stored(gateway: Gateway) -> list[str]:
    folder = gateway.file_store.content.folder
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


async def until_stored(gateway: Gateway, *ids: str) -> None:
    async def only_these() -> bool:
        return stored(gateway) == sorted(ids)

    await until(only_these)


async def test_a_picture_reaches_the_agent_byte_for_byte(
    client: httpx2.AsyncClient, world: GatewayHouse, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlayedConversation, "images", True)
    file = await upload(client)
    assert file["id"] == blob_id(PNG)
    assert (file["name"], file["mime"], file["size"]) == ("plan.png", "image/png", len(PNG))
    accepted = await say(client, text="what is this?", files=[{"id": file["id"]}])
    assert accepted.json() == {"event": 1, "status": "accepted"}

    async def prompted() -> bool:
        return "s" in world.agents["main"].conversations and world.agents["main"].conversations["s"].prompts == 1

    await until(prompted)
    [note, text, link, image] = world.agents["main"].conversations["s"].contents[0]
    copy = world.settings.data_dir / ".semel/received" / f"{file['id'][:8]}-plan.png"
    assert text["text"] == "what is this?"
    assert f".semel/received/{file['id'][:8]}-plan.png" in note["text"]
    assert (link["type"], link["uri"], copy.read_bytes()) == ("resource_link", copy.absolute().as_uri(), PNG)
    assert (image["type"], image["mimeType"]) == ("image", "image/png")
    [entry] = [entry for entry in await world.entries() if entry["role"] == "user"]
    known = {name: file[name] for name in ("id", "name", "mime", "size")}
    assert entry["files"] == [{**known, "width": 16, "height": 9}]
    blob = await client.get(f"/v1/blobs/{file['id']}")
    assert (blob.content, blob.headers["content-type"]) == (PNG, "image/png")


async def test_files_alone_are_a_message_and_equal_ones_keep_their_names(
    client: httpx2.AsyncClient, world: GatewayHouse
) -> None:
    one, two = await upload(client, b"same", "a.txt"), await upload(client, b"same", "../b\u202e.txt")
    assert (one["id"], two["name"]) == (two["id"], "b.txt")
    await say(client, files=[{"id": one["id"], "name": "a.txt"}, {"id": two["id"]}])
    await until(lambda: _has_prompt(world))
    [entry] = [entry for entry in await world.entries() if entry["role"] == "user"]
    assert [file["name"] for file in entry["files"]] == ["a.txt", "b.txt"]
    folder = world.settings.data_dir / ".semel/received"
    assert [(folder / f"{one['id'][:8]}-{name}").read_bytes() for name in ("a.txt", "b.txt")] == [b"same"] * 2


async def _has_prompt(world: GatewayHouse) -> bool:
    return "s" in world.agents["main"].conversations and world.agents["main"].conversations["s"].prompts > 0


async def test_a_repeat_is_one_message_also_if_its_file_was_uploaded_again(
    client: httpx2.AsyncClient, gateway: Gateway, world: GatewayHouse
) -> None:
    file, other = await upload(client), await upload(client, b"other", "b.txt")
    body = {"text": "look", "files": [{"id": file["id"]}], "id": "m-1"}
    assert (await say(client, **body)).json()["status"] == "accepted"
    assert (await say(client, **body)).json() == {"event": 1, "status": "duplicate"}
    await upload(client, name="renamed.png")
    assert (await say(client, **body)).json() == {"event": 1, "status": "duplicate"}
    for changed in ({"files": [{"id": other["id"]}]}, {"files": []}, {"text": "look!"}):
        refused = await say(client, **{**body, **changed})
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:semel:problem:conflict")
    assert (await say(client, text="again", files=[{"id": file["id"]}])).json()["status"] == "accepted"
    assert await gateway.record.read(rows.measure_waiting) == (1, 5), "only the file that no message took"
    await gateway.delete("s")
    await until_stored(gateway, other["id"])
    assert (await say(client, **body)).json() == {"event": 1, "status": "duplicate"}, "its file is not needed again"


async def test_a_message_whose_file_is_not_there_is_not_accepted(
    client: httpx2.AsyncClient, gateway: Gateway, world: GatewayHouse
) -> None:
    file = await upload(client)
    missing = {"id": blob_id(b"never uploaded")}
    refused = await say(client, text="look", files=[{"id": file["id"]}, missing], id="m-1")
    assert (refused.status_code, refused.json()["type"]) == (404, "urn:semel:problem:not-found")
    assert refused.json()["detail"].startswith(f"files[1]: there is no uploaded file {missing['id']}")
    assert [session["key"] for session in await gateway.sessions()] == []
    accepted = await say(client, text="look", files=[{"id": file["id"]}], id="m-1")
    assert accepted.json()["status"] == "accepted", "neither its key nor its other file was used up"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"files": [{"id": "../../etc/passwd"}]}, "files[0].id"),
        ({"files": [{"id": "0" * 64}] * 21}, "files"),
        ({"files": [{"id": "0" * 64}], "blocks": [{"type": "text", "text": "x"}]}, "files"),
        ({"files": [{"id": "0" * 64}], "text": "/stop"}, "files"),
        ({"files": []}, "text"),
    ],
)
async def test_what_is_wrong_with_the_files_of_a_message_is_said(
    client: httpx2.AsyncClient, body: Json, field: str
) -> None:
    refused = await say(client, **body)
    assert (refused.status_code, refused.json().get("field")) == (400, field)


async def test_files_that_are_too_large_together_are_refused(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MAX_MESSAGE_FILE_BYTES", 10)
    files = [await upload(client, content, "a.txt") for content in (b"123456", b"12345")]
    refused = await say(client, files=[{"id": file["id"]} for file in files])
    assert (refused.status_code, "11 bytes together" in refused.json()["detail"]) == (400, True)
    assert (await say(client, files=[{"id": files[0]["id"]}])).status_code == 202


# ---------------------------------------------------------------- an upload that fails leaves nothing


async def test_a_file_above_the_limit_is_refused_announced_or_not(client: httpx2.AsyncClient, gateway: Gateway) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1 << 20)

    announced = {**OCTETS, "Content-Length": str(MAX_FILE_BYTES + 1)}
    for content, headers in ((b"", announced), (endless(), OCTETS)):
        refused = await client.post("/v1/files", content=content, headers=headers)
        assert (refused.status_code, refused.json()["limit"]) == (413, MAX_FILE_BYTES)
    assert stored(gateway) == []


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "image/png", ""])
async def test_only_plain_bytes_are_taken(client: httpx2.AsyncClient, gateway: Gateway, kind: str) -> None:
    refused = await client.post("/v1/files", content=b"x", headers={"Content-Type": kind})
    assert (refused.status_code, refused.json()["type"]) == (415, "urn:semel:problem:not-json")
    assert "application/octet-stream" in refused.json()["detail"]
    assert stored(gateway) == []


async def test_a_full_disk_is_said_and_loses_nothing(
    client: httpx2.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def fail(fd: int, data: Any) -> int:
        if len(data) == len(PNG):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        refused = await client.post("/v1/files", content=PNG, headers=OCTETS)
    assert (refused.status_code, refused.json()["type"]) == (503, "urn:semel:problem:unavailable")
    assert "Its disk is full: free some space." in refused.json()["detail"]
    assert stored(gateway) == []
    file = await upload(client)
    assert (await say(client, files=[{"id": file["id"]}])).status_code == 202


async def test_an_upload_that_breaks_off_leaves_nothing(client: httpx2.AsyncClient, gateway: Gateway) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield PNG
        raise ConnectionError("the phone lost its network")

    with pytest.raises(ConnectionError):
        await gateway.uploads.take_in("a.png", broken())
    assert stored(gateway) == []
    assert gateway.file_store.open == 0


async def test_too_much_that_waits_is_refused(client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MAX_WAITING_FILES", 1)
    file = await upload(client)
    refused = await client.post("/v1/files", content=b"more", headers=OCTETS)
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:semel:problem:wrong-state")
    await say(client, files=[{"id": file["id"]}])
    await upload(client, b"more")


# ---------------------------------------------------------------- what no message takes goes


async def test_an_upload_without_a_message_expires(client: httpx2.AsyncClient, gateway: Gateway) -> None:
    file, kept = await upload(client), await upload(client, b"kept", "b.txt")
    await gateway.record.write(rows.record_upload, file["id"], "plan.png", "image/png", 0)  # its time is over
    assert await gateway.uploads.remove_expired() == 1
    await until_stored(gateway, kept["id"])
    refused = await say(client, files=[{"id": file["id"]}])
    assert (refused.status_code, "after 24 hours: upload it again" in refused.json()["detail"]) == (404, True)
    await upload(client)
    assert (await say(client, files=[{"id": file["id"]}])).status_code == 202


async def test_an_expired_upload_stays_while_a_message_holds_the_same_file(
    client: httpx2.AsyncClient, gateway: Gateway
) -> None:
    file = await upload(client)
    await say(client, files=[{"id": file["id"]}])
    await upload(client)
    await gateway.record.write(rows.record_upload, file["id"], "plan.png", "image/png", 0)
    assert await gateway.uploads.remove_expired() == 1
    await asyncio.sleep(0)
    assert (await client.get(f"/v1/blobs/{file['id']}")).content == PNG
    assert not [book for book in await gateway.record.read(books.audit) if not book.ok]


async def test_a_deleted_session_takes_its_file_with_it_but_not_an_upload(
    client: httpx2.AsyncClient, gateway: Gateway
) -> None:
    file = await upload(client)
    await say(client, files=[{"id": file["id"]}])
    again = await upload(client, name="again.png")
    await gateway.delete("s")

    async def erased() -> bool:
        return not gateway.erasures.queue

    await until(erased)
    assert stored(gateway) == [file["id"]]
    assert (await say(client, "t", files=[{"id": again["id"]}])).json()["status"] == "accepted"
    await gateway.delete("t")
    await until_stored(gateway)
