"""The owner's side: `semel people` and `semel pair`, over a gateway with a kind that a package brings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_house import Cli, end, until

KIND = """
import asyncio, dataclasses, json, pathlib
from semel.channels import Kind
from semel.gateway.ports import Caps, Incoming, Person, Receipt, Safety

@dataclasses.dataclass(frozen=True)
class Settings:
    folder: str

class Pigeons:
    # What people write is the lines of a file; what they are told is appended to another.
    def __init__(self, name, settings):
        self.name, self.caps = name, Caps(Safety.AT_MOST_ONCE)
        self.folder = pathlib.Path(settings.folder)

    async def run(self, inbox):
        inbox.online()
        done = int(await inbox.cursor() or 0)
        while True:
            lines = (self.folder / "in").read_text().splitlines() if (self.folder / "in").exists() else []
            for n, line in enumerate(lines[done:], done + 1):
                who, text = json.loads(line)
                await inbox.put([Incoming("message", f"m{n}", f"dm-{who}", Person(who, who.title()), text)], str(n))
                done = n
            await asyncio.sleep(0.02)

    async def send(self, op):
        with (self.folder / "out").open("a") as out:
            out.write(json.dumps([op.address, op.text]) + "\\n")
        return Receipt(op.key)

    async def find(self, op, since):
        raise NotImplementedError

KIND = Kind(Settings, Pigeons)
"""


class Loft:
    """A running gateway and its pigeons."""

    def __init__(self, cli: Cli, folder: Path) -> None:
        self.cli = cli
        self.folder = folder
        self._written = 0

    def write(self, who: str, text: str) -> None:
        with (self.folder / "in").open("a") as file:
            file.write(json.dumps([who, text]) + "\n")

    def told(self, who: str, words: str) -> str:
        def there() -> str:
            out = self.folder / "out"
            lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
            return next((text for to, text in lines if to == f"dm-{who}" and words in text), "")

        return str(until(there, f"{words!r} for {who}"))


@pytest.fixture(scope="module")
def loft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loft]:
    home = tmp_path_factory.mktemp("home")
    package = tmp_path_factory.mktemp("package")
    (package / "pigeons.py").write_text(KIND)
    (package / "pigeons-1.dist-info").mkdir()
    (package / "pigeons-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeons\nVersion: 1\n")
    (package / "pigeons-1.dist-info" / "entry_points.txt").write_text("[semel.channels]\npigeon = pigeons:KIND\n")
    (home / "semel.toml").write_text(
        f'[channels.loft]\nkind = "pigeon"\nfolder = "{home}"\n[channels.hook]\nkind = "webhook"\n'
        '[people.ada]\nrole = "owner"\naccounts = ["loft:ada"]\n'
    )
    cli = Cli(home, home / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")]))
        process = cli.up()
    try:
        yield Loft(cli, home)
        assert cli.json("doctor", "--laws")["ok"]
    finally:
        end(process)
        cli.leave()


def test_a_code_from_the_terminal_lets_a_person_in(loft: Loft) -> None:
    loft.write("eve", "hello?")
    loft.cli("people", "add", "loft:bob", "--role", "guest")
    made = loft.cli("pair", "loft", "--name", "eve")
    code = made.stdout.strip()
    assert len(code) == 9
    loft.write("eve", code.lower())
    loft.told("eve", "You are paired as eve (member)")
    loft.write("eve", "good day")
    loft.told("eve", "good day")
    found = {one["name"]: one for one in loft.cli.json("people", "list")}
    assert {name: one["role"] for name, one in found.items()} == {"ada": "owner", "bob": "guest", "eve": "member"}
    assert found["eve"]["accounts"] == [{"account": "loft:eve", "origin": "paired"}]
    assert "ada\towner\tconfig\tloft:ada" in loft.cli("people", "list").stdout
    told = loft.cli.json("people", "strangers")
    assert {one["reason"]: one["times"] for one in told["refused"]} == {"stranger": 1}
    listed = loft.cli("people", "strangers").stderr
    assert "no sender who was refused since the gateway started is a stranger now" in listed
    assert "no sender was refused" not in listed and "loft: 1 refused, from unknown senders" in listed
    assert told["codes"][0]["state"] == "used" and code not in json.dumps(told)
    loft.cli("people", "remove", "loft:eve")
    loft.write("eve", "still there?")
    until(lambda: "loft:eve" in loft.cli("people", "strangers").stdout, "Eve among the strangers")


def test_what_cannot_be_done_is_told_with_what_to_do(loft: Loft) -> None:
    assert "listed in semel.toml" in loft.cli("people", "remove", "loft:ada", rc=1).stderr
    assert "listed in semel.toml" in loft.cli("people", "add", "loft:ada", "--role", "guest", rc=1).stderr
    assert (
        "ada is owner in semel.toml"
        in loft.cli("people", "add", "loft:x", "--name", "ada", "--role", "guest", rc=1).stderr
    )
    assert "nobody's account; did you mean 'loft:ada'?" in loft.cli("people", "remove", "loft:adda", rc=1).stderr
    assert "did you mean 'loft'?" in loft.cli("pair", "lofft", rc=2).stderr
    assert "has no people of its own" in loft.cli("pair", "hook", rc=2).stderr
    assert "has no people of its own" in loft.cli("people", "add", "hook:x", rc=2).stderr
    assert "should be CHANNEL:ID" in loft.cli("people", "add", "loft", rc=2).stderr
    assert "owner, member, guest" in loft.cli("pair", "loft", "--role", "king", rc=2).stderr
    assert "name: 'a b'" in loft.cli("pair", "loft", "--name", "a b", rc=2).stderr
