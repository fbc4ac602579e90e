-- Erasing a deleted session: its content goes, in transactions of a bounded size (Law 11); what the laws need stays.

-- name: erasure_put
-- erase a session's content up to what was deleted
INSERT INTO erasure(session, seq, rev, epoch, stage, at, later)
SELECT s.id, s.erased, s.erased_rev, s.epoch, 'claims', coalesce((SELECT max(c.id) FROM claim c), 0) + 1, 0
FROM session s WHERE s.id = :session
ON CONFLICT(session) DO UPDATE SET seq = excluded.seq, rev = excluded.rev, epoch = excluded.epoch, stage = excluded.stage,
  at = excluded.at, later = 0

-- name: erasure_get
-- how far an erasure has come
SELECT session, seq, rev, epoch, stage, at, later FROM erasure WHERE session = :session

-- name: erasure_move
-- store how far an erasure has come
UPDATE erasure SET stage = :stage, at = :at, later = :later WHERE session = :session

-- name: erasure_drop
-- an erasure is finished
DELETE FROM erasure WHERE session = :session

-- name: erasures_left
-- sessions whose erasure is not finished
SELECT e.session FROM erasure e JOIN session s ON s.id = e.session
WHERE e.session > 0 AND coalesce(s.deleted, 0) <= :deleted ORDER BY e.session

-- name: erase_claims_next
-- a session's claims, newest first
SELECT id, text FROM claim WHERE session = :session AND id < :before ORDER BY id DESC LIMIT :limit

-- name: erase_claim
-- erase a claim's text; the claim and the text's length stay
UPDATE claim SET erased = coalesce(erased, :size), text = '' WHERE id = :id

-- name: erase_part
-- erase what a part sent; its state and its receipt stay
UPDATE part SET op = '{}', error = NULL WHERE id = :id

-- name: erase_attempts
-- erase what the platform said about the attempts to send a part
UPDATE part_attempt SET error = NULL WHERE part = :part

-- name: erase_failure
-- erase the platform's report that a part failed
UPDATE event SET payload = NULL, sender = NULL, erased_at = :at WHERE id = :event

-- name: erase_parts_of
-- the parts of a claim, with columns of its claim and its session
SELECT {PartRow p}, c.session, c.outcome, c.how, c.reason, s.key AS session_key
FROM part p JOIN claim c ON c.id = p.claim JOIN session s ON s.id = c.session
WHERE p.claim = :claim ORDER BY p.n

-- name: erase_events
-- erase events, unless another session has them, too; source, key and digest stay for ever (Law 1)
UPDATE event SET payload = NULL, sender = NULL, erased_at = :at WHERE payload IS NOT NULL AND id IN (
  SELECT e.event FROM entry e WHERE e.session = :session AND e.seq > :lo AND e.seq <= :hi AND e.event IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM hearing h JOIN session o ON o.id = h.session
                  WHERE h.event = e.event AND h.session <> :session AND h.seq > o.erased)
  AND NOT EXISTS (SELECT 1 FROM command c JOIN session o ON o.id = c.session
                  WHERE c.event = e.event AND c.session <> :session AND c.seq > o.erased))

-- name: erase_conflicts
-- erase the contents that conflicted with erased events
UPDATE conflict SET payload = '' WHERE event IN (
  SELECT v.id FROM entry e JOIN event v ON v.id = e.event
  WHERE e.session = :session AND e.seq > :lo AND e.seq <= :hi AND v.payload IS NULL)

-- name: erase_commands
-- erase the arguments of commands
UPDATE command SET argument = '' WHERE session = :session AND event IN (
  SELECT e.event FROM entry e WHERE e.session = :session AND e.seq > :lo AND e.seq <= :hi AND e.event IS NOT NULL)

-- name: erase_entries
-- erase entries; their seq stays, and the mark of an import (a book needs it: nobody here was told that text)
UPDATE entry SET text = '', tell = 0, more = CASE WHEN more ->> 'imported' IS NOT NULL THEN '{"imported":{}}' END
WHERE session = :session AND seq > :lo AND seq <= :hi

-- name: erase_pieces
-- erase streamed text
DELETE FROM piece WHERE session = :session AND rev <= :rev AND rev IN (
  SELECT p.rev FROM piece p WHERE p.session = :session AND p.rev <= :rev ORDER BY p.rev LIMIT :limit)

-- name: erase_turns
-- erase the agents' error messages
UPDATE turn SET error = NULL WHERE session = :session AND epoch > :lo AND epoch <= :hi AND state <> 'running'

-- name: erase_jobs
-- erase the commands that agents ran in the background
UPDATE job SET command = '', name = '', error = NULL WHERE session = :session AND turn IN (
  SELECT t.id FROM turn t WHERE t.session = :session AND t.epoch > :lo AND t.epoch <= :hi)

-- name: erase_items_next
-- the next items to erase
SELECT id FROM item WHERE session = :session AND born <= :rev ORDER BY born LIMIT :limit

-- name: erase_outputs
-- erase tool output, some rows at a time
DELETE FROM output WHERE item = :item AND id IN (SELECT o.id FROM output o WHERE o.item = :item ORDER BY o.id LIMIT :limit)

-- name: erase_item
-- drop an item whose output is gone
DELETE FROM item WHERE id = :id AND NOT EXISTS (SELECT 1 FROM output o WHERE o.item = :id)

-- name: holdings_of
-- the files that a range of entries holds
SELECT blob FROM holding WHERE session = :session AND seq > :lo AND seq <= :hi

-- name: holdings_drop
-- a range of entries holds no files any more
DELETE FROM holding WHERE session = :session AND seq > :lo AND seq <= :hi

-- name: holding_add
-- an entry holds a file
INSERT INTO holding(session, seq, blob) VALUES(:session, :seq, :blob) ON CONFLICT DO NOTHING

-- name: blob_lock
-- locked before `blob_let_go` asks whether an entry or an upload holds the file; who records one changes or locks this
-- row first
SELECT id FROM blob WHERE id = :id

-- name: blob_let_go
-- a file that no entry and no upload holds may be removed
UPDATE blob SET gone = 1 WHERE id = :id AND NOT EXISTS (SELECT 1 FROM holding h WHERE h.blob = :id)
  AND NOT EXISTS (SELECT 1 FROM upload u WHERE u.blob = :id)

-- name: blobs_gone
-- files that may be removed; not those that are being received again, perhaps by another gateway
-- scans: one row per file that is about to be removed
SELECT id FROM blob INDEXED BY blob_gone WHERE gone = 1 AND kept = 0 LIMIT :limit

-- name: blob_drop
-- a file was removed, and so were its objects in object storage
DELETE FROM blob WHERE id = :id AND gone = 1 AND kept = 0
  AND NOT EXISTS (SELECT 1 FROM blob_piece p WHERE p.blob = :id AND p.n < 0)
