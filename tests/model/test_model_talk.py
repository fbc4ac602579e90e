"""A model agent answers: what it says is shown as it streams, once, and ends as the model ended it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from model_world import Answer, ModelServer, ModelWorld, until

PROVIDERS = ("openai-chat", "openai", "anthropic")


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_message_is_answered_and_the_usage_shown(tmp_path: Path, provider: str) -> None:
    async with ModelServer(Answer(["Hel", "lo", " you"])) as api, ModelWorld(tmp_path, api, provider) as w:
        assert await w.ask("Hi") == ["Hello you"]
        assert api.requests[0].talk == [("user", "Hi")]
        [usage] = await w.items("usage")
        assert (usage["used"], usage["size"]) == (18, 100_000)
        assert not any(e.get("partial") for e in await w.entries())


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_character_cut_in_two_by_an_api_is_shown_whole(tmp_path: Path, provider: str) -> None:
    cut = ["Smile \ud83d", "\ude00 and \ud83d", "end"]  # halves of surrogate pairs, as JSON escapes
    async with ModelServer(Answer(cut), Answer(["ok"])) as api, ModelWorld(tmp_path, api, provider) as w:
        assert await w.ask("Hi") == ["Smile \U0001f600 and \ufffdend"]
        await w.ask("More")
        assert api.requests[1].talk[1] == ("assistant", "Smile \U0001f600 and \ufffdend")


async def test_text_is_shown_while_it_streams(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with ModelServer(Answer(["First ", "then"], gate=gate)) as api, ModelWorld(tmp_path, api) as w:
        await w.gateway.say("s", "Hi")

        async def first() -> bool:
            return [e["text"] for e in await w.entries() if e["role"] == "agent" and e.get("live")] == ["First "]

        await until(first)
        gate.set()
        await w.idle()
        assert await w.texts("s", "agent") == ["First then"]


async def test_the_model_is_told_and_where_it_is_set(tmp_path: Path) -> None:
    async with ModelServer(Answer(["Hello"]), Answer(["Hello"])) as api, ModelWorld(tmp_path, api) as w:
        model = w.gateway.settings.agents["main"].model
        assert model is not None
        for _ in range(2):  # before the first message, and after it
            for text, answer in (
                ("/model", f"The model is {model}. It is set in semel.toml: change `model` in [agents.main]"),
                ("/model other", f"The model is {model}. It is set in semel.toml"),
                ("/mode", "The agent main has no modes."),
                ("/status", f"Model: {model}"),
            ):
                await w.gateway.say("s", text)
                await until(lambda answer=answer: _last_notice_has(w, answer))  # type: ignore[misc]
            assert (await w.ask("Hi"))[-1] == "Hello"


async def _last_notice_has(w: ModelWorld, words: str) -> bool:
    notices = await w.texts("s", "notice")
    return bool(notices) and words in notices[-1]


async def test_thoughts_are_shown_beside_the_text(tmp_path: Path) -> None:
    async with (
        ModelServer(Answer(["Yes"], thought="Hm, let me see")) as api,
        ModelWorld(tmp_path, api, "anthropic") as w,
    ):
        assert await w.ask("Is it?") == ["Yes"]
        assert [one["text"] for one in await w.items("thought")] == ["Hm, let me see"]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("stop", "word"), [("length", "token limit"), ("filter", "refused")])
async def test_a_limit_and_a_refusal_are_told(tmp_path: Path, provider: str, stop: str, word: str) -> None:
    async with ModelServer(Answer(["So far"], stop=stop)) as api, ModelWorld(tmp_path, api, provider) as w:
        assert await w.ask("Hi") == ["So far"]
        assert [word in text for text in await w.texts("s", "notice")] == [True]


@pytest.mark.parametrize("provider", ["openai-chat", "anthropic"])
@pytest.mark.parametrize("word", ["eos_token", "eos", "end"])
async def test_a_servers_own_word_for_a_good_end_ends_the_answer(tmp_path: Path, provider: str, word: str) -> None:
    async with ModelServer(Answer(["It is on."], word=word)) as api, ModelWorld(tmp_path, api, provider) as w:
        assert await w.ask("Hi") == ["It is on."]
        assert len(api.requests) == 1 and await w.texts("s", "notice") == []


@pytest.mark.parametrize("provider", ["openai-chat", "openai"])
@pytest.mark.parametrize("text", ["", "Well: "])
async def test_a_refusal_in_a_field_of_its_own_is_what_the_model_said(tmp_path: Path, provider: str, text: str) -> None:
    refused = Answer([text] if text else [], refusal=["I cannot help ", "with that."])
    async with ModelServer(refused, Answer(["Ok"])) as api, ModelWorld(tmp_path, api, provider) as w:
        assert await w.ask("Hi") == [*([text] if text else []), "I cannot help with that."]
        assert await w.texts("s", "notice") == ["The model refused to continue."]
        await w.ask("And this?")
        said = "".join(told for role, told in api.requests[1].talk if role == "assistant")
        assert said.replace("\n", "") == f"{text}I cannot help with that.", "the model reads it as its own words"


async def test_an_empty_answer_says_nothing_and_nothing_is_made_up(tmp_path: Path) -> None:
    async with ModelServer(Answer([]), Answer(["Now"])) as api, ModelWorld(tmp_path, api) as w:
        assert await w.ask("Hi") == []
        assert await w.texts("s", "user") == ["Hi"]
        assert await w.ask("And?") == ["Now"]
        roles = [role for role, _ in api.requests[1].talk]
        assert roles == ["user"] * len(roles), "no assistant message was made up"


async def test_the_instructions_file_and_the_workspace_stand_before_everything(tmp_path: Path) -> None:
    async with ModelServer(Answer(["Ok"]), Answer(["Ok"])) as api, ModelWorld(tmp_path, api) as w:
        (w.work / "AGENTS.md").write_text("Speak like a pirate.")
        await w.ask("Hi")
        assert "Speak like a pirate." in api.requests[0].system
        assert str(w.work) in api.requests[0].system
        (w.work / "AGENTS.md").write_text("Speak plainly.")
        await w.ask("Hi again")
        assert "Speak plainly." in api.requests[1].system


async def test_two_sessions_at_once_know_nothing_of_each_other(tmp_path: Path) -> None:
    gate = asyncio.Event()
    answers = [Answer(["A ", "a"], gate=gate), Answer(["B ", "b"], gate=gate)]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api) as w:
        await w.gateway.say("one", "to one")
        await w.gateway.say("two", "to two")
        for answer in answers:
            await asyncio.wait_for(answer.reached.wait(), 30)
        gate.set()
        await w.idle("one")
        await w.idle("two")
        assert sorted(request.talk for request in api.requests) == [[("user", "to one")], [("user", "to two")]]
        assert sorted([await w.texts("one", "agent"), await w.texts("two", "agent")]) == [["A a"], ["B b"]]


async def test_the_key_is_sent_to_the_api_and_to_nobody_else(tmp_path: Path) -> None:
    async with ModelServer(Answer(["Ok"])) as api, ModelWorld(tmp_path, api) as w:
        await w.ask("Hi")
        assert api.requests[0].headers["authorization"] == "Bearer sk-secret"
        assert "sk-secret" not in repr(w.settings)


async def test_a_conversation_that_was_ended_for_idleness_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    async with (
        ModelServer(Answer(["a1"]), Answer(["a2"])) as api,
        ModelWorld(tmp_path, api, idle_after_s=0.05) as w,
    ):
        await w.ask("u1")

        async def ended() -> bool:
            return not w.gateway.spawns.live

        await until(ended)
        assert await w.ask("u2") == ["a1", "a2"]
        assert api.requests[1].talk == [("user", "u1"), ("assistant", "a1"), ("user", "u2")]


async def test_a_workspace_that_is_gone_fails_the_turn_with_its_path(tmp_path: Path) -> None:
    async with ModelServer() as api, ModelWorld(tmp_path, api) as w:
        w.work.rmdir()
        await w.ask("Hi")
        assert f"is not a directory: {w.work}" in (await w.texts("s", "notice"))[0]
