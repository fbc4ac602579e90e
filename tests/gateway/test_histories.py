"""What an agent remembers of a lost attempt, held against everything it wrote in it: nothing of it is said twice, and
nothing is lost, however its history tells it (Laws 4, 5, 8, 9)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from gateway_world import World, destination, script, until

from semel.ledger.storage.rows import SessionRow
from semel.ledger.turns import history

Json = dict[str, Any]
SENT, NEW = "First I look at it.", "And this one is new."
PLAIN = ("The lamp is on", "So is the heater.", "42")
KINDS: dict[str, list[Any]] = {
    "said": [SENT],
    "echo": [{"call": "send_message", "arguments": {"text": SENT}}, SENT],
    "reflowed echo": [{"call": "send_message", "arguments": {"text": SENT}}, SENT.replace(" ", "\n")],
    "sent elsewhere": ['<message to="side">For the others.</message>'],
    "sent elsewhere before": [
        {"call": "send_message", "arguments": {"text": "For the others.", "to": "side"}},
        '<message to="side">For the others.</message>',
    ],
    "both": [f'{SENT}<message to="side">For the others.</message>Behind it.'],
    "internal": ["<internal>What now?</internal>"],
    "unclosed": ['<message to="side">For the others, but'],
    "unknown place": ['<message to="nobody">For nobody.</message>'],
    "refused place": ['<message to="closed">Not for you.</message>'],
    "thought": [{"think": "Hm, what now?"}],
    "file named": [f"{SENT} See notes.txt"],
}


def turn(kind: str, at: int, path: Path) -> str:
    """A turn with a block of this kind at this place among plain ones. It ends by a death that waits for `path.go`."""
    blocks = [[text] for text in PLAIN]
    blocks.insert(at, KINDS[kind])
    steps = [step for n, one in enumerate(blocks) for step in (*one, {"tool": f"look {n}"})]
    signs = [{"save": True}, {"touch": f"{path}.saved"}, {"wait": f"{path}.go"}, {"die": 9}]
    return script(*steps, *signs, resume=[{"sleep": 0.01}])


def places_of(shape: str) -> tuple[int, ...]:
    """Where among the plain blocks the one in question stands: a history that is cut or goes on has its own end."""
    return (0, 1, len(PLAIN)) if shape in ("glued", "separate") else (0, len(PLAIN))


def retold(updates: list[Json], shape: str) -> list[Json]:
    """The history of a turn as an agent tells it that stores texts only."""
    prompt = [one for one in updates if one["sessionUpdate"] == "user_message_chunk"]
    texts = [one["content"]["text"] for one in updates if one["sessionUpdate"] == "agent_message_chunk"]
    if "half" in shape:
        texts = texts[: len(texts) // 2 + 1]
        texts[-1] = texts[-1][: max(1, len(texts[-1]) // 2)]
    if "new" in shape:
        texts.append(NEW)
    if "glued" in shape:
        texts = ["".join(texts)]
    chunk = "agent_message_chunk"
    return prompt + [
        {"sessionUpdate": chunk, "content": {"type": "text", "text": text}, "messageId": f"again-{n}"}
        for n, text in enumerate(texts)
    ]


SHAPES = ("glued", "separate", "glued half", "separate half", "glued new", "separate new")


@pytest.mark.parametrize("shape", SHAPES)
async def test_whatever_an_agent_wrote_is_known_in_whatever_way_its_history_tells_it(
    tmp_path: Path, shape: str
) -> None:
    """Each kind of block in three of the shapes, at one place in the turn, which differs from shape to shape."""
    places, at = places_of(shape), SHAPES.index(shape)
    chosen = [(n, kind) for n, kind in enumerate(KINDS) if (n + at + at // 2) % 2 == 0]
    await lose_turns(tmp_path, shape, [(kind, places[(n + at) % len(places)]) for n, kind in chosen])


@pytest.mark.storm
@pytest.mark.parametrize("shape", SHAPES)
async def test_it_is_known_wherever_it_stands_in_the_turn(tmp_path: Path, shape: str) -> None:
    await lose_turns(tmp_path, shape, [(kind, at) for kind in KINDS for at in places_of(shape)])


async def lose_turns(path: Path, shape: str, blocks: list[tuple[str, int]]) -> None:
    """Lose a turn for each (kind of block, place), all at once."""
    places = {**destination("side", "side"), **destination("closed", "closed", allow=("other",))}
    async with World(path, destinations=places, max_live_agents=64) as w:
        wrong = await asyncio.gather(
            *(
                lose(w, f"{kind.replace(' ', '-')}.{at}", turn(kind, at, path / f"{kind}.{at}"), shape)
                for kind, at in blocks
            )
        )
        assert not any(wrong), "\n".join(filter(None, wrong))


async def test_the_half_of_an_echo_that_only_its_agent_remembers_is_no_text_of_its_own(tmp_path: Path) -> None:
    sent = {"call": "send_message", "arguments": {"text": SENT}}
    dies = [{"save": True}, {"sleep": 0.2}, {"die": 9}]
    async with World(tmp_path) as w:
        assert await w.ask(script(sent, SENT[:9], *dies, resume=[{"sleep": 0.01}])) == [SENT]
        assert await w.ask(script(sent, "First of all: no.", *dies, resume=[{"sleep": 0.01}]), "other") == [
            SENT,
            "First of all: no.",
        ]


async def lose(w: World, key: str, prompt: str, shape: str) -> str:
    """Lose a turn, and let its agent remember it in this shape; what is wrong afterwards."""
    sign = w.path / key.replace("-", " ")
    await w.gateway.say(key, prompt)
    await until(_shown(w, key))
    await until(_there(Path(f"{sign}.saved")))
    (path,) = (one for one in (w.path / "agent").glob("*.jsonl") if f"{sign}.saved" in one.read_text())
    updates = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(one) + "\n" for one in retold(updates, shape)))
    shown = await w.texts(key, "agent", "notice")
    Path(f"{sign}.go").touch()
    await w.idle(key)
    after = await w.texts(key, "agent", "notice")
    expected = shown + ([NEW] if "new" in shape else [])
    return "" if after == expected else f"{key}: {after[len(shown) :]} behind {shown}"


def _shown(w: World, key: str) -> Any:
    """Whether all that the turn told until it waits is recorded."""

    async def there() -> bool:
        row = await w.gateway.record.read(lambda tx: tx.one(SessionRow, "session_by_key", key=key))
        deeds = (
            await w.gateway.record.read(history.list_started_calls, row.turn) if row is not None and row.turn else []
        )
        return any(one.title == f"look {len(PLAIN)}" and one.status == "done" for one in deeds)

    return there


def _there(path: Path) -> Any:
    async def there() -> bool:
        return path.exists()

    return there
