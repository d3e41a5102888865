"""Retention over HTTP against a real process: what goes, when, and what is still known of it (storage.md 17)."""

import time

QUICK = {"RETENTION_INTERVAL": "50"}


def configure(broker, queue="q", **options):
    answer = broker.post("/api/v1/configure", {"queue": queue, "options": options})
    assert answer.status_code in (200, 201), answer.text


def row(broker, queue="q"):
    return next(each for each in broker.get("/api/v1/resources/queues").json()["queues"] if each["name"] == queue)


def push(broker, *ids, queue="q"):
    return broker.push([{"queue": queue, "partition": "p", "transactionId": one, "payload": {"id": one}} for one in ids])


def bounds(broker, offset=0, queue="q"):
    return broker.post("/api/v1/fetch", {"entries": [{"queue": queue, "partition": "p", "offset": offset}]}).json()["entries"][0]


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


# RT-1, RT-2, B24
def test_retention_takes_the_payload_and_dedup_keeps_the_id(make_broker):
    broker = make_broker(**QUICK).start()
    configure(broker, retentionEnabled=True, retentionSeconds=1)
    push(broker, "a", "b")
    until(lambda: bounds(broker)["logStartOffset"] == 2)
    entry = bounds(broker)
    assert entry["error"] == "OFFSET_OUT_OF_RANGE" and entry["records"] == []
    assert broker.pop("q", subscriptionMode="all", consumerGroup="g") is None
    again = push(broker, "a")[0]
    assert again["status"] == "duplicate" and again["offset"] == 0
    broker.terminate()
    broker.start()
    assert push(broker, "b")[0]["status"] == "duplicate"
    assert push(broker, "c")[0]["offset"] == 2


# 17.2: completed
def test_completed_retention_waits_for_every_group(make_broker):
    broker = make_broker(**QUICK).start()
    configure(broker, retentionEnabled=True, completedRetentionSeconds=1)
    push(broker, "a", "b", "c")
    time.sleep(2)
    assert bounds(broker)["logStartOffset"] == 0  # no group: nothing is completed
    first = broker.pop("q", subscriptionMode="all", consumerGroup="one")
    broker.pop("q", subscriptionMode="all", consumerGroup="two", batch=1)
    broker.ack_all(first, group="one")
    time.sleep(1)
    assert bounds(broker)["logStartOffset"] == 0  # group two has finished nothing
    lone = make_broker("other", **QUICK).start()
    configure(lone, retentionEnabled=True, completedRetentionSeconds=1)
    push(lone, "a", "b", "c")
    lone.ack_all(lone.pop("q", subscriptionMode="all", consumerGroup="one"), group="one")
    until(lambda: bounds(lone)["logStartOffset"] == 3)


# 17.2: wait, whatever retentionEnabled says
def test_max_wait_time_takes_messages_without_retention_enabled(make_broker):
    broker = make_broker(**QUICK).start()
    configure(broker, maxWaitTimeSeconds=1)
    push(broker, "a")
    until(lambda: bounds(broker)["logStartOffset"] == 1)


# 8.2: counters of a watermark
def test_the_queues_figures_fall(make_broker):
    broker = make_broker(**QUICK).start()
    push(broker, *[str(i) for i in range(50)])
    before = row(broker)
    assert before["retainedBytes"] > 0
    configure(broker, retentionEnabled=True, retentionSeconds=1)
    until(lambda: bounds(broker)["logStartOffset"] == 50)
    after = row(broker)
    assert after["retainedBytes"] == 0
    assert after["messages"]["total"] == 0 and after["messages"]["pending"] == 0


# RT-9, RT-10, CE-8: rows leave RAM after a window of a second; their messages are served all the same
def test_messages_whose_rows_left_are_delivered_and_acked(make_broker):
    broker = make_broker(**QUICK, QUEEN_RAFT_TXN_WINDOW_MIN_S="1").start()
    configure(broker, dedupWindowSeconds=1)
    for i in range(20):
        push(broker, str(i))
    time.sleep(2.5)
    assert push(broker, "0")[0]["status"] == "queued"  # the window is over
    got = broker.pop("q", subscriptionMode="all", consumerGroup="g", batch=30)
    assert [each["transactionId"] for each in got["messages"]] == [str(i) for i in range(20)] + ["0"]
    assert all(item["success"] for item in broker.ack_all(got, group="g"))
    assert broker.pop("q", consumerGroup="g") is None
    again = broker.post("/api/v1/ack", {"transactionId": "7", "partitionId": got["partitionId"], "consumerGroup": "g"}).json()
    assert again[0]["success"] and again[0]["noop"]
