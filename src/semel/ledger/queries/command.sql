-- name: command_add
-- a command that a person gave
INSERT INTO command(event, session, seq, name, argument, result, state)
VALUES(:event, :session, :seq, :name, :argument, :result, 'open')

-- name: command_get
-- one command
SELECT {CommandRow} FROM command WHERE event = :event AND session = :session

-- name: commands_open
-- a session's commands that are not answered, in order of acceptance
-- sorts: the commands of one session that are not answered
SELECT {CommandRow c}, s.key, e.sender
FROM command c INDEXED BY command_open JOIN session s ON s.id = c.session JOIN event e ON e.id = c.event
WHERE c.state = 'open' AND c.session = :session ORDER BY c.seq

-- name: stop_next
-- the first entry of a /stop that was not carried out yet
SELECT min(seq) FROM command INDEXED BY command_open WHERE session = :session AND state = 'open' AND name = 'stop'

-- name: commands_left
-- sessions with commands that are not answered
-- scans: one row per command that is not answered
SELECT DISTINCT session FROM command INDEXED BY command_open WHERE state = 'open'

-- name: command_done
-- a command was answered
UPDATE command SET state = 'done', answer = :answer WHERE event = :event AND session = :session

-- name: commands_void
-- the session is deleted, so its commands get no answer
UPDATE command SET state = 'void' WHERE session = :session AND state = 'open'

-- name: commands_of_event
-- the sessions in which an event is a command
SELECT c.session, s.key, c.seq, c.name, c.state, c.answer FROM command c JOIN session s ON s.id = c.session WHERE c.event = :event

-- name: command_of_event
-- an event that is a command, in the first session that it was addressed to
SELECT {CommandRow} FROM command WHERE event = :event ORDER BY session LIMIT 1

-- name: turn_last
-- the newest turn of a session, apart from the ends of withdrawn messages: nobody wants these tried again
SELECT {TurnRow t} FROM turn t WHERE t.session = :session
  AND NOT EXISTS(SELECT 1 FROM hearing h WHERE h.turn = t.id AND h.turn IS NOT NULL AND h.busy = 'withdrawn')
ORDER BY t.epoch DESC LIMIT 1

-- name: hearing_unbind
-- a person retries a turn: its events wait for the next one
UPDATE hearing SET turn = NULL, busy = NULL WHERE turn = :turn

-- name: hearings_of_turn
-- how many events are bound to a turn; counted up to a thousand
SELECT count(*) AS n FROM (SELECT 1 FROM hearing WHERE turn = :turn LIMIT 1000)

-- name: hearing_bound_before
-- whether a turn has a waking event whose entry is before a given one
SELECT 1 FROM hearing WHERE turn = :turn AND turn IS NOT NULL AND wakes = 1 AND seq < :seq LIMIT 1

-- name: hearing_waits_before
-- whether a waking event whose entry is before a given one still waits
SELECT 1 FROM hearing WHERE session = :session AND turn IS NULL AND wakes = 1 AND seq < :seq LIMIT 1
