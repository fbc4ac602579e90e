"""Print what `semel import --from` did, or would do."""

from __future__ import annotations

from semel.faces.cli.printing import escape_text, print_remark, print_table
from semel.text.json_types import Json

NAMES = {"openclaw": "OpenClaw", "hermes": "Hermes", "nanoclaw": "NanoClaw"}


def print_report(report: Json) -> None:
    """Print the report of `import_store`."""
    system = NAMES[report["system"]]
    _print_sessions(report)
    _print_people(report)
    _print_schedules(report)
    _print_counts(f"Collapsed, because {system} had it more than once:", report["collapsed"])
    _print_counts("Left out:", report["left_out"])
    if report["unread"]:
        print("\nNot read:")
        for row in report["unread"]:
            print(f"  {escape_text(row['place'])}: {escape_text(row['why'])}")
        if report["more_unread"]:
            print(f"  and {report['more_unread']:,} more")
    _print_remarks(report)


def _print_sessions(report: Json) -> None:
    print_table(
        ("SESSION", "ENTRIES", "STATUS", "TITLE"),
        (
            (row["session"], row["entries"], _describe_status(row), escape_text(row["title"] or ""))
            for row in report["sessions"]
        ),
        "there is no conversation",
        wrapped_columns=("SESSION", "TITLE"),
    )


def _describe_status(row: Json) -> str:
    return f"grown by {row['added']}" if row["status"] == "grown" else str(row["status"])


def _print_people(report: Json) -> None:
    if report["people"]:
        print()
        print_table(
            ("ACCOUNT", "NAME", "STATUS"),
            ((escape_text(row["account"]), escape_text(row["name"] or ""), row["status"]) for row in report["people"]),
            "",
            wrapped_columns=("ACCOUNT",),
        )


def _print_schedules(report: Json) -> None:
    if report["schedules"]:
        print()
        print_table(
            ("SCHEDULE", "WHEN", "STATUS", "SESSION"),
            (
                (
                    row["name"],
                    escape_text(row["when"]),
                    f"{row['status']}, paused" if row.get("paused") else row["status"],
                    row["session"] or "",
                )
                for row in report["schedules"]
            ),
            "",
            wrapped_columns=("SCHEDULE", "SESSION"),
        )


def _print_counts(head: str, counts: dict[str, int]) -> None:
    if counts:
        print(f"\n{head}")
        for kind, count in counts.items():
            print(f"  {count:>7,}  {kind}")


def _print_remarks(report: Json) -> None:
    for kind in ("sessions", "people", "schedules"):
        for row in report[kind]:
            if why := row.get("why"):
                name = row.get("from") or row.get("account") or row.get("name")
                print_remark(f"{escape_text(str(name))}: {escape_text(why)}")
    if any(row.get("paused") for row in report["schedules"]):
        print_remark("A paused schedule fires after: semel schedules resume NAME")
    if report["dry_run"]:
        print_remark("Nothing was changed: this is what an import would do. Without --dry-run it does it")
