-- name: book_accepted_bound
-- an accepted event is waiting, or is bound to a turn of its session that is not lost
SELECT h.event, h.session, h.turn, t.state FROM hearing h LEFT JOIN turn t ON t.id = h.turn
WHERE h.turn IS NOT NULL AND (t.id IS NULL OR t.state = 'lost' OR t.session <> h.session)

-- name: book_accepted_addressed
-- an accepted event has exactly one use: it is addressed to sessions, as an event for the agent or as a command, and
-- has an entry there; or it reported that a part failed; or it is quarantined
SELECT e.id AS event FROM event e LEFT JOIN hearing h ON h.event = e.id LEFT JOIN command c ON c.event = e.id
LEFT JOIN quarantine q ON q.event = e.id LEFT JOIN part p ON p.failed = e.id AND p.failed IS NOT NULL
LEFT JOIN entry n ON n.session = coalesce(h.session, c.session) AND n.seq = coalesce(h.seq, c.seq) AND n.event = e.id
WHERE CASE WHEN h.event IS NULL THEN 0 ELSE 1 END + CASE WHEN c.event IS NULL THEN 0 ELSE 1 END
    + CASE WHEN q.event IS NULL THEN 0 ELSE 1 END + CASE WHEN p.id IS NULL THEN 0 ELSE 1 END <> 1
  OR (n.id IS NULL) <> (q.event IS NOT NULL OR p.id IS NOT NULL)

-- name: book_entry_heard
-- n messages in = n entries: an entry's event is addressed to the entry's session, and has no second entry there
SELECT n.session, n.event, count(*) AS entries FROM entry n
LEFT JOIN hearing h ON h.event = n.event AND h.session = n.session LEFT JOIN command c ON c.event = n.event AND c.session = n.session
WHERE n.event IS NOT NULL GROUP BY n.session, n.event HAVING count(*) <> 1 OR count(h.event) + count(c.event) <> 1

-- name: book_command
-- a command that is done has an answer, which is a later notice of its session; any other command has none
SELECT c.event, c.session, c.name, c.state FROM command c LEFT JOIN entry n ON n.session = c.session AND n.seq = c.answer
WHERE (c.state = 'done') <> (c.answer IS NOT NULL) OR (c.answer IS NOT NULL AND (n.id IS NULL OR n.role <> 'notice' OR n.seq <= c.seq))

-- name: book_deleted
-- a deleted session has nothing to do
SELECT s.key FROM session s LEFT JOIN hearing h ON h.session = s.id AND h.turn IS NULL
LEFT JOIN command c ON c.session = s.id AND c.state = 'open'
WHERE s.deleted IS NOT NULL AND (s.turn IS NOT NULL OR s.wake_at IS NOT NULL OR h.event IS NOT NULL OR c.event IS NOT NULL)

-- name: book_erased
-- nothing is left of content that was deleted, once its erasure is over, or that was aged out
SELECT s.key, e.seq FROM entry e JOIN session s ON s.id = e.session AND e.seq <= s.erased LEFT JOIN erasure x ON x.session = s.id
WHERE x.session IS NULL AND (e.text <> '' OR coalesce(e.more, '{"imported":{}}') <> '{"imported":{}}' OR e.tell <> 0)
UNION ALL
SELECT s.key, c.seq FROM claim c JOIN session s ON s.id = c.session AND c.seq <= s.erased LEFT JOIN erasure x ON x.session = s.id
WHERE x.session IS NULL AND c.text <> ''

-- name: book_files
-- a stored file that an entry, a tool call or an upload names is there and is not being removed; imported entries may
-- lack their files
SELECT h.session, h.seq, h.blob, b.gone FROM holding h LEFT JOIN blob b ON b.id = h.blob
LEFT JOIN entry e ON e.session = h.session AND e.seq = h.seq
WHERE b.gone = 1 OR (b.id IS NULL AND coalesce(e.more, '{}') ->> '$.imported' IS NULL)
UNION ALL
SELECT e.session, e.seq, f.value ->> 'id', NULL FROM entry e, json_each(e.more, '$.files') f
LEFT JOIN holding h ON h.session = e.session AND h.seq = e.seq AND h.blob = f.value ->> 'id'
WHERE e.more LIKE '%"files"%' AND f.value ->> 'id' IS NOT NULL AND h.blob IS NULL
UNION ALL
SELECT NULL, NULL, u.blob, b.gone FROM upload u LEFT JOIN blob b ON b.id = u.blob WHERE b.id IS NULL OR b.gone = 1

