"""What a lost attempt said and never sent leaves once; the attempt that goes on is told what became of each text."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, destination, script, until

from fewer_cases import cross
from semel.gateway.ports import Safety
from semel.gateway.settings import ChannelSettings
from semel.ledger.storage.rows import SpawnRow
from semel.testing import FakeChannel, Fault, Platform
from semel.testing.scripted_agent import read_prompts

Json = dict[str, Any]
KEY = "demo:chat:room"
DIES: list[Json] = [{"save": True}, {"sleep": 0.2}, {"die": 9}]
NOTHING: list[Json] = [{"sleep": 0.01}]
UNAVAILABLE = {"error": {"code": -32603, "message": "503 Unavailable"}}


def send(text: str, **arguments: Any) -> Json:
    return {"call": "send_message", "arguments": {"text": text, **arguments}}


@dataclass
class Chat:
    """A conversation in a chat that gets closing texts, or (narration "all") all of them."""

    w: World
    platform: Platform

    async def ask(self, text: str) -> list[str]:
        """Say it and wait for the end; what the chat was sent so far."""
        await self.w.gateway.say(KEY, text)
        await self.rest()
        return self.posts

    async def rest(self) -> None:
        await self.w.idle(KEY)
        await self.w.sent()

    @property
    def posts(self) -> list[str]:
        return [post.text for post in self.platform.log]

    @property
    def seen(self) -> list[str]:
        """The messages as a person sees them there."""
        screen: dict[str, str] = {}
        for post in self.platform.log:
            if post.kind == "delete":
                screen.pop(str(post.target), None)
            else:
                screen[post.target or post.id] = post.text
        return list(screen.values())

    @property
    def told(self) -> list[str]:
        """The lines of the newest prompt that the agent was given."""
        return read_prompts(self.w.path / "prompts")[-1].text.splitlines()


@asynccontextmanager
async def chat(
    path: Path, narration: Any = "last", safety: Safety = Safety.IDEMPOTENT, stream: bool = False, **more: Any
) -> AsyncIterator[Chat]:
    platform = Platform(folds=safety is Safety.IDEMPOTENT)
    channels = {"chat": FakeChannel("chat", safety, platform, deletes=stream)}
    settings = {"chat": ChannelSettings(name="chat", kind="fake", narration=narration, stream=stream)}
    async with World(path, channels=channels, channel_settings=settings, log=path / "prompts", **more) as w:
        yield Chat(w, platform)


@pytest.fixture
def soon_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn is tried again soon, and people are told of that wait as of a long one."""
    monkeypatch.setattr("semel.law.turn.RETRY_DELAYS_S", (0.1, 0.1))
    monkeypatch.setattr("semel.gateway.turns.turn_end.LONG_DELAY_S", 0.05)


async def kill_agent(w: World) -> None:
    (live,) = w.gateway.spawns.live.values()
    story = await w.gateway.record.read(lambda tx: tx.one(SpawnRow, "spawn_get", id=live.spawn))
    os.kill(story.pid, signal.SIGKILL)


async def test_a_text_leaves_although_a_permission_request_came_after_it(tmp_path: Path) -> None:
    async with chat(tmp_path) as c:
        asks = {"permission": "rm -r build", "allowed": ["Tidy."], "denied": ["Left."]}
        await c.w.gateway.say(KEY, script("The result is 42.", {"tool": "look"}, {"save": True}, asks, resume=NOTHING))

        async def asked() -> bool:
            return any("rm -r build" in text for text in c.posts)

        await until(asked)
        await kill_agent(c.w)
        await c.rest()
        assert c.posts.count("The result is 42.") == 1
        already = [line for line in c.told if "already said" in line]
        assert len(already) == 1 and "'The result is 42.'" in already[0]
        assert "asks for permission" not in "\n".join(c.told)
        assert "Withdrawn" not in "\n".join(c.told)


async def test_a_text_leaves_although_a_tool_sent_something_after_it(tmp_path: Path) -> None:
    async with chat(tmp_path) as c:
        posts = await c.ask(script("The result is 42.", send("And a file."), *DIES, resume=NOTHING))
        assert sorted(posts) == ["And a file.", "The result is 42."]


