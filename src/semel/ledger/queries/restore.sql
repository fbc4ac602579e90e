-- A ledger that was put back from a copy (Law 14). All of it runs once, before the first start.

-- name: restore_add
-- the copy is settled: from here on this is another life of the ledger
INSERT INTO restore(incarnation, copied, at, part, turn)
SELECT incarnation + 1, copied, :at, coalesce((SELECT max(id) FROM part), 0), coalesce((SELECT max(id) FROM turn), 0)
FROM ledger WHERE one = 1
RETURNING incarnation

-- name: ledger_settled
-- it is no copy any more
UPDATE ledger SET incarnation = :incarnation, copied = NULL WHERE one = 1

-- name: restore_last
-- the newest time that this ledger was put back
SELECT incarnation, copied, at, part, turn FROM restore WHERE incarnation = (SELECT max(incarnation) FROM restore)

-- name: sessions_put_back
-- agents may remember more than the record, so each begins a memory of its own; revs that watchers hold mean nothing now,
-- and numbers of permission requests that people were shown since the copy must not be used again (Law 13)
UPDATE session SET memory = NULL, memory_chapter = NULL, lease = NULL, rev = max(rev, :rev),
  numbers = numbers + :numbers
WHERE id BETWEEN :first AND :last

-- name: sessions_page
-- sessions, a page at a time
SELECT id FROM session WHERE id > :after ORDER BY id LIMIT :limit

-- name: parts_in_line
-- what was on its way
-- scans: what is in line, once
-- sorts: the same
SELECT id FROM part INDEXED BY part_line WHERE state IN ('queued', 'sending', 'unknown') ORDER BY id

-- name: parts_held_of
-- what of a session waits for a person's word
SELECT count(*) AS n FROM part p INDEXED BY part_state JOIN claim c ON c.id = p.claim WHERE p.state = 'held' AND c.session = :session

-- name: part_doubted
-- it may have left after the copy was made; to be in doubt counts as an attempt
UPDATE part SET first = coalesce(first, :since), attempts = max(attempts, 1) WHERE id = :id

-- name: reserved_all
-- messages that are reserved and say nothing yet
-- scans: one row for each turn that streams
SELECT c.id, p.id AS part FROM claim c INDEXED BY claim_reserved JOIN part p ON p.claim = c.id AND p.n = 0
WHERE c.reason = 'reserved' AND c.outcome = 'quiet'
