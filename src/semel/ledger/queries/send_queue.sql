-- The outbox: parts on their way to a platform (Law 7). The terms `state IN ('queued', 'sending', 'unknown')` must be
-- written exactly as in the partial indexes, or SQLite does not use these.

-- name: parts_due
-- What a channel could send or settle now. A part behind the head of its line waits with `due` = PARKED.
-- The index is named: otherwise SQLite sorts all queued parts.
SELECT {PartRow p}, c.session, c.outcome, c.how, c.reason, s.key AS session_key
FROM part p INDEXED BY part_due JOIN claim c ON c.id = p.claim JOIN session s ON s.id = c.session
WHERE p.state IN ('queued', 'sending', 'unknown') AND p.state <> 'sending'
  AND p.channel = :channel AND p.due <= :now
ORDER BY p.due LIMIT :limit

-- name: part_is_due
-- Whether a channel could send or settle something now.
SELECT 1 FROM part INDEXED BY part_due
WHERE state IN ('queued', 'sending', 'unknown') AND state <> 'sending' AND channel = :channel AND due <= :now LIMIT 1

-- name: parts_next_due
-- When a channel has something to do next. Parts that are parked or sending are left out: they wait for no time.
SELECT due FROM part INDEXED BY part_due
WHERE state IN ('queued', 'sending', 'unknown') AND state <> 'sending'
  AND channel = :channel AND due > :now AND due < :parked
ORDER BY due LIMIT 1

-- name: line_head
-- The head of a destination's line: the only part that may leave.
SELECT id, state, due FROM part
WHERE dest = :dest AND state IN ('queued', 'sending', 'unknown')
ORDER BY line, id LIMIT 1

-- name: part_get
-- One part, with its session.
SELECT {PartRow p}, c.session, c.outcome, c.how, c.reason, s.key AS session_key
FROM part p JOIN claim c ON c.id = p.claim JOIN session s ON s.id = c.session
WHERE p.id = :id

-- name: part_origin
-- the turn that said a part, and the first event of that turn
-- sorts: the events of one turn
SELECT coalesce(c.turn, r.id) AS turn, h.event FROM part p JOIN claim c ON c.id = p.claim
JOIN turn r ON (r.id = c.root OR (r.root = c.root AND r.attempt > 1)) JOIN hearing h ON h.turn = r.id
WHERE p.id = :id ORDER BY h.seq LIMIT 1

-- name: part_depart
-- An attempt begins: durable before the first byte. `due` is set to the time of this attempt. If `first` differs from
-- it, an earlier attempt may have arrived. So they are made to differ also if both left in the same millisecond, or if
-- the clock was set back.
UPDATE part SET state = :state, attempts = attempts + 1, first = coalesce(first, :now), due = CASE WHEN first >= :now THEN first + 1 ELSE :now END,
  marked = :marked
WHERE id = :id

-- name: part_wait
-- Set when a part is looked at again.
UPDATE part SET due = :due WHERE id = :id

-- name: part_set
-- The new state of a part.
UPDATE part SET state = CAST(:state AS TEXT), due = :due, first = :first, attempts = :attempts, receipt = :receipt, error = :error,
  marked = :marked, failed = :failed, sent_rev = CASE WHEN :state = 'sent' THEN
    coalesce(sent_rev, (SELECT s.rev FROM claim c JOIN session s ON s.id = c.session WHERE c.id = part.claim)) END
WHERE id = :id

-- name: part_attempt_add
-- The outcome of an attempt, behind those of the earlier ones.
INSERT INTO part_attempt(part, n, at, ended, state, error)
SELECT :part, coalesce(max(a.n), 0) + 1, :at, :ended, :state, :error FROM part_attempt a WHERE a.part = :part

-- name: line_take
-- The next place in a destination's line, behind every part there. Who takes a place keeps the row until the commit.
INSERT INTO line(dest, last) VALUES(:dest, 1) ON CONFLICT(dest) DO UPDATE SET last = line.last + 1 RETURNING last

