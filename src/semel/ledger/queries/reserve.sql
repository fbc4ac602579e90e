-- Placeholders. The terms `reason = 'reserved' AND outcome = 'quiet'` must be written exactly as in the partial index,
-- or SQLite does not use it.

-- name: reserved_at
-- the open placeholders at a destination
-- sorts: one row for each turn that streams there
SELECT c.id, c.session, c.root, p.id AS part, p.state, p.receipt, p.sent_rev FROM claim c INDEXED BY claim_reserved
JOIN part p ON p.claim = c.id AND p.n = 0
WHERE c.dest = :dest AND c.reason = 'reserved' AND c.outcome = 'quiet' ORDER BY c.id

-- name: reserved_for
-- the open placeholders of a root
-- sorts: one row for each destination it streams to
SELECT c.id, c.session, c.root, p.id AS part, p.state, p.receipt, p.sent_rev FROM claim c INDEXED BY claim_root
JOIN part p ON p.claim = c.id AND p.n = 0
WHERE c.root = :root AND c.root IS NOT NULL AND c.reason = 'reserved' AND c.outcome = 'quiet' ORDER BY c.id

-- name: previewed_in_root
-- the cut-off texts of other attempts of a root that were seen in its placeholder and not sent; if a claim is given,
-- only older ones
-- sorts: the texts of one turn
SELECT c.id, c.text FROM claim c INDEXED BY claim_root JOIN entry e ON e.session = c.session AND e.seq = c.seq
WHERE c.root = :root AND c.root IS NOT NULL AND c.how = 'recovery' AND c.outcome = 'said' AND c.dest IS NULL
  AND c.turn IS DISTINCT FROM :turn AND (c.id < :before OR :before IS NULL) AND e.rev > :sent AND e.partial = 1 AND e.superseded = 0
  AND NOT EXISTS(SELECT 1 FROM part p WHERE p.claim = c.id) ORDER BY c.id

-- name: reserved_message
-- a placeholder that is open and may have arrived: its receipt, once it is known
SELECT p.receipt, s.key AS session_key FROM part p JOIN claim c ON c.id = p.claim JOIN session s ON s.id = c.session
WHERE p.id = :part AND p.state IN ('queued', 'sending', 'unknown', 'sent') AND c.reason = 'reserved' AND c.outcome = 'quiet'

-- name: claim_because
-- set the reason of a claim, of a placeholder or of a notice that was dropped: what became of it
UPDATE claim SET reason = :reason WHERE id = :id

-- name: part_second
-- the part that deletes a placeholder
SELECT id FROM part WHERE claim = :claim AND n = 1

-- name: part_op
-- send a part as another operation, because its placeholder cannot be edited
UPDATE part SET op = :op WHERE id = :id

-- name: event_answered
-- the last message to which a root responds, if it came by that channel and its session's home is that destination
-- sorts: the messages of one turn
SELECT h.event FROM turn t JOIN session s ON s.id = t.session AND s.home = :dest
JOIN hearing h ON h.turn = t.id AND h.turn IS NOT NULL JOIN event e ON e.id = h.event
WHERE (t.id = :root OR (t.root = :root AND t.attempt > 1)) AND e.kind = 'message' AND e.source = :source AND e.key IS NOT NULL
ORDER BY h.wakes DESC, h.seq DESC LIMIT 1
