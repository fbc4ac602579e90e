-- A gateway on another machine has the database, but not the folder in which the files of messages lay.

-- The content of stored files, in pieces of 256 KiB that are written in order: a file whose last piece is there is
-- whole. In a ledger that is a file this table stays empty, because its files lie beside it (data_dir/blobs/<id>).
CREATE TABLE blob_piece(
  blob TEXT NOT NULL REFERENCES blob(id) ON DELETE CASCADE,
  n INTEGER NOT NULL,              -- which piece, from 0
  data BLOB NOT NULL,
  PRIMARY KEY(blob, n)
) STRICT, WITHOUT ROWID;