-- name: part_join_tail
-- A part that is resent goes behind all others there (`line_take`).
UPDATE part SET line = :line WHERE id = :id

-- name: part_receipt
-- The platform's id of a part's message, to which an edit or a reaction refers.
SELECT receipt FROM part WHERE id = :id

-- name: part_by_key
-- The part with this idempotency key.
SELECT id FROM part WHERE key = :key

-- name: part_of_receipt
-- the newest part of a channel with this receipt
SELECT id FROM part WHERE receipt = :receipt AND receipt IS NOT NULL AND channel = :channel ORDER BY id DESC LIMIT 1

-- name: part_of_failure
-- the part whose failure this event reported
SELECT id FROM part WHERE failed = :event AND failed IS NOT NULL

-- name: parts_left_sending
-- At start-up: attempts during which the gateway died. One pass over what is in line, once per start.
SELECT id FROM part WHERE state = 'sending' ORDER BY id

-- name: parts_left_unknown
-- At start-up: unknown parts, whose look-ups were interrupted.
SELECT id, channel FROM part WHERE state = 'unknown' ORDER BY id

-- name: parts_unpark
-- At start-up: parts that wait behind a head are looked at again. One pass over what is in line, once per start.
-- scans: what is in line, once per start
UPDATE part INDEXED BY part_due SET due = :now
WHERE state IN ('queued', 'sending', 'unknown') AND state = 'queued' AND due = :parked

-- name: parts_hasten
-- At start-up: parts of a channel whose last attempt failed for a reason that the start may have removed are due.
UPDATE part INDEXED BY part_due SET due = :now
WHERE state IN ('queued', 'sending', 'unknown') AND state = 'queued'
  AND channel = :channel AND due > :now AND due < :parked AND error = :error

-- name: channels_in_line
-- At start-up: the channels of the parts in line. One pass over what is in line, once per start.
-- sorts: few channels
SELECT channel, count(*) AS n FROM part
WHERE state IN ('queued', 'sending', 'unknown') AND due >= 0
GROUP BY channel

-- name: claim_said_again
-- Whether an echo relies on this claim (Law 5).
SELECT 1 FROM claim WHERE echo_of = :claim LIMIT 1

-- name: claim_failed_before
-- Whether another part of this claim failed already, so that a notice has mentioned its echoes.
SELECT 1 FROM part WHERE claim = :claim AND id <> :id AND (state IN ('rejected', 'dropped') OR failed IS NOT NULL) LIMIT 1

-- name: parts_newest
-- A page of parts, newest first.
SELECT {PartRow p}, c.session, c.outcome, c.how, c.reason, s.key AS session_key
FROM part p JOIN claim c ON c.id = p.claim JOIN session s ON s.id = c.session
WHERE p.id < :before ORDER BY p.id DESC LIMIT :limit

-- name: parts_newest_in_state
-- A page of parts in one state, newest first.
SELECT {PartRow p}, c.session, c.outcome, c.how, c.reason, s.key AS session_key
FROM part p JOIN claim c ON c.id = p.claim JOIN session s ON s.id = c.session
WHERE p.state = :state AND p.id < :before ORDER BY p.id DESC LIMIT :limit

-- name: parts_delayed
-- For an operator: heads of lines whose last attempt failed, those that have waited longest first.
-- scans: what is in line
-- sorts: the heads of lines
SELECT {PartRow p}, c.session, c.outcome, c.how, c.reason, s.key AS session_key
FROM part p INDEXED BY part_due JOIN claim c ON c.id = p.claim JOIN session s ON s.id = c.session
WHERE p.state IN ('queued', 'sending', 'unknown') AND p.due < :parked AND p.error IS NOT NULL
ORDER BY p.at LIMIT :limit

-- name: parts_count
-- How many parts are in a state; for states whose number does not grow with the age of the ledger.
SELECT count(*) AS n FROM part WHERE state = :state

