"""Lease renewal (X-) and transactions (T-) against the contract, from outside."""

import datetime
import threading
import time
import uuid

import pytest
import requests

import qlog_file
import wire

TIMES = ("newExpiresAt", "expiresAt", "lease_expires_at")
NO_LEASE = "01b7c0df-1111-7222-8333-444455556666"


def extend(broker, lease, body=None, raw=None):
    data = raw if raw is not None else ("" if body is None else body)
    answer = broker.post(f"/api/v1/lease/{lease}/extend", data)
    assert answer.status_code == 200, answer.text
    row = answer.json()
    assert list(row) == ["leaseId", "success", "renewed", *TIMES] and row["leaseId"] == lease
    assert len({row[name] for name in TIMES}) == 1
    return row


def seconds_left(row):
    return datetime.datetime.fromisoformat(row["expiresAt"].replace("Z", "+00:00")).timestamp() - time.time()


# ---- lease renewal ----


def test_an_extension_never_shortens(broker, queue):
    """X-1: and it moves each partition of the pop."""
    broker.push([{"queue": queue, "partition": name, "payload": 1} for name in "abc"])
    lease = broker.pop(queue, partitions=3, leaseSeconds=100)["leaseId"]
    first = extend(broker, lease, {"seconds": 10})
    assert first["success"] is True and first["renewed"] == 3 and 90 < seconds_left(first) < 101
    assert 190 < seconds_left(extend(broker, lease, {"seconds": 200})) < 201


@pytest.mark.parametrize("body,least,most", [("", 55, 61), ("{}", 55, 61), ("{not json", 55, 61), ('{"seconds":0}', 0, 12),
                                             ('{"seconds":-5}', 0, 12)], ids=["none", "no-seconds", "unreadable", "zero", "negative"])
def test_what_an_extension_does_without_good_seconds(broker, queue, body, least, most):
    """6: 60 seconds; below 1 acts as 1."""
    wire.push(broker, queue, 1)
    lease = broker.pop(queue, leaseSeconds=10)["leaseId"]
    assert least < seconds_left(extend(broker, lease, raw=body)) < most


def test_the_earliest_new_expiry_is_told(broker, queue):
    """X-2: one of the partitions of the lease was acked, so two are left."""
    broker.push([{"queue": queue, "partition": name, "payload": 1} for name in "abc"])
    got = broker.pop(queue, partitions=3, leaseSeconds=30)
    wire.ack(broker, got["messages"][:1])
    row = extend(broker, got["leaseId"], {"seconds": 60})
    assert row["renewed"] == 2 and 55 < seconds_left(row) < 61


@pytest.mark.parametrize("how", ["unknown", "no-uuid", "expired", "released"])
def test_a_lease_that_is_gone_is_not_renewed(broker, queue, how):
    """X-3: an expired lease cannot be revived, also while nobody claimed its messages."""
    wire.push(broker, queue, 1)
    got = broker.pop(queue, leaseSeconds=1)
    lease = {"unknown": NO_LEASE, "no-uuid": "some-lease"}.get(how, got["leaseId"])
    if how == "expired":
        time.sleep(1.3)
    if how == "released":
        wire.ack(broker, got["messages"])
    row = extend(broker, lease, {"seconds": 60})
    assert row["success"] is False and row["renewed"] == 0 and row["expiresAt"] is None
    if how == "expired":
        assert wire.ack(broker, got["messages"])[0]["success"] is False


def test_an_extension_changes_no_cursor_counter_or_attempt(broker, queue):
    """X-4."""
    wire.configure(broker, queue, retryLimit=1)
    wire.push(broker, queue, "a", "b")
    wire.ack(broker, broker.pop(queue)["messages"], "failed")
    got = broker.pop(queue, leaseSeconds=1)
    assert wire.acked(wire.ack(broker, got["messages"][:1]))
    for _ in range(3):
        assert extend(broker, got["leaseId"], {"seconds": 2})["success"] is True
    time.sleep(1.2)
    assert wire.next_offset(broker, queue) == 1 and wire.nothing_deliverable(broker, queue)
    again = broker.pop(queue, wait="true", timeout=5000)
    assert [(message["data"], message["deliveryAttempt"]) for message in again["messages"]] == [("b", 3)]
    assert wire.ack(broker, again["messages"], "failed")[0]["dlq"] is True  # the one failure before was kept


def test_delivery_stops_before_a_message_that_cannot_be_read(make_broker):
    """L-11: a byte of the second message is changed on the disk of a running node; what follows is never delivered."""
    broker = make_broker().start()
    marks = [f"mark-{uuid.uuid4()}" for _ in range(3)]
    for mark in marks:
        wire.push(broker, "q", mark)
    places = [(path, at) for path in broker.directory.rglob("*.qlog") if (at := path.read_bytes().find(marks[1].encode())) >= 0]
    assert len(places) == 1, "the payload of one message is in one place"
    qlog_file.flip(*places[0])
    got = broker.pop("q", batch=10, leaseSeconds=1)
    assert wire.data_of(got) == marks[:1]
    assert wire.acked(wire.ack(broker, got["messages"]))
    assert broker.get("/api/v1/pop/queue/q", wait="true", timeout=3000).status_code == 500
    assert wire.next_offset(broker, "q") == 1


