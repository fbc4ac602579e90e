"""Install the real servers that the channel tests speak with: `python scripts/channels_install.py [NAME...]`.

    matrix   Synapse, from PyPI, in a virtual environment of its own
    xmpp     Prosody, from Debian's packages, unpacked
    irc      InspIRCd and ngIRCd, from Debian's packages, unpacked
    email    Dovecot, from Debian's packages, unpacked (where /usr cannot be overlaid: installed, never started)

Everything goes below `.servers/` in the project and `make clean` removes it. A stamp is written last: an interrupted
installation is done again, a finished one costs nothing. `tests/servers/` starts what is installed here.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / ".servers"
SYNAPSE = "matrix-synapse==1.163.2"
PROSODY = ("prosody", "lua5.4", "liblua5.4-0", "lua-expat", "lua-filesystem", "lua-sec", "lua-socket", "lua-bitop")
IRCDS = ("inspircd", "ngircd")
DOVECOT = ("dovecot-core", "dovecot-imapd")
POLICY = Path("/usr/sbin/policy-rc.d")  # what it answers with 101 is not started (invoke-rc.d(8))
FORMAT = 1  # of what is unpacked here; another number installs again


class CannotInstall(Exception):
    """The message says what to do."""


def run(command: Sequence[str | Path], why: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Its output. Raises CannotInstall: `why`, and the last line it wrote."""
    all = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive", **(env or {})}
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=all, check=False)
    except OSError as fault:
        raise CannotInstall(f"{why}: {command[0]}: {fault.strerror}") from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or f"exit {done.returncode}").splitlines()[-1]
        raise CannotInstall(f"{why}: {last}")
    return done.stdout


def stamped(name: str, wanted: object, install: Callable[[Path], str]) -> None:
    """`install` into `.servers/<name>`, unless what is wanted is there. It returns how the server is to be started."""
    home = ROOT / name
    stamp = home / ".installed"
    wanted = json.loads(json.dumps([FORMAT, str(home), wanted]))
    try:
        if json.loads(stamp.read_text())["wanted"] == wanted:
            return
    except (OSError, ValueError, LookupError, TypeError):
        pass
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    how = install(home)
    part = stamp.with_suffix(".part")
    part.write_text(json.dumps({"wanted": wanted, "how": how}))
    part.rename(stamp)


