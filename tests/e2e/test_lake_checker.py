"""The checker of the lake: a lake written by hand is right, and each damage is refused for its own reason."""

import hashlib
import json

import pytest
import zstandard

from harness import TENANT
from lake import LakeChecker, Place, iso, line_of

PLACE = Place("rides")
HOUR = 1_794_042_000_000_000  # 2026-11-07T09:00:00Z
BOUNDS = {1: (HOUR, HOUR + 1000), 2: (HOUR + 1000, HOUR + 2000), 3: (HOUR + 3_600_000_000, HOUR + 3_600_001_000)}


def sample() -> dict[int, list[tuple[str, int, str, int, str]]]:
    """k -> (partition, offset, transactionId, ts, payload); between windows 2 and 3 lies a step over the hour."""
    return {1: [("a", 0, "t0", HOUR + 10, '{"n":42.00}'), ("a", 1, "t1", HOUR + 20, "null"), ("b", 0, "t2", HOUR + 20, "1")],
            2: [("a", 2, "t3", HOUR + 1000, "[ ]"), ("b", 1, "t4", HOUR + 1999, '"x"')],
            3: [("b", 2, "t5", HOUR + 3_600_000_500, '{"k":\n1}')]}


def expected() -> dict:
    return {(p, o): (t, payload) for rows in sample().values() for p, o, t, _, payload in rows}


def lake(windows: dict, bounds: dict = BOUNDS) -> dict[str, bytes]:
    objects = {}
    for k, rows in windows.items():
        body = zstandard.compress("".join(line_of(p, o, t, iso(ts), payload) + "\n" for p, o, t, ts, payload in rows).encode())
        key = PLACE.data_key(k, *bounds[k], "zstd")
        objects[key] = body
        item = {"key": key, "bytes": len(body), "records": len(rows), "sha256": hashlib.sha256(body).hexdigest()}
        objects[PLACE.manifest_key(k)] = json.dumps({
            "sink": "default", "tenant": TENANT, "queue": "rides", "k": k, "tStart": bounds[k][0], "tEnd": bounds[k][1],
            "format": "jsonl", "compression": "zstd", "layout": "merged", "objects": [item], "records": len(rows),
            "bytes": len(body), "partitions": len({row[0] for row in rows}), "minTs": min(row[3] for row in rows),
            "maxTs": max(row[3] for row in rows), "lost": [], "writer": "w", "committedAt": iso(0)}).encode()
    return objects


def reasons(objects: dict[str, bytes]) -> set[str]:
    return {complaint.split(":")[0] for complaint in LakeChecker(objects, PLACE, expected()).check()}


def with_row(k: int, at: int, **change) -> dict[str, bytes]:
    windows = sample()
    row = dict(zip(("partition", "offset", "transaction_id", "ts", "payload"), windows[k][at]))
    windows[k][at] = tuple({**row, **change}.values())
    return lake(windows)


def duplicated() -> dict[str, bytes]:
    windows = sample()
    windows[1].insert(1, windows[1][0])
    return lake(windows)


def without_a_record() -> dict[str, bytes]:
    windows = sample()
    del windows[1][1]
    return lake(windows)


def out_of_order() -> dict[str, bytes]:
    windows = sample()
    windows[1].reverse()
    return lake(windows)


def with_an_orphan() -> dict[str, bytes]:
    return {**lake(sample()), PLACE.data + "dt=2026-11-07/hour=09/w-0000000002-1-2.jsonl.zst": b""}


def with_other_bytes() -> dict[str, bytes]:
    objects = lake(sample())
    key = PLACE.data_key(2, *BOUNDS[2], "zstd")
    same_text = zstandard.ZstdDecompressor().decompress(objects[key])
    return {**objects, key: zstandard.ZstdCompressor(write_checksum=True).compress(same_text)}


def test_a_right_lake_is_accepted():
    assert LakeChecker(lake(sample()), PLACE, expected()).check() == []


@pytest.mark.parametrize("reason,damaged", [
    ("payload", lambda: with_row(1, 0, payload='{"n":42.0}')),
    ("transactionId", lambda: with_row(1, 0, transaction_id="other")),
    ("duplicate", duplicated),
    ("missing", without_a_record),
    ("order", out_of_order),
    ("ts", lambda: with_row(3, 0, ts=HOUR + 3_600_001_000)),
    ("tiling", lambda: lake(sample(), {**BOUNDS, 2: (HOUR + 999, HOUR + 2000)})),
    ("orphan", with_an_orphan),
    ("bytes", with_other_bytes),
])
def test_each_damage_is_refused_for_its_own_reason(reason, damaged):
    assert reasons(damaged()) == {reason}


def test_a_missing_window_breaks_the_numbering():
    objects = lake(sample())
    del objects[PLACE.manifest_key(1)], objects[PLACE.data_key(1, *BOUNDS[1], "zstd")]
    assert "numbering" in reasons(objects)


def test_a_record_that_nobody_pushed_is_foreign():
    windows = sample()
    windows[3].append(("b", 3, "t9", HOUR + 3_600_000_600, "1"))
    assert reasons(lake(windows)) == {"foreign"}
