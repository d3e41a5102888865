"""Consumer groups and lease renewal (api-messaging.md 6 and 9), over raw HTTP."""

import threading
import time
import uuid
from urllib.parse import quote

import requests

EPOCH = "1970-01-01T00:00:00Z"


def push(broker, queue, partition, *ids):
    return broker.push([{"queue": queue, "partition": partition, "payload": i, "transactionId": i} for i in ids])


def pop(broker, queue, group=None, partition=None, **params):
    """Everything there is, at once."""
    params = {"batch": 100, "partitions": 64, "subscriptionMode": "all", **params}
    if group:
        params["consumerGroup"] = group
    got = broker.pop(queue, partition, **params)
    return got if got else {"messages": []}


def ids(popped):
    return [m["transactionId"] for m in popped["messages"]]


def group_path(group, queue=None, partition=None, verb="seek"):
    path = f"/api/v1/consumer-groups/{quote(group, safe='')}"
    if queue is not None:
        path += f"/queues/{quote(queue, safe='')}"
    if partition is not None:
        path += f"/partitions/{quote(partition, safe='')}"
    return f"{path}/{verb}" if verb else path


def seek(broker, group, queue, body="", partition=None):
    return broker.post(group_path(group, queue, partition), body)


def delete(broker, group, queue=None, **params):
    return requests.delete(broker.url(group_path(group, queue, verb=None)), params=params, timeout=60)


def positions(broker, group, entries=None):
    answer = broker.post("/api/v1/consumer-groups/positions", {"consumerGroup": group, "entries": entries})
    assert answer.status_code == 200, answer.text
    return answer.json()["entries"]


def consume(broker, queue, group):
    got = pop(broker, queue, group)
    assert all(item["success"] for item in broker.ack_all(got, group))
    return ids(got)


def error(answer):
    return answer.status_code, answer.json().get("code")


def group_row(broker, group, queue):
    rows = broker.get("/api/v1/consumer-groups").json()
    return next((r for r in rows if (r["name"], r["queueName"]) == (group, queue)), None)


# ---- lease renewal ----


def test_one_renewal_prolongs_every_partition_of_a_pop(broker):
    """X-1, X-2, pop 9: three partitions leased by one pop, one call."""
    for partition in ("a", "b", "c"):
        push(broker, "q", partition, "1", "2")
    got = pop(broker, "q", leaseSeconds=3)
    assert len({m["partitionId"] for m in got["messages"]}) == 3
    renewed = broker.post(f"/api/v1/lease/{got['leaseId']}/extend", {"seconds": 45})
    body = renewed.json()
    assert renewed.status_code == 200
    assert (body["leaseId"], body["success"], body["renewed"]) == (got["leaseId"], True, 3)
    assert body["newExpiresAt"] == body["expiresAt"] == body["lease_expires_at"]
    time.sleep(3.3)
    assert pop(broker, "q")["messages"] == []
    assert all(item["success"] and item["error"] is None for item in broker.ack_all(got))


def test_a_renewal_never_shortens_and_defaults_to_a_minute(broker):
    """X-1, X-4 and section 6: body optional."""
    push(broker, "q", "p", "1")
    got = pop(broker, "q", leaseSeconds=10)
    path = f"/api/v1/lease/{got['leaseId']}/extend"
    first = broker.post(path, "").json()
    again = broker.post(path, {"seconds": 1}).json()
    assert first["success"] and again["renewed"] == 1
    assert again["newExpiresAt"] == first["newExpiresAt"]
    assert broker.post(path, "{not json").json()["newExpiresAt"] > first["newExpiresAt"]
    assert got["messages"][0]["deliveryAttempt"] == 1


def test_what_is_no_live_lease_is_not_renewed(broker):
    """X-3: unknown, released, expired; no expired lease comes back."""
    def nothing(lease):
        answer = broker.post(f"/api/v1/lease/{lease}/extend", {})
        body = answer.json()
        return answer.status_code == 200 and body == {"leaseId": lease, "success": False, "renewed": 0, "newExpiresAt": None,
                                                      "expiresAt": None, "lease_expires_at": None}

    push(broker, "q", "p", "1")
    assert nothing(str(uuid.uuid4()))
    assert nothing("nonsense")
    expired = pop(broker, "q", leaseSeconds=1)
    time.sleep(1.3)
    assert nothing(expired["leaseId"])
    got = pop(broker, "q")
    assert ids(got) == ["1"]
    broker.ack_all(got)
    assert nothing(got["leaseId"])


