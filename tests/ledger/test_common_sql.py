"""The statements are written in the SQL that SQLite and PostgreSQL share, where the two have a common way to say it."""

from __future__ import annotations

import re

import pytest

from each_case import for_each
from semel.ledger.storage.sql import Query, queries

_NOT_CODE = re.compile(r"--[^\n]*|'(?:[^']|'')*'", re.S)
SEVERAL = "max and min of several values: write CASE, or a union of rows"
RULES = {
    "iif: write CASE": re.compile(r"\biif\("),
    "a sum of truth values: write count(*) FILTER (WHERE ...)": re.compile(r"\bsum\([^()]*(?:[<>=]| IN | LIKE | IS )"),
    "an addition of truth values: write CASE": re.compile(r"NULL\) \+"),
    "IS with a value: write IS [NOT] DISTINCT FROM": re.compile(r"\bIS (?:NOT )?(?!NULL\b|NOT\b|DISTINCT\b|\()\S"),
    "an upsert of a column without its table": re.compile(r"DO UPDATE SET [^;]*?\b(\w+) = \1 \+"),
    "json_extract: write ->>": re.compile(r"\bjson_extract\("),
    "group_concat and json_group_array: write string_agg": re.compile(r"\b(?:group_concat|json_group_array)\("),
    "a length in bytes: write octet_length": re.compile(r"AS BLOB\)"),
    "instr: write LIKE": re.compile(r"\binstr\("),
    "a number as a truth value: write = 0 or = 1": re.compile(r"\bNOT \w+\.\w+(?! (?:IN|LIKE|IS))\b"),
    "GLOB, REPLACE and rowid": re.compile(r"\bGLOB\b|\bINSERT OR\b|\browid\b"),
}


def faults(sql: str) -> list[str]:
    code = _NOT_CODE.sub("''", sql)
    several = any(_has_several_arguments(code[call.end() :]) for call in re.finditer(r"(?<!\w)(?:max|min)\(", code))
    return [SEVERAL] * several + [rule for rule, pattern in RULES.items() if pattern.search(code)]


def _has_several_arguments(code: str) -> bool:
    """Whether the arguments that begin here have a comma of their own before the parenthesis that ends them."""
    depth = 0
    for char in code:
        if depth == 0 and char in ",)":
            return char == ","
        depth += {"(": 1, ")": -1}.get(char, 0)
    return False


@for_each("query", queries().values())
def test_a_statement_says_it_as_both_engines_do(query: Query) -> None:
    assert faults(query.sql) == []


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE session SET numbers = max(numbers, :last)",
        "SELECT max(coalesce((SELECT max(id) FROM event), 0), at) FROM ledger",
        "SELECT iif(a = 1, 2, 3)",
        "SELECT sum(state IN ('a', 'b')) FROM part",
        "SELECT sum(state <> 'lost') FROM turn",
        "SELECT 1 WHERE (a IS NOT NULL) + (b IS NOT NULL) <> 1",
        "SELECT 1 FROM entry WHERE more ->> 'kind' IS NOT 'command'",
        "SELECT 1 FROM claim WHERE turn IS :turn",
        "INSERT INTO conflict(event) VALUES(:event) ON CONFLICT(event) DO UPDATE SET repeats = repeats + 1",
        "INSERT OR REPLACE INTO event(id) VALUES(:id)",
        "SELECT 1 FROM entry WHERE json_extract(more, '$.imported') IS NULL",
        "SELECT group_concat(state) FROM part",
        "SELECT length(CAST(text AS BLOB)) FROM entry",
        "SELECT 1 FROM session WHERE instr(home, ':') > 1",
        "SELECT 1 FROM entry e WHERE NOT e.superseded",
    ],
)
def test_the_test_itself_sees_what_only_one_engine_takes(sql: str) -> None:
    assert len(faults(sql)) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT coalesce(max(id), 0) FROM part",
        "SELECT max(seq), sum(size) FROM entry WHERE a IS NOT NULL AND b IS DISTINCT FROM :b",
        "SELECT coalesce(sum(octet_length(e.text)), 0) FROM entry e -- max(a, b)",
        "SELECT max(c.id) OVER (PARTITION BY c.session, p.dest) FROM claim c",
    ],
)
def test_the_test_itself_lets_what_both_take_pass(sql: str) -> None:
    assert faults(sql) == []
