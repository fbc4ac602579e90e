"""The configuration: what is accepted, where it is looked for, and how a mistake is explained."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from semel.faces.config import ConfigError, locate
from semel.faces.config.load import load_config
from semel.faces.http.page_urls import list_page_urls
from semel.gateway.settings import AgentSettings, GatewaySettings


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home and working directory, and none of the environment's own settings."""
    for name in ("SEMEL_CONFIG", "SEMEL_DATA", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def write(home: Path, text: str) -> Path:
    path = home / "here" / "semel.toml"
    path.write_text(text)
    return path


def problems(home: Path, text: str) -> str:
    path = write(home, text)
    with pytest.raises(ConfigError) as caught:
        load_config()
    return str(caught.value).replace(f"{path.parent}/", "")


def test_with_no_configuration_there_is_the_demo_agent_on_the_loopback_address(home: Path) -> None:
    config = load_config()
    assert (config.host, config.port, config.path) == ("127.0.0.1", 8420, None)
    assert config.gateway.default_agent == "demo"
    assert config.gateway.agents["demo"].command == (sys.executable, "-m", "semel.agents.demo")
    assert config.gateway.data_dir == home / ".local/share/semel"
    assert config.gateway.ledger == home / ".local/share/semel/ledger.db"


def test_the_first_agent_of_the_file_is_the_default_one(home: Path) -> None:
    write(home, '[agents.zoe]\ncommand = ["zoe"]\n[agents.abe]\ncommand = ["abe", "--acp"]\ncwd = ".."')
    gateway = load_config().gateway
    assert gateway.default_agent == "zoe"
    assert gateway.agents["abe"].command == ("abe", "--acp")
    assert gateway.agents["abe"].cwd.resolve() == home
    assert gateway.agents["zoe"].cwd == gateway.data_dir / "workspaces" / "zoe"


def test_of_a_url_among_the_hosts_the_host_and_an_unusual_port_count(home: Path) -> None:
    urls = '"https://Semel.Example.org/chat", "b.example.org:8443", "c_1.example.org.", "::1", "http://[fd00::1]:80"'
    write(home, f"[gateway]\nhosts = [{urls}]")
    hosts = load_config().http.hosts
    assert hosts == ("semel.example.org", "b.example.org:8443", "c_1.example.org", "[::1]", "[fd00::1]")
    assert list_page_urls("127.0.0.1", 8420, hosts)[:2] == ["https://semel.example.org", "https://b.example.org:8443"]


@pytest.mark.parametrize(("told", "is_"), [("90", 90), ('"90s"', 90), ('"1.5h"', 5400), ('"2d"', 172800)])
def test_durations_are_seconds_or_a_number_with_its_unit(home: Path, told: str, is_: float) -> None:
    write(home, f"[gateway]\nidle_after = {told}")
    assert load_config().gateway.idle_after_s == is_


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[gateway]\n\nlisen = "x"',
            'semel.toml:3: [gateway] has no setting "lisen"; did you mean "listen"?',
        ),
        (
            '[gatway]\nlog = "json"',
            'semel.toml:1: there is no section or setting "gatway"; did you mean "gateway"?',
        ),
        (
            '[agents.a]\ncomand = ["x"]',
            'semel.toml:2: [agents.a] has no setting "comand"; did you mean "command"?',
        ),
        (
            '[agents.a]\nkind = "acpp"',
            "semel.toml:2: [agents.a] \"kind\" is 'acpp', and should be 'acp', 'demo' or 'model'",
        ),
        ("[agents.a]\n", 'semel.toml:1: [agents.a]: an agent of kind "acp" needs a command'),
        ("[agents.demo]\n", '; the bundled demo agent has kind = "demo"'),
        ('[agents.a]\nkind = "demo"\ncommand = ["x"]', 'an agent of kind "demo" has no command'),
        ("[gateway]\nmax_live_agents = 0", '[gateway] "max_live_agents" is 0, and should be greater than 0'),
        ('[gateway]\ngrace = "soon"', "'soon' is not a duration"),
        (
            '[gateway]\nlisten = "8420"',
            'semel.toml:2: [gateway] "listen" is \'8420\', and should be host:port, like "127.0.0.1:8420"',
        ),
        (
            "[gateway]\nlisten = 8520",
            'semel.toml:2: [gateway] "listen" is \'8520\', and should be host:port, like "127.0.0.1:8520"',
        ),
        (
            '[gateway]\nlisten = "127.0.0.1:99999"',
            "semel.toml:2: [gateway] \"listen\" is '127.0.0.1:99999', and the port should be 0 to 65535, like ",
        ),
        ("[gateway]\nlisten = true", 'and should be a string, like "127.0.0.1:8420"'),
        ("[gateway]\ndata_dir = 5", '"data_dir" is 5, and should be a string, like "~/.local/share/semel"'),
        (
            '[gateway]\ndata_dir = "/proc/x"',
            'semel.toml:2: [gateway] "data_dir" is /proc/x, but no directory can be made in /proc',
        ),
        (
            '[gateway]\nlog = "json"\n\nlog = "auto"\n',
            "semel.toml:4: log is here a second time, first in line 2: keep one of them",
        ),
        (
            '[agents.a]\nkind = "demo"\n[agents.a] # again\n',
            "semel.toml:3: [agents.a] is here a second time, first in line 1: keep one of them",
        ),
        (
            '[gateway]\nhosts = [\n"a"\n]\nhosts = [\n"b"\n]\n',
            "semel.toml:7: hosts is here a second time, first in line 2: keep one of them",
        ),
        ('ledger.url = "x"\nledger = 1', "semel.toml:2: ledger has a value already: keep one of them"),
        (
            '[gateway]\nhosts = ["a b"]',
            'semel.toml:2: [gateway] "hosts" item 1: \'a b\' is not a host name: write it like "semel.example.org"',
        ),
        ('[gateway]\nhosts = ["*.example.org"]', "'*.example.org' is not a host name"),
        ('[gateway]\nhosts = ["https://"]', "'https://' is not a host name"),
        ('[gateway]\ndata_dir = "semel.toml"', 'semel.toml:2: [gateway] "data_dir" is '),
        ('[gateway]\ndata_dir = "semel.toml/data"', "semel.toml is not a directory: move it away, or name another"),
        ('[gateway]\nlisten = "localhost:²"', 'should be host:port, like "127.0.0.1:8420"'),
        (f'[gateway]\nlisten = "localhost:{"1" * 5000}"', "and the port should be 0 to 65535"),
        (f'[gateway]\nlisten = "{"a" * 70000}:1"', 'should be host:port, like "127.0.0.1:8420"'),
        ('[gateway]\ndefault_agent = "dmo"', 'default_agent is "dmo"; did you mean "demo"?'),
        ('[agents."a:b"]\ncommand = ["x"]', '"a:b" is not a name'),
        ("[gateway", "semel.toml:1: this is not TOML"),
        ('[gateway]\nlog = "json\nlisten = "x"', "semel.toml:2: this is not TOML: a quote is not closed"),
        ("[gateway]\nlog = 'json\n", "semel.toml:2: this is not TOML: a quote is not closed"),
        ('[gateway]\nlog = "json', "semel.toml:2: this is not TOML: a quote is not closed"),
        ('[gateway]\nlog = """json\n', "semel.toml:2: this is not TOML: a quote is not closed"),
        ("[sessions.main:telegram:*]", '(at line 1, column 15); write [sessions."main:telegram:*"]'),
        ('[channels.w]\nkind = "webhok"', 'semel.toml:2: [channels.w] kind is "webhok"; did you mean "webhook"?'),
        ('[channels.w]\nkind = "pigeon"', "xmpp; a kind of your own needs its package"),
        (
            '[destinations.d]\nchannel = "w"\naddress = "x"',
            'channel is "w"; there is no [channels.NAME] section',
        ),
        ('[agents.a]\ncommand = ["x"]\ncwd = "nowhere"', "nowhere, which is not a directory"),
        ('[agents.a]\nkind = "demo"\nattempts = 4', '"attempts" is 4, and should be less than or equal to 3'),
        (
            '[sessions."main:*"]\nbusi = "steer"',
            'semel.toml:2: [sessions."main:*"] has no setting "busi"; did you mean "busy"?',
        ),
        (
            '[sessions."main:*"]\nbusy = "stear"',
            "\"busy\" is 'stear', and should be 'queue', 'steer', 'interrupt' or 'collect'",
        ),
        (
            '[sessions."main:*"]\nwake = { debounc = "2s" }',
            'semel.toml:2: [sessions."main:*".wake] has no setting "debounc"; did you mean "debounce"?',
        ),
        (
            '[sessions."*"]\nwake = { debounce = "9s", max_wait = "2s" }',
            "max_wait is 2 s, and should be at least debounce, 9 s",
        ),
        ('[sessions."my chat"]\nbusy = "steer"', '"my chat" is not a pattern of session keys'),
        ('[gateway]\norigins = ["*"]', 'semel.toml:2: [gateway] "origins" item 1: "*" would let every web page in'),
        ('[gateway]\norigins = ["app.example"]', "'app.example' is not an origin: give scheme, host and port"),
        ('[gateway]\norigins = ["https://app.example/x"]', "'https://app.example/x' is not an origin"),
        ('[gateway]\norigins = ["https://*.example"]', "'https://*.example' is not an origin"),
        ('[gateway]\ncheck_agents = "yes"', "\"check_agents\" is 'yes', and should be true or false, without quotes"),
        ('listen = "127.0.0.1:0"', 'no section or setting "listen"; it belongs in the section [gateway]'),
        ('[ledger]\nurl = "mysql://x/y"', 'it is not like "sqlite:///ledger.db" or "postgresql://semel@'),
        ('[ledger]\nurl = "postgres://x"', "it names no database; write it like"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_was_meant(home: Path, text: str, said: str) -> None:
    assert said in problems(home, text)


def test_an_origin_is_written_as_browsers_send_it(home: Path) -> None:
    write(home, '[gateway]\norigins = ["HTTPS://App.Example:443/", "http://[::1]:3000"]')
    assert load_config().http.origins == ("https://app.example", "http://[::1]:3000")


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(home: Path) -> None:
    lines = problems(home, '[gateway]\nlogg = "json"\n[agents.a]\nkind = "x"\nenvv = {}').splitlines()
    assert [line.split(":")[1] for line in lines] == ["2", "4", "5"]


MANY_MISTAKES = """\
[gateway]
default_agent = "my agent"
[agents."my agent"]
kind = "demo"
[agents.b]
kind = "model"
model = "opus"
mode = "plan"
permissions = "maybe"
[agents.c]
command = 5
base_url = "x"
[channels."the hook"]
kind = "webhook"
[channels.t]
kind = "(unknown)"
agent = "my agent"
[people."ada l"]
[people.bob]
accounts = ["the hook:1"]
[agents.d]
kind = "demo"
approvals = ["ada l", "ownr"]
[destinations.x]
channel = "the hook"
address = "a"
[schedules.s]
cron = "61 * * * *"
tz = "Mars"
session = "my chat"
downtime = "never"
[schedules.u]
cron = "0 7 * * *"
every = "2h"
text = 5
[schedules.v]
at = "soon"
[sessions."*"]
busy = "x"
wake = { debounce = "9s", max_wait = "2s" }
[channels.u]
kind = "telegram"
token = "secret"
timeout = 0
pol = 3
"""


def test_a_file_with_many_mistakes_has_all_of_them_told_in_one_run_and_none_that_follows_from_another(
    home: Path,
) -> None:
    lines = problems(home, MANY_MISTAKES).replace("semel.toml:", "").splitlines()
    beginnings = [
        '3: "my agent" is not a name',
        '5: [agents.b]: mode is for agents of kind "acp"',
        '5: [agents.b]: model is "opus", and should be PROVIDER:NAME',
        "9: [agents.b] \"permissions\" is 'maybe'",
        '11: [agents.c] "command" is 5',
        "12: [agents.c] \"base_url\": 'x' should begin with https://",
        '13: "the hook" is not a name',
        '16: [channels.t] kind is "(unknown)"; known: discord, email',
        '18: "ada l" is not a name',
        "23: [agents.d] \"approvals\": 'ownr' is neither",
        '27: [schedules.s] needs "text"',
        "28: [schedules.s] \"cron\": '61' is no minute",
        '29: [schedules.s] "tz": ',
        '30: [schedules.s] "session": ',
        "31: [schedules.s] \"downtime\" is 'never'",
        "32: [schedules.u]: a schedule has exactly one of cron, at and every; here: cron, every",
        '35: [schedules.u] "text" is 5',
        '36: [schedules.v] needs "text"',
        "37: [schedules.v] \"at\": 'soon' is not a date and time",
        '39: [sessions."*"] "busy" is \'x\'',
        '40: [sessions."*".wake]: max_wait is 2 s',
        "43: [channels.u]: token should be what BotFather gave, like 123456:AA...; ask it with /token",
        "44: [channels.u]: timeout should be a number of seconds above 0",
        '45: [channels.u] has no setting "pol"; did you mean "poll"?',
    ]
    assert len(lines) == len(beginnings), "\n".join(lines)
    lines.sort(key=lambda line: (int(line.partition(":")[0]), line))
    for line, beginning in zip(lines, beginnings, strict=True):
        assert line.startswith(beginning), "\n".join(lines)


def test_what_a_wrong_setting_decides_is_no_mistake_of_its_own(home: Path) -> None:
    text = '[agents.a]\nkind = "modell"\nmodel = "opus"\n[schedules.s]\ncron = 5\ntext = "x"'
    assert len(problems(home, text).splitlines()) == 2
    assert len(problems(home, 'agents = 5\n[gateway]\ndefault_agent = "a"').splitlines()) == 1


def test_sessions_take_what_comes_by_the_first_pattern_of_the_file_that_fits(home: Path) -> None:
    write(
        home,
        """
        [sessions."main:telegram:-100:*"]
        busy = "collect"
        wake = { debounce = "3s" }
        automatic = "wake"
        [sessions."main:*"]
        busy = "steer"
        wake = { debounce = 2, max_wait = "8s" }
        """,
    )
    group, other, none = (load_config().gateway.session(key) for key in ("main:telegram:-100:7", "main:web:me", "else"))
    assert (group.busy, group.wake.debounce_s, group.wake.longest_s, group.automatic) == ("collect", 3, 15, "wake")
    assert (other.busy, other.wake.debounce_s, other.wake.longest_s, other.automatic) == ("steer", 2, 8, "wait")
    assert (none.busy, none.wake.debounce_s, none.automatic) == ("queue", 0, "wait")


def test_how_often_and_how_long_an_agent_is_tried_is_its_own(home: Path) -> None:
    write(home, '[agents.a]\nkind = "demo"\nattempts = 1\nsilence = "2h"\n[agents.b]\nkind = "demo"')
    agents = load_config().gateway.agents
    assert [(agent.attempts, agent.silence_s) for agent in agents.values()] == [(1, 7200), (3, 1800)]


def test_a_channel_has_its_kinds_own_settings_and_no_others(home: Path) -> None:
    said = problems(home, '[channels.w]\nkind = "webhook"\nurll = "https://example.org"')
    assert 'semel.toml:3: [channels.w] has no setting "urll"; did you mean "url"?' in said


def test_a_secret_may_stand_in_the_environment_or_a_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    (home / "here" / "url").write_text("https://example.org/hook\n")
    write(home, '[channels.w]\nkind = "webhook"\nurl = "file:url"\nsecret = "env:HOOK_SECRET"')
    options = load_config().gateway.channels["w"].options
    assert options["url"] == "https://example.org/hook"
    assert options["secret"] == "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    write(home, '[agents.a]\ncommand = ["x"]\nenv = { A = "file:url", B = "env:HOOK_SECRET", C = "file" }')
    assert load_config().gateway.agents["a"].env == {
        "A": "https://example.org/hook", "B": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "C": "file",
    }  # fmt: skip


def test_a_secret_that_is_not_there_is_named_and_a_wrong_one_is_not_shown(home: Path) -> None:
    said = problems(home, '[channels.w]\nkind = "webhook"\nurl = "https://e.org"\nsecret = "env:NO_SUCH"')
    assert "the environment variable NO_SUCH is not set" in said
    said = problems(home, '[agents.a]\ncommand = ["x"]\nenv = { KEY = "env:NO_SUCH" }')
    assert "the environment variable NO_SUCH is not set" in said
    said = problems(home, '[agents.a]\ncommand = ["x"]\nenv = { KEY = "file:no-such" }')
    assert "'file:no-such' cannot be read: there is no such file" in said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'kind = "webhook"\nurl = "http://127.0.0.1/x"\nsecret = "env:NO_SUCH"\ntimeout = 0',
            ["3: [channels.w]: url leads to", "4: [channels.w] \"secret\": 'env:NO_SUCH'", "5: [channels.w]: timeout"],
        ),
        (
            'kind = "email"\nimap = "a b"\nsmtp = "file:gone"\naddress = 5\nsmtp_tls = "none"\n'
            'password = "env:NO_SUCH"',
            [
                "2: [channels.w]: authserv is missing",
                "3: [channels.w]: imap should be",
                "4: [channels.w] \"smtp\": 'file:gone' cannot be read",
                '5: [channels.w] "address" should be a string',
                '6: [channels.w]: smtp_tls = "none" would send',
                "7: [channels.w] \"password\": 'env:NO_SUCH'",
            ],
        ),
        ('kind = "telegram"\ntoken = "env:"', ["3: [channels.w] \"token\": 'env:' names no environment variable"]),
        ('kind = "telegram"\ntoken = "file:"', ["3: [channels.w] \"token\": 'file:' names no file"]),
        ('kind = "telegram"\npoll = 60', ['2: [channels.w] needs "token"', "3: [channels.w]: poll should be at most"]),
    ],
)
def test_each_mistake_of_a_channel_has_its_line_and_a_missing_secret_hides_none(
    home: Path, text: str, expected: list[str]
) -> None:
    lines = problems(home, f"[channels.w]\n{text}").replace("semel.toml:", "").splitlines()
    assert len(lines) == len(expected), lines
    assert all(line.startswith(beginning) for line, beginning in zip(lines, expected, strict=True)), lines


