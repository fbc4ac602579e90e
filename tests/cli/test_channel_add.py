"""`semel channel add`: a channel is tried before it is written, and a test message shows that it works."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_house import Cli
from terminal import semel

from semel.faces.config.load import load_config
from semel.testing.telegram import TOKEN, TelegramControl

OWN = "# mine: keep this\n[agents.demo]\nkind = 'demo'  # and this"


@pytest.fixture(scope="module")
def telegram() -> Iterator[str]:
    """The URL of a double of Telegram."""
    arguments = [sys.executable, "-m", "semel.testing.telegram", "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as double:
        assert double.stdout is not None
        url = double.stdout.readline().split()[0]
        TelegramControl(url).call("write", chat=700, text="/start")  # else the bot may not write there
        yield url
        double.kill()


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    (home / "semel.toml").write_text(OWN)
    (home / "token").write_text(f"{TOKEN}\n")
    return Cli(home, tmp_path / "data")


def config(cli: Cli) -> Path:
    return cli.home / "semel.toml"


def test_a_channel_of_options_is_tried_written_below_what_is_there_and_tested(cli: Cli, telegram: str) -> None:
    args = ("channel", "add", "telegram", "--set", "token=file:token", "--set", f"api={telegram}", "--test", "700")
    told = cli(*args).stderr
    assert "telegram needs a bot of your own" in told and "https://t.me/BotFather" in told
    assert "telegram accepts the account" in told and "the test message was confirmed: message 700/" in told
    assert "semel pair telegram --role owner" in told
    text = config(cli).read_text()
    assert text.startswith(f'{OWN}\n\n[channels.telegram]\nkind = "telegram"\n')
    assert load_config(config(cli)).gateway.channels["telegram"].options["token"] == TOKEN
    assert "has [channels.telegram] already" in cli(*args, rc=1).stderr
    assert config(cli).read_text() == text


def test_a_refused_account_changes_nothing(cli: Cli, telegram: str) -> None:
    (cli.home / "token").write_text("123456:" + "x" * 35)
    args = ("channel", "add", "telegram", "--set", "token=file:token", "--set", f"api={telegram}")
    assert "Telegram does not accept this bot's token" in cli(*args, rc=1).stderr
    assert config(cli).read_text() == OWN


def test_a_test_message_that_is_refused_is_an_error_and_the_channel_stays(cli: Cli, telegram: str) -> None:
    args = ("channel", "add", "telegram", "--set", "token=file:token", "--set", f"api={telegram}", "--test", "nobody")
    assert "the test message: it was not sent: " in cli(*args, rc=1).stderr
    assert "telegram" in load_config(config(cli)).gateway.channels


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("telgram",), 'did you mean "telegram"?'),
        (("telegram",), "telegram needs --set token=...: The bot's token from BotFather"),
        (("telegram", "--set", f"token={TOKEN}"), "--set token would show a secret to others"),
        (("telegram", "--as", "a b"), "--as a b: write letters, digits"),
    ],
)
def test_wrong_usage_says_what_to_write(cli: Cli, args: tuple[str, ...], words: str) -> None:
    assert words in cli("channel", "add", *args, rc=2).stderr
    assert config(cli).read_text() == OWN


def test_without_a_configuration_the_command_that_writes_one_is_named(cli: Cli) -> None:
    config(cli).unlink()
    assert "semel init writes one" in cli("channel", "add", "telegram", rc=1).stderr


def test_a_dialogue_asks_for_the_token_which_only_its_owner_can_read(cli: Cli, telegram: str) -> None:
    args = ("channel", "add", "telegram", "--as", "tg", "--set", f"api={telegram}")
    with semel(*args, env=cli.env, cwd=cli.home) as terminal:
        terminal.answer("token (The bot's token from BotFather, like 123456:AA..): ", TOKEN)
        terminal.answer("Send a test message? Its address on the platform (Enter: no)", "700")
        terminal.expect("the test message was confirmed")
        assert terminal.wait() == 0
    assert TOKEN not in terminal.said
    assert stat.S_IMODE((cli.home / "tg.token").stat().st_mode) == 0o600
    assert load_config(config(cli)).gateway.channels["tg"].options["token"] == TOKEN


def test_a_webhook_is_added_without_an_account(cli: Cli) -> None:
    assert "webhook: it can neither send nor receive" in cli("channel", "add", "webhook", rc=1).stderr
    assert config(cli).read_text() == OWN
    (cli.home / "secret").write_text("a-token-of-sixteen-letters\n")
    cli("channel", "add", "webhook", "--set", "token=file:secret", "--set", "session=main")
    assert load_config(config(cli)).gateway.channels["webhook"].kind == "webhook"
