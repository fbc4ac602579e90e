"""Build the environment of an agent process from an allowlist.

The gateway's environment may hold tokens of chat platforms, and an agent runs the commands that its model asks for. So
an agent gets only a short list of ordinary variables, the variables that it reads itself (`semel.agents.known`), and
those that its configuration sets.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from semel.agents.known import vendor_prefixes

ALLOWED_VARIABLES = frozenset((
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP", "COLORTERM",
    "NO_COLOR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
    "SSH_AUTH_SOCK", "VIRTUAL_ENV", "NVM_DIR",
))  # fmt: skip
ALLOWED_PREFIXES = ("LC_", "XDG_")


MAX_SHEBANG_BYTES = 512
_ENV_INTERPRETER = re.compile(rb"#!\s*/usr/bin/env\s+(?:-S\s+)?([\w.+-]+)")


def find_missing_interpreter(program: str, path: str) -> str | None:
    """Return the interpreter that a script's first line names (`#!/usr/bin/env node`) and that is not on this PATH.

    `program`: the script's path. Return None if nothing is missing, and for other programs.
    """
    try:
        with Path(program).open("rb") as file:
            match = _ENV_INTERPRETER.match(file.read(MAX_SHEBANG_BYTES))
    except OSError:
        return None
    interpreter = match[1].decode() if match is not None else None
    return interpreter if interpreter is not None and shutil.which(interpreter, path=path) is None else None


def build_environment(
    command: Sequence[str],
    configured: Mapping[str, str],
    *,
    hidden: Collection[str] = (),
    base: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the complete environment of an agent that is started with `command`.

    - `configured`: the variables that the agent's configuration sets; they override all others.
    - `hidden`: names of the gateway's secrets, which are never passed on from `base`. SEMEL_* is not passed on either.
    - `base`: the environment from which to choose; None takes that of this process.
    """
    source = os.environ if base is None else base
    prefixes = (*ALLOWED_PREFIXES, *vendor_prefixes(command))
    env = {
        name: value
        for name, value in source.items()
        if (name in ALLOWED_VARIABLES or name.startswith(prefixes))
        and name not in hidden
        and not name.startswith("SEMEL_")
    }
    env.setdefault("PATH", os.defpath)
    env.setdefault("LANG", "C.UTF-8")
    env.update(configured)
    return env