def test_a_renewed_lease_survives_a_crash(broker):
    """X-1, L-6, N-3."""
    push(broker, "q", "p", "1")
    got = pop(broker, "q", leaseSeconds=3)
    assert broker.post(f"/api/v1/lease/{got['leaseId']}/extend", {"seconds": 60}).json()["success"]
    broker.kill9()
    broker.start()
    time.sleep(3.2)
    assert pop(broker, "q")["messages"] == []
    assert broker.ack_all(got)[0]["success"]


# ---- seek ----


def test_a_seek_before_the_pushes_brings_everything_back(broker):
    """Re-consumption 1, G-1, G-3: no new push is needed."""
    for n in range(10):
        push(broker, "q", f"p{n}", f"m{n}")
    assert len(consume(broker, "q", "g")) == 10
    assert pop(broker, "q", "g")["messages"] == []
    answer = seek(broker, "g", "q", {"timestamp": "2020-01-01T00:00:00Z"})
    assert answer.json() == {"success": True, "consumerGroup": "g", "queueName": "q", "partitionName": None, "seekToEnd": False,
                             "targetTimestamp": "2020-01-01T00:00:00.000000Z", "partitionsUpdated": 10, "updated": True}
    assert sorted(ids(pop(broker, "q", "g"))) == [f"m{n}" for n in range(10)]


def test_a_seek_goes_to_the_first_message_that_is_late_enough(broker):
    """G-1, read to the millisecond."""
    for name in ("a", "b", "c"):
        push(broker, "q", "p", name)
        time.sleep(0.05)
    records = broker.fetch_all("q", "p")
    stamps = [r["ts"] for r in records]
    # Fractions of a millisecond are dropped, so the message of the stamp itself is found.
    for n, stamp in enumerate(stamps):
        assert seek(broker, "g", "q", {"timestamp": stamp}).status_code == 200
        assert positions(broker, "g", [{"queue": "q", "partition": "p"}])[0]["offset"] == (n or None)
    assert seek(broker, "g", "q", {"timestamp": "2200-01-01T00:00:00Z"}).status_code == 200
    assert positions(broker, "g", [{"queue": "q", "partition": "p"}])[0]["offset"] == 3


def test_a_seek_to_the_end_skips_the_backlog_and_nothing_later(broker):
    """G-1, G-2: also partitions that the group never read; an empty body means the end."""
    push(broker, "q", "p1", "a", "b")
    push(broker, "q", "p2", "c")
    answer = seek(broker, "g", "q")
    assert (answer.json()["seekToEnd"], answer.json()["targetTimestamp"], answer.json()["partitionsUpdated"]) == (True, None, 2)
    assert pop(broker, "q", "g")["messages"] == []
    push(broker, "q", "p1", "d")
    push(broker, "q", "p3", "e")
    assert sorted(ids(pop(broker, "q", "g"))) == ["d", "e"]


def test_a_seek_of_one_partition_leaves_the_others(broker):
    """9.2, the partition route; names are percent-decoded."""
    push(broker, "q", "a/b", "1", "2")
    push(broker, "q", "other", "3")
    assert len(consume(broker, "q", "g")) == 3
    answer = seek(broker, "g", "q", {"timestamp": EPOCH}, partition="a/b").json()
    assert (answer["partitionName"], answer["partitionsUpdated"]) == ("a/b", 1)
    assert ids(pop(broker, "q", "g")) == ["1", "2"]


def test_a_seek_ends_leases_and_their_acks_fail(broker):
    """G-3, L-3."""
    push(broker, "q", "p", "1", "2")
    got = pop(broker, "q", "g")
    assert seek(broker, "g", "q", {"timestamp": EPOCH}).status_code == 200
    late = broker.ack_all(got, "g")
    assert [(i["success"], i["error"]) for i in late] == [(False, "invalid or expired lease")] * 2
    again = pop(broker, "q", "g")
    assert ids(again) == ["1", "2"]
    # Other groups' leases are their own.
    other = pop(broker, "q", "other")
    assert seek(broker, "g", "q", {"toEnd": True}).status_code == 200
    assert all(i["success"] for i in broker.ack_all(other, "other"))


