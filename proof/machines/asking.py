"""Who may speak, and by which code they became known.

`PeopleMachine` runs over a ledger: accounts that the configuration lists, that the owner adds, that show a code; one
role a name, a code used once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from proof.machines.counted import Counted
from proof.machines.house import refused
from proof.machines.ledger import Make
from proof.machines.stored import StoredLedger
from semel.law import access as law
from semel.ledger.people import AccountConfigured, PairingCode, PersonAccount

NAMES = ("anna", "bo", "chris")
CHANNELS = st.sampled_from(["chat", "mail"])
ACCOUNTS = st.sampled_from(["1", "2", "3"])
ROLES = st.sampled_from(law.ROLE_NAMES)
Key = tuple[str, str]


@dataclass
class Issued:
    """A code that the owner was shown."""

    code: PairingCode
    state: str = "open"


class PeopleMachine(Counted):
    """Accounts and codes, against a dictionary."""

    make: ClassVar[Make] = StoredLedger

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000
        self.ledger = type(self).make(lambda: self.now)
        self.known: dict[Key, PersonAccount] = {}
        self.codes: list[Issued] = []
        self.used: list[int] = []
        self.messages = 0

    def teardown(self) -> None:
        self.ledger.close()

    def _put(self, one: PersonAccount) -> None:
        self.known[one.channel, one.id] = one
        self._role(one.name, one.role)

    def _role(self, name: str, role: Any) -> None:
        for key, one in self.known.items():
            if one.name == name:
                self.known[key] = PersonAccount(one.channel, one.id, one.name, role, one.origin)

    @rule(listed=st.dictionaries(st.tuples(CHANNELS, ACCOUNTS), st.sampled_from(NAMES), max_size=4), role=ROLES)
    def the_configuration_is_read(self, listed: dict[Key, str], role: law.Role) -> None:
        roles = dict.fromkeys(listed.values(), role)
        accounts = [PersonAccount(*key, name, role, "config") for key, name in listed.items()]
        self.known = {key: one for key, one in self.known.items() if one.origin != "config" or key in listed}
        self.known |= {(one.channel, one.id): one for one in accounts}
        for name in roles:
            self._role(name, role)
        self._same(self.ledger.configure(accounts, roles))

    @rule(channel=CHANNELS, account=ACCOUNTS, name=st.sampled_from(NAMES), role=ROLES)
    def the_owner_adds_one(self, channel: str, account: str, name: str, role: law.Role) -> None:
        one = PersonAccount(channel, account, name, role, "added")
        if self._is_listed(channel, account):
            with refused(AccountConfigured):
                self.ledger.put_person(one)
            return
        self._put(one)
        self._same(self.ledger.put_person(one))

    @rule(channel=CHANNELS, account=ACCOUNTS)
    def the_owner_removes_one(self, channel: str, account: str) -> None:
        if self._is_listed(channel, account):
            with refused(AccountConfigured):
                self.ledger.remove_person(channel, account)
            return
        was = self.known.pop((channel, account), None)
        left = self.ledger.remove_person(channel, account)
        told = f"{channel}:{account} was {'not ' if was is None else ''}known, and removing it said {left}"
        assert (left is None) == (was is None), told

    @rule(channel=CHANNELS, name=st.sampled_from(["", "", *NAMES]), role=ROLES, lasts=st.sampled_from([1_000, 600_000]))
    def a_code_is_made(self, channel: str, name: str, role: law.Role, lasts: int) -> None:
        self.codes.append(Issued(self.ledger.open_pairing(channel, b"%d" % len(self.codes), name, role, lasts)))

    @precondition(lambda self: self.codes)
    @rule(data=st.data(), account=ACCOUNTS, called=st.sampled_from(["anna", "Dora Dor", "owner", "--", ""]))
    def somebody_shows_a_code(self, data: st.DataObject, account: str, called: str) -> None:
        issued = data.draw(st.sampled_from(self.codes))
        code, self.messages = issued.code, self.messages + 1
        valid = issued.state == "open" and code.expires > self.now
        if valid and self._is_listed(code.channel, account):
            with refused(AccountConfigured):
                self.ledger.redeem(code.id, account, f"m{self.messages}", called)
            return
        others = {one.name for key, one in self.known.items() if key != (code.channel, account)}
        people = self.ledger.redeem(code.id, account, f"m{self.messages}", called)
        assert (people is not None) == valid, "a code that was used, void or expired; or one that was not taken"
        if people is None:
            return
        issued.state = "used"
        self.used.append(code.id)
        [one] = [one for one in people if (one.channel, one.id) == (code.channel, account)]
        assert one.name == code.name or (not code.name and one.name not in others | set(law.ROLES)), "somebody else"
        self._put(PersonAccount(code.channel, account, one.name, code.role, "paired"))  # type: ignore[arg-type]
        self._same(people)

    @precondition(lambda self: self.codes)
    @rule(data=st.data())
    def the_owner_voids_a_code(self, data: st.DataObject) -> None:
        issued = data.draw(st.sampled_from(self.codes))
        done = self.ledger.void(issued.code.id)
        assert done == (issued.state == "open"), f"a code that is {issued.state} was {'' if done else 'not '}made void"
        issued.state = "void" if issued.state == "open" else issued.state

    @rule(ms=st.sampled_from([1, 999, 1_000, 600_000]))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule(signs=st.text(law.ALPHABET, min_size=8, max_size=8), low=st.booleans(), data=st.data())
    def a_code_is_read_as_people_write_it(self, signs: str, low: bool, data: st.DataObject) -> None:
        shown = law.show_code(signs)
        drawn = data.draw(st.sampled_from([shown, shown.replace("-", " "), f" {signs}\n", shown.replace("0", "O")]))
        written = drawn.lower() if low else drawn.replace("1", "l")
        for text, meant in ((written, (signs, False)), (f"/pair {written}", (signs, True))):
            assert law.read_pairing_message(text) == meant, (
                f"{text!r} is the code {signs}, and is read as {law.read_pairing_message(text)}"
            )
        assert law.parse_code(f"{written} please") is None, f"{written!r} with a word beside it is taken for a code"

    def _is_listed(self, channel: str, account: str) -> bool:
        known = self.known.get((channel, account))
        return known is not None and known.origin == "config"

    def _same(self, people: list[PersonAccount]) -> None:
        told = {(one.channel, one.id): one for one in people}
        assert told == self.known, f"known are {list(told.values())}, and {list(self.known.values())} should be"

    @invariant()
    def a_name_has_one_role_and_a_code_is_used_once(self) -> None:
        self._same(self.ledger.people())
        names = {(one.name, one.role) for one in self.known.values()}
        assert len(names) == len({name for name, _ in names}), f"one name has two roles: {sorted(names)}"
        assert len(self.used) == len(set(self.used)), f"a code was used twice: {self.used}"
