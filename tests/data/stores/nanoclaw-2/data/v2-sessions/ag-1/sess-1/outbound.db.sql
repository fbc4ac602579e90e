CREATE TABLE messages_out (id TEXT PRIMARY KEY, seq INTEGER UNIQUE, in_reply_to TEXT, timestamp TEXT,
  deliver_after TEXT, recurrence TEXT, kind TEXT, platform_id TEXT, channel_type TEXT, thread_id TEXT, content TEXT);
INSERT INTO messages_out VALUES('out-1', 3, NULL, '2026-11-20 08:01:02', NULL, NULL, 'chat', 'telegram:7', 'telegram',
  NULL, '{"text": "The report is sent."}');
INSERT INTO messages_out VALUES('out-2', 5, '3:ag-1', '2026-11-20 08:01:03', NULL, NULL, 'chat', 'telegram:7',
  'telegram', NULL, '{"text": "The report is sent."}');
INSERT INTO messages_out VALUES('out-3', 7, '5:ag-1', '2026-11-20 08:05:05', NULL, NULL, 'chat', 'telegram:7',
  'telegram', NULL, '{"text": "That one is not ready."}');
INSERT INTO messages_out VALUES('out-4', 9, 'task-1', '2026-11-21 06:30:38', NULL, NULL, 'chat', 'telegram:7',
  'telegram', NULL, '{"text": "Bread day."}');
