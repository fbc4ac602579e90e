"""The client of ACP's SDK, run by the Python that has it. It does what a JSON line says, and answers with one.

    python sdk_process.py COMMAND...     {"do": "new" | "load" | "begin" | "choose" | "cancel" | "look", ...}

What it shows is kept as `model_editor` does it, from the updates as the SDK has parsed them.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "editors"))

import acp
from acp.schema import AllowedOutcome, DeniedOutcome, Implementation
from model_editor import ModelEditor, Shown

LINE_BYTES = 1 << 24


class SdkClient(acp.Client):
    """Keeps what it shows in one list. A question for permission is open until it is answered or its call ends."""

    def __init__(self) -> None:
        self.model = ModelEditor()
        self.shown = Shown()
        self.questions: dict[str, tuple[list[Any], asyncio.Future[str]]] = {}
        self.stop = ""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        fields = update.model_dump(by_alias=True, exclude_none=True, mode="json")
        self.model.apply(self.shown, fields, 0)
        if fields.get("status") in ("completed", "failed") and (open := self.questions.pop(fields["toolCallId"], None)):
            open[1].cancel()

    async def request_permission(self, session_id: str, tool_call: Any, options: list[Any], **_: Any) -> Any:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.questions[tool_call.tool_call_id] = (options, answer)
        try:
            outcome: Any = AllowedOutcome(outcome="selected", option_id=await answer)
        except asyncio.CancelledError:
            outcome = DeniedOutcome(outcome="cancelled")
        return acp.RequestPermissionResponse(outcome=outcome)

    def on_connect(self, conn: Any) -> None:
        pass

    def look(self) -> dict[str, Any]:
        calls = [[one.fields.get("status"), one.fields.get("title"), one.text] for one in self.shown.calls.values()]
        options = [option.name for options, _ in self.questions.values() for option in options]
        texts = [[role, text] for role, text in self.shown.messages.values()]
        return {"texts": texts, "calls": calls, "questions": options, "stop": self.stop}

    def choose(self, name: str) -> None:
        for call, (options, answer) in list(self.questions.items()):
            answer.set_result(next(option.option_id for option in options if option.name == name))
            del self.questions[call]


async def prompt(client: SdkClient, agent: Any, session: str, text: str) -> None:
    try:
        answer = await agent.prompt(session_id=session, prompt=[acp.text_block(text)])
        client.stop = answer.stop_reason
    except acp.RequestError as error:
        client.stop = str(error)


async def serve() -> None:
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    client, folder, session, prompts = SdkClient(), str(Path.cwd()), "", set()
    async with acp.spawn_agent_process(
        client, *sys.argv[1:], env=dict(os.environ), transport_kwargs={"limit": LINE_BYTES}
    ) as (agent, _):
        info = Implementation(name="sdk", version="1")
        await agent.initialize(protocol_version=acp.PROTOCOL_VERSION, client_info=info)
        async for line in reader:
            order = json.loads(line)
            match order["do"]:
                case "new":
                    session = (await agent.new_session(cwd=folder, mcp_servers=[])).session_id
                case "load":
                    session = order["session"]
                    await agent.load_session(cwd=folder, session_id=session, mcp_servers=[])
                case "begin":
                    client.stop = ""
                    prompts.add(asyncio.create_task(prompt(client, agent, session, order["text"])))
                case "choose":
                    client.choose(order["name"])
                case "cancel":
                    await agent.cancel(session_id=session)
            sys.stdout.write(json.dumps({"session": session, **client.look()}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(serve())
