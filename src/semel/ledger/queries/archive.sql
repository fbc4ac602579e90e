-- name: export_turns
-- a page of a session's turns, in order, each with the epoch of its root
SELECT t.id, t.epoch, r.epoch AS root, t.attempt, t.chapter, t.how, t.state, t.tools, t.stop, t.error, t.started, t.ended
FROM turn t JOIN turn r ON r.id = t.root
WHERE t.session = :session AND t.epoch > :after AND t.epoch <= :upto AND t.chapter >= :chapter ORDER BY t.epoch LIMIT :limit

-- name: export_chapter
-- the chapter of an entry: the first one that is exported
SELECT chapter FROM entry WHERE session = :session AND seq = :seq

-- name: export_since
-- the entry with which a session's history begins
SELECT since FROM session WHERE id = :session

-- name: export_entries
-- a page of a transcript, each entry with its event, that event's turn, and its claim
SELECT e.session, e.seq, e.base, e.at, e.role, e.chapter, e.text, e.live, e.partial, e.superseded, e.claim, e.more,
  et.epoch AS turn,
  v.id AS event, v.source, v.key, v.kind, v.sender, v.digest, v.payload, v.at AS heard, ht.epoch AS bound,
  k.name AS command, k.argument, k.result,
  c.how AS claim_how, c.kind AS claim_kind, c.late, c.tool, c.dest, c.digest AS claim_digest, c.text AS claimed, c.reason,
  c.at AS claim_at, ct.epoch AS claim_turn
FROM entry e
LEFT JOIN turn et ON et.id = e.turn AND et.session = e.session
LEFT JOIN event v ON v.id = e.event
LEFT JOIN hearing h ON h.event = e.event AND h.session = e.session
LEFT JOIN turn ht ON ht.id = h.turn
LEFT JOIN command k ON k.event = e.event AND k.session = e.session
LEFT JOIN claim c ON c.id = e.claim
LEFT JOIN turn ct ON ct.id = c.turn AND ct.session = e.session
WHERE e.session = :session AND e.seq > :after AND e.seq <= :upto ORDER BY e.seq LIMIT :limit

-- name: export_unsaid
-- the claims of a root that added no entry; for an echo, the entry that it repeats
-- sorts: the claims of one root
SELECT t.epoch AS turn, c.how, c.kind, c.late, c.tool, c.dest, c.digest, c.text, c.outcome, c.reason, o.seq AS of, c.at
FROM claim c JOIN turn t ON t.id = c.turn AND t.session = :session
LEFT JOIN claim o ON o.id = c.echo_of AND o.session = :session AND o.outcome = 'said'
WHERE c.root = :root AND c.outcome <> 'said' AND (c.outcome <> 'echo' OR o.seq IS NOT NULL) ORDER BY c.id

-- name: import_turn
-- add a turn of another ledger
INSERT INTO turn(session, epoch, chapter, root, attempt, how, state, tools, stop, error, started, ended, evidence)
VALUES(:session, :epoch, :chapter, :root, :attempt, :how, CAST(:state AS TEXT), :tools, :stop, :error, :started, :ended,
  CASE WHEN :state <> 'lost' THEN 'imported' END) RETURNING id

-- name: import_turn_of
-- a turn that this import has added
SELECT id, root FROM turn WHERE session = :session AND epoch = :epoch

-- name: import_entry
-- add an entry of another ledger, with its own seq, time and chapter
INSERT INTO entry(session, seq, born, rev, base, at, role, chapter, text, partial, superseded, turn, event, claim, more)
VALUES(:session, :seq, :rev, :rev, :rev, :at, :role, :chapter, :text, :partial, :superseded, :turn, :event, :claim, :more)

-- name: import_hearing
-- address an imported event to the session: it wakes nothing; if it waited in its own ledger, it waits here
INSERT INTO hearing(event, session, seq, wakes, turn) VALUES(:event, :session, :seq, 0, :turn)

-- name: import_command
-- add a command of another ledger: it is not carried out here
INSERT INTO command(event, session, seq, name, argument, result, state)
VALUES(:event, :session, :seq, :name, :argument, :result, 'void')

-- name: import_payload
-- an event whose content was deleted here gets it back from an import
UPDATE event SET payload = :payload, sender = :sender WHERE id = :id AND payload IS NULL

-- name: import_aside
-- give a deleted session another key, so that an imported one can have its key
UPDATE session SET key = :key WHERE id = :id AND deleted IS NOT NULL

-- name: import_named
-- the session is imported completely: give it its own key and columns
UPDATE session SET key = :key, agent = :agent, home = :home, title = :title, chapter = :chapter, since = :since, epoch = :epoch,
  numbers = CASE WHEN numbers < :numbers THEN :numbers ELSE numbers END, at = :at
WHERE id = :id

-- name: import_grown
-- turns and chapters were added to a session, because the conversation that it was imported from has grown
UPDATE session SET epoch = :epoch, chapter = :chapter, since = :since WHERE id = :id
