"""The bundled demo agent: a separate process that speaks ACP over stdio like any other. No network, no model.

`python -m semel.agents.demo [--state DIR] [--script FILE] [--log FILE] [--instant]`; say "help" to it.
What it does depends on keywords in the prompt (`words`) or on a script (`script`), so that people, tests and
benchmarks can drive a real agent process. The environment variables SEMEL_DEMO_STATE, SEMEL_DEMO_SCRIPT and
SEMEL_DEMO_LOG have the same effect as the options.

This package imports only the standard library and none of Semel: it starts in well under 150 ms.
"""

from __future__ import annotations

import sys


def command(*arguments: str) -> list[str]:
    """The command line that starts the demo agent."""
    return [sys.executable, "-P", "-m", "semel.agents.demo", *arguments]