def synapse(home: Path) -> str:
    print(f"Installing {SYNAPSE} (about 240 MB) ...", flush=True)
    run(
        [sys.executable, "-m", "venv", home / "venv"],
        "python's venv could not be made (Debian: apt install python3-venv)",
    )
    pip = [home / "venv/bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
    run([*pip, "install", SYNAPSE], f"pip could not install {SYNAPSE}")
    run([home / "venv/bin/python", "-c", "import synapse.app.homeserver"], "the installed Synapse does not start")
    return "venv"


def missing(packages: Sequence[str]) -> list[str]:
    """These packages, and what they need that this machine does not have."""
    command = ["apt-get", "-s", "-o", "Debug::NoLocking=1", "install", "--no-install-recommends", *packages]
    listed = run(command, f"apt does not know {', '.join(packages)} (try `apt-get update` as root)")
    needed = [line.split()[1] for line in listed.splitlines() if line.startswith("Inst ")]
    return sorted({*packages, *needed})


def unpack(home: Path, packages: Sequence[str]) -> Path:
    """Debian's packages below `home/root`; nothing else on this machine changes."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise CannotInstall(
            f"{packages[0]} comes from Debian's packages, and apt-get is not here: run this on Debian or Ubuntu, "
            "or choose the channels whose servers you have (make test-channels CHANNELS=matrix)"
        )
    as_root = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    try:
        wanted = missing(packages)
    except CannotInstall:
        if not as_root:
            raise
        run(["apt-get", "-qq", "update"], "apt-get update failed")
        wanted = missing(packages)
    print(f"Unpacking {', '.join(wanted)} ...", flush=True)
    debs = home / "debs"
    debs.mkdir()
    try:
        run(["apt-get", "-qq", *as_root, "download", *wanted], "apt-get could not download", cwd=debs)
    except CannotInstall:  # the list of packages may be older than the mirror
        if not as_root:
            raise
        run(["apt-get", "-qq", "update"], "apt-get update failed")
        run(["apt-get", "-qq", *as_root, "download", *wanted], "apt-get could not download", cwd=debs)
    root = home / "root"
    for deb in sorted(debs.glob("*.deb")):
        run(["dpkg", "-x", deb, root], f"{deb.name} could not be unpacked")
    shutil.rmtree(debs)
    return root


def prosody(home: Path) -> str:
    root = unpack(home, PROSODY)
    text = (root / "usr/bin/prosody").read_text()
    text = re.sub(r"(?m)^(CFG_\w+DIR=')/", lambda found: f"{found[1]}{root}/", text)  # it was built to stand at /
    (home / "prosody.lua").write_text(
        text.replace("#!/usr/bin/env lua5.4", "-- started by tests/servers/prosody.py", 1)
    )
    (library,) = (root / "usr/lib").glob("*-linux-*")
    env = {
        "LD_LIBRARY_PATH": str(library),
        "LUA_PATH": f"{root}/usr/share/lua/5.4/?.lua",
        "LUA_CPATH": f"{library}/lua/5.4/?.so",
    }
    modules = "require'lxp' require'ssl' require'socket' require'lfs'"
    run([root / "usr/bin/lua5.4", "-e", modules], "the unpacked Lua does not run", env=env)
    return "unpacked"


def ircds(home: Path) -> str:
    root = unpack(home, IRCDS)
    (library,) = (root / "usr/lib").glob("*-linux-*")
    env = {"LD_LIBRARY_PATH": str(library)}
    run([root / "usr/sbin/inspircd", "--version"], "the unpacked InspIRCd does not run", env=env)
    run([root / "usr/sbin/ngircd", "--version"], "the unpacked ngIRCd does not run", env=env)
    return "unpacked"


def overlaid(root: Path) -> bool:
    """Whether a process of its own can see Dovecot below /usr, where it was built to be."""
    mount = f"mount -t overlay overlay -o lowerdir={root / 'usr'}:/usr /usr && exec /usr/sbin/dovecot --version"
    try:
        done = subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def dovecot(home: Path) -> str:
    if overlaid(unpack(home, DOVECOT)):
        return "overlay"
    if os.geteuid() != 0:
        raise CannotInstall("Dovecot needs root here: it runs in a mount namespace of its own, or is installed by apt")
    print(f"Installing {', '.join(DOVECOT)} on this machine, without starting it ...", flush=True)
    shutil.rmtree(home / "root")
    ours = not POLICY.exists()
    if ours:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        install = ["apt-get", "-qq", "install", "-y", "--no-install-recommends", *DOVECOT]
        run(install, "apt-get could not install Dovecot")
    finally:
        if ours:
            POLICY.unlink(missing_ok=True)
    return "system"


SERVERS: dict[str, Callable[[], None]] = {
    "matrix": lambda: stamped("synapse", SYNAPSE, synapse),
    "xmpp": lambda: stamped("prosody", PROSODY, prosody),
    "irc": lambda: stamped("ircds", IRCDS, ircds),
    "email": lambda: stamped("dovecot", DOVECOT, dovecot),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Install real servers below .servers/ for `make test-channels`.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"for which channels; {', '.join(SERVERS)} if none")
    names = parser.parse_args().names or list(SERVERS)
    if unknown := [name for name in names if name not in SERVERS]:
        parser.error(f"no channel with a server is called {unknown[0]!r}; there are {', '.join(SERVERS)}")
    try:
        for name in names:
            SERVERS[name]()
    except (CannotInstall, OSError) as fault:
        print(f"channels_install: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
