-- name: session_by_key
-- one session, by its key
SELECT {SessionRow} FROM session WHERE key = :key

-- name: session_by_id
-- one session
SELECT {SessionRow} FROM session WHERE id = :id

-- name: session_add
-- a new session; home is fixed here. Its revs begin where those of this life of the ledger do
INSERT INTO session(key, agent, home, at, rev) VALUES(:key, :agent, :home, :at, (SELECT incarnation - 1 FROM ledger WHERE one = 1) << 32)
RETURNING id

-- name: session_list
-- newest sessions first, with a page size; archived and deleted ones are left out
SELECT {SessionRow}
FROM session INDEXED BY session_shown WHERE archived IS NULL AND deleted IS NULL AND id < :before ORDER BY id DESC LIMIT :limit

-- name: session_list_archived
-- newest archived sessions first, with a page size
SELECT {SessionRow}
FROM session INDEXED BY session_archived WHERE archived IS NOT NULL AND deleted IS NULL AND id < :before ORDER BY id DESC LIMIT :limit

-- name: session_next_entry
-- the next entry's numbers
UPDATE session SET seq = seq + 1, rev = rev + 1 WHERE id = :id RETURNING seq, rev, chapter

-- name: session_next_rev
-- the next change watchers can see
UPDATE session SET rev = rev + 1 WHERE id = :id RETURNING rev

-- name: session_numbered
-- numbers that people were shown are never used again (Law 13)
UPDATE session SET numbers = max(numbers, :last) WHERE id = :id

-- name: session_wake
-- something to do (Law 2: at most one pending wake, with one due time)
UPDATE session SET wake_at = :due, wake_since = :since WHERE id = :id

-- name: session_begin
-- a turn begins: the fence moves on (Law 3)
UPDATE session SET epoch = epoch + 1, turn = :turn, lease = :lease WHERE id = :id RETURNING epoch

-- name: session_clear_wake
-- every waiting event was bound
UPDATE session SET wake_at = NULL, wake_since = NULL WHERE id = :id

-- name: session_idle
-- the turn is over
UPDATE session SET turn = NULL, lease = NULL WHERE id = :id AND turn = :turn

-- name: session_set_memory
-- the agent's own id of this conversation; not of a chapter that is over
UPDATE session SET memory = :memory, memory_chapter = chapter
WHERE id = :id AND chapter = (SELECT t.chapter FROM turn t WHERE t.id = session.turn)

-- name: session_set_title
-- a title the agent gave: one that a person gave stays
UPDATE session SET title = :title WHERE id = :id AND named = 0

-- name: session_rename
-- a title a person gave; none: the agent may give it again
UPDATE session SET title = :title, named = :named WHERE id = :id

-- name: session_set_summary
-- from here on this entry stands for older turns
UPDATE session SET summary = :seq WHERE id = :id

-- name: session_new_chapter
-- a new stretch: the agent starts without memory; what waits is in it
UPDATE session SET chapter = chapter + 1, memory = NULL, memory_chapter = NULL, summary = NULL,
  since = coalesce((SELECT h.seq FROM hearing h WHERE h.session = :id AND h.turn IS NULL ORDER BY h.event LIMIT 1), seq + 1)
WHERE id = :id RETURNING chapter

-- name: chapter_first
-- the command by which a chapter began while a turn ran, as its entry
SELECT e.seq FROM entry e JOIN command c ON c.event = e.event AND c.session = e.session AND c.name = 'new'
WHERE e.session = :session AND e.chapter = :chapter
  AND e.seq > coalesce((SELECT min(h.seq) FROM hearing h WHERE h.turn = :turn AND h.turn IS NOT NULL), 0) ORDER BY e.seq LIMIT 1

-- name: session_homes
-- the sessions whose person is told when this destination is spoken to (Law 6)
SELECT {HomeSession} FROM session WHERE home = :home AND deleted IS NULL

-- name: session_due
-- sessions with something to do, earliest first
SELECT id FROM session WHERE wake_at IS NOT NULL AND turn IS NULL ORDER BY wake_at

-- name: session_busy
-- sessions whose turn is not over
SELECT {HomeSession} FROM session WHERE turn IS NOT NULL

-- name: session_waiting_count
-- how many events wait; past a thousand nobody counts them with each message (Law 11)
SELECT count(*) AS n FROM (SELECT 1 FROM hearing WHERE session = :id AND turn IS NULL LIMIT 1000)

-- name: session_line_count
-- how many of them people see waiting: the line in which a message has a place
SELECT count(*) AS n FROM (SELECT 1 FROM hearing WHERE session = :id AND turn IS NULL AND busy IS NOT NULL LIMIT 1000)

-- name: session_begin_again
-- the running turn lost its agent: whoever begins next settles it
UPDATE session SET lease = NULL WHERE id = :id

-- name: session_set_busy
-- what becomes of messages that come while it is busy
UPDATE session SET busy = :busy WHERE id = :id

-- name: session_set_about
-- what the agent offers here
UPDATE session SET about = :about WHERE id = :id

-- name: session_archive
-- put away, or brought back
UPDATE session SET archived = :archived WHERE id = :id

-- name: session_delete
-- its content goes; key, numbers and home stay, and whatever is heard there begins it anew
UPDATE session SET deleted = :at, archived = NULL, erased = seq, erased_rev = rev, title = NULL, named = 0, about = NULL, busy = NULL
WHERE id = :id

-- name: session_revive
-- something was heard in a session that was deleted
UPDATE session SET deleted = NULL, since = seq + 1, at = :at WHERE id = :id

-- name: session_erase_on
-- what was still written while it was being deleted
UPDATE session SET erased = seq, erased_rev = rev WHERE id = :id AND deleted IS NOT NULL
