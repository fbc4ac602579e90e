"""What the scripted model says, scenario by scenario; and the plan by which a person and the machine play along."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from models.script import Cut, Gate, Json, Refuse, Scenario, Shell, Text, Think, Tool
from real_house import PAGE, ROOM, House
from watcher import Seen

from semel.acp_stream.choices import read_choices
from semel.acp_stream.notices import RETRY_CAUSES

SENT = "The report is ready: 3 files changed."
DROPPED = "Partial text before the drop: alpha beta gamma delta. "
TELLS_RETRIES = {  # what the agents that tell of a retry say
    "claude": f"Retrying Claude, attempt 1 of 10.\n{RETRY_CAUSES['limit']}",
    "vibe": "The agent's model request failed (HTTP 429). The agent is trying again.",
}
STEERS = ("opencode",)  # agents that read a second prompt in the turn that runs
ORPHANED = "Sent by an orphan."


def _send(text: str) -> Tool:
    return Tool("send_message", {"text": text})


SCENARIOS: dict[str, Scenario] = {
    "plain": Scenario([[[Text("Hello from the scripted model. It streams in pieces, and ends.", 12)]]]),
    "second": Scenario([[[Text("The second answer. It is another one.")]]]),
    "think2": Scenario(
        [
            [[Think("A thought before the tool."), Text("Let me check that. "), Shell("echo think-tool-output")]],
            [[Think("A thought after the tool."), Text("The tool said think-tool-output.")]],
        ]
    ),
    "send": Scenario([[[Text("On it. ", 2), _send(SENT)]], [[Text(SENT)]]]),
    "send_distinct": Scenario(
        [[[_send("On it - looking at your calendar.")]], [[Text("Tomorrow at 2pm you are free.")]]]
    ),
    "send_twice": Scenario([[[_send("Twice.")]], [[_send("Twice.")]], [[Text("Twice.", 2)]]]),
    "sendfile": Scenario(
        [
            [[Tool("send_file", {"path": "hello.txt", "text": "The file you asked for."})]],
            [[Text("The file you asked for.")]],
        ]
    ),
    "react": Scenario([[[Tool("add_reaction", {"emoji": "👍"})]], [[Text("Reacted, and here is the summary.")]]]),
    "perm": Scenario(
        [
            [[Text("I will write a file. ", 2), Shell("touch perm_marker && rm -rf ./nothing && echo perm-done")]],
            [[Text("The file is written.")]],
        ]
    ),
    "long_tool": Scenario(
        [
            [[Text("Before the tool. "), Shell("echo started > tool_started; sleep 30")]],
            [[Text("After the tool.")]],
        ],
        resumed=[Text("Resumed, and now done.")],
    ),
    "cancel_text": Scenario([[[Text("A long text begins here. ", 5, hold="cancel")]]]),
    "held": Scenario([[[Text("The first answer, held. ", 3, hold="first")]]]),
    "drop": Scenario([[[Text(DROPPED, 8), Cut()], [Text(DROPPED + "And now the complete answer.", 8)]]]),
    "empty": Scenario([[[]]]),
    "busy": Scenario([[[Refuse(429)], [Text("Answered at the second request.")]]]),
    "kill_send": Scenario(
        [[[Text("Sending, then dying. ", 3), _send("Said right before the kill.")]],
         [[Text("The closing text begins. ", hold="closing")]]],
        resumed=[Text("Resumed, and now done.")],
    ),
    "kill_said": Scenario([[[Text("All of it is said."), Gate("said")], [Text("All of it is said.")]]]),
    "kill_before_send": Scenario(
        [[[Text("Text before the send. ", hold="send"), _send(ORPHANED)],
          [Text("The second attempt answers, and sends nothing.")]],
         [[Text("The orphan's closing text.")]]],
    ),
}  # fmt: skip

Plan = Callable[[House], Awaitable[None]]


def _simple(scenario: str, session: str = ROOM) -> Plan:
    async def play(house: House) -> None:
        await house.say(session, scenario)
        await house.idle(session)

    return play


async def _sendfile(house: House) -> None:
    (house.work / "hello.txt").write_text("hello\n")
    await _simple("sendfile", PAGE)(house)


async def _perm(house: House) -> None:
    """A person is asked, and answers. The same answer again is no news; another person's comes too late."""
    asked = await _ask_permission(house)
    assert not (house.work / "perm_marker").exists()
    option = next(o["optionId"] for o in asked["options"] if o["kind"] == "allow_once")
    answer = {"item": asked["id"], "option": option, "by": "Ann"}
    assert await house.post(ROOM, "answers", answer) == {"outcome": "answered"}
    assert await house.post(ROOM, "answers", answer) == {"outcome": "answered"}
    assert (await house.post(ROOM, "answers", answer | {"by": "Ben"}))["outcome"] == "already"
    await house.idle(ROOM)
    assert (house.work / "perm_marker").exists()
    (done,) = _permissions(house.watchers[ROOM].view)
    assert (done["state"], done["answer"], done["by"]) == ("answered", option, "Ann")


