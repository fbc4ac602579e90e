"""A code lets one person in, once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from people_world import ADA, BOB, EVE, Chat, said

from semel.gateway.errors import BadRequest, Conflict
from semel.gateway.inbound import pairing
from semel.gateway.inbound.admission import AccountDirectory
from semel.gateway.ports import Person
from semel.gateway.record import Hub, LedgerAccess
from semel.gateway.settings import AgentSettings, ChannelSettings, GatewaySettings, PersonSettings
from semel.law.access import ALPHABET, CODE_LENGTH, parse_code, read_pairing_message, show_code
from semel.ledger.sqlite.store import Store
from semel.testing.clock import FrozenClock

PAIRED = "You are paired as Eve (member)"


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of guesses are compared here, and what a hash costs changes nothing but the time."""
    monkeypatch.setattr(pairing, "SCRYPT_COST", 2)


class Door:
    """People alone, over a ledger whose clock stands still."""

    def __init__(self, path: Path, **own: object) -> None:
        self.clock = FrozenClock()
        self.store = Store.open(path / "ledger.db", clock=self.clock.now)
        channels = {
            "chat": ChannelSettings(kind="fake", **own),  # type: ignore[arg-type]
            "other": ChannelSettings(kind="fake"),
        }
        people = {
            "ada": PersonSettings(role="owner", accounts=("chat:@ada",)),
            "carol": PersonSettings(role="owner"),
        }
        agents = {"demo": AgentSettings(kind="demo")}
        settings = GatewaySettings(data_dir=path, agents=agents, channels=channels, people=people)
        self.people = AccountDirectory(LedgerAccess(self.store, Hub()), settings, self.clock)

    async def __aenter__(self) -> Door:
        await self.people.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.store.close)

    async def code(self, channel: str = "chat", name: str | None = None, role: str | None = None) -> str:
        return str((await self.people.pair(channel, name, role))["code"])

    async def sends(self, text: str, who: Person = EVE, **more: object) -> str:
        """What becomes of it: a reason to refuse, the answer to a code, or "" for a message."""
        verdict = await self.people.judge("chat", said(text, who, **more))  # type: ignore[arg-type]
        return verdict.refused or (verdict.command[1] if verdict.command else "")

    def reasons(self) -> dict[str, int]:
        return {one["reason"]: one["times"] for one in self.people.refused()["refused"]}

    def states(self) -> object:
        return self.people.pairings()


def wrong(code: str) -> str:
    """A code of the right form that is another one."""
    bare = code.replace("-", "")
    return bare[:-1] + ALPHABET[(ALPHABET.index(bare[-1]) + 1) % len(ALPHABET)]


def test_a_code_is_forty_bits_without_letters_that_look_alike() -> None:
    assert len(ALPHABET) == len(set(ALPHABET)) == 32 and CODE_LENGTH * 5 >= 40
    assert not set("ILOU") & set(ALPHABET)
    code = "0123ABCD"
    for written in ("0123ABCD", "0123-abcd", " 0l23 abcd ", "OI23-ABCD", "0 1 2 3 a b c d"):
        assert parse_code(written) == code
    for other in ("0123ABC", "0123ABCDE", "0123ABCU", "hello there", "", "0123ABCD" + " " * 99):
        assert parse_code(other) is None
    assert show_code(code) == "0123-ABCD"
    assert read_pairing_message("/pair 0123-ABCD") == (code, True)
    assert read_pairing_message("/Pair\n0123 ABCD\n") == (code, True)
    assert read_pairing_message("/pair") == (None, True)
    assert read_pairing_message("") == (None, False)
    assert read_pairing_message("/pairs 0123-ABCD") == (None, False)


@pytest.mark.parametrize("how", ["{}", "/pair {}", "  {}\n"])
async def test_whoever_sends_the_code_is_known_from_then_on(tmp_path: Path, how: str) -> None:
    async with Door(tmp_path) as d:
        assert await d.sends("hello") == "stranger"
        code = await d.code()
        assert (await d.sends(how.format(code))).startswith(PAIRED)
        assert await d.sends("hello") == ""
        [one] = [p for p in d.people.list_people() if p["name"] == "Eve"]
        assert one == {"name": "Eve", "role": "member", "accounts": [{"account": "chat:@eve", "origin": "paired"}]}
        assert d.people.refused()["strangers"] == []
        assert (await d.people.pairings())[0]["state"] == "used"