@pytest.mark.usefixtures("soon_told")
async def test_a_text_leaves_although_a_notice_of_a_long_wait_came_after_it(tmp_path: Path) -> None:
    async with chat(tmp_path, agent={"attempts": 2}) as c:
        posts = await c.ask(script("The result is 42.", {"tool": "look"}, UNAVAILABLE, resume=NOTHING))
        assert posts.count("The result is 42.") == 1
        assert sum("It is tried again" in text for text in posts) == 1


@pytest.mark.parametrize("narration", ["last", "all"])
async def test_what_was_cut_off_leaves_once_where_nothing_is_added(tmp_path: Path, narration: str) -> None:
    async with chat(tmp_path, narration) as c:
        posts = await c.ask(script({"tool": "look"}, "The result is 4", {"sleep": 0.2}, {"die": 9}, resume=NOTHING))
        assert posts == ["The result is 4"]
        assert any("it never left for the person" in line and "'The result is 4'" in line for line in c.told)


async def test_where_the_agent_adds_something_only_that_is_its_closing_text(tmp_path: Path) -> None:
    async with chat(tmp_path) as c:
        assert await c.ask(script("Let me see.", {"tool": "look"}, *DIES, resume=["It is 42."])) == ["It is 42."]


async def test_a_turn_that_is_given_up_after_its_last_attempt_leaves_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.law.turn.RETRY_DELAYS_S", (0.1, 0.1))
    async with chat(tmp_path, agent={"attempts": 2}) as c:
        posts = await c.ask(script("The result is 42.", {"tool": "look"}, UNAVAILABLE, resume=[UNAVAILABLE]))
        assert posts[0] == "The result is 42."
        assert posts[1].startswith("The agent's turn failed")


async def test_a_stop_of_the_attempt_that_goes_on_leaves_what_was_said_before(tmp_path: Path) -> None:
    async with chat(tmp_path) as c:
        mark = tmp_path / "went on"
        hangs = [{"touch": str(mark)}, {"hang": True}]
        await c.w.gateway.say(KEY, script("The result is 42.", {"tool": "look"}, *DIES, resume=hangs))

        async def went_on() -> bool:
            return mark.exists()

        await until(went_on)
        assert await c.w.gateway.controls.stop_turn(KEY, "me")
        await c.rest()
        assert c.posts.count("The result is 42.") == 1


async def test_the_agent_is_told_of_each_text_what_became_of_it(tmp_path: Path) -> None:
    async with chat(tmp_path, safety=Safety.AT_MOST_ONCE, destinations=destination("mail", "m")) as c:
        c.platform.fail_next(None, Fault.DROP, Fault.REJECT)
        steps = [send("One."), send("Two."), {"sleep": 1.0}, send("Three."), {"sleep": 1.0}, send("Four.", to="mail")]
        await c.ask(script(*steps, "Five.", {"tool": "look"}, *DIES, resume=NOTHING))
        told = {
            text: line for line in c.told for text in ("One", "Two", "Three", "Four", "Five") if f"'{text}.'" in line
        }
        assert told["One"] == "- already said: 'One.'"
        assert "nobody knows whether it arrived" in told["Two"]
        assert "it did not arrive" in told["Three"]
        assert told["Four"] == "- already said to web:m: 'Four.'"
        assert "it never left for the person; it leaves as your answer if you say nothing more" in told["Five"]


@pytest.mark.parametrize(
    ("then", "posts", "said"),
    [
        ([send("One."), "Done."], ["One.", "Done."], ["So", "One.", "Done."]),
        ([send("One.")], ["One."], ["So", "One."]),
        ([send("One."), "One."], ["One."], ["So", "One."]),
        (["One."], ["One."], ["One.", "So"]),
    ],
    ids=["sent by tool", "sent by tool alone", "sent by tool and repeated", "written again"],
)
async def test_a_tool_that_sends_what_a_lost_attempt_only_wrote_sends_it(
    tmp_path: Path, then: list[Any], posts: list[str], said: list[str]
) -> None:
    dies = [{"text": "One.", "message": "a"}, {"text": "So", "message": "b"}, {"die": 9}]
    async with chat(tmp_path) as c:
        assert await c.ask(script(attempts=[dies, then])) == posts
        assert await standing_in(c) == said
        await c.w.balanced()


