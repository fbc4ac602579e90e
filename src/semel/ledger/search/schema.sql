-- The search index: built from the ledger, and rebuilt if it is lost. It holds words, not texts.

CREATE TABLE about(
  one INTEGER PRIMARY KEY CHECK(one = 1),
  ledger TEXT NOT NULL             -- the ledger's own name: an index belongs to one ledger
) STRICT;

-- The rev up to which each session is indexed.
CREATE TABLE session(
  id INTEGER PRIMARY KEY,          -- the ledger's
  key TEXT NOT NULL,
  rev INTEGER NOT NULL
) STRICT;

-- The entries that can be found, by the ledger's entry id.
CREATE TABLE doc(
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  role TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX doc_entry ON doc(session, seq);
CREATE INDEX doc_at ON doc(at);

CREATE VIRTUAL TABLE word USING fts5(
  text, content='', contentless_delete=1, tokenize="unicode61 remove_diacritics 0 categories 'L* N* Co M*'"
);
