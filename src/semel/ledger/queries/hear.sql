-- name: event_add
-- add an event; no row if its (source, key) is known (Law 1). Returned with it: whether an item of the session with the
-- key `session` is live
INSERT INTO event(source, key, kind, sender, digest, payload, at)
VALUES(:source, :key, :kind, :sender, :digest, :payload, :at)
ON CONFLICT(source, key) WHERE key IS NOT NULL DO NOTHING
RETURNING id, EXISTS(SELECT 1 FROM session s JOIN item i ON i.session = s.id AND i.live = 1 WHERE s.key = :session) AS has_live_items

-- name: event_known
-- the event that is stored under a (source, key)
SELECT id, digest, repeats FROM event WHERE source = :source AND key = :key AND key IS NOT NULL

-- name: event_repeat
-- count a repeat of an event
UPDATE event SET repeats = repeats + 1 WHERE id = :id

-- name: event_get
-- one event
SELECT {EventRow} FROM event WHERE id = :id

-- name: conflict_add
-- keep other content under the same key beside the first, or count its repeat
INSERT INTO conflict(event, digest, payload, at) VALUES(:event, :digest, :payload, :at)
ON CONFLICT(event, digest) DO UPDATE SET repeats = conflict.repeats + 1

-- name: conflicts_of
-- the conflicts with an event
-- sorts: the conflicts of one key
SELECT id, digest, payload, at, repeats FROM conflict WHERE event = :event ORDER BY id

-- name: conflict_is_new
-- a conflict with an event that came once
SELECT 1 FROM conflict WHERE event = :event AND digest = :digest AND repeats = 0

-- name: hearing_add
-- an event addressed to a session; its turn, if the turn begins in the same transaction
INSERT INTO hearing(event, session, seq, wakes, busy, turn) VALUES(:event, :session, :seq, :wakes, :busy, :turn)

-- name: hearings_of_event
-- the sessions that an event was addressed to, and the turns it is bound to
SELECT h.session, s.key, h.seq, h.wakes, h.busy, h.turn, t.state, t.attempt, t.root
FROM hearing h JOIN session s ON s.id = h.session LEFT JOIN turn t ON t.id = h.turn WHERE h.event = :event

-- name: sessions_of_event
-- the keys of the sessions that an event was addressed to
SELECT s.key FROM hearing h JOIN session s ON s.id = h.session WHERE h.event = :event

-- name: hearing_of_event
-- the first session that an event was addressed to, and the turn that took it there
SELECT session, seq, turn FROM hearing WHERE event = :event ORDER BY session LIMIT 1

-- name: entry_of_person_after
-- whether a person has said something in a session since an entry
SELECT 1 FROM entry WHERE session = :session AND seq > :seq AND role = 'user' LIMIT 1

-- name: report_last
-- the newest report of this source and kind in the session's chapter, among its entries since one. A report that no turn
-- has taken yet is in the chapter of the next turn
SELECT s.chapter, n.seq, n.text FROM entry n JOIN session s ON s.id = n.session JOIN event e ON e.id = n.event
JOIN hearing h ON h.event = n.event AND h.session = n.session LEFT JOIN turn t ON t.id = h.turn
WHERE n.session = :session AND n.seq >= :since AND n.seq >= s.since AND n.role = 'event' AND e.kind = :kind AND e.source = :source
  AND (h.turn IS NULL OR t.chapter = s.chapter)
ORDER BY n.seq DESC LIMIT 1

-- name: report_taken
-- the newest report of this source and kind that a turn of the session's chapter took, among its entries since one
SELECT n.seq, n.text, e.source, t.root FROM entry n JOIN session s ON s.id = n.session JOIN event e ON e.id = n.event
JOIN hearing h ON h.event = n.event AND h.session = n.session JOIN turn t ON t.id = h.turn
WHERE n.session = :session AND n.seq >= :since AND n.seq >= s.since AND n.role = 'event' AND e.kind = :kind AND e.source = :source
  AND t.chapter = s.chapter
ORDER BY n.seq DESC LIMIT 1

-- name: cursor_get
-- the cursor of a source
SELECT value FROM cursor WHERE source = :source

-- name: cursor_set
-- set the cursor of a source
INSERT INTO cursor(source, value, at) VALUES(:source, :value, :at)
ON CONFLICT(source) DO UPDATE SET value = :value, at = :at

-- name: quarantine_add
-- an event that could not be used
INSERT INTO quarantine(event, channel, why) VALUES(:event, :channel, :why)

-- name: quarantine_get
-- why an event could not be used
SELECT why FROM quarantine WHERE event = :event

-- name: quarantine_list
-- events in quarantine, newest first
SELECT q.event, q.channel, q.why, e.key, e.kind, e.sender, e.payload, e.at, e.repeats
FROM quarantine q JOIN event e ON e.id = q.event WHERE q.event < :before ORDER BY q.event DESC LIMIT :limit

-- name: entry_of_event
-- a session's entry for the event with a (source, key)
SELECT n.seq, n.role, n.text, n.more, e.sender, e.payload FROM event e
LEFT JOIN hearing h ON h.event = e.id AND h.session = :session
LEFT JOIN command c ON c.event = e.id AND c.session = :session
JOIN entry n ON n.session = :session AND n.seq = coalesce(h.seq, c.seq)
WHERE e.key = :key AND e.source = :source AND e.key IS NOT NULL

-- name: entry_of_receipt
-- a session's entry for the part with this receipt
SELECT n.seq, n.role, n.text, n.more FROM part p JOIN entry n ON n.claim = p.claim
WHERE p.receipt = :receipt AND p.receipt IS NOT NULL AND p.channel = :channel AND n.session = :session AND n.claim IS NOT NULL
ORDER BY p.id DESC LIMIT 1
