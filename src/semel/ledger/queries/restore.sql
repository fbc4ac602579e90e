-- A ledger that was restored from a copy (Law 14). Most of this runs once, when the ledger is settled.

-- name: restore_add
-- record that the copy is settled: a new incarnation begins
INSERT INTO restore(incarnation, copied, at, part, turn)
SELECT incarnation + 1, copied, :at, coalesce((SELECT max(id) FROM part), 0), coalesce((SELECT max(id) FROM turn), 0)
FROM ledger WHERE one = 1
RETURNING incarnation

-- name: ledger_settled
-- this ledger is not an unsettled copy any more
UPDATE ledger SET incarnation = :incarnation, copied = NULL WHERE one = 1

-- name: restore_last
-- the newest restore
SELECT incarnation, copied, at, part, turn FROM restore WHERE incarnation = (SELECT max(incarnation) FROM restore)

-- name: session_put_back
-- agents may remember more than the record, so their memories are forgotten; revs that watchers have become invalid;
-- and option numbers that people may have been shown since the copy are skipped (Law 13)
UPDATE session SET memory = NULL, memory_chapter = NULL, lease = NULL, rev = CASE WHEN rev < :rev THEN :rev ELSE rev END,
  numbers = numbers + :numbers
WHERE id = :id

-- name: sessions_page
-- a page of sessions
SELECT id FROM session WHERE id > :after ORDER BY id LIMIT :limit

-- name: parts_in_line
-- parts that are queued, sending or unknown
-- scans: what is in line, once
-- sorts: the same
SELECT id FROM part INDEXED BY part_line WHERE state IN ('queued', 'sending', 'unknown') ORDER BY id

-- name: parts_held_of
-- how many parts of a session wait for a person's decision
SELECT count(*) AS n FROM part p INDEXED BY part_state JOIN claim c ON c.id = p.claim WHERE p.state = 'held' AND c.session = :session

-- name: part_doubted
-- a part may have been sent after the copy was made; this counts as an attempt
UPDATE part SET first = coalesce(first, :since), attempts = CASE WHEN attempts < 1 THEN 1 ELSE attempts END WHERE id = :id

-- name: reserved_all
-- all open placeholders
-- scans: one row for each turn that streams
SELECT c.id, p.id AS part FROM claim c INDEXED BY claim_reserved JOIN part p ON p.claim = c.id AND p.n = 0
WHERE c.reason = 'reserved' AND c.outcome = 'quiet'