# ---- transactions ----


def popped(broker, queue, *payloads, **params):
    wire.push(broker, queue, *payloads)
    return broker.pop(queue, batch=100, **params)["messages"]


def test_a_rolled_back_transaction_leaves_no_trace(broker, queue, other):
    """T-1: no message, queue, partition or offset; the lease is as it was."""
    messages = popped(broker, queue, 1, 2)
    wire.push(broker, other, "before")
    answer = wire.transaction(broker, wire.push_operation(other, "x"), wire.push_operation(f"new-{queue}", "x"),
                              wire.ack_operation(messages[1]), wire.ack_operation(messages[0], transactionId="never"))
    assert answer["success"] is False and answer["reason"] == "rejected_ack" and answer["results"] == []
    assert wire.push(broker, other, "after")[0]["offset"] == 1
    assert f"new-{queue}" not in [row["name"] for row in broker.get("/api/v1/resources/queues").json()["queues"]]
    assert wire.next_offset(broker, queue) is None
    assert wire.acked(wire.ack(broker, messages))


def test_a_partition_under_a_transaction_is_told_apart_from_a_failure(broker, queue):
    """T-2: transactions and acks race for cursors; each holds or is told to come again, no message is lost or doubled."""
    for n in range(30):
        wire.push(broker, queue, n, partition=f"p{n}")
    messages = broker.pop(queue, partitions=64, batch=100)["messages"]
    seen: dict[str, list] = {"plain": [], "bundle": []}

    def settle(kind, call):
        for message in messages:
            seen[kind].append(call(message))

    def plain(message):
        while True:
            answer = requests.post(broker.url("/api/v1/ack"), timeout=30, json={
                "transactionId": message["transactionId"], "partitionId": message["partitionId"], "leaseId": message["leaseId"]})
            if answer.status_code != 503:
                return answer.json()[0]["success"]
            assert answer.json()["code"] == "retry" and answer.headers["Retry-After"] == "1"

    def bundle(message):
        body = {"operations": [wire.ack_operation(message), wire.push_operation(f"out-{queue}", message["data"])]}
        while True:
            answer = requests.post(broker.url("/api/v1/transaction"), timeout=30, json=body).json()
            if answer["success"] or answer["reason"] != "reserved":
                return answer["success"]

    threads = [threading.Thread(target=settle, args=("plain", plain)), threading.Thread(target=settle, args=("bundle", bundle))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # The same ack again is a success for a plain ack and a rollback for a transaction.
    assert seen["plain"] == [True] * 30
    out = broker.pop(f"out-{queue}", batch=100)
    assert len(wire.data_of(out)) == sum(seen["bundle"]) and wire.nothing_deliverable(broker, queue)


def test_pushes_of_a_transaction_are_pushes(broker, queue):
    """T-6: labels of a new queue, its defaults, dedup and one stamp after the last."""
    name = f"ns{queue}.task"
    assert wire.transaction(broker, wire.push_operation(name, 1, 2, ids=["a", "b"]))["success"] is True
    row = next(row for row in broker.get("/api/v1/resources/queues").json()["queues"] if row["name"] == name)
    assert (row["namespace"], row["task"], row["options"]["leaseTime"]) == (f"ns{queue}", "task", 60)
    again = wire.transaction(broker, wire.push_operation(name, 3, ids=["c"]), wire.push_operation(name, 1, ids=["a"]))
    assert again["success"] is False and again["reason"] == "duplicate"
    inside = wire.transaction(broker, wire.push_operation(name, 3, 4, ids=["c", "c"]))
    assert [row.get("duplicate", False) for row in inside["results"]] == [False, True]
    assert len({row["messageId"] for row in inside["results"]}) == 1
    records = broker.fetch_all(name, "p")
    assert [(record["offset"], record["payload"]) for record in records] == [(0, 1), (1, 2), (2, 3)]
    assert records[0]["ts"] == records[1]["ts"] < records[2]["ts"]


def test_readers_see_all_pushes_of_a_transaction_or_none(broker, queue):
    """T-7: two partitions, read by one fetch while transactions push a number to both."""
    stop, seen = threading.Event(), []
    wire.transaction(broker, wire.push_operation(queue, 0, partition="a"), wire.push_operation(queue, 0, partition="b"))

    def look():
        ask = {"entries": [{"queue": queue, "partition": name, "offset": 0} for name in "ab"]}
        while not stop.is_set():
            first, second = requests.post(broker.url("/api/v1/fetch"), json=ask, timeout=30).json()["entries"]
            seen.append((len(first["records"]), len(second["records"])))

    looking = threading.Thread(target=look)
    looking.start()
    for n in range(1, 60):
        wire.transaction(broker, wire.push_operation(queue, n, partition="a"), wire.push_operation(queue, n, partition="b"))
    stop.set()
    looking.join()
    assert len(seen) > 5, "the reads did not overlap the transactions"
    assert [pair for pair in seen if pair[0] != pair[1]] == []
    assert [record["payload"] for record in broker.fetch_all(queue, "b")] == list(range(60))


def test_a_pop_gets_all_pushes_of_a_transaction_or_none(broker, queue):
    """T-7: both partitions claimed by one pop, while transactions push a number to both."""
    got = []

    def take():
        params = {"partitions": 2, "batch": 1000, "commitOnDelivery": "true", "wait": "true", "timeout": 500}
        while sum(len(each) for each in got) < 120 and len(got) < 1000:
            answer = requests.get(broker.url(f"/api/v1/pop/queue/{queue}"), params=params, timeout=30)
            got.append([message["partition"] for message in answer.json()["messages"]] if answer.status_code == 200 else [])

    taking = threading.Thread(target=take)
    taking.start()
    for n in range(60):
        wire.transaction(broker, wire.push_operation(queue, n, partition="a"), wire.push_operation(queue, n, partition="b"))
    taking.join()
    assert sum(len(each) for each in got) == 120
    assert [each for each in got if each.count("a") != each.count("b")] == []


@pytest.mark.parametrize("body", [{"operations": [{"type": "kv"}]}, {"operations": [{"type": ""}]}, {"operations": [{}]},
                                  {"operations": {"a": 1}}, {"operations": "push"}, {"kv": 7}, {"positions": "x"}, {"timers": {}},
                                  {"operations": [7]}],
                         ids=["kv-type", "empty-type", "no-type", "object", "text", "kv", "positions", "timers", "number"])
def test_shapes_of_a_transaction_that_are_refused(broker, body):
    """7.1, 7.4: 400 with the reason, and nothing happens."""
    answer = broker.post("/api/v1/transaction", body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["reason"] == "bad_request" and answer.json()["success"] is False


@pytest.mark.parametrize("operation", [{"type": "push", "payload": 1}, {"type": "push", "queue": "q"},
                                       {"type": "ack", "transactionId": "t", "partitionId": "p-1"}],
                         ids=["no-queue", "no-payload", "partition"])
def test_parts_of_a_transaction_that_roll_it_back(broker, queue, operation):
    """7.4: 200, `bad_request`, with a good push beside it that is not stored."""
    answer = wire.transaction(broker, wire.push_operation(queue, 1), operation)
    assert answer["success"] is False and answer["reason"] == "bad_request" and answer["results"] == []
    assert wire.nothing_deliverable(broker, queue)


def test_a_body_that_is_no_json_answers_the_envelope(broker):
    """7.4 with the ruling."""
    answer = broker.post("/api/v1/transaction", "{not json")
    assert answer.status_code == 400 and answer.json()["code"] == "bad_body"


def test_a_position_moves_a_group_and_ends_its_lease(broker, queue):
    """7.1: the next offset to read, or forgotten by null; a group that nobody registered is registered."""
    wire.push(broker, queue, *range(5))
    wire.ack(broker, broker.pop(queue, batch=1, consumerGroup="g", subscriptionMode="all")["messages"], group="g")
    held = broker.pop(queue, consumerGroup="g")
    answer = wire.transaction(broker, positions=[{"queue": queue, "consumerGroup": "g", "partition": "p", "offset": 3}])
    assert answer["success"] is True and answer["results"] == [{"index": 0, "opIndex": 0, "type": "position", "success": True}]
    assert "lease" in wire.ack(broker, held["messages"], group="g")[0]["error"]
    assert wire.data_of(broker.pop(queue, consumerGroup="g")) == [3, 4]
    missing = wire.transaction(broker, positions=[{"queue": f"none-{queue}", "consumerGroup": "g", "offset": 0}])
    assert missing["success"] is False and missing["reason"] == "queue_not_found"
    assert wire.transaction(broker, positions=[{"queue": queue, "consumerGroup": "g", "partition": "p", "offset": None}])["success"] is True
    assert wire.next_offset(broker, queue, group="g") is None


def test_the_lease_of_the_bundle_fences_an_ack_without_one(broker, queue):
    """7.3: the one lease id that `requiredLeases` names."""
    wire.configure(broker, queue, leaseTime=1)
    message = popped(broker, queue, "m")[0]
    time.sleep(1.3)
    bare = wire.ack_operation(message, leaseId=None)
    fenced = wire.transaction(broker, bare, requiredLeases=[message["leaseId"]])
    assert fenced["success"] is False and fenced["reason"] == "rejected_ack"
    assert wire.transaction(broker, bare)["success"] is True