async def _ask_send(house: House) -> None:
    """Nobody is asked whether the agent may use Semel's tools. Some agents have them from their second turn on."""
    await _simple("plain")(house)
    await _simple("send")(house)


async def deny(house: House) -> None:
    """A person is asked, and denies."""
    asked = await _ask_permission(house)
    option = next(o["optionId"] for o in asked["options"] if o["kind"].startswith("reject"))
    answer = {"item": asked["id"], "option": option, "by": "Ann"}
    assert await house.post(ROOM, "answers", answer) == {"outcome": "answered"}
    await house.idle(ROOM)


async def stop_while_asked(house: House) -> None:
    """A person is asked, and stops the turn instead of an answer."""
    await _ask_permission(house)
    assert (await house.post(ROOM, "stop", {"by": "Ann"}))["stopped"] is True
    await house.idle(ROOM)


async def kill_gateway_in_tool(house: House) -> None:
    """The gateway dies while a command of the agent runs, and is started again."""
    await house.say(ROOM, "long_tool")
    await house.until(lambda: (house.work / "tool_started").exists(), "the command runs")
    await house.kill_gateway()
    await house.up()
    await house.idle(ROOM)


async def _ask_permission(house: House) -> Json:
    """The open question about the command of `perm`."""
    await house.say(ROOM, "perm")
    view = house.watchers[ROOM].view
    await house.until(lambda: any(item["state"] == "open" for item in _permissions(view)), "permission is asked")
    return next(item for item in _permissions(view) if item["state"] == "open")


def _permissions(view: Seen) -> list[Json]:
    return [item for item in view.items.values() if item["kind"] == "permission"]


async def _cancel_text(house: House) -> None:
    await house.say(ROOM, "cancel_text")
    await house.until(house.shows(ROOM, "begins here"), "the text is shown")
    assert (await house.post(ROOM, "stop", {"by": "Ann"}))["stopped"] is True
    await house.idle(ROOM)
    await _simple("second")(house)


async def _steer(house: House) -> None:
    """A second message while the first is answered: it joins the turn where the agent reads it, else it waits."""
    await house.say(ROOM, "held")
    await house.until(house.shows(ROOM, "The first answer"), "the first answer streams")
    heard = await house.say(ROOM, "second", busy="steer")
    steers = house.agent.name in STEERS
    assert heard["waiting"] == ("steer" if steers else "queue")
    entries = house.watchers[ROOM].view.entries
    if steers:
        await house.until(lambda: any(e.get("joined") for e in entries.values()), "it joins the turn")
    house.script.gate("first").set()
    await house.idle(ROOM)
    turns = {e["turn"] for e in entries.values() if e["role"] == "agent"}
    assert len(turns) == (1 if steers else 2)


async def _interrupt(house: House) -> None:
    """A second message that stops the first turn."""
    await house.say(ROOM, "cancel_text")
    await house.until(house.shows(ROOM, "begins here"), "the text is shown")
    assert (await house.say(ROOM, "second", busy="interrupt"))["waiting"] == "interrupt"
    await house.idle(ROOM)


async def _kill_send(house: House) -> None:
    """The agent's process dies after it sent a message, in the middle of its closing text."""
    await house.say(ROOM, "kill_send")
    await house.until(house.shows(ROOM, "The closing text begins."), "the closing text is shown")
    house.kill_agent()
    await house.idle(ROOM)


async def _kill_gateway(house: House) -> None:
    """The gateway dies there instead, and is started again."""
    await house.say(ROOM, "kill_send")
    await house.until(house.shows(ROOM, "The closing text begins."), "the closing text is shown")
    await house.kill_gateway()
    await house.up()
    await house.idle(ROOM)


async def _kill_said(house: House) -> None:
    """The agent's process dies when its answer is complete, and its turn is not over yet."""
    await house.say(ROOM, "kill_said")
    await house.until(house.shows(ROOM, "All of it is said."), "the answer is shown")
    await house.until(lambda: house.remembers("All of it is said."), "the answer is remembered")
    house.kill_agent()
    await house.idle(ROOM)


