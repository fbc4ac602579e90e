"""Profiles: how each agent's ACP traffic differs from the others', as data instead of code paths.

The profile is chosen by the name that the agent gives in `initialize` (`agentInfo.name`). An agent that was never
measured gets CAREFUL, which relies on the protocol's fields alone, so that no genuine character is lost. docs/agents.md
says how the values were measured.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal

Pattern = re.Pattern[str]


@dataclass(frozen=True)
class Profile:
    """One agent's dialect. The defaults are the careful interpretation, for an unknown agent."""

    name: str = "careful"

    retry: Literal["marked", "whole", "continue"] = "marked"
    """What text after a broken model stream is. `whole`: the answer again from its start, perhaps without any
    mark, so a block whose whole text comes again inside it may be an attempt (`evidence` says how long it must be).
    `continue`: the rest of the answer, whatever it repeats. `marked`: the whole answer again where something besides
    the text says so (a message id, a signal)."""

    another_id: Literal["copy", "retry", "message"] = "copy"
    """The meaning of text that comes again under another message id, with no tool call in between. `retry`: another
    attempt at the same message (measured). `message`: another message, because the agent signals its retries. `copy`:
    the same message if it now comes in one chunk and came in several before; otherwise another message."""

    signal_means_retry: bool = True
    """After a retry signal, the next text replaces the attempt even if the wording differs."""

    unidentified_is_notice: bool = False
    """The agent gives every model message an id: a chunk without one is the adapter's own prose."""

    foreign_id_errors: Pattern | None = None
    """Text with this start under an id that is not the model's (`model_id`) is an error notice."""
    model_id: str = ""

    usage_seals: bool = False
    """A usage update without a cost follows every message that was streamed to its end. A message without one, directly
    followed by a message with one, was a failed attempt, whatever its wording."""

    prose: tuple[tuple[Pattern, str], ...] = ()
    """(pattern, what) of adapter prose that arrives as one chunk of its own, at a place where it says
    something about the run: "retry" (the attempt so far is void), "resumed", "queued" (only as a turn's first
    chunk), "note"."""

    empty_is_break: bool = True
    """An empty text chunk separates two paragraphs (else it only carries usage)."""

    thought_frame: str = ""
    """What the adapter puts before every thought chunk: the frame of a title that is not there."""

    terminal: Literal["delta", "snapshot", "flips"] = "delta"
    """What `_meta.terminal_output.data` is.

    `flips`: deltas, but a message that overlaps what was said is a window.
    """

    content: Literal["replace", "window"] = "replace"
    """What text content of a tool call is. `window`: the newest part of one growing output."""

    content_before_result: Literal["output", "arguments", "none"] = "output"
    """Content of a call that has no result yet: output so far, or the arguments rendered as text, or prose."""

    window_marks: tuple[Pattern, ...] = ()
    """Starts of a snapshot that say "the beginning was cut": taken off where the rest joins what is known."""

    cut_notes: tuple[Pattern, ...] = ()
    """Ends of a snapshot that say "the rest was cut": taken off, the call is marked truncated."""

    fences: tuple[str, ...] = ("console",)
    """Info strings of code fences that the adapter wraps around a tool call's text content."""

    result_prose: Pattern | None = None
    """A result rendered as prose; groups `output`, `exit`."""

    permission_is_call: bool = True
    """A permission request's toolCallId is that of the call (else it is an id of its own)."""

    unfinished: Literal["no result", "done"] = "no result"
    """What a call without a result is once the turn ended normally."""

    replay_until: Literal["response", "prompt"] = "response"
    """Where the replay of `session/load` ends: at its response, or at the next prompt."""

    history_end: str = ""
    """The key in the `_meta` of a replayed update that marks the end of a completed turn. Without it, a history is no
    evidence that a turn ended; no measured third-party agent has one."""

    synthetic_user: tuple[Pattern, ...] = ()
    """Patterns of user messages that no person wrote."""

    second: Literal["queues", "steers"] = "queues"
    """How the agent handles a second prompt during a turn. `steers`: it reads the prompt in that turn and answers both.
    All other ways (measured: queued, cancels the first, refused, never answered) are no better than our own queue."""

    exact: bool = False
    """Every message has its own id and every chunk is a delta: nothing is delivered twice, so nothing is compared."""

    nulls_clear: bool = False
    """ACP v2: an explicit null clears a field (in v1 it says nothing)."""

    prose_leads: frozenset[str] = field(default=frozenset(), compare=False)
    """First letters of `prose`, so that the common chunk costs one look-up."""