async def test_a_code_works_once_and_on_its_channel_alone(tmp_path: Path) -> None:
    async with Door(tmp_path) as d:
        other = await d.code("other")
        assert await d.sends(other) == "code"
        code = await d.code()
        await d.sends(code)
        assert await d.sends(code, Person("@mallory", "Mallory")) == "code"
        assert not await d.people.may_speak("chat", Person("@mallory"))
        assert [one["state"] for one in await d.people.pairings()] == ["used", "open"]


async def test_two_who_send_the_same_code_at_once_are_not_both_let_in(tmp_path: Path) -> None:
    async with Door(tmp_path) as d:
        code = await d.code()
        crowd = [Person(f"@p{n}", f"P{n}") for n in range(5)]
        outcomes = await asyncio.gather(*(d.sends(code, one) for one in crowd))
        assert sum(text.startswith("You are paired") for text in outcomes) == 1
        assert sum(text == "code" for text in outcomes) == 4


async def test_a_message_that_redeemed_a_code_is_answered_the_same_when_it_comes_again(tmp_path: Path) -> None:
    async with Door(tmp_path) as d:
        code = await d.code()
        answers = [await d.sends(code, key="m7") for _ in range(3)]
        assert answers[0].startswith(PAIRED) and len(set(answers)) == 1
        assert await d.sends(code, key="m8") == ""  # said again, it is a message: the code is worth nothing
        await d.people.remove("chat:@eve")
        assert await d.sends(code, key="m7") == "code"


async def test_an_expired_code_lets_nobody_in_and_only_the_owner_learns_of_it(tmp_path: Path) -> None:
    async with Door(tmp_path) as d:
        code = await d.code()
        await d.clock.advance(pairing.CODE_LIFETIME_MS / 1000 - 1)
        assert (await d.people.pairings())[0]["state"] == "open"
        await d.clock.advance(1)
        assert await d.sends(code) == "code"
        assert (await d.people.pairings())[0]["state"] == "expired"
        assert d.reasons() == {"code": 1}


async def test_a_code_that_expires_between_the_look_and_the_ledger_is_expired(tmp_path: Path) -> None:
    async with Door(tmp_path) as d:
        code = await d.code()
        d.people.pairing._expire = lambda: None  # type: ignore[method-assign]
        await d.clock.advance(pairing.CODE_LIFETIME_MS / 1000)
        assert await d.sends(code) == "code"


async def test_who_guesses_is_not_listened_to_for_an_hour(tmp_path: Path) -> None:
    async with Door(tmp_path) as d:
        code = await d.code()
        for n in range(pairing.MAX_SENDER_TRIES_PER_HOUR):
            assert await d.sends(wrong(code), key=f"g{n}") == "code"
        assert await d.sends(wrong(code), key="g0") == "code"  # a repeat is no further try
        assert await d.sends(code) == "codes"
        assert (await d.sends(code, Person("@frank", "Frank"))).startswith("You are paired as Frank")
        await d.clock.advance(3600)
        again = await d.code()
        assert (await d.sends(again)).startswith(PAIRED)


async def test_a_crowd_that_guesses_is_not_listened_to_either(tmp_path: Path) -> None:
    async with Door(tmp_path) as d:
        code = await d.code()
        for n in range(pairing.MAX_CHANNEL_TRIES_PER_HOUR):
            assert await d.sends(wrong(code), Person(f"@p{n}")) == "code"
        assert await d.sends(code) == "codes"
        assert d.reasons() == {"code": pairing.MAX_CHANNEL_TRIES_PER_HOUR, "codes": 1}
        other = await d.code("other")
        verdict = await d.people.judge("other", said(other, EVE))
        assert verdict.command is not None  # one channel's guessers do not shut another
        await d.people.add("chat:@eve", "eve")  # nor the owner out
        assert await d.sends("hello") == ""