-- name: book_said_recorded
-- every said claim has exactly one entry in its session
SELECT c.id AS claim, c.session, count(e.id) AS entries FROM claim c
LEFT JOIN entry e ON e.claim = c.id AND e.session = c.session
WHERE c.outcome = 'said' GROUP BY c.id HAVING count(e.id) <> 1

-- name: book_said_told
-- every said claim has exactly one entry in each other session whose home it reached, if that session existed before
-- (its first entry is older). Imported claims are left out; an imported session exists once its last imported entry is
-- there
SELECT c.id AS claim, s.key AS session, count(e.id) AS entries FROM claim c
JOIN entry own ON own.claim = c.id AND own.session = c.session
JOIN session s ON s.home = c.dest AND s.id <> c.session AND s.deleted IS NULL
JOIN entry first ON first.session = s.id AND first.seq = s.erased + 1 AND first.id < own.id
LEFT JOIN entry e ON e.claim = c.id AND e.session = s.id
WHERE c.outcome = 'said' AND (own.more IS NULL OR own.more ->> 'imported' IS NULL)
  AND (first.more IS NULL OR first.more ->> 'imported' IS NULL OR NOT EXISTS(
    SELECT 1 FROM entry n WHERE n.session = s.id AND n.id > own.id AND n.more ->> 'imported' IS NOT NULL))
GROUP BY c.id, s.id HAVING count(e.id) <> 1

-- name: book_unsaid_unrecorded
-- an echo, a refused claim and a quiet claim have no entry
SELECT c.id AS claim, e.session, e.seq FROM claim c JOIN entry e ON e.claim = c.id WHERE c.outcome <> 'said'

-- name: book_agent_claimed
-- no path speaks without its row: an agent's entry that no longer streams has its claim
SELECT session, seq FROM entry WHERE role = 'agent' AND live = 0 AND claim IS NULL

-- name: book_echo_original
-- an echo names an original that was said (a re-issued call may have been refused); for a block that ends after another
-- prompt joined its turn, one that was said after that
SELECT c.id AS claim, c.echo_of FROM claim c LEFT JOIN claim o ON o.id = c.echo_of
WHERE c.outcome = 'echo' AND (o.id IS NULL OR (o.outcome <> 'said' AND coalesce(c.reason, 'it broke off') = 'it broke off'))
UNION ALL -- a block that ends after another prompt joined its turn is no echo of what was said before that
SELECT c.id, c.echo_of FROM turn t JOIN claim c ON c.root = t.root AND c.turn = t.id
WHERE t.joined IS NOT NULL AND c.outcome = 'echo' AND c.how = 'block' AND c.id > t.joined AND c.echo_of <= t.joined

-- name: book_unsaid_unsent
-- only what was said is sent, apart from placeholders, the part that posts one, and the part that deletes it; and from
-- the edits that take the buttons of a request away, and the reactions that serve as its buttons
SELECT p.id AS part, c.outcome FROM part p JOIN claim c ON c.id = p.claim LEFT JOIN part m ON m.claim = c.id AND m.n = 0
WHERE c.outcome <> 'said' AND NOT (
  c.outcome = 'quiet' AND c.text = '' AND c.reason IN ('reserved', 'filled', 'withdrawn') AND (c.erased IS NOT NULL
    OR (p.n = 0 AND p.op ->> 'kind' = 'post' AND p.op ->> 'text' = '…')
    OR (p.n = 0 AND p.op ->> 'kind' = 'delete' AND p.op ->> 'target' IS NOT NULL AND c.reason = 'withdrawn')
    OR (p.n = 1 AND p.op ->> 'kind' = 'delete' AND CAST(p.op ->> 'target_part' AS BIGINT) = m.id AND c.reason = 'withdrawn')))
