"""What must come of each scenario, for every agent; and where an agent's own behaviour makes it another thing.

`rows`: the whole transcript as a person sees it, without what the person said. `asked`: the requests to the model,
`scenario:step`. `delivered`: what reached the webhook, in order; None: exactly the texts of `rows`.
`items`: tool calls, thoughts and permission requests, in the order of the view.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from scenarios import DROPPED, ORPHANED, SENT

PERM = "touch perm_marker && rm -rf ./nothing && echo perm-done"


@dataclass(frozen=True)
class Expected:
    rows: tuple[str, ...]
    asked: tuple[str, ...]
    delivered: tuple[str, ...] | None = None
    items: tuple[str, ...] = ()


_KILLED = Expected(
    rows=(
        "agent: Sending, then dying. ",
        "agent: Said right before the kill.",
        "agent partial: The closing text begins. ",
        "agent: Resumed, and now done.",
    ),
    asked=("kill_send:0", "kill_send:1", "kill_send:resumed"),
    delivered=("Sending, then dying. ", "Said right before the kill.", "Resumed, and now done."),
    items=("tool done",),
)
_ORPHANED = Expected(
    rows=("agent partial: Text before the send. ", "agent: The second attempt answers, and sends nothing."),
    asked=("kill_before_send:0", "kill_before_send:0"),
    delivered=("The second attempt answers, and sends nothing.",),
)
_REFUSED = (
    f'notice: Held back "{ORPHANED}": it came from an agent process that was already ended. '
    "Tell the agent if you still want it."
)
_REMEMBERED = Expected(  # what was left of the agent had the time to write its text down as complete
    rows=("agent: Text before the send. ",),
    asked=("kill_before_send:0", "kill_before_send:resumed"),
    delivered=("Text before the send. ",),
)
_REMEMBERED_WITH_ERROR = Expected(  # it takes the model's empty answer for a failure, asks again, and says so
    rows=(*_REMEMBERED.rows, "agent: Error: No response was returned. Send your message again to retry."),
    asked=("kill_before_send:0", *["kill_before_send:resumed"] * 3),
    delivered=("Text before the send. ", "Error: No response was returned. Send your message again to retry."),
    items=("tool no result: semel-send_message",),
)
_CALL_REMEMBERED = Expected(  # what was left of the agent wrote down the call, but not the text before it
    rows=_ORPHANED.rows[:1], asked=_REMEMBERED.asked, delivered=_REMEMBERED.delivered
)
_REMEMBER = {
    "codex": [_REMEMBERED],
    "codex-zed": [_REMEMBERED],
    "copilot": [_REMEMBERED_WITH_ERROR],
    "kilo": [_CALL_REMEMBERED],
}

EXPECTED: dict[str, Expected] = {
    "plain": Expected(("agent: Hello from the scripted model. It streams in pieces, and ends.",), ("plain:0",)),
    "think2": Expected(
        ("agent: Let me check that. ", "agent: The tool said think-tool-output."),
        ("think2:0", "think2:1"),
        items=(
            "thought: A thought before the tool.",
            "tool done: echo think-tool-output -> think-tool-output",
            "thought: A thought after the tool.",
        ),
    ),
    "send": Expected(("agent: On it. ", f"agent: {SENT}"), ("send:0", "send:1"), items=("tool done",)),
    "ask_send": Expected(
        ("agent: Hello from the scripted model. It streams in pieces, and ends.", "agent: On it. ", f"agent: {SENT}"),
        ("plain:0", "send:0", "send:1"),
        items=("tool done",),
    ),
    "send_distinct": Expected(
        ("agent: On it - looking at your calendar.", "agent: Tomorrow at 2pm you are free."),
        ("send_distinct:0", "send_distinct:1"),
        items=("tool done",),
    ),
    "send_twice": Expected(
        ("agent: Twice.", "agent: Twice."),
        ("send_twice:0", "send_twice:1", "send_twice:2"),
        items=("tool done", "tool done"),
    ),
    "sendfile": Expected(
        ("agent file hello.txt: The file you asked for.",), ("sendfile:0", "sendfile:1"), (), ("tool done",)
    ),
    "react": Expected(
        ("agent reaction: 👍", "agent: Reacted, and here is the summary."), ("react:0", "react:1"), items=("tool done",)
    ),
    "perm": Expected(
        (
            "agent: I will write a file. ",
            f"notice permission asked: {PERM}",
            f"notice permission answered: {PERM}",
            "agent: The file is written.",
        ),
        ("perm:0", "perm:1"),
        items=(f"tool done: {PERM} -> perm-done", "permission answered"),
    ),
    "cancel_text": Expected(
        (
            "agent partial: A long text begins here. ",
            "notice: Stopped by Ann.",
            "agent: The second answer. It is another one.",
        ),
        ("cancel_text:0", "second:0"),
        ("A long text begins here. ", "Stopped by Ann.", "The second answer. It is another one."),
    ),
    "steer": Expected(
        ("agent: The first answer, held. ", "agent: The second answer. It is another one."), ("held:0", "second:0")
    ),
    "interrupt": Expected(
        (
            "agent partial: A long text begins here. ",
            "notice: Stopped by a newer message.",
            "agent: The second answer. It is another one.",
        ),
        ("cancel_text:0", "second:0"),
        ("A long text begins here. ", "Stopped by a newer message.", "The second answer. It is another one."),
    ),
    "drop": Expected(
        (f"agent superseded: {DROPPED}", f"agent: {DROPPED}And now the complete answer."), ("drop:0", "drop:0")
    ),
    "empty": Expected(
        ("notice: The agent ended its turn without a word.",),
        ("empty:0",),
        ("The agent ended its turn without a word.",),
    ),
    "busy": Expected(("agent: Answered at the second request.",), ("busy:0", "busy:0")),
    "kill_send": _KILLED,
    "kill_gateway": _KILLED,
    "kill_said": Expected(
        ("agent partial superseded: All of it is said.", "agent: All of it is said."),
        ("kill_said:0", "kill_said:0"),
        ("All of it is said.",),
    ),
    "kill_before_send": _ORPHANED,
    "kill_gateway_before_send": _ORPHANED,
    "load": Expected(
        (
            "agent: Let me check that. ",
            "agent: The tool said think-tool-output.",
            "agent: On it. ",
            f"agent: {SENT}",
            "agent: The second answer. It is another one.",
        ),
        ("think2:0", "think2:1", "send:0", "send:1", "second:0"),
        items=(
            "thought: A thought before the tool.",
            "tool done: echo think-tool-output -> think-tool-output",
            "thought: A thought after the tool.",
            "tool done",
        ),
    ),
}


def _thinks(call: str, *, asked: bool = False) -> tuple[str, ...]:
    """The items of `think2`: the title of the call, its output, and whether the agent asked before it."""
    return (
        "thought: A thought before the tool.",
        f"tool done: {call}",
        *(["permission answered"] if asked else []),
        "thought: A thought after the tool.",
    )


def _perm(asked: str, call: str, after: str = "The file is written.") -> dict[str, tuple[str, ...]]:
    """`perm`: what the question is about, the title and output of the call, and the closing text."""
    rows = ("agent: I will write a file. ", f"notice permission asked: {asked}", f"notice permission answered: {asked}")
    return {"rows": (*rows, f"agent: {after}"), "items": (f"tool done: {call}", "permission answered")}


_UNMARKED = ("codex-zed", "opencode", "fast-agent", "gemini", "kimi", "hermes", "deepagents")
_TWICE = {"rows": (f"agent: {DROPPED}{DROPPED}And now the complete answer.",)}
"""It begins again in the same block, without a sign, and shorter than what is taken for a retry without one."""


def _left_to_semel(error: str) -> dict[str, tuple[str, ...]]:
    """`drop` with an agent that does not retry: its turn fails with this error, and Semel tries it again."""
    return {
        "rows": (
            f"agent partial superseded: {DROPPED}",
            f"notice: The agent's turn failed: {error}. It is tried again in 5 s (attempt 2).",
            f"agent: {DROPPED}And now the complete answer.",
        ),
        "delivered": (DROPPED, f"{DROPPED}And now the complete answer."),
    }


def _spaced(scenario: str, at: int) -> tuple[str, ...]:
    """The rows of a scenario, if the agent puts an empty line before the text of one of them."""
    rows = list(EXPECTED[scenario].rows)
    rows[at] = rows[at].replace(": ", ": \n\n", 1)
    return tuple(rows)


def _stripped(scenario: str) -> dict[str, tuple[str, ...]]:
    """The scenario, if the agent removes the blanks at the end of its texts."""
    one = EXPECTED[scenario]
    texts = {"rows": tuple(row.rstrip() for row in one.rows)}
    return texts if one.delivered is None else {**texts, "delivered": tuple(text.rstrip() for text in one.delivered)}


_FAILED = (
    "The agent's turn failed: a tool call had started and the agent could not restore its session: running it again "
    "could repeat what the tool did"
)
_NOT_RESTORED = {
    "rows": (*_KILLED.rows[:3], f"notice: {_FAILED}"),
    "asked": _KILLED.asked[:2],
    "delivered": (*(row.partition(": ")[2] for row in _KILLED.rows[:3]), _FAILED),
}
_YOUNG = (("gemini", "kill_send"), ("gemini", "kill_gateway"))
"""It cannot load a session in the minute in which it was made: on a quick machine, the turn ends there."""
_ECHO = "echo think-tool-output -> think-tool-output"
_DESCRIBED = "Run the command -> think-tool-output"
_GOES_ON = {"rows": ("agent: All of it is said.",), "asked": ("kill_said:0", "kill_said:resumed")}

_BROKEN_CHUNKS = "Response does not match the HTTP/1.1 protocol (Invalid EOF state)"
_NANOCODER_FAILED = f"Partial text before the drop: alpha beta gamma de\n\n**Error:** {_BROKEN_CHUNKS}\n"
_NANOCODER_FAILED_FIRST = f"\n\n**Error:** {_BROKEN_CHUNKS}\nPartial text before the drop: alpha beta gamma de"
_BUN_CUT = (
    "Internal error: The socket connection was closed unexpectedly. For more information, pass `verbose: true` in the "
    "second argument to fetch()"
)
_GPTME_FAILED = "Error: peer closed connection without sending complete message body (incomplete chunked read)"

DIFFERS: Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]] = {
    # They ask before every command, harmless ones too; the policy of these tests answers.
    **{(name, "think2"): {"items": _thinks(_ECHO, asked=True)} for name in ("opencode", "codex")},
    **{(name, "load"): {"items": (*_thinks(_ECHO, asked=True), "tool done")} for name in ("opencode", "codex")},
    **{(name, "drop"): _TWICE for name in _UNMARKED},
    # They ask their model once more if its answer is empty.
    **{(name, "empty"): {"asked": ("empty:0", "empty:0")} for name in ("claude", "openclaw")},
    # Their history holds what was complete, but not that the turn ended: they are asked to go on, and add nothing.
    ("codex", "kill_said"): _GOES_ON,
    ("codex-zed", "kill_said"): _GOES_ON,
    # It tells no output of a command, and strips each piece of a thought.
    ("gemini", "think2"): {
        "items": ("thought: A thought", "tool done: echo think-tool-output -> ", "thought: A thought")
    },
    ("gemini", "perm"): {"items": (f"tool done: {PERM} -> ", "permission answered")},
    # It tells neither thoughts nor the output of a command, nor that a command has ended.
    ("fast-agent", "think2"): {"items": ("tool done: bash -> ",)},
    ("fast-agent", "load"): {"items": ("tool done: bash -> ", "tool done")},
    # It leaves retries to Semel.
    ("qwen", "drop"): _left_to_semel("Internal error: terminated"),
    # It puts the model's description of a command behind it.
    ("qwen", "perm"): _perm(f"{PERM} (Run the command)", "Shell"),
    ("qwen", "think2"): {"items": _thinks("Shell: echo think-tool-output (Run the command) -> think-tool-output")},
    ("vibe", "think2"): {"items": _thinks(f"bash: {_ECHO}")},
    ("vibe", "load"): {"items": (*_thinks(f"bash: {_ECHO}"), "tool done")},
    ("vibe", "perm"): _perm(f"bash: {PERM}", f"bash: {PERM} -> perm-done"),
    # They ask before every command, and title it with the model's description of it.
    **{(name, "think2"): {"items": _thinks(_DESCRIBED, asked=True)} for name in ("copilot", "kilo")},
    **{(name, "load"): {"items": (*_thinks(_DESCRIBED, asked=True), "tool done")} for name in ("copilot", "kilo")},
    ("copilot", "perm"): _perm("Run the command", "Run the command -> perm-done"),
    ("kilo", "perm"): _perm(PERM, "Run the command -> perm-done"),
    ("kilo", "drop"): _left_to_semel("Internal error: Connection reset by server"),
    # It asks before every command, by its tool's name alone; the question's text has the command.
    ("kimi", "think2"): {"items": _thinks(f"Running: {_ECHO}", asked=True)},
    ("kimi", "load"): {"items": (*_thinks(f"Running: {_ECHO}", asked=True), "tool done")},
    ("kimi", "perm"): _perm("Bash", f"Running: {PERM[:50]}… -> perm-done"),
    # It begins what it says after a tool call with an empty line, and says why it asks.
    **{
        ("hermes", scenario): {"rows": _spaced(scenario, at)}
        for scenario, at in {"send_distinct": 1, "react": 1, "kill_send": 2, "kill_gateway": 2}.items()
    },
    ("hermes", "think2"): {"rows": _spaced("think2", 1), "items": _thinks(f"terminal: {_ECHO}")},
    ("hermes", "load"): {"rows": _spaced("load", 1), "items": (*_thinks(f"terminal: {_ECHO}"), "tool done")},
    ("hermes", "perm"): _perm(
        f"recursive delete: {PERM}", f"terminal: {PERM} -> perm-done", "\n\nThe file is written."
    ),
    ("agentao", "think2"): {"items": _thinks("run_shell_command -> think-tool-output")},
    ("agentao", "load"): {"items": (*_thinks("run_shell_command -> think-tool-output"), "tool done")},
    ("agentao", "drop"): _left_to_semel("[LLM API error: Connection error.]: llm_error"),
    # It writes a session down when it ends in order: after a kill it has none, and the turn ends there.
    ("agentao", "kill_send"): _NOT_RESTORED,
    ("agentao", "kill_gateway"): _NOT_RESTORED,
    # It strips its texts, tells no thoughts, and drops what the model said before a call.
    ("openclaw", "think2"): {
        "rows": ("agent: The tool said think-tool-output.",),
        "items": ("tool done: exec: command: echo think-tool-output -> think-tool-output",),
    },
    ("openclaw", "cancel_text"): _stripped("cancel_text"),
    ("openclaw", "interrupt"): _stripped("interrupt"),
    ("openclaw", "steer"): _stripped("steer"),
    **{
        (name, "drop"): {"rows": (f"agent: {DROPPED}And now the complete answer.",)}
        for name in ("openclaw", "openhands")
    },
    ("openclaw", "kill_said"): {**_GOES_ON, "asked": (*_GOES_ON["asked"], "kill_said:resumed")},  # it asks once more
    # What its model says before a call is a thought. It asks before every call, Semel's tools included, and names none.
    ("openhands", "send"): {
        "rows": (f"agent: {SENT}",),
        "items": ("thought: **Thought**:\nOn it.", "tool done: send_message", "permission answered"),
    },
    ("openhands", "send_twice"): {"items": ("tool done: send_message", "permission answered") * 2},
    ("openhands", "send_distinct"): {"items": ("tool done: send_message", "permission answered")},
    ("openhands", "sendfile"): {"items": ("tool done: send_file", "permission answered")},
    ("openhands", "react"): {"items": ("tool done: add_reaction", "permission answered")},
    ("openhands", "think2"): {
        "rows": ("agent: The tool said think-tool-output.",),
        "items": (
            "thought: **Reasoning**:\nA thought before the tool.\n\n**Thought**:\nLet me check that.",
            "tool done: terminal",
            "permission answered",
        ),
    },
    ("openhands", "load"): {
        "rows": tuple(row for at, row in enumerate(EXPECTED["load"].rows) if at not in (0, 2)),
        "items": (
            "thought: **Reasoning**:\nA thought before the tool.\n\n**Thought**:\nLet me check that.",
            "tool done: terminal",
            "permission answered",
            "thought: **Thought**:\nOn it.",
            "tool done: send_message",
            "permission answered",
        ),
    },
    ("openhands", "perm"): {
        "rows": (
            "notice permission asked: Confirm Agent Actions",
            "notice permission answered: Confirm Agent Actions",
            "agent: The file is written.",
        ),
        "items": ("thought: **Thought**:\nI will write a file.", "tool done: terminal", "permission answered"),
    },
    ("nanocoder", "think2"): {
        "items": _thinks("execute_bash: echo think-tool-output -> EXIT_CODE: 0\nthink-tool-output", asked=True)
    },
    ("nanocoder", "perm"): _perm(f"execute_bash: {PERM}", f"execute_bash: {PERM} -> EXIT_CODE: 0\nperm-done"),
    # It writes the failure behind the pieces that it has told, and leaves retries to Semel.
    ("nanocoder", "drop"): {
        "rows": (
            f"agent partial: {_NANOCODER_FAILED}",
            f"notice: The agent's turn failed: Internal error: {_BROKEN_CHUNKS}. It is tried again in 5 s (attempt 2).",
            f"agent: {DROPPED}And now the complete answer.",
        ),
        "delivered": (_NANOCODER_FAILED, f"{DROPPED}And now the complete answer."),
    },
    # It asks before every command, and leaves retries to Semel.
    ("cline", "think2"): {"items": _thinks(f"run_commands: {_ECHO}", asked=True)},
    ("cline", "perm"): _perm(f"run_commands: {PERM}", f"run_commands: {PERM} -> perm-done"),
    ("cline", "drop"): _left_to_semel(_BUN_CUT),
    # It asks before every command.
    ("deepagents", "think2"): {"items": _thinks("echo think-tool-output -> **Command:**", asked=True)},
    ("deepagents", "perm"): _perm(f"Execute: `{PERM}`", f"{PERM} -> **Command:**"),
    # Its calls and their results are text of its answer. It does not ask, and leaves retries to the person.
    ("gptme", "think2"): {
        "rows": (
            "agent: Let me check that. \n```shell\necho think-tool-output\n```\nThe tool said think-tool-output."
            "Ran allowlisted command: `echo think-tool-output`\n\n`think-tool-output`\n\n",
        ),
        "items": (),
    },
    ("gptme", "drop"): {
        "rows": (f"agent partial: {_GPTME_FAILED}",),
        "asked": ("drop:0",),
        "delivered": (_GPTME_FAILED,),
    },
}
"""(agent, scenario) -> what is otherwise there."""


def _with_text(one: Expected, text: str, other: str) -> Expected:
    """The same with another text in the place of this one."""
    rows = tuple(row.replace(text, other) for row in one.rows)
    return replace(one, rows=rows, delivered=tuple(each.replace(text, other) for each in one.delivered or ()))


def expected(agent: str, scenario: str) -> list[Expected]:
    """What must come of a scenario with this agent: one of these, exactly.

    What is left of a dead agent may call before it is ended, or not: then the refusal is on record, or nothing is.
    """
    one = replace(EXPECTED[scenario], **DIFFERS.get((agent, scenario), {}))
    if (agent, scenario) == ("kilo", "perm"):  # its question overtakes what it said before, or not
        return [one, replace(one, rows=(*one.rows[1:3], one.rows[0], *one.rows[3:]))]
    if (agent, scenario) == ("nanocoder", "drop"):  # what it writes of the failure overtakes the last pieces, or not
        return [one, _with_text(one, _NANOCODER_FAILED, _NANOCODER_FAILED_FIRST)]
    if (agent, scenario) == ("openclaw", "kill_said"):  # its gateway ends the turn that its bridge left, or not
        return [one, replace(one, asked=("kill_said:0",))]
    if (agent, scenario) in _YOUNG:
        return [one, replace(one, **_NOT_RESTORED)]
    if one != _ORPHANED:
        return [one]
    ends = [_ORPHANED, *_REMEMBER.get(agent, ())]
    return [*ends, *(replace(e, rows=(e.rows[0], _REFUSED, *e.rows[1:])) for e in ends)]
