-- Retention: how far the content of a session was aged out, besides `erased` and `erased_rev`.

ALTER TABLE session ADD COLUMN aged_epoch INTEGER NOT NULL DEFAULT 0;  -- of turns up to this epoch
ALTER TABLE session ADD COLUMN aged_claim INTEGER NOT NULL DEFAULT 0;  -- of claims without an entry or a turn, up to this id
