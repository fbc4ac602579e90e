"""`semel config check` names all mistakes of a file at once, and warns of what cannot be meant."""

from __future__ import annotations

import pytest
from cli_house import SCRIPTED, Cli


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "1 agent, 0 channels, 0 schedules, 0 nodes"),
        (SCRIPTED + '[agents.other]\nkind = "demo"\n[channels.h]\nkind = "webhook"\nurl = "https://e.org"\n',
         "2 agents, 1 channel, 0 schedules, 0 nodes"),
    ],
)  # fmt: skip
def test_a_configuration_that_up_takes_is_ok(cli: Cli, text: str, told: str) -> None:
    (cli.home / "semel.toml").write_text(text)
    assert cli("config", "check").stdout == f"OK: {cli.home / 'semel.toml'}: {told}\n"
    assert not cli.data.exists()


def test_all_mistakes_are_told_at_once_with_their_lines(cli: Cli) -> None:
    mistakes = """\
[gateway]
default_agent = "mian"
listen = "8420"
[agents.main]
command = ["cat"]
cwd = "nowhere"
[channels.a]
kind = "webhook"
url = "ftp://example.org"
[channels.b]
kind = "webhook"
secret = "env:NO_SUCH"
[channels.c]
kind = "telegram"
agent = "other"
token = "1:nonsense"
[destinations.home]
channel = "a"
address = "x"
"""
    (cli.home / "mine.toml").write_text(mistakes)
    done = cli("config", "check", "--config", "mine.toml", rc=2)
    assert done.stdout == ""
    *lines, advice = [line for line in done.stderr.splitlines() if line]
    assert advice.startswith("About NO_SUCH, the file may be right: this shell lacks it. Set what ")
    assert len(lines) == 8 and all(line.startswith("semel: ") for line in lines), done.stderr
    for place in ("mine.toml:2:", "mine.toml:6:", "mine.toml:9:", "mine.toml:12:", "mine.toml:15:", "mine.toml:16:"):
        assert place in done.stderr, place
    assert cli.json("config", "check", "--config", "mine.toml", rc=2)["problems"] == [
        line.removeprefix("semel: ") for line in lines
    ]