async def test_a_talkative_group_does_not_shut_the_door(tmp_path: Path) -> None:
    async with Door(tmp_path) as d:
        code = await d.code()
        for n in range(pairing.MAX_CHANNEL_TRIES_PER_HOUR + 5):
            assert await d.sends("tomorrow", Person(f"@p{n}"), room="group", group=True) == "stranger"
        assert (await d.sends(code)).startswith(PAIRED)


async def test_without_an_open_code_there_is_nothing_to_guess(tmp_path: Path) -> None:
    async with Door(tmp_path) as d:
        for _ in range(100):
            assert await d.sends("whatever") == "code"
        code = await d.code()
        assert (await d.sends(code)).startswith(PAIRED)


async def test_a_code_that_others_could_read_is_void(tmp_path: Path) -> None:
    async with Door(tmp_path) as d:
        code = await d.code()
        assert await d.sends(code, room="group", group=True, mentioned=True) == "stranger"
        assert (await d.people.pairings())[0]["state"] == "void"
        assert await d.sends(code) == "code"
        assert d.reasons() == {"shown": 1, "stranger": 1, "code": 1}


async def test_a_talkative_group_hides_no_code_that_others_could_read(tmp_path: Path) -> None:
    """However many words were taken for codes before: whoever read it there could use it."""
    async with Door(tmp_path) as d:
        code = await d.code()
        for n in range(pairing.MAX_CHANNEL_TRIES_PER_HOUR + 5):
            await d.sends("tomorrow", Person(f"@p{n}"), room="group", group=True)
        assert await d.sends(code, room="group", group=True) == "stranger"
        assert (await d.people.pairings())[0]["state"] == "void"
        assert await d.sends(code, Person("@thief")) == "code"


@pytest.mark.parametrize("crowd", [25, 1], ids=["a group of many", "one who talks much"])
async def test_nor_does_it_after_a_restart_when_only_digests_are_known(tmp_path: Path, crowd: int) -> None:
    """What cannot be compared any more may be the code: then no code of before the restart is worth anything."""
    async with Door(tmp_path) as d:
        code = await d.code()
        d.people.pairing._signatures.clear()  # what a restart leaves
        newer = await d.code()
        for n in range(25):
            await d.sends("tomorrow", Person(f"@p{n % crowd}"), room="group", group=True)
        assert await d.sends(code, Person(f"@p{24 % crowd}"), room="group", group=True) == "stranger"
        assert [one["state"] for one in await d.people.pairings()] == ["open", "void"]
        assert await d.sends(code, Person("@thief")) == "code"
        assert (await d.sends(newer)).startswith(PAIRED), "what can be compared is compared"


async def test_a_few_words_in_a_group_after_a_restart_make_no_code_void(tmp_path: Path) -> None:
    async with Door(tmp_path) as d:
        code = await d.code()
        d.people.pairing._signatures.clear()
        for n in range(pairing.MAX_CHANNEL_TRIES_PER_HOUR):
            await d.sends("tomorrow", Person(f"@p{n}"), room="group", group=True)
        assert (await d.sends(code)).startswith(PAIRED)


async def test_somebody_known_who_sends_a_code(tmp_path: Path) -> None:
    async with Door(tmp_path) as d:
        await d.people.add("chat:@bob", "bob", "guest")
        code = await d.code(role="member")
        assert await d.sends("whatever", BOB) == ""  # a word of eight letters is a word
        assert await d.sends(f"/pair {wrong(code)}", BOB) == "You are already known here, as bob (guest)."
        assert await d.sends(f"/pair {code}", ADA) == "You are already known here, as ada (owner)."
        assert (await d.sends(f"/pair {code}", BOB)).startswith("You are paired as Bob (member)")
        code = await d.code(role="owner")
        assert (await d.sends(code, BOB)).startswith("You are paired as Bob (owner)")  # no word for the agent to read


async def test_the_name_the_owner_gave_makes_it_that_persons_account(tmp_path: Path) -> None:
    async with Door(tmp_path) as d:
        await d.people.add("other:@b", "bob", "member")
        code = await d.code(name="bob")
        assert "paired as bob (member)" in await d.sends(code)
        [bob] = [one for one in d.people.list_people() if one["name"] == "bob"]
        assert [one["account"] for one in bob["accounts"]] == ["other:@b", "chat:@eve"]
        code = await d.code(name="ada")
        assert "paired as ada (owner)" in await d.sends(code, Person("@ada-phone", "whatever"))


