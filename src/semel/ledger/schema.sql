-- The ledger: what has happened. One file, one writer. Times are milliseconds since the Unix epoch.
-- Law numbers refer to docs/laws.md, which also has the glossary.

CREATE TABLE ledger(
  one INTEGER PRIMARY KEY CHECK(one = 1),
  name TEXT NOT NULL,              -- random, fixed at creation
  incarnation INTEGER NOT NULL DEFAULT 1,  -- +1 each time it was restored from a copy (Law 14)
  commits INTEGER NOT NULL DEFAULT 0,      -- number of commits; the mark file beside the ledger records it, too
  copied INTEGER,                  -- when this copy was made; NULL: it is no copy, or is settled (Law 14)
  at INTEGER NOT NULL
) STRICT;

-- One row for each time the ledger was restored from a copy and settled (Law 14).
CREATE TABLE restore(
  incarnation INTEGER PRIMARY KEY, -- the incarnation that began with this restore
  copied INTEGER NOT NULL,         -- when the copy was made; if unknown, when something was last recorded in it
  at INTEGER NOT NULL,             -- when it was settled: what people did before may have been answered already
  part INTEGER NOT NULL,           -- the newest part of the copy
  turn INTEGER NOT NULL            -- the newest turn of the copy
) STRICT;

-- One conversation with one agent.
CREATE TABLE session(
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE,
  agent TEXT NOT NULL,             -- name of the configured agent
  home TEXT,                       -- resolved destination 'channel:address'; NULL: the transcript is the delivery
  title TEXT,
  named INTEGER NOT NULL DEFAULT 0,   -- 1: a person gave the title; the agent's titles do not replace it
  chapter INTEGER NOT NULL DEFAULT 1,
  since INTEGER NOT NULL DEFAULT 1,   -- seq of the chapter's first entry; events that waited then are in the chapter
  epoch INTEGER NOT NULL DEFAULT 0,   -- +1 when a turn begins or is taken over: older runs are fenced off (Law 3)
  seq INTEGER NOT NULL DEFAULT 0,     -- of the last entry
  numbers INTEGER NOT NULL DEFAULT 0, -- the last number that an option of a permission request had (Law 13)
  rev INTEGER NOT NULL DEFAULT 0,     -- of the last change that watchers can see
  wake_at INTEGER,                 -- when the pending wake is due; set exactly while a waking event waits (Law 2)
  wake_since INTEGER,              -- when the pending wake was first set
  busy TEXT CHECK(busy IN ('queue', 'steer', 'interrupt', 'collect')),  -- its busy mode; NULL: as configured
  turn INTEGER,                    -- the running turn
  lease TEXT,                      -- the gateway run that has the session's turn
  memory TEXT,                     -- the agent's own id of this conversation (ACP sessionId)
  memory_chapter INTEGER,          -- the chapter that memory belongs to
  summary INTEGER,                 -- seq of the chapter's newest summary, for an agent whose memory is the record
  about TEXT,                      -- JSON: what the agent offers here: modes, models, mode, model; tools
  archived INTEGER,                -- when it was archived; the next event brings it back
  deleted INTEGER,                 -- when it was deleted; the next event begins it anew
  erased INTEGER NOT NULL DEFAULT 0,  -- entries up to this seq are deleted: their rows stay, their content goes
  erased_rev INTEGER NOT NULL DEFAULT 0,  -- items first seen up to this rev are deleted, too
  at INTEGER NOT NULL
) STRICT;
CREATE INDEX session_due ON session(wake_at) WHERE wake_at IS NOT NULL AND turn IS NULL;
CREATE INDEX session_busy ON session(turn) WHERE turn IS NOT NULL;
CREATE INDEX session_home ON session(home) WHERE home IS NOT NULL;
CREATE INDEX session_shown ON session(id) WHERE archived IS NULL AND deleted IS NULL;
CREATE INDEX session_archived ON session(id) WHERE archived IS NOT NULL AND deleted IS NULL;

