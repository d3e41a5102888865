"""The sink against a bucket that is away, slow, wrong, or another's: it lags, it says why, it loses and repeats nothing."""

import json
import re
import shutil
import statistics
import time

import pytest

from lake import Place, Pushed, assert_lake_right
from s3_proxy import Answer, CloseInBody, Hold, LoseAnswer, Proxy
from s3_servers import on_both
from sink_settings import FAST

DATA, MANIFEST = r"/dt=", r"/windows/"


@pytest.fixture
def proxy(bucket):
    made = Proxy(bucket.about["endpoint"])
    yield made
    made.stop()


def sink_of(broker) -> dict:
    return broker.get("/status").json()["s3"]["sinks"][0]


def wait_bucket(broker, reachable: bool, timeout: float = 60) -> dict:
    deadline = time.monotonic() + timeout
    while True:
        found = sink_of(broker)
        if found["bucket"]["reachable"] is reachable:
            return found
        assert time.monotonic() < deadline, found["bucket"]
        time.sleep(0.05)


def settings_through(bucket, proxy, queue: str) -> dict[str, str]:
    return {**bucket.settings(queue), **FAST, "QUEEN_S3_ENDPOINT": proxy.endpoint}


def assert_all_shipped(broker, bucket, pushed: Pushed, timeout: float = 60) -> None:
    broker.wait_sink(pushed.queue, lambda row: row["records"] == len(pushed.records) and row["state"] == "filling", timeout)
    assert_lake_right(bucket.objects(), Place(pushed.queue, align="none"), pushed.records)


def kv_rows(broker) -> list[dict]:
    body = {"operations": [{"op": "getPrefix", "ns": "queen-s3", "prefix": "s3:", "limit": 1000}]}
    return broker.post("/api/v1/kv", body).json()["results"][0]["rows"]


@on_both
def test_bucket_away_at_boot_then_slow_then_broken_drops_nothing(make_broker, bucket, proxy):
    broker = make_broker(**settings_through(bucket, proxy, "away")).start()
    pushed = Pushed("away")
    pushed.some(broker, 20)
    down = wait_bucket(broker, False)
    assert down["ok"] is False and not any(row["ownedHere"] for row in down["queues"])
    for part in ("lake", proxy.endpoint, "s3:PutObject", "s3:GetObject", "s3:ListBucket", "queen/*", "QUEEN_S3_PATH_STYLE=true"):
        assert part in down["bucket"]["error"]
    assert kv_rows(broker) == [], "no lease and no presence before the bucket answers"

    slow = Answer("PUT", DATA, 4, 503, "SlowDown", retry_after=1)
    broken = Answer("PUT", MANIFEST, 2, 500, "InternalError")
    proxy.order(slow, broken)
    proxy.start()
    wait_bucket(broker, True)
    pushed.some(broker, 20)
    assert_all_shipped(broker, bucket, pushed)
    assert (slow.left, broken.left) == (0, 0)
    assert sink_of(broker)["ok"] is True and sink_of(broker)["bucket"]["error"] is None
    puts = counted_requests(broker, "put")
    assert (puts["503"], puts["500"]) == (4, 2) and puts["200"] == len(bucket.keys())
    assert counted_requests(broker, "list")["0"] > 0, "no answer while the bucket was away"


def counted_requests(broker, op: str) -> dict[str, int]:
    """Attempts of requests by their code."""
    text = broker.get("/metrics/prometheus").text
    series = re.findall(r"^queen_s3_s3_requests_total\{(.*)\} (\d+)$", text, re.M)
    return {re.search(r'code="(\d+)"', labels)[1]: int(count) for labels, count in series if f'op="{op}"' in labels}


def test_a_stop_before_the_bucket_answered_ends_at_once(make_broker, bucket, proxy):
    broker = make_broker(**{**settings_through(bucket, proxy, "away"), "QUEEN_S3_SHUTDOWN_GRACE_MS": "5000"}).start()
    Pushed("away").some(broker, 3)
    started = time.monotonic()
    assert broker.terminate() == 0
    assert time.monotonic() - started < 2


