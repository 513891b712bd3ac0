-- Revision 0012, written by scripts/render_tables.

CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE accounts (
	name VARCHAR(32) NOT NULL,
	password_hash VARCHAR(300) NOT NULL,
	uid INTEGER NOT NULL,
	gid INTEGER NOT NULL,
	admin BOOLEAN NOT NULL,
	enabled BOOLEAN NOT NULL,
	may_use_image_user BOOLEAN NOT NULL,
	may_use_high_priority BOOLEAN NOT NULL,
	created_at FLOAT NOT NULL,
	signed_in_at FLOAT, quota_bytes BIGINT, removed_at FLOAT,
	PRIMARY KEY (name),
	UNIQUE (uid)
);

CREATE TABLE tokens (
	hash VARCHAR(64) NOT NULL,
	id VARCHAR(32) NOT NULL,
	account VARCHAR(32) NOT NULL,
	session BOOLEAN NOT NULL,
	name VARCHAR(100) NOT NULL,
	created_at FLOAT NOT NULL,
	expires_at FLOAT,
	used_at FLOAT, address TEXT DEFAULT '' NOT NULL, agent TEXT DEFAULT '' NOT NULL, way TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (hash),
	UNIQUE (id),
	FOREIGN KEY(account) REFERENCES accounts (name)
);

CREATE INDEX tokens_account ON tokens (account);

CREATE TABLE uploads (
	id VARCHAR(32) NOT NULL,
	kind VARCHAR(16) NOT NULL,
	account VARCHAR(32) NOT NULL,
	length BIGINT,
	metadata TEXT NOT NULL,
	folder TEXT NOT NULL,
	name TEXT NOT NULL,
	uid INTEGER,
	gid INTEGER,
	state VARCHAR(16) NOT NULL,
	choice TEXT NOT NULL,
	choices TEXT NOT NULL,
	problem TEXT NOT NULL,
	result TEXT NOT NULL,
	created_at FLOAT NOT NULL,
	touched_at FLOAT NOT NULL,
	unchecked_from BIGINT,
	PRIMARY KEY (id)
);

CREATE TABLE images (
	id VARCHAR(32) NOT NULL,
	owner VARCHAR(32) NOT NULL,
	name VARCHAR(64) NOT NULL,
	public BOOLEAN NOT NULL,
	description TEXT NOT NULL,
	search TEXT NOT NULL,
	created_at FLOAT NOT NULL,
	updated_at FLOAT NOT NULL,
	PRIMARY KEY (id)
);

CREATE UNIQUE INDEX images_name ON images (owner, name);

CREATE TABLE image_tags (
	image_id VARCHAR(32) NOT NULL,
	tag VARCHAR(128) NOT NULL,
	digest VARCHAR(140) NOT NULL,
	pushed_at FLOAT NOT NULL,
	pushed_by VARCHAR(32) NOT NULL,
	PRIMARY KEY (image_id, tag),
	FOREIGN KEY(image_id) REFERENCES images (id) ON DELETE CASCADE
);

CREATE INDEX image_tags_digest ON image_tags (digest);

CREATE TABLE image_contents (
	image_id VARCHAR(32) NOT NULL,
	digest VARCHAR(140) NOT NULL,
	pushed_at FLOAT NOT NULL,
	pushed_by VARCHAR(32) NOT NULL,
	untagged_at FLOAT,
	PRIMARY KEY (image_id, digest),
	FOREIGN KEY(image_id) REFERENCES images (id) ON DELETE CASCADE
);

CREATE INDEX image_contents_digest ON image_contents (digest);

CREATE INDEX image_contents_pushed_by ON image_contents (pushed_by);

CREATE TABLE image_infos (
	digest VARCHAR(140) NOT NULL,
	size_bytes BIGINT NOT NULL,
	architecture VARCHAR(64) NOT NULL,
	has_shell BOOLEAN NOT NULL,
	cuda_version VARCHAR(64) NOT NULL,
	frameworks TEXT NOT NULL,
	search TEXT NOT NULL,
	info TEXT NOT NULL,
	published_at FLOAT NOT NULL,
	PRIMARY KEY (digest)
);