-- Something that happened. (source, key) is its identity, for ever (Law 1).
CREATE TABLE event(
  id INTEGER PRIMARY KEY,
  source TEXT NOT NULL,
  key TEXT,                        -- NULL: never de-duplicated
  kind TEXT NOT NULL,
  sender TEXT,
  digest BLOB NOT NULL,
  payload TEXT,                    -- JSON {"text", "data"?, "files"?}; may age out, the row never does
  at INTEGER NOT NULL,
  repeats INTEGER NOT NULL DEFAULT 0
) STRICT;
-- The key is the first column, so that the index also finds a key of an unknown source. Each index costs one more page
-- per new event.
CREATE UNIQUE INDEX event_identity ON event(key, source) WHERE key IS NOT NULL;

-- Other content under the key of an event: kept beside the first content (Law 1).
CREATE TABLE conflict(
  id INTEGER PRIMARY KEY,
  event INTEGER NOT NULL REFERENCES event(id),
  digest BLOB NOT NULL,
  payload TEXT NOT NULL,
  at INTEGER NOT NULL,
  repeats INTEGER NOT NULL DEFAULT 0,
  UNIQUE(event, digest)
) STRICT;

-- Input of a channel that could not be used: its event holds it as it came, and is addressed to no session (Law 1).
CREATE TABLE quarantine(
  event INTEGER PRIMARY KEY REFERENCES event(id),
  channel TEXT NOT NULL,
  why TEXT NOT NULL                -- the reason, for people
) STRICT;

-- An event addressed to a session, and the turn it is bound to (Law 3).
CREATE TABLE hearing(
  event INTEGER NOT NULL REFERENCES event(id),
  session INTEGER NOT NULL REFERENCES session(id),
  seq INTEGER NOT NULL,            -- its entry
  wakes INTEGER NOT NULL,          -- 0 or 1
  turn INTEGER,                    -- NULL: waiting
  busy TEXT,                       -- the busy mode by which it waits, if it is shown as waiting (or 'withdrawn')
  PRIMARY KEY(event, session)
) STRICT;
CREATE INDEX hearing_waiting ON hearing(session, event) WHERE turn IS NULL;
CREATE INDEX hearing_turn ON hearing(turn, event) WHERE turn IS NOT NULL;

-- A command that a person gave the gateway: an event that no agent sees. It is carried out once (Law 1).
CREATE TABLE command(
  event INTEGER NOT NULL REFERENCES event(id),
  session INTEGER NOT NULL REFERENCES session(id),
  seq INTEGER NOT NULL,            -- its entry
  name TEXT NOT NULL,
  argument TEXT NOT NULL,
  result TEXT NOT NULL,            -- what it did in the ledger, in the transaction that accepted it
  state TEXT NOT NULL CHECK(state IN ('open', 'done', 'void')),  -- void: its session was deleted first
  answer INTEGER,                  -- the entry of its answer
  PRIMARY KEY(event, session)
) STRICT;
CREATE INDEX command_open ON command(session, event) WHERE state = 'open';

-- One run of the agent over the events bound to it. A retry shares its root.
CREATE TABLE turn(
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES session(id),
  epoch INTEGER NOT NULL,
  chapter INTEGER NOT NULL,
  root INTEGER NOT NULL,           -- the first attempt (itself, if it is the first)
  attempt INTEGER NOT NULL,        -- 1, 2, 3 within the root
  how TEXT CHECK(how IN ('start', 'restart', 'resume', 'recall')),  -- NULL until the agent was prompted
  state TEXT NOT NULL CHECK(state IN ('running', 'done', 'failed', 'cancelled', 'lost')),
  tools INTEGER NOT NULL DEFAULT 0,   -- tool calls that started (Law 9)
  spawn INTEGER,
  stop TEXT,                       -- the agent's stop reason
  error TEXT,
  retry_at INTEGER,                -- when it is tried again, after a transient failure
  stopped TEXT,                    -- who asked to stop it while it ran
  joined INTEGER,                  -- the newest claim when a steered prompt last joined it
  corrected INTEGER,               -- the newest claim when its agent was asked to correct a text that was held back
  stop_seq INTEGER,                -- the entry by which the person at home stopped it; NULL: a notice is sent home
  evidence TEXT CHECK(evidence IN ('said', 'asked', 'echo', 'recorded', 'notice', 'stopped', 'quiet', 'deleted',
    'imported')),                  -- what its person can see of its end
  evidence_row INTEGER,            -- that evidence (Law 12): a claim; for notice and stopped, an entry's seq
  started INTEGER NOT NULL,
  ended INTEGER,
  UNIQUE(session, epoch)
) STRICT;
CREATE INDEX turn_root ON turn(root);

