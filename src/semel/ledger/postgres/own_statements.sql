-- Statements that only this engine runs: its locks, the rows of its workers, and those of the gateways of a cluster.

-- name: lock_sessions
-- the sessions with these ids and keys, those that share a home with one of them, and those with these homes
SELECT {SessionRow s} FROM session s WHERE s.id = ANY(:ids) OR s.key = ANY(:keys) OR s.home = ANY(:homes)
  OR s.home = ANY(ARRAY(SELECT n.home FROM session n WHERE n.id = ANY(:ids) OR n.key = ANY(:keys)))
ORDER BY s.id FOR NO KEY UPDATE

-- name: session_save
-- what a transaction has counted and set in a session that it holds
UPDATE session SET seq = :seq, rev = :rev, wake_at = :wake_at, wake_since = :wake_since, epoch = :epoch, turn = :turn, lease = :lease
WHERE id = :id

-- name: session_save_many
-- the same for several sessions
UPDATE session s SET seq = v.seq, rev = v.rev, wake_at = v.wake_at, wake_since = v.wake_since, epoch = v.epoch, turn = v.turn,
  lease = v.lease
FROM unnest(CAST(:id AS bigint[]), CAST(:seq AS bigint[]), CAST(:rev AS bigint[]), CAST(:wake_at AS bigint[]),
  CAST(:wake_since AS bigint[]), CAST(:epoch AS bigint[]), CAST(:turn AS bigint[]), CAST(:lease AS text[]))
  AS v(id, seq, rev, wake_at, wake_since, epoch, turn, lease)
WHERE s.id = v.id

-- name: worker_mark
-- the number of the transaction under way, which is its last statement. If the worker was dismissed, its reference
-- fails, and the transaction with it
INSERT INTO mark(worker, serial) VALUES(:worker, :serial) ON CONFLICT(worker) DO UPDATE SET serial = excluded.serial

-- name: piece_add_many
-- streamed text, as it was shown, of several entries and items
INSERT INTO piece(session, rev, entry, item, text)
SELECT * FROM unnest(CAST(:session AS bigint[]), CAST(:rev AS bigint[]), CAST(:entry AS bigint[]), CAST(:item AS bigint[]),
  CAST(:text AS text[]))

-- name: entry_grew_many
-- entries grew by pieces
UPDATE entry e SET rev = v.rev FROM (SELECT g.session, g.seq, max(g.rev) AS rev
  FROM unnest(CAST(:session AS bigint[]), CAST(:seq AS bigint[]), CAST(:rev AS bigint[])) AS g(session, seq, rev)
  GROUP BY 1, 2) v
WHERE e.session = v.session AND e.seq = v.seq

-- name: turn_own_root_many
-- make first attempts their own roots
UPDATE turn SET root = id WHERE id = ANY(:id)

-- name: spent_add_many
-- something was used by people and in sessions
INSERT INTO spent(day, scope, subject, turns, tokens, cost, unreported)
SELECT u.day, v.scope, v.subject, CAST(sum(u.turns) AS bigint), CAST(sum(u.tokens) AS bigint), CAST(sum(u.cost) AS bigint),
  CAST(sum(u.unreported) AS bigint)
FROM unnest(CAST(:day AS text[]), CAST(:person AS text[]), CAST(:session AS text[]), CAST(:turns AS bigint[]),
  CAST(:tokens AS bigint[]), CAST(:cost AS bigint[]), CAST(:unreported AS bigint[]))
  AS u(day, person, session, turns, tokens, cost, unreported)
CROSS JOIN LATERAL (VALUES('person', u.person), ('session', u.session)) AS v(scope, subject)
WHERE v.subject IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
ON CONFLICT(day, scope, subject) DO UPDATE SET turns = spent.turns + excluded.turns, tokens = spent.tokens + excluded.tokens,
  cost = spent.cost + excluded.cost, unreported = spent.unreported + excluded.unreported

-- name: lock_every_session
-- all of them: for what runs once at a start, and for a function that is not listed
SELECT s.id FROM session s ORDER BY s.id FOR NO KEY UPDATE

-- name: lock_lines
-- the lines of these destinations. A destination that nothing was sent to yet gets its line here: otherwise there would be
-- no row to lock for whoever sends there first while somebody else adds a session there. WHERE false changes no row that
-- exists, but locks it
INSERT INTO line(dest, last) SELECT d.dest, 0 FROM unnest(CAST(:dests AS text[])) AS d(dest) ORDER BY d.dest
ON CONFLICT(dest) DO UPDATE SET last = line.last WHERE false