def test_a_ledger_in_a_database_is_named_without_its_password_which_agents_do_not_get(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    write(home, '[ledger]\nurl = "postgresql://semel:hunter2@db/books"')
    config = load_config()
    assert str(config.gateway.ledger) == str(locate()[1]) == "postgresql://db/books"
    assert "hunter2" not in repr(config) and "PGPASSWORD" in config.secrets


def test_agents_do_not_get_the_key_of_object_storage(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SEMEL_KEY_ID", "SEMEL_KEY"):
        monkeypatch.setenv(name, "hunter2")
    files = '[files]\nurl = "s3://bucket/semel/"\naccess_key = "env:SEMEL_KEY_ID"\nsecret_key = "env:SEMEL_KEY"\n'
    write(home, f'[ledger]\nurl = "postgresql://db/books"\n{files}')
    config = load_config()
    assert (config.gateway.files.bucket, config.gateway.files.prefix) == ("bucket", "semel")
    assert "hunter2" not in repr(config) and {"SEMEL_KEY_ID", "SEMEL_KEY"} <= config.secrets
    write(home, f'[ledger]\nurl = "postgresql://db/books"\n{files.replace("secret_key", "#")}')
    with pytest.raises(ConfigError, match="access_key and secret_key go together"):
        load_config()


def test_the_command_line_outweighs_the_environment_and_that_the_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, '[gateway]\ndata_dir = "data"\n[ledger]\nurl = "sqlite:///books.db"')
    assert load_config().gateway.data_dir == home / "here" / "data"
    assert locate() == (home / "here" / "data", home / "here" / "data" / "books.db")
    monkeypatch.setenv("SEMEL_DATA", str(home / "env"))
    assert load_config().gateway.data_dir == home / "env"
    assert load_config(data_dir=home / "flag").gateway.data_dir == home / "flag"
    assert load_config(listen="[::1]:0").host == "::1"


def test_the_file_is_looked_for_where_the_docs_say(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_home = home / ".config" / "semel" / "semel.toml"
    at_home.parent.mkdir(parents=True)
    at_home.write_text('[gateway]\nlisten = "127.0.0.1:1"')
    assert load_config().port == 1
    write(home, '[gateway]\nlisten = "127.0.0.1:2"')
    assert load_config().port == 2
    (home / "named.toml").write_text('[gateway]\nlisten = "127.0.0.1:3"')
    monkeypatch.setenv("SEMEL_CONFIG", str(home / "named.toml"))
    assert load_config().port == 3
    (home / "flag.toml").write_text('[gateway]\nlisten = "127.0.0.1:4"')
    assert load_config(home / "flag.toml").port == 4
    with pytest.raises(ConfigError, match="no such file"):
        load_config(home / "missing.toml")


def test_finding_the_gateway_needs_neither_its_secrets_nor_a_correct_file(home: Path) -> None:
    write(
        home,
        '[gateway]\ndata_dir = "data"\nlisen = 3\n[channels.w]\nkind = "webhook"\nsecret = "env:NO_SUCH"',
    )
    assert locate()[0] == home / "here" / "data"


def test_a_program_that_embeds_a_gateway_needs_a_data_directory_and_an_agent_only(home: Path) -> None:
    settings = GatewaySettings(data_dir=home, agents={"main": AgentSettings(command=("codex-acp",))})
    main = settings.agents["main"]
    assert (main.name, main.cwd, main.idle_after_s) == ("main", home / "workspaces" / "main", None)
    assert (settings.default_agent, settings.ledger, settings.grace_s) == ("main", home / "ledger.db", 10.0)
    with pytest.raises(ValueError, match="at least one agent"):
        GatewaySettings(data_dir=home)
    with pytest.raises(ValueError, match="default_agent 'other' is not one of: main"):
        GatewaySettings(data_dir=home, agents=settings.agents, default_agent="other")


def test_the_fields_of_settings_are_no_keys_of_the_file(home: Path) -> None:
    assert '[gateway] has no setting "grace_s"; did you mean "grace"?' in problems(home, "[gateway]\ngrace_s = 3")
    assert '[agents.a] has no setting "name"' in problems(home, '[agents.a]\nkind = "demo"\nname = "b"')
    assert '[channels.w] has no setting "options"' in problems(home, '[channels.w]\nkind = "webhook"\noptions = {}')


def test_an_item_of_a_list_is_named_by_its_number(home: Path) -> None:
    said = problems(home, '[agents.a]\ncommand = ["x", 3]')
    assert said == 'semel.toml:2: [agents.a] "command" item 2 is 3, and should be a string'


def test_a_list_or_a_table_of_the_wrong_type_is_said_to_be_one(home: Path) -> None:
    assert '"command" is \'x -y\', and should be a list, like ["x", "-y"]' in problems(
        home, '[agents.a]\ncommand = "x -y"'
    )
    assert problems(home, "[agents.a]\ncommand = 'x \"y z\"'").endswith("and should be a list")
    assert problems(home, 'gateway = "x"').endswith("\"gateway\" is 'x', and should be a table")
    assert '"env" is a list, and should be a table' in problems(home, '[agents.a]\ncommand = ["x"]\nenv = ["a"]')
