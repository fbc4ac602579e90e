"""Law 12: whoever asks in a chat sees what became of it there, and the ledger holds the evidence of each turn's end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_world import destination, script, until
from people_world import Chat

from semel.gateway.outbound import held_chats
from semel.gateway.ports import Caps
from semel.ledger.storage.rows import TurnRow
from semel.testing.channels import Fault

Json = dict[str, Any]
KEY = "demo:chat:dm"
EMPTY = "The agent ended its turn without a word."
ELSEWHERE = destination("news", "board")


def call(name: str, **arguments: Any) -> Json:
    return {"call": name, "arguments": arguments}


def report(text: str) -> Json:
    """The agent tells something about its own state, which is no part of its answer."""
    meta = {"jetbrains": {"air": {"sessionFailure": {"title": text, "severity": "warning"}}}}
    return {"update": {"sessionUpdate": "session_info_update", "_meta": meta}}


async def over(w: Chat) -> None:
    """The turn has ended, and nothing is on its way."""
    await w.idle(KEY)
    await w.sent()


async def asked(w: Chat, *steps: Any, **more: Any) -> None:
    await w.tell(script(*steps, **more))
    await over(w)


async def endings(w: Chat) -> list[tuple[str, str | None]]:
    """State and evidence of each turn, in order."""

    def look(tx: Any) -> list[tuple[str, str | None]]:
        rows = [tx.one(TurnRow, "turn_get", id=n) for n in range(1, 30)]
        return [(row.state, row.evidence) for row in rows if row is not None]

    return await w.gateway.record.read(look)


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [call("send_message", text="x", to="nobody")],
        [call("send_file", path="../etc/passwd")],
        [call("add_reaction", emoji="thumbsup")],
        [call("send_message", text="x", to="news")],
        ['<message to="news">x</message>'],
        ["<internal>nothing to do</internal>"],
        [{"think": "Hm."}],
        [" \u200b\ufeff\u2060\n"],
        [call("send_message", text="\u200b\u2060")],
    ],
    ids=["nothing", "refused text", "refused file", "reaction", "tool elsewhere", "elsewhere", "internal", "thought",
         "unseen", "unseen by tool"],
)  # fmt: skip
async def test_a_turn_without_words_for_its_person_says_so_in_the_chat(tmp_path: Path, steps: list[Any]) -> None:
    async with Chat(tmp_path, destinations=ELSEWHERE) as w:
        await asked(w, *steps)
        assert [text for text in w.shown() if text != "thumbsup"][-1:] == [EMPTY]
        assert await endings(w) == [("done", "notice")]


async def test_what_the_agent_last_reported_about_itself_is_the_reason_that_the_chat_gets(tmp_path: Path) -> None:
    """Codex reports a busy model only so, and then ends its turn without a word."""
    async with Chat(tmp_path) as w:
        await asked(w, report("Reconnecting... 5/5"), report("Quota exceeded.\n  Check your plan."), report("x" * 2000))
        await asked(w, report("Reconnecting... 1/5"), "Here I am.")
        await asked(w)
        told, answered, nothing = w.shown()
        assert told == f"{EMPTY} Its last report: {'x' * 299}…"
        assert (answered, nothing) == ("Here I am.", EMPTY)
        await asked(w, report("Reconnecting... 5/5"), report("Quota exceeded.\n  Check your plan."))
        assert w.shown()[-1] == f"{EMPTY} Its last report: Quota exceeded. Check your plan."


@pytest.mark.parametrize("stop", ["cancelled", "of_its_own_kind"])
async def test_an_end_that_nobody_asked_for_is_told_like_an_empty_one(tmp_path: Path, stop: str) -> None:
    async with Chat(tmp_path) as w:
        await asked(w, stop=stop)
        await asked(w, "Words.", stop=stop)
        assert w.shown() == [EMPTY, "Words."]
        assert await endings(w) == [("done", "notice"), ("done", "said")]


async def test_a_quiet_word_that_nobody_documented_is_words(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await asked(w, "NO_REPLY")
        assert w.shown() == ["NO_REPLY"]


async def test_an_edit_of_an_earlier_message_answers_nobody(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        w.chat.caps = Caps(**{**vars(w.chat.caps), "edits": True})
        await asked(w, call("send_message", text="Alpha."))
        entry = next(e for e in await w.entries(KEY) if e["role"] == "agent")
        await asked(w, call("edit_message", message=f"c{entry['claim']}", text="Beta."))
        assert w.shown()[-1] == EMPTY
        assert [seen for _, seen in await endings(w)] == ["said", "notice"]


@pytest.mark.parametrize(
    ("steps", "seen"),
    [
        ([call("ask", question="Which?", options=["red", "blue"])], "asked"),
        ([call("send_message", text="Done.")], "said"),
        ([call("send_message", text="Done."), "Done."], "echo"),
        (["Done."], "said"),
    ],
    ids=["question", "tool", "echo", "text"],
)
async def test_what_its_person_can_see_of_a_turn_is_recorded(tmp_path: Path, steps: list[Any], seen: str) -> None:
    async with Chat(tmp_path) as w:
        await asked(w, *steps)
        assert len(w.shown()) == 1 and EMPTY not in w.shown()
        assert await endings(w) == [("done", seen)]
        [line] = [one["text"] for one in (await w.gateway.why("t1"))["lines"] if "answered by" in one["text"]]
        assert line.startswith("t1: answered by")


@pytest.mark.parametrize("is_told", [False, True], ids=["", "told before the end"])
async def test_a_message_that_its_platform_refused_during_the_turn_is_no_answer_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_told: bool
) -> None:
    if is_told:
        monkeypatch.setattr(held_chats, "NOTIFY_AFTER_MS", 0)
    async with Chat(tmp_path) as w:
        w.chat.platform.fail_next(Fault.REJECT)
        gate = tmp_path / "go on"
        await w.tell(script(call("send_message", text="Done."), {"wait": str(gate)}))

        async def refused() -> bool:
            return any(e.get("kind") == "delivery.rejected" for e in await w.entries(KEY))

        await until(refused)
        if is_told:
            await w.until_shown("could not be delivered here")
        gate.touch()
        await over(w)
        told, *more = w.shown()
        assert told.startswith("An answer of ") and "could not be delivered here: 403" in told
        assert more == (["The agent ended its turn without another word."] if is_told else [])
        assert await endings(w) == [("done", "notice")]


async def test_a_message_that_joins_and_is_not_answered_is_told(tmp_path: Path) -> None:
    """An agent reads a second prompt and adds nothing: what it said before answers only the first."""
    async with Chat(tmp_path) as w:
        gate = tmp_path / "go on"
        await running(w, gate, "First.")
        await w.tell("/steer " + script())

        async def joined() -> bool:
            return any(e.get("joined") for e in await w.entries(KEY))

        await until(joined)
        gate.touch()
        await over(w)
        assert w.shown() == ["First.", EMPTY]
        assert await endings(w) == [("done", "notice")]


# -------------------------------------------------------------------- stopped


async def running(w: Chat, path: Path, *steps: Any) -> None:
    """A turn runs, and waits until `path` is there or it is stopped."""
    await w.tell(script(*steps, {"tool": "work"}, {"wait": str(path)}))

    async def works() -> bool:
        items = (await anext(w.gateway.watch(KEY)))["items"]
        return any(item["kind"] == "tool" for item in items)

    await until(works)


async def test_a_stop_from_a_face_is_told_in_the_chat_that_asked(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await running(w, tmp_path / "never")
        assert await w.gateway.controls.stop_turn(KEY, "owner")
        await over(w)
        assert w.shown() == ["Stopped by owner."]
        assert await endings(w) == [("cancelled", "notice")]


async def test_a_stop_that_the_chat_asked_for_is_told_there_once(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await running(w, tmp_path / "never", "Working on it.")
        await w.tell("/stop")
        await over(w)
        assert w.shown() == ["Working on it.", "The running turn is being stopped."]
        assert await endings(w) == [("cancelled", "stopped")]


async def test_a_chapter_that_a_face_begins_tells_the_chat_that_the_turn_is_stopped(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await running(w, tmp_path / "never", "Working on it.")
        await w.gateway.new_chapter(KEY, "owner")
        await over(w)
        first, told = w.shown()
        assert first == "Working on it." and "The running turn was stopped." in told
        assert await endings(w) == [("cancelled", "stopped")]


@pytest.mark.parametrize("face", [False, True])
async def test_an_interrupt_is_told_where_nobody_wrote_it(tmp_path: Path, face: bool) -> None:
    async with Chat(tmp_path) as w:
        await running(w, tmp_path / "never", "Working on it.")
        if face:
            await w.gateway.say(KEY, script("Yes."), busy="interrupt")
        else:
            await w.gateway.controls.set_busy(KEY, "interrupt")
            await w.tell(script("Yes."))
        await w.until_shown("Yes.")
        await over(w)
        told = ["Stopped by a newer message."] if face else []
        assert w.shown() == ["Working on it.", *told, "Yes."]
        assert await endings(w) == [("cancelled", "notice" if face else "stopped"), ("done", "said")]


@pytest.mark.parametrize("face", [False, True])
async def test_a_stop_of_a_turn_that_waits_to_be_tried_again_is_told(
    tmp_path: Path, face: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.law.turn.RETRY_DELAYS_S", (60.0, 60.0))
    async with Chat(tmp_path) as w:
        await w.tell(script("Half.", {"error": "429 overloaded"}))
        await w.until_shown("It is tried again")
        if face:
            assert await w.gateway.controls.stop_turn(KEY, "owner")
        else:
            await w.tell("/stop")
        await over(w)
        assert [text for text in w.shown() if "Half" in text] == ["Half."]
        assert w.shown()[0] == "Half.", "what was said stands before the notice"
        assert w.shown()[2:] == ["Stopped by owner."] if face else ["The running turn is being stopped."]


# -------------------------------------------------------------------- the order of a chat


def left(entries: list[Json]) -> list[str]:
    return [e["text"].strip() for e in entries if any(d["state"] == "sent" for d in e.get("delivery", []))]


@pytest.mark.parametrize("words", ["/new", "/stop", "/status", "/help", "/nwe"])
async def test_a_chat_reads_what_was_said_before_the_answer_to_a_command(tmp_path: Path, words: str) -> None:
    async with Chat(tmp_path) as w:
        gate = tmp_path / "go on"
        await running(w, gate, "Working on it.")
        await w.tell(words)
        await w.until_shown("Working on it.")

        async def answered() -> bool:
            return len(w.shown()) == 2

        await until(answered)
        gate.touch()
        await over(w)
        assert w.shown()[0] == "Working on it."
        assert w.shown() == left(await w.entries(KEY))


async def test_a_text_that_left_before_a_notice_is_not_sent_again_as_closing_text(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        gate = tmp_path / "go on"
        await running(w, gate, "That is all.")
        await w.tell("/help")
        await w.until_shown("That is all.")
        gate.touch()
        await over(w)
        assert [text for text in w.shown() if text == "That is all."] == ["That is all."]
        assert await endings(w) == [("done", "said")]


async def test_a_request_leaves_behind_the_text_before_it(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        ask = {"permission": "rm -r build", "input": {"command": "rm"}, "allowed": ["Gone."], "denied": ["Kept."]}
        await w.tell(script("First, the build.", ask))
        await w.until_shown("The agent asks for permission")
        await w.tell("/approve")
        await w.until_shown("Allow once: rm -r build")
        await over(w)
        assert w.shown()[0] == "First, the build."
        # The agent goes on as soon as it is allowed to, so it may be faster than the words that confirm it.
        assert sorted(w.shown()[2:]) == ["Allow once: rm -r build", "Gone."]
        assert w.shown() == left(await w.entries(KEY))


async def test_a_tool_does_not_push_the_text_before_it_out(tmp_path: Path) -> None:
    """Where closing texts are delivered, a text between is not, and what is sent by a tool leaves at once."""
    async with Chat(tmp_path) as w:
        await asked(w, "Let me see.", call("send_message", text="Found it."), "That was it.")
        assert w.shown() == ["Found it.", "That was it."]


async def test_a_notice_longer_than_a_message_may_be_leaves_in_parts(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        w.chat.caps = Caps(**{**vars(w.chat.caps), "max_len": 100})
        await asked(w, {"error": "no such model " * 20})
        assert len(w.shown()) > 1
        assert "".join(w.shown()).replace(" ", "").startswith("Theagent'sturnfailed")


# -------------------------------------------------------------------- the books


async def test_the_books_find_a_turn_whose_evidence_is_not_there(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await asked(w, "Done.")

        async def broken(sql: Json) -> set[str]:
            def spoil(tx: Any) -> None:
                tx._cursor.execute("UPDATE turn SET evidence = :evidence, evidence_row = :row WHERE id = 1", sql)

            await w.gateway.store.write(spoil)
            return {book["name"] for book in (await w.gateway.doctor())["books"] if not book["ok"]}

        assert await broken({"evidence": None, "row": None}) == {"answered"}
        assert await broken({"evidence": "notice", "row": 1}) >= {"answered"}
        assert await broken({"evidence": "quiet", "row": None}) == {"answered"}
        assert await broken({"evidence": "said", "row": 99}) >= {"answered"}
        assert await broken({"evidence": "said", "row": 1}) == set()
