"""POST /api/v1/fetch/offsets: the first message at or after a time (api-messaging.md 8.2, O-6)."""

import datetime
import time

import pytest


def offsets(broker, *entries: dict) -> list[dict]:
    answer = broker.post("/api/v1/fetch/offsets", {"entries": list(entries)})
    assert answer.status_code == 200, answer.text
    return answer.json()["entries"]


def micros(text: str) -> int:
    moment = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
    return (moment - datetime.datetime.fromtimestamp(0, datetime.timezone.utc)) // datetime.timedelta(microseconds=1)


def expected(records: list[dict], millis: int) -> tuple[int | None, str | None]:
    for record in records:
        if micros(record["ts"]) >= millis * 1000:
            return record["offset"], record["ts"]
    return None, None


def fill(broker, appends: int = 12) -> list[dict]:
    for n in range(appends):
        broker.push([{"queue": "q", "partition": "p", "transactionId": f"{n}-{i}", "payload": i} for i in range(1 + n % 3)])
        time.sleep(0.004)
    return broker.fetch_all("q", "p")


def check_all(broker, records: list[dict]) -> None:
    stamps = [micros(r["ts"]) // 1000 for r in records]
    for millis in sorted({0, *stamps, *(s + 1 for s in stamps), stamps[-1] + 60_000}):
        got, = offsets(broker, {"queue": "q", "partition": "p", "timestamp": millis})
        assert (got["offset"], got["ts"]) == expected(records, millis), (millis, got)
        assert got["highWatermark"] == len(records) and got["logStartOffset"] == 0 and "error" not in got


@pytest.mark.parametrize("how", ["terminate", "kill9"])
def test_every_time_finds_the_first_message_that_is_not_earlier(make_broker, how):
    broker = make_broker().start()
    records = fill(broker)
    check_all(broker, records)
    getattr(broker, how)()
    check_all(broker.start(), records)


def test_both_kinds_of_time_mean_the_same(broker):
    records = fill(broker, 3)
    stamp = records[2]["ts"]
    millis = micros(stamp) // 1000
    by_number, by_text = offsets(broker, {"queue": "q", "partition": "p", "timestamp": millis},
                                 {"queue": "q", "partition": "p", "timestamp": stamp})
    assert by_number == by_text
    assert by_text["offset"] <= records[2]["offset"]  # read to the millisecond, so never after it


def test_what_is_not_there(broker):
    broker.push([{"queue": "q", "partition": "7", "payload": 1}])
    unknown, never, numbered = offsets(broker, {"queue": "x", "timestamp": 0}, {"queue": "q", "timestamp": 0},
                                       {"queue": "q", "partition": 7, "timestamp": 0})
    assert unknown == {"queue": "x", "partition": "Default", "error": "UNKNOWN_TOPIC_OR_PARTITION", "offset": None, "ts": None,
                       "highWatermark": 0, "logStartOffset": 0}
    assert never == {"queue": "q", "partition": "Default", "offset": None, "ts": None, "highWatermark": 0, "logStartOffset": 0}
    assert numbered["offset"] == 0 and numbered["highWatermark"] == 1
    assert broker.post("/api/v1/fetch/offsets", {}).json() == {"entries": []}


@pytest.mark.parametrize("entry", [{"queue": "q"}, {"timestamp": 0}, {"queue": 1, "timestamp": 0}, {"queue": "q", "timestamp": -1},
                                   {"queue": "q", "timestamp": "soon"}, {"queue": "q", "timestamp": 1.5},
                                   {"queue": "q", "timestamp": None}, {"queue": "q", "timestamp": 0, "partition": {}}, 7, None])
def test_refusals_name_the_field_and_answer_nothing(broker, entry):
    good = {"queue": "q", "timestamp": 0}
    answer = broker.post("/api/v1/fetch/offsets", {"entries": [good, entry]})
    assert answer.status_code == 400 and answer.json()["error"] and "entries" not in answer.json()


def test_too_many_entries(broker):
    entry = {"queue": "q", "timestamp": 0}
    assert len(offsets(broker, *[entry] * 1024)) == 1024
    answer = broker.post("/api/v1/fetch/offsets", {"entries": [entry] * 1025})
    assert answer.status_code == 400 and answer.json()["error"] == "too many entries"


def test_never_below_what_retention_left(make_broker):
    broker = make_broker(RETENTION_INTERVAL="50").start()
    broker.post("/api/v1/configure", {"queue": "q", "options": {"retentionEnabled": True, "retentionSeconds": 2}})
    fill(broker, 3)
    time.sleep(1.6)
    broker.push([{"queue": "q", "partition": "p", "transactionId": "late", "payload": 1}])
    deadline = time.monotonic() + 15
    while True:
        got, = offsets(broker, {"queue": "q", "partition": "p", "timestamp": 0})
        if got["logStartOffset"] > 0 or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    assert got["logStartOffset"] > 0
    assert got["offset"] is None or got["offset"] == got["logStartOffset"]


def test_messages_whose_rows_left_ram_are_found(make_broker):
    """The log's index knows stamps that no row knows any more (storage.md RT-10)."""
    broker = make_broker(RETENTION_INTERVAL="50", QUEEN_RAFT_TXN_WINDOW_MIN_S="1").start()
    broker.post("/api/v1/configure", {"queue": "q", "options": {"dedupWindowSeconds": 1}})
    records = fill(broker)
    time.sleep(2.5)
    check_all(broker, records)
