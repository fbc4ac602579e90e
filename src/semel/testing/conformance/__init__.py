"""Check that a channel keeps Semel's promises: one of Semel's own channels, or yours.

Write a `Rig`, which says how your platform is started, where the channel finds it, how a person writes there and what
people see. Then every check is one test:

    from semel.testing.conformance import Rig, checks

    @pytest.mark.parametrize("check", checks(PigeonRig), ids=lambda check: check.__name__)
    async def test_pigeons_are_honest(check, tmp_path):
        await check(PigeonRig(), tmp_path)

A check takes the rig and a directory. If a promise was broken, it raises ConformanceError, whose message says which.
Faults come from proxies that the suite puts before your platform (`semel.testing.conformance.proxy`). Gateways that are
killed are real ones, each in a process of its own. The long check is `storm`: it sends 200 messages while gateways are
killed and answers are dropped, then compares what your platform shows with the ledger. It returns a `Tally`, a row of
the table in docs/proof.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from semel.gateway.ports import Safety
from semel.testing.conformance import attempts, catching_up, lookups, outcomes, receiving
from semel.testing.conformance.rig import ConformanceError, Front, HttpFront, Rig, TcpFront
from semel.testing.conformance.storms import Tally, storm
from semel.testing.http_requests import HttpRequest

__all__ = [
    "Check", "ConformanceError", "Front", "HttpFront", "HttpRequest", "Rig", "Tally", "TcpFront", "checks", "storm",
]  # fmt: skip

Check = Callable[[Rig, Path], Awaitable[Any]]


def checks(rig: type[Rig]) -> list[Check]:
    """Return the checks, other than `storm`, that apply to the rig's channel by the class attributes of the rig."""
    applicable: list[Check] = [
        attempts.each_call_of_send_is_one_attempt_whatever_goes_wrong,
        outcomes.what_send_says_of_an_attempt_is_true,
        attempts.a_refused_connection_is_provably_not_sent,
        attempts.an_edit_made_twice_is_one_edit,
    ]
    if rig.http and rig.definite is not None:
        applicable.append(outcomes.a_refusal_in_the_words_of_the_platform_is_rejected)
    if rig.http and (rig.definite == 200 or rig.not_now is not Rig.not_now):
        applicable.append(outcomes.a_not_now_in_the_words_of_the_platform_is_not_sent)
    if rig.safety is Safety.IDEMPOTENT:
        applicable.append(attempts.a_key_that_is_sent_again_is_folded)
    if rig.finds:
        applicable += [
            lookups.what_was_sent_is_found_and_what_was_not_is_not_across_pages,
            lookups.a_lookup_without_a_clear_answer_does_not_prove_that_nothing_was_sent,
        ]
    if rig.hears:
        applicable += [
            catching_up.what_the_channel_sent_is_not_put_as_a_message_of_a_person,
            catching_up.run_ends_with_offline_when_the_platform_is_lost,
        ]
    if rig.hears and rig.backfills:
        applicable += [
            catching_up.online_is_called_only_once_everything_missed_was_put,
            catching_up.what_a_failed_put_did_not_keep_is_put_again,
        ]
    if rig.hears or rig.hooked:
        applicable += [
            receiving.a_gateway_killed_between_receiving_and_committing_loses_nothing_and_hears_nothing_twice,
            receiving.what_the_platform_tells_three_times_is_heard_once,
        ]
    if rig.hears and rig.backfills:
        applicable.append(receiving.an_outage_leaves_no_gap_though_more_was_missed_than_a_page_holds)
    return applicable
