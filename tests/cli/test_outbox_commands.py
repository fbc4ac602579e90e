"""The outbox by hand: a webhook whose answer settles nothing, and a person who decides."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from cli_house import Cli, end, until

from semel.faces.cli.outbox import choose_example, format_held_help, format_rejected_help
from semel.faces.cli.printing import fit_columns


class Receiver(ThreadingHTTPServer):
    """Answers with `status`; keeps what came."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Door)
        self.status = 500
        self.came: list[dict[str, Any]] = []


class Door(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.came.append({"id": self.headers["webhook-id"], **body["data"]})
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: pytest shows what the gateway says."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_held_message_is_shown_and_sent_again_when_a_person_says_so(cli: Cli, receiver: Receiver) -> None:
    (cli.home / "semel.toml").write_text(
        '[channels.hook]\nkind = "webhook"\nallow_private = true\nkey_life = 0\n'  # no repeat can be folded
        f'url = "http://127.0.0.1:{receiver.server_address[1]}/in"\n'
    )
    process = cli.up()
    cli("say", "demo:hook:team", "say: it is done", "--wait")
    until(lambda: cli.json("outbox", "list", "--state", "held"), "the hold")
    listed = cli("outbox", "list")
    row = listed.stdout.rstrip("\n").split("\t")
    assert "1 held: nobody knows whether they arrived." in listed.stderr
    assert f"semel outbox arrived {row[0]} " in listed.stderr
    assert row[1:4] == ["held", "hook:team", "1"]
    assert row[5] == "it is done"
    assert row[6] == "" and "HTTP 500" in row[7], "nothing is tried next; why it is held"
    examined = cli("doctor", rc=1).stdout
    assert f"1 held: nobody knows whether they arrived; the newest is {row[0]} to hook:team (HTTP 500" in examined
    assert "`semel outbox arrived PART` if it is there, `semel outbox resend PART` if it is not" in examined
    assert "hook   offline: the last attempt to send failed: HTTP 500\n" in examined
    assert "to do: nothing, if its platform is away: each attempt to send tries it again\n" in examined
    shown = cli("outbox", "show", row[0]).stdout
    why = "HTTP 500; sent again, it would be a second message, so it is not sent again by itself\n"
    assert "held" in shown and why in shown and shown.endswith("\nit is done\n")
    assert why in cli("why", row[0]).stdout
    assert "hook:team: held" in cli("show", "demo:hook:team").stdout

    receiver.status = 200
    assert cli("outbox", "resend", row[0]).stdout.strip() == f"{row[0]} queued"
    until(lambda: cli.json("outbox", "show", row[0])["state"] == "sent", "the receipt")
    assert [came["text"] for came in receiver.came] == ["it is done", "it is done"]
    assert receiver.came[1]["repeat"]
    until(lambda: cli.json("channels")[0]["state"] == "online", "the channel whose URL answers again")
    assert "sent" in cli("why", row[0]).stdout
    assert cli("outbox", "drop", row[0], rc=1).stderr  # what was sent cannot be unsent
    assert cli.json("doctor", "--laws")["ok"]
    listed = cli("outbox", "list")
    part = cli("outbox", "show", row[0])
    end(process)
    assert cli("outbox", "list").stdout == listed.stdout, "without a gateway, too"
    offline = cli("outbox", "show", row[0])
    assert offline.stdout == part.stdout and "no gateway is running; read from" in offline.stderr
    assert "there is no part 99" in cli("outbox", "show", "p99", rc=1).stderr


def test_it_is_told_everywhere_why_messages_wait_and_until_when(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text(
        '[channels.hook]\nkind = "webhook"\nallow_private = true\nurl = "http://127.0.0.1:1/in"\n'  # nobody listens
    )
    process = cli.up()
    cli("say", "demo:hook:team", "say: it is done", "--wait")
    until(lambda: cli.json("outbox", "list")[0].get("error"), "the first attempt")
    cli("say", "demo:hook:team", "say: it is really done", "--wait")
    waits = re.compile(r"hook:team  p1 waits since [\d:]+: 127\.0\.0\.1: .+; next try at [\d:]+\n")
    until(lambda: waits.search(cli("status").stdout), "the status of the running gateway")
    assert re.search(r"hook offline since .+: the last attempt to send failed: 127\.0\.0\.1: ", cli("status").stdout)
    end(process)
    behind, row = [line.split("\t") for line in cli("outbox", "list").stdout.splitlines()]
    assert row[1] == "queued" and re.search(r"\d\d:\d\d:\d\d$", row[6]) and "127.0.0.1" in row[7], row
    assert behind[1] == "queued" and behind[6:] == ["", "behind p1, which leaves first"], behind
    newest = cli("outbox", "list", "-n", "1")
    assert newest.stdout.split("\t") == [*behind[:-1], behind[-1] + "\n"]
    assert "there are more than the newest 1; -n N lists N" in newest.stderr
    assert "there are more" not in cli("outbox", "list", "-n", "2").stderr
    assert [part["id"] for part in cli.json("outbox", "list", "--state", "queued", "-n", "1")] == [2]
    shown = cli("outbox", "show", "p2").stdout
    assert "behind  p1\n" in shown and "id  p2\n" in shown
    status = cli("status").stdout
    assert waits.search(status) and "p2 waits" not in status, status
    examined = cli("doctor").stdout
    assert re.search(r"warning +outbox +p1 to hook:team did not leave, .+: 127\.0\.0\.1: .+\n +to do: ", examined), (
        examined
    )
    assert re.search(r"p1: the next attempt is not before this time\n$", cli("why", "p1").stdout)
    assert "p2: queued, behind p1, which leaves first\n" in cli("why", "p2").stdout
    cli("restore", "--here")
    status = cli("status").stdout
    assert "next try at" not in status and "the ledger was restored, so it may have arrived: the next start" in status


def test_messages_for_a_channel_that_is_not_configured_any_more_are_told_as_such(cli: Cli) -> None:
    file = cli.home / "semel.toml"
    file.write_text('[channels.hook]\nkind = "webhook"\nallow_private = true\nurl = "http://127.0.0.1:1/in"\n')
    process = cli.up()
    cli("say", "demo:hook:team", "say: it is done", "--wait")
    until(lambda: cli.json("outbox", "list")[0].get("error"), "the first attempt")
    end(process)
    file.write_text("")
    step = "add [channels.hook] to the configuration again, and restart the gateway"
    told = "1 part waits for channel 'hook', which is not configured"
    silent = cli("status").stdout
    process = cli.up()
    for status in (silent, cli("status").stdout):
        assert f"\n          {told}; {step}\n" in status and "next try at" not in status, status
    assert cli.json("status")["missing_channels"] == [{"channel": "hook", "parts": 1, "text": told}]
    examined = cli("doctor").stdout
    end(process)
    assert f"warning  outbox         {told}\n" in examined and f"to do: {step}\n" in examined, examined
    assert "did not leave" not in examined, "it would be tried again by itself"
    assert f"warning semel.outbox: {told}: configure it again" in cli("logs").stdout


def test_messages_that_were_rejected_or_may_have_arrived_are_told_as_what_they_are(
    cli: Cli, receiver: Receiver
) -> None:
    url = f"http://127.0.0.1:{receiver.server_address[1]}/in"
    (cli.home / "semel.toml").write_text(f'[channels.hook]\nkind = "webhook"\nallow_private = true\nurl = "{url}"\n')
    process = cli.up()
    assert "rejected" not in cli("status").stdout
    receiver.status = 400
    cli("say", "demo:hook:team", "say: it is done", "--wait")
    until(lambda: cli.json("outbox", "list", "--state", "rejected"), "the platform's no")
    for told in (cli("outbox", "list").stderr, cli("outbox", "show", "p1").stderr):
        assert "did not arrive" in told and "send it again: semel outbox resend p1" in told
    assert cli("outbox", "resend", "p1").stdout == "p1 queued\n"
    until(lambda: len(receiver.came) == 2 and cli.json("outbox", "list", "--state", "rejected"), "the next no")
    assert "repeat" not in receiver.came[1], receiver.came
    assert " had it sent again" in cli("why", "p1").stdout
    receiver.status = 500
    cli("say", "demo:hook:team", "say: it is really done", "--wait")
    until(lambda: cli.json("outbox", "list", "--state", "unknown"), "the answer that settles nothing")
    assert cli.json("status")["rejected"] == 1
    end(process)
    status, examined = cli("status").stdout, cli("doctor").stdout
    assert "1 rejected in the last day; see why, then resend or drop: " in status
    assert "outbox list --state rejected" in status
    assert "1 rejected in the last day: it was not delivered\n" in examined
    assert re.search(r"p2 to hook:team may have arrived: .*HTTP 500", examined), examined
    assert "behind it" not in examined


def test_several_held_parts_are_decided_by_one_command_in_their_order(cli: Cli, receiver: Receiver) -> None:
    (cli.home / "semel.toml").write_text(
        '[channels.hook]\nkind = "webhook"\nallow_private = true\nkey_life = 0\n'
        f'url = "http://127.0.0.1:{receiver.server_address[1]}/in"\n'
    )
    process = cli.up()
    for text in ("one", "two", "three"):
        cli("say", "demo:hook:team", f"say: {text}", "--wait")
    until(lambda: len(cli.json("outbox", "list", "--state", "held")) == 3, "the holds")
    told = cli("show", "demo:hook:team").stdout
    assert "to hook:team, p1)" in told or "p1" in told.split("notice", 1)[1].splitlines()[0], "what the outbox is told"
    assert cli("outbox", "arrived", "p1", "p3").stdout.split() == ["p1", "sent", "p3", "sent"]
    one_is_over = cli("outbox", "drop", "p2", "p3", "--json", rc=1)
    assert [part["state"] for part in json.loads(one_is_over.stdout)] == ["dropped"]
    assert "p3: this part is sent" in one_is_over.stderr
    end(process)


@pytest.mark.parametrize(
    ("natural", "kept", "widths"),
    [
        ([10, 20], [True, False], [10, 20]),  # all fits
        ([30, 500], [True, False], [30, 48]),  # the name gives way, not the account
        ([20, 7, 100, 100], [True, False, False, False], [20, 7, 23, 24]),  # the widest first
        ([200, 7, 9], [True, False, False], [60, 7, 9]),  # what is kept is folded before others become unreadable
        ([12, 21, 23, 21, 7, 18], [True, False, True, True, False, False], [12, 9, 16, 16, 7, 10]),  # all give way
    ],
)
def test_a_listing_fits_its_terminal(natural: list[int], kept: list[bool], widths: list[int]) -> None:
    assert fit_columns(natural, kept, 80) == widths


def test_no_example_sends_again_what_asks_for_something_that_is_over() -> None:
    over, asked, newest = {"id": 1, "over": True}, {"id": 2}, {"id": 3}
    assert choose_example([newest, asked, over]) == asked
    assert choose_example([over]) == over
    assert "semel outbox resend p2 " in format_held_help(asked)
    for advice in (format_held_help(over), format_rejected_help(over)):
        assert "resend" not in advice and "semel outbox drop p1" in advice