CREATE TABLE image_tag_moves (
	number INTEGER NOT NULL,
	image_id VARCHAR(32) NOT NULL,
	tag VARCHAR(128) NOT NULL,
	at FLOAT NOT NULL,
	"by" VARCHAR(32) NOT NULL,
	from_digest VARCHAR(140) NOT NULL,
	to_digest VARCHAR(140) NOT NULL,
	upload VARCHAR(64) NOT NULL,
	PRIMARY KEY (number),
	FOREIGN KEY(image_id) REFERENCES images (id) ON DELETE CASCADE
);

CREATE INDEX image_tag_moves_image ON image_tag_moves (image_id, tag);

CREATE TABLE image_shares (
	image_id VARCHAR(32) NOT NULL,
	kind VARCHAR(8) NOT NULL,
	name VARCHAR(64) NOT NULL,
	PRIMARY KEY (image_id, kind, name),
	FOREIGN KEY(image_id) REFERENCES images (id) ON DELETE CASCADE
);

CREATE INDEX image_shares_name ON image_shares (kind, name);

CREATE TABLE groups (
	name VARCHAR(32) NOT NULL,
	created_at FLOAT NOT NULL,
	created_by VARCHAR(32) NOT NULL,
	PRIMARY KEY (name)
);

CREATE TABLE group_members (
	"group" VARCHAR(32) NOT NULL,
	account VARCHAR(32) NOT NULL,
	PRIMARY KEY ("group", account),
	FOREIGN KEY("group") REFERENCES groups (name) ON DELETE CASCADE,
	FOREIGN KEY(account) REFERENCES accounts (name)
);

CREATE INDEX group_members_account ON group_members (account);

CREATE TABLE use_holds (
	request_key VARCHAR(80) NOT NULL,
	kind VARCHAR(16) NOT NULL,
	"key" VARCHAR(260) NOT NULL,
	account VARCHAR(32) NOT NULL,
	held_at FLOAT NOT NULL,
	job_id VARCHAR(32),
	ended_at FLOAT,
	PRIMARY KEY (request_key, kind, "key")
);

CREATE INDEX use_holds_job ON use_holds (job_id);

CREATE TABLE use_totals (
	kind VARCHAR(16) NOT NULL,
	"key" VARCHAR(260) NOT NULL,
	account VARCHAR(32) NOT NULL,
	jobs INTEGER NOT NULL,
	last_used_at FLOAT NOT NULL,
	PRIMARY KEY (kind, "key", account)
);

CREATE TABLE use_good_runs (
	kind VARCHAR(16) NOT NULL,
	"key" VARCHAR(260) NOT NULL,
	job_id VARCHAR(32) NOT NULL,
	at FLOAT NOT NULL,
	PRIMARY KEY (kind, "key")
);

CREATE TABLE space_usage (
	account VARCHAR(32) NOT NULL,
	used_bytes BIGINT NOT NULL,
	measured_at FLOAT NOT NULL,
	PRIMARY KEY (account)
);

CREATE TABLE registry_logins (
	account VARCHAR(32) NOT NULL,
	registry VARCHAR(255) NOT NULL,
	username VARCHAR(255) NOT NULL,
	password TEXT NOT NULL,
	changed_at FLOAT NOT NULL,
	PRIMARY KEY (account, registry),
	FOREIGN KEY(account) REFERENCES accounts (name) ON DELETE CASCADE
);

CREATE TABLE datasets (
	name VARCHAR(63) NOT NULL,
	owner VARCHAR(32) NOT NULL,
	public BOOLEAN NOT NULL,
	description TEXT NOT NULL,
	created_at FLOAT NOT NULL,
	last_number INTEGER NOT NULL,
	PRIMARY KEY (name)
);

CREATE TABLE dataset_versions (
	dataset VARCHAR(63) NOT NULL,
	version VARCHAR(32) NOT NULL,
	state VARCHAR(12) NOT NULL,
	account VARCHAR(32) NOT NULL,
	path TEXT NOT NULL,
	copy BOOLEAN NOT NULL,
	starts INTEGER NOT NULL,
	method VARCHAR(10) NOT NULL,
	files BIGINT NOT NULL,
	size_bytes BIGINT NOT NULL,
	checksum VARCHAR(64) NOT NULL,
	problem TEXT NOT NULL,
	asked_at FLOAT NOT NULL,
	published_at FLOAT,
	PRIMARY KEY (dataset, version),
	FOREIGN KEY(dataset) REFERENCES datasets (name) ON DELETE CASCADE
);

