"""What each engine offers to copy a ledger out of it and into it (`semel.ledger.copy_ledger`).

A copy has two ends. The source is held like a gateway holds it, so that nobody writes to it, and is marked as moved at
the end. The target is marked as unfinished before anything is written to it, and no gateway starts on it until the mark
is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from semel.ledger.storage.sql import Tx

T = TypeVar("T")

RowValues = tuple[int | float | str | bytes | None, ...]
"""The values of a row, in the order of its table's columns."""


@dataclass(frozen=True)
class Table:
    """A table of the ledger.

    `types`: of each column, as the schema names it: INTEGER, REAL, TEXT or BLOB. `key`: the columns of its primary key,
    by which its rows are ordered; both engines order texts by their bytes.
    """

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def column_list(self) -> str:
        return ", ".join(f'"{column}"' for column in self.columns)

    @property
    def key_list(self) -> str:
        return ", ".join(f'"{column}"' for column in self.key)


class LedgerReader:
    """A ledger whose rows are read table by table. Nobody else writes to it.

    `failures`: what its methods raise if disk, network or server fail.
    """

    failures: ClassVar[tuple[type[Exception], ...]] = ()

    def count_rows(self, table: Table) -> int:
        raise NotImplementedError

    def read_rows(self, table: Table) -> Iterator[RowValues]:
        """Yield the rows of a table in the order of its key."""
        raise NotImplementedError

    def has_file(self, id: str, size: int) -> bool:
        """Whether the ledger itself holds the content of a file of `size` bytes. One that is a file never does."""
        return False

    def read_file(self, id: str) -> Iterator[bytes]:
        """Yield the content of a file that the ledger holds, piece by piece."""
        raise NotImplementedError

    def run(self, fn: Callable[[Tx], T]) -> T:
        """Return the result of a function that reads in a transaction."""
        raise NotImplementedError

    def close(self) -> None:
        """Let others use the ledger again."""
        raise NotImplementedError


class CopySource(LedgerReader):
    """The ledger that is copied. `moved_to`: the copy that was made of it before; None if there is none."""

    moved_to: str | None

    def mark_moved(self, target: str) -> None:
        """Let no gateway start on this ledger any more. Durable on return.

        Raises an error if another gateway could have written to the ledger since this source was opened.
        """
        raise NotImplementedError


class CopyTarget(LedgerReader):
    """An empty place, or one where a copy was interrupted.

    `is_unfinished`: a copy was interrupted here. `replaced`: in how many values of the rows that were written a
    character was replaced that the engine cannot store.
    """

    is_unfinished: bool
    replaced: int
    holds_files: ClassVar[bool] = False
    """Whether the content of files belongs into the ledger, not beside it."""

    def begin(self, source: str) -> None:
        """Mark the place as unfinished, remove what an interrupted copy left, and make empty tables."""
        raise NotImplementedError

    def adapt_rows(self, table: Table, rows: Iterable[RowValues]) -> Iterator[RowValues]:
        """Yield the rows as this engine stores them."""
        yield from rows

    def write_rows(self, table: Table, rows: Iterable[RowValues]) -> None:
        """Add rows to an empty table."""
        raise NotImplementedError

    def complete(self) -> None:
        """Build the indexes, check the references, let ids continue, and make all rows durable."""
        raise NotImplementedError

    def write_file(self, id: str, pieces: Iterable[bytes]) -> None:
        """Store the pieces of a file's content in the ledger (`semel.ledger.file_pieces`). Durable on return.

        Call it after `complete`. If iterating over `pieces` fails, nothing is stored.
        """
        raise NotImplementedError

    def finish(self) -> None:
        """Remove the mark: from now on, this is a ledger like any other. Durable on return."""
        raise NotImplementedError
