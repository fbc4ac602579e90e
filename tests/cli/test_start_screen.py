"""The start screen of `semel up` on a terminal, and the login link that it shows beyond loopback."""

from __future__ import annotations

import json
import re
import shlex
import time

import httpx2
from cli_house import SCRIPTED, Cli, end
from terminal import semel

CHANNEL = """
[channels.telegram]
kind = "telegram"
token = "123456:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
api = "http://127.0.0.1:9"
[people.ada]
role = "owner"
"""


def screen(cli: Cli, *args: str, columns: int = 100, rows: int = 60) -> str:
    """What `semel up` prints until it is up."""
    with semel("up", *args, env={**cli.env, "LANG": "C.UTF-8"}, cwd=cli.home, columns=columns, rows=rows) as terminal:
        terminal.expect("Ctrl-C ends it.")
        terminal.interrupt()
        assert terminal.wait() == 0
        return re.sub(r"\x1b\[[0-9;]*m", "", terminal.said)


def test_beyond_loopback_the_screen_has_the_real_address_a_login_link_and_its_qr_code(cli: Cli) -> None:
    said = screen(cli, "--listen", "0.0.0.0:0")
    page = re.search(r"page +(http://([0-9.]+):[0-9]+)\n", said)
    assert page and page[2] != "0.0.0.0"
    assert re.search(rf"login +{page[1]}/#code=[\w-]{{22}}\n +for one browser, until [0-9 :-]+; another link: ", said)
    assert "tls       none: others on the network can read along" in said
    assert said.count("█▄▄▄▄▄▄▄█") >= 3, "the three corners of a QR code; its data may look like one"


def test_on_a_small_terminal_there_is_the_link_alone(cli: Cli) -> None:
    said = screen(cli, "--listen", "0.0.0.0:0", columns=30)
    assert "#code=" in said and "█" not in said


def test_on_loopback_nobody_logs_in_and_nothing_stands_before_the_screen(cli: Cli) -> None:
    said = screen(cli, "--listen", "127.0.0.1:0")
    assert said.startswith("\nSemel ") and "page      http://127.0.0.1:" in said
    assert "#code=" not in said and "█" not in said
    assert re.search(r"\[(info|warning) *\]", said) is None, said


def test_channels_are_listed_with_what_is_missing_and_agents_whose_program_is_not_there(cli: Cli) -> None:
    (cli.home / "mine.toml").write_text('[agents.mine]\ncommand = ["no-such-program"]\n' + CHANNEL)
    said = screen(cli, "--listen", "127.0.0.1:0", "--config", "mine.toml")
    assert re.search(r"mine \(no-such-program is not installed: \S+ agents check --config mine.toml mine\)", said)
    pair = r"\S+ pair --config mine.toml telegram --name ada"
    assert re.search(rf"channels  telegram \(nobody may talk there yet: {pair}\)", said)
    (cli.home / "semel.toml").write_text(CHANNEL + 'accounts = ["telegram:7"]\n')
    assert "channels  telegram\n" in screen(cli, "--listen", "127.0.0.1:0")


def test_the_commands_of_the_screen_can_be_pasted_in_any_folder(cli: Cli) -> None:
    folder = cli.home / "my gateway"
    folder.mkdir()
    (folder / "semel.toml").write_text(SCRIPTED)
    said = screen(cli, "--config", "my gateway/semel.toml", "--data-dir", "my gateway/data", "--listen", "127.0.0.1:0")
    assert re.search(rf"terminal  \S+ chat --data-dir '{folder}/data'\n", said), said
    said = screen(cli, "--listen", "127.0.0.1:0", "--data-dir", f"{folder}/data", columns=300)
    assert "none! The gateway before this one read ~/my gateway/semel.toml. Stop this one, then: " in said
    again = next(line for line in said.splitlines() if "Stop this one" in line).partition("then: ")[2]
    assert shlex.split(again)[1:] == ["up", "--data-dir", f"{folder}/data", "--config", f"{folder}/semel.toml"]


def test_a_link_logs_one_browser_in_and_the_log_does_not_have_it(cli: Cli) -> None:
    process = cli.up("--log", "json", "--listen", "0.0.0.0:0")
    url = cli.address(process.pid)
    made = cli.json("link")
    assert made["links"] and made["links"][0].endswith(f"/#code={made['code']}")
    assert 500_000 < made["expires"] - time.time() * 1000 <= 600_000
    with httpx2.Client(base_url=str(url), trust_env=False) as browser:
        assert browser.get("/v1/sessions").status_code == 401
        assert browser.post("/v1/login", json={"code": made["code"]}).status_code == 204
        assert browser.get("/v1/sessions").status_code == 200
    again = httpx2.post(f"{url}/v1/login", json={"code": made["code"]}, trust_env=False)
    assert again.status_code == 401 and "was used already" in again.json()["detail"]
    assert httpx2.post(f"{url}/v1/login/codes", trust_env=False).status_code == 401, "only the owner makes links"
    assert "It logs one browser in, until" in cli("link").stderr
    said = end(process)
    assert "code=" not in said and made["code"] not in said
    ready = next(line for line in map(json.loads, said.splitlines()) if line["event"] == "ready")
    assert ready["pages"] == [link.partition("/#")[0] for link in made["links"]]


def test_an_address_without_a_host_is_refused_with_the_two_that_may_be_meant(cli: Cli) -> None:
    said = cli("up", "--listen", ":8420", rc=2).stderr
    assert '"127.0.0.1:8420" for this machine alone, or "0.0.0.0:8420"' in said
