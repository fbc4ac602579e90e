"""So often an hour: for one, for all, and never more memory than that."""

from __future__ import annotations

from semel.gateway.inbound.strangers import HOUR_MS, HourlyLimit


def test_one_may_so_often_and_all_so_often_and_an_hour_later_again() -> None:
    limit = HourlyLimit(2, 3)
    for n, name in enumerate(("a", "a", "b")):
        assert not limit.is_full(name, n)
        limit.count(name, f"k{n}", n)
        assert limit.is_counted(name, f"k{n}")
    assert limit.is_full("a", 10) and limit.is_full("c", 10)
    assert limit.is_full("c", HOUR_MS - 1)
    assert not limit.is_full("c", HOUR_MS) and limit.is_full("b", HOUR_MS) is False
    assert not limit.is_counted("a", "k0") and limit.is_counted("a", "k1")
    assert not limit.is_counted("b", "k1")


def test_it_remembers_no_more_than_it_counts() -> None:
    limit = HourlyLimit(1, 10)
    for n in range(100_000):
        if not limit.is_full(f"name{n}", n * 100):
            limit.count(f"name{n}", "k", n * 100)
    assert len(limit._occurrences) <= 10 and len(limit._counts) <= 10