def test_a_stop_while_the_bucket_refuses_ends_inside_the_grace_and_keeps_the_window(make_broker, bucket, proxy):
    proxy.start()
    broker = make_broker(**{**settings_through(bucket, proxy, "away"), "QUEEN_S3_SHUTDOWN_GRACE_MS": "3000"}).start()
    pushed = Pushed("away")
    pushed.some(broker, 3)
    broker.wait_sink("away", lambda row: row["k"] == 1 and row["state"] == "filling")
    proxy.stop()
    pushed.some(broker, 3)
    broker.wait_sink("away", lambda row: row["state"] == "upload")
    started = time.monotonic()
    assert broker.terminate() == 0
    assert time.monotonic() - started < 5
    proxy.start()
    broker.start()
    broker.wait_sink("away", lambda row: row["k"] == 2)
    assert_lake_right(bucket.objects(), Place("away", align="none"), pushed.records)


@pytest.mark.parametrize("fault", [
    lambda: CloseInBody("PUT", DATA, 2),
    lambda: LoseAnswer("PUT", DATA, 1),
    lambda: LoseAnswer("PUT", MANIFEST, 1),
    lambda: Answer("PUT", DATA, 1, 400, "RequestTimeout"),
    lambda: Answer("PUT", DATA, 1, 403, "RequestTimeTooSkewed"),
], ids=["closed-in-the-body", "data-answer-lost", "manifest-answer-lost", "request-timeout", "clock-skewed"])
def test_a_put_that_goes_wrong_is_repeated(make_broker, bucket, proxy, fault):
    fault = fault()
    proxy.order(fault)
    proxy.start()
    broker = make_broker(**settings_through(bucket, proxy, "bumpy")).start()
    pushed = Pushed("bumpy")
    pushed.some(broker, 20, 3, 2000)
    assert_all_shipped(broker, bucket, pushed)
    assert fault.left == 0


def test_repeats_of_one_key_are_a_second_apart(make_broker, bucket, proxy):
    proxy.order(LoseAnswer("PUT", DATA, 1))
    proxy.start()
    broker = make_broker(**settings_through(bucket, proxy, "paced")).start()
    pushed = Pushed("paced")
    pushed.some(broker, 5)
    assert_all_shipped(broker, bucket, pushed)
    first, second = [request.at for request in proxy.requests if request.method == "PUT" and "/dt=" in request.path]
    assert second - first >= 1


def test_a_bucket_that_hangs_is_dropped_after_thirty_seconds_and_clients_do_not_notice(make_broker, bucket, proxy):
    hang = Hold("PUT", DATA, 1, 300)
    proxy.order(hang)
    proxy.start()
    broker = make_broker(**settings_through(bucket, proxy, "hung")).start()
    pushed, seconds = Pushed("hung"), []
    started = time.monotonic()
    while time.monotonic() - started < 20 or hang.met == 0:
        before = time.monotonic()
        pushed.some(broker, 3)
        seconds.append(time.monotonic() - before)
        assert broker.pop("hung", "p 0", consumerGroup=f"g{len(seconds)}", subscriptionMode="all") is not None
        time.sleep(0.2)
    assert statistics.median(seconds) < 0.1 and max(seconds) < 2, "a push waits for the bucket"
    assert broker.sink_row("hung")["state"] == "upload"
    assert_all_shipped(broker, bucket, pushed, timeout=40)
    assert hang.met == 1


@on_both
def test_requests_carry_exactly_the_agreed_headers(make_broker, bucket, proxy):
    proxy.start()
    broker = make_broker(**settings_through(bucket, proxy, "plain")).start()
    pushed = Pushed("plain")
    pushed.some(broker, 5)
    assert_all_shipped(broker, bucket, pushed)
    always = {"host", "authorization", "x-amz-date", "x-amz-content-sha256"}
    for request in proxy.requests:
        names = {name.lower() for name in request.headers}
        wanted = always | ({"content-type", "content-md5", "content-length"} if request.method == "PUT" else set())
        assert wanted <= names <= wanted | {"accept", "user-agent", "content-length"}, (request.method, names)


def test_a_refused_put_stops_the_queue_with_the_reason_and_a_restart_ships(make_broker, bucket, proxy):
    refusal = Answer("PUT", DATA, 1, 403, "AccessDenied")
    proxy.order(refusal)
    proxy.start()
    broker = make_broker(**settings_through(bucket, proxy, "denied")).start()
    pushed = Pushed("denied")
    pushed.some(broker, 20)
    row = broker.wait_sink("denied", lambda row: row["state"] == "failed")
    for part in ("AccessDenied", "403", "s3:PutObject", "proxy-1"):
        assert part in row["lastError"]["message"]
    assert broker.post("/api/v1/push", {"items": [{"queue": "other", "payload": 1}]}).status_code == 201
    assert broker.terminate() == 0
    broker.start()
    broker.wait_sink("denied", lambda row: row["k"] >= 1)
    assert_lake_right(bucket.objects(), Place("denied", align="none"), pushed.records)


