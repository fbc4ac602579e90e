CREATE TABLE messages_in (id TEXT PRIMARY KEY, seq INTEGER UNIQUE, kind TEXT, timestamp TEXT, status TEXT,
  process_after TEXT, recurrence TEXT, series_id TEXT, tries INTEGER, trigger INTEGER, platform_id TEXT,
  channel_type TEXT, thread_id TEXT, content TEXT, source_session_id TEXT, on_wake INTEGER);
CREATE TABLE delivered (message_out_id TEXT PRIMARY KEY, platform_message_id TEXT, status TEXT, delivered_at TEXT);
INSERT INTO messages_in VALUES('3:ag-1', 2, 'chat', '2026-11-20T08:01:00.120Z', 'completed', NULL, NULL, NULL, 0, 1,
  'telegram:7', 'telegram', NULL, '{"sender": "Ada", "senderId": "telegram:7", "text": "Send the report."}', NULL, 0);
INSERT INTO messages_in VALUES('5:ag-1', 4, 'chat', '2026-11-20T08:05:00.500Z', 'completed', NULL, NULL, NULL, 0, 1,
  'telegram:7', 'telegram', NULL, '{"sender": "Ada", "senderId": "telegram:7", "text": "And the other one?"}', NULL, 0);
INSERT INTO messages_in VALUES('task-1', 6, 'task', '2026-11-20T08:05:30.000Z', 'completed',
  '2026-11-21T06:30:00.000Z', NULL, 'series-1', 0, 1, 'telegram:7', 'telegram', NULL,
  '{"prompt": "Tell what today brings."}', NULL, 0);
INSERT INTO messages_in VALUES('task-2', 8, 'task', '2026-11-21T06:30:10.000Z', 'pending',
  '2026-11-22T06:30:00.000Z', '30 7 * * *', 'series-1', 0, 1, 'telegram:7', 'telegram', NULL,
  '{"prompt": "Tell what today brings."}', NULL, 0);
INSERT INTO messages_in VALUES('task-3', 10, 'task', '2026-11-21T06:30:10.000Z', 'pending',
  '2026-11-22T06:30:00.000Z', '30 7 * * *', 'series-1', 0, 1, 'telegram:7', 'telegram', NULL,
  '{"prompt": "Tell what today brings."}', NULL, 0);
INSERT INTO delivered VALUES('out-1', '4', 'delivered', '2026-11-20 08:01:03');
INSERT INTO delivered VALUES('out-2', '5', 'delivered', '2026-11-20 08:01:04');
INSERT INTO delivered VALUES('out-3', NULL, 'failed', '2026-11-20 08:05:09');
INSERT INTO delivered VALUES('out-4', '7', 'delivered', '2026-11-21 06:30:40');
