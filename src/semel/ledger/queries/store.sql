-- name: ledger_found
-- the ledger's own name, fixed at its creation
INSERT INTO ledger(one, name, at) VALUES(1, :name, :at)

-- name: ledger_get
-- which ledger this is
SELECT {LedgerRow} FROM ledger WHERE one = 1

-- name: ledger_copied
-- this file is a copy: whoever starts from it settles it first (Law 14); what it says of an earlier copy stays
UPDATE ledger SET copied = coalesce(copied, :at), incarnation = max(incarnation, :incarnation) WHERE one = 1

-- name: ledger_newest
-- when something was recorded last, as far as rows with a time tell
SELECT max(coalesce((SELECT at FROM event WHERE id = (SELECT max(id) FROM event)), 0), coalesce((SELECT at FROM entry WHERE id = (SELECT max(id) FROM entry)), 0),
  coalesce((SELECT at FROM claim WHERE id = (SELECT max(id) FROM claim)), 0), coalesce((SELECT at FROM part WHERE id = (SELECT max(id) FROM part)), 0),
  coalesce((SELECT started FROM turn WHERE id = (SELECT max(id) FROM turn)), 0), at) AS at
FROM ledger WHERE one = 1

-- name: ledger_heights
-- the newest row of each table that only grows
SELECT coalesce((SELECT max(id) FROM event), 0) AS event, coalesce((SELECT max(id) FROM entry), 0) AS entry,
  coalesce((SELECT max(id) FROM claim), 0) AS claim, coalesce((SELECT max(id) FROM part), 0) AS part,
  coalesce((SELECT max(id) FROM turn), 0) AS turn

-- name: blobs_in_use
-- the files that a copy of the ledger needs, a page at a time
SELECT id, size FROM blob WHERE id > :after AND gone = 0 ORDER BY id LIMIT :limit

-- name: ledger_count
-- one commit more; which life of the ledger it is in
UPDATE ledger SET commits = commits + 1 WHERE one = 1 RETURNING commits, incarnation