-- name: find_session_of_token
-- the session of the process with this fencing token
SELECT session FROM spawn WHERE token = :token

-- name: find_session_of_spawn
-- the session of a process
SELECT session FROM spawn WHERE id = :spawn

-- name: find_session_of_run
-- the session of a background job
SELECT session FROM job WHERE run = :run

-- name: find_sessions_notified_of_requests
-- the sessions in which owners were notified of permission requests of a session: of the open ones, and of the last ones
WITH r AS (SELECT i.body FROM item i WHERE i.session = :session AND i.live = 1 AND i.kind = 'permission'
  UNION ALL (SELECT i.body FROM item i WHERE i.session = :session AND i.kind = 'permission'
  ORDER BY i.id DESC LIMIT :limit))
SELECT o.id FROM r CROSS JOIN LATERAL json_array_elements_text(CAST(r.body AS json) -> 'told') t(key)
JOIN session o ON o.key = t.key

-- name: find_session_of_item
-- the session of a permission request
SELECT session FROM item WHERE id = :item

-- name: find_homes_of_role
-- the direct chat of each person with this role in which they last wrote
SELECT DISTINCT ON (p.name) d.channel || ':' || d.address FROM person p
JOIN direct d ON d.channel = p.channel AND d.account = p.account
WHERE p.role = :role ORDER BY p.name, d.at DESC, d.channel || ':' || d.address DESC

-- name: find_local_session
-- the newest session whose home the commit itself delivers to
SELECT n.id FROM (SELECT s.id, s.home FROM session s WHERE s.archived IS NULL AND s.deleted IS NULL
  ORDER BY s.id DESC LIMIT :limit) n
WHERE n.home NOT LIKE '%:_%' OR split_part(n.home, ':', 1) = ANY(:channels) ORDER BY n.id DESC LIMIT 1

-- name: find_sessions_notified_of_item
-- the session of a permission request, and those in which owners were notified of it
SELECT i.session FROM item i WHERE i.id = :item UNION SELECT o.id FROM item i
CROSS JOIN LATERAL json_array_elements_text(CAST(i.body AS json) -> 'told') t(key) JOIN session o ON o.key = t.key
WHERE i.id = :item

-- name: find_sessions_of_part
-- the sessions that have the text of a part: the one that said it, and those at whose home it is recorded, too
SELECT c.session FROM part p JOIN claim c ON c.id = p.claim WHERE p.id = :part
UNION SELECT e.session FROM part p JOIN entry e ON e.claim = p.claim WHERE p.id = :part

-- name: find_sessions_of_messages
-- the same for messages that a platform reports on, by idempotency key or receipt
WITH m AS (SELECT p.claim FROM part p WHERE p.key = ANY(:names)
  UNION SELECT p.claim FROM part p WHERE p.receipt = ANY(:names) AND p.receipt IS NOT NULL)
SELECT c.session FROM m JOIN claim c ON c.id = m.claim UNION SELECT e.session FROM m JOIN entry e ON e.claim = m.claim

-- name: find_sessions_due
-- the same for the parts which a channel could send or settle now
WITH d AS (SELECT p.claim FROM part p WHERE p.state IN ('queued', 'sending', 'unknown') AND p.channel = ANY(:channels)
  AND p.due <= :now ORDER BY p.due LIMIT :limit)
SELECT c.session FROM d JOIN claim c ON c.id = d.claim UNION SELECT e.session FROM d JOIN entry e ON e.claim = d.claim

-- name: find_dests_due
-- the destinations of these parts
SELECT p.dest FROM part p WHERE p.state IN ('queued', 'sending', 'unknown') AND p.channel = ANY(:channels)
  AND p.due <= :now ORDER BY p.due LIMIT :limit

-- name: find_sessions_in_line
-- the same for the parts which are in line
WITH d AS (SELECT p.claim FROM part p WHERE p.state IN ('queued', 'sending', 'unknown'))
SELECT c.session FROM d JOIN claim c ON c.id = d.claim UNION SELECT e.session FROM d JOIN entry e ON e.claim = d.claim

-- name: find_sessions_with_copies
-- the sessions at whose home those texts of a session are recorded, too, that are erased or aged out next
SELECT e.session FROM (SELECT c.id FROM erasure x JOIN claim c ON c.session = x.session AND c.id < x.at
  WHERE x.session = :session ORDER BY c.id DESC LIMIT :limit) d JOIN entry e ON e.claim = d.id
UNION SELECT n.session FROM session s JOIN entry e ON e.session = s.id AND e.seq > s.erased AND e.seq <= s.erased + :limit
JOIN entry n ON n.claim = e.claim WHERE s.id = :session

