"""Profiles describe how each agent's ACP traffic differs from that of others, as data instead of code paths.

The profile is chosen by the name that the agent gives in `initialize` (`agentInfo.name`). An agent that was never
measured gets CAREFUL, which relies only on the protocol's fields, so that no character that the agent wrote is lost.
docs/agents.md says how the values were measured. An *adapter* is the program that speaks ACP for an agent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from semel.text.sentences import join_sentences

Pattern = re.Pattern[str]


@dataclass(frozen=True)
class Profile:
    """How to read one agent's ACP traffic. The defaults suit an unknown agent."""

    name: str = "careful"

    retry: Literal["marked", "whole", "continue"] = "marked"
    """What the agent sends after its model's stream broke. `marked`: the whole answer again, announced by a message id
    or a signal. `whole`: the whole answer again, perhaps unannounced; so text that comes again inside a block may be
    a repeated start (`redelivery` says how long it must be). `continue`: the rest of the answer only."""

    another_id: Literal["copy", "retry", "message"] = "copy"
    """What it means if text comes again under another message id, with no tool call in between. `retry`: it is a
    repeated start of the same message. `message`: it is another message, because the agent signals its retries. `copy`:
    it is the same message if it now comes in one chunk and came in several before; otherwise another message."""

    signal_means_retry: bool = True
    """Whether, after a retry signal, the next text replaces the text before it, even if the wording differs."""

    unidentified_is_notice: bool = False
    """Whether a chunk without a message id is a notice: the agent gives every message of its model an id."""

    foreign_id_errors: Pattern | None = None
    """How an error notice begins. Such a text is a notice only if its message id is not the model's (`model_id`)."""
    model_id: str = ""
    """How message ids of the model's own messages begin."""

    usage_seals: bool = False
    """Whether a usage update without a cost follows every message that was streamed to its end. Then a message without
    such an update, directly followed by a message with one, was a failed start, whatever its wording."""

    prose: tuple[tuple[Pattern, str], ...] = ()
    """The adapter's own statements about the run, each of which arrives as one chunk: (pattern, kind). The kinds are
    "retry" (a repeated start replaces the text so far), "resumed", "queued" (only as a turn's first chunk), "note"."""

    empty_is_break: bool = True
    """Whether an empty text chunk separates two paragraphs; otherwise it means nothing."""

    thought_frame: str = ""
    """What the adapter puts before every chunk of a thought: the markup of a title without the title. It is removed."""

    system_prompt: str = ""
    """How the thought begins, in one chunk, in which the adapter hands over its model's system prompt. It is left out:
    the model did not think it."""

    terminal: Literal["delta", "snapshot", "flips"] = "delta"
    """What `_meta.terminal_output.data` is. `delta`: new output. `snapshot`: all of the output. `flips`: new output,
    but a long text that overlaps the output so far is the newest part of the output."""

    content: Literal["replace", "window"] = "replace"
    """What the text in a tool call's content is. `replace`: the whole output. `window`: the newest part of it."""

    content_before_result: Literal["output", "arguments", "none"] = "output"
    """What the content of a call without a result is: the output so far, its arguments as text, or nothing of use."""

    window_marks: tuple[Pattern, ...] = ()
    """Notes at the start of a snapshot that say that its beginning was cut. A note is removed if the output that was
    cut is known."""

    cut_notes: tuple[Pattern, ...] = ()
    """Notes at the end of a snapshot that say that the rest was cut. They are removed, and the call is marked as
    truncated."""

    fences: tuple[str, ...] = ("console",)
    """The info strings of code fences that the adapter puts around the text in a tool call's content."""

    result_prose: Pattern | None = None
    """The form of a result that the adapter writes as prose, with the groups `output` and `exit` (the exit code)."""

    permission_is_call: bool = True
    """Whether a permission request has the id of its tool call; otherwise it has an id of its own."""

    unfinished: Literal["no result", "done"] = "no result"
    """The status of a call that has no result when the turn ends normally."""

    replay_until: Literal["response", "prompt"] = "response"
    """Where the replay after `session/load` ends: at the response, or at the next prompt."""

    history_end: str = ""
    """The key in the `_meta` of a replayed update that marks the end of a turn; "" if the agent has none. Without it, a
    history is no evidence that a turn ended; no measured third-party agent has one."""

    synthetic_user: tuple[Pattern, ...] = ()
    """How user messages begin that no person wrote: the agent or its adapter put them into the history."""

    unattended_modes: frozenset[str] = frozenset()
    """The modes in which the agent decides by itself what it may do, without asking."""
    asking_mode: str | None = None
    """A mode in which the agent asks. It is set if the agent starts in an unattended one and no mode is configured."""

    never_asks: bool = False
    """Whether the agent decides by itself what it may do in every mode, or has no modes."""

    starts_mcp_servers: bool = True
    """Whether the agent starts MCP servers over stdio; otherwise it is offered Semel's over HTTP, if it takes that."""

    hides_calls: bool = False
    """Whether the agent runs tools without telling the calls, so that any prompt may have started one (Law 9)."""

    announces_calls: bool = False
    """Whether every tool call is known to be announced, perhaps after it has reached its MCP server. Then it is waited
    for as long in a process's first turn as later."""

    logged_out_error: Pattern | None = None
    """How an agent that nobody has logged in refuses a session, if it does not use ACP's code for that."""

    failure_hints: tuple[tuple[Pattern, str], ...] = ()
    """What a person can do about a failure: (a pattern in the failure's text, a sentence)."""

    second: Literal["queues", "steers"] = "queues"
    """What the agent does with a second prompt during a turn. `steers`: it reads the prompt in that turn and answers
    both. `queues`: anything else, so Semel queues the prompt. (Measured: agents queue it, refuse it, never answer it,
    or cancel the first.)"""

    exact: bool = False
    """Whether every message has its own id and every chunk is new text. Then nothing is compared with anything."""

    nulls_clear: bool = False
    """Whether a null in an update clears the field, as in ACP v2; in v1 it means nothing."""

    def find_hints(self, text: str) -> list[str]:
        """Return what a person can do about the failures that are known in `text`."""
        return [hint for pattern, hint in self.failure_hints if pattern.search(text)]

    def add_hints(self, failure: str, printed: str = "") -> str:
        """Return the text of a failure with what a person can do about it, if that is known.

        `printed`: what the agent wrote to stderr before.
        """
        return join_sentences(failure, *self.find_hints(f"{failure}\n{printed}"))

    @cached_property
    def prose_leads(self) -> frozenset[str]:
        """The first characters that a match of `prose` or `foreign_id_errors` can have."""
        patterns = [pattern for pattern, _ in self.prose]
        if self.foreign_id_errors is not None:
            patterns.append(self.foreign_id_errors)
        starts = [start for pattern in patterns for start in pattern.pattern.split("|")]
        return frozenset("\n" if start.startswith("\\n") else start.removeprefix("\\")[0] for start in starts)