@pytest.mark.parametrize("called", ["ada", "carol", "owner", "Bob"])
async def test_nobody_becomes_somebody_else_by_calling_themselves_so(tmp_path: Path, called: str) -> None:
    async with Door(tmp_path) as d:
        await d.people.add("other:@b", "Bob", "owner")
        code = await d.code()
        assert f"paired as {called}-2 (member)" in await d.sends(code, Person("@eve", called))
        await d.people.start()  # as the next gateway: the configuration's roles hold for its names alone
        assert (await d.people.judge("chat", said("hi", EVE))).role == "member"


async def test_a_code_for_what_cannot_be_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async with Door(tmp_path, people=False) as d:
        with pytest.raises(BadRequest, match="has no people of its own"):
            await d.people.pair("chat")
        with pytest.raises(BadRequest, match="did you mean 'other'"):
            await d.people.pair("othre")
        with pytest.raises(BadRequest, match="role: 'king' is not one of owner, member, guest"):
            await d.people.pair("other", role="king")
        with pytest.raises(BadRequest, match="name: 'guest'"):
            await d.people.pair("other", name="guest")
        with pytest.raises(Conflict, match=r"ada is owner in semel\.toml"):
            await d.people.pair("other", name="ada", role="guest")
        for _ in range(pairing.MAX_OPEN_CODES):
            await d.people.pair("other")
        with pytest.raises(Conflict, match="10 codes wait"):
            await d.people.pair("other")


async def test_a_stranger_may_invite_us_only_while_a_code_waits_on_that_channel(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        assert await w.people.may_invite("chat", BOB) and not await w.people.may_invite("chat", EVE)
        code = (await w.people.pair("chat"))["code"]
        assert await w.people.may_invite("chat", EVE) and not await w.people.may_invite("other", EVE)
        await w.tell(code, EVE)
        await w.until_shown("You are paired as Eve")
        assert not await w.people.may_invite("chat", Person("@mia", "Mia"))


async def test_the_code_stands_nowhere_in_the_ledger(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        shown, other = (await w.people.pair("chat"))["code"], (await w.people.pair("chat"))["code"]
        await w.tell(shown, EVE)
        await w.until_shown("You are paired as Eve (member)")
        await w.tell(f"/pair {other}", BOB)
        await w.until_shown("You are already known here, as bob (member)")
        texts = [e["text"] for e in await w.entries("demo:chat:dm")]
        assert texts[0] == "/pair"
    raw = b"".join(path.read_bytes() for path in tmp_path.glob("ledger.db*"))
    assert b"You are paired" in raw
    for code in (shown, other):
        for form in (code, code.replace("-", ""), code.lower()):
            assert form.encode() not in raw


async def test_a_pairing_is_answered_once_in_the_conversation_and_survives_the_gateway(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        code, later = (await w.people.pair("chat"))["code"], (await w.people.pair("chat", role="guest"))["code"]
        await w.tell(code, EVE, key="m1")
        await w.tell(code, EVE, key="m1")
        await w.until_shown(PAIRED)
    async with Chat(tmp_path) as w:
        await w.tell(code, EVE, key="m1")
        await w.tell("hello", EVE)
        await w.idle("demo:chat:dm")
        told = await w.texts("demo:chat:dm", "notice")
        assert len([text for text in told if text.startswith(PAIRED)]) == 1
        await w.tell(later, Person("@gus", "Gus"), "dm2")
        await w.until_shown("You are paired as Gus (guest)", "dm2")


async def test_who_has_a_name_in_semel_is_shown_under_it(tmp_path: Path) -> None:
    """The platform's own name for the account stays in the data."""
    seven = Person("7", "Person 7")
    async with Chat(tmp_path) as w:
        await w.tell((await w.people.pair("chat", "eve"))["code"], seven)
        await w.until_shown("You are paired as eve (member)")
        await w.tell("hello", seven)
        await w.until_shown("hello")
        heard = [e for e in await w.entries("demo:chat:dm") if e["role"] == "user"]
        assert [e["sender"] for e in heard] == ["eve", "eve"]
        assert heard[1]["data"]["from"] == {"id": "7", "name": "Person 7", "role": "member", "person": "eve"}