-- name: find_other_places
-- the destinations at which the people are told of failures of these sessions' messages
WITH f AS (SELECT s.home AS place FROM session s WHERE s.id = ANY(:ids)
  UNION SELECT t.dest FROM part t WHERE t.id = ANY(:parts))
SELECT DISTINCT o.channel || ':' || o.address FROM f JOIN direct d ON d.channel || ':' || d.address = f.place
JOIN person p ON p.channel = d.channel AND p.account = d.account JOIN person q ON q.name = p.name
JOIN direct o ON o.channel = q.channel AND o.account = q.account

-- name: find_dest_of_part
-- the destination of a part: the next part in its line, which any session may have said, becomes due with its outcome
SELECT dest FROM part WHERE id = ANY(:parts)

-- name: find_sessions_limited
-- the sessions that wait for a limit
SELECT session FROM limited

-- name: worker_add
-- a worker, and its mark
WITH w AS (INSERT INTO worker DEFAULT VALUES RETURNING id) INSERT INTO mark(worker, serial) SELECT id, 0 FROM w RETURNING worker

-- name: worker_read_mark
-- the number of the worker's last transaction; waits for one that still commits
SELECT serial FROM mark WHERE worker = :id FOR UPDATE

-- name: workers_dismiss
-- another gateway takes over: no worker of an earlier one commits any more. Waits for those that commit now
DELETE FROM worker

-- name: member_join
-- a gateway of a cluster, which lives until its lease of so many seconds ends
INSERT INTO member(name, address, host, version, room, token, joined, until)
VALUES(:name, :address, :host, :version, :room, :token, clock_timestamp(), clock_timestamp() + make_interval(secs => :lease))
RETURNING id

-- name: member_renew
-- a gateway lives: its lease begins anew. Returns whether it is the active one, and whether it may write
UPDATE member SET until = clock_timestamp() + make_interval(secs => :lease), agents = :agents WHERE id = :id
RETURNING EXISTS(SELECT 1 FROM active_member a WHERE a.member = member.id),
  EXISTS(SELECT 1 FROM worker w WHERE w.member = member.id)

-- name: members
-- the gateways of a cluster, in the order in which they joined, with what ClusterGateway has of each
SELECT m.id, m.until > clock_timestamp(), EXISTS(SELECT 1 FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE l.locktype = 'advisory' AND l.classid = :lock AND l.objid = m.id AND l.objsubid = 2 AND l.granted
    AND d.datname = current_database()), m.token,
  m.name, m.address, m.host, m.version, a.member IS NOT NULL, CAST(extract(epoch FROM m.joined) * 1000 AS bigint),
  CAST((extract(epoch FROM m.until) - :lease) * 1000 AS bigint), m.serves, m.agents, m.room,
  CAST(greatest(round(:lease - extract(epoch FROM m.until - clock_timestamp()), 1), 0) AS double precision)
FROM member m LEFT JOIN active_member a ON a.member = m.id ORDER BY m.id

-- name: member_lock_joining
-- gateways join one after the other. None has the id 0
SELECT pg_advisory_xact_lock(:lock, 0)

-- name: member_lock
-- try to take the lock that a gateway holds while it lives
SELECT pg_try_advisory_lock(:lock, :id)

-- name: member_find
-- a gateway that was not removed; it is not removed before this transaction ends
SELECT id FROM member WHERE id = :id FOR UPDATE

-- name: member_serve
-- a gateway begins to run turns
UPDATE member SET serves = true WHERE id = :id

-- name: member_add_worker
-- a worker of a gateway, and its mark
WITH w AS (INSERT INTO worker(member) VALUES(:id) RETURNING id)
INSERT INTO mark(worker, serial) SELECT id, 0 FROM w RETURNING worker

-- name: member_dismiss
-- a gateway writes no more
DELETE FROM worker WHERE member = :id

-- name: member_dismiss_others
-- nobody but this gateway writes any more
DELETE FROM worker WHERE member IS DISTINCT FROM :id

-- name: member_dismiss_active
-- the active gateway writes no more, nor does one without a cluster
DELETE FROM worker WHERE member IS NULL OR member IN (SELECT a.member FROM active_member a)

-- name: member_activate
-- a gateway becomes the active one
UPDATE active_member SET member = :id

-- name: member_step_down
-- a gateway is not the active one any more
UPDATE active_member SET member = NULL WHERE member = :id

-- name: member_remove
-- a gateway has ended, or is given up
DELETE FROM member WHERE id = :id

-- name: member_end_connections
-- end what a gateway has under way: its connections have this name
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()
  AND application_name = :application
