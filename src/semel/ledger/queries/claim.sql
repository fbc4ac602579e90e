-- name: claim_add
-- one attempt to say something to one destination (Laws 5, 6); whether another session has this destination as its home
INSERT INTO claim(session, turn, root, how, kind, late, spawn, conn, call, tool, args, dest, digest, text, outcome, reason, echo_of, seq, at)
VALUES(:session, :turn, :root, :how, :kind, :late, :spawn, :conn, :call, :tool, :args, :dest, :digest, :text, :outcome, :reason, :echo_of, :seq, :at)
RETURNING id, EXISTS(SELECT 1 FROM session s WHERE s.home = claim.dest AND s.id <> claim.session AND s.deleted IS NULL) AS is_shared

-- name: claim_get
-- one claim
SELECT {ClaimRow} FROM claim WHERE id = :id

-- name: claim_by_call
-- the claim of a tool call that is handed over again
SELECT {ClaimRow} FROM claim WHERE spawn = :spawn AND call = :call AND call IS NOT NULL

-- name: claims_of_text
-- the claims of a text to a destination in a root. `gone`: the claim does not stand any more (Law 5), because a part of
-- it was rejected, dropped or failed later; or because it was deleted on its platform; or because it was edited, unless
-- all parts of the edit were refused; or because its entry is superseded, and either it has no parts or its attempt
-- said the text once more. `leaves`: it has parts. (min: PostgreSQL would look for an EXISTS in all parts at once)
SELECT c.id, c.session, c.seq, c.turn, c.how, c.outcome, c.echo_of,
  EXISTS(SELECT 1 FROM part p WHERE p.claim = c.id AND (p.state IN ('rejected', 'dropped') OR p.failed IS NOT NULL))
  OR EXISTS(
    SELECT 1 FROM entry n WHERE n.claim = coalesce(c.edits, c.id) AND (n.more ->> 'deleted' IS NOT NULL OR n.superseded = 1 AND (
      NOT EXISTS(SELECT 1 FROM part p WHERE p.claim = c.id)
      OR EXISTS(
        SELECT 1 FROM claim r JOIN entry m ON m.claim = r.id WHERE r.root = c.root AND r.dest = c.dest AND r.digest = c.digest
        AND r.id > c.id AND r.turn = c.turn AND r.outcome = 'said' AND m.superseded = 0))))
  OR EXISTS(
    SELECT 1 FROM claim e WHERE e.edits = coalesce(c.edits, c.id) AND e.id > c.id AND e.outcome = 'said' AND (
      NOT EXISTS(SELECT 1 FROM part p WHERE p.claim = e.id)
      OR (SELECT min(p.id) FROM part p WHERE p.claim = e.id AND p.state NOT IN ('rejected', 'dropped') AND p.failed IS NULL) IS NOT NULL)
  ) AS gone,
  EXISTS(SELECT 1 FROM part p WHERE p.claim = c.id) AS leaves
FROM claim c
WHERE c.root = :root AND c.dest = :dest AND c.digest = :digest AND c.digest IS NOT NULL ORDER BY c.id