_INTERRUPTED = re.compile(r"\[Request interrupted by user")
_REMINDER = re.compile(r"\s*<system-reminder>")
_SYSTEM = re.compile(r"\[System: ")
_GEMINI_ROWS = (re.compile(r"\s*<session_context>"), re.compile(r"\[Function Response: "))
_SYNTHETIC = (_INTERRUPTED, _REMINDER, _SYSTEM, *_GEMINI_ROWS)
_HERMES_RETRY = re.compile(r"\n\n⚠ Connection dropped mid tool-call; reconnecting…\s*\Z")
_QUEUED = re.compile(r"Queued for the next turn\. \(\d+ queued\)\s*\Z")
_CLAUDE_CUT = re.compile(r"\n\[Output truncated \(\d+ bytes total\): full output saved to [^\]\n]*\]\s*\Z")
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

CAREFUL = Profile(synthetic_user=_SYNTHETIC, window_marks=(_DOTS,), cut_notes=(_CLAUDE_CUT,))


def _lead(pattern: str) -> str:
    return "\n" if pattern.startswith("\\n") else pattern[0]


def _profile(name: str, **values: object) -> Profile:
    profile = replace(CAREFUL, name=name, **values)  # type: ignore[arg-type]
    patterns = [pattern for pattern, _ in profile.prose]
    if profile.foreign_id_errors:
        patterns.append(profile.foreign_id_errors)
    return replace(profile, prose_leads=frozenset(_lead(p) for pattern in patterns for p in pattern.pattern.split("|")))


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        CAREFUL,
        _profile("semel-demo", second="steers", history_end="semel-demo/ended"),
        _profile(
            "semel-model",  # our own loop: it says what things are, and nothing has to be guessed
            exact=True,
            retry="continue",
            empty_is_break=False,
            fences=(),
            window_marks=(),
            cut_notes=(),
            synthetic_user=(),
            second="steers",
        ),
        _profile(
            "claude",
            another_id="retry",
            signal_means_retry=False,  # a fallback sends only the rest of the answer, under a new id
            foreign_id_errors=re.compile(r"API Error"),
            model_id="msg_",
            usage_seals=True,
            terminal="snapshot",
            content_before_result="none",  # the call's description
            fences=("console", ""),
        ),
        _profile("codex", another_id="message", unidentified_is_notice=True),
        _profile("codex-zed", retry="whole", fences=("console", "sh")),
        _profile("gemini", retry="whole", replay_until="prompt", thought_frame="****\n"),
        _profile("qwen", retry="whole", empty_is_break=False),
        _profile(
            "opencode",
            retry="whole",
            another_id="retry",
            content="window",
            window_marks=(_OPENCODE_CUT, _DOTS),
            second="steers",
        ),
        _profile("kimi", retry="whole", content_before_result="arguments"),
        _profile(
            "hermes",
            retry="continue",
            prose=((_HERMES_RETRY, "retry"), (_QUEUED, "queued")),
            content_before_result="arguments",
            result_prose=_HERMES_RESULT,
            cut_notes=(_HERMES_CUT,),
            permission_is_call=False,
        ),
        _profile("vibe", retry="whole"),
        _profile("fast-agent", retry="whole", empty_is_break=False, unfinished="done"),
        _profile(
            "pi",
            retry="whole",
            terminal="flips",
            prose=(
                (_PI_RETRY, "retry"),
                (_PI_RESUMED, "resumed"),
                (_PI_COMPACT, "note"),
                (_QUEUED, "queued"),
            ),
        ),
        _profile("openclaw", content="window"),
    )
}

# Needles in the lower-cased agentInfo.name, in this order; the two Codex adapters differ by their scope.
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
    ("kimi", "kimi"),
    ("hermes", "hermes"),
    ("mistral", "vibe"),
    ("vibe", "vibe"),
    ("fast-agent", "fast-agent"),
    ("fast_agent", "fast-agent"),
    ("fastagent", "fast-agent"),
    ("openclaw", "openclaw"),
)


def profile_for(agent_name: str) -> Profile:
    """The profile of the agent that calls itself `agent_name` in `initialize`; CAREFUL if none fits."""
    name = agent_name.strip().lower()
    if name in PROFILES:
        return PROFILES[name]
    for needle, found in _NAMES:
        if needle in name:
            return PROFILES[found]
    if re.fullmatch(r"(?:@[\w./-]+/)?pi(?:[-_ ].*)?", name):
        return PROFILES["pi"]
    return CAREFUL
