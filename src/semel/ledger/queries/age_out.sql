-- Retention: content that is older than its session's policy goes, in transactions of a bounded size (Law 11).

-- name: sessions_to_age
-- sessions that are not deleted, in order; some of them have a policy
SELECT id, key, home FROM session WHERE id > :after AND deleted IS NULL ORDER BY id LIMIT :limit

-- name: age_first_kept
-- the first entry that is not old enough, of those up to `hi`
SELECT seq FROM entry WHERE session = :session AND seq > :lo AND seq <= :hi AND at >= :before ORDER BY seq LIMIT 1

-- name: age_waiting
-- the first entry whose event waits for a turn
SELECT min(seq) FROM hearing WHERE session = :session AND turn IS NULL

-- name: age_command
-- the first entry of a command that has no answer
SELECT min(seq) FROM command WHERE session = :session AND state = 'open'

-- name: age_heard_in_root
-- the first entry whose event is bound to an attempt of this root
SELECT min(h.seq) FROM turn t JOIN hearing h ON h.turn = t.id
WHERE t.id = :root OR (t.root = :root AND t.attempt > 1)

-- name: age_said_in_root
-- the first entry of an attempt of this root
SELECT min(e.seq) FROM turn t JOIN entry e ON e.turn = t.id AND e.session = t.session
WHERE t.id = :root OR (t.root = :root AND t.attempt > 1)

-- name: age_outgoing
-- the first entry with a part that is on its way or held
SELECT e.seq FROM entry e WHERE e.session = :session AND e.seq > :lo AND e.seq <= :hi AND e.claim IS NOT NULL
  AND EXISTS (SELECT 1 FROM part p WHERE p.claim = e.claim AND p.state IN ('queued', 'sending', 'unknown', 'held'))
ORDER BY e.seq LIMIT 1

-- name: age_claims
-- the claims of entries, in their own session
SELECT c.id, c.text FROM entry e JOIN claim c ON c.id = e.claim AND c.session = e.session
WHERE e.session = :session AND e.seq > :lo AND e.seq <= :hi

-- name: age_turns
-- the next turns of a session whose content was not erased
SELECT {TurnRow t} FROM turn t JOIN session s ON s.id = t.session
WHERE t.session = :session AND t.epoch > s.aged_epoch ORDER BY t.epoch LIMIT :limit

-- name: age_turn_last_seq
-- the last entry of a turn: of its events, and of what it said
SELECT max(n.seq) FROM (
  SELECT coalesce(max(h.seq), 0) AS seq FROM hearing h WHERE h.turn = :turn AND h.session = :session
  UNION ALL SELECT coalesce(max(e.seq), 0) FROM entry e WHERE e.turn = :turn AND e.session = :session) n

-- name: age_turn_claims
-- a turn's claims that have no entry and were not erased
SELECT id, text FROM claim WHERE root = :root AND turn = :turn AND seq IS NULL AND erased IS NULL

-- name: age_turn_items
-- a turn's items
SELECT id FROM item WHERE turn = :turn AND session = :session LIMIT :limit

-- name: age_lone_claims
-- the next claims of a session, by which those without an entry and a turn are found
SELECT id, at, turn IS NULL AND seq IS NULL AND erased IS NULL AS lone, text FROM claim
WHERE session = :session AND id > :after ORDER BY id LIMIT :limit

-- name: age_next_born
-- the rev with which the first entry or item appeared that stays
SELECT min(n.born) FROM (
  SELECT s.rev + 1 AS born FROM session s WHERE s.id = :session
  UNION ALL SELECT e.born FROM entry e WHERE e.session = :session AND e.seq = CAST(:seq AS BIGINT) + 1
  UNION ALL SELECT min(i.born) FROM item i WHERE i.session = :session) n

-- name: age_set
-- how far the content of a session was aged out; a title that no person gave may repeat what was said, so it goes, too
UPDATE session SET title = CASE WHEN named = 1 OR erased = :seq THEN title END, erased = :seq,
  erased_rev = CASE WHEN erased_rev < :rev THEN :rev ELSE erased_rev END, aged_epoch = :epoch, aged_claim = :claim WHERE id = :id

-- name: age_turn
-- erase an agent's error message
UPDATE turn SET error = NULL WHERE id = :id AND state <> 'running'

-- name: age_jobs
-- erase the commands that a turn ran in the background and that are over
UPDATE job SET command = '', name = '', error = NULL WHERE session = :session AND turn = :turn AND ended IS NOT NULL

-- name: age_size
-- what would go: entries, the bytes of their texts and of their files
SELECT count(*) AS entries, coalesce(sum(octet_length(e.text)), 0) AS bytes,
  coalesce(sum((SELECT sum(b.size) FROM holding h JOIN blob b ON b.id = h.blob
                WHERE h.session = e.session AND h.seq = e.seq)), 0) AS file_bytes
FROM entry e WHERE e.session = :session AND e.seq > :lo AND e.seq <= :hi

-- name: age_unreadable
-- the next events in quarantine that are old enough
SELECT q.event FROM quarantine q JOIN event e ON e.id = q.event
WHERE q.event > :after AND q.channel = :channel AND e.at < :before ORDER BY q.event LIMIT :limit

-- name: age_event
-- erase the content of one event; source, key and digest stay for ever (Law 1)
UPDATE event SET payload = NULL, sender = NULL, erased_at = :at WHERE id = :id

-- name: age_event_conflicts
-- erase the contents that conflicted with an erased event
UPDATE conflict SET payload = '' WHERE event = :id
