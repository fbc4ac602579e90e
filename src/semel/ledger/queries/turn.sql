-- name: turn_add
-- add a running turn; a first attempt gets its root by `turn_own_root`. Returned with it: whether events wait in the
-- session, and whether an entry is to be told
INSERT INTO turn(session, epoch, chapter, root, attempt, state, started, day, how, spawn)
VALUES(:session, :epoch, :chapter, coalesce(CAST(:root AS BIGINT), 0), :attempt, 'running', :at, :day, :how, :spawn)
RETURNING {TurnRow}, EXISTS(SELECT 1 FROM hearing h WHERE h.session = turn.session AND h.turn IS NULL) AS has_waiting,
  EXISTS(SELECT 1 FROM entry e WHERE e.session = turn.session AND e.tell = 1) AS has_entries_to_tell

-- name: turn_own_root
-- make a first attempt its own root
UPDATE turn SET root = id WHERE id = :id

-- name: turn_get
-- one turn
SELECT {TurnRow} FROM turn WHERE id = :id

-- name: turns_of_root
-- all attempts of a root: the first one is the root itself
-- sorts: the attempts of one root
SELECT {TurnRow} FROM turn WHERE id = :root OR (root = :root AND attempt > 1) ORDER BY id

-- name: turn_end
-- a turn is over; its agent has reported what it used. It may have reported before, when an attempt was put off
UPDATE turn SET state = :state, stop = :stop, error = :error, retry_at = NULL, ended = :at, evidence = :evidence,
  evidence_row = :row, tokens = coalesce(tokens + :tokens, :tokens, tokens), cost = coalesce(cost + :cost, :cost, cost)
WHERE id = :id AND state = 'running'

-- name: turn_fence
-- a turn is continued under another epoch
UPDATE turn SET epoch = :epoch WHERE id = :id AND state = 'running'

-- name: turn_put_off
-- a turn failed for a transient reason: set when it is tried again, and what its agent has reported that it used
UPDATE turn SET error = :error, retry_at = :at, tokens = coalesce(tokens + :tokens, :tokens, tokens),
  cost = coalesce(cost + :cost, :cost, cost) WHERE id = :id AND state = 'running'

-- name: turn_stopped
-- a person stops a running turn; only the first one is recorded
UPDATE turn SET stopped = :by, stop_seq = :seq WHERE id = :id AND state = 'running' AND stopped IS NULL

-- name: turn_how
-- how the agent was prompted, and in which process
UPDATE turn SET how = :how, spawn = :spawn WHERE id = :id AND state = 'running'

-- name: turn_tools
-- count tool calls that started (Law 9); a negative :n takes back those that turned out to have waited
UPDATE turn SET tools = tools + :n WHERE id = :id

-- name: turn_joined
-- another prompt joins a turn: a block that ends later is no echo of what was said before (Law 5)
UPDATE turn SET joined = (SELECT coalesce(max(id), 0) FROM claim) WHERE id = :id AND state = 'running'

-- name: turn_corrected
-- the agent is asked to correct a text that was held back: what it repeats later is an echo (Law 5)
UPDATE turn SET corrected = (SELECT coalesce(max(id), 0) FROM claim) WHERE id = :id AND state = 'running'

-- name: turn_claim_boundaries
-- the newest claims at three moments that decide what may be an echo (Law 5); -1: the moment has not come
SELECT coalesce(max(corrected) FILTER (WHERE id = :turn), -1) AS corrected,
  coalesce(max(joined) FILTER (WHERE id = :turn), -1) AS joined, coalesce(max(joined), -1) AS joined_root
FROM turn WHERE id = :root OR (root = :root AND attempt > 1)

-- name: turn_said_since_corrected
-- whether a turn said anything after its agent was asked to correct a text
SELECT 1 FROM turn t JOIN claim c ON c.root = t.root
WHERE t.id = :turn AND c.turn = t.id AND c.id > t.corrected AND c.outcome = 'said' AND c.how IN ('tool', 'block') LIMIT 1

-- name: turn_of_spawn
-- the newest turn that a process worked on
SELECT {TurnRow t} FROM session s JOIN turn t ON t.session = s.id AND t.epoch <= s.epoch
WHERE s.id = :session AND t.spawn = :spawn ORDER BY t.epoch DESC LIMIT 1

-- name: hearing_bind
-- bind the waiting rows themselves, never "ids up to N" (Law 3)
UPDATE hearing SET turn = :turn WHERE session = :session AND turn IS NULL

-- name: hearing_bind_before
-- the same for those whose entry is before a given one
UPDATE hearing SET turn = :turn WHERE session = :session AND turn IS NULL AND seq < :before

-- name: hearing_of_key
-- the message of a source with a key, in a session: its event, its entry, the turn that took it, that turn's root, and
-- whether it is withdrawn
SELECT h.event, h.seq, h.turn, t.root, n.role, h.busy FROM event e JOIN hearing h ON h.event = e.id AND h.session = :session
JOIN entry n ON n.session = h.session AND n.seq = h.seq LEFT JOIN turn t ON t.id = h.turn
WHERE e.source = :source AND e.key = :key AND e.key IS NOT NULL

-- name: hearing_withdraw
-- a waiting message is withdrawn: no agent gets it. It is bound to a turn of its own as soon as no turn runs, also if it
-- asked for none
UPDATE hearing SET busy = 'withdrawn', wakes = 1 WHERE event = :event AND session = :session AND turn IS NULL

