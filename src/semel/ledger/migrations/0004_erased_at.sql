-- When the content of an event was removed, by retention or with its session, so that `semel why` can tell.

ALTER TABLE event ADD COLUMN erased_at INTEGER;  -- in ms; NULL: it is there, or was removed by a Semel before version 4
