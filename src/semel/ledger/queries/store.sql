-- name: ledger_found
-- the ledger's own name, fixed at its creation
INSERT INTO ledger(one, name, at) VALUES(1, :name, :at)

-- name: ledger_get
-- which ledger this is
SELECT name, at FROM ledger WHERE one = 1
