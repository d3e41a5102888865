"""The sink across crashes and stops: what each leaves, and that the next life makes the lake whole with the same bytes."""

import hashlib
import json
import random
import signal
import threading
import time

import pytest
import requests

from harness import data_keys
from lake import Place, Pushed, assert_lake_right
from s3_proxy import Hold, Proxy
from s3_servers import by_turn, on_both
from sink_settings import FAST

MIB = 1024 * 1024
UPLOADED = {"after_upload", "before_commit", "after_commit"}


def documents(broker) -> dict[str, dict]:
    """The sink's rows, read by a life of the broker that does not run the sink."""
    broker.start(QUEEN_S3_EMBEDDED="false")
    body = {"operations": [{"op": "getPrefix", "ns": "queen-s3", "prefix": "s3:", "limit": 1000}]}
    result = broker.post("/api/v1/kv", body).json()["results"][0]
    broker.kill9()
    rows = result.get("rows") or result.get("items") or result.get("entries")
    return {row["key"]: row["value"] for row in rows or []}


def committed_windows(broker, pushed: Pushed, windows: int) -> None:
    for _ in range(windows):
        before = broker.sink_row(pushed.queue)
        pushed.some(broker, 12)
        broker.wait_sink(pushed.queue, lambda row: row["k"] > (before["k"] if before else 0))


def push_until_the_abort(broker, push, timeout: float = 30) -> None:
    deadline = time.monotonic() + timeout
    while broker.process.poll() is None and time.monotonic() < deadline:
        try:
            push()
        except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
            break
        time.sleep(0.1)
    assert broker.wait_exit(10) == -signal.SIGABRT


class Retried:
    """Pushes whose items keep their ids until they are acknowledged, so that a push without an answer can be repeated."""

    def __init__(self, pushed: Pushed):
        self.pushed, self.pending, self.count = pushed, None, 0

    def push(self, broker, items: int = 9, size: int = 10) -> None:
        if self.pending is None:
            self.pending = [(f"p {n % 3}", f"r{self.count}.{n}", '{"n":%d,"text":"%s"}' % (n, "x" * size)) for n in range(items)]
            self.count += 1
        self.pushed.push(broker, self.pending)
        self.pending = None


def lake_records(bucket, place: Place) -> int:
    manifests = [key for key in bucket.keys(place.side) if "/windows/" in key]
    return sum(json.loads(bucket.get(key))["records"] for key in manifests)


def wait_lake(bucket, place: Place, records: int, timeout: float = 40) -> None:
    deadline = time.monotonic() + timeout
    while lake_records(bucket, place) != records:
        assert time.monotonic() < deadline, f"{lake_records(bucket, place)} records of {records} are in the bucket"
        time.sleep(0.1)


def wait_pointer(broker, pushed: Pushed, place: Place, bucket) -> None:
    """Every record is in a manifest and the last manifest is committed."""
    wait_lake(bucket, place, len(pushed.records))
    last = len([key for key in bucket.keys(place.side) if "/windows/" in key])
    broker.wait_sink(pushed.queue, lambda row: row["k"] == last and row["state"] == "filling")


def assert_state_of(point: str, rows: dict, objects: dict[str, bytes], place: Place) -> int:
    """KV and bucket are exactly as the crash point leaves them. Returns the number of the window in question."""
    intent, committed = rows["s3:default:crash:intent"], rows["s3:default:crash:committed"]
    k = intent["k"]
    assert committed["k"] == (k if point == "after_commit" else k - 1)
    key = place.data_key(k, intent["tStart"], intent["tEnd"], intent["compression"])
    assert (key in objects) == (point in UPLOADED or point == "mid_upload")
    assert (place.manifest_key(k) in objects) == (point in UPLOADED)
    assert sum(1 for name in data_keys(objects) if f"/w-{k:010}-" in name) == (0 if point == "after_intent" else 1)
    assert not any(f"/w-{k + 1:010}-" in name for name in objects)
    assert place.checkpoint_key(k) not in objects, "the checkpoint comes after the commit"
    assert place.manifest_key(k - 1) in objects and committed["manifest"] == place.manifest_key(committed["k"])
    return k


