"""The bundled demo agent: a separate process that speaks ACP over stdio like any other. No network, no model.

`python -m semel.agents.demo [--state DIR] [--script FILE] [--log FILE] [--instant]`; say "help" to it.
What it does depends on words in the prompt (`words`), or on a script (`script`), so that people, tests
and benchmarks drive one real agent process. As environment: SEMEL_DEMO_STATE, SEMEL_DEMO_SCRIPT,
SEMEL_DEMO_LOG.

This package imports only the standard library and none of Semel: it starts in well under 150 ms.
"""

from __future__ import annotations

import sys


def command(*arguments: str) -> list[str]:
    """The command line that starts it."""
    return [sys.executable, "-P", "-m", "semel.agents.demo", *arguments]