def test_a_seek_wakes_a_parked_pop(broker):
    """W-4."""
    for n in range(5):
        push(broker, "q", f"p{n}", f"m{n}")
    consume(broker, "q", "g")
    got = {}

    def park():
        session = requests.Session()
        answer = session.get(broker.url("/api/v1/pop/queue/q"), timeout=60,
                             params={"consumerGroup": "g", "wait": "true", "timeout": 20000, "batch": 100, "partitions": 64})
        got.update(answer.json() if answer.status_code == 200 else {}, took=time.monotonic() - began)

    began = time.monotonic()
    waiting = threading.Thread(target=park)
    waiting.start()
    time.sleep(0.5)
    assert seek(broker, "g", "q", {"timestamp": EPOCH}).status_code == 200
    waiting.join()
    assert got["took"] < 5
    assert len(got["messages"]) == 5


def test_a_seek_is_idempotent_and_survives_a_crash(broker):
    """G-4, N-3."""
    push(broker, "q", "p", "1", "2", "3")
    consume(broker, "q", "g")
    first = seek(broker, "g", "q", {"timestamp": EPOCH}).text
    assert seek(broker, "g", "q", {"timestamp": EPOCH}).text == first
    broker.kill9()
    broker.start()
    assert ids(pop(broker, "q", "g")) == ["1", "2", "3"]


def test_a_seek_moves_thousands_of_partitions(broker):
    """G-2 in steps."""
    for n in range(0, 2500, 500):
        broker.push([{"queue": "q", "partition": f"p{i}", "payload": i} for i in range(n, n + 500)])
    answer = seek(broker, "g", "q", {"toEnd": True})
    assert answer.json()["partitionsUpdated"] == 2500
    assert pop(broker, "q", "g")["messages"] == []
    assert group_row(broker, "g", "q")["members"] == 2500
    assert seek(broker, "g", "q", {"timestamp": EPOCH}).json()["partitionsUpdated"] == 2500
    assert group_row(broker, "g", "q")["totalLag"] == 2500
    assert len(pop(broker, "q", "g", batch=1000)["messages"]) == 64


def test_seek_refusals(broker):
    """9.2, the table."""
    push(broker, "q", "p", "1")
    for body in ({}, {"toEnd": False}, {"timestamp": "soon"}, {"timestamp": 7}):
        answer = seek(broker, "g", "q", body)
        assert (answer.status_code, answer.json()) == (400, {"success": False, "error": "Must specify toEnd=true or a timestamp"})
    assert error(seek(broker, "g", "q", "{nope")) == (400, "bad_body")
    broker.post("/api/v1/configure", {"queue": "empty"})
    for queue, partition in (("none", None), ("empty", None), ("q", "none"), ("none", "p")):
        answer = seek(broker, "g", queue, {"toEnd": True}, partition=partition)
        body = answer.json()
        assert answer.status_code == 404
        assert (body["success"], body["consumerGroup"], body["queueName"], body["partitionsUpdated"]) == (False, "g", queue, 0)
    assert error(seek(broker, "g", "q" * 412)) == (413, "name_too_long")
    assert broker.get("/api/v1/consumer-groups").json() == []


def test_a_seek_finds_messages_whose_rows_left_ram(make_broker):
    """G-1 with RT-10: the log knows the time of what has no row any more; so does the age in the lists."""
    broker = make_broker(QUEEN_RAFT_TXN_WINDOW_MIN_S="1", RETENTION_INTERVAL="200").start()
    broker.post("/api/v1/configure", {"queue": "q", "options": {"dedupWindowSeconds": 1}})
    for n in range(6):
        push(broker, "q", "p", f"m{n}")
        time.sleep(0.1)
    stamps = [r["ts"] for r in broker.fetch_all("q", "p")]
    time.sleep(3)
    for n in (4, 2):
        assert seek(broker, "g", "q", {"timestamp": stamps[n]}).json()["partitionsUpdated"] == 1
        assert positions(broker, "g", [{"queue": "q", "partition": "p"}])[0]["offset"] == n
    lagging = broker.get("/api/v1/consumer-groups/lagging", minLagSeconds=1).json()
    assert [(r["offset_lag"], r["oldest_unconsumed_at"]) for r in lagging] == [(4, stamps[2][:-4] + "Z")]
    assert ids(pop(broker, "q", "g")) == ["m2", "m3", "m4", "m5"]