-- One start of an agent process.
CREATE TABLE spawn(
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES session(id),
  agent TEXT NOT NULL,
  gateway TEXT NOT NULL,           -- the gateway run that started it
  token BLOB NOT NULL UNIQUE,      -- digest of its fencing token (Law 10)
  pid INTEGER,
  pgid INTEGER,
  born TEXT,                       -- process start time from the kernel, to check its identity before a kill
  state TEXT NOT NULL CHECK(state IN ('live', 'ended')),
  at INTEGER NOT NULL,
  ended INTEGER,
  why TEXT
) STRICT;
CREATE INDEX spawn_live ON spawn(session) WHERE state = 'live';

-- One row of the transcript (Law 4). seq has no gaps.
CREATE TABLE entry(
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES session(id),
  seq INTEGER NOT NULL,
  born INTEGER NOT NULL,           -- the rev it first appeared with: the order of the view
  rev INTEGER NOT NULL,            -- the rev of its last change
  base INTEGER NOT NULL,           -- pieces with a rev above this are not yet in text
  at INTEGER NOT NULL,
  role TEXT NOT NULL CHECK(role IN ('user', 'agent', 'event', 'notice')),
  chapter INTEGER NOT NULL,
  text TEXT NOT NULL,
  live INTEGER NOT NULL DEFAULT 0,    -- 1: a preview that still streams (Law 6)
  partial INTEGER NOT NULL DEFAULT 0,     -- 1: cut off, because its turn or attempt ended first
  superseded INTEGER NOT NULL DEFAULT 0,  -- 1: a later entry has its text in full
  turn INTEGER,
  event INTEGER,
  claim INTEGER,
  tell INTEGER NOT NULL DEFAULT 0,    -- 1: must be in the agent's next prompt
  more TEXT,                       -- JSON object: kind, sender, files, to, from, emoji ...
  UNIQUE(session, seq)
) STRICT;
CREATE INDEX entry_rev ON entry(session, rev);
CREATE INDEX entry_turn ON entry(turn, seq) WHERE turn IS NOT NULL;
CREATE INDEX entry_claim ON entry(claim) WHERE claim IS NOT NULL;
CREATE INDEX entry_tell ON entry(session, seq) WHERE tell = 1;
CREATE INDEX entry_live ON entry(session, seq) WHERE live = 1;

-- What a watcher sees beside the transcript: tool calls, thoughts, plans, permission requests.
CREATE TABLE item(
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES session(id),
  turn INTEGER,
  kind TEXT NOT NULL,              -- tool, thought, plan, permission, ask, notice, usage ...
  name TEXT,                       -- the agent's id for it (toolCallId ...)
  born INTEGER NOT NULL,
  rev INTEGER NOT NULL,
  base INTEGER NOT NULL,
  live INTEGER NOT NULL,
  text TEXT NOT NULL,              -- thought text, or the head of tool output
  body TEXT NOT NULL               -- JSON object
) STRICT;
CREATE INDEX item_rev ON item(session, rev);
CREATE INDEX item_born ON item(session, born);
CREATE INDEX item_turn ON item(turn) WHERE turn IS NOT NULL;
CREATE INDEX item_live ON item(session, id) WHERE live = 1;
CREATE INDEX item_request ON item(session, id) WHERE kind = 'permission';

