-- name: ledger_found
-- create the row of the ledger, with its name
INSERT INTO ledger(one, name, at) VALUES(1, :name, :at)

-- name: ledger_lock
-- locked before something is added of which the whole ledger may hold a limited number, or one of each name
SELECT one FROM ledger WHERE one = 1

-- name: ledger_get
-- the name and position of this ledger
SELECT {LedgerRow} FROM ledger WHERE one = 1

-- name: ledger_copied
-- mark this file as a copy, which is settled before it is used (Law 14); the time of an earlier mark stays
UPDATE ledger SET copied = coalesce(copied, :at), incarnation = CASE WHEN incarnation < :incarnation THEN :incarnation ELSE incarnation END
WHERE one = 1

-- name: ledger_newest
-- when something was last recorded, by the newest row of each table that has a time
SELECT max(n.at) AS at FROM (
  SELECT l.at FROM ledger l WHERE l.one = 1
  UNION ALL SELECT e.at FROM event e WHERE e.id = (SELECT max(id) FROM event)
  UNION ALL SELECT e.at FROM entry e WHERE e.id = (SELECT max(id) FROM entry)
  UNION ALL SELECT c.at FROM claim c WHERE c.id = (SELECT max(id) FROM claim)
  UNION ALL SELECT p.at FROM part p WHERE p.id = (SELECT max(id) FROM part)
  UNION ALL SELECT t.started FROM turn t WHERE t.id = (SELECT max(id) FROM turn)) n

-- name: ledger_heights
-- the newest row id of each table that only grows
SELECT coalesce((SELECT max(id) FROM event), 0) AS event, coalesce((SELECT max(id) FROM entry), 0) AS entry,
  coalesce((SELECT max(id) FROM claim), 0) AS claim, coalesce((SELECT max(id) FROM part), 0) AS part,
  coalesce((SELECT max(id) FROM turn), 0) AS turn

-- name: blobs_in_use
-- a page of the files that this ledger needs
SELECT id, size FROM blob WHERE id > :after AND gone = 0 ORDER BY id LIMIT :limit

-- name: ledger_touch
-- write without changing anything, to see whether the disk takes it
UPDATE ledger SET commits = commits WHERE one = 1

-- name: ledger_count
-- count a commit
UPDATE ledger SET commits = commits + 1 WHERE one = 1 RETURNING commits, incarnation
