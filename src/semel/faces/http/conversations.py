"""Accept the new message of a client that sends a whole conversation each time (OpenAI's chat API, AG-UI).

Such a client repeats the history with every message, and the agent remembers it. So only what the person said after the
last answer is new, and becomes an event. Everything before it is told to the agent only if its session is new: once, as
an event that starts no turn. What was said earlier and never arrived, because a request was lost, is accepted with the
new message.

A conversation without a name gets a session of its own, found by its content: the *chain* digests of agent,
instructions and what the person said, up to each message. A request continues the session whose last message has the
chain of the request's history. If that conversation went on differently since, the request begins a new session. So two
conversations that begin with the same words never mix, and a repeated request is the same event (Law 1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from semel.faces.http.operations.messages import check_accepted
from semel.faces.http.problems import Problem
from semel.gateway.errors import NoSuchSession
from semel.gateway.turns.prompt import INSTRUCTIONS
from semel.law.identity import CUSTOMARY_NAME, BadKey, check_session_key, escape_address

if TYPE_CHECKING:
    from semel.gateway.api.gateway import Gateway

HISTORY_HEAD = "The conversation so far. It took place before this session began:"
MAX_ID_CHARS = 100  # of a client's conversation id in a session key; a longer one is replaced by its digest


@dataclass(frozen=True)
class ConversationMessage:
    """One message of a conversation."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True)
class Conversation:
    """What a client sent. `agent`: whom it addresses. `instructions`: its system messages, for the agent."""

    agent: str
    messages: tuple[ConversationMessage, ...]
    instructions: str = ""

    @property
    def history(self) -> tuple[ConversationMessage, ...]:
        """Everything up to the last answer."""
        answers = [number for number, message in enumerate(self.messages) if message.role == "assistant"]
        return self.messages[: answers[-1] + 1] if answers else ()

    @property
    def new_texts(self) -> list[str]:
        """What the person said after the last answer."""
        return [message.text for message in self.messages[len(self.history) :]]

    def chain(self, count: int = 0) -> str:
        """Return the event key that stands for the content of the first `count` messages of the person (0: of all)."""
        texts = [message.text for message in self.messages if message.role == "user"]
        return f"chat:{_digest(self.agent, self.instructions, *texts[: count or None])}"

    def chain_of_history(self) -> str | None:
        """Return the event key of the last message that was answered; `None` if none was."""
        count = sum(message.role == "user" for message in self.history)
        return self.chain(count) if count else None


@dataclass(frozen=True)
class AcceptedMessage:
    """The accepted message, and the key of its session."""

    session: str
    event: int


def _digest(*texts: str) -> str:
    return hashlib.blake2b(msgspec.json.encode(texts), digest_size=16).hexdigest()


def name_session(agent: str, client: str, id: str) -> str:
    """Return the key of the session for a conversation that a client identifies by `id`."""
    address = escape_address(id)
    return f"{agent}:web:{client}-{address if len(address) <= MAX_ID_CHARS else _digest(id)}"


async def accept_message(
    gateway: Gateway, conversation: Conversation, session: str | None, key: str | None, client: str
) -> AcceptedMessage:
    """Accept the conversation's new message and return after the commit. A repeat returns the first event.

    `session`: the key of its session; None if it is to be found. `key`: the idempotency key. `client`: begins the
    address of a new session. Raises a Problem: `conflict` if the key was used with another text.
    """
    if session is None:
        session, key = await _find_session(gateway, conversation, key, client)
    if key is None or not await gateway.is_known(f"api:{session}", key):
        await _accept_preceding(gateway, session, conversation)
    message = await gateway.say(session, conversation.new_texts[-1], key=key)
    check_accepted(message)
    return AcceptedMessage(session, message.event)


async def remove_recorded(gateway: Gateway, session: str, conversation: Conversation) -> Conversation:
    """Return the conversation without those new messages that the session has already."""
    count = _count_recorded(conversation.new_texts, await gateway.last_said(session))
    messages = conversation.history + conversation.messages[len(conversation.history) + count :]
    return Conversation(conversation.agent, messages, conversation.instructions)


def check_name(gateway: Gateway, agent: str, field: str) -> None:
    """Raise a Problem about `field` if there is no agent with this name."""
    if agent not in gateway.settings.agents:
        names = ", ".join(gateway.settings.agents)
        raise Problem("not-found", f"There is no agent {agent!r}. The agents here: {names}.", field=field)


async def check_agent(gateway: Gateway, session: str, agent: str, field: str) -> None:
    """Raise a Problem about `field` if it is no session's key, or if the session is, or would be, another agent's.

    A new session's key must not begin with the name of an agent that is not here, either.
    """
    try:
        check_session_key(session)
        owner = str((await gateway.session(session))["agent"])
    except BadKey as error:
        raise Problem("bad-request", str(error), field=field) from None
    except NoSuchSession:
        owner = gateway.inbox.target(session).agent
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
    chain, history_chain = conversation.chain(), conversation.chain_of_history()
    if key is None and (repeated := await gateway.find_message(chain)) is not None:
        if not repeated.is_deleted:
            return repeated.session, chain
        return f"{conversation.agent}:web:{client}-{_digest(chain, str(repeated.event))}", chain
    previous = await gateway.find_message(history_chain) if history_chain is not None else None
    if (
        previous is not None
        and not previous.is_deleted
        and (previous.is_last or (key is not None and await gateway.is_known(f"api:{previous.session}", key)))
    ):
        return previous.session, key or chain
    return f"{conversation.agent}:web:{client}-{_digest(conversation.agent, key or chain)}", key or chain


async def _accept_preceding(gateway: Gateway, session: str, conversation: Conversation) -> None:
    """Accept what belongs before the new message: instructions, an unknown history, messages that never arrived."""
    recorded_texts = await gateway.last_said(session)
    if conversation.instructions:
        await _report(gateway, session, INSTRUCTIONS, conversation.instructions)
    if conversation.history and not recorded_texts:
        await _report(gateway, session, "history", _write_history(conversation.history))
    earlier = conversation.new_texts[:-1]
    count = sum(message.role == "user" for message in conversation.history)
    for number in range(_count_recorded(earlier, recorded_texts), len(earlier)):
        key = conversation.chain(count + number + 1)
        await gateway.say(session, earlier[number], key=key, wakes=False)


async def _report(gateway: Gateway, session: str, kind: str, text: str) -> None:
    """Report an event that starts no turn. The same text is reported once per session."""
    await gateway.report(session, kind, text, key=f"{kind}:{_digest(text)}", wakes=False)


def _write_history(history: Sequence[ConversationMessage]) -> str:
    names = {"user": "User", "assistant": "Assistant"}
    return "\n\n".join([HISTORY_HEAD, *(f"{names[message.role]}: {message.text}" for message in history)])


def _count_recorded(texts: Sequence[str], recorded_texts: Sequence[str]) -> int:
    """Return how many of the first `texts` are the last `recorded_texts` of the session, which are newest first."""
    for count in range(len(texts), 0, -1):
        if list(reversed(texts[:count])) == list(recorded_texts[:count]):
            return count
    return 0
