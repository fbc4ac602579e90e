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


_SKIPPED = pytest.StashKey[int]()