def assert_unchanged(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    for key, body in before.items():
        assert after[key] == body, f"{key} has other bytes after the crash"


@by_turn("point,align", [
    ("after_intent", "none"), ("mid_upload", "none"), ("after_upload", "none"), ("before_commit", "none"), ("after_commit", "none"),
    ("mid_upload", "hour"), ("before_commit", "hour")])
def test_each_crash_point_leaves_its_state_and_is_finished_in_silence(make_broker, bucket, point, align):
    broker = make_broker(**{**bucket.settings("crash"), **FAST, "QUEEN_S3_ALIGN": align, "QUEEN_S3_MAX_WINDOW_MS": "300"}).start()
    place, pushed = Place("crash", align=align), Pushed("crash")
    retried = Retried(pushed)
    committed_windows(broker, pushed, 3)
    broker.terminate()
    broker.start(QUEEN_S3_CRASH_AT=point)
    push_until_the_abort(broker, lambda: retried.push(broker))

    rows, before = documents(broker), bucket.objects()
    k = assert_state_of(point, rows, before, place)
    broker.start()
    broker.wait_sink("crash", lambda row: row["k"] >= k and not row["redo"])  # nothing was pushed since the crash
    assert_unchanged(before, bucket.objects())

    if retried.pending is not None:
        retried.push(broker)
    committed_windows(broker, pushed, 2)
    wait_pointer(broker, pushed, place, bucket)
    after = bucket.objects()
    assert_unchanged(before, after)
    assert_lake_right(after, place, pushed.records)


@on_both
def test_a_redo_writes_what_the_intent_says_whatever_the_settings_are_now(make_broker, bucket):
    broker = make_broker(**{**bucket.settings("crash"), **FAST, "QUEEN_S3_CRASH_AT": "mid_upload"}).start()
    place, pushed = Place("crash", align="none"), Pushed("crash")
    retried = Retried(pushed)
    push_until_the_abort(broker, lambda: retried.push(broker))
    before = bucket.objects()
    broker.start(QUEEN_S3_CRASH_AT="never", QUEEN_S3_COMPRESSION="gzip")
    if retried.pending is not None:
        retried.push(broker)
    committed_windows(broker, pushed, 1)
    wait_pointer(broker, pushed, place, bucket)
    after = bucket.objects()
    assert_unchanged(before, after)
    assert_lake_right(after, place, pushed.records)
    compressions = [json.loads(after[key])["compression"] for key in sorted(after) if "/windows/" in key]
    assert compressions[0] == "zstd" and set(compressions[1:]) == {"gzip"}


def test_short_windows_under_a_short_lease_never_fence_themselves(make_broker, bucket):
    settings = {**bucket.settings("crash"), **FAST, "QUEEN_S3_LEASE_TTL_MS": "1000", "QUEEN_S3_MAX_WINDOW_MS": "100"}
    broker = make_broker(**settings).start()
    place, pushed = Place("crash", align="none"), Pushed("crash")
    started = time.monotonic()
    while time.monotonic() - started < 40:
        pushed.some(broker, 6)
        time.sleep(0.03)
    broker.wait_sink("crash", lambda row: row["records"] == len(pushed.records) and row["state"] == "filling")
    assert_lake_right(bucket.objects(), place, pushed.records)
    row = broker.sink_row("crash")
    assert row["k"] >= 100 and row["lastError"] is None
    assert "queue_fenced" not in broker.log() and broker.log().count("queue_owned") == 1


@on_both
def test_a_crash_between_two_parts_strands_one_part_and_the_redo_writes_both(make_broker, bucket):
    settings = {**bucket.settings("crash"), **FAST, "QUEEN_S3_MULTIPART_THRESHOLD_MB": "5", "QUEEN_S3_COMPRESSION": "none"}
    broker = make_broker(**{**settings, "QUEEN_S3_MAX_WINDOW_MS": "500"}).start()
    place, pushed = Place("crash", align="none"), Pushed("crash")
    committed_windows(broker, pushed, 2)
    broker.terminate()
    broker.start(QUEEN_S3_EMBEDDED="false")
    for _ in range(7):
        pushed.some(broker, 3, 3, MIB)
    broker.terminate()
    broker.spawn(QUEEN_S3_CRASH_AT="mid_upload")
    assert broker.wait_exit(30) == -signal.SIGABRT

    rows, before = documents(broker), bucket.objects()
    intent = rows["s3:default:crash:intent"]
    key = place.data_key(intent["k"], intent["tStart"], intent["tEnd"], "none")
    assert key not in before and place.manifest_key(intent["k"]) not in before
    parts, upload = stranded_parts(bucket, key)
    assert [part["Size"] for part in parts] == [16 * MIB]

    broker.start()
    wait_pointer(broker, pushed, place, bucket)
    assert_lake_right(bucket.objects(), place, pushed.records)
    body = bucket.get(key)
    assert len(body) > 16 * MIB
    tag = bucket.client.head_object(Bucket=bucket.name, Key=key)["ETag"].strip('"')
    assert tag.endswith("-2"), "two parts"
    same_first_part(bucket, body, parts[0]["ETag"])
    bucket.client.abort_multipart_upload(Bucket=bucket.name, Key=key, UploadId=upload)


def stranded_parts(bucket, key: str) -> tuple[list[dict], str]:
    uploads = bucket.client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", [])
    assert [upload["Key"] for upload in uploads] == [key]
    upload = uploads[0]["UploadId"]
    return bucket.client.list_parts(Bucket=bucket.name, Key=key, UploadId=upload)["Parts"], upload


def same_first_part(bucket, body: bytes, tag: str) -> None:
    assert hashlib.md5(body[:16 * MIB]).hexdigest() == tag.strip('"'), "the first part of the redo is that of the first attempt"


# ---- SIGTERM ----

SLOW_WINDOW = {"QUEEN_S3_MAX_WINDOW_MS": "3600000"}


def start_long_window(make_broker, settings: dict[str, str], pushed: Pushed):
    """A broker whose first window is committed and whose second closes in an hour."""
    broker = make_broker(**{**settings, **FAST, **SLOW_WINDOW}).start()
    pushed.some(broker, 3)
    broker.wait_sink(pushed.queue, lambda row: row["k"] == 1 and row["state"] == "filling")
    return broker


def assert_no_leases(rows: dict) -> None:
    assert [key for key in rows if key.endswith(":lease") or ":node=" in key] == []


@on_both
def test_sigterm_commits_a_window_worth_it_and_gives_the_leases_back(make_broker, bucket):
    pushed, place = Pushed("crash"), Place("crash", align="none")
    broker = start_long_window(make_broker, {**bucket.settings("crash"), "QUEEN_S3_CHECKPOINT_EVERY": "2"}, pushed)
    pushed.some(broker, 6, 3, 300_000)
    youngest = broker.fetch_all("crash", "p 0")[-1]["ts"]
    # A window ends at or before the clock of the last look, so that clock must have passed the records.
    broker.wait_sink("crash", lambda row: row["bufferedBytes"] > 6 * 300_000 and row["safeTime"] > youngest)
    started = time.monotonic()
    assert broker.terminate() == 0
    assert time.monotonic() - started < 10
    assert_lake_right(bucket.objects(), place, pushed.records)
    assert place.checkpoint_key(2) in bucket.keys(), "the checkpoint that the commit queued is still written"
    rows = documents(broker)
    assert_no_leases(rows)
    assert rows["s3:default:crash:committed"]["k"] == 2


def test_sigterm_leaves_a_young_small_window_to_the_next_run(make_broker, bucket):
    pushed, place = Pushed("crash"), Place("crash", align="none")
    broker = start_long_window(make_broker, bucket.settings("crash"), pushed)
    pushed.some(broker, 6)
    broker.wait_sink("crash", lambda row: row["bufferedBytes"] > 0)
    assert broker.terminate() == 0
    rows = documents(broker)
    assert_no_leases(rows)
    assert rows["s3:default:crash:committed"]["k"] == 1 and rows["s3:default:crash:intent"]["k"] == 1
    broker.start(QUEEN_S3_MAX_WINDOW_MS="1000")
    wait_pointer(broker, pushed, place, bucket)
    assert_lake_right(bucket.objects(), place, pushed.records)


@pytest.fixture
def proxy(bucket):
    made = Proxy(bucket.about["endpoint"]).start()
    yield made
    made.stop()


def drain_while_a_put_is_held(make_broker, bucket, proxy, pushed: Pushed, hold_s: float, grace_ms: int):
    settings = {**bucket.settings("crash"), "QUEEN_S3_ENDPOINT": proxy.endpoint}
    broker = start_long_window(make_broker, settings, pushed)
    broker.terminate()
    hold = Hold("PUT", "/w-0000000002-", 1, hold_s)
    proxy.order(hold)
    broker.start(QUEEN_S3_MAX_WINDOW_MS="1000", QUEEN_S3_SHUTDOWN_GRACE_MS=str(grace_ms))
    pushed.some(broker, 6)
    deadline = time.monotonic() + 20
    while hold.met == 0:
        assert time.monotonic() < deadline, broker.sink_row("crash")
        time.sleep(0.02)
    started = time.monotonic()
    code = broker.terminate()
    return broker, code, time.monotonic() - started


def test_sigterm_waits_for_a_put_under_way(make_broker, bucket, proxy):
    pushed, place = Pushed("crash"), Place("crash", align="none")
    broker, code, seconds = drain_while_a_put_is_held(make_broker, bucket, proxy, pushed, 2.5, 10_000)
    assert code == 0 and 1 < seconds < 10
    assert_lake_right(bucket.objects(), place, pushed.records)
    rows = documents(broker)
    assert_no_leases(rows)
    assert rows["s3:default:crash:committed"]["k"] == 2


@on_both
def test_grace_that_runs_out_leaves_the_intent_and_the_late_put_changes_nothing(make_broker, bucket, proxy):
    pushed, place = Pushed("crash"), Place("crash", align="none")
    broker, code, seconds = drain_while_a_put_is_held(make_broker, bucket, proxy, pushed, 6, 2_000)
    assert code == 0 and 1.9 < seconds < 4.5
    assert "not stopped inside the grace" in broker.log()
    rows = documents(broker)
    intent = rows["s3:default:crash:intent"]
    assert (intent["k"], rows["s3:default:crash:committed"]["k"]) == (2, 1)
    key = place.data_key(2, intent["tStart"], intent["tEnd"], "zstd")
    deadline = time.monotonic() + 20
    while key not in bucket.keys():
        assert time.monotonic() < deadline, "the held PUT never landed"
        time.sleep(0.1)
    late = bucket.get(key)
    broker.start(QUEEN_S3_MAX_WINDOW_MS="1000")
    wait_pointer(broker, pushed, place, bucket)
    assert bucket.get(key) == late
    assert_lake_right(bucket.objects(), place, pushed.records)


# ---- kill -9 ----

def test_kill9_at_ten_random_moments_keeps_the_lake_right(make_broker, bucket):
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    moments = random.Random(seed)
    broker = make_broker(**{**bucket.settings("crash"), **FAST, "QUEEN_S3_MAX_WINDOW_MS": "200"}).start()
    place, pushed, stop = Place("crash", align="none"), Pushed("crash"), threading.Event()
    retried, failures = Retried(pushed), []

    def pusher() -> None:
        while not stop.is_set():
            try:
                retried.push(broker, 7)
            except (requests.RequestException, OSError):
                time.sleep(0.02)
            except AssertionError as error:
                if "starting" not in str(error):
                    failures.append(error)
                    return
            time.sleep(0.005)

    thread = threading.Thread(target=pusher)
    thread.start()
    for _ in range(10):
        time.sleep(moments.uniform(0.05, 1.2))
        broker.kill9()
        broker.start()
    stop.set()
    thread.join()
    assert failures == []
    if retried.pending is not None:
        retried.push(broker)
    wait_pointer(broker, pushed, place, bucket)
    print(f"{len(pushed.records)} records in {broker.sink_row('crash')['k']} windows")
    assert_lake_right(bucket.objects(), place, pushed.records)
