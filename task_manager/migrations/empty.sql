-- Revision 0016, written by scripts/render_tables.

CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE tasks (
	job_id TEXT NOT NULL,
	name TEXT NOT NULL,
	generation INTEGER NOT NULL,
	owner TEXT NOT NULL,
	job_name TEXT NOT NULL,
	priority INTEGER NOT NULL,
	submitted_at FLOAT NOT NULL,
	tail_timeout_s FLOAT NOT NULL,
	cpu_centi BIGINT NOT NULL,
	memory_bytes BIGINT NOT NULL,
	gpus INTEGER NOT NULL,
	gpu_models TEXT NOT NULL,
	gpu_memory_bytes BIGINT NOT NULL,
	timeout_s FLOAT NOT NULL,
	retries INTEGER NOT NULL,
	held BOOLEAN NOT NULL,
	state TEXT NOT NULL,
	queued_at FLOAT NOT NULL,
	not_before FLOAT NOT NULL,
	attempt INTEGER NOT NULL,
	user_failures INTEGER NOT NULL,
	platform_failures INTEGER NOT NULL,
	losses INTEGER NOT NULL,
	refusals INTEGER NOT NULL,
	avoid TEXT NOT NULL,
	disowned TEXT NOT NULL,
	event_seq BIGINT NOT NULL,
	command_seq BIGINT NOT NULL,
	cancel_by TEXT,
	ended_at FLOAT,
	reason TEXT, image TEXT DEFAULT '' NOT NULL, command_print BIGINT DEFAULT '0' NOT NULL, task_print BIGINT DEFAULT '0' NOT NULL, spent_s FLOAT DEFAULT '0' NOT NULL, grace_s FLOAT DEFAULT '0' NOT NULL, mean_timeout_s FLOAT DEFAULT '0' NOT NULL, gpu_share_bytes BIGINT DEFAULT '0' NOT NULL,
	PRIMARY KEY (job_id, name)
);

CREATE INDEX ix_tasks_state ON tasks (state);

CREATE TABLE task_specs (
	job_id TEXT NOT NULL,
	name TEXT NOT NULL,
	enqueue BLOB NOT NULL,
	PRIMARY KEY (job_id, name)
);

CREATE TABLE attempts (
	job_id TEXT NOT NULL,
	name TEXT NOT NULL,
	number INTEGER NOT NULL,
	generation INTEGER NOT NULL,
	state TEXT NOT NULL,
	node_id TEXT NOT NULL,
	incarnation BIGINT NOT NULL,
	cpu_centi BIGINT NOT NULL,
	memory_bytes BIGINT NOT NULL,
	gpu_uuids TEXT NOT NULL,
	timeout_s FLOAT NOT NULL,
	of_runs INTEGER NOT NULL,
	queued_at FLOAT NOT NULL,
	placed_at FLOAT NOT NULL,
	answered_at FLOAT,
	accepted_at FLOAT,
	container_started_at FLOAT,
	started_at FLOAT,
	ended_at FLOAT,
	run_s FLOAT,
	stop_word TEXT NOT NULL,
	stop_at FLOAT,
	peak_memory_bytes BIGINT,
	stdout_bytes BIGINT NOT NULL,
	stderr_bytes BIGINT NOT NULL,
	dropped_bytes BIGINT NOT NULL,
	image_id TEXT NOT NULL,
	warnings TEXT NOT NULL,
	reason TEXT, command_print BIGINT DEFAULT '0' NOT NULL, task_print BIGINT DEFAULT '0' NOT NULL, extensions TEXT DEFAULT '[]' NOT NULL, counted_s FLOAT, owner TEXT DEFAULT '' NOT NULL, gpus INTEGER DEFAULT '0' NOT NULL, freed_at FLOAT, boot_id TEXT DEFAULT '' NOT NULL, placed_s FLOAT DEFAULT '0' NOT NULL, late_warnings TEXT DEFAULT '[]' NOT NULL, use BLOB, gpu_measured_share FLOAT DEFAULT '0' NOT NULL, gpu_busy_share FLOAT DEFAULT '0' NOT NULL, gpu_idle_share FLOAT DEFAULT '0' NOT NULL, gpu_share_bytes BIGINT DEFAULT '0' NOT NULL, gpu_fraction FLOAT DEFAULT '0' NOT NULL,
	PRIMARY KEY (job_id, name, number)
);

CREATE INDEX ix_attempts_state ON attempts (state);

