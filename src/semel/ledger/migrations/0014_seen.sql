-- People see on every face which sessions have news for them.

ALTER TABLE session ADD COLUMN seen INTEGER;  -- the rev up to which the owner has seen the session; NULL: nothing yet
UPDATE session SET seen = rev;  -- what was there before this version counts as seen
