-- name: event_add
-- heard for the first time, or nothing at all (Law 1)
INSERT INTO event(source, key, kind, sender, digest, payload, at)
VALUES(:source, :key, :kind, :sender, :digest, :payload, :at)
ON CONFLICT(source, key) WHERE key IS NOT NULL DO NOTHING RETURNING id

-- name: event_known
-- the first hearing of a key
SELECT id, digest, repeats FROM event WHERE source = :source AND key = :key AND key IS NOT NULL

-- name: event_repeat
-- the same again
UPDATE event SET repeats = repeats + 1 WHERE id = :id

-- name: event_get
-- one event
SELECT id, source, key, kind, sender, digest, payload, at, repeats FROM event WHERE id = :id

-- name: conflict_add
-- the same key with other content is kept beside the first
INSERT INTO conflict(event, digest, payload, at) VALUES(:event, :digest, :payload, :at)
ON CONFLICT(event, digest) DO UPDATE SET repeats = repeats + 1

-- name: conflicts_of
-- what contradicted an event
-- sorts: the conflicts of one key
SELECT id, digest, payload, at, repeats FROM conflict WHERE event = :event ORDER BY id

-- name: hearing_add
-- an event addressed to a session
INSERT INTO hearing(event, session, seq, wakes, busy) VALUES(:event, :session, :seq, :wakes, :busy)

-- name: hearings_of_event
-- where an event was heard, and which turn took it
SELECT h.session, s.key, h.seq, h.wakes, h.busy, h.turn, t.state, t.attempt, t.root
FROM hearing h JOIN session s ON s.id = h.session LEFT JOIN turn t ON t.id = h.turn WHERE h.event = :event

-- name: cursor_get
-- how far a source was read
SELECT value FROM cursor WHERE source = :source

-- name: cursor_set
-- read up to here
INSERT INTO cursor(source, value, at) VALUES(:source, :value, :at)
ON CONFLICT(source) DO UPDATE SET value = :value, at = :at
