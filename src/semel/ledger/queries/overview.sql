-- name: sessions_asking
-- sessions whose running turn waits for an answer to a permission request, with the oldest request that is open
-- scans: the sessions with a turn, which are few
SELECT s.key, s.title, t.id AS turn, t.started AS at, r.body FROM session s INDEXED BY session_busy
JOIN turn t ON t.id = s.turn
JOIN item r ON r.id = (SELECT min(i.id) FROM item i WHERE i.session = s.id AND i.live = 1 AND i.kind = 'permission')
WHERE s.turn IS NOT NULL

-- name: sessions_running
-- sessions with a running turn, and since when it runs
-- scans: the sessions with a turn, which are few
SELECT s.key, s.title, s.agent, t.id AS turn, t.started AS at
FROM session s INDEXED BY session_busy JOIN turn t ON t.id = s.turn WHERE s.turn IS NOT NULL AND t.retry_at IS NULL

-- name: sessions_put_off
-- sessions whose turn failed and waits for its next attempt
-- scans: the sessions with a turn, which are few
SELECT s.key, s.title, t.id AS turn, t.retry_at AS at, t.attempt, t.error
FROM session s INDEXED BY session_busy JOIN turn t ON t.id = s.turn
WHERE s.turn IS NOT NULL AND t.retry_at IS NOT NULL

-- name: turn_shows
-- whether an agent has shown anything in a turn
SELECT 1 WHERE EXISTS(SELECT 1 FROM item WHERE turn = :turn)
  OR EXISTS(SELECT 1 FROM entry WHERE turn = :turn AND role = 'agent')

-- name: turns_left
-- the last turns of idle sessions, of the newest :newest turns: those that failed, asked a question, or may have ended
-- without a word; newest first. (min: PostgreSQL would look for an EXISTS in all claims at once)
SELECT {TurnRow t}, s.key, s.title,
  (SELECT min(c.id) FROM claim c WHERE c.root = t.root AND c.kind = 'ask' AND c.outcome = 'said') AS asked
FROM turn t JOIN session s ON s.id = t.session
WHERE t.id > (SELECT max(id) FROM turn) - :newest AND (t.state = 'failed' OR (t.state = 'done' AND (t.evidence = 'notice' OR
    (SELECT min(c.id) FROM claim c WHERE c.root = t.root AND c.kind = 'ask' AND c.outcome = 'said') IS NOT NULL)))
  AND s.turn IS NULL AND s.wake_at IS NULL AND s.deleted IS NULL AND s.archived IS NULL
  AND NOT EXISTS(SELECT 1 FROM turn n WHERE n.session = t.session AND n.epoch > t.epoch) ORDER BY t.id DESC

-- name: agents_last_turns
-- of each agent, the newest turn that failed or ended by itself, if it is one of the newest :newest turns; a turn that
-- the last restore ended, at :restored, says nothing of its agent
-- sorts: these turns
SELECT {TurnRow t}, s.agent, s.key FROM turn t JOIN session s ON s.id = t.session
WHERE t.id IN (SELECT max(n.id) FROM turn n JOIN session m ON m.id = n.session
  WHERE n.id > (SELECT max(id) FROM turn) - :newest AND n.state IN ('done', 'failed') AND m.deleted IS NULL
    AND coalesce(n.ended, 0) <> :restored GROUP BY m.agent)

-- name: sessions_limited
-- sessions that wait because a limit is used up, those that waited longest first
-- scans: the sessions that wait for a limit, which are few
-- sorts: these
SELECT s.key, s.title, l.scope, l.subject, l.measure, l.until, l.at FROM limited l JOIN session s ON s.id = l.session
WHERE s.wake_at IS NOT NULL AND s.turn IS NULL ORDER BY l.at

-- name: sessions_with_requests
-- the sessions in which a permission request or a question is open, at most :limit, the newest first
-- scans: what is live, which is little: items of running turns, and questions without an answer
-- sorts: these
SELECT DISTINCT i.session FROM item i INDEXED BY item_live
WHERE i.live = 1 AND i.kind IN ('permission', 'ask') ORDER BY i.session DESC LIMIT :limit

-- name: sessions_failed
-- the idle sessions whose last turn failed, of the newest :newest turns
SELECT t.session FROM turn t JOIN session s ON s.id = t.session
WHERE t.id > (SELECT max(id) FROM turn) - :newest AND t.state = 'failed'
  AND s.turn IS NULL AND s.wake_at IS NULL AND s.deleted IS NULL AND s.archived IS NULL
  AND NOT EXISTS(SELECT 1 FROM turn n WHERE n.session = t.session AND n.epoch > t.epoch) ORDER BY t.id DESC
