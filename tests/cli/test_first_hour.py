"""What a person meets in the first hour with the command line: slips are named, and nothing ends in silence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_house import PATIENCE, PERMISSION, SCRIPTED, Cli, end, until

from semel.testing.scripted_agent import command, prompt

RETRY = {
    "update": {
        "sessionUpdate": "session_info_update",
        "_meta": {"codex": {"error": {"message": "Reconnecting... 1/5", "willRetry": True}}},
    }
}


def test_a_key_that_begins_with_no_agents_name_is_told_once(house: Cli) -> None:
    said = house("say", "demmo:web:x", "say: hello", "--wait")
    assert (said.stdout, said.stderr) == (
        "hello\n",
        "No agent is named 'demmo'; did you mean demo? The default agent, demo, answers here.\n",
    )
    assert "No agent" not in house("say", "demmo:web:x", "say: hello", "--wait").stderr
    for known in ("demo:web:x", "main:web:x", "plain"):
        assert house("say", known, "say: hello", "--wait").stderr == ""
    note = house.json("say", "x:y", "say: hello")["note"]
    assert note.startswith("No agent is named 'x'. The default agent, demo, answers here.")
    assert note.endswith("If semel.toml names it by now, restart the gateway.")


def test_the_chat_tells_it_too(house: Cli) -> None:
    done = house("chat", "demmo:web:chat", "--plain", stdin="say: hello\n")
    assert "No agent is named 'demmo'; did you mean demo?" in done.stderr
    assert done.stdout == "agent: hello\n"


def test_a_turn_that_ends_without_a_word_says_so_and_is_no_success(house: Cli) -> None:
    done = house("say", "wordless", prompt(), "--wait", rc=1)
    assert (done.stdout, done.stderr) == ("", "semel: The agent ended its turn without a word.\n")
    assert "without a word" in house("say", "wordless", "/retry", "--wait", rc=1).stderr


def test_what_the_gateway_says_to_a_message_is_printed_without_waiting(house: Cli) -> None:
    slip = house("say", "slips", "/stpo")
    assert slip.stdout.startswith("There is no command /stpo; did you mean /stop?") and slip.stderr == ""
    assert house("say", "slips", "/retry").stdout == "There is no turn here that could be run again.\n"
    (told,) = house.json("say", "slips", "/stpo")["entries"]
    assert told["kind"] == "command" and "did you mean /stop?" in told["text"]
    house("say", "slips", "/no-such-command", "--wait")
    assert house("say", "slips", "/no-such-command").stderr.startswith("accepted: e")


def test_a_message_while_a_request_is_open_gets_the_hint_how_to_answer_it(house: Cli) -> None:
    house("say", "hinted", PERMISSION)
    until(lambda: [s for s in house.json("status")["attention"] if s["session"] == "hinted"], "the request")
    hint = house("say", "hinted", "Are you there?").stderr
    assert "it does not answer the request that is still open: rm -r ./build" in hint and "/approve 1" in hint
    assert "accepted: e" in hint and "1st in line" in hint
    assert "Your message" not in house("say", "hinted", "Are you there?").stderr  # once for each request
    house("say", "hinted", "/deny 1")


def test_an_empty_message_is_refused_with_the_reason(house: Cli) -> None:
    for empty in ("", "  \n"):
        assert "the message is empty" in house("say", "main", empty, rc=2).stderr


def test_the_newest_n_entries_may_be_none(house: Cli) -> None:
    house("say", "newest", "say: hello", "--wait")
    counts = {n: len(house.json("show", "newest", "-n", n)) for n in ("0", "1", "99")}
    assert counts == {"0": 0, "1": 1, "99": 2} and len(house.json("show", "newest")) == 2


def test_an_empty_listing_says_so_in_a_pipe_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cli.home))
    done = cli("agents", "list")
    assert done.stdout == "" and "no agent is configured or installed" in done.stderr


def test_what_an_agent_says_of_itself_is_told_while_one_waits(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text(
        f"[agents.codex]\ncommand = {json.dumps([*command(), '--name', 'codex-acp'])}\n"
    )
    process = cli.up()
    done = cli("say", "main", prompt(RETRY, "at last"), "--wait")
    assert (done.stdout, done.stderr) == ("at last\n", "the agent says: Reconnecting... 1/5\n")
    end(process)


def test_a_gateway_that_runs_elsewhere_is_named(cli: Cli, tmp_path: Path) -> None:
    (cli.home / "semel.toml").write_text(SCRIPTED)
    process = cli.up()
    ask = ("sessions", "--data-dir", str(tmp_path / "other"))
    said = cli(*ask, rc=1).stderr
    other = tmp_path / "other"
    assert f"no gateway is running on {other}. Start one with: semel up --data-dir {other}; or reach" in said
    assert f"(--data-dir): {cli.data}" in said
    said = cli("status", "--data-dir", str(tmp_path / "other"), rc=1).stderr
    assert f"(--data-dir): {cli.data}" in said, "status looks at files too, but there are none"
    examined = cli("doctor", "--data-dir", str(tmp_path / "other")).stdout
    assert f"to do: reach one that runs, by its data directory (--data-dir): {cli.data}" in examined
    end(process)
    assert str(cli.data) not in cli(*ask, rc=1).stderr


def test_exec_says_at_once_that_it_waits_and_for_how_long(cli: Cli) -> None:
    process = cli.start("exec", "-s", "ci:x", "--wait", "5m", "--", "true")
    assert process.stdout is not None
    said = process.stdout.readline()
    assert "the report waits for the gateway, 5 min at most: no gateway is running on" in said
    assert "semel exec --flush" in said
    process.terminate()  # a test may run where Ctrl-C is ignored
    process.communicate(timeout=PATIENCE)


def test_a_file_that_is_not_utf_8_is_named_with_its_line(cli: Cli) -> None:
    (cli.home / "semel.toml").write_bytes(b"[gateway]\n# caf\xe9\n")
    said = cli("agents", "list", rc=2).stderr
    assert "semel.toml:2: this is not UTF-8" in said and "codec" not in said
