"""The login: capabilities, SASL and the nick, as steps without I/O (IRCv3 capability negotiation and SASL).

CAP LS, NICK and USER are sent first; the server waits with its welcome until CAP END. Capabilities that it has are
requested, then SASL is done if the settings name a way to log in.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

from semel.channels.irc.settings import IrcSettings
from semel.channels.irc.wire import IrcMessage
from semel.gateway.ports import Denied, Offline

WANTED = frozenset({
    "account-tag", "batch", "draft/chathistory", "echo-message", "labeled-response", "message-tags", "sasl",
    "server-time",
})  # fmt: skip
"""The capabilities that are used where the server has them."""
MAX_NICKS = 4
"""How many nicks are tried: the one of the settings, and with one to three underscores behind it."""
AUTHENTICATE_BYTES = 400
"""Longest piece of a SASL answer; one of exactly this length is followed by another, which may be empty ("+")."""
SASL_FAILURES = frozenset({"902", "904", "905", "906", "908"})

Line = tuple[str, ...]


def list_nicks(nick: str) -> list[str]:
    """Return the nicks that we may have, best first."""
    return [nick + "_" * n for n in range(MAX_NICKS)]


@dataclass
class IrcLogin:
    """The state of one login. `step` takes a message and returns the lines to write; `done` says that it is over."""

    settings: IrcSettings
    nick: str = ""
    own_account: str = ""
    capabilities: set[str] = field(default_factory=set)
    supported: dict[str, str] = field(default_factory=dict)  # RPL_ISUPPORT
    done: bool = False
    _offered: set[str] = field(default_factory=set)
    _tries: int = 0

    def begin(self) -> list[Line]:
        """Return the first lines."""
        self.nick = self.settings.nick
        ask = [("PASS", self.settings.server_password)] if self.settings.server_password is not None else []
        return [*ask, ("CAP", "LS", "302"), ("NICK", self.nick), ("USER", "semel", "0", "*", "Semel")]

    def step(self, message: IrcMessage) -> list[Line]:
        """Take a message. Raises Offline or Denied if the server does not let us in."""
        match message.command:
            case "CAP":
                return self._step_capabilities(message)
            case "AUTHENTICATE":
                return self._answer_sasl() if message.param(0) == "+" else []
            case "900":
                self.own_account = message.param(2)
            case "903":
                return [("CAP", "END")]
            case code if code in SASL_FAILURES:
                raise Denied(
                    f"{self.settings.server} does not accept the account {self._login_name}: "
                    f"{message.last or code}; check login and {self._secret}",
                    [self._secret],
                )
            case "433" | "436" | "437" if not self.done:
                return self._try_next_nick(message)
            case "432":
                raise Denied(f"{self.settings.server} takes no nick {self.nick!r}: choose another", ["nick"])
            case "464":
                raise Denied(f"{self.settings.server} wants another server_password", ["server_password"])
            case "465":
                raise Denied(f"{self.settings.server} has banned this connection: {message.last}")
            case "001":
                self.nick = message.param(0) or self.nick
            case "005":
                words = (word.partition("=") for word in message.params[1:-1])
                self.supported |= {key: value for key, _, value in words}
            case "376" | "422":
                self._check_account()
                self.done = True
        return []

    @property
    def _login_name(self) -> str:
        return self.settings.login or self.settings.nick

    @property
    def _secret(self) -> str:
        return "password" if self.settings.sasl == "PLAIN" else "certificate"

    def _step_capabilities(self, message: IrcMessage) -> list[Line]:
        kind, words = message.param(1).upper(), message.last.split()
        if kind == "LS":
            self._offered |= {word.partition("=")[0] for word in words}
            if message.param(2) == "*":  # more of them follow
                return []
            self._check_sasl_is_offered()
            wanted = sorted((self._offered & WANTED) - (set() if self.settings.sasl else {"sasl"}))
            return [("CAP", "REQ", " ".join(wanted))] if wanted else [("CAP", "END")]
        if kind == "ACK":
            self.capabilities |= {word for word in words if not word.startswith("-")}
            if "sasl" in words and self.settings.sasl:
                return [("AUTHENTICATE", self.settings.sasl)]
            return [("CAP", "END")]
        if kind == "NAK":
            raise Offline(f"{self.settings.server} refuses capabilities that it offers: {' '.join(words)}")
        if kind == "DEL":
            self.capabilities -= set(words)
        return []

    def _check_sasl_is_offered(self) -> None:
        if self.settings.sasl and "sasl" not in self._offered:
            raise Offline(f"{self.settings.server} offers no way to log in to an account (SASL) now", 60.0)

    def _check_account(self) -> None:
        if self.settings.sasl and not self.own_account:
            raise Offline(f"{self.settings.server} did not log in the account {self._login_name}", 60.0)
        if "account-tag" not in self.capabilities and not self.settings.trust_nicks:
            raise Denied(
                f"{self.settings.server} does not tell who has an account (account-tag), so that nobody could be known "
                "for certain: on a server of your own, set trust_nicks = true (`semel docs irc` says what that means)",
                ["trust_nicks"],
            )

    def _answer_sasl(self) -> list[Line]:
        if self.settings.sasl == "EXTERNAL":
            return [("AUTHENTICATE", "+")]
        name = self._login_name
        answer = base64.b64encode(f"{name}\0{name}\0{self.settings.password}".encode()).decode()
        pieces = [answer[n : n + AUTHENTICATE_BYTES] for n in range(0, len(answer), AUTHENTICATE_BYTES)]
        return [
            ("AUTHENTICATE", piece) for piece in [*pieces, *(["+"] if len(pieces[-1]) == AUTHENTICATE_BYTES else [])]
        ]

    def _try_next_nick(self, message: IrcMessage) -> list[Line]:
        self._tries += 1
        if self._tries >= MAX_NICKS:
            raise Offline(f"{self.settings.server}: somebody has the nick {self.settings.nick}", 30.0)
        self.nick = list_nicks(self.settings.nick)[self._tries]
        return [("NICK", self.nick)]