-- name: parts_rejected
-- How many messages were rejected since a time, among the :newest parts that were. One that was resent counts once.
-- sorts: those parts
SELECT count(DISTINCT p.id) AS n FROM part p
JOIN claim c ON c.id = p.claim AND c.outcome <> 'quiet'
JOIN part_attempt a ON a.part = p.id AND a.state = 'rejected' AND a.ended >= :since
WHERE p.state = 'rejected'
  AND p.id > coalesce((SELECT o.id FROM part o WHERE o.state = 'rejected' ORDER BY o.id DESC LIMIT 1 OFFSET :newest), 0)

-- name: claims_held_at
-- The claims to a destination of which a part is held, among the :newest parts that are.
-- sorts: those parts
SELECT DISTINCT c.id, c.how, c.kind, c.reason FROM part p JOIN claim c ON c.id = p.claim AND c.outcome <> 'quiet'
WHERE p.state = 'held' AND p.dest = :dest
  AND p.id > coalesce((SELECT o.id FROM part o WHERE o.state = 'held' ORDER BY o.id DESC LIMIT 1 OFFSET :newest), 0)

-- name: held_answers_at
-- The sessions that have their home at a destination, and how many answers of theirs are held there, among the :newest
-- parts that are held. Without questions and notices, and without what the restore of a backup (:restored) has put into
-- doubt.
-- sorts: those parts
SELECT c.session, s.key, count(DISTINCT p.claim) AS messages, min(p.at) AS first
FROM part p JOIN claim c ON c.id = p.claim AND c.outcome = 'said' AND c.how <> 'notice' AND c.kind <> 'ask'
JOIN session s ON s.id = c.session AND s.home = p.dest AND s.deleted IS NULL
WHERE p.state = 'held' AND p.dest = :dest AND p.at > :restored
  AND p.id > coalesce((SELECT o.id FROM part o WHERE o.state = 'held' ORDER BY o.id DESC LIMIT 1 OFFSET :newest), 0)
GROUP BY c.session, s.key

-- name: rejected_answers_at
-- The answers to a destination, said by sessions that have their home there, of which a part was rejected since a time,
-- among the :newest parts that were: each with the end of its last such attempt, whether a part of it is in line, and
-- whether one was sent. Oldest first. Without questions and notices.
-- sorts: those parts
SELECT c.session, s.key, c.id AS claim, min(p.at) AS first, max(a.ended) AS ended, min(p.error) AS error,
  max(CASE WHEN EXISTS (
    SELECT 1 FROM part q WHERE q.claim = p.claim AND q.state IN ('queued', 'sending', 'unknown')
  ) THEN 1 ELSE 0 END) AS in_line,
  max(CASE WHEN EXISTS (
    SELECT 1 FROM part q WHERE q.claim = p.claim AND q.dest = p.dest AND q.state = 'sent' AND q.failed IS NULL
  ) THEN 1 ELSE 0 END) AS has_sent
FROM part p JOIN claim c ON c.id = p.claim AND c.outcome = 'said' AND c.how <> 'notice' AND c.kind <> 'ask'
JOIN session s ON s.id = c.session AND s.home = p.dest AND s.deleted IS NULL
JOIN part_attempt a ON a.part = p.id AND a.state = 'rejected' AND a.ended > :since
WHERE p.state = 'rejected' AND p.dest = :dest
  AND p.id > coalesce((SELECT o.id FROM part o WHERE o.state = 'rejected' ORDER BY o.id DESC LIMIT 1 OFFSET :newest), 0)
GROUP BY c.id, c.session, s.key ORDER BY c.id

-- name: missing_requests_at
-- The questions, and the notices about permission requests, that are held or rejected (:state) at the home of their
-- session: each with its entry, oldest first.
-- sorts: those parts
SELECT n.session, s.key, n.seq, n.more, c.kind, min(p.at) AS first, min(p.id) AS part, min(p.error) AS error
FROM part p JOIN claim c ON c.id = p.claim AND c.outcome = 'said'
  AND (c.kind = 'ask' OR (c.how = 'notice' AND c.reason IN ('permission', 'permission.elsewhere')))
