-- Several gateways may share the work. A session's agent runs at one of them.

ALTER TABLE session ADD COLUMN seat TEXT;  -- the name of the gateway that serves it; NULL: none of a cluster has yet
ALTER TABLE session ADD COLUMN away INTEGER;  -- when people were told that this gateway is away; NULL: they were not
