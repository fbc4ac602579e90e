"""Build the environment of an agent process from an allowlist.

The gateway's environment may hold tokens of chat platforms, and an agent runs whatever its model asks for. So an agent
gets only a short list of ordinary variables, those of its own vendor (`semel.agents.known`), and those that its
configuration sets.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

from semel.agents.known import vendor_prefixes

ALLOWED_VARIABLES = frozenset(
    (
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "TERM",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "TMP",
        "TEMP",
        "COLORTERM",
        "NO_COLOR",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "all_proxy",
        "SSH_AUTH_SOCK",
        "VIRTUAL_ENV",
        "NVM_DIR",
    )
)
ALLOWED_PREFIXES = ("LC_", "XDG_")


def build_environment(
    command: Sequence[str],
    given: Mapping[str, str],
    *,
    hidden: Collection[str] = (),
    base: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The complete environment of an agent that is started with `command`.

    given    variables of the configuration; they override all others
    hidden   names that never pass from `base` (the gateway's secrets); SEMEL_* never passes either
    base     default: this process's own environment
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
    env.update(given)
    return env