# ---- deletion ----


def test_a_deleted_group_reads_everything_again(broker):
    """Re-consumption 2 and 3, G-6."""
    for n in range(10):
        push(broker, "q", f"p{n}", f"m{n}")
    for queue in (None, "q"):
        assert len(consume(broker, "q", "g")) == 10
        assert pop(broker, "q", "g")["messages"] == []
        answer = delete(broker, "g", queue, deleteMetadata="true")
        assert (answer.status_code, answer.json()) == (200, {"success": True, "consumerGroup": "g", "queueName": queue,
                                                             "deletedPartitions": 10, "metadataDeleted": True, "queues": ["q"]})
        assert group_row(broker, "g", "q") is None
    assert len(pop(broker, "q", "g")["messages"]) == 10


def test_deleting_a_group_ends_its_leases_and_keeps_the_rest(broker):
    """G-6, L-3: on every queue; messages, dead letters and other groups stay."""
    for queue in ("q1", "q2", "q3"):
        push(broker, queue, "p", "1", "2")
    got = pop(broker, "q1", "g")
    dead = {"transactionId": "1", "partitionId": got["messages"][0]["partitionId"], "leaseId": got["leaseId"], "status": "dlq"}
    assert broker.post("/api/v1/ack", {**dead, "consumerGroup": "g"}).json()[0]["dlq"] is True
    held = pop(broker, "q2", "g")
    consume(broker, "q1", "other")
    answer = delete(broker, "g").json()
    assert (answer["deletedPartitions"], answer["queueName"], answer["queues"]) == (2, None, ["q1", "q2"])
    assert broker.ack_all(held, "g")[0]["error"] == "invalid or expired lease"
    rows = broker.get("/api/v1/consumer-groups").json()
    assert [(r["name"], r["queueName"]) for r in rows] == [("other", "q1")]
    queue = next(r for r in broker.get("/api/v1/resources/queues").json()["queues"] if r["name"] == "q1")
    assert queue["messages"]["deadLetter"] == 1
    assert ids(pop(broker, "q1", "g")) == ["1", "2"]


def test_a_kept_registration_starts_by_its_policy(broker):
    """G-6 with deleteMetadata=false; other words than exactly `false` delete it."""
    push(broker, "q", "p", "old")
    assert pop(broker, "q", "g", subscriptionMode="new")["messages"] == []
    push(broker, "q", "p", "new")
    assert consume(broker, "q", "g") == ["new"]
    answer = delete(broker, "g", "q", deleteMetadata="false").json()
    assert (answer["deletedPartitions"], answer["metadataDeleted"]) == (1, False)
    assert ids(pop(broker, "q", "g", subscriptionMode="all")) == ["new"]
    assert delete(broker, "g", "q", deleteMetadata="False").json()["metadataDeleted"] is True
    assert ids(pop(broker, "q", "g", subscriptionMode="all")) == ["old", "new"]


def test_deleting_nothing_is_no_error(broker):
    """9.4."""
    push(broker, "q", "p", "1")
    for queue in (None, "q", "nowhere"):
        answer = delete(broker, "nobody", queue)
        assert answer.status_code == 200
        assert (answer.json()["deletedPartitions"], answer.json()["queues"]) == (0, [])
    answer = requests.delete(broker.url(f"/api/v1/consumer-groups/{'g' * 412}"), timeout=60)
    assert error(answer) == (413, "name_too_long")


