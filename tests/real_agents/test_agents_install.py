"""The installation of the real agents: two runs at once do not disturb each other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts"
RUN = """
import sys
from pathlib import Path
import agents_install
agents_install.ROOT = Path(sys.argv.pop(1))
sys.exit(agents_install.main())
"""
NPM = """#!/bin/sh
mkdir running || exit 9
echo "$$" >> "$NPM_LOG"
echo started > "$NPM_STARTED"
timeout 20 cat "$NPM_GATE"
rmdir running
"""
"""An npm that fails if another one runs in its directory, and ends when the test writes into its gate."""


def test_a_second_run_waits_for_the_first_and_installs_nothing_again(tmp_path: Path) -> None:
    programs, log, started, gate = (tmp_path / name for name in ("bin", "log", "started", "gate"))
    programs.mkdir()
    for name, text in (("npm", NPM), ("node", "#!/bin/sh\necho v24.0.0\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    os.mkfifo(started)
    os.mkfifo(gate)
    paths = {"NPM_LOG": str(log), "NPM_STARTED": str(started), "NPM_GATE": str(gate)}
    env = {**os.environ, **paths, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(SCRIPTS)}
    command = [sys.executable, "-c", RUN, str(tmp_path / "agents"), "claude"]
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as first:
        started.read_text()
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as second:
            assert second.stdout is not None
            said = second.stdout.readline()
            gate.write_text("go\n")
    assert (first.returncode, second.returncode) == (0, 0)
    assert said.startswith("Waiting for another run")
    assert len(log.read_text().splitlines()) == 1
