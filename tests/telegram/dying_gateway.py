"""`semel`, in a process that kills itself (SIGKILL) at one step of a permission request.

    python dying_gateway.py STEP up ...

Each step ends with one thing done and the next not begun; what is done is on the disk, or at the platform.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from semel.agents.acp.conversation import AcpConversation
from semel.channels.telegram.channel import TelegramChannel
from semel.faces.cli import main
from semel.gateway.inbound.commands import Commands
from semel.gateway.outbound.outbox import Outbox
from semel.gateway.record import LedgerAccess
from semel.ledger.inbound import answers
from semel.ledger.turns import show, turn_ops

UNREAD = ("agent asked", "request recorded", "notice leaves")
"""Before what is asked can be seen; at the later steps it was, and from `notice sent` on it was answered."""
READ = ("notice taken", "notice sent", "answer heard", "answer recorded", "agent told")
STEPS = (*UNREAD, *READ)


def die(*_: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def around(owner: Any, name: str, when: Callable[..., bool], *, before: bool) -> None:
    """The method ends the process before or after a call for which `when` is true."""
    method = getattr(owner, name)

    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        if before and when(*args):
            die()
        done = await method(*args, **kwargs)
        if not before and when(*args):
            die()
        return done

    setattr(owner, name, wrapped)


def asks(_: Any, body: Any, *args: Any) -> bool:
    """A batch that records a permission request, with its notice in line."""
    return body is show.show and any(isinstance(op, turn_ops.ItemOpen) and op.kind == "permission" for op in args[2])


def is_notice(_: Any, op: Any) -> bool:
    return str(op.text).startswith("The agent asks for permission")


def is_outcome_of_notice(_: Any, departure: Any, *__: Any) -> bool:
    return "The agent asks for permission" in str(departure)


def arm(step: str) -> None:
    match step:
        case "agent asked":
            around(LedgerAccess, "write", asks, before=True)
        case "request recorded":
            around(LedgerAccess, "write", asks, before=False)
        case "notice leaves":  # it is recorded as sending, and no byte of it left
            around(TelegramChannel, "send", is_notice, before=True)
        case "notice taken":  # the platform has it, and no receipt is recorded
            around(TelegramChannel, "send", is_notice, before=False)
        case "notice sent":
            around(Outbox, "_record", is_outcome_of_notice, before=False)
        case "answer heard":  # and the platform was told so, and nobody has looked at it
            around(Commands, "_execute", lambda _, command: command.name == "approve", before=True)
        case "answer recorded":
            around(LedgerAccess, "write", lambda _, body, *__: body is answers.record_answer, before=False)
        case "agent told":
            around(AcpConversation, "answer", lambda *_: True, before=False)


if __name__ == "__main__":
    arm(sys.argv.pop(1))
    main()
