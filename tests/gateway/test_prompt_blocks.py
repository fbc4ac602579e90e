"""A message in content blocks: heard and kept byte for byte, given to the agent as it takes it, readable for people."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "http"))

from gateway_house import GatewayHouse, PlayedConversation, until, world

from semel.agents.acp.session import InitializeResult
from semel.gateway.errors import BadRequest
from semel.ledger.storage.rows import Row

__all__ = ["world"]
Json = dict[str, Any]

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x10\0\0\0\x09" + bytes(range(256)) * 40
IMAGE = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png", "uri": "file:///w/plan.png"}
SOUND = {"type": "audio", "data": base64.b64encode(b"RIFF\0\1").decode(), "mimeType": "audio/wav", "_meta": {"x": [1]}}
SOURCE = "def f():\n\treturn '\u2028'  # \U0001f600\r\n"
CODE = {"type": "resource", "resource": {"uri": "file:///w/a.py", "mimeType": "text/x-python", "text": SOURCE}}
BINARY = {"type": "resource", "resource": {"uri": "file:///w/b.bin", "blob": base64.b64encode(b"\0\xff").decode()}}
LINK = {"type": "resource_link", "uri": "file:///w/long name.md", "name": "long name.md", "size": None, "title": "T"}
COMPARE = {"type": "text", "text": "Compare", "annotations": {"priority": 1}}


def typed(text: str) -> Json:
    return {"type": "text", "text": text}


ALL = [COMPARE, CODE, typed("with"), LINK, typed(", please."), IMAGE, SOUND, BINARY]


@pytest.fixture
def takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("images", "audio", "resources"):
        monkeypatch.setattr(PlayedConversation, kind, True)


async def prompt_of(world: GatewayHouse, blocks: list[Json], number: int = 1, **more: Any) -> list[Json]:
    """Say it, and return what the agent was prompted with."""
    await world.gateway.say("s", blocks=blocks, **more)
    conversations = world.agents["main"].conversations

    async def prompted() -> bool:
        return "s" in conversations and conversations["s"].prompts == number

    await until(prompted)
    return conversations["s"].contents[-1]


@pytest.mark.usefixtures("takes_all")
async def test_an_agent_that_takes_everything_gets_the_blocks_unchanged(world: GatewayHouse) -> None:
    assert await prompt_of(world, ALL) == ALL


@pytest.mark.usefixtures("takes_all")
async def test_people_read_a_text_with_links_and_see_the_files(world: GatewayHouse) -> None:
    await prompt_of(world, ALL)
    entry = (await world.entries())[0]
    text = entry["text"]
    assert text == (
        "Compare [a.py](file:///w/a.py) with [long name.md](file:///w/long name.md), please. [b.bin](file:///w/b.bin)"
    )
    assert [text[m["start"] : m["end"]].strip() for m in entry["mentions"]] == [
        "[a.py](file:///w/a.py)", "[long name.md](file:///w/long name.md)", "[b.bin](file:///w/b.bin)",
    ]  # fmt: skip
    assert [(file["name"], file["mime"]) for file in entry["files"]] == [
        ("a.py", "text/x-python"), ("plan.png", "image/png"), ("sound.wav", "audio/wav"),
        ("b.bin", "application/octet-stream"),
    ]  # fmt: skip
    assert [(file.get("width"), file.get("height")) for file in entry["files"][:2]] == [(None, None), (16, 9)]
    stored = world.gateway.file_store.content.folder / entry["files"][1]["id"]
    assert stored.read_bytes() == PNG
    assert "blocks" not in entry, "watchers need no second copy"
    session = await world.gateway.session("s")
    assert session["title"] == "Compare a.py with long name.md, please. b.bin"
    assert (await world.gateway.doctor())["ok"]


async def test_an_agent_that_takes_only_text_and_links_gets_these(world: GatewayHouse) -> None:
    code, link, image, sound, binary = await prompt_of(world, [CODE, LINK, IMAGE, SOUND, BINARY])
    assert code == {"type": "text", "text": f'<context ref="file:///w/a.py">\n{SOURCE}\n</context>'}
    assert link == LINK
    assert [block["type"] for block in (image, sound, binary)] == ["resource_link"] * 3
    copy = Path(image["uri"].removeprefix("file://"))
    assert copy.parts[-3:-1] == (".semel", "received")
    assert (copy.read_bytes(), image["mimeType"], image["size"]) == (PNG, "image/png", len(PNG))


@pytest.mark.usefixtures("takes_all")
async def test_a_repeat_is_a_duplicate_and_other_blocks_under_its_key_are_a_conflict(world: GatewayHouse) -> None:
    first = await world.gateway.say("s", blocks=[IMAGE], key="m")
    again = await world.gateway.say("s", blocks=[IMAGE], key="m")
    other = await world.gateway.say("s", blocks=[SOUND], key="m")
    assert (first.status, again.status, other.status) == ("accepted", "duplicate", "conflict")
    kept = await world.gateway.record.read(lambda tx: tx.all(KeptBlob, "blobs_kept", before=tx.now))
    assert kept == [], "no file waits for a message that was decided"
    blobs = {path.name for path in world.gateway.file_store.content.folder.iterdir()}
    assert (await world.entries())[0]["files"][0]["id"] in blobs


class KeptBlob(Row):
    id: str


@pytest.mark.usefixtures("takes_all")
async def test_messages_of_both_kinds_in_one_turn_keep_their_order(world: GatewayHouse) -> None:
    await world.gateway.say("s", "first", wakes=False)
    prompt = await prompt_of(world, [LINK, typed("second")])
    assert prompt == [typed("first"), LINK, typed("second")]


@pytest.mark.usefixtures("takes_all")
async def test_a_word_for_semel_is_taken_off_the_blocks(world: GatewayHouse) -> None:
    """`/queue TEXT` and `//stop` are for Semel only in part: the agent gets the rest, and all other blocks."""
    queued = await prompt_of(world, [typed("/queue read "), LINK])
    assert queued == [typed("read "), LINK]
    world.agents["main"].conversations["s"].end()
    await world.idle()
    assert await prompt_of(world, [typed("//stop")], 2) == [typed("/stop")]
    world.agents["main"].conversations["s"].end()
    await world.idle()
    text, mentions = next((one["text"], one["mentions"]) for one in await world.entries() if one.get("mentions"))
    assert text == "read [long name.md](file:///w/long name.md)"
    assert (mentions[0]["start"], mentions[0]["end"]) == (5, len(text))


async def test_a_command_in_a_block_is_a_command(world: GatewayHouse) -> None:
    await world.gateway.say("s", blocks=[typed("/status")])

    async def answered() -> bool:
        return len(await world.entries()) == 2

    await until(answered)
    assert "s" not in world.agents["main"].conversations


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        ([], "blocks: a prompt has 1 to 200 blocks"),
        ([typed("x")] * 201, "this one has 201"),
        ([typed(" \n")], "not blank"),
        ([typed("x"), {"type": "video", "data": ""}], r"blocks\[1\]: .*video"),
        ([{"text": "x"}], r"blocks\[0\]: .*`type`"),
        ([{"type": "image", "mimeType": "image/png"}], r"blocks\[0\]: .*`data`"),
        ([{**IMAGE, "data": IMAGE["data"][:-3]}], r"blocks\[0\]\.data: it is not base64"),
        ([{**IMAGE, "data": IMAGE["data"][:4] + "\n" + IMAGE["data"][4:]}], "without line breaks"),
        ([{**IMAGE, "data": ""}], r"blocks\[0\]: it is empty"),
        ([{"type": "resource", "resource": {"uri": "x"}}], "either `text` or `blob`"),
        ([{"type": "resource", "resource": {"uri": "x", "text": "a", "blob": "AA=="}}], "either `text` or `blob`"),
        ([{"type": "resource_link", "uri": 1, "name": "x"}], r"blocks\[0\]: .*uri"),
    ],
)
async def test_a_wrong_block_is_refused_in_words_and_nothing_is_kept(
    world: GatewayHouse, blocks: list[Json], reason: str
) -> None:
    with pytest.raises(BadRequest, match=reason):
        await world.gateway.say("s", blocks=blocks)
    assert await world.gateway.sessions() == []


async def test_text_and_blocks_or_blocks_of_a_program_are_refused(world: GatewayHouse) -> None:
    with pytest.raises(BadRequest, match="either `text` or `blocks`"):
        await world.gateway.say("s", "x", blocks=[LINK])
    with pytest.raises(BadRequest, match="send it as `text`"):
        await world.gateway.say("s", blocks=[LINK], automatic=True)


@pytest.mark.usefixtures("takes_all")
async def test_an_empty_file_may_be_mentioned(world: GatewayHouse) -> None:
    empty = {"type": "resource", "resource": {"uri": "file:///w/empty", "text": ""}}
    assert await prompt_of(world, [empty, typed("why?")]) == [
        empty,
        typed("why?"),
    ]
    assert (await world.entries())[0]["text"] == "[empty](file:///w/empty) why?"


@pytest.mark.usefixtures("takes_all")
async def test_a_lost_file_becomes_words_and_the_rest_arrives(world: GatewayHouse) -> None:
    await world.gateway.say("s", blocks=[IMAGE, LINK], wakes=False)
    for path in world.gateway.file_store.content.folder.iterdir():
        path.unlink()
    words, link, go = await prompt_of(world, [typed("go")])
    assert words["type"] == "text" and "could not be read" in words["text"]
    assert (link, go) == (LINK, typed("go"))


def test_what_an_acp_agent_takes_is_read_from_its_answer_to_initialize() -> None:
    capabilities = {"promptCapabilities": {"image": True, "audio": False, "embeddedContext": True}}
    read = InitializeResult.read({"protocolVersion": 1, "agentCapabilities": capabilities})
    assert (read.images, read.audio, read.resources) == (True, False, True)
