"""[people.NAME], and what the sections of channels and agents say of people."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import semel.channels
from semel.channels import Kind
from semel.faces.config import ConfigError
from semel.faces.config.load import load_config
from semel.faces.health.configuration import check_config
from semel.gateway.settings import GroupSettings, PersonSettings
from semel.ledger import people
from semel.ledger.people import PersonAccount
from semel.ledger.sqlite.store import Store


@dataclass(frozen=True)
class Chat:
    """A kind with people."""

    server: str | None = None


@pytest.fixture(autouse=True)
def a_chat_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {**semel.channels.kinds(), "chat": Kind(Chat, lambda name, settings: None)}  # type: ignore[arg-type,return-value]
    monkeypatch.setattr(semel.channels, "kinds", lambda: known)
    monkeypatch.chdir(tmp_path)


def read(text: str) -> Any:
    Path("semel.toml").write_text(text)
    return load_config(Path("semel.toml"), env={"HOME": str(Path.cwd())}).gateway


def problem(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return str(caught.value)


CHATS = '[channels.m]\nkind = "chat"\n[channels.t]\nkind = "chat"\n[channels.hook]\nkind = "webhook"\n'


def test_people_are_read_with_their_accounts() -> None:
    told = CHATS + '[people.ada]\nrole = "owner"\naccounts = ["m:@ada:example.org", "t:12345"]\n[people.bob]\n'
    assert read(told).people == {
        "ada": PersonSettings(name="ada", role="owner", accounts=("m:@ada:example.org", "t:12345")),
        "bob": PersonSettings(name="bob", role="member"),
    }


TELEGRAM = '[channels.phone]\nkind = "telegram"\ntoken = "8000000001:AAtest-token_0123456789-abcdefghijk"\n'


@pytest.mark.parametrize("id", ["@ada", "ada", "+4915112345678", "12.5", "٣"])
def test_an_account_that_a_platform_cannot_have_is_an_error(id: str) -> None:
    """A name instead of the number would never fit anybody: Ada would be a stranger without a word."""
    told = problem(f'{TELEGRAM}[people.ada]\naccounts = ["phone:{id}"]\n')
    assert f"[people.ada] \"accounts\": 'phone:{id}' is not an account of telegram" in told
    assert "like phone:123456789; `semel people strangers` lists" in told and "semel.toml:5:" in told


@pytest.mark.parametrize("id", ["7", "-1001234567890"])
def test_accounts_of_people_and_of_groups_on_telegram(id: str) -> None:
    assert read(f'{TELEGRAM}[people.ada]\naccounts = ["phone:{id}"]\n').people["ada"].accounts == (f"phone:{id}",)


def test_a_channel_says_what_becomes_of_strangers_and_groups() -> None:
    told = '[channels.m]\nkind = "chat"\nstrangers = "guest"\ngroups = "always"\n'
    told += '[channels.m.group."!a:b.c"]\npolicy = "never"\n[channels.m.group."-100*"]\nstrangers = "guest"\n'
    own = read(told).channels["m"]
    assert (own.strangers, own.groups, own.people) == ("guest", "always", True)
    assert own.group == {"!a:b.c": GroupSettings(policy="never"), "-100*": GroupSettings(strangers="guest")}
    plain = read(CHATS).channels
    assert (plain["m"].strangers, plain["m"].groups, plain["hook"].people, plain["hook"].role) == (
        "refuse", "mention", False, "member",
    )  # fmt: skip
    assert read('[channels.hook]\nkind = "webhook"\nrole = "guest"').channels["hook"].role == "guest"


def test_an_agent_says_who_answers_it() -> None:
    told = '[agents.main]\ncommand = ["x"]\n'
    assert read(told).agents["main"].approvals == ("owner",)
    more = told + 'approvals = ["member", "bob"]\n[people.bob]\n'
    assert read(more).agents["main"].approvals == ("member", "bob")


WRONG = [
    ('[people.ada]\nrole = "king"', "role"),
    ('[people.ada]\nrol = "owner"', 'did you mean "role"?'),
    ('[people.guest]\nrole = "owner"', "guest is the name of a role"),
    ('[people."a b"]', '"a b" is not a name'),
    ('[people.ada]\naccounts = ["@ada"]', "should be CHANNEL:ID"),
    ('[people.ada]\naccounts = ["m:"]', "should be CHANNEL:ID"),
    ('[people.ada]\naccounts = ["hok:1"]', 'did you mean "hook"?'),
    ('[people.ada]\naccounts = ["hook:1"]', "people have no accounts on a webhook"),
    ('[people.ada]\naccounts = ["m:1"]\n[people.bob]\naccounts = ["m:1"]', "m:1 belongs to ada already"),
    ('[people.ada]\naccounts = "m:1"', "should be"),
    ('[people.ada]\naccounts = ["m:1", "m:1"]', "m:1 belongs to ada already"),
    ('[channels.x]\nkind = "chat"\ngroups = "sometimes"', "'mention', 'always' or 'never'"),
    ('[channels.x]\nkind = "chat"\nstrangers = "allow"', "'refuse' or 'guest'"),
    ('[channels.x]\nkind = "chat"\nrole = "owner"', '"role" is for channels where people have no accounts'),
    ('[channels.x]\nkind = "webhook"\nstrangers = "guest"', '"strangers" is for channels where people have accounts'),
    ('[channels.x]\nkind = "webhook"\n[channels.x.group.a]\npolicy = "never"', '"group" is for channels where'),
    ('[channels.x]\nkind = "chat"\n[channels.x.group.a]\npolcy = "never"', 'did you mean "policy"?'),
    ('[channels.x]\nkind = "chat"\n[channels.x.groups.a]\npolicy = "never"', "'mention', 'always' or 'never'"),
    ('[agents.a]\ncommand = ["x"]\napprovals = ["guest"]', 'neither "owner" nor "member" nor a [people'),
    ('[agents.a]\ncommand = ["x"]\napprovals = ["bbo"]\n[people.bob]', 'did you mean "bob"?'),
]


@pytest.mark.parametrize(("told", "words"), WRONG)
def test_a_mistake_is_explained_with_its_line(told: str, words: str) -> None:
    found = problem(CHATS + told)
    assert words in found
    assert "semel.toml:" in found and "Traceback" not in found


def test_an_approver_whom_neither_the_file_nor_the_ledger_knows_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "semel.toml"
    file.write_text('[agents.a]\ncommand = ["true"]\napprovals = ["owner", "bob"]\n')
    checked = check_config(file, tmp_path / "data", {})
    assert checked.config is not None
    (warning,) = checked.warnings
    assert "semel.toml:3: " in warning and '"bob" counts for whoever is paired under this name' in warning
    for role, words in (("member", None), ("guest", '"bob" is a guest, and guests may answer no permission request')):
        store = Store.open(tmp_path / "data" / "ledger.db")
        store.write_sync(people.save_account, PersonAccount("chat", "1", "bob", role, "paired"))
        store.close()
        told = check_config(file, tmp_path / "data", {}).warnings
        assert [words in warning for warning in told] == ([] if words is None else [True])
