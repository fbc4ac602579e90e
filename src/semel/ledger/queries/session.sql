-- name: session_by_key
-- one session, by its key
SELECT {SessionRow} FROM session WHERE key = :key

-- name: session_by_id
-- one session
SELECT {SessionRow} FROM session WHERE id = :id

-- name: session_add
-- add a session; its home is fixed here. Its revs begin where those of this incarnation begin
INSERT INTO session(key, agent, home, at, rev) VALUES(:key, :agent, :home, :at, (SELECT incarnation - 1 FROM ledger WHERE one = 1) << 32)
RETURNING id

-- name: session_list
-- a page of sessions, newest first, without archived and deleted ones
SELECT {SessionRow}
FROM session INDEXED BY session_shown WHERE archived IS NULL AND deleted IS NULL AND id < :before ORDER BY id DESC LIMIT :limit

-- name: session_list_archived
-- a page of archived sessions, newest first
SELECT {SessionRow}
FROM session INDEXED BY session_archived WHERE archived IS NOT NULL AND deleted IS NULL AND id < :before ORDER BY id DESC LIMIT :limit

-- name: session_list_folder
-- a page of the sessions of a folder, newest first, without deleted ones
SELECT {SessionRow} FROM session INDEXED BY session_folder
WHERE folder = :folder AND folder IS NOT NULL AND deleted IS NULL AND (archived IS NOT NULL) = (CAST(:archived AS BIGINT) = 1) AND id < :before
ORDER BY id DESC LIMIT :limit

-- name: session_list_workspace
-- a page of the sessions of an agent without a folder of their own, newest first, without deleted ones. It looks at
-- :newest ids below :before
SELECT {SessionRow} FROM session
WHERE id < :before AND id > (SELECT coalesce(max(id), 0) FROM session WHERE id < :before) - :newest
  AND folder IS NULL AND agent = :agent AND deleted IS NULL AND (archived IS NOT NULL) = (CAST(:archived AS BIGINT) = 1)
ORDER BY id DESC LIMIT :limit

-- name: session_set_folder
-- the folder in which a new session's agent works
UPDATE session SET folder = :folder WHERE id = :id

-- name: session_set_seat
-- the gateway that serves the session
UPDATE session SET seat = :seat, away = NULL WHERE id = :id

-- name: session_note_away
-- people were told that the gateway which serves the session is away
UPDATE session SET away = :at WHERE id = :id

-- name: session_next_entry
-- take the numbers of the next entry
UPDATE session SET seq = seq + 1, rev = rev + 1 WHERE id = :id RETURNING seq, rev, chapter

-- name: session_next_rev
-- take the next rev
UPDATE session SET rev = rev + 1 WHERE id = :id RETURNING rev

-- name: session_numbered
-- numbers that people were shown are never used again (Law 13)
UPDATE session SET numbers = :last WHERE id = :id AND numbers < :last

-- name: session_wake
-- set the pending wake (Law 2: at most one, with one due time)
UPDATE session SET wake_at = :due, wake_since = :since WHERE id = :id

-- name: session_begin
-- a turn begins or is taken over: the epoch grows, so older runs are fenced off (Law 3). It takes the next rev
UPDATE session SET epoch = epoch + 1, turn = :turn, lease = :lease, rev = rev + 1 WHERE id = :id RETURNING rev

-- name: session_clear_wake
-- no waking event waits any more
UPDATE session SET wake_at = NULL, wake_since = NULL WHERE id = :id

-- name: session_idle
-- the turn is over; this takes the next rev. No row if another turn runs
UPDATE session SET turn = NULL, lease = NULL, rev = rev + 1 WHERE id = :id AND turn = :turn RETURNING rev

-- name: session_set_memory
-- set the agent's own id of this conversation, if the running turn belongs to the current chapter
UPDATE session SET cost = CASE WHEN memory IS NOT DISTINCT FROM :memory THEN cost END, memory = :memory, memory_chapter = chapter
WHERE id = :id AND chapter = (SELECT t.chapter FROM turn t WHERE t.id = session.turn)

-- name: session_begin_memory
-- set the agent's own id of a conversation that it began without a turn, if no new chapter began meanwhile
UPDATE session SET memory = :memory, memory_chapter = chapter, cost = NULL WHERE id = :id AND chapter = :chapter AND turn IS NULL

-- name: session_set_agent
-- give the session another agent, which remembers nothing of it
UPDATE session SET agent = :agent, memory = NULL, memory_chapter = NULL, about = NULL, cost = NULL WHERE id = :id

-- name: session_agents
-- the agents of the newest sessions, without archived and deleted ones
-- scans: no more than :limit rows
SELECT key, agent FROM session INDEXED BY session_shown WHERE archived IS NULL AND deleted IS NULL ORDER BY id DESC LIMIT :limit

-- name: session_set_title
-- a title from the agent or the channel; one that a person gave stays
UPDATE session SET title = :title WHERE id = :id AND named = 0

-- name: session_rename
-- a title from a person; NULL: the agent may name the session again
UPDATE session SET title = :title, named = :named WHERE id = :id

-- name: session_set_summary
-- set the entry of the newest summary
UPDATE session SET summary = :seq WHERE id = :id