-- Streamed text as it was shown, until it is folded into its entry or item.
CREATE TABLE piece(
  session INTEGER NOT NULL,
  rev INTEGER NOT NULL,
  entry INTEGER,                   -- seq
  item INTEGER,
  text TEXT NOT NULL,
  PRIMARY KEY(session, rev)
) STRICT;
CREATE INDEX piece_entry ON piece(session, entry, rev) WHERE entry IS NOT NULL;
CREATE INDEX piece_item ON piece(item, rev) WHERE item IS NOT NULL;

-- The whole output of a tool call, as it came, in order; the view holds head + gap + tail of it (Law 8).
CREATE TABLE output(
  id INTEGER PRIMARY KEY,
  item INTEGER NOT NULL REFERENCES item(id),
  text TEXT NOT NULL
) STRICT;
CREATE INDEX output_item ON output(item, id);

-- One attempt to say something to one destination (Laws 5, 6).
CREATE TABLE claim(
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES session(id),
  turn INTEGER,                    -- NULL: no turn owns it (a refused stranger's call)
  root INTEGER,
  how TEXT NOT NULL CHECK(how IN ('tool', 'block', 'recovery', 'notice')),
  kind TEXT NOT NULL CHECK(kind IN ('text', 'file', 'reaction', 'edit', 'ask')),
  late INTEGER NOT NULL DEFAULT 0,
  spawn INTEGER,
  conn TEXT,                       -- the MCP connection
  call TEXT,                       -- the call id its MCP process minted
  tool TEXT,                       -- the agent's tool call id, where known
  args BLOB,                       -- digest of name and arguments, to find equal calls
  answered INTEGER NOT NULL DEFAULT 0,  -- 1: the agent received the result
  dest TEXT,                       -- resolved destination; NULL where none could be resolved
  digest BLOB,                     -- of the verbatim form of its text (Law 5); NULL where it claims no text
  text TEXT NOT NULL,
  outcome TEXT NOT NULL CHECK(outcome IN ('said', 'echo', 'refused', 'quiet')),
  reason TEXT,
  echo_of INTEGER,
  edits INTEGER,                   -- the claim whose text it replaces
  part_of INTEGER,                 -- the first claim of its block, if the block has several
  erased INTEGER,                  -- the number of characters that its text had before it was erased
  seq INTEGER,                     -- its entry in its own session
  at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX claim_call ON claim(spawn, call) WHERE call IS NOT NULL;
CREATE INDEX claim_text ON claim(root, dest, digest) WHERE digest IS NOT NULL;
CREATE INDEX claim_root ON claim(root) WHERE root IS NOT NULL;
CREATE INDEX claim_args ON claim(spawn, args) WHERE call IS NOT NULL;
CREATE INDEX claim_session ON claim(session, id);
CREATE INDEX claim_edits ON claim(edits) WHERE edits IS NOT NULL;
CREATE INDEX claim_echo ON claim(echo_of) WHERE echo_of IS NOT NULL;
CREATE INDEX claim_reserved ON claim(dest) WHERE reason = 'reserved' AND outcome = 'quiet';
CREATE INDEX claim_notice ON claim(dest, reason, at) WHERE how = 'notice';

-- One piece of an utterance as it leaves for a platform (Law 7).
CREATE TABLE part(
  id INTEGER PRIMARY KEY,
  line INTEGER NOT NULL,           -- its place in its destination's line; a resend joins the tail
  claim INTEGER NOT NULL REFERENCES claim(id),
  n INTEGER NOT NULL,              -- 0, 1, 2 ...
  lo INTEGER NOT NULL,             -- it covers text[lo:hi] of its claim (code points); parts cover it exactly
  hi INTEGER NOT NULL,
  channel TEXT NOT NULL,
  dest TEXT NOT NULL,
  key TEXT NOT NULL UNIQUE,        -- the idempotency key the platform is given; the same on every retry
  op TEXT NOT NULL,                -- JSON: {"kind": "post"|"edit"|"delete"|"react"|"file", "text", "target"?, "file"?, ...}
  state TEXT NOT NULL CHECK(state IN ('queued', 'sending', 'sent', 'rejected', 'unknown', 'held', 'dropped')),
  due INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  first INTEGER,                   -- when the first of those attempts left that may have arrived
  receipt TEXT,                    -- the platform's message id
  error TEXT,
  sent_rev INTEGER,                -- the last rev of its session before it was known to be sent (Law 13)
  marked INTEGER NOT NULL DEFAULT 0,  -- 1: a deliberate repeat; the person sees that
  failed INTEGER REFERENCES event(id),  -- the event that reported, after it was sent, that it failed
  at INTEGER NOT NULL,
  UNIQUE(claim, n)
) STRICT;
CREATE INDEX part_line ON part(dest, line) WHERE state IN ('queued', 'sending', 'unknown');
CREATE INDEX part_due ON part(channel, due) WHERE state IN ('queued', 'sending', 'unknown');
CREATE INDEX part_state ON part(state, id);
CREATE INDEX part_receipt ON part(receipt) WHERE receipt IS NOT NULL;
CREATE UNIQUE INDEX part_failed ON part(failed) WHERE failed IS NOT NULL;

-- A configured node. It keeps its source when its name or its token changes (Law 1).
CREATE TABLE node(
  source TEXT PRIMARY KEY,         -- the source of its events: node:NAME, with its first name
  name TEXT NOT NULL,              -- its current name
  token BLOB NOT NULL,             -- digest of its current token
  at INTEGER NOT NULL              -- when it was first configured
) STRICT;
CREATE UNIQUE INDEX node_token ON node(token);
CREATE INDEX node_name ON node(name);

-- How far each source has been read.
CREATE TABLE cursor(source TEXT PRIMARY KEY, value TEXT NOT NULL, at INTEGER NOT NULL) STRICT;

-- Stored files (data_dir/blobs/<id>): files to send, copied into the store before the send, and received files.
CREATE TABLE blob(
  id TEXT PRIMARY KEY,             -- BLAKE2b-256 of the content, hex
  size INTEGER NOT NULL,
  name TEXT NOT NULL,
  mime TEXT NOT NULL,
  gone INTEGER NOT NULL DEFAULT 0, -- 1: no entry holds it any more; its file is removed, then this row
  kept INTEGER NOT NULL DEFAULT 0, -- 1: received, and its message is not accepted yet
  at INTEGER NOT NULL
) STRICT;
CREATE INDEX blob_gone ON blob(id) WHERE gone = 1;
CREATE INDEX blob_kept ON blob(id) WHERE kept = 1;

-- Which entries hold a file.
CREATE TABLE holding(
  session INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  blob TEXT NOT NULL,
  PRIMARY KEY(session, seq, blob)
) STRICT;
CREATE INDEX holding_blob ON holding(blob);

-- A deleted session whose content is being erased, piece by piece, across restarts (Law 11).
CREATE TABLE erasure(
  session INTEGER PRIMARY KEY REFERENCES session(id),
  seq INTEGER NOT NULL,            -- entries up to this seq are erased
  rev INTEGER NOT NULL,            -- items that were first seen up to this rev are erased
  epoch INTEGER NOT NULL,          -- turns up to this epoch are erased
  stage TEXT NOT NULL,
  at INTEGER NOT NULL,             -- how far the stage has come
  later INTEGER NOT NULL           -- some claims with an id below this one still have parts to send; 0: none has
) STRICT;

-- What fires by the clock. A firing is an event of source 'schedule:NAME', its key the due time.
CREATE TABLE schedule(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  session TEXT NOT NULL,           -- session key; 'schedule:NAME' is its own, without a home
  text TEXT NOT NULL,
  form TEXT NOT NULL CHECK(form IN ('cron', 'at', 'every')),
  spec TEXT NOT NULL,              -- as it was written
  tz TEXT NOT NULL,                -- name in the tz database
  downtime TEXT NOT NULL CHECK(downtime IN ('skip', 'once', 'all')),
  source TEXT NOT NULL CHECK(source IN ('config', 'api', 'agent')),
  enabled INTEGER NOT NULL,        -- 0: paused
  anchor INTEGER NOT NULL,         -- what an interval counts from
  due INTEGER,                     -- the next firing; NULL: none is left
  fired INTEGER,                   -- due time of the last firing
  event INTEGER,                   -- the last firing
  error TEXT,                      -- why Semel paused it
  at INTEGER NOT NULL
) STRICT;
CREATE INDEX schedule_due ON schedule(due) WHERE enabled = 1 AND due IS NOT NULL;
CREATE INDEX schedule_session ON schedule(session, name);

-- A command that an agent runs in the background. It is a row before it is a process.
CREATE TABLE job(
  id INTEGER PRIMARY KEY,
  run TEXT NOT NULL UNIQUE,        -- its permanent id, also in the keys of its reports
  session INTEGER NOT NULL REFERENCES session(id),
  agent TEXT NOT NULL,
  turn INTEGER,                    -- the turn that asked for it
  command TEXT NOT NULL,
  name TEXT NOT NULL,              -- what the agent calls it; may be empty
  seconds REAL NOT NULL,           -- its time limit
  state TEXT NOT NULL CHECK(state IN ('asked', 'running', 'finished', 'lost', 'failed')),
  cancelled TEXT,                  -- who cancelled it first
  code INTEGER,                    -- exit code, 128 + n after signal n
  error TEXT,                      -- failed: why it could not be started
  event INTEGER,                   -- the event that reported its end
  at INTEGER NOT NULL,
  ended INTEGER
) STRICT;
CREATE INDEX job_session ON job(session, id);
CREATE INDEX job_open ON job(session, id) WHERE ended IS NULL;

-- Each tool call that asked for a job. A repeat, or a re-issue by a later MCP process, gets the same job (Law 9).
CREATE TABLE job_call(
  id INTEGER PRIMARY KEY,
  job INTEGER NOT NULL REFERENCES job(id),
  spawn INTEGER NOT NULL,
  turn INTEGER,
  conn TEXT,
  call TEXT NOT NULL,
  tool TEXT,
  args BLOB NOT NULL,
  answered INTEGER NOT NULL DEFAULT 0,
  again INTEGER,                   -- the job_call that this one re-issues
  UNIQUE(spawn, call)
) STRICT;
CREATE INDEX job_call_args ON job_call(spawn, args);
CREATE INDEX job_call_job ON job_call(job);

-- A known person's account on a channel, and what it may do. Everybody else is a stranger.
CREATE TABLE person(
  id INTEGER PRIMARY KEY,
  channel TEXT NOT NULL,
  account TEXT NOT NULL,           -- the platform's own id of it
  name TEXT NOT NULL,              -- a person may have several accounts; all have the same role
  role TEXT NOT NULL CHECK(role IN ('owner', 'member', 'guest')),
  origin TEXT NOT NULL CHECK(origin IN ('config', 'added', 'paired')),
  at INTEGER NOT NULL,
  UNIQUE(channel, account)
) STRICT;
CREATE INDEX person_name ON person(name);

-- A code that the owner was shown once. The account on that channel that sends it becomes a known person's account.
CREATE TABLE pairing(
  id INTEGER PRIMARY KEY,
  channel TEXT NOT NULL,
  salt BLOB NOT NULL,
  digest BLOB NOT NULL,            -- scrypt of the code; the code itself is not stored
  name TEXT NOT NULL,
  role TEXT NOT NULL CHECK(role IN ('owner', 'member', 'guest')),
  state TEXT NOT NULL CHECK(state IN ('open', 'used', 'void')),  -- one that is open and past `expires` is expired
  account TEXT,                    -- who used it
  key TEXT,                        -- the message they used it with: a repeat of it is answered the same
  at INTEGER NOT NULL,
  expires INTEGER NOT NULL
) STRICT;
CREATE INDEX pairing_open ON pairing(id) WHERE state = 'open';
CREATE UNIQUE INDEX pairing_key ON pairing(channel, account, key) WHERE key IS NOT NULL;

-- The direct chat in which a known person last wrote to us.
CREATE TABLE direct(
  channel TEXT NOT NULL,
  account TEXT NOT NULL,
  address TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY(channel, account)
) STRICT;
CREATE INDEX direct_address ON direct(channel, address);
