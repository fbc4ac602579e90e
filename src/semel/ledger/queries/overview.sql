-- name: requests_open
-- what waits for an answer: permission requests, and questions of sessions that are not archived, at most :limit; with
-- the newest turn of its session, and when that began (without a turn: when the session did)
-- scans: what is live, which is little: items of running turns, and questions without an answer
-- sorts: these
SELECT {ItemRow i}, s.key, s.title, t.id AS last_turn, coalesce(t.started, s.at) AS started FROM item i INDEXED BY item_live JOIN session s ON s.id = i.session
LEFT JOIN turn t ON t.session = s.id AND t.epoch = (SELECT max(l.epoch) FROM turn l WHERE l.session = s.id)
WHERE i.live = 1 AND (i.kind = 'permission' OR (i.kind = 'ask' AND s.archived IS NULL)) AND s.deleted IS NULL
ORDER BY i.kind DESC, i.id LIMIT :limit

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
-- the last turns of idle sessions, of the newest :newest turns: those that failed, or may have ended without a word;
-- newest first
SELECT {TurnRow t}, s.key, s.title FROM turn t JOIN session s ON s.id = t.session
WHERE t.id > (SELECT max(id) FROM turn) - :newest AND (t.state = 'failed' OR (t.state = 'done' AND t.evidence = 'notice'))
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

-- name: held_parts
-- the :limit newest parts that wait for a person's decision, of sessions that are not deleted
SELECT {PartRow p}, c.session, c.outcome, c.how, c.reason, s.key AS session_key, s.title FROM part p
JOIN claim c ON c.id = p.claim AND c.outcome <> 'quiet' JOIN session s ON s.id = c.session AND s.deleted IS NULL
WHERE p.state = 'held' ORDER BY p.id DESC LIMIT :limit
