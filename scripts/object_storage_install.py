"""Install the object storage that tests use: OpenStack Swift, which has the interface of S3.

`python scripts/object_storage_install.py` puts it below `.servers/` in the project, in a virtual environment of its
own; `make clean` removes it. `tests/servers/swift.py` starts it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from channels_install import CannotInstall, run, stamped

SWIFT = "swift==2.38.3"


def install_swift(home: Path) -> str:
    """Install Swift into `home`. Return how it is to be started. Raises CannotInstall."""
    print(f"Installing {SWIFT} (about 80 MB) ...", flush=True)
    run(
        [sys.executable, "-m", "venv", home / "venv"],
        "python's venv could not be made (Debian: apt install python3-venv)",
    )
    python = home / "venv/bin/python"
    run([python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", SWIFT], f"pip could not get {SWIFT}")
    run([python, "-c", "import swift.proxy.server, swift.obj.server"], "the installed Swift does not start")
    return "venv"


def main() -> int:
    try:
        stamped("swift", SWIFT, install_swift)
    except (CannotInstall, OSError) as fault:
        print(f"object_storage_install: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
