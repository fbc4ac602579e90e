-- name: export_turns
-- a page of a session's turns, in their order, with the number of their first attempt
SELECT t.id, t.epoch, r.epoch AS root, t.attempt, t.chapter, t.how, t.state, t.tools, t.stop, t.error, t.started, t.ended
FROM turn t JOIN turn r ON r.id = t.root
WHERE t.session = :session AND t.epoch > :after AND t.epoch <= :upto AND t.chapter >= :chapter ORDER BY t.epoch LIMIT :limit

-- name: export_chapter
-- the chapter that a transcript begins with
SELECT chapter FROM entry WHERE session = :session AND seq = :seq

-- name: export_since
-- the entry that a session's history begins with
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
-- what was claimed in a root and added no entry, with the entry that an echo repeats
SELECT t.epoch AS turn, c.how, c.kind, c.late, c.tool, c.dest, c.digest, c.text, c.outcome, c.reason, o.seq AS of, c.at
FROM claim c JOIN turn t ON t.id = c.turn AND t.session = :session
LEFT JOIN claim o ON o.id = c.echo_of AND o.session = :session AND o.outcome = 'said'
WHERE c.root = :root AND c.outcome <> 'said' AND (c.outcome <> 'echo' OR o.seq IS NOT NULL) ORDER BY c.id

-- name: import_turn
-- a turn of another ledger
INSERT INTO turn(session, epoch, chapter, root, attempt, how, state, tools, stop, error, started, ended, evidence)
VALUES(:session, :epoch, :chapter, :root, :attempt, :how, :state, :tools, :stop, :error, :started, :ended,
  iif(:state = 'lost', NULL, 'imported')) RETURNING id

-- name: import_turn_of
-- a turn that was imported before
SELECT id, root FROM turn WHERE session = :session AND epoch = :epoch

-- name: import_entry
-- an entry of another ledger: its number, time and chapter are its own
INSERT INTO entry(session, seq, born, rev, base, at, role, chapter, text, partial, superseded, turn, event, claim, more)
VALUES(:session, :seq, :rev, :rev, :rev, :at, :role, :chapter, :text, :partial, :superseded, :turn, :event, :claim, :more)

-- name: import_hearing
-- an event of another ledger wakes nothing here; what waited there waits
INSERT INTO hearing(event, session, seq, wakes, turn) VALUES(:event, :session, :seq, 0, :turn)

-- name: import_command
-- a command of another ledger: it was done there, or never is
INSERT INTO command(event, session, seq, name, argument, result, state)
VALUES(:event, :session, :seq, :name, :argument, :result, 'void')

-- name: import_payload
-- an event whose content was deleted here comes back with the import
UPDATE event SET payload = :payload, sender = :sender WHERE id = :id AND payload IS NULL

-- name: import_aside
-- a deleted session makes room for one that is imported under its key
UPDATE session SET key = :key WHERE id = :id AND deleted IS NOT NULL

-- name: import_named
-- the whole session is there: it gets its name
UPDATE session SET key = :key, agent = :agent, home = :home, title = :title, chapter = :chapter, since = :since, epoch = :epoch,
  numbers = max(numbers, :numbers), at = :at
WHERE id = :id
