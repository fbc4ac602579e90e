"""`semel channel add`: a channel is tried before it is written, and a test message shows that it works."""

from __future__ import annotations

import asyncio
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_house import Cli
from irc_double import IrcDouble
from terminal import semel

from semel.channels import make
from semel.faces.cli.init_channel import OPTIONAL_QUESTIONS, QUESTIONS, WAYS
from semel.faces.config.load import load_config
from semel.gateway.settings import ChannelSettings
from semel.testing.discord import TOKEN as DISCORD_TOKEN
from semel.testing.teams import APP_ID, CLIENT_SECRET, TENANT, TeamsDouble
from semel.testing.teams import serve as serve_teams
from semel.testing.telegram import TOKEN, TelegramControl
from semel.testing.whatsapp.model import APP_SECRET, NUMBER_ID
from semel.testing.whatsapp.model import TOKEN as WHATSAPP_TOKEN

SIGNING_SECRET = "0123456789abcdef" * 2
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
def slack() -> Iterator[list[str]]:
    """The URL, the bot's token and the app's token of a double of Slack."""
    arguments = [sys.executable, "-m", "semel.testing.slack", "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as double:
        assert double.stdout is not None
        yield double.stdout.readline().split()
        double.kill()


@pytest.fixture
def whatsapp() -> Iterator[str]:
    """The URL of a double of Meta's API."""
    arguments = [sys.executable, "-m", "semel.testing.whatsapp", "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as double:
        assert double.stdout is not None
        yield double.stdout.readline().partition('"')[2].rstrip('"\n')
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


def test_a_setting_of_any_type_can_be_given_as_an_option(cli: Cli, telegram: str) -> None:
    given = ("stream=true", "groups=always", "retain=90d", "pace=0.5", "fetch=false")
    args = ("channel", "add", "telegram", "--set", "token=file:token", "--set", f"api={telegram}")
    cli(*args, *(word for setting in given for word in ("--set", setting)))
    section = load_config(config(cli)).gateway.channels["telegram"]
    assert (section.stream, section.groups, section.retain_s) == (True, "always", 90 * 86400.0)
    assert (section.options["pace"], section.options["fetch"]) == (0.5, False)
    assert (
        "\"stream\" is 'perhaps', and should be true or false"
        in cli(*args, "--as", "other", "--set", "stream=perhaps", rc=1).stderr
    )


@pytest.mark.parametrize("command", ["/nowhere/signal-cli --verbose", '["/nowhere/signal-cli", "--verbose"]'])
def test_a_program_elsewhere_is_given_as_words_or_as_a_list(cli: Cli, command: str) -> None:
    args = ("channel", "add", "signal", "--set", "account=+4915112345678", "--set", f"command={command}")
    assert "there is no program '/nowhere/signal-cli'" in cli(*args, rc=1).stderr


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
        (("xmpp", "--set", "servr=127.0.0.1"), '--set servr: xmpp has no such setting; did you mean "server"?'),
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
        terminal.answer("(Enter: no)", "700")
        terminal.expect("the test message was confirmed")
        assert terminal.wait() == 0
    assert TOKEN not in terminal.said
    assert stat.S_IMODE((cli.home / "tg.token").stat().st_mode) == 0o600
    assert load_config(config(cli)).gateway.channels["tg"].options["token"] == TOKEN


def test_a_test_message_that_fails_is_offered_again_with_an_example(cli: Cli, telegram: str) -> None:
    args = ("channel", "add", "telegram", "--set", "token=file:token", "--set", f"api={telegram}")
    with semel(*args, env=cli.env, cwd=cli.home) as terminal:
        terminal.answer("An address there, such as your user id, 123456789 (Enter: no): ", "@me")
        terminal.expect("the test message: it was not sent: ")
        terminal.answer("Try another address? (Enter: no): ", "700")
        terminal.expect("the test message was confirmed")
        terminal.expect("next: semel up, then semel pair telegram")
        assert terminal.wait() == 0


def test_an_account_that_another_channel_has_is_refused_before_anything_is_written(cli: Cli, telegram: str) -> None:
    """A gateway with two channels of one account does not start."""
    args = ("channel", "add", "telegram", "--set", "token=file:token", "--set", f"api={telegram}")
    cli(*args)
    text = config(cli).read_text()
    told = cli(*args, "--as", "other", rc=1).stderr
    assert "[channels.telegram] has the same account, bot 8000000001" in told
    assert config(cli).read_text() == text


def test_a_matrix_account_logs_in_by_a_password_or_by_a_token(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new account has a password; an access token must first be made."""
    monkeypatch.setenv("MATRIX_PASSWORD", "secret")
    place = ("channel", "add", "matrix", "--set", "homeserver=http://127.0.0.1:9")
    told = cli(*place, rc=2).stderr
    assert "--set user=... --set password=... (password: " in told and "--set token=... (token: " in told
    account = ("--set", "user=@bot:example.org", "--set", "password=env:MATRIX_PASSWORD")
    assert "`semel up` tries it again" in cli(*place, *account).stderr
    options = load_config(config(cli)).gateway.channels["matrix"].options
    assert (options["user"], options["password"], options.get("token")) == ("@bot:example.org", "secret", None)


def test_an_option_that_is_wrong_is_not_asked_for_as_something_else(cli: Cli) -> None:
    args = ("channel", "add", "xmpp", "--set", "port=5222", "--set", "jid=bot@example.org")
    with semel(*args, env=cli.env, cwd=cli.home) as terminal:
        terminal.answer("password (The account's password. Required): ", "pw")
        terminal.expect("port has no effect without server")
        terminal.expect("correct --set port")
        assert terminal.wait() == 1


def test_a_webhook_asks_for_what_it_sends_and_receives_with(cli: Cli) -> None:
    with semel("channel", "add", "webhook", env=cli.env, cwd=cli.home) as terminal:
        terminal.expect("(step by step: semel docs channels)")
        for _ in range(3):
            terminal.answer("Enter: none): ", "")
        terminal.expect("it can neither send nor receive")
        terminal.answer_unseen("Enter the url and the secret and the session again? (n: write nothing) [Y/n]:", "y")
        terminal.answer("Without one, the channel only receives; Enter: none): ", "")
        terminal.answer("of 16 or more characters; Enter: none): ", "whsec_" + "c2VjcmV0" * 4)
        terminal.answer("The session of incoming messages that name none; Enter: none): ", "main")
        terminal.expect("added [channels.webhook]")
        assert terminal.wait() == 0
    section = load_config(config(cli)).gateway.channels["webhook"].options
    assert (section["secret"], section["session"]) == ("whsec_" + "c2VjcmV0" * 4, "main")


def test_a_webhook_is_added_without_an_account(cli: Cli) -> None:
    assert "webhook: it can neither send nor receive" in cli("channel", "add", "webhook", rc=1).stderr
    assert config(cli).read_text() == OWN
    (cli.home / "secret").write_text("a-token-of-sixteen-letters\n")
    cli("channel", "add", "webhook", "--set", "token=file:secret", "--set", "session=main")
    assert load_config(config(cli)).gateway.channels["webhook"].kind == "webhook"


def test_slack_over_http_needs_the_signing_secret_and_no_app_token(cli: Cli, slack: list[str]) -> None:
    api, bot_token, _ = slack
    args = ("channel", "add", "slack", "--set", f"api={api}", "--set", "settle=0.2")
    with semel(*args, env=cli.env, cwd=cli.home) as terminal:
        assert "1  Socket Mode" in terminal.expect("2  HTTP")
        terminal.answer("Number or name [1]:", "http")
        terminal.answer("that the installation gave): ", bot_token)
        terminal.answer("Slack posts events to /v1/hooks/NAME): ", SIGNING_SECRET)
        terminal.expect("slack accepts the account.")
        terminal.expect("/v1/hooks/slack")
        terminal.answer("(Enter: no)", "D7")
        terminal.expect("the test message was confirmed and read back")
        assert terminal.wait() == 0
    assert "xapp-...) with the scope" not in terminal.said
    options = load_config(config(cli)).gateway.channels["slack"].options
    assert (options["bot_token"], options["signing_secret"]) == (bot_token, SIGNING_SECRET)
    assert "app_token" not in options


@pytest.mark.parametrize(("way", "setting"), [("Socket Mode", "app_token"), ("HTTP", "signing_secret")])
def test_a_script_names_the_way_to_slack_by_the_setting_that_it_needs(
    cli: Cli, slack: list[str], way: str, setting: str
) -> None:
    api, bot_token, app_token = slack
    secrets = {"bot_token": bot_token, "app_token": app_token, "signing_secret": SIGNING_SECRET}
    for key, secret in secrets.items():
        (cli.home / key).write_text(secret)
    args = (
        "channel",
        "add",
        "slack",
        "--set",
        f"api={api}",
        "--set",
        "settle=0.2",
        "--set",
        "bot_token=file:bot_token",
    )
    refused = cli(*args, rc=2).stderr
    assert f"--set {setting}=... ({way}: " in refused
    both = ("--set", "app_token=file:app_token", "--set", "signing_secret=file:signing_secret")
    assert "slack takes --set app_token or --set signing_secret, not both" in cli(*args, *both, rc=2).stderr
    told = cli(*args, "--set", f"{setting}=file:{setting}", "--test", "D7").stderr
    assert "the test message was confirmed and read back" in told
    assert setting in load_config(config(cli)).gateway.channels["slack"].options


def test_a_retry_asks_only_for_what_was_refused(cli: Cli, slack: list[str]) -> None:
    api, bot_token, app_token = slack
    args = ("channel", "add", "slack", "--set", f"api={api}", "--set", "settle=0.2")
    with semel(*args, env=cli.env, cwd=cli.home) as terminal:
        terminal.answer("Number or name [1]:", "1")
        terminal.answer("that the installation gave): ", bot_token)
        terminal.answer("events come over Socket Mode): ", "no token at all")
        terminal.expect("app_token should be an app-level token")
        terminal.answer_unseen("Enter the app_token again? (n: write nothing) [Y/n]:", "y")
        terminal.answer("events come over Socket Mode): ", f"xapp-{'x' * 20}")
        terminal.expect("slack: Slack does not accept app_token")
        assert [path.name for path in cli.home.iterdir() if path.name.startswith("slack.")] == []
        terminal.answer_unseen("Enter the app_token again? (n: write nothing) [Y/n]:", "y")
        terminal.answer("events come over Socket Mode): ", app_token)
        terminal.expect("slack accepts the account.")
        terminal.answer("(Enter: no)", "no")
        assert terminal.wait() == 0
    assert terminal.said.count("that the installation gave): ") == 1
    assert (cli.home / "slack.bot_token").read_text().strip() == bot_token
    assert (cli.home / "slack.app_token").read_text().strip() == app_token


def test_what_is_no_secret_is_offered_again(cli: Cli, whatsapp: str) -> None:
    args = ("channel", "add", "whatsapp", "--set", f"api={whatsapp}")
    with semel(*args, env=cli.env, cwd=cli.home) as terminal:
        terminal.answer("(not the number itself)): ", NUMBER_ID)
        terminal.answer("the permission whatsapp_business_messaging): ", "EAA" + "x" * 30)
        terminal.answer("by which Meta signs what it sends): ", APP_SECRET)
        terminal.answer("it confirms the address of the webhook): ", "a text of sixteen letters")
        terminal.answer_unseen("Enter the phone_number_id and the token again?", "y")
        terminal.answer(f"(not the number itself)) [{NUMBER_ID}]: ", "")
        terminal.answer("the permission whatsapp_business_messaging): ", WHATSAPP_TOKEN)
        terminal.expect("whatsapp accepts the account.")
        terminal.answer("(Enter: no)", "")
        assert terminal.wait() == 0
    assert terminal.said.count("by which Meta signs what it sends): ") == 1
    assert load_config(config(cli)).gateway.channels["whatsapp"].options["phone_number_id"] == NUMBER_ID


async def test_teams_asks_for_the_secret_again_and_says_where_microsoft_posts(cli: Cli) -> None:
    double = TeamsDouble()
    ann = double.person("Ann")
    async with serve_teams(double) as settings:
        await asyncio.to_thread(_add_teams, cli, settings, f"@{ann}")
        assert len(double.texts(f"@{ann}")) == 1
    assert CLIENT_SECRET not in config(cli).read_text()
    assert (cli.home / "teams.client_secret").read_text().strip() == CLIENT_SECRET


def _add_teams(cli: Cli, settings: dict[str, str], address: str) -> None:
    urls = [word for name in ("service_url", "login", "openid") for word in ("--set", f"{name}={settings[name]}")]
    with semel("channel", "add", "teams", *urls, env=cli.env, cwd=cli.home) as terminal:
        terminal.answer("registration in Microsoft Entra): ", APP_ID)
        terminal.answer("the bot is a single-tenant one): ", TENANT)
        terminal.answer("(not the secret's id)): ", "the-id-of-the-secret")
        terminal.expect("AADSTS7000215")
        terminal.answer_unseen("Enter the client_secret again? (n: write nothing) [Y/n]:", "y")
        terminal.answer("(not the secret's id)): ", CLIENT_SECRET)
        terminal.expect("teams accepts the account.")
        terminal.expect("https://YOUR-ADDRESS/v1/hooks/teams")
        terminal.answer("(Enter: no)", address)
        terminal.expect("the test message was confirmed")
        assert terminal.wait() == 0


async def test_irc_asks_for_channels_and_password_which_may_be_left_out(cli: Cli) -> None:
    async with IrcDouble() as server:
        place = ("--set", "server=127.0.0.1", "--set", f"port={server.port}", "--set", "tls=none")
        args = ("channel", "add", "irc", *place, "--set", "login=bot")
        await asyncio.to_thread(_add_irc, cli, args)
        assert server.said == [("#room", "A test message: Semel can write here.")]
    options = load_config(config(cli)).gateway.channels["irc"].options
    assert (options["nick"], options["channels"], options["password"]) == ("semel", ["#room"], "pw")
    assert (cli.home / "irc.password").read_text().strip() == "pw"


def _add_irc(cli: Cli, args: tuple[str, ...]) -> None:
    with semel(*args, env=cli.env, cwd=cli.home) as terminal:
        terminal.answer("nick (The nick to speak as. Required): ", "semel")
        terminal.answer("like `#semel`; Enter: none): ", "#room")
        terminal.answer("for SASL PLAIN; Enter: none): ", "wrong")
        terminal.expect("does not accept the account bot")
        terminal.answer_unseen("Enter the password again? (n: write nothing) [Y/n]:", "y")
        terminal.answer("for SASL PLAIN; Enter: none): ", "pw")
        terminal.expect("irc accepts the account.")
        terminal.answer("(Enter: no)", "#room")
        terminal.expect("the test message was confirmed: message said1")
        assert terminal.wait() == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("discord", "discord needs one more package"),
        ("mattermost", "mattermost needs one more package"),
        ("teams", "teams needs one more package"),
        ("email", "email needs two more packages"),
        ("xmpp", "XMPP needs slixmpp"),
        ("slack", "Slack's Socket Mode needs websockets"),
    ],
)
def test_a_missing_package_is_named_before_anything_is_asked(cli: Cli, tmp_path: Path, kind: str, words: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "missing = {'websockets', 'slixmpp', 'jwt', 'aiosmtplib', 'imap_tools'}\n"
        "importlib.util.find_spec = lambda name, *rest: None if name in missing else find(name, *rest)\n"
    )
    with semel("channel", "add", kind, env={**cli.env, "PYTHONPATH": str(tmp_path)}, cwd=cli.home) as terminal:
        if kind == "slack":
            terminal.answer("Number or name [1]:", "1")
        terminal.expect(words)
        terminal.expect("nothing was written")
        assert terminal.wait() == 1
    assert "token (" not in terminal.said and "password (" not in terminal.said
    assert config(cli).read_text() == OWN


@pytest.mark.parametrize("kind", ["telegram", "slack"])
def test_what_a_test_message_waits_for_is_said_with_its_time(
    cli: Cli, telegram: str, slack: list[str], kind: str
) -> None:
    (cli.home / "bot").write_text(slack[1])
    (cli.home / "app").write_text(slack[2])
    if kind == "telegram":
        settings, address, line = {"api": telegram, "token": "file:token"}, "700", "to 700 (up to 35 s) ..."
    else:
        settings = {"api": slack[0], "bot_token": "file:bot", "app_token": "file:app", "settle": "2 s"}
        address, line = "D7", "to D7 (and reading it back after 2 s; up to 65 s) ..."
    args = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    told = cli("channel", "add", kind, *args, "--test", address).stderr
    assert f"trying the account at {kind} (up to 30 s) ..." in told
    assert f"sending a test message {line}" in told


OPTIONS = {
    "telegram": {"token": TOKEN},
    "slack": {"bot_token": "xoxb-1234567890-1234567890", "signing_secret": SIGNING_SECRET},
    "signal": {"account": "+4915112345678"},
    "discord": {"token": DISCORD_TOKEN},
    "whatsapp": {
        "phone_number_id": NUMBER_ID, "token": WHATSAPP_TOKEN, "app_secret": APP_SECRET, "verify_token": "v" * 16,
    },
    "teams": {"app_id": APP_ID, "tenant": TENANT, "client_secret": CLIENT_SECRET},
    "matrix": {"homeserver": "https://matrix.example.org", "token": "secret"},
    "mattermost": {"url": "https://chat.example.org", "token": "t" * 26},
    "xmpp": {"jid": "bot@example.org", "password": "secret"},
    "irc": {"server": "irc.example.org", "nick": "semel"},
    "email": {
        "address": "bot@example.org", "imap": "mail.example.org", "smtp": "mail.example.org", "password": "secret",
        "authserv": "mail.example.org",
    },
}  # fmt: skip


def test_the_docs_say_what_each_kind_asks_for_and_whether_its_test_message_is_read_back() -> None:
    page = Path(__file__).parents[2] / "docs" / "channels.md"
    [table] = re.findall(r"^\| channel \| asked for \|.*\n\|---.*\n((?:\|.*\n)+)", page.read_text("utf-8"), re.M)
    rows = {cells[1].strip().lower(): cells for cells in (line.split("|") for line in table.splitlines())}
    assert rows.keys() == QUESTIONS.keys() == OPTIONS.keys()
    for kind, cells in rows.items():
        ways = [setting for way in WAYS.get(kind, ()) for setting in way.settings]
        asked = [*QUESTIONS[kind], *ways, *OPTIONAL_QUESTIONS.get(kind, ())]
        assert re.findall(r"`(\w+)`", cells[2]) == asked, kind
        channel = make(ChannelSettings(name=kind, kind=kind, options=OPTIONS[kind]))
        assert cells[4].strip().startswith("read back" if channel.caps.finds else "confirmed"), kind
