"""`python -m semel.agents.demo`: parse the options and serve stdin; the package describes the options."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from semel.agents.demo.agent import NAME, DemoAgent, Options
from semel.agents.demo.memory import get_state_dir
from semel.agents.demo.rpc import read_messages

USAGE = "usage: python -m semel.agents.demo [--state DIR] [--script FILE] [--log FILE] [--name NAME] [--instant]"


def options(arguments: list[str]) -> Options:
    """Read the options from the command line, else from the environment. Exits with code 2 on wrong usage."""
    given: dict[str, str] = {}
    rest = iter(arguments)
    for one in rest:
        name = one.removeprefix("--")
        value = "1" if name == "instant" else next(rest, None)
        if name not in ("state", "script", "log", "name", "instant") or value is None:
            sys.stderr.write(USAGE + "\n")
            sys.exit(2)
        given[name] = value
    log = given.get("log") or os.environ.get("SEMEL_DEMO_LOG")
    return Options(
        state=Path(given["state"]) if "state" in given else get_state_dir(),
        script=given.get("script") or os.environ.get("SEMEL_DEMO_SCRIPT"),
        log=Path(log) if log else None,
        instant="instant" in given,
        name=given.get("name", NAME),
    )


def main() -> None:
    agent = DemoAgent(options(sys.argv[1:]))
    try:
        for message in read_messages():
            agent.handle(message)
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    agent.close()
    os._exit(0)  # do not wait for threads of running prompts; no output is buffered


if __name__ == "__main__":
    main()