CREATE TABLE nodes (
	id TEXT NOT NULL,
	place INTEGER NOT NULL,
	node TEXT NOT NULL,
	PRIMARY KEY (id)
);

CREATE TABLE node_leases (
	id TEXT NOT NULL,
	suspended BOOLEAN NOT NULL,
	address TEXT NOT NULL,
	incarnation BIGINT NOT NULL,
	PRIMARY KEY (id)
);

CREATE TABLE outbox (
	seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	target TEXT NOT NULL,
	kind TEXT NOT NULL,
	payload BLOB NOT NULL,
	created_at FLOAT NOT NULL
);

CREATE INDEX ix_outbox_target_seq ON outbox (target, seq);

CREATE INDEX ix_attempts_command ON attempts (command_print, placed_at);

CREATE INDEX ix_attempts_task ON attempts (task_print, placed_at);

CREATE TABLE places (
	job_id TEXT NOT NULL,
	name TEXT NOT NULL,
	node_id TEXT NOT NULL,
	gpus TEXT NOT NULL,
	start_at FLOAT NOT NULL,
	duration_s FLOAT NOT NULL,
	promised_at FLOAT, boot_id TEXT DEFAULT '' NOT NULL, start_s FLOAT DEFAULT '0' NOT NULL, given_at FLOAT, first_at FLOAT, first_wait_s FLOAT DEFAULT '0' NOT NULL,
	PRIMARY KEY (job_id, name)
);

CREATE TABLE decisions (
	id BIGINT NOT NULL,
	base BIGINT NOT NULL,
	at FLOAT NOT NULL,
	frame BLOB NOT NULL,
	PRIMARY KEY (id)
);

CREATE INDEX ix_decisions_at ON decisions (at);

CREATE TABLE scheduling (
	name TEXT NOT NULL,
	value TEXT NOT NULL,
	set_by TEXT NOT NULL,
	set_at FLOAT NOT NULL,
	PRIMARY KEY (name)
);

CREATE TABLE policy_states (
	policy TEXT NOT NULL,
	state TEXT NOT NULL,
	at FLOAT NOT NULL,
	PRIMARY KEY (policy)
);

CREATE INDEX ix_attempts_freed ON attempts (freed_at);

CREATE INDEX ix_attempts_owner_freed ON attempts (owner, freed_at);

CREATE INDEX ix_attempts_queued ON attempts (queued_at);

CREATE INDEX ix_attempts_owner_queued ON attempts (owner, queued_at);

CREATE TABLE moved_promises (
	job_id TEXT NOT NULL,
	name TEXT NOT NULL,
	promised_at FLOAT NOT NULL,
	boot_id TEXT NOT NULL,
	promised_s FLOAT NOT NULL,
	cause TEXT NOT NULL,
	PRIMARY KEY (job_id, name)
);

CREATE TABLE steady (
	id INTEGER NOT NULL,
	of_boot_id TEXT NOT NULL,
	boot_id TEXT NOT NULL,
	offset_s FLOAT NOT NULL,
	PRIMARY KEY (id)
);

CREATE TABLE usage_days (
	day BIGINT NOT NULL,
	owner TEXT NOT NULL,
	node_id TEXT NOT NULL,
	gpu_s FLOAT NOT NULL,
	cpu_s FLOAT NOT NULL,
	memory_byte_s FLOAT NOT NULL,
	attempts BIGINT NOT NULL,
	tasks BIGINT NOT NULL,
	started BIGINT NOT NULL,
	wait_s FLOAT NOT NULL,
	ended BIGINT NOT NULL,
	timed_out BIGINT NOT NULL,
	booked_gpu_s FLOAT NOT NULL,
	used_gpu_s FLOAT NOT NULL,
	new_tasks BIGINT NOT NULL, measured_gpu_s FLOAT DEFAULT '0' NOT NULL, busy_gpu_s FLOAT DEFAULT '0' NOT NULL, idle_gpu_s FLOAT DEFAULT '0' NOT NULL, failed_gpu_s FLOAT DEFAULT '0' NOT NULL, wasted_gpu_s FLOAT DEFAULT '0' NOT NULL,
	PRIMARY KEY (day, owner, node_id)
);

CREATE TABLE autoscale (
	id INTEGER NOT NULL,
	asked_at FLOAT NOT NULL,
	PRIMARY KEY (id)
);

INSERT INTO alembic_version (version_num) VALUES ('0016');
