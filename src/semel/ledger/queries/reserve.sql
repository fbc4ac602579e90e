-- Messages that are reserved before they say something. The terms `reason = 'reserved' AND outcome = 'quiet'` stand here
-- exactly as in the partial index, or SQLite would not use it.

-- name: reserved_at
-- what is reserved at a destination
-- sorts: one row for each turn that streams there
SELECT c.id, c.session, c.root, p.id AS part, p.state, p.receipt, p.sent_rev FROM claim c INDEXED BY claim_reserved
JOIN part p ON p.claim = c.id AND p.n = 0
WHERE c.dest = :dest AND c.reason = 'reserved' AND c.outcome = 'quiet' ORDER BY c.id

-- name: reserved_for
-- what is reserved for the turns of a root
-- sorts: one row for each destination it streams to
SELECT c.id, c.session, c.root, p.id AS part, p.state, p.receipt, p.sent_rev FROM claim c INDEXED BY claim_root
JOIN part p ON p.claim = c.id AND p.n = 0
WHERE c.root = :root AND c.root IS NOT NULL AND c.reason = 'reserved' AND c.outcome = 'quiet' ORDER BY c.id

-- name: previewed_in_root
-- what the attempts of a root, but for this one, were cut off in and was seen in the message that is reserved there;
-- where a claim is given, only what is older than it
-- sorts: the texts of one turn
SELECT c.id, c.text FROM claim c INDEXED BY claim_root JOIN entry e ON e.session = c.session AND e.seq = c.seq
WHERE c.root = :root AND c.root IS NOT NULL AND c.how = 'recovery' AND c.outcome = 'said' AND c.dest IS NULL
  AND c.turn IS NOT :turn AND (:before IS NULL OR c.id < :before) AND e.rev > :sent AND e.partial = 1 AND e.superseded = 0
  AND NOT EXISTS(SELECT 1 FROM part p WHERE p.claim = c.id) ORDER BY c.id

-- name: reserved_message
-- a reserved message that is not filled or withdrawn yet; its receipt, once it has arrived
SELECT p.receipt, s.key AS session_key FROM part p JOIN claim c ON c.id = p.claim JOIN session s ON s.id = c.session
WHERE p.id = :part AND p.state IN ('queued', 'sending', 'unknown', 'sent') AND c.reason = 'reserved' AND c.outcome = 'quiet'

-- name: claim_because
-- what became of a reservation
UPDATE claim SET reason = :reason WHERE id = :id

-- name: part_second
-- the part that removes a reserved message
SELECT id FROM part WHERE claim = :claim AND n = 1

-- name: part_op
-- it leaves as another operation: what was reserved for it never arrived
UPDATE part SET op = :op WHERE id = :id

-- name: event_answered
-- the message that a root was asked by last, where it came by that channel and is answered at its home
-- sorts: the messages of one turn
SELECT h.event FROM turn t JOIN session s ON s.id = t.session AND s.home = :dest
JOIN hearing h ON h.turn = t.id AND h.turn IS NOT NULL JOIN event e ON e.id = h.event
WHERE t.root = :root AND e.kind = 'message' AND e.source = :source AND e.key IS NOT NULL
ORDER BY h.wakes DESC, h.event DESC LIMIT 1