AND NOT (
  c.outcome = 'quiet' AND c.text = '' AND (
    (c.kind = 'edit' AND c.reason = 'its buttons are taken away')
    OR (c.kind = 'reaction' AND c.reason = 'its answers are offered as reactions')
  ) AND (c.erased IS NOT NULL OR (
    ((c.kind = 'edit' AND p.op ->> 'kind' = 'edit' AND p.n = 0) OR (c.kind = 'reaction' AND p.op ->> 'kind' = 'react'))
    AND EXISTS(SELECT 1 FROM part b JOIN claim s ON s.id = b.claim WHERE b.id = CAST(p.op ->> 'target_part' AS BIGINT)
      AND s.outcome = 'said' AND s.session = c.session AND b.dest = p.dest)
  ))
)

-- name: book_reserved
-- a placeholder is open only while a turn of its root runs
SELECT c.id AS claim, c.session, c.root FROM claim c
LEFT JOIN turn t ON (t.id = c.root OR (t.root = c.root AND t.attempt > 1)) AND t.state = 'running'
WHERE c.outcome = 'quiet' AND c.reason = 'reserved' AND t.id IS NULL

-- name: book_filled
-- a placeholder that was filled is marked as filled, and was filled by exactly one text
WITH fills AS (SELECT CAST(p.op ->> 'target_part' AS BIGINT) AS mark, count(*) AS n FROM part p WHERE CAST(p.op ->> 'fill' AS TEXT) IN ('true', '1') GROUP BY mark)
SELECT c.id AS claim, c.reason, f.n AS fills FROM claim c JOIN part m ON m.claim = c.id AND m.n = 0 JOIN fills f ON f.mark = m.id
WHERE f.n <> 1 OR c.outcome <> 'quiet' OR c.reason <> 'filled'

-- name: book_parts
-- the parts of each utterance (their cover is checked against its text)
SELECT p.claim, c.text, c.erased, p.n, p.lo, p.hi FROM part p JOIN claim c ON c.id = p.claim ORDER BY p.claim, p.n

-- name: book_sent_receipt
-- a part that was sent has a first attempt
SELECT id AS part FROM part WHERE state = 'sent' AND first IS NULL

