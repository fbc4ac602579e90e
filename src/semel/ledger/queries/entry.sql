-- name: entry_add
-- one row of the transcript
INSERT INTO entry(session, seq, born, rev, base, at, role, chapter, text, live, partial, turn, event, claim, tell, more)
VALUES(:session, :seq, :rev, :rev, :rev, :at, :role, :chapter, :text, :live, :partial, :turn, :event, :claim, :tell, :more)

-- name: entry_get
-- one entry
SELECT {EntryRow} FROM entry WHERE session = :session AND seq = :seq

-- name: entry_touch
-- an entry changed for watchers, though its own columns did not
UPDATE entry SET rev = :rev WHERE session = :session AND seq = :seq

-- name: entry_set
-- the new state of an entry; its pieces are folded in
UPDATE entry SET rev = :rev, base = :rev, text = :text, live = :live, partial = :partial, superseded = :superseded,
  claim = :claim, tell = :tell, more = :more
WHERE session = :session AND seq = :seq

-- name: entries_after
-- the entries that changed after a rev, in the order of their change
SELECT {EntryRow}
FROM entry WHERE session = :session AND rev >
    (SELECT CASE WHEN s.erased_rev > :after THEN s.erased_rev ELSE :after END FROM session s WHERE s.id = :session)
  AND seq > (SELECT s.erased FROM session s WHERE s.id = :session) ORDER BY rev LIMIT :limit

-- name: entries_last
-- the newest stretch of the transcript
SELECT {EntryRow}
FROM entry WHERE session = :session AND seq < :before AND seq > (SELECT s.erased FROM session s WHERE s.id = :session)
ORDER BY seq DESC LIMIT :limit

-- name: entries_last_of_chapter
-- the newest stretch of the transcript since its chapter began
SELECT {EntryRow}
FROM entry WHERE session = :session AND seq < :before
  AND seq >= (SELECT CASE WHEN s.erased >= s.since THEN s.erased + 1 ELSE s.since END FROM session s WHERE s.id = :session)
ORDER BY seq DESC LIMIT :limit

-- name: entries_of_turn
-- the entries of a turn
SELECT {EntryRow} FROM entry WHERE turn = :turn ORDER BY seq

-- name: entries_live
-- entries that still stream
SELECT {EntryRow} FROM entry WHERE session = :session AND live = 1 ORDER BY seq

-- name: entries_to_tell
-- what must be in the agent's next prompt (Law 7), unless it belongs to a turn of an earlier chapter
SELECT e.id, e.session, e.seq, e.born, e.rev, e.base, e.at, e.role, e.text, e.live, e.partial, e.superseded, e.turn, e.event,
  e.claim, e.tell, e.more, t.root, EXISTS(SELECT 1 FROM part p WHERE p.claim = e.claim)
  OR (e.partial = 1 AND e.superseded = 0 AND EXISTS(
    SELECT 1 FROM claim r JOIN part p ON p.claim = r.id AND p.n = 0 AND p.state = 'sent' AND p.sent_rev < e.rev
    WHERE r.root = t.root AND r.root IS NOT NULL AND r.reason = 'reserved' AND r.outcome = 'quiet')) AS leaves
FROM entry e INDEXED BY entry_tell LEFT JOIN turn t ON t.id = e.turn
WHERE e.session = :session AND e.tell = 1 AND coalesce(t.chapter, e.chapter) = (SELECT s.chapter FROM session s WHERE s.id = :session)
ORDER BY e.seq

-- name: entries_prompted
-- entries up to here were in a prompt
UPDATE entry SET tell = 0 WHERE session = :session AND tell = 1 AND seq <= :upto

-- name: entries_of_claim
-- the entries of a claim
SELECT e.session, e.seq, e.superseded FROM entry e JOIN session s ON s.id = e.session WHERE e.claim = :claim AND e.seq > s.erased

-- name: entry_shown
-- one entry with what its view tells besides: how the source of its event named it, the finished turn for which that
-- event asked, how often its claim was repeated, and whether the claim has parts
SELECT {EntryRow n}, e.source, e.key, t.id AS ended_turn, t.state AS ended_state, t.stop AS ended_stop, t.error AS ended_error,
  t.tokens, t.cost,
  (SELECT count(*) FROM claim r WHERE r.echo_of = n.claim) AS echoes,
  EXISTS(SELECT 1 FROM part p WHERE p.claim = n.claim) AS has_parts
FROM entry n LEFT JOIN event e ON e.id = n.event
LEFT JOIN hearing h ON h.event = n.event AND h.session = n.session AND h.wakes = 1
LEFT JOIN turn t ON t.id = h.turn AND t.state IN ('done', 'failed', 'cancelled')
WHERE n.session = :session AND n.seq = :seq

-- name: delivery_of_claim
-- the delivery states of an utterance
-- sorts: the parts of one utterance
SELECT dest, state, failed IS NOT NULL AS failed, count(*) AS n, min(id) AS part, max(error) AS error,
  '[' || string_agg(CAST(id AS TEXT), ',') || ']' AS ids
FROM part WHERE claim = :claim GROUP BY dest, state, failed IS NOT NULL

-- name: notice_parts
-- the parts of a notice, in order: whether each was sent, and as which message
SELECT id, dest, state, failed, receipt, first, error FROM part WHERE claim = :claim ORDER BY n

-- name: requests_last
-- the last permission requests of a session, the newest first
SELECT {ItemRow}
FROM item INDEXED BY item_request WHERE session = :session AND kind = 'permission' ORDER BY id DESC LIMIT :limit

