"""Why signal-cli does not start, in words that say what to do."""

from __future__ import annotations

import pytest

from semel.channels.signal.startup import check_version, explain_end
from semel.gateway.ports import Denied, Offline
from semel.testing.signal import ACCOUNT


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        (f"User {ACCOUNT} is not registered.", "signal-cli link -n semel"),
        ("No local users found, you first need to register or link an account", f"signal-cli -a {ACCOUNT} register"),
        ("Captcha required for verification, use --captcha CAPTCHA", "--captcha TOKEN"),
        ("Error while checking account: [403] Authorization failed! (AuthorizationFailedException)", "link it anew"),
        ("[499] Deprecated (DeprecatedVersionException)", "too old for Signal"),
        ("java.lang.UnsupportedClassVersionError: org/asamk/signal/Main has been compiled", "newer Java"),
    ],
)
def test_a_fault_that_a_person_has_to_mend_is_refused_with_what_to_do(stderr: str, words: str) -> None:
    error = explain_end(ACCOUNT, stderr, 1)
    assert isinstance(error, Denied)
    assert words in str(error)


def test_any_other_fault_is_tried_again() -> None:
    error = explain_end(ACCOUNT, "INFO\nsomething broke", 3)
    assert isinstance(error, Offline)
    assert str(error) == "signal-cli ended with exit code 3: something broke"


def test_an_old_release_is_refused() -> None:
    check_version("0.13.0")
    check_version("0.14.6")
    check_version("1.0")
    check_version("unknown")
    with pytest.raises(Denied, match=r"0\.13 or a newer one"):
        check_version("0.12.8")