CREATE TABLE dataset_shares (
	dataset VARCHAR(63) NOT NULL,
	kind VARCHAR(8) NOT NULL,
	name VARCHAR(64) NOT NULL,
	PRIMARY KEY (dataset, kind, name),
	FOREIGN KEY(dataset) REFERENCES datasets (name) ON DELETE CASCADE
);

CREATE INDEX dataset_shares_name ON dataset_shares (kind, name);

CREATE TABLE code_snapshots (
	account VARCHAR(32) NOT NULL,
	digest VARCHAR(71) NOT NULL,
	files INTEGER NOT NULL,
	size_bytes BIGINT NOT NULL,
	created_at FLOAT NOT NULL,
	used_at FLOAT NOT NULL,
	PRIMARY KEY (account, digest)
);

CREATE TABLE known_addresses (
	account VARCHAR(32) NOT NULL,
	address VARCHAR(64) NOT NULL,
	seen_at FLOAT NOT NULL,
	PRIMARY KEY (account, address),
	FOREIGN KEY(account) REFERENCES accounts (name)
);

CREATE TABLE job_events (
	number BIGINT NOT NULL,
	word TEXT NOT NULL,
	job_id TEXT NOT NULL,
	owner TEXT NOT NULL,
	stored_at FLOAT NOT NULL,
	event BLOB NOT NULL,
	PRIMARY KEY (number)
);

CREATE INDEX job_events_owner ON job_events (owner, number);

CREATE INDEX job_events_job ON job_events (job_id, number);

CREATE TABLE event_sources (
	incarnation TEXT NOT NULL,
	seq BIGINT NOT NULL,
	heard_at FLOAT NOT NULL,
	PRIMARY KEY (incarnation)
);

CREATE TABLE event_log (
	id INTEGER NOT NULL,
	last_number BIGINT NOT NULL,
	gone_to BIGINT NOT NULL,
	PRIMARY KEY (id)
);

CREATE TABLE event_consumers (
	name TEXT NOT NULL,
	position BIGINT NOT NULL,
	PRIMARY KEY (name)
);

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

CREATE TABLE audit_rows (
	number BIGINT NOT NULL,
	at FLOAT NOT NULL,
	stored_at FLOAT NOT NULL,
	request_id TEXT NOT NULL,
	who TEXT NOT NULL,
	way TEXT NOT NULL,
	address TEXT NOT NULL,
	word TEXT NOT NULL,
	subject TEXT NOT NULL,
	outcome TEXT NOT NULL,
	problem TEXT NOT NULL,
	detail TEXT NOT NULL,
	ends BIGINT NOT NULL,
	hash VARCHAR(64) NOT NULL,
	PRIMARY KEY (number)
);

CREATE INDEX audit_rows_who ON audit_rows (who, number);

CREATE INDEX audit_rows_word ON audit_rows (word, number);

CREATE INDEX audit_rows_ends ON audit_rows (ends);

CREATE TABLE audit_place (
	id INTEGER NOT NULL,
	last_number BIGINT NOT NULL,
	last_hash VARCHAR(64) NOT NULL,
	gone_number BIGINT NOT NULL,
	gone_hash VARCHAR(64) NOT NULL,
	PRIMARY KEY (id)
);

CREATE TABLE provider_links (
	issuer VARCHAR(500) NOT NULL,
	subject VARCHAR(255) NOT NULL,
	account VARCHAR(32) NOT NULL,
	linked_at FLOAT NOT NULL,
	linked_by VARCHAR(32) NOT NULL,
	PRIMARY KEY (issuer, subject),
	FOREIGN KEY(account) REFERENCES accounts (name)
);

CREATE INDEX provider_links_account ON provider_links (account);

CREATE TABLE secrets (
	account VARCHAR(32) NOT NULL,
	name VARCHAR(128) NOT NULL,
	sealed TEXT NOT NULL,
	size_bytes INTEGER NOT NULL,
	has_nul BOOLEAN NOT NULL,
	changed_at FLOAT NOT NULL,
	PRIMARY KEY (account, name),
	FOREIGN KEY(account) REFERENCES accounts (name) ON DELETE CASCADE
);

INSERT INTO alembic_version (version_num) VALUES ('0012');
