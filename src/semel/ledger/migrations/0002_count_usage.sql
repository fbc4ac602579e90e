-- Limits: what turns used, by day, and the sessions that wait because a limit is used up.

ALTER TABLE turn ADD COLUMN day TEXT;         -- of a first attempt: the day that it counts for, in the configured zone
ALTER TABLE turn ADD COLUMN tokens INTEGER;   -- tokens that the agent reported for it; NULL: none reported
ALTER TABLE turn ADD COLUMN cost INTEGER;     -- what it cost by the agent's report, in millionths; NULL: none reported
ALTER TABLE session ADD COLUMN cost INTEGER;  -- the cost that the agent last reported for its whole conversation

-- What was used on one day: by a person, in a session, and in all sessions (subject '').
CREATE TABLE spent(
  day TEXT NOT NULL,               -- 2026-11-25
  scope TEXT NOT NULL CHECK(scope IN ('person', 'session', 'all')),
  subject TEXT NOT NULL,           -- a person's name, CHANNEL:ACCOUNT or 'owner'; a session's key
  turns INTEGER NOT NULL,          -- turns that began; further attempts of a turn do not count
  tokens INTEGER NOT NULL,
  cost INTEGER NOT NULL,           -- in millionths
  unreported INTEGER NOT NULL,     -- attempts that ended without a report of tokens
  PRIMARY KEY(day, scope, subject)
) STRICT, WITHOUT ROWID;

-- A session whose messages wait, because a limit is used up.
CREATE TABLE limited(
  session INTEGER PRIMARY KEY REFERENCES session(id),
  scope TEXT NOT NULL CHECK(scope IN ('person', 'session', 'all')),
  subject TEXT NOT NULL,
  measure TEXT NOT NULL CHECK(measure IN ('turns', 'tokens', 'cost')),
  until INTEGER NOT NULL,          -- when the limit's day ends
  event INTEGER NOT NULL,          -- the newest waiting event that people were told about
  at INTEGER NOT NULL
) STRICT;
