"""Pairing codes: a stranger who sends such a code in a direct conversation becomes a known person.

A code has 40 random bits, and is valid for ten minutes and one use. The owner sees it only once: the ledger has only
its scrypt hash. Wrong codes get no answer. One sender may try five wrong codes per hour, all senders on a channel
together twenty. The chance to guess a given code is therefore at most one in 10^10.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from dataclasses import dataclass

from semel.gateway.clock import Clock
from semel.gateway.errors import Conflict
from semel.gateway.inbound.strangers import HourlyLimit
from semel.gateway.ports import Incoming
from semel.gateway.record import LedgerAccess
from semel.law import access as law
from semel.ledger import people as rows

CODE_LIFETIME_MS = 600_000
MAX_OPEN_CODES = 10  # open codes of one channel; they are few because each try is compared with all of them
SCRYPT_COST = 1 << 14  # of a code's hash: 16 MiB and some 50 ms of a core
MAX_SENDER_TRIES_PER_HOUR, MAX_CHANNEL_TRIES_PER_HOUR = 5, 20
"""The maximum number of wrong codes per hour: from one sender, and from all senders on a channel."""


@dataclass(frozen=True)
class IssuedCode:
    """A new code, which is shown to the owner. `expires`: in milliseconds since the Unix epoch."""

    code: str
    channel: str
    name: str
    role: str
    expires: int


@dataclass(frozen=True)
class RedeemResult:
    """The result of trying a code.

    `name`, `role`: those of the paired person. `people`: all known accounts afterwards.
    """

    outcome: str  # paired, wrong, limited (too many tries), listed (the account is in semel.toml), none (no open code)
    name: str = ""
    role: law.Role = "guest"
    people: tuple[rows.PersonAccount, ...] = ()


class Pairing:
    """The open codes of all channels. Unused codes survive a restart."""

    def __init__(self, record: LedgerAccess, clock: Clock, taken: frozenset[str] = frozenset()) -> None:
        """Begin without codes.

        `taken`: names in the configuration, which a paired person without a chosen name does not get.
        """
        self.record = record
        self.clock = clock
        self.taken = taken
        self._open: dict[int, rows.PairingCode] = {}
        self._tries: dict[tuple[str, bool], HourlyLimit] = {}  # by channel, and whether in its groups
        self._lock = asyncio.Lock()  # one try at a time, so that none escapes the count
        self._key = secrets.token_bytes(32)
        self._signatures: dict[
            int, bytes
        ] = {}  # keyed hashes of the codes that this process created, by id; they are quick to compare

    def __repr__(self) -> str:
        return f"<Pairing {len(self._open)} codes open>"

    async def start(self) -> None:
        """Load the open codes of earlier gateways."""
        self._open = {code.id: code for code in await self.record.read(rows.list_open_codes)}
        self._expire()

    def _expire(self) -> None:
        now = self.clock.now()
        self._open = {id: code for id, code in self._open.items() if code.expires > now}
        self._signatures = {id: signed for id, signed in self._signatures.items() if id in self._open}

    def _open_codes(self, channel: str) -> list[rows.PairingCode]:
        self._expire()
        return [code for code in self._open.values() if code.channel == channel]

    def has_open_code(self, channel: str) -> bool:
        """Return whether a code waits to be used on this channel."""
        return bool(self._open_codes(channel))

    async def show(self, channel: str, name: str, role: str) -> IssuedCode:
        """Create a code. Raises Conflict if MAX_OPEN_CODES codes are open on the channel.

        `name`: the name for the person who will use it; "" takes their name on the platform.
        """
        if len(self._open_codes(channel)) >= MAX_OPEN_CODES:
            raise Conflict(
                f"{MAX_OPEN_CODES} codes wait to be used on {channel!r}; each expires ten minutes after it was shown"
            )
        code = "".join(secrets.choice(law.ALPHABET) for _ in range(law.CODE_LENGTH))
        salt = secrets.token_bytes(16)
        digest = await asyncio.to_thread(_hash_code, code, salt)
        code_row = await self.record.write(rows.add_code, channel, salt, digest, name, role, CODE_LIFETIME_MS)
        self._open[code_row.id] = code_row
        self._signatures[code_row.id] = self._sign(code)
        return IssuedCode(law.show_code(code), channel, name, role, code_row.expires)

    def is_own_code(self, channel: str, code: str) -> bool:
        """Return whether this is an open code that was made since this gateway started. It counts as no try."""
        signed = self._sign(code)
        return any(self._signatures.get(code_row.id) == signed for code_row in self._open_codes(channel))

    async def find_repeat(self, channel: str, event: Incoming) -> RedeemResult | None:
        """Return the result of the code that this same message redeemed before; None if it redeemed none.

        So a repeat of the message gets the same answer.
        """
        assert event.sender is not None
        row = await self.record.read(rows.find_redeemed, channel, event.sender.id, event.key)
        return None if row is None else RedeemResult("paired", row.name, row.role)

    async def redeem(self, channel: str, event: Incoming, code: str) -> RedeemResult:
        """Try a code that the sender of `event` sent in a direct conversation. If it is right, pair the sender."""
        assert event.sender is not None
        async with self._lock:
            if not self._open_codes(channel):
                return RedeemResult("none")
            match = await self._match(channel, event, code)
            if isinstance(match, RedeemResult):
                return match
            try:
                shown_name = event.sender.name or event.sender.id
                people = await self.record.write(
                    rows.redeem_code, match.id, event.sender.id, event.key, shown_name, self.taken
                )
            except rows.AccountConfigured:
                return RedeemResult("listed")
            self._open.pop(match.id, None)
            if people is None:
                return RedeemResult("wrong")
            account = next(
                candidate for candidate in people if (candidate.channel, candidate.id) == (channel, event.sender.id)
            )
            return RedeemResult("paired", account.name, account.role, tuple(people))

    async def void_code(self, channel: str, event: Incoming, code: str) -> bool:
        """Void a code that was sent in a group, where others could read and use it. Return whether any was voided.

        If it cannot be determined which open code the text equals, all codes that it may equal are voided.
        """
        async with self._lock:
            codes = await self._find_codes(channel, event, code)
            for code_row in codes:
                self._open.pop(code_row.id, None)
            return any([await self.record.write(rows.void_code, code_row.id) for code_row in codes])

    async def _find_codes(self, channel: str, event: Incoming, code: str) -> list[rows.PairingCode]:
        """Return the open codes that equal this text, or that may equal it.

        Codes from before a restart can be compared only by scrypt, a limited number of times per hour. Once that limit
        is reached, any of these codes may equal the text, so all of them are returned.
        """
        open_codes, signed = self._open_codes(channel), self._sign(code)
        if matches := [code_row for code_row in open_codes if self._signatures.get(code_row.id) == signed]:
            return matches
        slow = [code_row for code_row in open_codes if code_row.id not in self._signatures]
        match = await self._match(channel, event, code) if slow else RedeemResult("none")
        if isinstance(match, rows.PairingCode):
            return [match]
        return slow if match.outcome == "limited" else []

    def _sign(self, code: str) -> bytes:
        return hashlib.blake2b(code.encode("ascii"), key=self._key, digest_size=32).digest()

    async def _match(self, channel: str, event: Incoming, code: str) -> rows.PairingCode | RedeemResult:
        """Return the open code that equals this text, or else a result that says why there is none.

        The comparison takes constant time. A wrong code counts as a try.
        """
        assert event.sender is not None
        tries = self._tries.setdefault(
            (channel, event.group), HourlyLimit(MAX_SENDER_TRIES_PER_HOUR, MAX_CHANNEL_TRIES_PER_HOUR)
        )
        now, sender_id = self.clock.now(), event.sender.id
        if tries.is_counted(sender_id, event.key):
            return RedeemResult("wrong")
        if tries.is_full(sender_id, now):
            return RedeemResult("limited")
        match = await asyncio.to_thread(_find_equal_code, code, self._open_codes(channel))
        if match is None:
            tries.count(sender_id, event.key, now)
            return RedeemResult("wrong")
        return match


def _hash_code(code: str, salt: bytes) -> bytes:
    return hashlib.scrypt(code.encode("ascii"), salt=salt, n=SCRYPT_COST, r=8, p=1, dklen=32)


def _find_equal_code(code: str, open_codes: list[rows.PairingCode]) -> rows.PairingCode | None:
    """Return the open code that equals this text, or None.

    All codes are compared, so that the time taken reveals nothing.
    """
    equal = [
        code_row for code_row in open_codes if hmac.compare_digest(_hash_code(code, code_row.salt), code_row.digest)
    ]
    return equal[0] if equal else None
