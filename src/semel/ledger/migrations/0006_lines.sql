-- A destination's line has a counter of its own. Before, a part was put behind all parts of the ledger, whose ids need
-- not be in the order of their commits in every engine.

-- The last place that was given out in a destination's line. Who takes a place holds the row until the commit, so the
-- places are in the order of the commits.
CREATE TABLE line(
  dest TEXT PRIMARY KEY,
  last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO line(dest, last) SELECT dest, max(line) FROM part GROUP BY dest;
