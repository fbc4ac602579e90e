"""What holds for every test."""

from __future__ import annotations

import os

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash.get(_SKIPPED, 0):
        terminalreporter.section("a skipped test is a failure in CI", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Where CI is set, a test that was skipped proves nothing: the run fails."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = len(reporter.stats.get("skipped", [])) if reporter else 0
    if os.environ.get("CI") and skipped:
        session.config.stash[_SKIPPED] = skipped
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


SERVERS = {"synapse": "matrix", "prosody": "xmpp", "mail_server": "email"}
"""The fixtures of tests/servers, and for which channel each is (`make test-channels CHANNELS="matrix"`)."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of channels that were not chosen are left out, not skipped."""
    chosen = set(os.environ.get("CHANNELS", "").split())
    if not chosen:
        return
    needs = {item: {SERVERS[name] for name in getattr(item, "fixturenames", ()) if name in SERVERS} for item in items}
    left_out = [item for item in items if needs[item] and not needs[item] <= chosen]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


_SKIPPED = pytest.StashKey[int]()
