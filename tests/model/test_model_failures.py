"""A model API that fails: what was shown stays, what passes is said to pass, and nobody retries behind Semel's back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from model_world import Answer, ModelServer, ModelWorld, until

from semel.agents.model import failures
from semel.law import retries

PROVIDERS = ("openai-chat", "openai", "anthropic")
CUTS = ("reset", "close", "event")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause before another attempt, which is the gateway's, is a short one here."""
    monkeypatch.setattr("semel.law.turn.RETRY_DELAYS_S", (0.05, 0.05))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("shown", ["", "Half of "])
async def test_a_broken_stream_fails_the_turn_and_keeps_what_was_shown(
    tmp_path: Path, provider: str, cut: Any, shown: str
) -> None:
    answer = Answer([shown] if shown else [], cut=cut)
    async with ModelServer(answer, Answer(["Back"])) as api, ModelWorld(tmp_path, api, provider) as w:
        await w.ask("Hi")
        told = [(e["text"], e.get("partial")) for e in await w.entries() if e["role"] == "agent"]
        assert told == ([(shown, True)] if shown else [])
        assert len(api.requests) == 1, "one request: the client's own retries are off"
        assert await w.ask("Again") == ([shown] if shown else []) + ["Back"]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", [429, 500, 503, 529])
async def test_a_failure_that_passes_is_tried_again_by_semel(tmp_path: Path, provider: str, status: int) -> None:
    answers = [Answer(status=status), Answer(["Here"])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, provider, attempts=2) as w:
        assert await w.ask("Hi") == ["Here"]
        assert [request.talk[-1] for request in api.requests] == [("user", "Hi"), ("user", "Hi")]
        assert await w.texts("s", "user") == ["Hi"]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("cut", CUTS)
async def test_a_stream_that_broke_off_is_tried_again(tmp_path: Path, provider: str, cut: Any) -> None:
    answers = [Answer(["Half"], cut=cut), Answer(["Half and whole."])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, provider, attempts=2) as w:
        await w.ask("Hi")
        told = [e["text"] for e in await w.entries() if e["role"] == "agent" and not e.get("superseded")]
        assert told == ["Half and whole."]
        assert api.requests[1].talk[-1] == ("user", "Hi")


@pytest.mark.parametrize("provider", ["openai-chat", "anthropic"])
async def test_an_answer_that_the_server_gave_up_is_asked_for_again(tmp_path: Path, provider: str) -> None:
    answers = [Answer(["It is"], word="abort"), Answer(["It is on."])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, provider, attempts=2) as w:
        await w.ask("Hi")
        told = [e["text"] for e in await w.entries() if e["role"] == "agent" and not e.get("superseded")]
        assert told == ["It is on."] and len(api.requests) == 2


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_stream_that_broke_off_inside_a_character_is_tried_again(tmp_path: Path, provider: str) -> None:
    answers = [Answer(["Guten Tag, ", "sch\u00f6ne Gr\u00fc\u00dfe."], cut="inside"), Answer(["Guten Tag."])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, provider, attempts=2) as w:
        await w.ask("Hi")
        told = [(e["text"], bool(e.get("partial"))) for e in await w.entries() if e["role"] == "agent"]
        assert told == [("Guten Tag, ", True), ("Guten Tag.", False)]
        assert "broke off" in (await w.texts("s", "notice"))[0]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_a_definite_no_is_told_at_once(tmp_path: Path, provider: str, status: int) -> None:
    body = {"error": {"message": "no such thing", "type": "invalid_request_error"}}
    async with (
        ModelServer(Answer(status=status, body=body)) as api,
        ModelWorld(tmp_path, api, provider, attempts=3) as w,
    ):
        await w.ask("Hi")
        [notice] = await w.texts("s", "notice")
        assert str(status) in notice
        assert "no such thing" in notice
        assert len(api.requests) == 1


async def test_what_the_api_asks_for_is_told_to_whoever_tries_again(tmp_path: Path) -> None:
    async with ModelServer(Answer(status=429, retry_after="7")) as api, ModelWorld(tmp_path, api) as w:
        caught: list[Any] = []
        ended = failures.answer_for_failure

        def note(error: Exception, text: str) -> Any:
            caught.append(ended(error, text))
            return caught[-1]

        failures.answer_for_failure = note
        try:
            await w.ask("Hi")
        finally:
            failures.answer_for_failure = ended
        [end] = caught
        assert end.meta == {"semel": {"passing": True, "retry_after": 7.0}}
        assert retries.judge_failure(end.error or "", end.meta) == retries.Failure(True, 7.0)
        assert end.error and end.error.endswith("It asks to wait 7 s before the next request")


