-- What became of each attempt to send a part, so that `semel why` can tell. A part that was sent at once has no row here:
-- its own row says when it left. Rows are written as attempts end.
CREATE TABLE part_attempt(
  part INTEGER NOT NULL REFERENCES part(id),
  n INTEGER NOT NULL,              -- 1, 2 ... in the order of the attempts
  at INTEGER NOT NULL,             -- when it left, in ms
  ended INTEGER NOT NULL,          -- when its outcome was recorded, in ms
  state TEXT NOT NULL              -- what it made of the part
    CHECK(state IN ('queued', 'sending', 'sent', 'rejected', 'unknown', 'held', 'dropped')),
  error TEXT,
  PRIMARY KEY(part, n)
) STRICT, WITHOUT ROWID;
