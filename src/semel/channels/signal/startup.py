"""Say why signal-cli did not start, and what to do about it."""

from __future__ import annotations

import re

from semel.gateway.ports import Denied, Offline
from semel.text.wellformed import shorten_to_line

MIN_VERSION = (0, 13)
"""The oldest release of signal-cli that has what is used here, and that Signal still lets in."""
ACCOUNT_IN_USE = (
    "another signal-cli uses this account, and this one waits for it: stop the other one (a second gateway, a daemon, "
    "a service), or give the gateway an account of its own"
)
_HINTS = (
    (
        ("is not registered", "No local users", "does not exist"),
        "signal-cli has no account {account} here: link it with `signal-cli link -n semel`, and scan what it "
        "prints, or register it with `signal-cli -a {account} register` and `signal-cli -a {account} verify CODE`",
    ),
    (
        ("captcha", "CAPTCHA"),
        "Signal asks for a captcha: solve it at https://signalcaptchas.org/registration/generate.html, then run "
        "`signal-cli -a {account} register --captcha TOKEN`",
    ),
    (
        ("Authorization failed", "AuthorizationFailed", "not authorized", "[401]", "[403]", "was unregistered"),
        "Signal does not accept this device any more: link it anew with `signal-cli link -n semel`, or register the "
        "number again with `signal-cli -a {account} register`",
    ),
    (
        ("DeprecatedVersion", "[499]"),
        "this signal-cli is too old for Signal: install a newer one",
    ),
    (
        ("UnsupportedClassVersion", "JAVA_HOME", "No java", "java: not found"),
        "signal-cli needs a newer Java: install the one that its page names, or its build without Java",
    ),
)  # fmt: skip
"""Words of signal-cli's standard error, and what they mean for people."""


def explain_end(account: str, stderr: str, exit_code: int | None) -> Offline | Denied:
    """Return the error for a signal-cli that ended before it had loaded the account."""
    for words, hint in _HINTS:
        if any(word in stderr for word in words):
            return Denied(hint.format(account=account))
    last = shorten_to_line(stderr.strip().rpartition("\n")[2], 200)
    return Offline(f"signal-cli ended with exit code {exit_code}: {last or 'it said nothing'}")


def check_version(text: str) -> None:
    """Raise Denied if this release of signal-cli is too old."""
    match = re.match(r"([0-9]+)\.([0-9]+)", text)
    if match is not None and (int(match[1]), int(match[2])) < MIN_VERSION:
        raise Denied(f"this is signal-cli {text}: install {'.'.join(map(str, MIN_VERSION))} or a newer one")
