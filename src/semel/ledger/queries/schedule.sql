-- name: schedule_get
-- one schedule, by its name
SELECT {ScheduleRow} FROM schedule WHERE name = :name

-- name: schedule_put
-- add a schedule, or replace the one of that name; the last firing stays known
INSERT INTO schedule(name, session, text, form, spec, tz, downtime, source, enabled, anchor, due, at)
VALUES(:name, :session, :text, :form, :spec, :tz, :downtime, :source, :enabled, :anchor, :due, :at)
ON CONFLICT(name) DO UPDATE SET session = :session, text = :text, form = :form, spec = :spec, tz = :tz,
  downtime = :downtime, source = :source, enabled = :enabled, anchor = :anchor, due = :due, error = NULL, at = :at

-- name: schedule_source
-- the same schedule is now defined by another source
UPDATE schedule SET source = :source, downtime = :downtime WHERE id = :id

-- name: schedule_drop
-- remove a schedule; the events of its firings stay
DELETE FROM schedule WHERE id = :id

-- name: schedule_fired
-- set the next due time and the last firing, in the transaction that accepts the firing
UPDATE schedule SET due = :due, fired = coalesce(:fired, fired), event = coalesce(:event, event) WHERE id = :id

-- name: schedule_turn
-- pause or resume a schedule
UPDATE schedule SET enabled = :enabled, due = :due, error = :error WHERE id = :id

-- name: schedules_due
-- schedules that are due, oldest first
SELECT {ScheduleRow} FROM schedule WHERE enabled = 1 AND due IS NOT NULL AND due <= :now ORDER BY due LIMIT :limit

-- name: schedule_next
-- when the next schedule is due
SELECT due FROM schedule WHERE enabled = 1 AND due IS NOT NULL AND due > :now ORDER BY due LIMIT 1

-- name: schedules_all
-- every schedule, by name, with the turn of its last firing and its session
SELECT {ScheduleRow s}, e.at AS ran, e.sender, h.turn, t.state, n.id AS opened, n.home
FROM schedule s LEFT JOIN event e ON e.id = s.event LEFT JOIN hearing h ON h.event = s.event LEFT JOIN turn t ON t.id = h.turn
LEFT JOIN session n ON n.key = s.session
WHERE s.name > :after ORDER BY s.name LIMIT :limit

-- name: schedules_of_session
-- the schedules of one session, by name, with the turn of their last firing
SELECT {ScheduleRow s}, e.at AS ran, e.sender, h.turn, t.state, n.id AS opened, n.home
FROM schedule s LEFT JOIN event e ON e.id = s.event LEFT JOIN hearing h ON h.event = s.event LEFT JOIN turn t ON t.id = h.turn
LEFT JOIN session n ON n.key = s.session
WHERE s.session = :session ORDER BY s.name

-- name: schedule_one
-- one schedule, with the turn of its last firing and its session
SELECT {ScheduleRow s}, e.at AS ran, e.sender, h.turn, t.state, n.id AS opened, n.home
FROM schedule s LEFT JOIN event e ON e.id = s.event LEFT JOIN hearing h ON h.event = s.event LEFT JOIN turn t ON t.id = h.turn
LEFT JOIN session n ON n.key = s.session
WHERE s.name = :name

-- name: sessions_since
-- a page of the sessions that were created after a given one
SELECT id, key FROM session WHERE id > :after ORDER BY id LIMIT :limit

-- name: session_pulse
-- whether anything runs or is due in a session, and when something last happened there
SELECT s.id, s.key, s.agent, s.home, s.turn, s.wake_at, s.archived IS NOT NULL OR s.deleted IS NOT NULL AS away,
  (SELECT max(n.at) FROM (
    SELECT s.at AS at
    UNION ALL SELECT e.at FROM entry e WHERE e.session = s.id AND e.seq = s.seq
    UNION ALL SELECT t.ended FROM turn t WHERE t.session = s.id AND t.epoch = s.epoch) n) AS quiet
FROM session s WHERE s.id = :id
