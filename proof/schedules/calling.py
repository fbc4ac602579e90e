"""An agent's MCP process: its calls to the gateway, in time, late, twice, and after it should be gone."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from proof.schedules.told import Prompted, Told
from proof.schedules.wires import Gone

if TYPE_CHECKING:
    from proof.schedules.agents import Process

Json = dict[str, Any]
FAR_OFF = "0 0 1 1 *"
"""A schedule that does not fall due while a plan runs."""


class McpProcess:
    """Of one agent process; it may outlive it."""

    def __init__(self, agent: Process) -> None:
        self.agent, self.disk, self.launch = agent, agent.disk, agent.launch

    async def send(self, one: Prompted, step: Json) -> None:
        """`send_message`. With "late" the agent announces the call and ends its turn; the call comes so much later."""
        agent, announced = self.agent, step.get("announced", True)
        text = agent.words_of(one, f"send{step['send']}")
        arguments = {"text": text, **({"to": step["to"]} if step.get("to") else {})}
        told = Told(text, "send", step.get("to"))
        one.told.append(told)
        call = self._call("s", arguments)
        if announced:
            await agent.emit({"sessionUpdate": "tool_call", **call, "status": "in_progress"})
        agent.past.begin_call(call)
        if step.get("asks"):
            await agent.ask_for_ours(call)
        params = self._params("send_message", arguments, call["toolCallId"])
        if late := step.get("late"):
            params["meta"] = {"claudecode/toolUseId": call["toolCallId"]}
            agent.outside.run(self._send_late(told, params, late), f"late call {call['toolCallId']}")
            return
        told.answer = await self.call(params, step.get("twice", False))
        told.whole = True
        done = {"status": "completed", "content": [{"type": "content", "content": {"type": "text", "text": "sent"}}]}
        if announced:
            await agent.update_call(call["toolCallId"], **done)
        agent.past.end_call(call, done, ours=True)

    async def announce_in_vain(self, one: Prompted, step: Json) -> None:
        """A guard of the agent's own stands before the call: it is announced, and never comes."""
        call = self._call("d", {"text": self.agent.words_of(one, f"send{step['denied']}")})
        await self.agent.emit({"sessionUpdate": "tool_call", **call, "status": "in_progress"})
        await self.agent.update_call(call["toolCallId"], status="failed")
        self.agent.past.end_call(call, {"status": "failed"}, ours=True)

    async def _send_late(self, told: Told, params: Json, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self.agent.alive:
            with contextlib.suppress(Gone):
                told.answer = await self.call(params)

    async def call(self, params: Json, twice: bool | str = False) -> Json | None:
        """Where the first answer is lost it asks again with the same call id. Or it died, and the next process asks
        anew, under ids of its own."""
        answer = None
        for n in range(2 if twice else 1):
            if n and twice == "another process":
                params = {**params, "conn": params["conn"] + "b", "call": params["call"] + "b"}
            try:
                answer = await self.agent.agent.door("call", params)
            except Gone:
                return answer
        with contextlib.suppress(Gone):
            await self.agent.agent.door("answered", {"token": params["token"], "call": params["call"]})
        return answer

    async def speak_as_orphan(self, seconds: float) -> None:
        """It was not killed with its agent, and speaks and acts for a turn that is nobody's any more."""
        await asyncio.sleep(seconds)
        for deed in (self._unasked(f"An orphan of {self.launch.spawn} speaks."), self._schedule()):
            with contextlib.suppress(Gone):
                self.disk.orphans.append(await deed)

    async def insist(self, one: Prompted) -> None:
        """Its agent was cancelled and said so, and calls come all the same."""
        told = Told(self.agent.words_of(one, "insist"), "insist")
        one.told.append(told)
        await asyncio.sleep(0.005 + self.agent.outside.lag(0.5))
        with contextlib.suppress(Gone):
            told.answer = await self._unasked(told.text)
        asked = self.agent.outside.loop.time()
        with contextlib.suppress(Gone):
            self.disk.insisted.append((self.launch.spawn, asked, await self._schedule()))

    async def _unasked(self, text: str) -> Json:
        return await self._act("send_message", {"text": text})

    async def _schedule(self) -> Json:
        """A deed that says nothing."""
        return await self._act("schedule", {"cron": FAR_OFF, "text": f"look again ({self.disk.calls})"})

    async def _act(self, name: str, arguments: Json) -> Json:
        self.disk.calls += 1
        return dict(await self.agent.agent.door("call", self._params(name, arguments, f"o{self.disk.calls}")))

    def _call(self, letter: str, arguments: Json) -> Json:
        """`send_message`, as the agent tells of it."""
        self.disk.calls += 1
        id = f"{letter}{self.launch.spawn}-{self.disk.calls}"
        return {"toolCallId": id, "title": "mcp__semel__send_message", "kind": "other", "rawInput": arguments}

    def _params(self, name: str, arguments: Json, id: str) -> Json:
        return {
            "token": self.launch.token, "conn": f"conn{self.launch.spawn}", "call": id, "name": name,
            "arguments": arguments, "meta": {},
        }  # fmt: skip
