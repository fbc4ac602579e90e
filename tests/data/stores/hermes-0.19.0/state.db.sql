PRAGMA user_version=0;
CREATE TABLE schema_version (
    version INTEGER NOT NULL
);
INSERT INTO "schema_version" VALUES(22);
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    user_id TEXT,
    session_key TEXT,
    chat_id TEXT,
    chat_type TEXT,
    thread_id TEXT,
    display_name TEXT,
    origin_json TEXT,
    expiry_finalized INTEGER DEFAULT 0,
    model TEXT,
    model_config TEXT,
    system_prompt TEXT,
    parent_session_id TEXT,
    started_at REAL NOT NULL,
    ended_at REAL,
    end_reason TEXT,
    message_count INTEGER DEFAULT 0,
    tool_call_count INTEGER DEFAULT 0,
    input_tokens INTEGER DEFAULT 0,
    output_tokens INTEGER DEFAULT 0,
    cache_read_tokens INTEGER DEFAULT 0,
    cache_write_tokens INTEGER DEFAULT 0,
    reasoning_tokens INTEGER DEFAULT 0,
    cwd TEXT,
    git_branch TEXT,
    git_repo_root TEXT,
    billing_provider TEXT,
    billing_base_url TEXT,
    billing_mode TEXT,
    estimated_cost_usd REAL,
    actual_cost_usd REAL,
    cost_status TEXT,
    cost_source TEXT,
    pricing_version TEXT,
    title TEXT,
    api_call_count INTEGER DEFAULT 0,
    handoff_state TEXT,
    handoff_platform TEXT,
    handoff_error TEXT,
    compression_failure_cooldown_until REAL,
    compression_failure_error TEXT,
    compression_fallback_streak INTEGER NOT NULL DEFAULT 0,
    profile_name TEXT,
    rewind_count INTEGER NOT NULL DEFAULT 0,
    archived INTEGER NOT NULL DEFAULT 0,
    FOREIGN KEY (parent_session_id) REFERENCES sessions(id)
);
INSERT INTO "sessions" VALUES('20261127_144417_60072572', 'telegram', '7', 'agent:main:telegram:dm:7', '7', 'dm', NULL, 'Ada', '{"platform": "telegram", "chat_id": "7", "chat_name": "Ada", "chat_type": "dm", "user_id": "7", "user_name": "Ada", "thread_id": null, "chat_topic": null, "message_id": "3"}', 0, 'small', NULL, NULL, NULL, 1.79579065753634428974e+09, NULL, NULL, 8, 0, 15, 15, 0, 0, 0, NULL, NULL, NULL, 'custom', 'http://127.0.0.1:45587/v1', NULL, 0.0, NULL, 'unknown', 'none', NULL, 'The train leaves at 9:41.', 3, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, 0);
INSERT INTO "sessions" VALUES('20261127_144440_d883b93b', 'telegram', '7', 'agent:main:telegram:group:-1001:7', '-1001', 'group', NULL, 'Kitchen', '{"platform": "telegram", "chat_id": "-1001", "chat_name": "Kitchen", "chat_type": "group", "user_id": "7", "user_name": "Ada", "thread_id": null, "chat_topic": null, "message_id": "6"}', 0, 'small', NULL, NULL, NULL, 1.7957906806974630356e+09, NULL, NULL, 5, 0, 10, 10, 0, 0, 0, NULL, NULL, NULL, 'custom', 'http://127.0.0.1:45587/v1', NULL, 0.0, NULL, 'unknown', 'none', NULL, 'Ben brings the bread.', 2, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, 0);
INSERT INTO "sessions" VALUES('20261127_144501_d27b18', 'cli', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 'small', NULL, NULL, NULL, 1.79579072272147250172e+09, NULL, NULL, 2, 0, 5, 5, 0, 0, 0, '/home/ada', NULL, NULL, 'custom', 'http://127.0.0.1:45587/v1', NULL, 0.0, NULL, 'unknown', 'none', NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, 0);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL REFERENCES sessions(id),
    role TEXT NOT NULL,
    content TEXT,
    tool_call_id TEXT,
    tool_calls TEXT,
    tool_name TEXT,
    effect_disposition TEXT,
    timestamp REAL NOT NULL,
    token_count INTEGER,
    finish_reason TEXT,
    reasoning TEXT,
    reasoning_content TEXT,
    reasoning_details TEXT,
    codex_reasoning_items TEXT,
    codex_message_items TEXT,
    platform_message_id TEXT,
    observed INTEGER DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 1,
    compacted INTEGER NOT NULL DEFAULT 0,
    api_content TEXT
);
INSERT INTO "messages" VALUES(1, '20261127_144417_60072572', 'user', 'What is the time of the train?', NULL, NULL, NULL, NULL, 1795790657.0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO "messages" VALUES(2, '20261127_144417_60072572', 'assistant', 'The train leaves at 9:41.', NULL, NULL, NULL, NULL, 1.79579067989296841624e+09, NULL, 'stop', NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO "messages" VALUES(3, '20261127_144417_60072572', 'session_meta', NULL, NULL, NULL, NULL, NULL, 1.79579068004202485088e+09, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO "messages" VALUES(4, '20261127_144440_d883b93b', 'user', 'Who brings bread?', NULL, NULL, NULL, NULL, 1795790680.0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO "messages" VALUES(5, '20261127_144440_d883b93b', 'assistant', 'Ben brings the bread.', NULL, NULL, NULL, NULL, 1.79579068297068595886e+09, NULL, 'stop', NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO "messages" VALUES(6, '20261127_144440_d883b93b', 'session_meta', NULL, NULL, NULL, NULL, NULL, 1.79579068304584217076e+09, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO "messages" VALUES(7, '20261127_144417_60072572', 'user', 'And back?', NULL, NULL, NULL, NULL, 1795790683.0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO "messages" VALUES(8, '20261127_144417_60072572', 'assistant', 'The last one back leaves at 22:15.', NULL, NULL, NULL, NULL, 1.79579068402215409278e+09, NULL, 'stop', NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO "messages" VALUES(9, '20261127_144501_d27b18', 'user', 'From the command line', NULL, NULL, NULL, NULL, 1.79579072272870779035e+09, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO "messages" VALUES(10, '20261127_144501_d27b18', 'assistant', 'Hello from the agent.', NULL, NULL, NULL, NULL, 1.79579072527686667446e+09, NULL, 'stop', NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO "messages" VALUES(11, '20261127_144417_60072572', 'user', 'Think about it.', NULL, NULL, NULL, NULL, 1795790728.0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO "messages" VALUES(12, '20261127_144417_60072572', 'user', '', NULL, NULL, NULL, NULL, 1.79579074651063656806e+09, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO "messages" VALUES(13, '20261127_144440_d883b93b', 'user', '', NULL, NULL, NULL, NULL, 1.79579074652167201041e+09, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO "messages" VALUES(14, '20261127_144440_d883b93b', 'assistant', 'Noted.', NULL, NULL, NULL, NULL, 1.79579074732004499432e+09, NULL, 'stop', NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
INSERT INTO "messages" VALUES(15, '20261127_144417_60072572', 'assistant', 'I have thought about it.', NULL, NULL, NULL, NULL, 1.79579077728677606587e+09, NULL, 'stop', NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, NULL);
CREATE TABLE delivery_obligations (
            obligation_id TEXT PRIMARY KEY,
            session_key TEXT NOT NULL,
            platform TEXT NOT NULL,
            chat_id TEXT NOT NULL,
            thread_id TEXT,
            content TEXT NOT NULL,
            state TEXT NOT NULL,
            attempts INTEGER NOT NULL DEFAULT 0,
            created_at REAL NOT NULL,
            updated_at REAL NOT NULL,
            owner_pid INTEGER,
            owner_started_at INTEGER,
            last_error TEXT
        );
INSERT INTO "delivery_obligations" VALUES('24672da3a2ae2a2fb87d5a9c', 'agent:main:telegram:dm:7', 'telegram', '7', NULL, 'The train leaves at 9:41.', 'delivered', 0, 1.79579068026378226279e+09, 1.79579068029910159107e+09, 21139, 6725736, NULL);
INSERT INTO "delivery_obligations" VALUES('eb56b7352971663ff2b45183', 'agent:main:telegram:group:-1001:7', 'telegram', '-1001', NULL, 'Ben brings the bread.', 'delivered', 0, 1.79579068311206960671e+09, 1.79579068313783407218e+09, 21139, 6725736, NULL);
INSERT INTO "delivery_obligations" VALUES('f12c9f78d3eddbd7b1a16a32', 'agent:main:telegram:dm:7', 'telegram', '7', NULL, 'The last one back leaves at 22:15.', 'delivered', 0, 1.79579068414378237731e+09, 1.79579068420144033436e+09, 21139, 6725736, NULL);
INSERT INTO "delivery_obligations" VALUES('9e1c8e61d5cfa2f20ae2040c', 'agent:main:telegram:group:-1001:7', 'telegram', '-1001', NULL, 'Noted.', 'delivered', 0, 1.7957907473919913769e+09, 1.79579075446242356298e+09, 23561, 6735720, NULL);
INSERT INTO "delivery_obligations" VALUES('d4f2ef79d7b7ab9c83db0cd8', 'agent:main:telegram:dm:7', 'telegram', '7', NULL, 'I have thought about it.', 'delivered', 0, 1.7957907773221988678e+09, 1.79579077733436870576e+09, 23561, 6735720, NULL);
