"""Accept the new message of a client that sends a whole conversation each time (OpenAI's chat API, AG-UI).

Such a client repeats the history with every message, but the agent remembers it already. So only what the person said
after the last answer is new, and becomes an event. The history is told to the agent only if the session is new: once,
as an event that starts no turn. Instructions are told again if they change, and in each chapter. If an earlier request
was lost, its message is accepted together with the new one.

A conversation without a name is found by its content. The *content key* of a message is a digest of the agent, the
instructions and everything that the person said up to this message; it is also the event's key. A request continues the
session whose last message has the content key of the last answered message in the request. If that session has gone on
since, the request begins a new session. So two conversations that begin with the same words never mix, and a repeated
request is the same event (Law 1).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from semel.faces.http.operations.messages import check_accepted
from semel.faces.http.problems import Problem
from semel.gateway.errors import BadRequest, NoSuchSession
from semel.law.identity import CUSTOMARY_NAME, BadKey, check_session_key, escape_address
from semel.ledger.turns.history import INSTRUCTIONS
from semel.text.json_types import Json

if TYPE_CHECKING:
    from semel.gateway.api.gateway import Gateway
    from semel.gateway.ports.channel import Heard

HISTORY_HEAD = "The conversation so far. It took place before this session began:"
OMITTED_KINDS = {"image": "an image", "audio": "a sound"}
"""The blocks that have no place in a message's text, in words."""
MAX_ID_CHARS = 100  # of a client's conversation id in a session key; a longer one is replaced by its digest


@dataclass(frozen=True)
class ConversationMessage:
    """One message of a conversation.

    `blocks`: the message as ACP content blocks, if it is more than text; `text` is then what people read of it.
    """

    role: Literal["user", "assistant"]
    text: str
    blocks: tuple[Json, ...] = ()

    @property
    def is_blank(self) -> bool:
        return not self.text.strip() and not self.blocks

    @property
    def identity(self) -> str:
        """What tells the message from another one in a content key: its text or, with files, a digest of its blocks."""
        return self.text if not self.blocks else f"{self.text}\0{_digest_blocks(self.blocks)}"


@dataclass(frozen=True)
class Conversation:
    """A conversation as a client sent it. `agent`: the agent's name. `instructions`: the system messages for it."""

    agent: str
    messages: tuple[ConversationMessage, ...]
    instructions: str = ""

    @property
    def history(self) -> tuple[ConversationMessage, ...]:
        """Everything up to the last answer."""
        answers = [number for number, message in enumerate(self.messages) if message.role == "assistant"]
        return self.messages[: answers[-1] + 1] if answers else ()

    @property
    def new_messages(self) -> tuple[ConversationMessage, ...]:
        """What the person said after the last answer."""
        return self.messages[len(self.history) :]

    def make_content_key(self, count: int = 0) -> str:
        """Return the content key of the person's message number `count`, counted from 1; 0 stands for the last one."""
        said = [message.identity for message in self.messages if message.role == "user"]
        return f"chat:{_digest_texts(self.agent, self.instructions, *said[: count or None])}"

    def make_history_key(self) -> str | None:
        """Return the content key of the last message that was answered; `None` if none was."""
        count = sum(message.role == "user" for message in self.history)
        return self.make_content_key(count) if count else None


@dataclass(frozen=True)
class AcceptedMessage:
    """The accepted message, and the key of its session."""

    session: str
    event: int


def _digest_texts(*texts: str) -> str:
    return hashlib.blake2b(msgspec.json.encode(texts), digest_size=16).hexdigest()


def _digest_blocks(blocks: Sequence[Json]) -> str:
    return hashlib.blake2b(msgspec.json.encode(blocks, order="sorted"), digest_size=16).hexdigest()


def name_session(agent: str, client: str, id: str) -> str:
    """Return the key of the session for a conversation that a client identifies by `id`."""
    address = escape_address(id)
    return f"{agent}:web:{client}-{address if len(address) <= MAX_ID_CHARS else _digest_texts(id)}"


async def accept_message(
    gateway: Gateway, conversation: Conversation, session: str | None, key: str | None, client: str,
    key_name: str = "key",
) -> AcceptedMessage:  # fmt: skip
    """Accept the conversation's new message and return after the commit. A repeat returns the first event.

    `session`: the key of its session; None if it is to be found. `key`: the idempotency key. `client`: begins the
    address of a new session. `key_name`: what the client calls the key. Raises a Problem: `conflict` if the key was
    used with another text.
    """
    if session is None:
        session, key = await _find_session(gateway, conversation, key, client)
    if key is None or not await gateway.is_known(f"api:{session}", key):
        await _accept_preceding(gateway, session, conversation)
    message = await _say(gateway, session, conversation.new_messages[-1], key)
    check_accepted(message, key_name)
    return AcceptedMessage(session, message.event)


async def remove_recorded(gateway: Gateway, session: str, conversation: Conversation) -> Conversation:
    """Return the conversation without those of its new messages that the session already contains."""
    count = _count_recorded(conversation.new_messages, await gateway.last_said(session))
    messages = conversation.history + conversation.new_messages[count:]
    return Conversation(conversation.agent, messages, conversation.instructions)


