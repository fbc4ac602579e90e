"""The Dockerfile, without a container engine: each of its steps runs in a scratch root, and then what it made.

The root of this machine, below a writable layer in memory, stands for the base image.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from system_house import until

ROOT = Path(__file__).parent.parent.parent
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LAYERS = "mount -t tmpfs -o mode=755 tmpfs {0} && echo mounted && exec sleep infinity"
ENTER = """\
set -e
mkdir -p {layers}/{stage}/upper {layers}/{stage}/work {layers}/{stage}/root
cd {layers}/{stage}
mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work overlay root
mount --rbind /dev root/dev
mount --rbind /proc root/proc
"""


@dataclass
class Stage:
    """What FROM begins: the instructions after it, and the settings that they made."""

    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)


def parse(text: str) -> list[Stage]:
    """The stages of a Dockerfile, each with its (instruction, arguments)."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.M))
    stages: list[Stage] = []
    for line in filter(None, joined.splitlines()):
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            stages.append(Stage(rest.partition(" AS ")[2] or "last"))
        elif instruction != "ARG":
            stages[-1].steps.append((instruction, rest))
    return stages


STAGES = parse((ROOT / "Dockerfile").read_text())


class Engine:
    """Runs steps in scratch roots inside one mount namespace."""

    def __init__(self, layers: Path) -> None:
        self.layers = layers
        command = LAYERS.format(shlex.quote(str(layers)))
        self.holder = subprocess.Popen(["unshare", "--mount", "sh", "-c", command], stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout is not None and self.holder.stdout.readline() == "mounted\n"
        self.env = {"PATH": PATH}
        self.workdir, self.user = "/", "root"
        self.settings: dict[str, str] = {}

    def sh(self, script: str, *, rc: int = 0) -> str:
        """Run a script that sees the layers."""
        command = ["nsenter", f"--target={self.holder.pid}", "--mount", "sh", "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, env=self.env, timeout=300)
        assert done.returncode == rc, (script, done.stdout, done.stderr)
        return done.stdout

    def enter(self, stage: str, command: str, before: str = "") -> str:
        """The script that runs a command inside the root of a stage, as its user and in its directory."""
        inside = f"cd {self.workdir} && {command}"
        user = f"setpriv --reuid={self.user} --regid={self.user} --clear-groups " if self.user != "root" else ""
        prepare = ENTER.format(layers=shlex.quote(str(self.layers)), stage=stage) + before
        outer = f"{prepare}\nexec chroot root {user}sh -c {shlex.quote(inside)}"
        return f"unshare --mount --propagation=private sh -c {shlex.quote(outer)}"

    def build(self, stage: Stage) -> None:
        self.env, self.workdir, self.user = {"PATH": PATH}, "/", "root"
        for instruction, rest in stage.steps:
            match instruction:
                case "RUN":
                    self.sh(self.enter(stage.name, rest))
                case "COPY":
                    self._copy(stage.name, rest.split())
                case "WORKDIR":
                    self.workdir = rest
                    self.sh(self.enter(stage.name, "true", f"mkdir -p root{rest}\n").replace(f"cd {rest} && ", ""))
                case "ENV":
                    for name, value in (pair.split("=", 1) for pair in shlex.split(rest)):
                        self.env[name] = value.replace("$PATH", self.env["PATH"])
                case "USER":
                    self.user = rest
                case "VOLUME" | "EXPOSE" | "HEALTHCHECK" | "ENTRYPOINT" | "CMD":
                    self.settings[instruction] = rest
                case _:
                    pytest.fail(f"the Dockerfile has an instruction that this test does not know: {instruction}")

    def _copy(self, stage: str, words: list[str]) -> None:
        source = (
            f"{self.layers}/{words.pop(0).partition('=')[2]}/upper" if words[0].startswith("--from=") else str(ROOT)
        )
        *files, target = words
        upper = f"{self.layers}/{stage}/upper"
        into = target if target.startswith("/") else f"{self.workdir}/{target}"
        for name in files:
            assert source != str(ROOT) or f"!{name}\n" in (ROOT / ".dockerignore").read_text(), f"{name} is left out"
            whole = f"{source}/{name.lstrip('/')}"
            inside = "/." if (ROOT / name).is_dir() or source != str(ROOT) else ""
            folder = into if inside or target.endswith("/") else str(Path(into).parent)
            self.sh(f"mkdir -p '{upper}{folder}' && cp -a '{whole}'{inside} '{upper}{into}'")

    def close(self) -> None:
        self.holder.kill()
        self.holder.communicate()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = Engine(tmp_path_factory.mktemp("layers"))
    try:
        for stage in STAGES:
            engine.build(stage)
        yield engine
    finally:
        engine.close()


READ_ONLY = """\
mount --bind {volume} root/data
mount -t tmpfs tmpfs root/tmp
mount -o remount,ro root
"""


@pytest.mark.root
def test_the_steps_of_the_dockerfile_make_a_gateway_that_runs_read_only_and_not_as_root(image: Engine) -> None:
    last, volume = STAGES[-1].name, f"{image.layers}/volume"
    image.sh(f"cp -a {image.layers}/{last}/upper/data {volume}")
    command = shlex.join([*json.loads(image.settings["ENTRYPOINT"]), *json.loads(image.settings["CMD"])])
    command = command.replace("0.0.0.0:8420", "0.0.0.0:0")
    before = READ_ONLY.format(volume=shlex.quote(volume))
    script = image.enter(last, f"touch /usr/x 2>/dev/null && echo writable; exec {command}", before)
    holder = ["nsenter", f"--target={image.holder.pid}", "--mount", "sh", "-c", f"exec {script}"]
    gateway = subprocess.Popen(holder, env=image.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        address = f"{volume}/semel/gateway.json"
        published = until(lambda: image.sh(f"cat {address} 2>/dev/null || true") or gateway.poll(), "it runs")
        assert gateway.poll() is None, gateway.communicate()
        url, pid = json.loads(published)["url"], json.loads(published)["pid"]
        status = Path(f"/proc/{pid}/status").read_text()
        assert re.search(r"^Uid:\s+10001\s", status, re.M), "it is not root"
        assert re.search(r"^CapEff:\s+0+$", status, re.M)
        test = re.search(r"CMD (\[.*\])", image.settings["HEALTHCHECK"])
        assert test is not None
        healthy = shlex.join(json.loads(test[1])).replace("http://127.0.0.1:8420", url)
        image.sh(image.enter(last, healthy))
        image.sh(image.enter(last, healthy.replace(url, "http://127.0.0.1:9")), rc=1)
        told = image.enter(last, "semel say main hello --wait && semel doctor", before)
        assert "all is well" in image.sh(told)
    finally:
        gateway.terminate()
        output = gateway.communicate(timeout=60)[0]
    assert gateway.returncode == 0, output
    assert "writable" not in output and "Traceback" not in output, output


def test_the_image_needs_one_volume_and_no_root() -> None:
    settings = dict(STAGES[-1].steps)
    assert settings["VOLUME"] == "/data"
    assert settings["USER"] == "semel"
    assert "/readyz" in settings["HEALTHCHECK"]
    base = re.search(r"^ARG PYTHON_IMAGE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.M)
    assert base is not None and re.fullmatch(r"docker\.io/library/python:3\.\d+-slim-\w+", base[1])