@pytest.mark.usefixtures("soon_told")
async def test_a_text_that_was_overtaken_in_its_chat_is_said_there_where_a_later_attempt_ends_with_it(
    tmp_path: Path,
) -> None:
    fails = [{"text": "One.", "message": "a"}, {"text": "Two.", "message": "b"}, UNAVAILABLE]
    async with chat(tmp_path, agent={"attempts": 2}) as c:
        posts = await c.ask(script(attempts=[fails, ["One."]]))
        assert [text for text in posts if "It is tried again" not in text] == ["Two.", "One."]
        assert await standing_in(c) == ["Two.", "One."]
        await c.w.balanced()


def chunk(text: str, message: str) -> Json:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "messageId": message, "content": content}


async def said_in(c: Chat) -> list[tuple[str, bool, bool]]:
    """What the record has of the agent: each text, whether it broke off there, and whether it was said anew."""
    rows = [one for one in await c.w.entries(KEY) if one["role"] == "agent"]
    return [(one["text"], bool(one.get("partial")), bool(one.get("superseded"))) for one in rows]


async def standing_in(c: Chat) -> list[str]:
    """Of those, what was not said anew."""
    return [text for text, _, again in await said_in(c) if not again]


@pytest.mark.parametrize("stream", [False, True], ids=["", "streamed"])
async def test_a_text_behind_which_the_agent_remembers_another_leaves_where_all_texts_do(
    tmp_path: Path, stream: bool
) -> None:
    steps = [{"tool": "look"}, {"text": "One, seen.", "message": "a"}, {"remember": chunk("Two, unseen.", "b")}]
    async with chat(tmp_path, "all", stream=stream) as c:
        await c.ask(script(*steps, *DIES, resume=NOTHING))
        assert c.seen == ["One, seen.", "Two, unseen."]
        assert await said_in(c) == [("One, seen.", False, False), ("Two, unseen.", False, False)]
        await c.w.balanced()


async def test_a_text_behind_which_the_agent_remembers_it_in_full_leaves_as_that(tmp_path: Path) -> None:
    full = chunk("One, seen, and more.", "b")
    steps = [{"tool": "look"}, {"text": "One, seen", "message": "a"}, {"remember": full}]
    async with chat(tmp_path, "all") as c:
        assert await c.ask(script(*steps, *DIES, resume=NOTHING)) == ["One, seen, and more."]
        assert await said_in(c) == [("One, seen", True, True), ("One, seen, and more.", False, False)]
        await c.w.balanced()


@pytest.mark.parametrize(
    ("narration", "stream", "first"),
    cross(["last", "all"], [True, False], [[], ["Juniper grove thistle number seven."]]),
)
async def test_what_broke_off_is_not_said_again_for_what_a_later_attempt_told(
    tmp_path: Path, narration: str, stream: bool, first: list[Any]
) -> None:
    begun = "Juniper grove thistle number"
    image = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(b"\x89PNG").decode()}
    shows = {"update": {"sessionUpdate": "agent_message_chunk", "content": image}}
    async with chat(tmp_path, narration, stream=stream) as c:
        await c.ask(script({"tool": "look"}, begun, *DIES, resume=[*first, shows, *DIES]))
        texts = [text for text, _, _ in await said_in(c)]
        assert texts.count(begun) == 1
        assert sum(text.startswith(begun) for text in c.seen) <= 1
        assert [(text, again) for text, _, again in await said_in(c) if again] == ([(begun, True)] if first else [])
        await c.w.balanced()


