-- What was used on a day, and sessions that wait because a limit is used up.

-- name: spent_add
-- something was used by a person and in a session. A scope without a subject is left out. It returns nothing, because
-- RETURNING would cost three times as much as the rest
WITH used(scope, subject) AS (VALUES('person', :person), ('session', :session))
INSERT INTO spent(day, scope, subject, turns, tokens, cost, unreported)
SELECT :day, used.scope, used.subject, :turns, :tokens, :cost, :unreported FROM used WHERE used.subject IS NOT NULL
ON CONFLICT(day, scope, subject) DO UPDATE SET turns = spent.turns + excluded.turns, tokens = spent.tokens + excluded.tokens,
  cost = spent.cost + excluded.cost, unreported = spent.unreported + excluded.unreported

-- name: spent_get
-- what was used on a day by one person or in one session
SELECT turns, tokens, cost FROM spent WHERE day = :day AND scope = :scope AND subject = :subject

-- name: spent_in_all
-- what was used on a day in all sessions together. It is no row of its own: every turn would have to wait for it
SELECT coalesce(CAST(sum(turns) AS BIGINT), 0) AS turns, coalesce(CAST(sum(tokens) AS BIGINT), 0) AS tokens,
  coalesce(CAST(sum(cost) AS BIGINT), 0) AS cost, 'all' AS scope, '' AS subject,
  coalesce(CAST(sum(unreported) AS BIGINT), 0) AS unreported, count(*) AS sessions
FROM spent WHERE day = :day AND scope = 'session'

-- name: spent_on
-- what was used on a day by people and in sessions; the list goes on after a scope and a subject
SELECT turns, tokens, cost, scope, subject, unreported FROM spent
WHERE day = :day AND (scope, subject) > (:scope, :subject) AND scope <> 'all' ORDER BY scope, subject LIMIT :limit

-- name: turn_root_day
-- the day for which a turn's first attempt counts
SELECT day FROM turn WHERE id = :root

-- name: session_cost
-- the cost that the agent last reported for its whole conversation
UPDATE session SET cost = :cost WHERE id = :id

-- name: askers_waiting
-- who sent the events for which a session is to be woken, and the newest of them from each
-- sorts: the senders of what waits in one session
SELECT e.source, e.kind, e.payload ->> '$.data.from.person' AS person, e.payload ->> '$.data.from.id' AS account,
  e.payload ->> '$.data.from.role' AS role, max(h.event) AS newest
FROM hearing h JOIN event e ON e.id = h.event
WHERE h.session = :session AND h.turn IS NULL AND h.wakes = 1 GROUP BY 1, 2, 3, 4, 5 ORDER BY newest

-- name: limited_get
-- why a session waits, if a limit is the reason
SELECT session, scope, subject, measure, until, event, at FROM limited WHERE session = :session

-- name: limited_put
-- a session waits because a limit is used up
INSERT INTO limited(session, scope, subject, measure, until, event, at)
VALUES(:session, :scope, :subject, :measure, :until, :event, :at)
ON CONFLICT(session) DO UPDATE SET scope = excluded.scope, subject = excluded.subject, measure = excluded.measure,
  until = excluded.until, event = excluded.event

-- name: limited_drop
-- a session waits no more
DELETE FROM limited WHERE session = :session

-- name: limited_sessions
-- the sessions that wait for a limit, by id. Each is then changed by itself: another gateway's may have joined them
SELECT session FROM limited WHERE session > :after ORDER BY session

-- name: limited_all
-- the sessions that wait because a limit is used up
SELECT l.session, s.key, l.scope, l.subject, l.measure, l.until, l.at FROM limited l JOIN session s ON s.id = l.session
WHERE l.session > :after AND s.wake_at IS NOT NULL ORDER BY l.session LIMIT :limit

-- name: limited_again
-- let a session that waits for a limit ask again: its limit may have been raised
UPDATE session SET wake_at = :now WHERE id = :id AND wake_at IS NOT NULL
