-- name: session_by_key
-- one session, by its key
SELECT id, key, agent, home, title, chapter, epoch, seq, rev, wake_at, turn, lease, memory, memory_chapter, about, at
FROM session WHERE key = :key

-- name: session_by_id
-- one session
SELECT id, key, agent, home, title, chapter, epoch, seq, rev, wake_at, turn, lease, memory, memory_chapter, about, at
FROM session WHERE id = :id

-- name: session_add
-- a new session; home is fixed here
INSERT INTO session(key, agent, home, at) VALUES(:key, :agent, :home, :at) RETURNING id

-- name: session_list
-- newest sessions first, with a page size
SELECT id, key, agent, home, title, chapter, seq, rev, wake_at, turn, about, at
FROM session WHERE id < :before ORDER BY id DESC LIMIT :limit

-- name: session_next_entry
-- the next entry's numbers
UPDATE session SET seq = seq + 1, rev = rev + 1 WHERE id = :id RETURNING seq, rev, chapter

-- name: session_next_rev
-- the next change watchers can see
UPDATE session SET rev = rev + 1 WHERE id = :id RETURNING rev

-- name: session_wake
-- something to do: the earliest due time wins (Law 2: at most one pending wake)
UPDATE session SET wake_at = :at WHERE id = :id AND (wake_at IS NULL OR wake_at > :at)

-- name: session_begin
-- a turn begins: the fence moves on (Law 3)
UPDATE session SET epoch = epoch + 1, turn = :turn, lease = :lease WHERE id = :id RETURNING epoch

-- name: session_clear_wake
-- every waiting event was bound
UPDATE session SET wake_at = NULL WHERE id = :id

-- name: session_idle
-- the turn is over
UPDATE session SET turn = NULL, lease = NULL WHERE id = :id AND turn = :turn

-- name: session_set_memory
-- the agent's own id of this conversation
UPDATE session SET memory = :memory, memory_chapter = chapter WHERE id = :id

-- name: session_set_title
-- a title the agent or a person gave
UPDATE session SET title = :title WHERE id = :id

-- name: session_new_chapter
-- a new stretch: the agent starts without memory
UPDATE session SET chapter = chapter + 1, memory = NULL, memory_chapter = NULL WHERE id = :id RETURNING chapter

-- name: session_homes
-- the sessions whose person is told when this destination is spoken to (Law 6)
SELECT id, key FROM session WHERE home = :home

-- name: session_due
-- sessions with something to do, earliest first
SELECT id, key, wake_at FROM session WHERE wake_at IS NOT NULL AND turn IS NULL ORDER BY wake_at

-- name: session_busy
-- sessions whose turn is not over
SELECT id, key, turn, lease FROM session WHERE turn IS NOT NULL

-- name: session_waiting_count
-- how many events wait; past a thousand nobody counts them with each message (Law 11)
SELECT count(*) AS n FROM (SELECT 1 FROM hearing WHERE session = :id AND turn IS NULL LIMIT 1000)

-- name: session_begin_again
-- the running turn lost its agent: whoever begins next settles it
UPDATE session SET lease = NULL WHERE id = :id

-- name: session_set_about
-- what the agent offers here
UPDATE session SET about = :about WHERE id = :id
