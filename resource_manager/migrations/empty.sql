-- Revision 0004, written by scripts/render_tables.

CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE node (
	id TEXT NOT NULL,
	incarnation BIGINT NOT NULL,
	address TEXT NOT NULL,
	admission TEXT NOT NULL,
	note TEXT NOT NULL,
	version TEXT NOT NULL,
	labels TEXT NOT NULL,
	registered_at FLOAT NOT NULL,
	seen_at FLOAT NOT NULL,
	status BLOB NOT NULL, worker_uuid TEXT DEFAULT '' NOT NULL, boot_id TEXT DEFAULT '' NOT NULL, drain TEXT DEFAULT '' NOT NULL, events TEXT DEFAULT '[]' NOT NULL, may_be_replaced BOOLEAN DEFAULT 0 NOT NULL,
	PRIMARY KEY (id)
);

CREATE TABLE usage (
	node_id TEXT NOT NULL,
	at FLOAT NOT NULL,
	span_s FLOAT NOT NULL,
	reading BLOB NOT NULL,
	PRIMARY KEY (node_id, at)
)
 WITHOUT ROWID;

CREATE INDEX ix_usage_at ON usage (at);

CREATE TABLE usage_block (
	node_id TEXT NOT NULL,
	span_s FLOAT NOT NULL,
	at FLOAT NOT NULL,
	until_at FLOAT NOT NULL,
	points BLOB NOT NULL,
	PRIMARY KEY (node_id, span_s, at)
);

CREATE INDEX ix_usage_block_until_at ON usage_block (span_s, until_at);

CREATE TABLE invitation (
	id TEXT NOT NULL,
	"key" BLOB NOT NULL,
	role TEXT NOT NULL,
	name TEXT NOT NULL,
	"by" TEXT NOT NULL,
	made_at FLOAT NOT NULL,
	until_at FLOAT NOT NULL,
	used_at FLOAT,
	serial TEXT NOT NULL,
	PRIMARY KEY (id)
);

CREATE TABLE certificate (
	serial TEXT NOT NULL,
	role TEXT NOT NULL,
	name TEXT NOT NULL,
	from_at FLOAT NOT NULL,
	until_at FLOAT NOT NULL,
	origin TEXT NOT NULL,
	invitation TEXT NOT NULL,
	key_digest TEXT NOT NULL,
	pem TEXT NOT NULL,
	revoked_at FLOAT,
	revoked_by TEXT NOT NULL,
	PRIMARY KEY (serial)
);

CREATE INDEX ix_certificate_name ON certificate (role, name);

INSERT INTO alembic_version (version_num) VALUES ('0004');
