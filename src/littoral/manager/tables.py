"""The tables of the life cycle: stores and samples, models and versions, triggers and updates.

Small columns stand before ``input``, so that reading outcomes does not read pictures.
"""

from __future__ import annotations

_STORES = """
CREATE TABLE stores (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    most_samples INTEGER NOT NULL,
    most_bytes INTEGER NOT NULL,
    held_out REAL NOT NULL,
    created REAL NOT NULL,
    received INTEGER NOT NULL DEFAULT 0,
    labelled INTEGER NOT NULL DEFAULT 0,
    kept INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE samples (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    store TEXT NOT NULL REFERENCES stores (name) ON DELETE CASCADE,
    id TEXT NOT NULL,
    at REAL NOT NULL,
    predicted INTEGER,
    actual INTEGER,
    version INTEGER,
    held_out INTEGER NOT NULL,
    labelled INTEGER,
    weight INTEGER NOT NULL,
    input BLOB NOT NULL
);
CREATE UNIQUE INDEX samples_id ON samples (store, id);
CREATE INDEX samples_age ON samples (store, number);
CREATE UNIQUE INDEX samples_labelled ON samples (store, labelled) WHERE labelled IS NOT NULL
"""

_MODELS = """
CREATE TABLE models (
    name TEXT PRIMARY KEY,
    task TEXT NOT NULL,
    options TEXT NOT NULL,
    store TEXT NOT NULL UNIQUE REFERENCES stores (name),
    gate TEXT NOT NULL,
    training TEXT NOT NULL,
    created REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE versions (
    model TEXT NOT NULL REFERENCES models (name) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    file TEXT NOT NULL,
    parent INTEGER,
    run TEXT,
    state TEXT NOT NULL CHECK (state IN ('candidate', 'current', 'refused', 'retired')),
    reason TEXT NOT NULL,
    accuracy REAL,
    judged_on INTEGER,
    created REAL NOT NULL,
    PRIMARY KEY (model, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX one_current ON versions (model) WHERE state = 'current';
CREATE TABLE promotions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    model TEXT NOT NULL REFERENCES models (name) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    at REAL NOT NULL,
    labelled INTEGER NOT NULL,
    undone INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX promotions_model ON promotions (model, number)
"""

_TRIGGERS = """
CREATE TABLE triggers (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    model TEXT NOT NULL REFERENCES models (name) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    settings TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    created REAL NOT NULL
);
CREATE TABLE signals (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    trigger INTEGER NOT NULL REFERENCES triggers (number) ON DELETE CASCADE,
    at REAL NOT NULL,
    labelled INTEGER NOT NULL,
    level REAL NOT NULL,
    fired INTEGER NOT NULL,
    reason TEXT NOT NULL
);
CREATE INDEX signals_trigger ON signals (trigger, number)
"""

_UPDATES = """
CREATE TABLE updates (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    model TEXT NOT NULL REFERENCES models (name) ON DELETE CASCADE,
    trigger INTEGER,
    why TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    labelled INTEGER NOT NULL,
    parent INTEGER,
    attempt INTEGER NOT NULL DEFAULT 0,
    job TEXT,
    run TEXT,
    version INTEGER,
    time_s REAL,
    cost_usd REAL,
    created REAL NOT NULL,
    ended REAL
);
CREATE UNIQUE INDEX one_update ON updates (model) WHERE ended IS NULL;
CREATE INDEX updates_model ON updates (model, number);
CREATE TABLE update_runs (key TEXT PRIMARY KEY, run INTEGER NOT NULL) WITHOUT ROWID
"""

_FOLLOW_UPS = """
ALTER TABLE updates ADD COLUMN alarm INTEGER;
ALTER TABLE updates ADD COLUMN follows INTEGER;
CREATE UNIQUE INDEX one_follow_up ON updates (follows) WHERE follows IS NOT NULL
"""

MIGRATIONS = (
    ("life-1-stores", _STORES),
    ("life-2-models", _MODELS),
    ("life-3-triggers", _TRIGGERS),
    ("life-4-updates", _UPDATES),
    ("life-5-follow-ups", _FOLLOW_UPS),
)
