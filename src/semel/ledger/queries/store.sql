-- name: ledger_found
-- create the row of the ledger, with its name
INSERT INTO ledger(one, name, at) VALUES(1, :name, :at)

-- name: ledger_get
-- the name and position of this ledger
SELECT {LedgerRow} FROM ledger WHERE one = 1

-- name: ledger_copied
-- mark this file as a copy, which is settled before it is used (Law 14); the time of an earlier mark stays
UPDATE ledger SET copied = coalesce(copied, :at), incarnation = max(incarnation, :incarnation) WHERE one = 1

-- name: ledger_newest
-- when something was last recorded, by the newest row of each table that has a time
SELECT max(coalesce((SELECT at FROM event WHERE id = (SELECT max(id) FROM event)), 0), coalesce((SELECT at FROM entry WHERE id = (SELECT max(id) FROM entry)), 0),
  coalesce((SELECT at FROM claim WHERE id = (SELECT max(id) FROM claim)), 0), coalesce((SELECT at FROM part WHERE id = (SELECT max(id) FROM part)), 0),
  coalesce((SELECT started FROM turn WHERE id = (SELECT max(id) FROM turn)), 0), at) AS at
FROM ledger WHERE one = 1

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
