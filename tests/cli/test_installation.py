"""Advice works as it is typed, however Semel was installed."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from cli_house import Cli

from semel import installation
from semel.faces.cli.printing import forget_options, name_command, remember_option
from semel.installation import find_command


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone whose environment is in .venv, and from whose directory people type."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "semel").write_text("")
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_from_a_clone_advice_names_the_program_in_its_environment(clone: Path) -> None:
    assert name_command("run `semel agents check codex`") == "run `.venv/bin/semel agents check codex`"
    assert name_command("Start one with: semel up") == "Start one with: .venv/bin/semel up"


def test_what_only_looks_like_the_command_is_left(clone: Path) -> None:
    for text in (
        "~/.local/share/semel holds",
        "semel.toml says",
        "semel: wrong",
        ".venv/bin/semel up",
        "nick=semel up",
        "the nick semel is taken",
    ):
        assert name_command(text) == text


def test_where_the_program_is_on_path_advice_is_short(clone: Path) -> None:
    (clone / "semel").write_text("")
    (clone / "semel").chmod(0o755)
    assert name_command("Start one with: semel up") == "Start one with: semel up"


def test_an_extra_is_installed_by_what_made_the_environment(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = "'aiosmtplib>=5.1' 'imap-tools>=1.16'"
    assert installation.find_install_command("email") == f".venv/bin/python -m pip install {packages}"
    monkeypatch.setattr(installation, "find_spec", lambda name: None)
    assert installation.find_install_command("email") == f"uv pip install --python .venv/bin/python {packages}"
    (clone / ".venv" / "pipx_metadata.json").write_text("{}")
    assert installation.find_install_command("email") == f"pipx inject semel {packages}"


def test_a_path_below_home_is_written_so_that_a_shell_finds_it(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(clone))
    assert installation.shorten_path(clone / "data") == "~/data"  # also typed in HOME itself
    (clone / "project").mkdir()
    monkeypatch.chdir(clone / "project")
    assert installation.find_install_command("email").startswith("~/.venv/bin/python -m pip install ")


@pytest.mark.parametrize(
    ("page", "extra"), [("models", "model"), ("email", "email"), ("xmpp", "xmpp"), ("monitoring", "otel")]
)
def test_the_pages_name_the_command_that_semel_prints(page: str, extra: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / f"{page}.md").read_text()
    commands = [shlex.split(line) for line in text.splitlines() if line.startswith("    pipx inject ")]
    assert commands == [["pipx", "inject", "semel", *installation.list_packages(extra)]]


def test_the_package_index_is_never_asked_for_semel_itself() -> None:
    for extra in ("model", "email", "xmpp"):
        packages = installation.list_packages(extra)
        assert packages and not [package for package in packages if package.startswith("semel")]


def test_advised_commands_keep_the_options_that_were_given(cli: Cli) -> None:
    place, options = cli.home / "a place", ("--data-dir", str(cli.home / "a place"))
    assert f"semel up --data-dir '{place}'" in cli("say", "main", "hi", *options, rc=1).stderr
    (cli.home / "other.toml").write_text("[gateway]\n")
    both = cli("status", *options, "--config", "other.toml", rc=1).stderr
    assert f"semel up --data-dir '{place}' --config other.toml" in both
    assert "--data-dir" not in cli("say", "main", "hi", rc=1).stderr
    missing = cli("status", "--config", "none.toml", rc=2).stderr
    assert f"semel init {cli.home / 'none.toml'}" in missing


def test_options_are_added_only_where_a_command_takes_them() -> None:
    remember_option("--config", Path("it's.toml"))
    remember_option("--data-dir", Path("d"))
    try:
        config = "--config 'it'\"'\"'s.toml'"
        given = f"{config} --data-dir d"
        for text, named in (
            ("decide: semel outbox list --state held", f"decide: semel outbox list {given} --state held"),
            ("`semel up` writes it", f"`semel up {given}` writes it"),
            ("try again: semel say 'a b' /retry", f"try again: semel say {given} 'a b' /retry"),
            ("name it: semel doctor --data-dir e", f"name it: semel doctor {config} --data-dir e"),
            ("all of it is in semel docs channels", "all of it is in semel docs channels"),
            ("what semel sends", "what semel sends"),
            ("see semel outbox", "see semel outbox"),
        ):
            assert name_command(text).replace(find_command(), "semel") == named
    finally:
        forget_options()
