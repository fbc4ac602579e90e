-- name: event_by_key
-- the newest event a source gave this key
-- sorts: one row for each source that gave this key
SELECT id FROM event WHERE key = :key ORDER BY id DESC LIMIT 1

-- name: part_by_receipt
-- what a platform gave this id for
SELECT id FROM part WHERE receipt = :receipt AND receipt IS NOT NULL ORDER BY id DESC LIMIT 1

-- name: parts_of_claim
-- the parts an utterance left in
SELECT {PartRow} FROM part WHERE claim = :claim ORDER BY n

-- name: turn_of_epoch
-- the turn a session ran in an epoch
SELECT {TurnRow} FROM turn WHERE session = :session AND epoch = :epoch