@on_both
def test_a_bucket_that_holds_windows_the_broker_forgot_is_not_overwritten(make_broker, bucket):
    broker = make_broker(**{**bucket.settings("forgot"), **FAST}).start()
    first, second = Pushed("forgot"), Pushed("forgot")
    first.some(broker, 10)
    broker.wait_sink("forgot", lambda row: row["records"] == 10)
    assert broker.terminate() == 0
    before = bucket.objects()
    shutil.rmtree(broker.directory)
    broker.start()
    second.some(broker, 10)
    row = broker.wait_sink("forgot", lambda row: row["state"] == "failed")
    for part in ("prefix queen", "QUEEN_S3_PREFIX", "data directory"):
        assert part in row["lastError"]["message"]
    assert bucket.objects() == before
    assert broker.terminate() == 0
    broker.start(QUEEN_S3_PREFIX="again")
    broker.wait_sink("forgot", lambda row: row["records"] == 10)
    assert_lake_right(bucket.objects(), Place("forgot", align="none"), first.records)
    assert_lake_right(bucket.objects(), Place("forgot", prefix="again", align="none"), second.records)


def test_a_commit_pointer_that_cannot_be_read_stops_the_queue(make_broker, bucket):
    broker = make_broker(**{**bucket.settings("torn"), **FAST}).start()
    pushed = Pushed("torn")
    pushed.some(broker, 5)
    broker.wait_sink("torn", lambda row: row["records"] == 5)
    assert broker.terminate() == 0
    broker.start(QUEEN_S3_EMBEDDED="false")
    key = "s3:default:torn:committed"
    put = {"op": "put", "ns": "queen-s3", "key": key, "value": {"k": "one"}, "forever": True}
    assert broker.post("/api/v1/kv", {"operations": [put]}).json()["results"][0]["applied"] is True
    assert broker.terminate() == 0
    before = bucket.objects()
    broker.start()
    row = broker.wait_sink("torn", lambda row: row["state"] == "failed")
    assert key in row["lastError"]["message"]
    assert bucket.objects() == before


SECRET = "not+the/secret-9f31c07a"


@pytest.mark.parametrize("change,parts", [
    ({"QUEEN_S3_SECRET_KEY": SECRET}, ["SignatureDoesNotMatch", "403", "QUEEN_S3_SECRET_KEY does not belong to QUEEN_S3_ACCESS_KEY"]),
    ({"QUEEN_S3_BUCKET": "no-such-lake"}, ["NoSuchBucket", "404", "QUEEN_S3_BUCKET=no-such-lake"]),
    ({"QUEEN_S3_ACCESS_KEY": "AKIANOBODY"}, ["403", "QUEEN_S3_ACCESS_KEY"]),
], ids=["secret", "bucket", "access-key"])
def test_a_wrong_setting_gets_a_sentence_that_names_it(make_broker, bucket, change, parts):
    broker = make_broker(**{**bucket.settings("wrong"), **FAST, "LOG_LEVEL": "debug", **change}).start()
    Pushed("wrong").some(broker, 3)
    sentence = wait_bucket(broker, False)["bucket"]["error"]
    for part in parts:
        assert part in sentence, sentence
    assert kv_rows(broker) == [] and bucket.keys() == []
    secret = change.get("QUEEN_S3_SECRET_KEY", bucket.about["secretKey"])
    assert broker.terminate() == 0
    assert secret not in sentence and secret not in broker.log()


def test_the_secret_is_in_no_status_and_no_log(make_broker, bucket):
    broker = make_broker(**{**bucket.settings("quiet"), **FAST, "LOG_LEVEL": "debug"}).start()
    pushed = Pushed("quiet")
    pushed.some(broker, 5)
    broker.wait_sink("quiet", lambda row: row["records"] == 5)
    status = broker.get("/status").text
    assert broker.terminate() == 0
    secret = bucket.about["secretKey"]
    assert secret not in status and secret not in broker.log()
    assert not any(secret.encode() in body for body in bucket.objects().values())
    assert "secret" not in json.loads(status)["s3"]["sinks"][0]
