-- name: command_add
-- a command a person gave; it is done once
INSERT INTO command(event, session, seq, name, argument, result, state)
VALUES(:event, :session, :seq, :name, :argument, :result, 'open')

-- name: command_get
-- one command
SELECT {CommandRow} FROM command WHERE event = :event AND session = :session

-- name: commands_open
-- a session's commands that are not answered, in order of hearing
SELECT {CommandRow c}, s.key, e.sender
FROM command c INDEXED BY command_open JOIN session s ON s.id = c.session JOIN event e ON e.id = c.event
WHERE c.state = 'open' AND c.session = :session ORDER BY c.event

-- name: commands_left
-- sessions with commands that are not answered
-- scans: one row per command that is not answered
SELECT DISTINCT session FROM command INDEXED BY command_open WHERE state = 'open'

-- name: command_done
-- it was answered
UPDATE command SET state = 'done', answer = :answer WHERE event = :event AND session = :session

-- name: commands_void
-- its session is deleted: nobody waits for an answer
UPDATE command SET state = 'void' WHERE session = :session AND state = 'open'

-- name: commands_of_event
-- where a command was given
SELECT c.session, s.key, c.seq, c.name, c.state, c.answer FROM command c JOIN session s ON s.id = c.session WHERE c.event = :event

-- name: turn_last
-- the newest turn of a session
SELECT {TurnRow} FROM turn WHERE session = :session ORDER BY epoch DESC LIMIT 1

-- name: hearing_unbind
-- a person has a turn run again: its events wait for the next one
UPDATE hearing SET turn = NULL, busy = NULL WHERE turn = :turn

-- name: hearings_of_turn
-- how many events a turn took, up to a thousand
SELECT count(*) AS n FROM (SELECT 1 FROM hearing WHERE turn = :turn LIMIT 1000)

-- name: hearing_bound_before
-- whether a turn is over something that was heard before an event
SELECT 1 FROM hearing WHERE turn = :turn AND turn IS NOT NULL AND event < :event LIMIT 1

-- name: hearing_waits_before
-- whether something that was heard before an event still waits
SELECT 1 FROM hearing WHERE session = :session AND turn IS NULL AND wakes = 1 AND event < :event LIMIT 1
