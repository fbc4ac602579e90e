-- name: event_by_key
-- the newest event with this key, from any source
-- sorts: one row for each source that gave this key
SELECT id FROM event WHERE key = :key ORDER BY id DESC LIMIT 1

-- name: part_by_receipt
-- the newest part with this receipt, on any channel
SELECT id FROM part WHERE receipt = :receipt AND receipt IS NOT NULL ORDER BY id DESC LIMIT 1

-- name: parts_of_claim
-- the parts of an utterance
SELECT {PartRow} FROM part WHERE claim = :claim ORDER BY n

-- name: part_of_newest_edit
-- the operation by which an utterance was edited last
-- sorts: the edits of one utterance
SELECT p.op FROM claim c JOIN part p ON p.claim = c.id WHERE c.edits = :claim AND c.edits IS NOT NULL AND c.outcome = 'said'
ORDER BY c.id DESC, p.n DESC LIMIT 1

-- name: attempts_of_part
-- the recorded attempts to send a part
SELECT {PartAttemptRow} FROM part_attempt WHERE part = :part ORDER BY n

-- name: turn_of_epoch
-- a session's turn with this epoch
SELECT {TurnRow} FROM turn WHERE session = :session AND epoch = :epoch