-- name: claim_of_text
-- whether a root has a claim of a text to a destination. Few have; `claims_of_text` costs PostgreSQL more than twice as
-- much (61 instead of 26 us in the server's log)
SELECT 1 FROM claim WHERE root = :root AND dest = :dest AND digest = :digest AND digest IS NOT NULL LIMIT 1

-- name: claim_edits
-- a claim that is an edit: it replaces the text of another claim
UPDATE claim SET edits = :edits, digest = :digest WHERE id = :id

-- name: claims_of_root
-- everything claimed in a root
-- sorts: the claims of one root
SELECT {ClaimRow} FROM claim WHERE root = :root ORDER BY id

-- name: utterances_of_root
-- what the agent said in a root, with the marks of its entry, the states of its parts, and the claim that repeated it
-- last in the first attempt that did
-- sorts: the echoes of one text
SELECT c.id, c.turn, c.how, c.kind, c.dest, c.text, c.seq, e.partial, e.superseded, e.more,
  (SELECT string_agg(p.state, ',') FROM part p WHERE p.claim = c.id) AS states,
  EXISTS(SELECT 1 FROM part p WHERE p.claim = c.id AND p.failed IS NOT NULL) AS failed,
  (SELECT k.id FROM claim k WHERE k.echo_of = c.id AND k.how IN ('block', 'recovery') ORDER BY k.turn, k.id DESC LIMIT 1) AS repeated,
  c.dest IS NULL AND e.partial = 1 AND e.superseded = 0 AND EXISTS(
    SELECT 1 FROM claim r JOIN part p ON p.claim = r.id AND p.n = 0 AND p.state = 'sent' AND p.sent_rev < e.rev
    WHERE r.root = :root AND r.root IS NOT NULL AND r.reason = 'reserved' AND r.outcome = 'quiet') AS previewed
FROM claim c LEFT JOIN entry e ON e.session = c.session AND e.seq = c.seq
WHERE c.root = :root AND c.outcome = 'said' AND c.how <> 'notice' ORDER BY c.id

-- name: written_in_root
-- every text that the agent wrote in a root, complete or cut off, whatever became of it
-- sorts: the claims of one root
SELECT c.id, c.outcome, c.dest, c.text, e.partial FROM claim c
LEFT JOIN entry e ON e.session = c.session AND e.seq = c.seq
WHERE c.root = :root AND c.how IN ('block', 'recovery') AND c.kind = 'text' AND c.text <> '' ORDER BY c.id

-- name: says_at_home
-- whether an attempt said something of its own at its session's home
SELECT count(*) AS n FROM turn t JOIN claim c ON c.root = t.root AND c.turn = t.id
WHERE t.id = :turn AND c.outcome = 'said' AND c.how IN ('block', 'tool') AND c.kind <> 'reaction'
  AND (c.dest = :home OR (:home IS NULL AND c.dest LIKE 'session:%'))

-- name: claims_equal
-- calls of this process in this turn with equal arguments (the re-issue rule)
SELECT id, conn, tool, answered, CASE WHEN reason = :reissue THEN echo_of END AS reissue_of FROM claim
WHERE spawn = :spawn AND args = :args AND turn = :turn AND call IS NOT NULL ORDER BY id

-- name: claim_answered
-- the agent received the result of a call
UPDATE claim SET answered = 1 WHERE spawn = :spawn AND call = :call AND call IS NOT NULL

-- name: part_add
-- add a part, at a place that its destination's line gave out (`line_take`)
INSERT INTO part(line, claim, n, lo, hi, channel, dest, key, op, state, due, at)
VALUES(:line, :claim, :n, :lo, :hi, :channel, :dest, :key, :op, 'queued', :at, :at)
RETURNING id

-- name: blob_add
-- a file that was copied into the store
INSERT INTO blob(id, size, name, mime, at) VALUES(:id, :size, :name, :mime, :at) ON CONFLICT(id) DO UPDATE SET gone = 0

-- name: blob_keep
-- a file that was received; its message is not accepted yet
INSERT INTO blob(id, size, name, mime, kept, at) VALUES(:id, :size, :name, :mime, 1, :at)
ON CONFLICT(id) DO UPDATE SET gone = 0, kept = 1

-- name: blob_heard
-- the message or claim that brought a file was recorded
UPDATE blob SET kept = 0, gone = 0 WHERE id = :id

-- name: blob_settle
-- the message that brought a file is not accepted any more
UPDATE blob SET kept = 0 WHERE id = :id

-- name: blobs_kept
-- files that were received until then, and whose message was never accepted
-- scans: few, at the start
SELECT id FROM blob INDEXED BY blob_kept WHERE kept = 1 AND at <= :before

-- name: blob_get
-- one stored file
SELECT id, size, name, mime, at FROM blob WHERE id = :id

-- name: claim_answered_id
-- a re-issued call was answered, so the first call counts as answered
UPDATE claim SET answered = 1 WHERE id = :id

-- name: part_first
-- the first part of an utterance
SELECT id FROM part WHERE claim = :claim AND n = 0

-- name: claim_last_block
-- the last text or file that a root wrote at its home, complete or cut off, and not superseded
-- sorts: the claims of one root
SELECT {ClaimRow c} FROM claim c LEFT JOIN entry e ON e.session = c.session AND e.seq = c.seq
WHERE c.root = :root AND c.root IS NOT NULL AND c.how IN ('block', 'recovery') AND c.outcome IN ('said', 'echo')
  AND (c.text <> '' OR c.kind = 'file') AND (c.dest = :home OR c.how = 'recovery') AND coalesce(e.superseded, 0) = 0
ORDER BY c.id DESC LIMIT 1

-- name: claims_of_block
-- the claims of one block at home, in order; for an echo, its original
-- sorts: the claims of one root
SELECT coalesce(c.echo_of, c.id) AS id FROM claim c
WHERE c.root = :root AND (c.id = :first OR c.part_of = :first) AND c.outcome IN ('said', 'echo')
  AND (c.dest = :home OR c.how = 'recovery') ORDER BY c.id

-- name: block_of_file_before
-- the first claim of the block that an entry continues: if the entry before it is a file of that block, and no tool
-- call began in between
SELECT coalesce(c.part_of, c.id) AS first FROM entry f JOIN claim c ON c.id = f.claim
WHERE f.session = :session AND f.seq = CAST(:seq AS BIGINT) - 1 AND f.turn = :turn AND c.kind = 'file' AND c.how = 'block'
  AND NOT EXISTS(SELECT 1 FROM item i WHERE i.turn = :turn AND i.kind = 'tool' AND i.born > f.born)

-- name: claim_behind
-- the newest later entry whose text the session's home gets before this claim's
SELECT c.session, c.seq, n.seq AS behind FROM claim c JOIN session s ON s.id = c.session AND s.home = :dest
JOIN entry n ON n.session = c.session AND n.seq > c.seq JOIN part p ON p.claim = n.claim AND p.n = 0
WHERE c.id = :id AND n.claim <> c.id AND p.dest = :dest ORDER BY n.seq DESC LIMIT 1

-- name: block_left_since
-- whether a later block of the claim's turn has parts for the same destination (Law 7)
SELECT 1 FROM claim c JOIN claim n ON n.root = c.root AND n.turn = c.turn AND n.id > c.id AND n.dest = c.dest
WHERE c.id = :claim AND n.how = 'block' AND n.outcome = 'said' AND EXISTS(SELECT 1 FROM part p WHERE p.claim = n.id) LIMIT 1

-- name: claim_part_of
-- set the first claim of a claim's block
UPDATE claim SET part_of = :first WHERE id = :id

-- name: claims_of_file
-- the said claims of a file to a destination in a root. `gone`: a part was rejected, dropped or failed later
-- sorts: the claims of one root
SELECT c.id, c.session, c.seq, c.turn, c.how, c.outcome, c.echo_of,
  EXISTS(SELECT 1 FROM part p WHERE p.claim = c.id AND (p.state IN ('rejected', 'dropped') OR p.failed IS NOT NULL)) AS gone,
  EXISTS(SELECT 1 FROM part p WHERE p.claim = c.id) AS leaves
FROM claim c JOIN holding h ON h.session = c.session AND h.seq = c.seq AND h.blob = :blob
WHERE c.root = :root AND c.root IS NOT NULL AND c.kind = 'file' AND c.outcome = 'said' AND c.dest = :dest ORDER BY c.id

-- name: claims_of_link
-- the same for a file that is only a link
-- sorts: the claims of one root
SELECT c.id, c.session, c.seq, c.turn, c.how, c.outcome, c.echo_of,
  EXISTS(SELECT 1 FROM part p WHERE p.claim = c.id AND (p.state IN ('rejected', 'dropped') OR p.failed IS NOT NULL)) AS gone,
  EXISTS(SELECT 1 FROM part p WHERE p.claim = c.id) AS leaves
FROM claim c JOIN entry e ON e.session = c.session AND e.seq = c.seq
WHERE c.root = :root AND c.root IS NOT NULL AND c.kind = 'file' AND c.outcome = 'said' AND c.dest = :dest
  AND e.more ->> '$.files[0].uri' = :uri ORDER BY c.id

-- name: claims_for_reason
-- the claims of a root that were not said for a given reason
-- sorts: the claims of one root
SELECT id, text FROM claim WHERE root = :root AND root IS NOT NULL AND outcome <> 'said' AND reason = :reason ORDER BY id

-- name: claim_quiet
-- the newest quiet claim of a root, with a given reason
-- sorts: the claims of one root
SELECT id FROM claim WHERE root = :root AND root IS NOT NULL AND outcome = 'quiet' AND reason = :reason ORDER BY id DESC LIMIT 1

-- name: parts_fallen
-- how many parts an utterance has, and whether all of them were rejected or dropped
SELECT count(*) AS n, count(*) = count(*) FILTER (WHERE state IN ('rejected', 'dropped')) AS fallen
FROM part WHERE claim = :claim
