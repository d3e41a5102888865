"""Sample lakes of every format and codec, read by the readers of docs/guides/s3.md: counts, NULLs, types, order, exact stamps.

The lakes are written by build/release/lake_sample (tests/readers/lake_sample.cc) with our writers; `expected` has its formulas again."""

import collections
import hashlib
import json
import subprocess

import pytest

from harness import ROOT
from lake_readers import KINDS, READERS, READS_ONE_QUEUE_OF_JSONL, SAMPLES, Lake, plain

FIRST_HOUR_US = 1_794_038_400_000_000
ROWS_OF_HOUR = 1250
PARTITIONS = ["a/b", "bike 7", "caffè"]


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    directory = tmp_path_factory.mktemp("lakes")
    subprocess.run([ROOT / "build/release/lake_sample", directory], check=True, timeout=60)
    return directory


@pytest.fixture(scope="module")
def reader():
    """One reader of each name, made when it is first wanted."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = READERS[name]()
            print(f"{name} {made[name].version}")
        return made[name]

    yield get
    for one in made.values():
        getattr(one, "close", lambda: None)()


def expected(queues) -> list[tuple]:
    """The rows of the sample queues, in the order that every reader is asked for."""
    rows = []
    for queue in queues:
        for hour in range(2):
            for i in range(ROWS_OF_HOUR):
                n = hour * ROWS_OF_HOUR + i
                ts = FIRST_HOUR_US + hour * 3_600_000_000 + i * 1_000_003
                payload = None if n % 357 == 5 else f'{{"n":{n},"half":{n // 2}.50,"text":"è \\"{n % 7}\\""}}'
                rows.append((queue, 8 + hour, PARTITIONS[n % 3], n // 3, f"t-{n}", ts, payload))
    return sorted(rows, key=lambda row: (row[0].encode(), row[2].encode(), row[3]))


def parsed(payload):
    return json.loads(payload) if isinstance(payload, str) else payload


def digest(rows) -> str:
    return hashlib.sha256("\n".join(f"{row[0]} {row[2]} {row[3]} {row[5]}" for row in rows).encode()).hexdigest()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READERS)
def test_a_reader_reads_the_lake_exactly(lakes, reader, name, kind):
    lake = Lake(lakes, kind)
    queues = ("rides",) if not lake.parquet and name in READS_ONE_QUEUE_OF_JSONL else SAMPLES
    rows = [(plain(row[0]), *row[1:]) for row in reader(name).rows(lake)]
    wanted = expected(queues)
    assert len(rows) == 2 * ROWS_OF_HOUR * len(queues)
    assert collections.Counter((row[0], row[2]) for row in rows) == collections.Counter((row[0], row[2]) for row in wanted)
    assert sum(row[6] is None for row in rows) == 7 * len(queues)
    assert digest(rows) == digest(wanted), "the reader's own order, or a stamp"
    # Parquet keeps the text itself; what a reader makes of JSON has at least the values.
    if lake.parquet:
        assert rows == wanted
    assert [(*row[:6], parsed(row[6])) for row in rows] == [(*row[:6], parsed(row[6])) for row in wanted]


# HD-21: runs of equal deltas, whose miniblocks take no bits.
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READERS)
def test_a_reader_reads_full_pages_of_consecutive_offsets_with_one_stamp(lakes, reader, name, kind):
    rows = [tuple(row) for row in reader(name).steady(Lake(lakes, kind))]
    assert rows == [(1000 + i, FIRST_HOUR_US + 1) for i in range(25_000)]


def test_the_history_of_one_entity_in_sql(lakes, reader):
    """The query of the guide: one partition, in log order, with microseconds."""
    duckdb = reader("duckdb")
    source = duckdb.source(Lake(lakes, "parquet-zstd"))
    rows = duckdb.connection.execute(
        f"SELECT strftime(ts AT TIME ZONE 'UTC', '%H:%M:%S.%f'), (payload::JSON->>'n')::INT FROM {source} "
        "WHERE queue = 'rides' AND partition = 'caffè' AND dt = '2026-11-07' ORDER BY ts, \"offset\" LIMIT 3").fetchall()
    assert rows == [("08:00:02.000006", 2), ("08:00:05.000015", None), ("08:00:08.000024", 8)]


def test_the_footer_is_read_by_others_as_we_write_it(lakes, reader):
    """HD-25, by a reader that shows it all."""
    duckdb = reader("duckdb").connection
    lake = Lake(lakes, "parquet-zstd")
    file = lake.files("rides")[0]
    columns = duckdb.execute(
        "SELECT path_in_schema, encodings, stats_min_value, stats_max_value, stats_null_count, dictionary_page_offset IS NOT NULL "
        f"FROM parquet_metadata('{file}') WHERE row_group_id = 0").fetchall()
    assert [column[0] for column in columns] == ["partition", "offset", "transaction_id", "ts", "payload"]
    assert [column[5] for column in columns] == [True, False, False, False, False]
    assert columns[0][2:5] == ("a/b", "bike 7", 0)
    assert columns[1][1] == "RLE, DELTA_BINARY_PACKED"
    [(created_by, groups, version)] = duckdb.execute(
        f"SELECT created_by, num_row_groups, format_version FROM parquet_file_metadata('{file}')").fetchall()
    assert (created_by, groups, version) == ("queen-s3 version 0.1.0 (build 1)", 3, 1)
    pairs = duckdb.execute(f"SELECT decode(key), decode(value) FROM parquet_kv_metadata('{file}') ORDER BY 1").fetchall()
    assert pairs == [("queen.envelope", "1"), ("queen.queue", "rides"), ("queen.tenant", "00000000-0000-0000-0000-000000000001")]
