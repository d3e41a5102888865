"""docs/guides/s3.md: each of its queries is run as it stands, over the sample lakes."""

import json
import os
import re
import subprocess

import pytest

from harness import ROOT
from lake_readers import READERS, micros
from test_readers import expected

GUIDE = (ROOT / "docs/guides/s3.md").read_text()
QUERIES = {(reader, form): text for reader, form, text in re.findall(r"^```(?:sql|python) (\w+) (\w+)\n(.*?)^```$", GUIDE, re.M | re.S)}
KIND = {"parquet": "parquet-zstd", "jsonl": "jsonl-zstd"}


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    directory = tmp_path_factory.mktemp("lakes")
    subprocess.run([ROOT / "build/release/lake_sample", directory], check=True, timeout=60)
    return directory


@pytest.fixture(scope="module")
def reader():
    made = {}

    def get(name):
        if name not in made:
            made[name] = READERS[name]()
        return made[name]

    yield get
    for one in made.values():
        getattr(one, "close", lambda: None)()


def python_history(code: str, **names):
    scope = dict(names)
    exec(code, scope)
    return scope["history"]


def rows_of(name: str, query: str, get) -> list[tuple]:
    """(offset, stamp, payload) as the reader gives them."""
    if name == "duckdb":
        return get(name).connection.execute(query).fetchall()
    if name == "clickhouse":
        answer = get(name).chdb.query(query, "JSONCompactEachRow")
        return [(int(offset), ts.replace(" ", "T") + "Z", payload) for offset, ts, payload in map(json.loads, str(answer).splitlines())]
    if name == "spark":
        history = python_history(query, spark=get(name).session)
        return [(offset, us, payload) for offset, us, payload in history.selectExpr("offset", "unix_micros(ts)", "payload").collect()]
    history = python_history(query)
    if name == "polars":
        return history.rows()
    rows = history.to_pylist() if name == "pyarrow" else history.to_dict("records")
    return [(row["offset"], row["ts"], row["payload"]) for row in rows]


def test_every_reader_has_a_query_for_each_format():
    assert set(QUERIES) == {(reader, form) for reader in READERS for form in KIND}


@pytest.mark.parametrize("name,form", QUERIES)
def test_a_query_of_the_guide_gives_the_history_of_one_partition(lakes, reader, monkeypatch, tmp_path, name, form):
    os.symlink(lakes / KIND[form], tmp_path / "lake")
    monkeypatch.chdir(tmp_path)
    # Readers that are in the process already may have remembered another working directory.
    query = re.sub(r"(?<=['\"])lake(?=[/'\"])", str(tmp_path / "lake"), QUERIES[(name, form)])
    rows = rows_of(name, query, reader)
    wanted = [row for row in expected(("rides",)) if row[2] == "caffè"]
    assert len(wanted) > 800
    assert [(row[0], row[1] if isinstance(row[1], int) else micros(row[1])) for row in rows] == [(row[3], row[5]) for row in wanted]
    nulls = [row[2] is None or row[2] != row[2] for row in rows]
    assert nulls == [row[6] is None for row in wanted] and any(nulls)
