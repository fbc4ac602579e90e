"""The command line, `semel`: one module per group of commands. The library and the API can do the same.

Exit codes: 0 success, 1 a law is broken or the request failed, 2 wrong usage or configuration.
"""

from __future__ import annotations

import sys

import typer

from semel.faces.cli.app import app
from semel.faces.cli.out import complain

__all__ = ["commands", "main"]


def commands() -> typer.Typer:
    """The app with all commands, in the order in which the help lists them."""
    # Importing a module registers its commands, and the import order is the order in the help.
    from semel.faces.cli import up, talk, transcript, archive, session  # noqa: F401, I001
    from semel.faces.cli import busy, books, outbox, channels, people, schedules, exec, jobs, files, backup  # noqa: F401

    return app


def main() -> None:
    """The console script. An error that the user can fix is printed in one line, without a traceback."""
    from semel.faces.cli.usage import UsageError, explain
    from semel.faces.client import NoGateway, OutcomeUnknown, RequestRefused
    from semel.faces.config import ConfigError
    from semel.ledger.storage.errors import LedgerError

    try:
        code = commands()(prog_name="semel", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)  # the code of a typer.Exit
    except UsageError as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # a group alone shows its help
            complain(explain(error))
        elif error.message:  # without rich, typer has not shown it yet
            error.show()
        sys.exit(2)
    except typer.Abort:  # Ctrl-C at a confirmation prompt
        complain("aborted")
        sys.exit(1)
    except ConfigError as error:
        complain(*error.problems)
        sys.exit(2)
    except RequestRefused as error:
        complain(str(error))
        sys.exit(2 if error.status == 400 else 1)
    except (NoGateway, LedgerError) as error:
        complain(str(error))
        sys.exit(1)
    except OutcomeUnknown as error:
        complain(str(error), f"To be sure, say it again with --id {error.id}: it is accepted at most once.")
        sys.exit(1)
