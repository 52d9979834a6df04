# SPDX-License-Identifier: Apache-2.0
"""Makes a store of a foreign node from copies of genuine segments, with what does not end in them.

usage: segments.py FOLDER

FOLDER has copies of segments in genuine/ and becomes a folder of state folders, one for each trick:

  views   every view of the file is an endless recursive query; the tables are genuine
  tables  the tables of stages, steps and ranks are such views
  texts   the table of texts is such a view
  pages   the table of stages is a tree of pages in which all branches lead to one leaf: 583^6 times its rows
"""
import os
import shutil
import sqlite3
import struct
import sys

ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT "
PAGE = 4096
CELLS = 500
DEPTH = 6


def columns(db, table):
    return [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]


def endless(db, name, replaced):
    ends = ", ".join(f'n AS "{column}"' for column in columns(db, replaced))
    return f'CREATE VIEW "{name}" AS {ENDLESS}{ends} FROM r WHERE n < 0'


def views(db):
    for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall():
        sql = endless(db, name, name)
        db.execute(f'DROP VIEW "{name}"')
        db.execute(sql)


def replace(db, tables):
    for name in tables:
        if columns(db, name):
            sql = endless(db, name, name)
            db.execute(f'DROP TABLE "{name}"')
            db.execute(sql)


def interior(child):
    """A page whose cells all have the same child."""
    cells = struct.pack(">IB", child, 1)
    page = struct.pack(">BHHHBI", 5, 0, CELLS, PAGE - CELLS * len(cells), 0, child)
    page += b"".join(struct.pack(">H", PAGE - (i + 1) * len(cells)) for i in range(CELLS))
    return page.ljust(PAGE - CELLS * len(cells), b"\0") + cells * CELLS


def pages(path):
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute("DELETE FROM spans")
    found = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'stages_raw'").fetchone()
    if not found:
        return
    # A few rows remain, so that the root is a leaf.
    db.execute("DELETE FROM stages_raw WHERE rowid > 8")
    db.commit()
    db.execute("VACUUM")
    root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'stages_raw'").fetchone()[0]
    assert db.execute("PRAGMA page_size").fetchone()[0] == PAGE
    db.close()
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        count = len(data) // PAGE
        leaf = data[(root - 1) * PAGE:root * PAGE]
        assert leaf[0] == 13, "the root of stages_raw is no leaf"
        data += leaf
        for level in range(1, DEPTH):
            data += interior(count + level)
        data[(root - 1) * PAGE:root * PAGE] = interior(count + DEPTH)
        data[28:32] = struct.pack(">I", count + DEPTH)
        data[92:96] = data[24:28]
        file.seek(0)
        file.write(data)


def main():
    folder = sys.argv[1]
    genuine = os.path.join(folder, "genuine")
    tricks = {"views": views, "tables": lambda db: replace(db, ("stages_raw", "steps_raw", "ranks_raw")),
              "texts": lambda db: replace(db, ("texts",)), "pages": None}
    for trick, change in tricks.items():
        to = os.path.join(folder, "nodes", trick, "db")
        os.makedirs(to)
        for name in os.listdir(genuine):
            path = shutil.copy(os.path.join(genuine, name), to)
            if not change:
                pages(path)
                continue
            db = sqlite3.connect(path)
            db.execute("PRAGMA journal_mode = DELETE")
            change(db)
            db.commit()
            db.close()


if __name__ == "__main__":
    main()
