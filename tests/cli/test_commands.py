"""Every command against a running gateway: what it prints, and with which exit code."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from cli_house import PATIENCE, PERMISSION, Cli, heard, until
from terminal import semel

from semel.faces import busy_texts
from semel.faces.client import wait_for_answer
from semel.faces.terminal.link import SessionLink
from semel.faces.view import SessionView
from semel.ledger.turns.seats import AWAY_KIND
from semel.testing.scripted_agent import prompt
from semel.tools.address import GatewayUnreachable

ERROR = '[[script [{"error": {"code": -32603, "message": "Internal error"}}]]]'


def test_say_returns_when_the_message_is_in_the_ledger(house: Cli) -> None:
    done = house("say", "say", "hello")
    assert done.stdout == ""
    assert done.stderr.startswith("accepted: e")
    assert house.json("show", "say")[0]["text"] == "hello"


def test_files_are_said_with_a_text_or_alone_and_a_repeat_is_one_message(house: Cli, tmp_path: Path) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.png"
    one.write_text("one")
    two.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(300_000))
    sent = [house("say", "files", "look", "--file", str(one), "--file", str(two), "--id", "f-1") for _ in range(2)]
    assert [done.stderr.partition(":")[0] for done in sent] == ["accepted", "duplicate"]
    assert house("say", "files", "--file", str(one)).stderr.startswith("accepted")
    said = [entry for entry in house.json("show", "files") if entry["role"] == "user"]
    assert [(entry["text"], [file["name"] for file in entry["files"]]) for entry in said] == [
        ("look", ["one.txt", "two.png"]), ("", ["one.txt"]),
    ]  # fmt: skip
    assert "Use a new key" in house("say", "files", "look", "--file", str(two), "--id", "f-1", rc=1).stderr


def test_a_file_that_cannot_be_sent_is_named_before_anything_is_sent(house: Cli, tmp_path: Path) -> None:
    good, large = tmp_path / "good.txt", tmp_path / "large.iso"
    good.write_text("good")
    with large.open("wb") as file:
        file.truncate(60_000_000)
    for path, reason, rc in (
        (tmp_path / "nothing", "does not exist. Nothing was sent.", 2),
        (tmp_path, "is a folder; send one file, such as an archive of it. Nothing was sent.", 2),
        (large, "a file has at most 52,428,800 bytes", 1),
    ):
        refused = house("say", "refused", "look", "--file", str(good), "--file", str(path), rc=rc)
        assert path.name in refused.stderr and reason in refused.stderr
    assert "takes no files" in house("say", "refused", "/stop", "--file", str(good), rc=2).stderr
    mistyped = house("say", "refused", "/stpo", "--file", str(good), rc=2).stderr
    advice = "did you mean /stop? Commands take no files; //stpo sends them"
    assert f"there is no command /stpo; {advice}" in " ".join(mistyped.split())
    assert "the message is empty" in house("say", "refused", " ", rc=2).stderr
    assert "refused" not in [session["key"] for session in house.json("sessions")]


def test_a_repeat_waits_for_the_answer_of_its_own_turn_alone(house: Cli) -> None:
    for n in (1, 2, 3):
        house("say", "several", f"say: answer {n}", "--id", f"several-{n}", "--wait")
    for n in (1, 2, 3):
        assert house("say", "several", f"say: answer {n}", "--id", f"several-{n}", "--wait").stdout == f"answer {n}\n"
    house("say", "several", ERROR, "--id", "several-4", "--wait", rc=1)
    house("say", "several", "say: after it", "--wait")
    assert (
        "semel: The agent's turn failed: Internal error"
        in house("say", "several", ERROR, "--id", "several-4", "--wait", rc=1).stderr
    )
    again = house.json("say", "several", "say: answer 2", "--id", "several-2", "--wait")
    assert [entry["text"] for entry in again["entries"]] == ["answer 2"] and again["failed"] is None


def test_a_retry_waits_for_the_turn_that_runs_again(house: Cli) -> None:
    house("say", "again", ERROR, "--wait", rc=1)
    done = house("say", "again", "/retry", "--wait", rc=1)
    assert re.fullmatch(r"The last turn \(t\d+\) runs again\.\n", done.stdout)
    assert "Internal error" in done.stderr
    house("say", "again", "say: fine", "--wait")
    assert "ended well" in house("say", "again", "/retry", "--wait").stdout


def test_say_prints_the_answer_to_a_command_without_being_asked_to_wait(house: Cli) -> None:
    house("say", "commands", "say: hello", "--wait")
    assert "State: idle" in house("say", "commands", "/status").stdout
    assert house("say", "commands", "/approve").stdout.startswith("No permission request is open here. ")
    done = house("say", "commands", "/status", "--automatic")
    assert (done.stdout, done.stderr[:11]) == ("", "accepted: e"), "from a program it is a message"


def test_say_wait_prints_the_answer_and_nothing_else(house: Cli) -> None:
    assert house("say", "wait", "say: forty-two", "--wait").stdout == "forty-two\n"


def test_a_wait_tells_that_the_agent_is_silent_and_records_nothing_of_it(
    house: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("busy_texts", "client.wait_for_answer"):
        monkeypatch.setattr(f"semel.faces.{module}.SILENCE_S", 0.4)
    done = house("say", "silent", prompt({"sleep": 3}, "At last."), "--wait")
    assert done.stdout == "At last.\n"
    assert "no answer yet: nothing new for" in done.stderr
    assert "semel status" in done.stderr
    assert [entry["text"] for entry in house.json("show", "silent") if entry["role"] != "user"] == ["At last."]


async def test_who_waits_for_a_turn_that_has_not_begun_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (busy_texts, wait_for_answer):
        monkeypatch.setattr(module, "SILENCE_S", 0.01)
    view, told = SessionView(), asyncio.Queue[str]()
    contact = wait_for_answer.GatewayContact(told.put_nowait)
    view.session = {"state": "idle", "waiting": 1}  # an automatic message starts no turn
    report = asyncio.create_task(wait_for_answer._report_silence(view, contact, told.put_nowait))
    assert (await told.get()).endswith(" from the agent; the message waits for the next turn")
    view.session = {"state": "running"}
    while not (await told.get()).endswith(" from the agent; the turn still runs (see `semel status`)"):
        pass
    report.cancel()


def test_a_wait_tells_that_the_gateway_of_the_session_is_gone() -> None:
    view, told = SessionView(), list[str]()
    view.entries = {1: {"seq": 1, "role": "user", "event": 7}, 2: {"seq": 2, "kind": AWAY_KIND, "text": "It waits."}}
    wait_for_answer._report_news(view, 7, set(), told.append)
    assert told == ["It waits."]


async def test_a_wait_outlasts_a_restart_however_long_the_agent_was_silent_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wait_for_answer, "RECONNECT_TIMEOUT_S", 1.0)
    message = {"seq": 1, "born": 1, "role": "user", "text": "hi", "event": 1}
    answer = {"seq": 2, "born": 2, "rev": 2, "at": 2, "chapter": 1, "role": "agent", "text": "At last.", "turn": 1}
    snapshot = {"type": "snapshot", "more": False, "before": 0, "items": []}

    class RestartingGateway:
        connections = 0

        async def stream(self, session: str, after: int | None = None) -> AsyncIterator[dict[str, Any]]:
            self.connections += 1
            if self.connections == 2:
                raise GatewayUnreachable("http://127.0.0.1:1")
            state = "running" if self.connections == 1 else "idle"
            entries = [message] if self.connections == 1 else [message, answer]
            yield {**snapshot, "rev": self.connections, "session": {"state": state}, "entries": entries}
            await asyncio.sleep(1.1)  # longer than the wait for a gateway; then the stream breaks

        async def get(self, path: str) -> dict[str, Any]:
            return {"turns": [1]}

    said = await wait_for_answer.wait_for_answer(cast(Any, RestartingGateway()), "main", 1, lambda news: None)
    assert said.text == "At last."


async def test_a_wait_on_a_dead_line_tells_that_the_gateway_is_away_and_nothing_of_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (busy_texts, wait_for_answer):
        monkeypatch.setattr(module, "SILENCE_S", 0.1)
    monkeypatch.setattr(wait_for_answer, "AWAY_S", 0.01, raising=False)
    message = {"seq": 1, "born": 1, "role": "user", "text": "hi", "event": 1}
    snapshot = {"type": "snapshot", "rev": 1, "more": False, "before": 0, "items": [], "entries": [message]}
    connections, told = iter(("running", "idle")), list[str]()

    class FrozenGateway:
        async def stream(self, session: str, after: int | None = None) -> AsyncIterator[dict[str, Any]]:
            if (state := next(connections)) == "idle":
                await asyncio.sleep(0.5)  # it takes the connection and does not answer
            yield {**snapshot, "session": {"state": state}}

        async def get(self, path: str) -> dict[str, Any]:
            return {"turns": [1]}

    await wait_for_answer.wait_for_answer(cast(Any, FrozenGateway()), "main", 1, told.append)
    assert told == ["the gateway is away; trying again", "the gateway answers again"]


def test_a_message_said_again_with_its_id_is_heard_once(house: Cli) -> None:
    first = house.json("say", "once", "say: hi", "--id", "k1", "--wait")
    again = house.json("say", "once", "say: hi", "--id", "k1", "--wait")
    assert (first["status"], again["status"]) == ("accepted", "duplicate")
    assert first["event"] == again["event"]
    assert [entry["text"] for entry in again["entries"]] == ["hi"]
    assert [entry["role"] for entry in house.json("show", "once")] == ["user", "agent"]


def test_other_words_under_the_same_id_are_refused(house: Cli) -> None:
    house("say", "conflict", "one", "--id", "k1")
    done = house("say", "conflict", "two", "--id", "k1", rc=1)
    assert "first content stays" in done.stderr


def test_text_comes_from_stdin_too_with_every_line_of_it(house: Cli) -> None:
    house("say", "stdin", "-", stdin="one\ntwo\n")
    assert house.json("show", "stdin")[0]["text"] == "one\ntwo\n"


def test_a_turn_that_fails_is_told_with_exit_code_one(house: Cli) -> None:
    done = house("say", "fails", ERROR, "--wait", rc=1)
    assert "semel: The agent's turn failed: Internal error" in done.stderr


def test_nothing_to_say_is_wrong_usage(house: Cli) -> None:
    assert "empty" in house("say", "empty", "  ", rc=2).stderr
    assert "session key" in house("say", "not a key", "hi", rc=2).stderr


def test_sessions_are_rows_in_a_pipe_and_json_where_asked(house: Cli) -> None:
    house("say", "listed", "say: it", "--wait")
    rows = [line.split("\t") for line in house("sessions").stdout.splitlines()]
    row = next(row for row in rows if row[0] == "listed")
    assert row[1:4] == ["idle", "demo", "2"]
    assert row[-1] == "it"
    assert any(session["key"] == "listed" for session in house.json("sessions"))


def test_the_session_with_the_newest_entry_is_listed_first(house: Cli) -> None:
    for key in ("made-first", "made-later", "made-first"):
        house("say", key, "hello", "--wait")
    assert [session["key"] for session in house.json("sessions")][:2] == ["made-first", "made-later"]
    assert house.json("sessions", "list")[:2] == house.json("sessions")[:2], "as other commands are typed"
    assert "To read one: semel show made-first" in house("sessions", "made-first", rc=2).stderr


def test_show_prints_the_transcript_in_order(house: Cli) -> None:
    house("say", "shown", "one\n\ntwo", "--wait", "--sender", "ann")
    lines = house("show", "shown").stdout.splitlines()
    assert lines[0].split(" ", 4)[-1].endswith("ann: one")
    assert lines[1:3] == ["", "    two"]
    assert house("show", "shown", "-n", "1").stdout.count("agent: ") == 1
    assert "ann" not in house("show", "shown", "-n", "1").stdout


def test_a_session_that_is_not_there_is_named(house: Cli) -> None:
    done = house("show", "nowhere", rc=1)
    assert "there is no session 'nowhere'" in done.stderr
    assert done.stdout == ""


def test_export_writes_markdown_html_or_complete_lines_of_json(house: Cli) -> None:
    house("say", "exported", "say: **bold**", "--wait")
    markdown = house("export", "exported").stdout
    assert markdown.startswith("# exported\n")
    assert "\n**bold**\n" in markdown
    assert "<strong>bold</strong>" in house("export", "exported", "-f", "html").stdout
    house("export", "exported", "-f", "jsonl", "-o", "out.jsonl")
    lines = [json.loads(line) for line in (house.home / "out.jsonl").read_text().splitlines()]
    assert [line["line"] for line in lines] == ["session", "turn", "entry", "entry", "end"]
    assert lines[3]["text"] == "**bold**"
    assert "cannot be written" in house("export", "exported", "-o", "no/such/dir", rc=1).stderr
    assert "there is no session" in house("export", "nowhere", "-o", "nowhere.md", rc=1).stderr
    assert not (house.home / "nowhere.md").exists()


def test_import_makes_a_session_of_an_export_once(house: Cli) -> None:
    house("say", "carried", "say: over", "--wait")
    house("export", "carried", "-f", "jsonl", "-o", "carried.jsonl")
    assert "carried was there already" in house("import", "carried.jsonl").stderr
    assert "copy is there now, with 2 entries" in house("import", "carried.jsonl", "--as", "copy").stderr
    again = {"session": "copy", "status": "known", "entries": 2, "added": 0}
    assert house.json("import", "carried.jsonl", "--as", "copy") == again
    assert house("show", "copy").stdout.count("over") == 2
    house("say", "taken", "say: another", "--wait")
    assert "there is a session 'taken' already" in house("import", "carried.jsonl", "--as", "taken", rc=1).stderr
    assert "a session key holds" in house("import", "carried.jsonl", "--as", "no good", rc=2).stderr
    (house.home / "bad.jsonl").write_text("# not an export\n")
    assert "line 1: it is not a JSON object" in house("import", "bad.jsonl", rc=2).stderr
    assert "cannot be read" in house("import", "nowhere.jsonl", rc=1).stderr


def test_search_finds_what_was_said(house: Cli) -> None:
    house("say", "looked-for", "say: a rare Quokka was seen", "--wait", "--sender", "ann")
    rows = [line.split("\t") for line in house("search", "quokka").stdout.splitlines()]
    assert [(row[0], row[2]) for row in rows] == [("looked-for#2", "agent"), ("looked-for#1", "ann")]
    assert len(house("search", "rare quokka").stdout.splitlines()) == 2  # an argument of two words is a phrase
    assert house("search", "quokka rare").stdout == ""
    assert len(house("search", "quokka", "rare", "--role", "user", "--since", "1h").stdout.splitlines()) == 1
    assert house("search", "quokka", "--until", "2020-01-01").stdout == ""
    found = house.json("search", "quo*", "--session", "looked-*", "-n", "1")
    assert (len(found["hits"]), found["index"]["current"]) == (1, True)
    assert house.json("search", "quo*", "--session", "looked-*", "--after", found["next"])["hits"][0]["seq"] == 1
    assert "name at least one word" in house("search", "!!", rc=2).stderr
    assert "--since is 'soon'" in house("search", "x", "--since", "soon", rc=2).stderr


def test_why_tells_the_story_of_an_id_as_it_was_printed(house: Cli) -> None:
    accepted = house("say", "story", "say: told").stderr.split()[1]
    house("say", "story", "say: more", "--wait")
    told = house("why", accepted).stdout
    assert f"{accepted}: accepted message" in told
    assert "'told' -> said, entry" in told
    assert house("why", "story#1").stdout == told
    assert house.json("why", accepted)["kind"] == "event"
    for ref, said in {
        "1": "1 alone may be several things; ask for e1 (event), c1 (claim), t1 (turn) or SESSION#1 (entry)",
        "999999": "nothing has the number 999999; ask for SESSION#999999, if you mean the entry of a session",
        "e999999": "nothing is known of 'e999999'; ask for e1 (event)",
        "hello": "to find it in what was said: semel search hello",
        "story": "story is a session; name an entry of it, such as story#",
        "story#999": "story has no entry #999: it ends at #",
    }.items():
        assert said in house("why", ref, rc=1).stderr


def test_doctor_tells_every_law_and_that_they_hold(house: Cli) -> None:
    told = house("doctor", "--laws").stdout
    assert told.splitlines()[-1] == "all laws hold"
    report = house.json("doctor", "--laws")
    assert report["ok"]
    assert len([line for line in told.splitlines() if line.startswith("ok ")]) == len(report["books"])


def test_the_outbox_of_page_and_terminal_is_empty(house: Cli) -> None:
    assert house("outbox", "list").stdout == ""
    assert house.json("outbox", "list") == []
    assert "no part 99" in house("outbox", "show", "p99", rc=1).stderr
    assert "is not a part's id" in house("outbox", "drop", "e1", rc=2).stderr
    assert "must be one of" in house("outbox", "list", "--state", "gone", rc=2).stderr


def test_who_stops_waiting_is_told_that_the_turn_goes_on(house: Cli) -> None:
    with semel("say", "left", PERMISSION, "--wait", env=house.env, cwd=house.home) as terminal:
        terminal.expect("the agent asks: rm -r ./build")
        terminal.interrupt()
        terminal.expect("its turn goes on; see it with: ")
    assert [row["state"] for row in house.json("sessions") if row["key"] == "left"] == ["running"]
    house("say", "left", "/stop", "--wait")


def test_plain_chat_reads_lines_and_prints_what_is_final(house: Cli) -> None:
    done = house("chat", "lines", stdin="say: one\nsay: two\n")
    assert done.stdout.splitlines() == ["agent: one", "agent: two"]
    assert house.json("show", "lines")[0]["text"] == "say: one"


def test_plain_chat_waits_for_every_answer_also_if_a_command_came_last(house: Cli) -> None:
    done = house("chat", "waits", stdin=f"{prompt({'sleep': 1}, 'late')}\n/status\n")
    assert done.stdout.splitlines()[-1] == "agent: late"
    assert "notice: Session waits" in done.stdout


def test_plain_chat_shows_every_answer_if_it_connects_late(house: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    follow = SessionLink.run

    async def follow_late(link: SessionLink) -> None:
        await asyncio.sleep(0.5)
        await follow(link)

    monkeypatch.setattr(SessionLink, "run", follow_late)
    done = house("chat", "connects", stdin="/status\nsay: one\n")
    assert "notice: Session connects" in done.stdout
    assert done.stdout.splitlines()[-1] == "agent: one"


def test_plain_chat_answers_a_permission_request_by_number(house: Cli) -> None:
    process = house.start("chat", "asks")
    assert process.stdin is not None
    process.stdin.write(f"{PERMISSION}\n")
    process.stdin.flush()
    assert "/1 Allow once" in heard(process, "the agent asks")
    process.stdin.write("/1\n")
    said, _ = process.communicate(timeout=PATIENCE)
    assert said.splitlines()[-1] == "agent: Thank you, it is tidy now."
    assert process.returncode == 0


def test_plain_chat_ends_with_words_if_the_agent_asks_after_the_input_has_ended(house: Cli) -> None:
    done = house("chat", "unasked", "--data-dir", str(house.data), stdin=f"{PERMISSION}\n", rc=1)
    said = done.stderr.splitlines()[-1]
    assert said.startswith("[the input has ended, and the agent waits for an answer: rm -r ./build (answer it with: ")
    command = re.search(r"semel (say [^\n]*?unasked [^\n]*?) or ", said)
    assert command is not None and f"--data-dir {shlex.quote(str(house.data))}" in said, said
    assert "tidy now" in house(*shlex.split(command[1]), "--wait").stdout


def test_the_answer_that_a_waiting_message_names_counts_in_a_script(house: Cli) -> None:
    waiting = house.start("say", "names", PERMISSION, "--wait")
    hint = heard(waiting, "the agent asks")
    command = re.search(r"semel (say names [^\n]*?) or ", hint)
    assert command is not None, hint
    for words in (("say", "names", "/status"), shlex.split(command[1])):
        assert "the agent asks" not in house(*words, "--wait").stderr, "a command is answered all the same"
    stdout, _ = waiting.communicate(timeout=PATIENCE)
    assert "Thank you, it is tidy now." in stdout


def test_a_waiting_message_prints_a_question_once_and_how_to_answer_it(house: Cli) -> None:
    question = {"question": "Tea or coffee?", "options": ["tea", "coffee"]}
    done = house("say", "tea", prompt({"call": "ask", "arguments": question}), "--wait")
    assert done.stdout.strip() == "Tea or coffee?\n1. tea\n2. coffee"
    assert [line for line in done.stderr.splitlines() if "the agent asks" in line] == [
        'the agent asks: Tea or coffee? (answer it with: semel say tea "your answer", or semel chat tea)'
    ]


def test_a_refused_tool_call_says_once_what_is_possible(house: Cli) -> None:
    house(
        "say", "refuses", prompt({"call": "send_message", "arguments": {"text": "x", "to": "nobody"}}, "Hm."), "--wait"
    )
    url = json.loads((house.data / "gateway.json").read_text())["url"]
    history = httpx2.get(f"{url}/v1/sessions/refuses/history?before=100").json()
    (call,) = [item for item in history["items"] if item["kind"] == "tool"]
    assert call["text"] == (
        "refused: no destination is named 'nobody' here; the names that exist are: home. Nothing was sent."
    )


def test_approve_without_a_number_shows_the_request_and_asks_on_a_terminal(house: Cli) -> None:
    waiting = house.start("say", "approves", PERMISSION, "--wait")
    until(lambda: any(row["state"] == "running" for row in house.json("sessions")), "the turn runs")
    assert "confirm it with its number" in until(
        lambda: house("say", "approves", "/approve", "--wait").stdout.partition("No permission")[0], "the agent asks"
    ), "in a script nobody is shown anything"
    for answer, outcome in (("n", "nothing was answered"), ("y", "Allow once: rm -r ./build")):
        with semel("say", "approves", "/approve", "--wait", env=house.env, cwd=house.home) as terminal:
            terminal.expect("The agent asks for permission: rm -r ./build")
            terminal.answer("Allow it?", answer)
            terminal.expect(outcome)
            if answer == "y":
                terminal.expect("Thank you, it is tidy now.")  # it waits for what the agent then says
    stdout, _ = waiting.communicate(timeout=PATIENCE)
    assert "Thank you, it is tidy now." in stdout
    waiting = house.start("say", "approves", PERMISSION, "--wait")
    listed = until(
        lambda: house("say", "approves", "/approve").stdout.partition("No permission")[0], "the agent asks again"
    )
    first = int(listed.splitlines()[1].partition(":")[0])
    shown = house("show", "approves", "-n", "1").stdout
    assert f"asks for permission: rm -r ./build\n\n{first}. Allow once\n" in shown, "the transcript does not have it"
    assert shown.rstrip().endswith(f'say approves "/approve {first}" or "/deny {first}", or semel chat approves')
    assert listed.splitlines()[1:] == [
        f"{first}: rm -r ./build", f"/approve {first}: Allow once", f"/approve {first + 1}: Always allow",
        f"/approve {first + 2}: Reject",
    ]  # fmt: skip
    with semel("say", "approves", "/approve", "--wait", env=house.env, cwd=house.home) as terminal:
        terminal.expect(f"{first}. Allow once")
        terminal.expect(f"{first + 2}. Reject")
        terminal.answer("Allow it?", "99")
        terminal.answer("Allow it?", str(first + 2))
        terminal.expect(": rm -r ./build")
    stdout, _ = waiting.communicate(timeout=PATIENCE)
    assert "As it is." in stdout
    with semel("say", "approves", "/deny", "--wait", env=house.env, cwd=house.home) as terminal:
        terminal.expect("No permission request is open here")


def test_version_and_help_need_no_gateway(cli: Cli) -> None:
    assert cli("version").stdout.startswith("semel 0.")
    assert cli.json("version")["sqlite"] >= "3.5"
    assert cli("--version").stdout.startswith("semel 0.")
    assert "Usage" in cli("say", "--help").stdout
    assert cli("nonsense", rc=2).stdout == ""


def test_without_a_gateway_it_is_said_how_to_start_one(cli: Cli) -> None:
    for command in (["sessions"], ["say", "main", "hi"], ["chat"], ["outbox", "list"], ["why", "e1"]):
        assert "Start one with: semel up" in cli(*command, rc=1).stderr


def test_doctor_without_a_gateway_or_a_ledger_says_so(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text('[gateway]\nlisten = "127.0.0.1:0"\n')  # the default port may be in use
    assert "There is no ledger at" in cli("doctor", "--laws", rc=1).stderr
    assert "There is no ledger at" in cli("doctor").stdout, "nothing is broken before the first start"


def test_fold_prints_what_a_person_would_have_seen_one_object_a_line(cli: Cli) -> None:
    def update(text: str) -> str:
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        params = {"sessionId": "s", "update": chunk}
        return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params})

    (cli.home / "trace.jsonl").write_text("\n".join(map(update, ("Hel", "lo"))))
    rows = [json.loads(line) for line in cli("fold", "trace.jsonl").stdout.splitlines()]
    assert [(row["item"], row.get("text")) for row in rows if row["item"] == "message"] == [("message", "Hello")]
    assert "no such file" in cli("fold", "no-such-file", rc=1).stderr
    (cli.home / "prose").write_text("this is no trace")
    assert "one JSON object a line" in cli("fold", "prose", rc=1).stderr