JOIN entry n ON n.session = c.session AND n.seq = c.seq
JOIN session s ON s.id = c.session AND s.home = p.dest AND s.deleted IS NULL
WHERE p.state = :state AND p.dest = :dest AND p.at > :restored
  AND p.id > coalesce((SELECT o.id FROM part o WHERE o.state = :state ORDER BY o.id DESC LIMIT 1 OFFSET :newest), 0)
GROUP BY c.id, n.session, s.key, n.seq, n.more, c.kind ORDER BY c.id

-- name: claims_asking_missing
-- The questions, and the notices about permission requests, of which a part is held or rejected (:state), among the
-- :newest parts that are.
-- sorts: those parts
SELECT DISTINCT c.id FROM part p JOIN claim c ON c.id = p.claim AND c.outcome = 'said'
  AND (c.kind = 'ask' OR (c.how = 'notice' AND c.reason IN ('permission', 'permission.elsewhere')))
WHERE p.state = :state
  AND p.id > coalesce((SELECT o.id FROM part o WHERE o.state = :state ORDER BY o.id DESC LIMIT 1 OFFSET :newest), 0)

-- name: messages_held_by_session
-- How many messages each session has of which a part is held, among the :newest parts that are. One that goes to two
-- destinations counts for each in which a part is held.
-- sorts: those parts
SELECT c.session, count(DISTINCT p.claim || ' ' || p.dest) AS n FROM part p JOIN claim c ON c.id = p.claim AND c.outcome <> 'quiet'
WHERE p.state = 'held'
  AND p.id > coalesce((SELECT o.id FROM part o WHERE o.state = 'held' ORDER BY o.id DESC LIMIT 1 OFFSET :newest), 0)
GROUP BY c.session

-- name: homes_with_missing_messages
-- At start-up: the destinations of the held or rejected parts (:state) of both.
-- sorts: those parts
SELECT DISTINCT p.dest
FROM part p JOIN claim c ON c.id = p.claim AND c.outcome = 'said'
  AND (c.how <> 'notice' OR c.reason IN ('permission', 'permission.elsewhere'))
JOIN session s ON s.id = c.session AND s.home = p.dest AND s.deleted IS NULL
WHERE p.state = :state AND p.at > :restored
  AND p.id > coalesce((SELECT o.id FROM part o WHERE o.state = :state ORDER BY o.id DESC LIMIT 1 OFFSET :newest), 0)

-- name: claims_rejected_at
-- The claims to a destination of which a part was rejected since a time, among the :newest parts that were.
-- sorts: those parts
SELECT DISTINCT c.id, c.how, c.kind, c.reason FROM part p
JOIN claim c ON c.id = p.claim AND c.outcome <> 'quiet'
JOIN part_attempt a ON a.part = p.id AND a.state = 'rejected' AND a.ended >= :since
WHERE p.state = 'rejected' AND p.dest = :dest
  AND p.id > coalesce((SELECT o.id FROM part o WHERE o.state = 'rejected' ORDER BY o.id DESC LIMIT 1 OFFSET :newest), 0)

-- name: messages_in_line
-- How many messages are in a destination's line.
-- sorts: what is in its line
SELECT count(DISTINCT claim) AS n FROM part WHERE dest = :dest AND state IN ('queued', 'sending', 'unknown')

-- name: line_length
-- How many parts are in a destination's line.
SELECT count(*) AS n FROM part WHERE dest = :dest AND state IN ('queued', 'sending', 'unknown')

-- name: claim_noticed
-- whether a notice with this reason went to this destination recently
SELECT 1 FROM claim WHERE dest = :dest AND reason = :reason AND at > :since AND how = 'notice' LIMIT 1

-- name: notices_newest
-- When the newest notice with this reason was added for a destination, and the newest that was not rejected, since a time
SELECT max(c.at) AS newest, max(CASE WHEN NOT EXISTS (
  SELECT 1 FROM part p WHERE p.claim = c.id AND p.state = 'rejected'
) THEN c.at END) AS standing
FROM claim c WHERE c.dest = :dest AND c.reason = :reason AND c.at > :since AND c.how = 'notice'