-- name: hearing_withdrawn
-- the waiting messages that were withdrawn, by event and entry, in order
SELECT event, seq FROM hearing WHERE session = :session AND turn IS NULL AND busy = 'withdrawn' ORDER BY seq

-- name: hearing_bind_one
-- bind one waiting message to a turn
UPDATE hearing SET turn = :turn WHERE event = :event AND session = :session AND turn IS NULL

-- name: hearing_steering
-- messages that are to join the running turn, before a given entry
SELECT event, seq FROM hearing WHERE session = :session AND turn IS NULL AND busy = 'steer' AND seq < :before ORDER BY seq

-- name: hearing_interrupts
-- the first waiting message that is to interrupt the running turn, and its source
SELECT h.seq, e.source FROM hearing h JOIN event e ON e.id = h.event
WHERE h.session = :session AND h.turn IS NULL AND h.busy = 'interrupt' ORDER BY h.seq LIMIT 1

-- name: turn_asked_by_heartbeats
-- whether all waking events of a turn are heartbeats, and there is one
SELECT count(*) > 0 AND count(*) = count(*) FILTER (WHERE e.kind = 'heartbeat' AND e.source LIKE 'heartbeat:%')
FROM hearing h JOIN event e ON e.id = h.event WHERE h.turn = :turn AND h.turn IS NOT NULL AND h.wakes = 1

-- name: hearing_join
-- messages that join the running turn, in the transaction that steers them into it (Law 3)
UPDATE hearing SET turn = :turn WHERE session = :session AND turn IS NULL AND busy = 'steer' AND seq < :before

-- name: hearing_waits
-- whether a waking event still waits
SELECT 1 FROM hearing WHERE session = :session AND turn IS NULL AND wakes = 1 LIMIT 1

-- name: hearing_shown_waiting
-- the entries of a turn's events that are shown as waiting
SELECT event, seq, busy FROM hearing WHERE turn = :turn AND busy IS NOT NULL ORDER BY seq

-- name: hearing_rebind
-- the events of a lost attempt are bound to the next one
UPDATE hearing SET turn = :turn WHERE turn = :old

-- name: turn_ending
-- a turn that ends: a row for each event that asked for it (one without an event if none did), whether output still
-- streams in its session, and the newest claim of its root. (+ 0: PostgreSQL would walk all claims from the newest one)
SELECT {TurnRow t}, h.seq AS asked_seq, h.event AS asked_event, e.source, e.kind,
  e.payload ->> '$.data.from.person' AS person, e.payload ->> '$.data.from.id' AS account,
  e.payload ->> '$.data.from.role' AS asker_role,
  EXISTS(SELECT 1 FROM entry n WHERE n.session = t.session AND n.live = 1) AS has_live_entries,
  EXISTS(SELECT 1 FROM item i WHERE i.session = t.session AND i.live = 1) AS has_live_items,
  c.id AS last_claim, c.how AS last_how, c.kind AS last_kind, c.outcome AS last_outcome, c.dest AS last_dest,
  c.seq AS last_seq
FROM turn t LEFT JOIN hearing h ON h.turn = t.id AND h.wakes = 1 LEFT JOIN event e ON e.id = h.event
LEFT JOIN claim c ON c.id = (SELECT max(r.id + 0) FROM claim r WHERE r.root = t.root)
WHERE t.id = :id ORDER BY h.seq

-- name: hearing_asked
-- the entries of the events that asked for a turn and were taken by this one, in order
SELECT seq FROM hearing WHERE turn = :turn AND turn IS NOT NULL AND wakes = 1 ORDER BY seq

-- name: events_of_turn
-- the events that are bound to a turn, in order of acceptance
SELECT e.id, e.source, e.key, e.kind, e.sender, e.payload, e.at, h.seq, h.wakes, n.role, n.more
FROM hearing h JOIN event e ON e.id = h.event JOIN entry n ON n.session = h.session AND n.seq = h.seq
WHERE h.turn = :turn ORDER BY h.seq

-- name: spawn_add
-- a process is about to start
INSERT INTO spawn(session, agent, gateway, token, state, at)
VALUES(:session, :agent, :gateway, :token, 'live', :at) RETURNING id

-- name: spawn_started
-- record the identity of a process
UPDATE spawn SET pid = :pid, pgid = :pgid, born = :born WHERE id = :id

-- name: spawn_end
-- a process has ended
UPDATE spawn SET state = 'ended', ended = :at, why = :why WHERE id = :id AND state = 'live'

-- name: spawn_by_token
-- the process that a fencing token belongs to (Law 10)
SELECT {SpawnRow} FROM spawn WHERE token = :token

-- name: spawns_live
-- processes whose end was not recorded
-- scans: one row per live process
SELECT {SpawnRow} FROM spawn INDEXED BY spawn_live WHERE state = 'live'

-- name: spawns_live_at
-- processes whose end was not recorded, of the sessions that this gateway serves
-- scans: one row per live process
SELECT {SpawnRow p} FROM spawn p INDEXED BY spawn_live JOIN session s ON s.id = p.session
WHERE p.state = 'live' AND coalesce(s.seat, :seat) = :seat

-- name: spawns_end_of_session
-- the processes of a session ended with their gateway
UPDATE spawn SET state = 'ended', ended = :at, why = :why WHERE session = :session AND state = 'live'

-- name: spawn_get
-- one process
SELECT {SpawnRow} FROM spawn WHERE id = :id