_INTERRUPTED = re.compile(r"\[Request interrupted by user")
_REMINDER = re.compile(r"\s*<system-reminder>")
_SYSTEM = re.compile(r"\[System: ")
_GEMINI_ROWS = (re.compile(r"\s*<session_context>"), re.compile(r"\[Function Response: "))
_SYNTHETIC = (_INTERRUPTED, _REMINDER, _SYSTEM, *_GEMINI_ROWS)
_HERMES_RETRY = re.compile(r"\n\n⚠ Connection dropped mid tool-call; reconnecting…\s*\Z")
_QUEUED = re.compile(r"Queued for the next turn\. \(\d+ queued\)\s*\Z")
_CLAUDE_CUT = re.compile(r"\n\[Output truncated \(\d+ bytes total\): full output saved to [^\]\n]*\]\s*\Z")
_CLAUDE_NO_BYPASS = re.compile(r"no mode '?bypass", re.IGNORECASE)
_CLAUDE_ROOT = re.compile(r"root/sudo privileges", re.IGNORECASE)
_CLAUDE_ROOT_HINT = (
    "Claude Code does not skip permissions as root: run the gateway as another user or, in a container, change the env "
    'line of its section to env = { ENABLE_TOOL_SEARCH = "false", IS_SANDBOX = "1" } ("1" and no other value)'
)
# its adapter asks for that by itself if IS_SANDBOX has any value, and Claude Code refuses it unless the value is "1"
_CLAUDE_SANDBOX_HINT = f"{_CLAUDE_ROOT_HINT}, or unset IS_SANDBOX where `semel up` runs"
_OPENCODE_CUT = re.compile(r"\.\.\.output truncated\.\.\.\n\nFull output saved to: [^\n]*\n\n")
_DOTS = re.compile(r"\.\.\.\n\n")
_HERMES_RESULT = re.compile(
    r"terminal result\n- \*\*output:\*\* ?(?P<output>.*)\n- \*\*exit_code:\*\* (?P<exit>-?\d+)"
    r"(?:\n- \*\*\w+:\*\* [^\n]*)*\s*\Z",
    re.DOTALL,
)
_HERMES_CUT = re.compile(r"\n\.\.\. \(\d+ chars total, truncated\)\s*\Z")
_PI_RETRY = re.compile(r"Retrying \(at[^\n]*\)(?:\.\.\.|…)?\s*\Z")
_PI_RESUMED = re.compile(r"Retry finished, resuming\.\s*\Z")
_PI_COMPACT = re.compile(
    r"Compacting context\.\.\.\s*\Z|Context nearing limit, running automatic compaction\.\.\.\s*\Z"
    r"|Automatic compaction finished[^\n]*\s*\Z"
)