-- name: book_order
-- parts stand in line in the order in which their texts were recorded. Exceptions: a text sent by a tool may overtake a
-- block, a text of a lost attempt may be sent after later ones, and a part that a person resends joins the tail
SELECT part, claim, after FROM (SELECT p.id AS part, c.id AS claim,
    max(c.id) OVER (PARTITION BY c.session, p.dest ORDER BY p.line ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS after
  FROM part p JOIN claim c ON c.id = p.claim JOIN session s ON s.id = c.session AND s.home = p.dest
  LEFT JOIN turn t ON t.id = c.turn
  WHERE p.n = 0 AND p.marked = 0 AND c.outcome = 'said' AND c.how <> 'tool' AND coalesce(t.state, '') <> 'lost')
WHERE after > claim

-- name: book_line
-- a part stands at a place that its destination's line gave out
SELECT p.id AS part, p.dest, p.line, l.last FROM part p LEFT JOIN line l ON l.dest = p.dest
WHERE l.last IS NULL OR p.line > l.last OR p.line < 1

-- name: book_behind
-- if a chat got a text after one that is later in the transcript, the text's entry says so (`behind`); a part that a
-- person resends joins the tail and is left out
SELECT part, claim, seq, after FROM (SELECT p.id AS part, c.id AS claim, n.seq, CAST(n.more ->> 'behind' AS BIGINT) AS behind,
    max(n.seq) OVER (PARTITION BY c.session, p.dest ORDER BY p.line ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS after
  FROM part p JOIN claim c ON c.id = p.claim JOIN session s ON s.id = c.session AND s.home = p.dest
  JOIN entry n ON n.session = c.session AND n.seq = c.seq AND n.claim = c.id
  WHERE p.n = 0 AND p.marked = 0 AND c.outcome = 'said' AND n.seq > s.erased)
WHERE after > seq AND after > coalesce(behind, 0)

-- name: book_failed_sent
-- a part that failed later was sent, and an event of kind 'failed' reported it
SELECT p.id AS part, p.state, e.kind FROM part p LEFT JOIN event e ON e.id = p.failed
WHERE p.failed IS NOT NULL AND (p.state <> 'sent' OR e.id IS NULL OR e.kind <> 'failed')

-- name: book_wake
-- a wake is set exactly while a waking event waits
SELECT s.key, s.wake_at, count(h.event) AS waiting FROM session s
LEFT JOIN hearing h ON h.session = s.id AND h.turn IS NULL AND h.wakes = 1
GROUP BY s.id HAVING (s.wake_at IS NOT NULL) <> (count(h.event) > 0)

-- name: book_view_live
-- view text = entry text: only a running turn has entries that still stream
SELECT e.session, e.seq, t.state FROM entry e LEFT JOIN turn t ON t.id = e.turn
WHERE e.live = 1 AND (t.id IS NULL OR t.state <> 'running')

-- name: book_view_pieces
-- view text = entry text: streamed pieces are folded in once their entry or item is final
SELECT p.session, p.rev FROM piece p
LEFT JOIN entry e ON e.session = p.session AND e.seq = p.entry AND e.live = 1
LEFT JOIN item i ON i.id = p.item AND i.live = 1
WHERE e.id IS NULL AND i.id IS NULL

-- name: book_seq
-- seq has no gaps, and nothing is newer than its session
SELECT s.key, s.seq, count(e.id) AS entries, max(e.seq) AS last FROM session s LEFT JOIN entry e ON e.session = s.id
GROUP BY s.id HAVING count(e.id) <> s.seq OR coalesce(max(e.seq), 0) <> s.seq OR coalesce(max(e.rev), 0) > s.rev

-- name: book_call_ended
-- a tool call ends with its turn: no tool call of a turn that is over is pending or running
SELECT i.id AS item, i.session, i.turn, t.state, i.body ->> 'status' AS status FROM item i JOIN turn t ON t.id = i.turn
WHERE i.kind = 'tool' AND t.state <> 'running' AND i.body ->> 'status' IN ('pending', 'running')

-- name: book_turn_running
-- one turn at a time: a turn is running if, and only if, it is its session's current turn
SELECT t.id AS turn, t.session, t.state FROM turn t JOIN session s ON s.id = t.session
WHERE (t.state = 'running') <> (s.turn IS NOT NULL AND s.turn = t.id)

-- name: book_turn_ended
-- a turn has an end time if, and only if, it is not running
SELECT id AS turn, state FROM turn WHERE (state = 'running') <> (ended IS NULL)

-- name: book_root
-- at most three attempts share a root, and at most one of them is not lost
SELECT root, count(*) AS attempts, count(*) FILTER (WHERE state <> 'lost') AS standing FROM turn
GROUP BY root HAVING count(*) > 3 OR count(*) FILTER (WHERE state <> 'lost') > 1

-- name: book_answered
-- a finished turn names a claim or entry that its person can see, later than every message that asked for the turn; only
-- a heartbeat's turn, a turn of a deleted session and an imported turn may end with nothing to see
SELECT t.id AS turn, t.state, t.evidence, t.evidence_row FROM turn t JOIN session s ON s.id = t.session
LEFT JOIN claim c ON c.id = t.evidence_row AND c.root = t.root AND t.evidence NOT IN ('notice', 'stopped')
LEFT JOIN claim o ON o.id = coalesce(c.echo_of, c.id)
LEFT JOIN entry e ON e.session = t.session AND e.seq = CASE WHEN t.evidence IN ('notice', 'stopped') THEN t.evidence_row ELSE o.seq END
LEFT JOIN (SELECT h.turn, max(h.seq) AS seq,
    count(*) FILTER (WHERE v.kind <> 'heartbeat' OR v.source NOT LIKE 'heartbeat:%') AS people
  FROM hearing h JOIN event v ON v.id = h.event WHERE h.wakes = 1 GROUP BY h.turn) a ON a.turn = t.id
WHERE t.state IN ('done', 'failed', 'cancelled') AND NOT coalesce(CASE
  WHEN t.evidence IN ('said', 'asked', 'echo', 'recorded') THEN o.outcome = 'said' AND o.kind IN ('text', 'file', 'ask', 'edit')
    AND e.role = 'agent' AND e.more ->> 'to' IS NULL AND e.seq > coalesce(a.seq, 0)
  WHEN t.evidence = 'notice' THEN e.role = 'notice' AND e.turn = t.id AND e.seq > coalesce(a.seq, 0)
  WHEN t.evidence = 'stopped' THEN e.role = 'user' AND e.event IS NOT NULL
  WHEN t.evidence = 'quiet' THEN t.state = 'done' AND a.people = 0 AND coalesce(c.outcome, 'quiet') = 'quiet'
  WHEN t.evidence = 'imported' THEN a.turn IS NULL
  WHEN t.evidence = 'deleted' THEN s.erased > 0 OR s.deleted IS NOT NULL
END, FALSE)

-- name: book_answered_there
-- if a session's home is a chat, the evidence of its turns' ends has parts for that chat; if all of them were
-- rejected or dropped, a notice says so
SELECT t.id AS turn, t.state, t.evidence, o.id AS claim FROM turn t JOIN session s ON s.id = t.session
LEFT JOIN entry n ON n.session = t.session AND n.seq = t.evidence_row AND t.evidence = 'notice'
LEFT JOIN claim c ON c.id = CASE WHEN t.evidence = 'notice' THEN n.claim ELSE t.evidence_row END
LEFT JOIN claim o ON o.id = coalesce(c.echo_of, c.id)
WHERE t.evidence IN ('said', 'asked', 'echo', 'notice') AND s.home LIKE '_%:%'
  AND s.home NOT LIKE 'web:%' AND s.home NOT LIKE 'terminal:%' AND s.home NOT LIKE 'session:%'
  AND NOT EXISTS(SELECT 1 FROM part p WHERE p.claim = o.id AND p.state NOT IN ('rejected', 'dropped'))
  AND NOT EXISTS(SELECT 1 FROM part p JOIN entry d ON d.session = t.session AND d.role = 'notice'
    WHERE p.claim = o.id AND (d.seq <= s.erased OR CAST(d.more ->> 'part' AS BIGINT) = p.id))

-- name: book_restored
-- after a restore, no part that the copy had in line is sent unless it was marked as doubtful (which counts as an
-- attempt), and no turn of the copy still runs
SELECT r.incarnation, p.id AS part, NULL AS turn, p.state FROM restore r JOIN part p ON p.id <= r.part
WHERE p.state IN ('queued', 'sending') AND p.attempts = 0 AND p.marked = 0
UNION ALL
SELECT r.incarnation, NULL, t.id, t.state FROM restore r JOIN turn t ON t.id <= r.turn WHERE t.state = 'running'

-- name: book_job
-- a job is finished or lost if, and only if, an event reported it; it has an end time if, and only if, it is over
SELECT j.run, j.state, j.event FROM job j LEFT JOIN event e ON e.id = j.event
WHERE (j.state IN ('finished', 'lost')) <> (e.id IS NOT NULL) OR (j.state IN ('asked', 'running')) <> (j.ended IS NULL)

-- name: book_job_ends
-- at most one event reports the end of a job, and the job names that event
SELECT j.run FROM job j JOIN session s ON s.id = j.session JOIN event e ON e.source = 'api:' || s.key
  AND e.key IN (j.run || ':exec.finished', j.run || ':exec.lost')
GROUP BY j.id HAVING count(*) > 1 OR max(e.id) <> coalesce(j.event, 0)

-- name: book_answered_knowingly
-- a request that a person answered had reached the face that answered it before the answer was heard (Law 13)
SELECT i.id AS item, i.session, i.body ->> 'face' AS face FROM item i
LEFT JOIN command c ON c.session = i.session AND c.event = CAST(i.body ->> 'event' AS BIGINT)
LEFT JOIN entry a ON a.session = i.session AND a.seq = c.seq
LEFT JOIN entry n ON n.session = i.session AND n.seq = CAST(i.body ->> 'announced' AS BIGINT)
WHERE i.kind = 'permission' AND i.body ->> 'state' = 'answered' AND i.body ->> 'first' IS NOT NULL AND (
  i.body ->> 'face' IS NULL OR CAST(i.body ->> 'seen' AS BIGINT) < i.born OR (i.body ->> 'face' <> 'api' AND (
    a.id IS NULL OR NOT EXISTS(SELECT 1 FROM part p WHERE p.claim = n.claim) OR EXISTS(
      SELECT 1 FROM part p WHERE p.claim = n.claim
        AND (p.dest <> i.body ->> 'face' OR p.state <> 'sent' OR p.sent_rev IS NULL OR p.sent_rev >= a.born)))))

-- name: book_numbers
-- two requests of a session have no option number in common, and no number is above the session's last one
SELECT i.id AS item, i.session, i.body ->> 'first' AS first FROM item i JOIN session s ON s.id = i.session
LEFT JOIN item o ON o.session = i.session AND o.kind = 'permission' AND o.id = (
  SELECT max(b.id) FROM item b WHERE b.session = i.session AND b.kind = 'permission' AND b.id < i.id AND b.body ->> 'first' IS NOT NULL)
WHERE i.kind = 'permission' AND i.body ->> 'first' IS NOT NULL AND (
  CAST(i.body ->> 'first' AS BIGINT) > s.numbers
  OR CAST(i.body ->> 'first' AS BIGINT) + json_array_length(i.body, '$.options') - 1 > s.numbers
  OR CAST(o.body ->> 'first' AS BIGINT) + 1 > CAST(i.body ->> 'first' AS BIGINT)
  OR CAST(o.body ->> 'first' AS BIGINT) + json_array_length(o.body, '$.options') > CAST(i.body ->> 'first' AS BIGINT))

-- name: book_spent
-- what is counted for a day in a session is what the turns that began on it used
-- (a deleted session whose key was imported again is KEY~deleted-ID, with at most 170 characters of its key)
SELECT coalesce(d.day, t.day) AS day, coalesce(d.subject, t.subject) AS subject, d.turns, d.tokens, d.cost,
  t.turns AS began, t.tokens AS reported, t.cost AS charged
FROM (
  SELECT day, substr(subject, 1, 170) AS subject, sum(turns) AS turns, sum(tokens) AS tokens, sum(cost) AS cost
  FROM spent WHERE scope = 'session' GROUP BY 1, 2
) d FULL JOIN (
  SELECT r.day, substr(CASE WHEN s.key LIKE '%~deleted-' || s.id
      THEN substr(s.key, 1, length(s.key) - length('~deleted-' || s.id)) ELSE s.key END, 1, 170) AS subject,
    count(DISTINCT r.id) AS turns, coalesce(sum(a.tokens), 0) AS tokens, coalesce(sum(a.cost), 0) AS cost
  FROM turn r JOIN turn a ON a.root = r.id JOIN session s ON s.id = r.session WHERE r.day IS NOT NULL GROUP BY 1, 2
) t ON t.day = d.day AND t.subject = d.subject
WHERE (d.turns, d.tokens, d.cost) IS DISTINCT FROM (t.turns, t.tokens, t.cost)

-- name: book_limited
-- a session that waits for a limit has told people so, after one of the messages that wait in it
SELECT s.key, l.event FROM limited l JOIN session s ON s.id = l.session
LEFT JOIN hearing h ON h.event = l.event AND h.session = l.session
WHERE h.event IS NULL OR (h.turn IS NULL AND NOT EXISTS (
  SELECT 1 FROM entry n WHERE n.session = l.session AND n.seq > h.seq AND n.role = 'notice'
    AND (n.seq <= s.erased OR n.more ->> 'kind' = 'limit.waits')))

-- name: ledger_counts
-- the number of rows of each kind
SELECT (SELECT count(*) FROM session) AS sessions, (SELECT count(*) FROM event) AS events,
  (SELECT count(*) FROM turn) AS turns, (SELECT count(*) FROM entry) AS entries,
  (SELECT count(*) FROM claim) AS claims, (SELECT count(*) FROM part) AS parts,
  (SELECT count(*) FROM quarantine) AS quarantined