def check_name(gateway: Gateway, agent: str, field: str) -> None:
    """Raise a Problem about `field` if there is no agent with this name."""
    if agent not in gateway.settings.agents:
        names = ", ".join(gateway.settings.agents)
        raise Problem("not-found", f"There is no agent {agent!r}. The agents here: {names}.", field=field)


async def check_agent(gateway: Gateway, session: str, agent: str, field: str) -> None:
    """Raise a Problem about `field` if `session` is not a valid key, or if it belongs to another agent than `agent`.

    A session that does not exist yet belongs to the agent that it would get. Its key must not begin with the name of an
    agent that is not configured.
    """
    try:
        check_session_key(session)
        owner = str((await gateway.session(session))["agent"])
    except BadKey as error:
        raise Problem("bad-field", str(error), field=field) from None
    except NoSuchSession:
        owner = gateway.inbox.make_addressee(session).agent
        name, colon, _ = session.partition(":")
        if colon and owner == agent and name not in (agent, CUSTOMARY_NAME):
            detail = f"No agent is named {name!r}, so session {session!r} would be {agent}'s."
            raise _make_wrong_agent(detail, agent, field) from None
    if owner != agent:
        detail = f"Session {session!r} belongs to {owner!r}, and the request is for {agent!r}."
        raise _make_wrong_agent(detail, agent, field)


def _make_wrong_agent(detail: str, agent: str, field: str) -> Problem:
    return Problem(
        "bad-field", f"{detail} Begin the session's key with {agent}: for a session of its own.", field=field
    )


async def _find_session(gateway: Gateway, conversation: Conversation, key: str | None, client: str) -> tuple[str, str]:
    """Return session and event key of a conversation without a name."""
    content_key, history_key = conversation.make_content_key(), conversation.make_history_key()
    if key is None and (repeated := await gateway.find_message(content_key)) is not None:
        if not repeated.is_deleted:
            return repeated.session, content_key
        return f"{conversation.agent}:web:{client}-{_digest_texts(content_key, str(repeated.event))}", content_key
    previous = await gateway.find_message(history_key) if history_key is not None else None
    if (
        previous is not None
        and not previous.is_deleted
        and (previous.is_last or (key is not None and await gateway.is_known(f"api:{previous.session}", key)))
    ):
        return previous.session, key or content_key
    return (
        f"{conversation.agent}:web:{client}-{_digest_texts(conversation.agent, key or content_key)}",
        key or content_key,
    )


async def _accept_preceding(gateway: Gateway, session: str, conversation: Conversation) -> None:
    """Accept what comes before the new message: new instructions, a history that the session lacks, lost messages."""
    recorded_texts = await gateway.last_said(session)
    if conversation.instructions:
        await _report_once(gateway, session, INSTRUCTIONS, conversation.instructions)
    if conversation.history and not recorded_texts:
        await _report_once(gateway, session, "history", _write_history(conversation.history))
    earlier = conversation.new_messages[:-1]
    count = sum(message.role == "user" for message in conversation.history)
    for number in range(_count_recorded(earlier, recorded_texts), len(earlier)):
        key = conversation.make_content_key(count + number + 1)
        with contextlib.suppress(BadRequest):  # it was refused when it was new, too
            await _say(gateway, session, earlier[number], key, wakes=False)


async def _say(
    gateway: Gateway, session: str, message: ConversationMessage, key: str | None, wakes: bool | None = None
) -> Heard:
    if message.blocks:
        return await gateway.say(session, blocks=message.blocks, key=key, wakes=wakes)
    return await gateway.say(session, message.text, key=key, wakes=wakes)


async def _report_once(gateway: Gateway, session: str, kind: str, text: str) -> None:
    """Report an event that starts no turn, unless it repeats the last one of its kind in the session's chapter.

    The key names what the event follows, so that requests which come at the same time report one event.
    """
    last = await gateway.last_report(session, kind)
    if last.text != text:
        key = f"{kind}:{_digest_texts(str(last.chapter), str(last.seq), text)}"
        await gateway.report(session, kind, text, key=key, wakes=False)


def _write_history(history: Sequence[ConversationMessage]) -> str:
    names = {"user": "User", "assistant": "Assistant"}
    return "\n\n".join([HISTORY_HEAD, *(f"{names[message.role]}: {_describe_message(message)}" for message in history)])


def _describe_message(message: ConversationMessage) -> str:
    """Return a message of the history in words. Its images and sounds are only named."""
    files = [f"[{name}]" for block in message.blocks if (name := OMITTED_KINDS.get(block["type"])) is not None]
    return " ".join(filter(None, [message.text, *files]))


def _count_recorded(messages: Sequence[ConversationMessage], recorded_texts: Sequence[str]) -> int:
    """Return how many messages at the beginning of `messages` are the last ones that the session contains.

    `messages`: oldest first. `recorded_texts`: the session's texts, newest first.
    """
    texts = [message.text for message in messages]
    for count in range(len(texts), 0, -1):
        if list(reversed(texts[:count])) == list(recorded_texts[:count]):
            return count
    return 0
