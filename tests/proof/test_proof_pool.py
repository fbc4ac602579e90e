"""Work spread over two processes: all of it comes back, and no process stays, however it is left."""

from __future__ import annotations

import multiprocessing
import os

import pytest

from proof.machines.pool import spread

pytestmark = pytest.mark.proof

_told: list[str] = []


def _set_up(word: str) -> None:
    _told.append(word)


def _long(n: int) -> tuple[int, str]:
    """More than a pipe holds, so that whoever is ended is often ended in the middle of it."""
    return n, "".join(_told) * 100_000


def _refuse(n: int) -> int:
    raise ValueError(f"not {n}")


def _die(n: int) -> int:
    os._exit(3)


def test_everything_comes_back_once_and_each_process_is_set_up() -> None:
    found = sorted(spread(_long, range(20), _set_up, "ab"))
    assert found == [(n, "ab" * 100_000) for n in range(20)]
    assert not multiprocessing.active_children()


def test_left_early_it_ends_at_once_again_and_again() -> None:
    for _ in range(20):
        results = spread(_long, range(20), _set_up, "ab")
        next(results)
        results.close()  # type: ignore[attr-defined]
        assert not multiprocessing.active_children()


@pytest.mark.parametrize(("work", "fault"), [(_refuse, ValueError), (_die, EOFError)])
def test_what_goes_wrong_in_a_process_comes_out(work: object, fault: type[Exception]) -> None:
    with pytest.raises(fault):
        list(spread(work, range(4), _set_up, "ab"))  # type: ignore[arg-type]
    assert not multiprocessing.active_children()