async def _kill_before_send(house: House) -> None:
    """The agent's first process dies while text streams; the model then tells what is left of it to send."""
    await house.say(ROOM, "kill_before_send")
    await house.until(house.shows(ROOM, "before the send."), "the text is shown")
    house.kill_agent()
    house.script.gate("send").set()
    await house.idle(ROOM)


async def _kill_gateway_before_send(house: House) -> None:
    """The gateway dies there instead: what it leaves of the agent is told to send while there is no gateway."""
    await house.say(ROOM, "kill_before_send")
    await house.until(house.shows(ROOM, "before the send."), "the text is shown")
    await house.kill_gateway()
    house.script.gate("send").set()
    await house.up()
    await house.idle(ROOM)


async def _plain(house: House) -> None:
    """Whether the agent has Semel's tools is told, and why not. It can be put into each of its modes."""
    await _simple("plain")(house)
    reason = house.agent.no_tools
    status = await house.status_of_tools()
    assert status["tools"] is (reason is None)
    assert reason is None or reason in status["problem"], status
    await _choose_modes(house)


async def _busy(house: House) -> None:
    """The model's API is busy once; the agent says that it tries again."""
    await _simple("busy")(house)
    told = [item["text"] for item in house.watchers[ROOM].view.items.values() if item["kind"] == "notice"]
    assert TELLS_RETRIES[house.agent.name] in told


async def _load(house: House) -> None:
    """The gateway is ended and started again between two turns: the agent loads its session, and nothing is added."""
    await _simple("think2")(house)
    await _simple("send")(house)
    before = dict(house.watchers[ROOM].view.entries)
    await house.stop_gateway()
    await house.up()
    await _simple("second")(house)
    assert '"restored": "loaded"' in (house.path / "log").read_text()
    after = house.watchers[ROOM].view.entries
    assert {seq: entry for seq, entry in after.items() if seq in before} == before
    await _choose_modes(house)


async def _choose_modes(house: House) -> None:
    """Each mode that the session shows can be chosen, and no other; likewise the model, if it is one of those shown."""
    session = await house.session(ROOM)
    _, modes = read_choices(session, "mode")
    model, models = read_choices(session, "model")
    for kind, choices in (("mode", list(modes)), ("model", [model] if model in models else [])):
        for choice in choices:
            expected_status = 409 if choice in house.agent.refused_modes else 204
            assert await house.choose(ROOM, kind, choice) == expected_status, choice
        if choices:
            assert await house.choose(ROOM, kind, f"no-such-{kind}") == 409


PLANS: dict[str, Plan] = {
    "plain": _plain,
    "think2": _simple("think2"),
    "send": _simple("send"),
    "send_distinct": _simple("send_distinct"),
    "send_twice": _simple("send_twice"),
    "sendfile": _sendfile,
    "react": _simple("react"),
    "perm": _perm,
    "ask_send": _ask_send,
    "cancel_text": _cancel_text,
    "steer": _steer,
    "interrupt": _interrupt,
    "drop": _simple("drop"),
    "empty": _simple("empty"),
    "busy": _busy,
    "kill_send": _kill_send,
    "kill_gateway": _kill_gateway,
    "kill_said": _kill_said,
    "kill_before_send": _kill_before_send,
    "kill_gateway_before_send": _kill_gateway_before_send,
    "load": _load,
}

NEED_TOOLS = frozenset(PLANS) - {
    "plain", "think2", "perm", "cancel_text", "steer", "interrupt", "drop", "empty", "busy", "kill_said",
}  # fmt: skip
"""The scenarios in which the model calls Semel's tools."""
ASKED = frozenset({"perm", "ask_send"})
"""The scenarios in which people are asked what the agent may do; in the others it may do everything."""
NEED_STREAM = frozenset({"cancel_text", "steer", "interrupt"}) | {name for name in PLANS if name.startswith("kill")}
"""The scenarios in which something happens while an answer streams."""
ONLY = {
    "busy": frozenset(TELLS_RETRIES),
    "empty": frozenset(("claude", "codex", "pi", "vibe", "agentao", "openclaw")),
}
"""The scenarios that only these agents play. With an empty answer, some of the others ask for more than a minute again,
or say something of their own."""
UNABLE = frozenset(
    {
        ("gemini", "load"),
        ("openhands", "ask_send"),
        ("nanocoder", "cancel_text"),
        ("nanocoder", "interrupt"),
        ("nanocoder", "kill_said"),
    }
)
"""(agent, scenario): Gemini CLI cannot load a session within the minute in which it was made. OpenHands names no tool
in its questions, so that people are asked about Semel's tools, too. nanocoder tells each piece of a text when the next
one comes, so that the text before a pause of the model is never whole."""
