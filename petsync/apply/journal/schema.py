"""The tables of a journal; docs/journal.md tells what each column means."""

from __future__ import annotations

__all__ = ["APPLICATION", "NAME", "NAMES", "TABLES", "VERSION"]

NAME = "journal.db"
APPLICATION = 0x70657473
"""SQLite's application_id of a journal: "pets"."""
VERSION = 2
"""user_version; 1 were the JSON-lines files of earlier petsync."""

TABLES = """
CREATE TABLE run (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    store TEXT NOT NULL,
    source TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    undoes TEXT NOT NULL,
    started TEXT NOT NULL,
    total INTEGER NOT NULL,
    options TEXT NOT NULL,
    seal INTEGER NOT NULL,
    plan BLOB,
    payload BLOB NOT NULL,
    body_seal INTEGER NOT NULL
);
CREATE UNIQUE INDEX run_once ON run (fingerprint) WHERE fingerprint <> '';
CREATE TABLE sitting (
    run TEXT NOT NULL,
    number INTEGER NOT NULL,
    started TEXT NOT NULL,
    ended TEXT NOT NULL DEFAULT '',
    stopped TEXT NOT NULL DEFAULT '',
    pid INTEGER NOT NULL,
    host TEXT NOT NULL,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE TABLE change (
    run TEXT NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    pet_id INTEGER,
    row INTEGER,
    source TEXT NOT NULL,
    fields TEXT NOT NULL,
    before TEXT,
    after TEXT,
    intended TEXT NOT NULL,
    digest TEXT NOT NULL,
    seal INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    ended TEXT,
    outcome TEXT,
    cause TEXT,
    message TEXT,
    assigned_id INTEGER,
    found TEXT,
    outcome_seal INTEGER,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE TABLE attempt (
    run TEXT NOT NULL,
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    at TEXT NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (run, number, attempt)
) WITHOUT ROWID;
CREATE TABLE known (
    run TEXT PRIMARY KEY,
    ids TEXT NOT NULL,
    seal INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE lock (
    store TEXT PRIMARY KEY,
    run TEXT NOT NULL,
    sitting INTEGER NOT NULL,
    claim TEXT NOT NULL,
    pid INTEGER NOT NULL,
    host TEXT NOT NULL,
    machine TEXT NOT NULL,
    born TEXT NOT NULL,
    since TEXT NOT NULL,
    heartbeat REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE used (
    fingerprint TEXT PRIMARY KEY,
    run TEXT NOT NULL,
    seal INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""

NAMES = frozenset({"run", "sitting", "change", "attempt", "known", "lock", "used", "meta"})