def test_queue_mode_is_a_group_like_any(broker):
    """9: `__QUEUE_MODE__` is addressable."""
    push(broker, "q", "p", "1")
    broker.ack_all(pop(broker, "q"))
    assert positions(broker, "__QUEUE_MODE__") == [{"queue": "q", "partition": "p", "offset": 1, "metadata": ""}]
    assert seek(broker, "__QUEUE_MODE__", "q", {"timestamp": EPOCH}).status_code == 200
    assert ids(pop(broker, "q")) == ["1"]
    assert delete(broker, "__QUEUE_MODE__").json()["deletedPartitions"] == 1
    assert ids(pop(broker, "q")) == ["1"]


# ---- subscription ----


def subscribe(broker, group, timestamp):
    return broker.post(group_path(group, verb="subscription"), {"subscriptionTimestamp": timestamp})


def test_a_subscription_decides_where_unread_partitions_start(broker):
    """G-5: cursors stay where they are."""
    push(broker, "q", "read", "1")
    push(broker, "q", "unread", "2")
    assert ids(pop(broker, "q", "g", partition="read")) == ["1"]
    assert pop(broker, "q", "g", subscriptionMode="new")["messages"] == []
    answer = subscribe(broker, "g", EPOCH)
    assert (answer.status_code, answer.json()) == (200, {"success": True, "consumerGroup": "g", "newTimestamp": EPOCH, "rowsUpdated": 1})
    assert ids(pop(broker, "q", "g")) == ["2"]
    row = group_row(broker, "g", "q")
    assert (row["subscriptionMode"], row["subscriptionTimestamp"]) == ("timestamp", "1970-01-01T00:00:00.000000Z")


def test_a_subscription_wakes_a_parked_pop(broker):
    """W-4 with G-5."""
    push(broker, "q", "p", "1")
    assert pop(broker, "q", "g", subscriptionMode="new")["messages"] == []
    got = []
    waiting = threading.Thread(target=lambda: got.append(requests.get(
        broker.url("/api/v1/pop/queue/q"), params={"consumerGroup": "g", "wait": "true", "timeout": 20000}, timeout=60)))
    waiting.start()
    time.sleep(0.5)
    began = time.monotonic()
    assert subscribe(broker, "g", EPOCH).json()["rowsUpdated"] == 1
    waiting.join()
    assert time.monotonic() - began < 5
    assert ids(got[0].json()) == ["1"]


def test_a_subscription_counts_registrations_and_wants_a_timestamp(broker):
    """9.3."""
    for queue in ("a", "b"):
        pop(broker, queue, "g")
    assert subscribe(broker, "g", "2031-04-05T06:07:08+02:00").json()["rowsUpdated"] == 2
    assert subscribe(broker, "nobody", EPOCH).json()["rowsUpdated"] == 0
    for body in ("", {}, {"subscriptionTimestamp": None}, {"subscriptionTimestamp": "soon"}):
        assert error(broker.post(group_path("g", verb="subscription"), body)) == (400, "bad_request")


# ---- positions and lists ----


def test_positions_answer_what_was_asked_in_order(broker):
    """9.1: null where there is no position, partition or queue."""
    push(broker, "q", "Default", "1", "2")
    push(broker, "q", "other", "3")
    consume(broker, "q", "g")
    assert positions(broker, "g", [{"queue": "q", "partition": "other"}, {"queue": "none"}, {"queue": "q"},
                                   {"queue": "q", "partition": "none"}]) == [
        {"queue": "q", "partition": "other", "offset": 1, "metadata": ""},
        {"queue": "none", "partition": "Default", "offset": None},
        {"queue": "q", "partition": "Default", "offset": 2, "metadata": ""},
        {"queue": "q", "partition": "none", "offset": None}]
    assert positions(broker, "g") == [{"queue": "q", "partition": "Default", "offset": 2, "metadata": ""},
                                      {"queue": "q", "partition": "other", "offset": 1, "metadata": ""}]
    assert positions(broker, "g", []) == []
    assert positions(broker, "nobody", [{"queue": "q"}])[0]["offset"] is None
    for body in ({}, {"consumerGroup": ""}, {"consumerGroup": "g", "entries": 7}, {"consumerGroup": "g", "entries": [{}]}):
        assert error(broker.post("/api/v1/consumer-groups/positions", body)) == (400, "bad_request")
    assert error(broker.post("/api/v1/consumer-groups/positions", "[")) == (400, "bad_body")


