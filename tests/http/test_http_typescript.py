"""A TypeScript client that openapi-typescript generates compiles, and the example folds the stream to the record."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from semel.faces.config.load import load_config
from semel.faces.http.openapi import make_document
from semel.faces.http.operations import operations
from semel.faces.run import open_gateway
from semel.testing import scripted_agent

EXAMPLE = Path(__file__).parents[2] / "examples" / "typescript"
SOURCES = ("package.json", "tsconfig.json", "view.ts", "watch.ts")
NPM_TIMEOUT_S = 180
STATUS_READER = """\
import type { components } from "./schema.js";

export function listFailed(status: components["schemas"]["Status"]): string[] {
  const processes = status.agents.map((agent) => `${agent.session}: ${agent.tools ?? "unknown"}`);
  const checks = Object.values(status.checks).map((check) => `${check.level} at ${check.at.toFixed()}`);
  const limits = status.attention.map((each) => each.limit?.scope.toUpperCase() ?? each.why);
  return [...processes, ...checks, ...limits, ...status.channels.map((channel) => channel.name)];
}

export function tell(story: components["schemas"]["Story"]): string {
  return story.lines.map((line) => `${new Date(line.at)} ${line.text}`).join("; ") + (story.turns ?? []).length;
}
"""

pytestmark = [
    pytest.mark.editors,
    pytest.mark.skipif(
        shutil.which("npm") is None or shutil.which("node") is None,
        reason="needs Node.js and npm (Debian and Ubuntu: apt install nodejs npm)",
    ),
]


async def run(*command: str, cwd: Path, **env: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, env={**os.environ, **env}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(NPM_TIMEOUT_S):
        stdout, stderr = await process.communicate()
    assert process.returncode == 0, f"{command}: {stdout.decode()}{stderr.decode()}"
    return stdout.decode()


@pytest.fixture
async def example(tmp_path: Path) -> Path:
    """A copy of the example with its pinned libraries, the types generated from the document, compiled."""
    installed = EXAMPLE / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < (EXAMPLE / "package-lock.json").stat().st_mtime:
        await run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=EXAMPLE)
    folder = tmp_path / "example"
    folder.mkdir()
    for name in SOURCES:
        shutil.copy(EXAMPLE / name, folder)
    (folder / "status.ts").write_text(STATUS_READER)
    settings = json.loads((folder / "tsconfig.json").read_text())
    (folder / "tsconfig.json").write_text(json.dumps({**settings, "files": [*settings["files"], "status.ts"]}))
    (folder / "node_modules").symlink_to(EXAMPLE / "node_modules")
    (folder / "openapi.json").write_text(json.dumps(make_document(operations())))
    _, _, *options = json.loads((folder / "package.json").read_text())["scripts"]["generate"].split()
    await run("node_modules/.bin/openapi-typescript", "openapi.json", *options, cwd=folder)
    await run("node_modules/.bin/tsc", cwd=folder)
    return folder


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    path = tmp_path / "semel.toml"
    path.write_text(f"[agents.demo]\ncommand = {json.dumps(scripted_agent.command())}\n")
    config = load_config(path, data_dir=tmp_path / "data", listen="127.0.0.1:0", env={})
    async with open_gateway(config) as house:
        yield house.url


async def test_the_typescript_example_compiles_strictly_and_folds_the_stream_to_the_record(
    example: Path, url: str
) -> None:
    text = scripted_agent.prompt({"tool": "count", "output": ["1\n", "2\n"]}, "I counted to two.")
    printed = await run("node", "dist/watch.js", "demo:web:ts", text, cwd=example, SEMEL_URL=url)

    async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:
        entries = (await client.get("/v1/sessions/demo:web:ts/entries")).json()["entries"]
    recorded = sorted(entries, key=lambda entry: int(entry["seq"]))
    assert json.loads(printed) == recorded
    assert [entry["text"] for entry in recorded] == [text, "I counted to two."]