-- name: piece_add
-- streamed text, as it was shown
INSERT INTO piece(session, rev, entry, item, text) VALUES(:session, :rev, :entry, :item, :text)

-- name: pieces_of_entry
-- streamed text that is not yet folded into its entry
SELECT text FROM piece WHERE session = :session AND entry = :seq AND rev > :after ORDER BY rev

-- name: first_pieces_of_entry
-- the beginning of the streamed text that is not yet folded into its entry
SELECT text FROM piece WHERE session = :session AND entry = :seq AND rev > :after ORDER BY rev LIMIT :limit

-- name: pieces_of_item
-- streamed text that is not yet folded into its item
SELECT text FROM piece WHERE item = :item AND rev > :after ORDER BY rev

-- name: pieces_drop_entry
-- the pieces were folded into their entry
DELETE FROM piece WHERE session = :session AND entry = :seq

-- name: pieces_drop_item
-- the pieces were folded into their item
DELETE FROM piece WHERE item = :item

-- name: item_add
-- something that watchers see beside the transcript
INSERT INTO item(session, turn, kind, name, born, rev, base, live, text, body)
VALUES(:session, :turn, :kind, :name, :rev, :rev, :rev, :live, :text, :body) RETURNING id

-- name: item_get
-- one item
SELECT {ItemRow} FROM item WHERE id = :id

-- name: item_set
-- the new state of an item; its pieces are folded in
UPDATE item SET rev = :rev, base = :rev, live = :live, text = :text, body = :body WHERE id = :id

-- name: item_grew
-- an item grew by a piece
UPDATE item SET rev = :rev WHERE id = :id

-- name: entry_grew
-- an entry grew by a piece
UPDATE entry SET rev = :rev WHERE session = :session AND seq = :seq

-- name: items_after
-- the items that changed after a rev
SELECT {ItemRow}
FROM item WHERE session = :session AND rev >
  (SELECT CASE WHEN s.erased_rev > :after THEN s.erased_rev ELSE :after END FROM session s WHERE s.id = :session)
ORDER BY rev LIMIT :limit

-- name: items_between
-- the items of a stretch of the view, in order
SELECT {ItemRow}
FROM item WHERE session = :session AND born < :hi AND born >
  (SELECT CASE WHEN s.erased_rev >= :lo THEN s.erased_rev ELSE :lo - 1 END FROM session s WHERE s.id = :session)
ORDER BY born

-- name: items_live
-- items that are not over
SELECT {ItemRow} FROM item WHERE session = :session AND live = 1 ORDER BY id

-- name: output_add
-- tool output is stored whole, in order (Law 8)
INSERT INTO output(item, text) VALUES(:item, :text)

-- name: output_of_item
-- the whole output of a tool call
SELECT text FROM output WHERE item = :item ORDER BY id

-- name: output_drop
-- a snapshot replaces the output so far
DELETE FROM output WHERE item = :item

-- name: entries_before
-- a chapter's newest entries, each with the turn that its event is bound to and its root. An entry belongs to the
-- chapter in which its turn began. Commands and their answers are left out: they are between people and the gateway
SELECT e.seq, e.role, e.text, e.live, e.partial, e.superseded, e.turn, e.event, e.more, h.turn AS bound, t.root, v.source
FROM entry e LEFT JOIN hearing h ON h.event = e.event AND h.session = e.session LEFT JOIN turn t ON t.id = coalesce(h.turn, e.turn)
LEFT JOIN event v ON v.id = e.event
WHERE e.session = :session AND e.seq < :before
  AND e.seq >= (SELECT CASE WHEN s.erased >= :since AND s.erased >= s.since THEN s.erased + 1
    WHEN s.since > :since THEN s.since ELSE :since END FROM session s WHERE s.id = :session)
  AND coalesce(t.chapter, e.chapter) = :chapter AND (e.more ->> 'kind' IS DISTINCT FROM 'command' OR e.role = 'event')
ORDER BY e.seq DESC LIMIT :limit

-- name: items_of_turn
-- what a turn did beside its text
SELECT {ItemRow} FROM item WHERE turn = :turn ORDER BY id

-- name: turn_last_report
-- what the agent last reported about itself in a turn
SELECT text FROM item WHERE turn = :turn AND kind = 'notice' AND text <> '' ORDER BY id DESC LIMIT 1

-- name: turn_current_notice
-- what the agent of a turn reported about itself last, if nothing of the turn came after it
SELECT {ItemRow i} FROM item i
WHERE i.id = (SELECT max(n.id) FROM item n WHERE n.turn = :turn AND n.kind <> 'usage') AND i.kind = 'notice'
  AND NOT EXISTS(SELECT 1 FROM entry e WHERE e.turn = :turn AND e.role = 'agent' AND e.rev > i.rev)

-- name: item_is_live
-- whether an item is still live
SELECT live FROM item WHERE id = :id

-- name: entries_removed
-- up to which entry retention removed the content of a session, and when it removed that of the newest event among them
SELECT s.erased AS upto,
  (SELECT e.erased_at FROM entry n JOIN event e ON e.id = n.event
   WHERE n.session = s.id AND n.seq <= s.erased AND n.seq > s.erased - 64 ORDER BY n.seq DESC LIMIT 1) AS at
FROM session s WHERE s.id = :session AND s.erased > 0

-- name: entry_before
-- whether there is an entry before this one that was not deleted
SELECT 1 FROM entry WHERE session = :session AND seq = CAST(:seq AS BIGINT) - 1 AND seq > (SELECT s.erased FROM session s WHERE s.id = :session)