@pytest.mark.parametrize(("blank", "narration"), cross(["\u200b", "\u2060 \u200b"], ["last", "all"]))
async def test_a_text_that_shows_nothing_and_only_the_agent_remembers_is_no_answer(
    tmp_path: Path, narration: str, blank: str
) -> None:
    async with chat(tmp_path, narration) as c:
        steps = ["Real words.", {"tool": "look"}, {"remember": chunk(blank, "b")}]
        assert await c.ask(script(*steps, *DIES, resume=NOTHING)) == ["Real words."]
        assert [text for text, _, _ in await said_in(c)] == ["Real words."]
        posts = await c.ask(script({"tool": "look"}, {"remember": chunk(blank, "c")}, *DIES, resume=NOTHING))
        assert posts[1:] == ["The agent ended its turn without a word."]
        await c.w.balanced()


@pytest.mark.parametrize("lost", [False, True], ids=["", "remembered"])
async def test_a_text_for_another_place_that_shows_nothing_is_not_sent(tmp_path: Path, lost: bool) -> None:
    blank = '<message to="boss">\u200b</message>Done.'
    steps = [{"tool": "look"}, {"remember": chunk(blank, "b")}, *DIES] if lost else [blank]
    async with chat(tmp_path, destinations=destination("boss", "19", "chat")) as c:
        assert await c.ask(script(*steps, resume=NOTHING)) == ["Done."]
        assert [text for text, _, _ in await said_in(c)] == ["Done."]
        await c.w.balanced()


@pytest.mark.parametrize("stream", [False, True])
async def test_all_that_a_block_said_at_home_leaves_where_its_agent_died_in_it(tmp_path: Path, stream: bool) -> None:
    block = {"text": 'Your report is ready. <message to="mail">For the mail.</message> The total is', "chunks": 9}
    async with chat(tmp_path, stream=stream, destinations=destination("mail", "m")) as c:
        await c.ask(script({"tool": "look"}, block, {"sleep": 0.2}, {"die": 9}, resume=NOTHING))
        assert [text.strip() for text in c.seen] == ["Your report is ready.", "The total is"]
        await c.w.balanced()


CUT = "Juniper grove thistle number"


@pytest.mark.parametrize("stream", [False, True])
async def test_the_beginning_of_what_was_shown_is_no_text_where_its_agent_dies_in_it_again(
    tmp_path: Path, stream: bool
) -> None:
    begins = [{"text": CUT, "chunks": 5}, {"sleep": 0.2}, {"die": 9}]
    again = [{"text": CUT[:12], "chunks": 2}, {"sleep": 0.2}, {"die": 9}]
    async with chat(tmp_path, stream=stream) as c:
        await c.ask(script({"tool": "look"}, *begins, resume=[again, NOTHING]))
        assert c.seen == [CUT]
        await c.w.balanced()


async def test_the_text_with_which_the_agents_history_ends_is_the_answer(tmp_path: Path) -> None:
    """The attempt before was cut off in another, behind the same text."""
    fails = [{"text": "One.", "message": "a"}, {"text": "Two", "message": "b"}, UNAVAILABLE]
    ends = [{"text": "One.", "message": "c"}, {"save": "end"}, {"sleep": 0.2}, {"die": 9}]
    async with chat(tmp_path) as c:
        assert await c.ask(script(attempts=[fails, ends])) == ["One."]
        await c.w.balanced()


@pytest.mark.usefixtures("soon_told")
async def test_the_answer_of_a_history_is_said_anew_where_what_was_written_behind_it_has_left(tmp_path: Path) -> None:
    fails = [{"text": "One.", "message": "a"}, {"text": "Two.", "message": "b"}, UNAVAILABLE]
    ends = [{"text": "One.", "message": "c"}, {"save": "end"}, {"sleep": 0.2}, {"die": 9}]
    async with chat(tmp_path, agent={"attempts": 3}) as c:
        posts = await c.ask(script(attempts=[fails, ends]))
        assert [text for text in posts if "It is tried again" not in text] == ["Two.", "One."]
        assert await standing_in(c) == ["Two.", "One."]
        await c.w.balanced()
