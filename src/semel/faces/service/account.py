"""Check that the user of a system service can run it: find their home, start the program, read the configuration.

Root installs the service and can read everything, so what only root can reach fails at the service's start, as
systemd's 203/EXEC or 200/CHDIR. Each check is tried as that user, because only the kernel knows all of its rules.
"""

from __future__ import annotations

import grp
import os
import pwd
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from semel.faces.config.paths import may_exist


def list_account_problems(account: str, program: Sequence[str], config: Path) -> Iterator[str]:
    """Yield what keeps a user from running the gateway, each with what to do.

    `program`: the command that starts Semel; `config`: the file that the service reads. Without root's rights only the
    user and their home can be looked at.
    """
    try:
        entry = pwd.getpwnam(account)
    except KeyError:
        yield (
            f"there is no user {account!r}. Name the user who runs the gateway and its agents with --run-as NAME, "
            f"or add that user: useradd --system --create-home --shell /bin/sh {account}"
        )
        return
    if not may_exist(Path(entry.pw_dir)):
        yield (
            f"the home directory of {account}, {entry.pw_dir}, does not exist, and agents keep their logins there. "
            "Make it, or name another user with --run-as NAME"
        )
    if os.geteuid() != 0:
        return
    if reason := _try_command(entry, [*program, "--version"]):
        yield (
            f"{account} cannot run {program[0]} ({reason}). Install Semel where every user can run it, with a Python "
            "that every user can run: PIPX_HOME=/opt/pipx PIPX_BIN_DIR=/usr/local/bin pipx install --force ."
        )
    if may_exist(config) and _try_command(entry, ["test", "-r", str(config)]):
        yield (
            f"{account} cannot read {config}. Let that user's group read it (chgrp {name_group(account)} {config}; "
            f"chmod 640 {config}), and let the user enter the directories above it"
        )


def name_group(account: str) -> str:
    """Return the name of the primary group of a user; of an unknown user, the one that `useradd` will give it."""
    try:
        return grp.getgrgid(pwd.getpwnam(account).pw_gid).gr_name
    except KeyError:
        return account


def _try_command(entry: pwd.struct_passwd, command: Sequence[str]) -> str:
    """Run a command as a user. Return why it failed; "" if it succeeded."""
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    env = {"PATH": os.defpath, "HOME": entry.pw_dir}
    try:
        done = subprocess.run(
            command, user=entry.pw_uid, group=entry.pw_gid, extra_groups=groups, env=env, cwd="/",
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError as error:
        return error.strerror or str(error)
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return lines[-1] if done.returncode else ""
