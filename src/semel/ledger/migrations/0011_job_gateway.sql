-- Several gateways may share a ledger. A background job is known to the gateway whose data directory has its files.

ALTER TABLE job ADD COLUMN gateway TEXT;  -- the gateway's name in its cluster; NULL: the ledger had one gateway
