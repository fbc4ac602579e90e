"""Make one attempt to send a part, line by line, and confirm that the server took each line (Law 7).

| the server has | a line is confirmed by |
|---|---|
| labeled-response, echo-message | the echo that carries our label |
| echo-message | the next echo of this text to this target |
| neither | the answer to a ping behind the line: a server deals with lines in order, so a refusal comes first |

The next line leaves once the last one is confirmed. If a line is refused, the later ones are not sent.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from semel.channels.irc.parse import NICK_MARK, message_id
from semel.channels.irc.render import render
from semel.channels.irc.session import IrcSession, Received
from semel.channels.irc.wire import MAX_LINE_BYTES, IrcMessage, fold
from semel.channels.recent_map import RecentMap
from semel.gateway.ports import REPEAT_PREFIX, NotSent, Offline, Op, Receipt, Rejected, Unknown

MAX_TEXT_BYTES = 400
"""Most bytes of a line's text: with everything that the server puts before it, the line stays below MAX_LINE_BYTES."""
MIN_TEXT_BYTES = 50
LONGEST_HOSTMASK = 1 + 11 + 1 + 64
"""Most bytes of `!user@host`, as long as the server has not shown us our own."""
NOT_NOW = frozenset({"263", "401", "403", "437", "439", "442"})
"""Replies by which a server says that it did not take a line, and may take it later: nobody has the nick, we are not in
the channel, or it is busy."""
_CHANNEL_MARKS = frozenset("#&+!@")
"""What an address begins with that names a channel, or some people in one, and no person's account."""
NOT_NOW_DELAY_S = 5.0
REJOIN_DELAY_S = 1.0
NICK_CHECK_INTERVAL_S = 5.0
"""Seconds between two checks that a nick still has the person's account: while lines leave, it may change hands."""
ABSENT_DELAY_S = 60.0
"""Seconds before the next attempt if a person is not there, or a channel does not let us in."""


@dataclass
class _Line:
    """One line on its way. `refused_by`: the reply that refuses it. `echo`: the message as the server shows it.

    `is_unseen`: the server acknowledged it, and neither showed nor refused it: perhaps a filter or the person dropped
    it.
    `channel`: the one that it is for; "" if it is for a person.
    """

    target: str
    text: str
    label: str
    decided: asyncio.Future[None]
    channel: str = ""
    is_unseen: bool = False
    echo: IrcMessage | None = None
    refused_by: IrcMessage | None = None