async def test_an_api_that_is_not_there_is_a_failure_that_passes(tmp_path: Path) -> None:
    async with ModelServer() as api:
        world, url = ModelWorld(tmp_path, api), api.url
    async with world as w:
        await w.ask("Hi")
        [notice] = await w.texts("s", "notice")
        assert f"the model's API at {url}/v1 could not be reached: nothing listens there. Start that server" in notice


async def test_a_turn_with_a_tool_behind_it_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    """Law 9: the attempt that failed had run a command; the next one knows that from the record."""
    answers = [
        Answer([], calls=[("shell", {"command": "echo ran >> log; echo told"})]),
        Answer(status=503),
        Answer(["All done."]),
    ]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api, attempts=2) as w:
        await w.gateway.say("s", "Run it")

        async def answered() -> bool:
            return "All done." in await w.texts("s", "agent")

        await until(answered)
        await w.idle()
        assert (w.work / "log").read_text() == "ran\n"
        told = "\n".join(text for _, text in api.requests[-1].talk)
        assert "tool calls that your interrupted turn had begun" in told
        assert "echo ran >> log" in told
        assert "done" in told
        assert "your turn goes on" in told


async def test_a_quota_that_is_used_up_does_not_pass_though_it_comes_as_a_429(tmp_path: Path) -> None:
    body = {"error": {"message": "You exceeded your quota", "type": "insufficient_quota", "code": "insufficient_quota"}}
    async with ModelServer(Answer(status=429, body=body)) as api, ModelWorld(tmp_path, api, attempts=3) as w:
        await w.ask("Hi")
        assert "You exceeded your quota" in (await w.texts("s", "notice"))[0]
        assert len(api.requests) == 1


async def test_a_key_that_an_api_repeats_is_not_shown(tmp_path: Path) -> None:
    body = {"error": {"message": "no such key: sk-secret!", "type": "authentication_error"}}
    async with ModelServer(Answer(status=401, body=body)) as api, ModelWorld(tmp_path, api) as w:
        await w.ask("Hi")
        [notice] = await w.texts("s", "notice")
        assert "no such key: (the key)!" in notice


async def test_nothing_with_an_effect_begins_before_its_call_is_in_the_record(tmp_path: Path) -> None:
    """Law 9: a turn that is lost right after must be known to have begun something."""
    answers = [Answer([], calls=[("write", {"path": "deed", "text": "done"})]), Answer(["Ok"])]
    async with ModelServer(*answers) as api, ModelWorld(tmp_path, api) as w:
        inside = w.gateway.spawns.make_inside
        seen: list[list[str]] = []

        class Watched:
            def __init__(self, session: int) -> None:
                self.inner = inside(session)

            def __getattr__(self, name: str) -> Any:
                return getattr(self.inner, name)

            async def settled(self) -> None:
                assert not (w.work / "deed").exists()
                await self.inner.settled()
                seen.append([one["status"] for one in await w.items("tool")])
                assert not (w.work / "deed").exists()

        w.gateway.spawns.make_inside = Watched
        assert await w.ask("Do it") == ["Ok"]
        assert seen == [["running"]]
        assert (w.work / "deed").read_text() == "done"


async def test_what_is_no_answer_fails_the_turn_in_words_that_help(tmp_path: Path) -> None:
    async with ModelServer(Answer(junk="null")) as api, ModelWorld(tmp_path, api, attempts=3) as w:
        await w.ask("Hi")
        [notice] = await w.texts("s", "notice")
        assert "what the model's API answered could not be read" in notice
        assert "is `base_url` the whole address" in notice
        assert len(api.requests) == 1


@pytest.mark.parametrize("provider", ["openai-chat", "openai"])
async def test_a_web_page_is_no_answer_and_is_not_asked_for_again(tmp_path: Path, provider: str) -> None:
    async with ModelServer(Answer(page=True)) as api, ModelWorld(tmp_path, api, provider, attempts=3) as w:
        await w.ask("Hi")
        [notice] = await w.texts("s", "notice")
        assert "could not be read (it is a page, text/html); is `base_url` the whole address" in notice
        assert len(api.requests) == 1


async def test_a_stream_that_ends_before_it_began_broke_off(tmp_path: Path) -> None:
    async with ModelServer(Answer(junk="")) as api, ModelWorld(tmp_path, api) as w:
        await w.ask("Hi")
        [notice] = await w.texts("s", "notice")
        assert failures.STREAM_CUT_OFF_TEXT in notice
