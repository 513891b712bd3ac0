-- Revision 0003, written by scripts/render_tables.

CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE meta (
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY ("key")
);

CREATE TABLE attempts (
	folder TEXT NOT NULL,
	stage TEXT NOT NULL,
	launch BLOB,
	facts TEXT NOT NULL,
	notes BLOB NOT NULL,
	end_report BLOB,
	changed_at FLOAT NOT NULL,
	PRIMARY KEY (folder)
);

CREATE TABLE images (
	"key" TEXT NOT NULL,
	image_id TEXT NOT NULL,
	names TEXT NOT NULL,
	size_bytes BIGINT NOT NULL,
	brought_at FLOAT NOT NULL,
	used_at FLOAT NOT NULL,
	PRIMARY KEY ("key")
);

CREATE TABLE image_rights (
	account TEXT NOT NULL,
	"key" TEXT NOT NULL,
	given_at FLOAT NOT NULL,
	PRIMARY KEY (account, "key")
);

INSERT INTO alembic_version (version_num) VALUES ('0003');