@dataclass
class IrcSender:
    """Sends over one connection. `sent_ids`: the ids of our messages, with their channel. `nicks`: account -> nick."""

    session: IrcSession
    sent_ids: RecentMap[str, str]
    nicks: RecentMap[str, str]
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)
    _checked: RecentMap[str, tuple[str, float]] = field(default_factory=lambda: RecentMap(1_000))
    """Account -> (its nick, when that was checked)."""

    async def send(self, op: Op) -> Receipt:
        """Make one attempt to send. Raises NotSent, Rejected or Unknown."""
        if op.kind != "post":
            raise Rejected(f"IRC has no messages of the kind {op.kind!r}")
        async with self._locks.setdefault(op.address, asyncio.Lock()):
            try:
                target = await self._find_target(op)
            except Offline as lost:
                raise NotSent(str(lost)) from None
            lines = render((REPEAT_PREFIX if op.marked else "") + op.text, self._most_bytes(target))
            if not lines:
                raise Rejected("there is nothing to see in this message: IRC takes no empty line")
            return await self._send_lines(op, target, lines)

    @staticmethod
    def _clock() -> float:
        return asyncio.get_running_loop().time()

    def _most_bytes(self, target: str) -> int:
        prefix = len(self.session.prefix.encode()) or len(self.session.nick) + LONGEST_HOSTMASK
        return min(
            MAX_TEXT_BYTES, max(MIN_TEXT_BYTES, MAX_LINE_BYTES - prefix - len(f": PRIVMSG {target} :\r\n".encode()))
        )

    # ------------------------------------------------------------ where to

    async def _find_target(self, op: Op) -> str:
        """Return the channel, once we are in it, or the nick of the person. Raises NotSent, Rejected or Offline."""
        channel = self.session.find_channel(op.address)
        if channel is not None:
            if refusal := await self.session.join(channel):
                raise NotSent(refusal, ABSENT_DELAY_S)
            return self.session.read_status_prefix(op.address) + channel
        if op.address.startswith(NICK_MARK):
            if not self.session.settings.trust_nicks:
                raise Rejected(f"{op.address} is a nick without an account, and trust_nicks is not set")
            return _check_nick(op.address.removeprefix(NICK_MARK))
        if self.session.lacks_status_messages(op.address):
            raise NotSent(f"{op.address}: this server has no messages to operators only", ABSENT_DELAY_S)
        if op.address[:1] in _CHANNEL_MARKS:
            raise Rejected(f"{op.address} is not among the channels of the settings")
        return await self._find_nick(op)

    async def _find_nick(self, op: Op) -> str:
        """Return the nick that the server says is logged in to an account: a nick alone proves nothing."""
        checked = self._checked.get(op.address)
        if op.n and checked is not None and self._clock() < checked[1] + NICK_CHECK_INTERVAL_S:
            return checked[0]  # the message is under way
        answered = str(op.answers.data.get("nick", "")) if op.answers is not None else ""
        nicks = [nick for nick in (self.nicks.get(fold(op.address), ""), answered, op.address) if nick]
        for nick in dict.fromkeys(_check_nick(nick) for nick in nicks):
            state = await self.session.find_account(nick)
            if state.exists and fold(state.account) == fold(op.address):
                self._checked[op.address] = (nick, self._clock())
                return nick
        raise NotSent(f"nobody who is logged in as {op.address} is there under a known nick", ABSENT_DELAY_S)

    # ------------------------------------------------------------ the attempt

    async def _send_lines(self, op: Op, target: str, lines: list[str]) -> Receipt:
        id = ""
        checked_at = self._checked.get(op.address, (target, self._clock()))[1]
        for n, text in enumerate(lines):
            try:
                if self._clock() > checked_at + NICK_CHECK_INTERVAL_S:
                    await self._check_target(op, target)
                    checked_at = self._clock()
                id = await self._send_line(op, target, text, n) or id
            except NotSent as no:
                if n == 0:
                    raise
                raise Unknown(f"{n} of {len(lines)} lines were taken: {no}") from None
            except Rejected as no:
                raise Rejected(f"{n} of {len(lines)} lines were taken: {no}" if n else str(no)) from None
        return Receipt(id or op.key)

    async def _check_target(self, op: Op, target: str) -> None:
        """Check that the rest of a text still goes to `target`. Raises NotSent or Rejected."""
        try:
            current_target = await self._find_target(op)
        except Offline as lost:
            raise NotSent(str(lost)) from None
        if current_target != target:
            raise NotSent(f"{op.address} now has the nick {current_target}", NOT_NOW_DELAY_S)

    async def _send_line(self, op: Op, target: str, text: str, n: int) -> str:
        """Send one line and return its id; "" if the server gives none. Raises NotSent, Rejected or Unknown."""
        session = self.session
        has_echo = session.has_capability("echo-message")
        label = f"{op.key}.{n}"[:64] if has_echo and session.has_capability("labeled-response") else ""
        line = _Line(
            target, text, label, asyncio.get_running_loop().create_future(), session.find_channel(target) or ""
        )
        tags = {"label": label} if label else {}
        if n == 0 and op.n == 0 and op.answers is not None and session.has_capability("message-tags") and line.channel:
            tags["+draft/reply"] = op.answers.id
        async with session.watch_messages(lambda received: self._note_answer(line, received)):
            try:
                await session.write("PRIVMSG", target, text, tags=tags)
            except Offline as lost:
                raise NotSent(str(lost)) from None
            try:
                if has_echo:
                    await session.wait_for_answer(line.decided, "PRIVMSG")
                else:
                    await session.ping()
            except Offline as lost:
                raise Unknown(str(lost)) from None
        if line.refused_by is not None:
            raise self._refusal(line)
        if line.is_unseen:
            raise Unknown(f"{target}: the server did not show the line to us; perhaps it or the person dropped it")
        id = message_id(line.echo) if line.echo is not None else ""
        if id:
            self.sent_ids[id] = target
        return id

    def _refusal(self, line: _Line) -> NotSent | Rejected:
        """Return the error for a line that was refused, which the server did not take."""
        message = line.refused_by
        assert message is not None
        why = f"{line.target}: {message.last or message.command} ({message.command})"
        if line.channel and not self.session.is_in(line.channel):
            return NotSent(why, REJOIN_DELAY_S)  # we were removed from it meanwhile
        if message.command in NOT_NOW:
            return NotSent(why, NOT_NOW_DELAY_S if message.command in ("263", "439") else ABSENT_DELAY_S)
        return Rejected(why)

    def _note_answer(self, line: _Line, received: Received) -> None:
        """Note what the server says of a line."""
        message = received.message
        if line.decided.done() or received.played_back:
            return
        if message.command == "PRIVMSG" and self.session.fold(message.nick) == self.session.fold(self.session.nick):
            is_this = received.label == line.label if line.label else self._is_to(message, 0, line)
            if is_this and (line.label or message.last == line.text):
                line.echo = message
                line.decided.set_result(None)
        elif message.command == "ACK" and line.label and received.label == line.label:
            line.is_unseen = True
            line.decided.set_result(None)
        elif _is_error(message) and (received.label == line.label if line.label else self._is_about(message, line)):
            line.refused_by = message
            line.decided.set_result(None)

    def _is_about(self, message: IrcMessage, line: _Line) -> bool:
        return message.command in ("263", "FAIL", "412", "417") or self._is_to(message, 1, line)

    def _is_to(self, message: IrcMessage, n: int, line: _Line) -> bool:
        named = self.session.fold(message.param(n))
        return named in (self.session.fold(line.target), self.session.fold(line.channel or line.target))


def _is_error(message: IrcMessage) -> bool:
    """Whether a message is an error reply, 716 ("does not take messages of strangers") and 263 ("try again") too."""
    return message.command in ("263", "716", "FAIL") or (message.command.isdigit() and "400" <= message.command < "600")


def _check_nick(nick: str) -> str:
    """Return the nick. Raises Rejected if no line can name it."""
    if not nick or nick.startswith(":") or not nick.isprintable() or any(char in " ,!@*" for char in nick):
        raise Rejected(f"{nick!r} is no nick")
    return nick
