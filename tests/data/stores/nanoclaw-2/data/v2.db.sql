CREATE TABLE agent_groups (id TEXT PRIMARY KEY, name TEXT, folder TEXT, agent_provider TEXT, created_at TEXT);
CREATE TABLE messaging_groups (id TEXT PRIMARY KEY, channel_type TEXT, platform_id TEXT, instance TEXT, name TEXT,
  is_group INTEGER, unknown_sender_policy TEXT, created_at TEXT, denied_at TEXT);
CREATE TABLE users (id TEXT PRIMARY KEY, kind TEXT, display_name TEXT, created_at TEXT);
CREATE TABLE user_roles (user_id TEXT, role TEXT, agent_group_id TEXT, granted_by TEXT, granted_at TEXT);
CREATE TABLE agent_group_members (user_id TEXT, agent_group_id TEXT, added_by TEXT, added_at TEXT);
CREATE TABLE sessions (id TEXT PRIMARY KEY, agent_group_id TEXT, messaging_group_id TEXT, thread_id TEXT,
  agent_provider TEXT, status TEXT, container_status TEXT, last_active TEXT, created_at TEXT);
INSERT INTO agent_groups VALUES('ag-1', 'House', 'house', 'claude', '2026-11-20T08:00:00.000Z');
INSERT INTO messaging_groups VALUES('mg-1', 'telegram', 'telegram:7', 'telegram', 'Ada', 0, 'strict',
  '2026-11-20T08:00:00.000Z', NULL);
INSERT INTO users VALUES('telegram:7', 'telegram', 'Ada', '2026-11-20T08:00:00.000Z');
INSERT INTO users VALUES('telegram:8', 'telegram', 'Ben', '2026-11-20T08:00:00.000Z');
INSERT INTO users VALUES('telegram:9', 'telegram', 'Somebody', '2026-11-20T08:00:00.000Z');
INSERT INTO user_roles VALUES('telegram:7', 'owner', NULL, NULL, '2026-11-20T08:00:00.000Z');
INSERT INTO agent_group_members VALUES('telegram:8', 'ag-1', 'telegram:7', '2026-11-20T08:00:00.000Z');
INSERT INTO sessions VALUES('sess-1', 'ag-1', 'mg-1', NULL, NULL, 'active', 'stopped', NULL,
  '2026-11-20T08:00:00.000Z');
