"""One test of hundreds of cases that each take less than a millisecond.

    @for_each("name", PROFILES)
    def test_a_thought_is_shown_once(name: str) -> None: ...

`pytest.mark.parametrize` makes a test of each case: every worker of a run lists it, it is set up, taken down and
reported, which costs several times what such a check does. Here every case is checked, too, whichever fail, and the
failure names those that did.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

MAX_SHOWN = 5


def for_each(
    arguments: str, cases: Iterable[Any], name: Callable[[Any], str] = repr
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a test of a check, which is called with each case. Its other arguments are fixtures.

    `arguments`: the argument that gets the case; several with commas between them get the items of a case each.
    `name`: how a failure names a case.
    """
    names = arguments.split(", ")

    def make_test(check: Callable[..., None]) -> Callable[..., None]:
        @wraps(check)
        def test(**fixtures: Any) -> None:
            count, failures = 0, []
            for case in cases:
                count += 1
                values = (case,) if len(names) == 1 else case
                try:
                    check(**dict(zip(names, values, strict=True)), **fixtures)
                except Exception as failure:
                    failure.add_note(f"in the case {name(case)}")
                    failures.append(failure)
            assert count, "there is no case"
            if failures:
                also = "".join(f"\n  {failure.__notes__[-1]}" for failure in failures[MAX_SHOWN:])
                raise ExceptionGroup(f"{len(failures)} of {count} cases fail{also}", failures[:MAX_SHOWN])

        signature = inspect.signature(check)
        fixtures = [parameter for parameter in signature.parameters.values() if parameter.name not in names]
        test.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return test

    return make_test