def test_positions_see_every_acknowledged_write(broker):
    """9.1, N-4: read after each ack, while others write."""
    stop = threading.Event()

    def load(number):
        session = requests.Session()
        while not stop.is_set():
            session.post(broker.url("/api/v1/push"), json={"items": [{"queue": f"noise{number}", "payload": "x" * 2000}] * 50}, timeout=60)

    threads = [threading.Thread(target=load, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    try:
        for n in range(60):
            push(broker, "q", "p", f"m{n}")
            assert consume(broker, "q", "g") == [f"m{n}"]
            assert positions(broker, "g", [{"queue": "q", "partition": "p"}])[0]["offset"] == n + 1
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_the_list_counts_cursors_and_lag(broker):
    """9.1, HD-37."""
    push(broker, "q1", "a", "1", "2", "3")
    push(broker, "q1", "b", "4")
    push(broker, "q2", "a", "5")
    got = pop(broker, "q1", "g")
    part_a = [m for m in got["messages"] if m["partition"] == "a"]
    assert broker.ack_all({"messages": part_a[:1]}, "g")[0]["success"]
    consume(broker, "q2", "g")
    consume(broker, "q2", "another")
    rows = broker.get("/api/v1/consumer-groups").json()
    assert [(r["name"], r["queueName"], r["members"], r["partitionsWithLag"], r["totalLag"], r["state"]) for r in rows] == [
        ("another", "q2", 1, 0, 0, "Stable"), ("g", "q1", 2, 2, 3, "Stable"), ("g", "q2", 1, 0, 0, "Stable")]
    first = rows[1]
    assert first["topics"] == ["q1"] and first["partitionCursors"] == 2 and first["kind"] == "queen" and first["storage"] == "segments"
    assert (first["subscriptionMode"], first["subscriptionTimestamp"]) == ("all", "1970-01-01T00:00:00.000000Z")
    assert first["subscriptionCreatedAt"] > "2020" and first["conflation"] is False
    broker.ack_all({"messages": part_a[1:] + [m for m in got["messages"] if m["partition"] == "b"]}, "g")
    row = group_row(broker, "g", "q1")
    assert (row["totalLag"], row["maxTimeLag"], row["partitionsWithLag"]) == (0, 0, 0)


def test_lag_is_nought_after_every_way_to_the_end(broker):
    """HD-37: expiry, nack, seek, a restart."""
    push(broker, "q", "p", "1", "2")
    pop(broker, "q", "g", leaseSeconds=1)
    time.sleep(1.2)
    nacked = pop(broker, "q", "g")
    broker.ack_all(nacked, "g", "retry")
    consume(broker, "q", "g")
    seek(broker, "g", "q", {"timestamp": EPOCH})
    assert group_row(broker, "g", "q")["totalLag"] == 2
    seek(broker, "g", "q", {"toEnd": True})
    for _ in range(2):
        assert group_row(broker, "g", "q")["totalLag"] == 0
        queue = broker.get("/api/v1/resources/queues").json()["queues"][0]["messages"]
        assert (queue["pending"], queue["processing"]) == (0, 0)
        broker.kill9()
        broker.start()


def test_a_group_shows_its_partitions_and_leases(broker):
    """9.1."""
    assert broker.get("/api/v1/consumer-groups/g").json() == {"error": "Consumer group not found"}
    assert broker.get("/api/v1/consumer-groups/g").status_code == 404
    push(broker, "q", "a", "1", "2")
    push(broker, "q", "b", "3")
    assert ids(pop(broker, "q", "g", partition="a")) == ["1", "2"]
    broker.ack_all(pop(broker, "q", "g", partition="b"), "g")
    shown = broker.get("/api/v1/consumer-groups/g").json()
    assert shown["q"]["conflation"] is False and shown["q"]["kind"] == "queen"
    by_name = {p["partition"]: p for p in shown["q"]["partitions"]}
    assert by_name["a"]["leaseActive"] is True and uuid.UUID(by_name["a"]["workerId"])
    assert (by_name["a"]["offsetLag"], by_name["a"]["totalConsumed"]) == (2, 0)
    assert by_name["b"] == {"partition": "b", "workerId": None, "lastConsumedAt": None, "totalConsumed": 1, "offsetLag": 0,
                            "timeLagSeconds": 0, "leaseActive": False}


def test_lagging_cursors_are_listed_from_the_oldest(broker):
    """9.1: only what lags more than the minimum, queue mode included."""
    for queue, group in (("q1", "g"), ("q2", None)):
        push(broker, queue, "p", "1", "2")
        pop(broker, queue, group)
        time.sleep(1.1)
    rows = broker.get("/api/v1/consumer-groups/lagging", minLagSeconds=1).json()
    assert [(r["consumer_group"], r["queue_name"], r["offset_lag"]) for r in rows] == [("g", "q1", 2), ("__QUEUE_MODE__", "q2", 2)]
    first = rows[0]
    assert uuid.UUID(first["partition_id"]) and uuid.UUID(first["worker_id"])
    assert (first["partition_name"], first["kind"], first["last_consumed_at"], first["lag_hours"]) == ("p", "queen", None, 0.0)
    assert first["time_lag_seconds"] >= 2
    stamp = broker.fetch_all("q1", "p")[0]["ts"]
    assert first["oldest_unconsumed_at"] == stamp[:-4] + "Z"
    assert broker.get("/api/v1/consumer-groups/lagging").json() == []
    refused = broker.get("/api/v1/consumer-groups/lagging", minLagSeconds="soon")
    assert refused.status_code == 400


def test_groups_of_another_tenant_do_not_exist(make_broker):
    """1.2."""
    broker = make_broker(QUEEN_TENANCY_HEADER="true", QUEEN_KV_TRUSTED_PROXY="1").start()
    push(broker, "q", "p", "1")
    got = pop(broker, "q", "g")
    broker.session.headers["x-queen-tenant"] = str(uuid.uuid4())
    assert broker.post(f"/api/v1/lease/{got['leaseId']}/extend", {}).json()["renewed"] == 0
    assert broker.get("/api/v1/consumer-groups").json() == []
    assert broker.get("/api/v1/consumer-groups/g").status_code == 404
    assert broker.get("/api/v1/consumer-groups/lagging", minLagSeconds=-1).json() == []
    assert seek(broker, "g", "q", {"toEnd": True}).status_code == 404
    assert positions(broker, "g", [{"queue": "q", "partition": "p"}])[0]["offset"] is None
    del broker.session.headers["x-queen-tenant"]
    assert broker.ack_all(got, "g")[0]["success"]


def test_a_position_of_a_transaction_shows_its_metadata_until_it_is_moved(broker):
    """9.1 with 7.1: a seek is a new position, without a note; an ack moves the one there is."""
    def commit(**position):
        answer = broker.post("/api/v1/transaction", {"positions": [{"queue": "q", "consumerGroup": "g", "partition": "p", **position}]})
        assert answer.status_code == 200 and answer.json()["success"] is True, answer.text
        return positions(broker, "g", [{"queue": "q", "partition": "p"}])[0]

    push(broker, "q", "p", "1", "2", "3")
    entry = {"queue": "q", "partition": "p"}
    assert commit(offset=2, metadata="at noon") == {**entry, "offset": 2, "metadata": "at noon"}
    assert positions(broker, "g") == [{**entry, "offset": 2, "metadata": "at noon"}]
    assert consume(broker, "q", "g") == ["3"]
    assert positions(broker, "g", [entry])[0]["offset"] == 3
    assert commit(offset=2, metadata="again")["metadata"] == "again"
    assert seek(broker, "g", "q", {"toEnd": True}).status_code == 200
    assert positions(broker, "g", [entry]) == [{**entry, "offset": 3, "metadata": ""}]
    # Beyond the end: nothing is behind the cursor.
    assert commit(offset=7)["offset"] == 7
    assert group_row(broker, "g", "q")["totalLag"] == 0
    assert commit(offset=0) == {**entry, "offset": None}
    assert group_row(broker, "g", "q")["totalLag"] == 3
    assert commit(offset=None) == {**entry, "offset": None}
    assert group_row(broker, "g", "q") is None
