"""What operators do: the books, `semel why`, export, import, erasing deleted sessions."""
