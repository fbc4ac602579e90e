-- name: job_add
-- a job that was asked for: the row exists before the process
INSERT INTO job(run, session, agent, turn, command, name, seconds, state, at, gateway)
VALUES(:run, :session, :agent, :turn, :command, :name, :seconds, 'asked', :at, :gateway) RETURNING id

-- name: job_call_add
-- a tool call that asked for a job
INSERT INTO job_call(job, spawn, turn, conn, call, tool, args, again)
VALUES(:job, :spawn, :turn, :conn, :call, :tool, :args, :again) RETURNING id

-- name: job_by_call
-- the job of a tool call that is handed over again
SELECT j.run, c.args FROM job_call c JOIN job j ON j.id = c.job WHERE c.spawn = :spawn AND c.call = :call

-- name: job_calls_equal
-- calls of this process in this turn with equal arguments (the re-issue rule)
SELECT id, job, conn, tool, answered, again FROM job_call
WHERE spawn = :spawn AND args = :args AND turn = :turn ORDER BY id

-- name: job_call_answered
-- the agent received the result of a call; if it is a re-issue, of the first call
UPDATE job_call SET answered = 1 WHERE id = coalesce(
  (SELECT again FROM job_call WHERE spawn = :spawn AND call = :call),
  (SELECT id FROM job_call WHERE spawn = :spawn AND call = :call))

-- name: job_get
-- one job, with the key of its session
SELECT {JobRow j}, s.key, s.folder FROM job j JOIN session s ON s.id = j.session WHERE j.run = :run

-- name: jobs_open_of_session
-- how many jobs of a session are not over
SELECT count(*) AS n FROM job WHERE session = :session AND ended IS NULL

-- name: jobs_open_count
-- how many jobs are not over, in all sessions
-- scans: the jobs that are not over: a limit of the configuration
SELECT count(*) AS n FROM job WHERE ended IS NULL

-- name: jobs_open
-- the jobs that are not over, by session
-- scans: the jobs that are not over: a limit of the configuration
SELECT {JobRow j}, s.key, s.folder FROM job j JOIN session s ON s.id = j.session WHERE j.ended IS NULL ORDER BY j.session, j.id

-- name: jobs_of_session
-- the jobs of a session, newest first
SELECT {JobRow j}, s.key, s.folder
FROM job j JOIN session s ON s.id = j.session WHERE j.session = :session AND j.id < :before
ORDER BY j.id DESC LIMIT :limit

-- name: job_running
-- the start of a job was reported
UPDATE job SET state = 'running' WHERE run = :run AND state = 'asked'

-- name: job_over
-- the end of a job was reported; it ended :at
UPDATE job SET state = :state, code = :code, event = :event, ended = :at WHERE run = :run AND ended IS NULL

-- name: job_failed
-- a job could not be started
UPDATE job SET state = 'failed', error = :error, ended = :at WHERE run = :run AND state = 'asked'

-- name: job_cancel
-- somebody cancels a job; only the first one is recorded
UPDATE job SET cancelled = coalesce(cancelled, :by) WHERE run = :run AND ended IS NULL
