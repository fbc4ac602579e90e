"""Codes: the owner is shown one, once; whoever sends it to a channel's account, alone with it, is known from then on.

A code is 40 random bits, lives ten minutes, is used once, and stands nowhere but on the owner's screen: the ledger
holds scrypt of it. A wrong one is answered by silence. Who guesses may five times an hour, and all who guess on one
channel twenty times: a chance of one in 10^10 or less for each code.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from dataclasses import dataclass

from semel.gateway.clock import Clock
from semel.gateway.errors import Conflict
from semel.gateway.ports import Incoming
from semel.gateway.rate_limit import Hourly
from semel.gateway.transactions import Record
from semel.law import access as law
from semel.ledger import people as rows

LASTS_MS = 600_000
MOST_OPEN = 10  # codes of one channel: each try is compared with all of them
TRIES, TRIES_OF_ALL = 5, 20  # wrong ones in an hour: of one sender, on one channel


@dataclass(frozen=True)
class Shown:
    """A new code, for the owner's eyes. `expires` is in milliseconds since the epoch."""

    code: str
    channel: str
    name: str
    role: str
    expires: int


@dataclass(frozen=True)
class Tried:
    """What became of a code that somebody sent. `people`: everybody who is known since."""

    outcome: str  # paired, wrong, limited, listed, none (there is no code to try)
    name: str = ""
    role: law.Role = "guest"
    people: tuple[rows.Account, ...] = ()


class Pairing:
    """The codes of a gateway. Those that were not used survive its end."""

    def __init__(self, record: Record, clock: Clock, taken: frozenset[str] = frozenset()) -> None:
        """`taken`: names that nobody may be given who does not say that they are theirs: the configuration's."""
        self.record = record
        self.clock = clock
        self.taken = taken
        self._open: dict[int, rows.Code] = {}
        self._tries: dict[tuple[str, bool], Hourly] = {}  # by channel, and whether in its groups
        self._one = asyncio.Lock()  # a try is compared and counted before the next one
        self._key = secrets.token_bytes(32)
        self._quick: dict[int, bytes] = {}  # codes that this gateway has shown, by id: compared as often as it takes

    def __repr__(self) -> str:
        return f"<Pairing {len(self._open)} codes open>"

    async def start(self) -> None:
        """The codes that a gateway before this one has shown."""
        self._open = {code.id: code for code in await self.record.read(rows.open_codes)}
        self._expire()

    def _expire(self) -> None:
        now = self.clock.now()
        self._open = {id: code for id, code in self._open.items() if code.expires > now}
        self._quick = {id: signed for id, signed in self._quick.items() if id in self._open}

    def _here(self, channel: str) -> list[rows.Code]:
        self._expire()
        return [code for code in self._open.values() if code.channel == channel]

    async def show(self, channel: str, name: str, role: str) -> Shown:
        """A new code. `name` "": whoever uses it is called as they call themselves. Raises Conflict."""
        if len(self._here(channel)) >= MOST_OPEN:
            raise Conflict(
                f"{MOST_OPEN} codes wait to be used on {channel!r}; each expires ten minutes after it was shown"
            )
        code = "".join(secrets.choice(law.ALPHABET) for _ in range(law.CODE_LENGTH))
        salt = secrets.token_bytes(16)
        digest = await asyncio.to_thread(_digest, code, salt)
        made = await self.record.write(rows.open_pairing, channel, salt, digest, name, role, LASTS_MS)
        self._open[made.id] = made
        self._quick[made.id] = self._signed(code)
        return Shown(law.show_code(code), channel, name, role, made.expires)

    async def repeated(self, channel: str, what: Incoming) -> Tried | None:
        """What this very message was answered with, if it redeemed a code."""
        assert what.sender is not None
        row = await self.record.read(rows.redeemed_by, channel, what.sender.id, what.key)
        return None if row is None else Tried("paired", row.name, row.role)

    async def redeem(self, channel: str, what: Incoming, code: str) -> Tried:
        """Somebody sent a code, with nobody else there to read it."""
        assert what.sender is not None
        async with self._one:
            if not self._here(channel):
                return Tried("none")
            found = await self._match(channel, what, code)
            if isinstance(found, Tried):
                return found
            try:
                called = what.sender.name or what.sender.id
                people = await self.record.write(rows.redeem, found.id, what.sender.id, what.key, called, self.taken)
            except rows.Listed:
                return Tried("listed")
            self._open.pop(found.id, None)
            if people is None:
                return Tried("wrong")
            mine = next(one for one in people if (one.channel, one.id) == (channel, what.sender.id))
            return Tried("paired", mine.name, mine.role, tuple(people))

    async def burn(self, channel: str, what: Incoming, code: str) -> bool:
        """A code that was sent where others read it, too, is void: any of them could be the next to send it.

        Where too much was taken for one already, each that might be it is void.
        """
        async with self._one:
            void = await self._shown(channel, what, code)
            for one in void:
                self._open.pop(one.id, None)
            return any([await self.record.write(rows.void, one.id) for one in void])

    async def _shown(self, channel: str, what: Incoming, code: str) -> list[rows.Code]:
        """The open codes that this is, or may be. Those of before a restart are compared so many times an hour."""
        here, signed = self._here(channel), self._signed(code)
        if found := [one for one in here if self._quick.get(one.id) == signed]:
            return found
        slow = [one for one in here if one.id not in self._quick]
        match = await self._match(channel, what, code) if slow else Tried("none")
        if isinstance(match, rows.Code):
            return [match]
        return slow if match.outcome == "limited" else []

    def _signed(self, code: str) -> bytes:
        return hashlib.blake2b(code.encode("ascii"), key=self._key, digest_size=32).digest()

    async def _match(self, channel: str, what: Incoming, code: str) -> rows.Code | Tried:
        """The open code that this is, compared with each in the same time."""
        assert what.sender is not None
        tries = self._tries.setdefault((channel, what.group), Hourly(TRIES, TRIES_OF_ALL))
        now, who = self.clock.now(), what.sender.id
        if tries.counted(who, what.key):
            return Tried("wrong")
        if tries.full(who, now):
            return Tried("limited")
        found = await asyncio.to_thread(_compare, code, self._here(channel))
        if found is None:
            tries.count(who, what.key, now)
            return Tried("wrong")
        return found


def _digest(code: str, salt: bytes) -> bytes:
    return hashlib.scrypt(code.encode("ascii"), salt=salt, n=1 << 14, r=8, p=1, dklen=32)


def _compare(code: str, known: list[rows.Code]) -> rows.Code | None:
    found = None
    for one in known:
        if hmac.compare_digest(_digest(code, one.salt), one.digest):
            found = one
    return found
