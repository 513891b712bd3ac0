-- Revision 0007, written by scripts/render_tables.

CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE job (
	id TEXT NOT NULL,
	owner TEXT NOT NULL,
	account BLOB NOT NULL,
	request_id TEXT,
	spec_hash TEXT NOT NULL,
	name TEXT NOT NULL,
	priority TEXT NOT NULL,
	state TEXT NOT NULL,
	submitted_at FLOAT NOT NULL,
	started_at FLOAT,
	ended_at FLOAT,
	held BOOLEAN NOT NULL,
	task_count INTEGER NOT NULL,
	counts TEXT NOT NULL,
	reason_task TEXT NOT NULL,
	reason_word TEXT,
	exit_code INTEGER,
	signal INTEGER,
	detail TEXT NOT NULL,
	version BIGINT NOT NULL, pinned BOOLEAN DEFAULT 0 NOT NULL, log_bytes BIGINT, ages_from FLOAT,
	PRIMARY KEY (id)
);

CREATE INDEX ix_job_owner_id ON job (owner, id);

CREATE INDEX ix_job_state_id ON job (state, id);

CREATE UNIQUE INDEX ux_job_owner_request ON job (owner, request_id);

CREATE TABLE job_graph (
	job_id TEXT NOT NULL,
	graph BLOB NOT NULL,
	PRIMARY KEY (job_id)
);

CREATE TABLE task (
	job_id TEXT NOT NULL,
	number INTEGER NOT NULL,
	name TEXT NOT NULL,
	state TEXT NOT NULL,
	generation INTEGER NOT NULL,
	seq BIGINT NOT NULL,
	attempt INTEGER NOT NULL,
	node_id TEXT NOT NULL,
	queued_at FLOAT,
	started_at FLOAT,
	ended_at FLOAT,
	held_at FLOAT,
	ages_from FLOAT NOT NULL,
	reason_word TEXT,
	exit_code INTEGER,
	signal INTEGER,
	detail TEXT NOT NULL, account_hold BOOLEAN DEFAULT 0 NOT NULL,
	PRIMARY KEY (job_id, number)
)
 WITHOUT ROWID;

CREATE TABLE task_spec (
	job_id TEXT NOT NULL,
	number INTEGER NOT NULL,
	spec BLOB NOT NULL,
	PRIMARY KEY (job_id, number)
);

CREATE TABLE action (
	job_id TEXT NOT NULL,
	request_id TEXT NOT NULL,
	asked TEXT NOT NULL,
	tasks_changed INTEGER NOT NULL,
	at FLOAT NOT NULL,
	PRIMARY KEY (job_id, request_id)
);

CREATE INDEX ix_action_at ON action (at);

CREATE TABLE outbox (
	seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	target TEXT NOT NULL,
	kind TEXT NOT NULL,
	payload BLOB NOT NULL,
	created_at FLOAT NOT NULL
);

CREATE INDEX ix_outbox_target_seq ON outbox (target, seq);

CREATE TABLE steady (
	id INTEGER NOT NULL,
	boot_id TEXT NOT NULL,
	offset_s FLOAT NOT NULL,
	PRIMARY KEY (id)
);

CREATE TABLE held_account (
	name TEXT NOT NULL,
	PRIMARY KEY (name)
);

CREATE TABLE removal (
	job_id TEXT NOT NULL,
	marked_at FLOAT NOT NULL,
	after_seq BIGINT NOT NULL,
	looks_left INTEGER NOT NULL,
	due_at FLOAT NOT NULL, why TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (job_id)
);

CREATE INDEX ix_removal_due ON removal (due_at);

CREATE TABLE event_outbox (
	seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	target TEXT NOT NULL,
	kind TEXT NOT NULL,
	payload BLOB NOT NULL,
	created_at FLOAT NOT NULL
);

CREATE INDEX ix_event_outbox_target_seq ON event_outbox (target, seq);

CREATE TABLE timer (
	kind TEXT NOT NULL,
	"key" TEXT NOT NULL,
	due_at FLOAT NOT NULL,
	payload BLOB NOT NULL,
	set_at FLOAT NOT NULL,
	try_at FLOAT NOT NULL,
	tries INTEGER NOT NULL,
	PRIMARY KEY (kind, "key")
);

CREATE INDEX ix_timer_try ON timer (try_at);

CREATE TABLE timer_clock (
	id INTEGER NOT NULL,
	boot_id TEXT NOT NULL,
	offset_s FLOAT NOT NULL, seen_at FLOAT, ahead_s FLOAT,
	PRIMARY KEY (id)
);

CREATE INDEX ix_job_ages ON job (ages_from, id);

CREATE TABLE event_told (
	id INTEGER NOT NULL,
	incarnation TEXT NOT NULL,
	seq BIGINT NOT NULL,
	PRIMARY KEY (id)
);

INSERT INTO alembic_version (version_num) VALUES ('0007');