-- name: session_new_chapter
-- begin a chapter: the agent starts without memory; waiting events belong to the new chapter
UPDATE session SET chapter = chapter + 1, memory = NULL, memory_chapter = NULL, summary = NULL,
  since = coalesce((SELECT h.seq FROM hearing h WHERE h.session = :id AND h.turn IS NULL ORDER BY h.seq LIMIT 1), seq + 1)
WHERE id = :id RETURNING chapter

-- name: chapter_first
-- the entry of the command by which a chapter began while a turn ran
SELECT e.seq FROM entry e JOIN command c ON c.event = e.event AND c.session = e.session AND c.name = 'new'
WHERE e.session = :session AND e.chapter = :chapter
  AND e.seq > coalesce((SELECT min(h.seq) FROM hearing h WHERE h.turn = :turn AND h.turn IS NOT NULL), 0) ORDER BY e.seq LIMIT 1

-- name: session_homes
-- the sessions with this home, where a message to this destination is recorded, too (Law 6)
SELECT {HomeSession} FROM session WHERE home = :home AND deleted IS NULL

-- name: session_due
-- sessions with a pending wake and no turn, earliest due first
SELECT id FROM session WHERE wake_at IS NOT NULL AND turn IS NULL ORDER BY wake_at

-- name: session_busy
-- sessions with a turn
SELECT {HomeSession} FROM session WHERE turn IS NOT NULL

-- name: sessions_left
-- sessions with a turn that runs under another lease
SELECT {SessionRow} FROM session WHERE turn IS NOT NULL AND coalesce(lease, '') <> :lease

-- name: sessions_due_now
-- sessions with a wake that is due and no turn, earliest due first
SELECT {SessionRow} FROM session WHERE wake_at IS NOT NULL AND wake_at <= :now AND turn IS NULL ORDER BY wake_at

-- name: session_waiting_count
-- how many events wait; counted up to a thousand (Law 11)
SELECT count(*) AS n FROM (SELECT 1 FROM hearing WHERE session = :id AND turn IS NULL LIMIT 1000)

-- name: session_standing
-- how many events wait, counted up to a thousand (Law 11), and when the running turn is tried again
SELECT (SELECT count(*) FROM (SELECT 1 FROM hearing h WHERE h.session = :id AND h.turn IS NULL LIMIT 1000)) AS waiting,
  (SELECT t.retry_at FROM turn t WHERE t.id = CAST(:turn AS BIGINT)) AS retry_at

-- name: session_news
-- what a list tells of a session: entries of agent and gateway that the owner has not seen, among the :most newest
-- changes; open requests; the newest turn
SELECT (SELECT count(*) FROM entry e WHERE e.session = s.id AND e.rev > coalesce(s.seen, 0)
    AND e.rev > coalesce((SELECT o.rev FROM entry o WHERE o.session = s.id AND o.rev > coalesce(s.seen, 0)
      ORDER BY o.rev DESC LIMIT 1 OFFSET :most), 0)
    AND e.born > coalesce(s.seen, 0) AND e.role IN ('agent', 'notice') AND e.superseded = 0 AND e.seq > s.erased) AS unread,
  (SELECT count(*) FROM item i WHERE i.session = s.id AND i.live = 1 AND i.kind = 'permission') AS approvals,
  (SELECT count(*) FROM item i WHERE i.session = s.id AND i.live = 1 AND i.kind = 'ask') AS questions,
  t.state, t.error
FROM session s LEFT JOIN turn t ON t.session = s.id AND t.epoch = (SELECT max(l.epoch) FROM turn l WHERE l.session = s.id)
WHERE s.id = :id

-- name: session_line_count
-- how many events are shown as waiting: the queue in which a message has a position; counted up to a thousand
SELECT count(*) AS n FROM (SELECT 1 FROM hearing WHERE session = :id AND turn IS NULL AND busy IS NOT NULL LIMIT 1000)

-- name: session_begin_again
-- the running turn has lost its agent: give up the lease, so that `begin` settles it
UPDATE session SET lease = NULL WHERE id = :id

-- name: session_set_busy
-- set the session's own busy mode
UPDATE session SET busy = :busy WHERE id = :id

-- name: session_set_about
-- set what the agent offers in this session
UPDATE session SET about = :about WHERE id = :id

-- name: session_set_seen
-- the owner has seen the session up to this rev; an earlier rev changes nothing
UPDATE session SET seen = :rev WHERE id = :id AND (seen IS NULL OR seen < :rev)

-- name: session_archive
-- archive a session, or bring it back
UPDATE session SET archived = :archived WHERE id = :id

-- name: session_delete
-- delete a session: its content is erased later; key, numbers and home stay
UPDATE session SET deleted = :at, archived = NULL, erased = seq, erased_rev = rev, title = NULL, named = 0, about = NULL, busy = NULL,
  folder = NULL
WHERE id = :id

-- name: session_revive
-- an event came to a deleted session: it begins anew
UPDATE session SET deleted = NULL, since = seq + 1, at = :at WHERE id = :id

-- name: session_erase_on
-- delete also what was written after the session was deleted
UPDATE session SET erased = seq, erased_rev = rev WHERE id = :id AND deleted IS NOT NULL