_COPILOT_RETRY = re.compile(
    r"Info: (?:Response was interrupted due to a server error|Request failed due to a transient API error)\. "
    r"Retrying\.\.\.\s*\Z"
)

_ACP_MODES = "https://agentclientprotocol.com/protocol/session-modes"  # how Copilot's ids of modes begin
_GEMINI_MODE = re.compile(r"\[MODE_UPDATE\] \w+\s*\Z")
_GPTME_GREETING = re.compile(r"ℹ️ (?:New|Resumed) session\nUsing model: [^\n]*\nUsing workspace: [^\n]*\s*\Z")

CAREFUL = Profile(synthetic_user=_SYNTHETIC, window_marks=(_DOTS,), cut_notes=(_CLAUDE_CUT,))

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        CAREFUL,
        replace(CAREFUL, name="semel-demo", second="steers", history_end="semel-demo/ended"),
        replace(
            CAREFUL,
            name="semel-model",  # Semel's own loop, so nothing in the stream has to be guessed
            exact=True,
            retry="continue",
            empty_is_break=False,
            fences=(),
            window_marks=(),
            cut_notes=(),
            synthetic_user=(),
            second="steers",
        ),
        replace(
            CAREFUL,
            name="claude",
            another_id="retry",
            signal_means_retry=False,  # a fallback sends only the rest of the answer, under a new id
            foreign_id_errors=re.compile(r"API Error"),
            model_id="msg_",
            usage_seals=True,
            terminal="snapshot",
            content_before_result="none",  # `content` is then the call's description
            fences=("console", ""),
            unattended_modes=frozenset(("auto", "dontAsk", "bypassPermissions")),
            asking_mode="default",
            logged_out_error=re.compile(r"Claude Code process exited with code 1\Z"),
            failure_hints=((_CLAUDE_NO_BYPASS, _CLAUDE_ROOT_HINT), (_CLAUDE_ROOT, _CLAUDE_SANDBOX_HINT)),
        ),
        replace(
            CAREFUL,
            name="codex",
            another_id="message",
            unidentified_is_notice=True,
            # in the mode `agent`, a model answers the permission requests; `workspace-write` asks a person, but not
            # about edits
            unattended_modes=frozenset(("agent", "agent-full-access")),
            asking_mode="read-only",
        ),
        replace(CAREFUL, name="codex-zed", retry="whole", fences=("console", "sh")),
        replace(
            CAREFUL,
            name="gemini",
            retry="whole",
            replay_until="prompt",
            thought_frame="****\n",
            prose=((_GEMINI_MODE, "note"),),
            content_before_result="none",  # `content` is then the call's description
            unattended_modes=frozenset(("autoEdit", "yolo")),
            asking_mode="default",
        ),
        replace(
            CAREFUL,
            name="qwen",
            retry="whole",
            empty_is_break=False,
            unattended_modes=frozenset(("auto-edit", "auto", "yolo")),
            asking_mode="default",
        ),
        replace(
            CAREFUL,
            name="opencode",
            retry="whole",
            another_id="retry",
            content="window",
            window_marks=(_OPENCODE_CUT, _DOTS),
            second="steers",
            announces_calls=True,
        ),
        replace(CAREFUL, name="kilo", announces_calls=True),
        replace(
            CAREFUL,
            name="kimi",
            retry="whole",
            content_before_result="arguments",
            unattended_modes=frozenset(("auto", "yolo")),
            asking_mode="default",
        ),
        replace(
            CAREFUL,
            name="hermes",
            retry="continue",
            prose=((_HERMES_RETRY, "retry"), (_QUEUED, "queued")),
            content_before_result="arguments",
            result_prose=_HERMES_RESULT,
            cut_notes=(_HERMES_CUT,),
            permission_is_call=False,
            unattended_modes=frozenset(("accept_edits", "dont_ask")),
            asking_mode="default",
        ),
        replace(
            CAREFUL,
            name="vibe",
            retry="whole",
            unattended_modes=frozenset(("accept-edits", "auto-approve")),  # the agent starts in accept-edits
            asking_mode="ask",
        ),
        replace(CAREFUL, name="fast-agent", retry="whole", empty_is_break=False, unfinished="done", never_asks=True),
        replace(
            CAREFUL,
            name="pi",
            retry="whole",
            terminal="flips",
            prose=(
                (_PI_RETRY, "retry"),
                (_PI_RESUMED, "resumed"),
                (_PI_COMPACT, "note"),
                (_QUEUED, "queued"),
            ),
            never_asks=True,
        ),
        replace(CAREFUL, name="openclaw", content="window"),
        replace(
            CAREFUL,
            name="copilot",
            prose=((_COPILOT_RETRY, "retry"),),
            starts_mcp_servers=False,
            unattended_modes=frozenset((f"{_ACP_MODES}#autopilot",)),
            asking_mode=f"{_ACP_MODES}#agent",
        ),
        replace(
            CAREFUL,
            name="gptme",
            prose=((_GPTME_GREETING, "note"),),  # it may come after the first prompt was sent
            unattended_modes=frozenset(("default", "auto")),  # in `default`, it never asks, though it says so
            hides_calls=True,  # the calls and their results are text of its answer
        ),
        replace(
            CAREFUL,
            name="nanocoder",
            unattended_modes=frozenset(("auto-accept", "yolo")),  # the agent starts in auto-accept
            asking_mode="normal",
        ),
        replace(
            CAREFUL,
            name="openhands",
            system_prompt="System Prompt:\n",
            permission_is_call=False,
            unattended_modes=frozenset(("always-approve",)),
            asking_mode="always-ask",
        ),
        replace(CAREFUL, name="agentao", unattended_modes=frozenset(("full-access",)), asking_mode="workspace-write"),
    )
}

