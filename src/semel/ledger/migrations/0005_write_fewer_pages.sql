-- A turn writes fewer pages to the log: a page for each table and index that it changes, in each commit.

-- A first attempt is its own root, so it is found by its id. Only further attempts need the index.
DROP INDEX turn_root;
CREATE INDEX turn_root ON turn(root) WHERE attempt > 1;

-- The rows of `hearing` are small: the table is its own primary key. Within a session, events are in the order of their
-- entries; ids of events are not in that order in every engine.
CREATE TABLE hearing_by_key(
  event INTEGER NOT NULL REFERENCES event(id),
  session INTEGER NOT NULL REFERENCES session(id),
  seq INTEGER NOT NULL,            -- its entry
  wakes INTEGER NOT NULL,          -- 0 or 1
  turn INTEGER,                    -- NULL: waiting
  busy TEXT,                       -- the busy mode by which it waits, if it is shown as waiting
  PRIMARY KEY(event, session)
) STRICT, WITHOUT ROWID;
INSERT INTO hearing_by_key(event, session, seq, wakes, turn, busy)
SELECT event, session, seq, wakes, turn, busy FROM hearing ORDER BY event, session;
DROP TABLE hearing;
ALTER TABLE hearing_by_key RENAME TO hearing;
CREATE INDEX hearing_waiting ON hearing(session, seq) WHERE turn IS NULL;
CREATE INDEX hearing_turn ON hearing(turn, seq) WHERE turn IS NOT NULL;
