"""When a text is a command, and when it is a message that begins with a slash."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.law.commands import COMMANDS, AgentMessage, CommandCall, Mistyped, edit_distance, read_command
from semel.law.commands import find_nearest as nearest


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_its_whole_first_word(name: str) -> None:
    assert read_command(f"/{name}") == read_command(f"/{name} \n") == CommandCall(name)
    assert read_command(f" /{name}") == AgentMessage(f" /{name}")
    assert read_command(f"say /{name}") == AgentMessage(f"say /{name}")
    assert read_command(f"/{name}/x") == AgentMessage(f"/{name}/x")
    assert read_command(f"/{name}.") == AgentMessage(f"/{name}.")


@pytest.mark.parametrize(
    "text",
    ["/", "//", "/etc/hosts", "/newer", "/stop the presses", "/help me", "/new\nline", "/retry 3", "/history of Rome",
     "/model is slow today", "/compact", "/review", "/clear", "/usr", "/ stop", "/1", "//host/share", "// a comment",
     "/queued up", "/status?", "/new!"],
)  # fmt: skip
def test_other_text_that_begins_with_a_slash_is_a_message_unchanged(text: str) -> None:
    assert read_command(text) == AgentMessage(text)


def test_what_follows_a_command_is_what_it_takes() -> None:
    assert read_command("/model gpt-5") == CommandCall("model", "gpt-5")
    assert read_command("/mode plan ") == CommandCall("mode", "plan")
    assert read_command("/history 20") == CommandCall("history", "20")
    assert read_command("/queue then do this\nand that") == AgentMessage("then do this\nand that", "queue")
    assert read_command("/steer /etc/hosts") == AgentMessage("/etc/hosts", "steer")


@pytest.mark.parametrize(
    ("text", "nearest"),
    [("/stpo", "stop"), ("/Stop", "stop"), ("/stopp", "stop"), ("/sto", "stop"), ("/modes", "mode"),
     ("/statsu", "status"),
     ("/hlep", "help"), ("/retyr", "retry"), ("/steeer", "steer"), ("/hystori", "history"), ("/models ", "model")],
)  # fmt: skip
def test_a_slip_of_the_fingers_is_held_back_with_the_nearest_command(text: str, nearest: str) -> None:
    assert read_command(text) == Mistyped(text.strip()[1:], nearest)


def test_a_command_of_the_agents_own_is_no_slip() -> None:
    assert read_command("/modes", agent_commands={"modes"}) == AgentMessage("/modes")
    assert read_command("/stop", agent_commands={"stop"}) == CommandCall(
        "stop"
    )  # the gateway's own goes first; //stop is the agent's


@pytest.mark.parametrize("text", ["/stop", "/stpo", "/queue later", "/history 3", "//stop", "///status"])
def test_two_slashes_say_it_to_the_agent(text: str) -> None:
    assert read_command(f"/{text}") == AgentMessage(text)


@given(st.text(st.sampled_from("/stopnew \n"), max_size=12) | st.text(max_size=20).map(lambda text: "/" + text))
def test_every_text_can_be_said_and_none_is_shortened_but_by_an_escape(text: str) -> None:
    found = read_command(text)
    if isinstance(found, AgentMessage) and found.mode is None:
        assert found.text == text or (text.startswith("//") and found.text == text[1:])
    said = read_command("/" + text) if text.startswith("/") else read_command(text)
    if not isinstance(found, AgentMessage) or found.mode is not None or found.text != text:
        assert said == AgentMessage(text), "one more slash says exactly that"


def test_a_very_long_run_of_slashes_is_read_at_once() -> None:
    text = "/" * 1_000_000
    assert read_command(text) == AgentMessage(text)
    assert read_command("/stop" + " " * 1_000_000 + "x" * 10) == AgentMessage("/stop" + " " * 1_000_000 + "x" * 10)


def test_distances() -> None:
    pairs = [("", "ab"), ("stop", "stop"), ("stpo", "stop"), ("stp", "stop"), ("a", "b")]
    assert [edit_distance(a, b) for a, b in pairs] == [2, 0, 1, 1, 1]
    assert nearest("xyzzy") is None
