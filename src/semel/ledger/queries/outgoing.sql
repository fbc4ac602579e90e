-- The outbox: parts on their way to a platform (Law 7). The terms `state IN ('queued', 'sending', 'unknown')`
-- stand here exactly as in the partial indexes, or SQLite would not use them.

-- name: parts_due
-- What a channel could send or settle now. Parts behind the head of their line wait with `due` = parked.
-- The index is named: the planner would rather sort all that is queued.
SELECT {PartRow p}, c.session, c.outcome, c.how, c.reason, s.key AS session_key
FROM part p INDEXED BY part_due JOIN claim c ON c.id = p.claim JOIN session s ON s.id = c.session
WHERE p.state IN ('queued', 'sending', 'unknown') AND p.state <> 'sending'
  AND p.channel = :channel AND p.due <= :now
ORDER BY p.due LIMIT :limit

-- name: parts_next_due
-- When a channel has something to do next; what is parked or sending has no time of its own.
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

-- name: part_depart
-- Durable before the first byte. `due` keeps when this attempt left: where `first` differs, an earlier one may have arrived
-- (also where both left in one millisecond, or the clock was set back).
UPDATE part SET state = :state, attempts = attempts + 1, first = coalesce(first, :now), due = max(:now, coalesce(first + 1, :now)),
  marked = :marked
WHERE id = :id

-- name: part_wait
-- Not now.
UPDATE part SET due = :due WHERE id = :id

-- name: part_set
-- What became of it.
UPDATE part SET state = :state, due = :due, first = :first, attempts = :attempts, receipt = :receipt, error = :error,
  marked = :marked, failed = :failed, sent_rev = CASE WHEN :state = 'sent' THEN
    coalesce(sent_rev, (SELECT s.rev FROM claim c JOIN session s ON s.id = c.session WHERE c.id = part.claim)) END
WHERE id = :id

-- name: part_join_tail
-- A resend stands behind everything that is there (a tie with the next new part is settled by id).
UPDATE part SET line = (SELECT max(id) + 1 FROM part) WHERE id = :id

-- name: part_receipt
-- The platform's id of a part: what an edit or a reaction refers to.
SELECT receipt FROM part WHERE id = :id

-- name: part_by_key
-- The part a key belongs to.
SELECT id FROM part WHERE key = :key

-- name: part_of_receipt
-- what a channel gave this receipt for, the newest
SELECT id FROM part WHERE receipt = :receipt AND receipt IS NOT NULL AND channel = :channel ORDER BY id DESC LIMIT 1

-- name: part_of_failure
-- what a platform told of with this event
SELECT id FROM part WHERE failed = :event AND failed IS NOT NULL

-- name: parts_left_sending
-- At start-up: attempts whose gateway died. One pass over what is in line, once per start.
SELECT id FROM part WHERE state = 'sending' ORDER BY id

-- name: parts_left_unknown
-- At start-up: unsettled parts; whoever was looking for them is gone.
SELECT id, channel FROM part WHERE state = 'unknown' ORDER BY id

-- name: parts_unpark
-- At start-up: whatever waits behind a head is looked at afresh. One pass over what is in line, once per start.
-- scans: what is in line, once per start
UPDATE part INDEXED BY part_due SET due = :now
WHERE state IN ('queued', 'sending', 'unknown') AND state = 'queued' AND due = :parked

-- name: channels_in_line
-- At start-up: which channels the waiting parts want. One pass over what is in line, once per start.
-- sorts: few channels
SELECT channel, count(*) AS n FROM part
WHERE state IN ('queued', 'sending', 'unknown') AND due >= 0
GROUP BY channel

-- name: claim_said_again
-- Whether an echo relies on this claim (Law 5).
SELECT 1 FROM claim WHERE echo_of = :claim LIMIT 1

-- name: claim_failed_before
-- Whether another part of this claim failed already, so that its echoes were told of it.
SELECT 1 FROM part WHERE claim = :claim AND id <> :id AND (state IN ('rejected', 'dropped') OR failed IS NOT NULL) LIMIT 1

-- name: parts_newest
-- Parts, newest first, with a page size.
SELECT {PartRow p}, c.session, c.outcome, c.how, c.reason, s.key AS session_key
FROM part p JOIN claim c ON c.id = p.claim JOIN session s ON s.id = c.session
WHERE p.id < :before ORDER BY p.id DESC LIMIT :limit

-- name: parts_newest_in_state
-- Parts of one state, newest first, with a page size.
SELECT {PartRow p}, c.session, c.outcome, c.how, c.reason, s.key AS session_key
FROM part p JOIN claim c ON c.id = p.claim JOIN session s ON s.id = c.session
WHERE p.state = :state AND p.id < :before ORDER BY p.id DESC LIMIT :limit

-- name: parts_count
-- How many parts are in a state: for those that do not grow with the age of the ledger.
SELECT count(*) AS n FROM part WHERE state = :state

-- name: claim_noticed
-- whether people were told this there lately
SELECT 1 FROM claim WHERE dest = :dest AND reason = :reason AND at > :since AND how = 'notice' LIMIT 1
