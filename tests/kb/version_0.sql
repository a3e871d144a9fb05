-- A home of the version before versions were counted: a document, a run and what it cost.
BEGIN TRANSACTION;
CREATE TABLE dead_ends (
	run VARCHAR(120) NOT NULL, 
	step VARCHAR(60) NOT NULL, 
	PRIMARY KEY (run, step)
);
CREATE TABLE documents (
	id INTEGER NOT NULL, 
	"key" VARCHAR NOT NULL, 
	shown VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	stamp VARCHAR DEFAULT '' NOT NULL, 
	kind VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	title VARCHAR NOT NULL, 
	record VARCHAR, 
	body VARCHAR NOT NULL, 
	scope VARCHAR NOT NULL, 
	found VARCHAR DEFAULT '' NOT NULL, 
	symptoms VARCHAR NOT NULL, 
	ingested DOUBLE NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE ("key")
);
INSERT INTO "documents" VALUES(1,'k','notes/tile.md','1','','document','tile','Tile',NULL,'Pad the tile.','{"vendor": ["nvidia"], "architecture": [], "language": [], "operator": [], "dtype": []}','{"scope": {"vendor": [], "architecture": [], "language": [], "operator": [], "dtype": []}, "reasons": []}','[]',1.79536607986716580391e+09);
CREATE TABLE exchanges (
	"key" VARCHAR(64) NOT NULL, 
	request TEXT NOT NULL, 
	reply TEXT NOT NULL, 
	at FLOAT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "exchanges" VALUES('eb9e4b6cc2d90b441c35ef8b9b4301e812401ffec0fb33dd3535389e236f8e7b','{"max_tokens": 9, "messages": [{"content": "why?", "role": "user"}], "model": "", "schema": null, "seed": 1, "temperature": 0.0}','{"cached": 0, "cost": null, "finish": "stop", "lost": 0, "model": "m", "seconds": 0.5, "text": "yes", "tokens_in": 1, "tokens_out": 2}',1.7953660800465669632e+09);
CREATE TABLE facts (
	number INTEGER NOT NULL, 
	identity VARCHAR NOT NULL, 
	target VARCHAR NOT NULL, 
	field VARCHAR NOT NULL, 
	value DOUBLE NOT NULL, 
	source VARCHAR NOT NULL, 
	passage VARCHAR NOT NULL, 
	note VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	there BOOLEAN NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (identity)
);
INSERT INTO "facts" VALUES(1,'i','h100','bandwidth',3350000000000.0,'notes/tile.md','p','','accepted',1);
CREATE TABLE given (
	run VARCHAR(120) NOT NULL, 
	kind VARCHAR(20) NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	value BLOB NOT NULL, 
	PRIMARY KEY (run, kind, "key")
);
INSERT INTO "given" VALUES('play-1','hits','q',X'789C8B36D4318A050003D50148');
CREATE TABLE model_calls (
	run VARCHAR(120) NOT NULL, 
	number INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	role VARCHAR(20) NOT NULL, 
	model VARCHAR(200) NOT NULL, 
	tokens_in INTEGER NOT NULL, 
	tokens_out INTEGER NOT NULL, 
	cached INTEGER NOT NULL, 
	cost FLOAT, 
	seconds FLOAT NOT NULL, 
	paid BOOLEAN NOT NULL, 
	at FLOAT NOT NULL, 
	PRIMARY KEY (run, number)
);
INSERT INTO "model_calls" VALUES('play-1',0,'eb9e4b6cc2d90b441c35ef8b9b4301e812401ffec0fb33dd3535389e236f8e7b','code','',1,2,0,NULL,0.5,1,1.79536608005901956565e+09);
CREATE TABLE model_choices (
	run VARCHAR(120) NOT NULL, 
	place VARCHAR(80) NOT NULL, 
	model VARCHAR(200) NOT NULL, 
	PRIMARY KEY (run, place)
);
INSERT INTO "model_choices" VALUES('play-1','0.0','m');
CREATE TABLE nodes (
	run VARCHAR(120) NOT NULL, 
	number INTEGER NOT NULL, 
	step VARCHAR(60) NOT NULL, 
	parent INTEGER, 
	source VARCHAR(20) NOT NULL, 
	draft TEXT NOT NULL, 
	outcome VARCHAR(64), 
	PRIMARY KEY (run, number)
);
INSERT INTO "nodes" VALUES('play-1',0,'0.0.0.0.0',NULL,'a1628321c62455160d40','{"plan": {"branch": 0}, "passages": [], "exchanges": []}','fdf6fbd4d1dd0c96136d');
INSERT INTO "nodes" VALUES('play-1',1,'0.0.0.1.0',NULL,'e779b730ebf408c070fd','{"plan": {"branch": 1}, "passages": [], "exchanges": []}','465547cbe3167e22ac33');
INSERT INTO "nodes" VALUES('play-1',2,'0.0.1.0.0',NULL,'648c8534693329d2bca2','{"plan": {"branch": 0}, "passages": [], "exchanges": []}','385e3b7e517aab393ffe');
INSERT INTO "nodes" VALUES('play-1',3,'0.0.1.1.0',NULL,'5c5568c670d0fd57c3a6','{"plan": {"branch": 1}, "passages": [], "exchanges": []}','b145afbfc13ba60560f2');
CREATE TABLE outcomes (
	"key" VARCHAR(64) NOT NULL, 
	outcome TEXT NOT NULL, 
	judged FLOAT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "outcomes" VALUES('fdf6fbd4d1dd0c96136d','{"seconds": 0.0005414634080219663, "samples": 1, "speedup": {"eager": {"ratio": 1.8468468693999571, "low": 1.8468468693999571, "high": 1.8468468693999571, "confidence": 0.95}}, "max_error": 0.0, "allowed_error": 0.0, "own_share": null, "profile": {}, "kernels": [], "losses": [], "build_seconds": 0.0, "kind": "passed"}',1.79536608002433705332e+09);
INSERT INTO "outcomes" VALUES('465547cbe3167e22ac33','{"seconds": 0.00046209007435004794, "samples": 1, "speedup": {"eager": {"ratio": 2.1640802421617655, "low": 2.1640802421617655, "high": 2.1640802421617655, "confidence": 0.95}}, "max_error": 0.0, "allowed_error": 0.0, "own_share": null, "profile": {}, "kernels": [], "losses": [], "build_seconds": 0.0, "kind": "passed"}',1.7953660800335149765e+09);
INSERT INTO "outcomes" VALUES('385e3b7e517aab393ffe','{"seconds": 0.0004130223589153261, "samples": 1, "speedup": {"eager": {"ratio": 2.4211764288649817, "low": 2.4211764288649817, "high": 2.4211764288649817, "confidence": 0.95}}, "max_error": 0.0, "allowed_error": 0.0, "own_share": null, "profile": {}, "kernels": [], "losses": [], "build_seconds": 0.0, "kind": "passed"}',1.79536608003974723817e+09);
INSERT INTO "outcomes" VALUES('b145afbfc13ba60560f2','{"seconds": 0.0005996264507681702, "samples": 1, "speedup": {"eager": {"ratio": 1.6677049498382182, "low": 1.6677049498382182, "high": 1.6677049498382182, "confidence": 0.95}}, "max_error": 0.0, "allowed_error": 0.0, "own_share": null, "profile": {}, "kernels": [], "losses": [], "build_seconds": 0.0, "kind": "passed"}',1.79536608004531669617e+09);
CREATE TABLE passages (
	id VARCHAR NOT NULL, 
	document_id INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	section VARCHAR NOT NULL, 
	text VARCHAR NOT NULL, 
	tokens INTEGER NOT NULL, 
	content VARCHAR NOT NULL, 
	first_page INTEGER, 
	last_page INTEGER, 
	flags VARCHAR DEFAULT '' NOT NULL, 
	scope VARCHAR, 
	found VARCHAR, 
	PRIMARY KEY (id), 
	FOREIGN KEY(document_id) REFERENCES documents (id) ON DELETE CASCADE
);
INSERT INTO "passages" VALUES('12c136e348b5b3435e9ba4bb5070bd36',1,0,'Tile > Pad','Pad the tile.',4,'ac557285da4e64db3673bd74b812d74b',NULL,NULL,'',NULL,NULL);
CREATE TABLE proposals (
	run VARCHAR(120) NOT NULL, 
	slot VARCHAR(40) NOT NULL, 
	parent INTEGER, 
	ideas TEXT NOT NULL, 
	retrieved TEXT NOT NULL, 
	PRIMARY KEY (run, slot)
);
INSERT INTO "proposals" VALUES('play-1','0.0',NULL,'[{"title": "idea 413775685-0", "text": "text", "category": "memory access", "record": null, "passages": [], "plan": {}, "exchanges": []}, {"title": "idea 413775685-1", "text": "text", "category": "memory access", "record": null, "passages": [], "plan": {}, "exchanges": []}]','[]');
CREATE TABLE retrievals (
	run VARCHAR NOT NULL, 
	slot VARCHAR NOT NULL, 
	subject VARCHAR NOT NULL, 
	at DOUBLE NOT NULL, 
	PRIMARY KEY (run, slot, subject)
);
CREATE TABLE runs (
	number INTEGER NOT NULL, 
	run VARCHAR(120) NOT NULL, 
	about TEXT NOT NULL, 
	started FLOAT NOT NULL, 
	status VARCHAR(20) NOT NULL, 
	stop_reason TEXT, 
	report TEXT, 
	elapsed FLOAT NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (run)
);
INSERT INTO "runs" VALUES(1,'play-1','{"author": "recipes", "language": "cpp", "target": "cpu", "task": "play"}',1.79536607989341449737e+09,'running','1 rounds done',NULL,0.0);
CREATE TABLE sources (
	hash VARCHAR(20) NOT NULL, 
	text TEXT NOT NULL, 
	PRIMARY KEY (hash)
);
INSERT INTO "sources" VALUES('a1628321c62455160d40','idea 413775685-0/0/(0, 0)');
INSERT INTO "sources" VALUES('e779b730ebf408c070fd','idea 413775685-0/1/(1, 1)');
INSERT INTO "sources" VALUES('648c8534693329d2bca2','idea 413775685-1/0/(2, 0)');
INSERT INTO "sources" VALUES('5c5568c670d0fd57c3a6','idea 413775685-1/1/(3, 1)');
CREATE TABLE state (
	name VARCHAR NOT NULL, 
	value VARCHAR NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "state" VALUES('generation','b988839f455343fb840827ab51756a44');
CREATE TABLE uses (
	evidence VARCHAR NOT NULL, 
	subject VARCHAR NOT NULL, 
	run VARCHAR NOT NULL, 
	node INTEGER NOT NULL, 
	share DOUBLE NOT NULL, 
	gain DOUBLE NOT NULL, 
	fate VARCHAR NOT NULL, 
	families VARCHAR NOT NULL, 
	architecture VARCHAR NOT NULL, 
	bottleneck VARCHAR NOT NULL, 
	at DOUBLE NOT NULL, 
	PRIMARY KEY (evidence, subject)
);
CREATE TABLE vectors (
	content VARCHAR NOT NULL, 
	embedder VARCHAR NOT NULL, 
	vector BLOB NOT NULL, 
	PRIMARY KEY (content, embedder)
);
INSERT INTO "vectors" VALUES('ac557285da4e64db3673bd74b812d74b','e',X'0000803F0000803F');
CREATE INDEX ix_documents_kind ON documents (kind);
CREATE INDEX ix_uses_subject ON uses (subject);
CREATE INDEX ix_uses_run ON uses (run);
CREATE INDEX ix_retrievals_subject ON retrievals (subject);
CREATE INDEX ix_passages_document_id ON passages (document_id);
CREATE INDEX ix_passages_content ON passages (content);
COMMIT;
