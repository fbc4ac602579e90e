-- name: search_sessions
-- a page of sessions with their revs, to find out which ones the index must read
SELECT id, rev FROM session WHERE id > :after ORDER BY id LIMIT :limit

-- name: search_entries
-- what changed in a session, for the search index
SELECT id, seq, rev, at, role, text, live, superseded, more
FROM entry WHERE session = :session AND rev > :after ORDER BY rev LIMIT :limit

-- name: search_hit
-- one entry that was found, with its session; none if it was deleted
SELECT e.id, e.seq, e.rev, e.at, e.role, e.text, e.live, e.superseded, e.more, s.key, s.title
FROM entry e JOIN session s ON s.id = e.session WHERE e.session = :session AND e.seq = :seq AND e.seq > s.erased AND s.deleted IS NULL