def test_each_mistake_of_an_agent_is_told_once_also_beside_a_conflict(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text(
        '[agents.a]\ncomand = ["cat"]\n'
        '[agents.b]\nbase_url = "http://localhost"\ncwd = "nowhere"\ntrace = "semel.toml/x"\napprovals = ["guest"]\n'
    )
    told = [problem.partition("semel.toml:")[2] for problem in cli.json("config", "check", rc=2)["problems"]]
    assert [line.partition(":")[0] for line in told] == ["2", "3", "3", "5", "6", "7"], told
    assert told[0].endswith('has no setting "comand"; did you mean "command"?')
    assert 'base_url is for agents of kind "model"' in "".join(told) and "needs a command" in "".join(told)


def test_a_schedule_for_an_agent_or_a_channel_that_is_not_there_is_a_warning(cli: Cli) -> None:
    sessions = ("demos:web:me", "demo:telegram:7", "demo:hok:x", "demo:hook:x", "main:ci:nightly", "main", "hook:x")
    (cli.home / "semel.toml").write_text(
        '[agents.demo]\nkind = "demo"\n[channels.hook]\nkind = "webhook"\nurl = "https://e.org"\n'
        + "".join(f'[schedules.s{n}]\nevery = "1h"\ntext = "x"\nsession = "{key}"\n' for n, key in enumerate(sessions))
    )
    warnings = cli.json("config", "check")["warnings"]
    assert len(warnings) == 4, warnings
    assert "semel.toml:9: [schedules.s0]" in warnings[0] and 'did you mean "demo"?' in warnings[0]
    assert "there is no [channels.telegram]" in warnings[1]
    assert 'there is no [channels.hok]; did you mean "hook"?' in warnings[2]
    assert "session is hook:x" in warnings[3] and 'did you mean the chat "demo:hook:x"?' in warnings[3]


def test_a_schedule_whose_time_is_past_is_a_warning(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text(
        '[agents.demo]\nkind = "demo"\n'
        '[schedules.old]\nat = "2020-01-01 07:00"\ntz = "Europe/Berlin"\ntext = "x"\n'
        '[schedules.new]\nat = "2120-01-01 07:00"\ntext = "x"\n'
    )
    [warning] = cli.json("config", "check")["warnings"]
    assert "semel.toml:4: [schedules.old] at is 2020-01-01 07:00 (Europe/Berlin), which is past: correct it" in warning


def test_a_model_whose_key_is_missing_and_two_channels_with_one_account_are_mistakes(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    bot = 'kind = "telegram"\ntoken = "123456:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"\n'
    (cli.home / "semel.toml").write_text(
        f'[agents.m]\nkind = "model"\nmodel = "anthropic:claude-opus-5"\n[channels.a]\n{bot}[channels.b]\n{bot}'
    )
    told = cli.json("config", "check", rc=2)["problems"]
    assert len(told) == 2, told
    assert "semel.toml:7: [channels.b]: [channels.a] has the same account" in told[0]
    assert 'semel.toml:1: [agents.m] model "anthropic:claude-opus-5"' in told[1] and "ANTHROPIC_API_KEY" in told[1]


def test_what_is_allowed_and_cannot_be_meant_is_a_warning(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text(
        '[agents.main]\ncommand = ["not-here"]\n[channels.hook]\nkind = "webhook"\ntoken = "0123456789abcdef"\n'
        '[nodes.ci]\ntoken = "file:ci.token"\n[heartbeat]\nevery = "5m"\n'
    )
    (cli.home / "ci.token").write_text("fedcba9876543210")
    told = cli.json("config", "check")
    assert told["ok"] and len(told["warnings"]) == 4, told
    assert "to receive, set session or sessions" in told["warnings"][0]
    assert "semel.toml:6: [nodes.ci] may report to no session: set sessions" in told["warnings"][1]
    assert "semel.toml:8: [heartbeat] reaches no session: set sessions" in told["warnings"][2]
    assert "command not found: 'not-here'" in told["warnings"][3]
    assert cli("config", "check").stdout.endswith(": 1 agent, 1 channel, 0 schedules, 1 node\n")


@pytest.mark.parametrize(
    ("settings", "is_lost"),
    [
        ('session = "demo:hook:team"', True),
        ('sessions = ["demo:web:*", "demo:hook:*"]', True),
        ('session = "demo:web:team"', False),
        ('session = "demo:hook:team"\nurl = "https://example.org/in"', False),
    ],
)
def test_a_webhook_whose_replies_go_nowhere_is_a_warning(cli: Cli, settings: str, is_lost: bool) -> None:
    hook = f'[channels.hook]\nkind = "webhook"\ntoken = "0123456789abcdef"\n{settings}\n'
    (cli.home / "semel.toml").write_text(f'[agents.demo]\nkind = "demo"\n{hook}')
    warnings = cli.json("config", "check")["warnings"]
    assert bool(warnings) is is_lost, warnings
    for warning in warnings:
        assert "semel.toml:3: [channels.hook] has no url, so replies in demo:hook:" in warning
        assert 'go nowhere: set url, or name a session of the page, such as "demo:web:hook"' in warning


def test_one_run_of_the_check_names_mistakes_of_every_sort_and_the_warnings(cli: Cli) -> None:
    """A mistake in one setting hides neither what other settings refer to, nor a channel's options, nor a warning."""
    (cli.home / "log.jsonl").write_text("")
    (cli.home / "semel.toml").write_text("""\
[gateway]
logg = "json"
hosts = ["a b", "c d"]
default_agent = "other"
[agents.main]
command = ["not-here"]
trace = "log.jsonl"
[agents.second]
kind = "modle"
[channels.a]
kind = "telegram"
token = "file:nowhere"
tokn = "x"
[channels.b]
narration = "first"
kind = "webhook"
token = "0123456789abcdef"
agent = "second"
[channels.user]
kind = "webhook"
[people.ada]
role = "queen"
accounts = ["a:123456"]
""")
    done = cli.json("config", "check", rc=2)
    lines = [int(problem.partition("semel.toml:")[2].partition(":")[0]) for problem in done["problems"]]
    assert lines == [2, 3, 3, 4, 7, 9, 12, 13, 15, 22], done["problems"]
    told = "\n".join(done["problems"])
    assert f"trace is {cli.home}/log.jsonl, but {cli.home}/log.jsonl is a file: name a directory" in told
    assert "'file:nowhere' cannot be read: there is no such file" in told
    warned_lines = [int(warning.partition("semel.toml:")[2].partition(":")[0]) for warning in done["warnings"]]
    assert warned_lines == [14, 19, 6], done["warnings"]
    assert cli("config", "check", rc=2).stdout.count("warning:") == 3
