-- A session may have a folder of its own, in which its agent works.

ALTER TABLE session ADD COLUMN folder TEXT;  -- an absolute path; NULL: the agent's own workspace
CREATE INDEX session_folder ON session(folder, id) WHERE folder IS NOT NULL AND deleted IS NULL;
