"""What an agent process finds in its environment: little, and nothing of the gateway's.

A gateway holds tokens of chat platforms; an agent runs whatever its model asks for. So an agent gets a
short list of ordinary variables, the variables of its own vendor (`semel.agents.known`), and what the
configuration gives it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

from semel.agents.known import vendor_prefixes

ORDINARY = frozenset(
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
ORDINARY_PREFIXES = ("LC_", "XDG_")


def environment(
    command: Sequence[str],
    given: Mapping[str, str],
    *,
    hidden: Collection[str] = (),
    base: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The whole environment of an agent started with `command`.

    `given` is the configuration's and wins. Names in `hidden` (secrets of the gateway) and SEMEL_* never
    pass from `base` (default: this process's own environment).
    """
    source = os.environ if base is None else base
    prefixes = (*ORDINARY_PREFIXES, *vendor_prefixes(command))
    env = {
        name: value
        for name, value in source.items()
        if (name in ORDINARY or name.startswith(prefixes)) and name not in hidden and not name.startswith("SEMEL_")
    }
    env.setdefault("PATH", os.defpath)
    env.setdefault("LANG", "C.UTF-8")
    env.update(given)
    return env
