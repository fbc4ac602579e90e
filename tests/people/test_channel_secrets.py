"""A channel's secrets: never in an agent's environment, never in what is printed of settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import semel.channels
from semel.agents.acp.environment import build_environment
from semel.channels import Kind
from semel.faces.config import ConfigError
from semel.faces.config.load import load_config

SECRET = "0123456789:abcdef-0123456789-abcdef"
VENDORS = ("ANTHROPIC_KEY", "OPENAI_KEY", "XDG_KEY", "LC_KEY", "SEMEL_KEY", "CHAT_KEY")
"""Variables that agents get by their prefixes, and two that they do not."""
KINDS = dict(semel.channels.kinds())
SECRETS = [
    (name, field.name) for name, kind in KINDS.items() for field in dataclasses.fields(kind.settings) if not field.repr
]
LOOKS_SECRET = ("secret", "token", "password", "passphrase", "credential")


@dataclasses.dataclass(frozen=True)
class Chat:
    """A kind as a package may bring it."""

    key: str = dataclasses.field(default="", repr=False)
    server: str = ""


def written(told: str, env: Mapping[str, str]) -> Any:
    Path("semel.toml").write_text('[agents.main]\ncommand = ["claude-code-acp"]\n' + told)
    return load_config(Path("semel.toml"), env={"HOME": str(Path.cwd()), **env})


@pytest.fixture(autouse=True)
def a_chat_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {**KINDS, "chat": Kind(Chat, lambda name, settings: None)}  # type: ignore[arg-type,return-value]
    monkeypatch.setattr(semel.channels, "kinds", lambda: known)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", KINDS)
def test_every_setting_that_is_called_a_secret_is_kept_out_of_what_is_printed(name: str) -> None:
    fields = dataclasses.fields(KINDS[name].settings)
    odd = [field.name for field in fields if any(word in field.name for word in LOOKS_SECRET) and field.repr]
    assert odd == [], f"{name}: field(repr=False) keeps {odd} from agents and out of logs"


@pytest.mark.parametrize("variable", VENDORS)
def test_no_agent_gets_a_variable_that_a_secret_is_read_from(variable: str) -> None:
    env = {variable: SECRET, "PATH": "/bin", "ANTHROPIC_API_KEY": "the agent's own"}
    config = written(f'[channels.c]\nkind = "chat"\nkey = "env:{variable}"', env)
    for command in (["claude-code-acp"], ["codex-acp"], ["gemini"], ["sh"]):
        given = build_environment(command, {}, hidden=config.secrets, base=env)
        assert SECRET not in given.values() and variable not in given
    assert build_environment(["claude-code-acp"], {}, hidden=config.secrets, base=env)["ANTHROPIC_API_KEY"]


@pytest.mark.parametrize("variable", VENDORS)
def test_nor_another_variable_that_holds_the_same(variable: str) -> None:
    Path("key").write_text(SECRET + "\n")
    env = {variable: SECRET, "PATH": "/bin"}
    config = written('[channels.c]\nkind = "chat"\nkey = "file:key"', env)
    assert SECRET not in build_environment(["claude-code-acp"], {}, hidden=config.secrets, base=env).values()


@pytest.mark.parametrize(("kind", "field"), SECRETS)
def test_every_secret_of_every_kind_is_hidden_by_its_value(kind: str, field: str) -> None:
    from semel.faces.config.references import find_hidden_variables, map_secrets
    from semel.gateway.settings import ChannelSettings

    secrets = map_secrets({"c": ChannelSettings(name="c", kind=kind, options={field: SECRET})})
    assert list(secrets) == [SECRET]
    env = {"ANTHROPIC_X": SECRET, "ANTHROPIC_Y": "fine"}
    assert find_hidden_variables({}, secrets, env) == {"ANTHROPIC_X"}


def test_an_agent_is_not_given_it_by_its_own_section_either() -> None:
    told = '[agents.main.env]\nTOOL_KEY = "env:CHAT_KEY"\n[channels.c]\nkind = "chat"\nkey = "env:CHAT_KEY"'
    with pytest.raises(ConfigError, match=r"\[agents\.main\] env TOOL_KEY is the secret of \[channels\.c\] key"):
        written(told, {"CHAT_KEY": SECRET})
    model = '[agents.m]\nkind = "model"\nmodel = "anthropic:x"\n[agents.m.mcp.s]\ncommand = ["s"]\n'
    model += '[agents.m.mcp.s.env]\nK = "env:CHAT_KEY"\n[channels.c]\nkind = "chat"\nkey = "env:CHAT_KEY"'
    with pytest.raises(ConfigError, match=r"mcp\.s K is the secret"):
        written(model, {"CHAT_KEY": SECRET})


def test_what_is_printed_of_a_configuration_holds_no_secret() -> None:
    config = written('[channels.c]\nkind = "chat"\nkey = "env:CHAT_KEY"\nserver = "example.org"', {"CHAT_KEY": SECRET})
    assert config.gateway.channels["c"].options["key"] == SECRET
    assert SECRET not in repr(config) + str(config.gateway.channels)


@pytest.mark.parametrize("told", ['key = "env:NOT_SET"', 'key = "file:not-there"', "key = 5", 'kye = "x"'])
def test_a_mistake_about_a_secret_does_not_show_it(told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        written(f'[channels.c]\nkind = "chat"\n{told}\nserver = "{SECRET}"', {"CHAT_KEY": SECRET})
    assert SECRET not in str(caught.value)
