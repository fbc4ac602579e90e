"""Pairing codes: whoever sends a code to a channel's account in a direct conversation becomes a known person.

A code has 40 random bits, is valid for ten minutes and for one use, and is shown to the owner only once: the ledger
holds its scrypt hash. Wrong codes get no answer. One sender may try five wrong codes per hour, all senders on a channel
twenty together, which leaves a chance of at most one in 10^10 to guess a given code.
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
from semel.gateway.rate_limit import HourlyLimit
from semel.gateway.transactions import Record
from semel.law import access as law
from semel.ledger import people as rows

CODE_LIFETIME_MS = 600_000
MAX_OPEN_CODES = 10  # open codes of one channel, because each try is compared with all of them
MAX_SENDER_TRIES_PER_HOUR, MAX_CHANNEL_TRIES_PER_HOUR = (
    5,
    20,
)  # wrong codes per hour: of one sender, of all senders on a channel


@dataclass(frozen=True)
class Shown:
    """A new code, to be shown to the owner. `expires` is in milliseconds since the epoch."""

    code: str
    channel: str
    name: str
    role: str
    expires: int


@dataclass(frozen=True)
class RedeemResult:
    """The result of trying a code. `people`: all known accounts after a successful pairing."""

    outcome: str  # paired, wrong, limited, listed (account is in semel.toml), none (no code is open)
    name: str = ""
    role: law.Role = "guest"
    people: tuple[rows.Account, ...] = ()


class Pairing:
    """The open codes of all channels. Unused codes survive a restart."""

    def __init__(self, record: Record, clock: Clock, taken: frozenset[str] = frozenset()) -> None:
        """`taken`: names of the configuration, which a newly paired person is not given by default."""
        self.record = record
        self.clock = clock
        self.taken = taken
        self._open: dict[int, rows.Code] = {}
        self._tries: dict[tuple[str, bool], HourlyLimit] = {}  # by channel, and whether in its groups
        self._one = asyncio.Lock()  # tries are compared and counted one after the other
        self._key = secrets.token_bytes(32)
        self._quick: dict[int, bytes] = {}  # keyed hashes of the codes shown by this process, by id: cheap to compare

    def __repr__(self) -> str:
        return f"<Pairing {len(self._open)} codes open>"

    async def start(self) -> None:
        """Load the open codes of earlier gateways."""
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
        """Create a code. With `name` "" the person is named as on the platform. Raises Conflict if many are open."""
        if len(self._here(channel)) >= MAX_OPEN_CODES:
            raise Conflict(
                f"{MAX_OPEN_CODES} codes wait to be used on {channel!r}; each expires ten minutes after it was shown"
            )
        code = "".join(secrets.choice(law.ALPHABET) for _ in range(law.CODE_LENGTH))
        salt = secrets.token_bytes(16)
        digest = await asyncio.to_thread(_digest, code, salt)
        made = await self.record.write(rows.open_pairing, channel, salt, digest, name, role, CODE_LIFETIME_MS)
        self._open[made.id] = made
        self._quick[made.id] = self._signed(code)
        return Shown(law.show_code(code), channel, name, role, made.expires)

    async def repeated(self, channel: str, what: Incoming) -> RedeemResult | None:
        """The result of this message if it redeemed a code before, so that a repeat gets the same answer."""
        assert what.sender is not None
        row = await self.record.read(rows.redeemed_by, channel, what.sender.id, what.key)
        return None if row is None else RedeemResult("paired", row.name, row.role)

    async def redeem(self, channel: str, what: Incoming, code: str) -> RedeemResult:
        """Try a code that was sent in a direct conversation."""
        assert what.sender is not None
        async with self._one:
            if not self._here(channel):
                return RedeemResult("none")
            found = await self._match(channel, what, code)
            if isinstance(found, RedeemResult):
                return found
            try:
                called = what.sender.name or what.sender.id
                people = await self.record.write(rows.redeem, found.id, what.sender.id, what.key, called, self.taken)
            except rows.Listed:
                return RedeemResult("listed")
            self._open.pop(found.id, None)
            if people is None:
                return RedeemResult("wrong")
            mine = next(one for one in people if (one.channel, one.id) == (channel, what.sender.id))
            return RedeemResult("paired", mine.name, mine.role, tuple(people))

    async def burn(self, channel: str, what: Incoming, code: str) -> bool:
        """Void a code that was sent in a group, where others could read and use it. Returns whether one was voided.

        Once the hourly limit of comparisons is reached, every open code that it might be is voided.
        """
        async with self._one:
            void = await self._shown(channel, what, code)
            for one in void:
                self._open.pop(one.id, None)
            return any([await self.record.write(rows.void, one.id) for one in void])

    async def _shown(self, channel: str, what: Incoming, code: str) -> list[rows.Code]:
        """The open codes that this text is or may be.

        Codes from before a restart need scrypt to compare, so such comparisons are limited per hour.
        """
        here, signed = self._here(channel), self._signed(code)
        if found := [one for one in here if self._quick.get(one.id) == signed]:
            return found
        slow = [one for one in here if one.id not in self._quick]
        match = await self._match(channel, what, code) if slow else RedeemResult("none")
        if isinstance(match, rows.Code):
            return [match]
        return slow if match.outcome == "limited" else []

    def _signed(self, code: str) -> bytes:
        return hashlib.blake2b(code.encode("ascii"), key=self._key, digest_size=32).digest()

    async def _match(self, channel: str, what: Incoming, code: str) -> rows.Code | RedeemResult:
        """The open code that equals this text, compared in constant time; else why not. Wrong tries are counted."""
        assert what.sender is not None
        tries = self._tries.setdefault(
            (channel, what.group), HourlyLimit(MAX_SENDER_TRIES_PER_HOUR, MAX_CHANNEL_TRIES_PER_HOUR)
        )
        now, who = self.clock.now(), what.sender.id
        if tries.counted(who, what.key):
            return RedeemResult("wrong")
        if tries.full(who, now):
            return RedeemResult("limited")
        found = await asyncio.to_thread(_compare, code, self._here(channel))
        if found is None:
            tries.count(who, what.key, now)
            return RedeemResult("wrong")
        return found


def _digest(code: str, salt: bytes) -> bytes:
    return hashlib.scrypt(code.encode("ascii"), salt=salt, n=1 << 14, r=8, p=1, dklen=32)


def _compare(code: str, known: list[rows.Code]) -> rows.Code | None:
    found = None
    for one in known:
        if hmac.compare_digest(_digest(code, one.salt), one.digest):
            found = one
    return found