# Pairs of a part of the lower-cased agentInfo.name and a profile's name. The first pair whose part occurs counts. npm
# scopes tell the Codex adapters apart.
_NAMES: tuple[tuple[str, str], ...] = (
    ("@agentclientprotocol/codex", "codex"),
    ("zed-industries/codex", "codex-zed"),
    ("codex-zed", "codex-zed"),
    ("codex-acp", "codex-zed"),
    ("codex", "codex"),
    ("claude", "claude"),
    ("gemini", "gemini"),
    ("qwen", "qwen"),
    ("opencode", "opencode"),
    ("kilo", "kilo"),
    ("kimi", "kimi"),
    ("hermes", "hermes"),
    ("mistral", "vibe"),
    ("vibe", "vibe"),
    ("fast-agent", "fast-agent"),
    ("fast_agent", "fast-agent"),
    ("fastagent", "fast-agent"),
    ("openclaw", "openclaw"),
    ("copilot", "copilot"),
    ("gptme", "gptme"),
    ("nanocoder", "nanocoder"),
    ("agentao", "agentao"),
    ("openhands", "openhands"),
)


def find_profile(name: str) -> Profile:
    """Return the profile that a person names, by its own name or an agent's. Raises ValueError if none fits."""
    profile = profile_for(name)
    if profile is CAREFUL and name.strip().lower() not in (CAREFUL.name, ""):
        raise ValueError(f"no agent profile fits {name!r}. Known: {', '.join(sorted(PROFILES))}.")
    return profile


def profile_for(agent_name: str) -> Profile:
    """Return the profile for the name that an agent gives in ACP's initialize; CAREFUL if none fits."""
    name = agent_name.strip().lower()
    if name in PROFILES:
        return PROFILES[name]
    for needle, profile_name in _NAMES:
        if needle in name:
            return PROFILES[profile_name]
    if re.fullmatch(r"(?:@[\w./-]+/)?pi(?:[-_ ].*)?", name):
        return PROFILES["pi"]
    return CAREFUL
