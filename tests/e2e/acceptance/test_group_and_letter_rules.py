"""Seeks, subscriptions and deletes of groups (G-), statuses of messages (M-), dead letters (D-), reads by offset, from outside."""

import threading
import time
import uuid

import pytest
import requests

import wire

ALL = {"consumerGroup": "g", "subscriptionMode": "all"}


def finish(broker, queue, group="g", **params):
    """Pops and acks all there is for the group."""
    got = []
    while (popped := broker.pop(queue, batch=100, partitions=64, consumerGroup=group, subscriptionMode="all", **params)) is not None:
        assert wire.acked(wire.ack(broker, popped["messages"], group=group))
        got += wire.data_of(popped)
    return got


def stamps(broker, queue):
    return [record["ts"] for record in broker.fetch_all(queue, "p")]


def three_appends(broker, queue):
    for n in range(3):
        wire.push(broker, queue, n)
        time.sleep(0.02)
    return stamps(broker, queue)


# ---- groups ----


def test_a_seek_goes_to_the_first_message_at_or_after_the_time(broker, queue):
    """G-1: read to the millisecond, so the stamp of the second finds the second; a late time is the end."""
    instants = three_appends(broker, queue)
    assert finish(broker, queue) == [0, 1, 2]
    answer = wire.seek(broker, "g", queue, timestamp=instants[1])
    assert answer["seekToEnd"] is False and answer["partitionsUpdated"] == 1 and answer["updated"] is True
    assert finish(broker, queue) == [1, 2]
    wire.seek(broker, "g", queue, timestamp="1970-01-01T00:00:00Z")
    assert finish(broker, queue) == [0, 1, 2]
    wire.seek(broker, "g", queue, timestamp="1970-01-01T00:00:00Z")
    wire.seek(broker, "g", queue, timestamp="2999-01-01T00:00:00Z")
    assert finish(broker, queue) == []


def test_a_seek_never_goes_below_the_log_start(make_broker):
    """G-1."""
    broker = make_broker(RETENTION_INTERVAL="50").start()
    wire.configure(broker, "q", retentionEnabled=True, retentionSeconds=1)
    wire.push(broker, "q", 0, 1)
    wire.until(lambda: wire.bounds(broker, "q") == (2, 2))
    wire.push(broker, "q", 2)
    wire.seek(broker, "g", "q", timestamp="1970-01-01T00:00:00Z")
    assert wire.next_offset(broker, "q", group="g") == 2


def test_a_seek_gives_a_cursor_in_partitions_never_read(broker, queue):
    """G-2: an empty body means the end; a later partition follows the subscription."""
    broker.push([{"queue": queue, "partition": name, "payload": name} for name in "ab"])
    wire.ack(broker, broker.pop(queue, "a", **ALL)["messages"], group="g")
    answer = broker.post(f"/api/v1/consumer-groups/g/queues/{queue}/seek", "")
    assert answer.status_code == 200 and answer.json()["partitionsUpdated"] == 2 and answer.json()["seekToEnd"] is True
    assert [wire.next_offset(broker, queue, name, "g") for name in "ab"] == [1, 1]
    wire.push(broker, queue, "c", partition="c")
    assert finish(broker, queue) == ["c"]


def test_a_seek_ends_leases_and_wakes(broker, queue):
    """G-3, W-4: the holder's ack fails; a parked pop gets what the seek made available."""
    wire.push(broker, queue, 1, 2)
    held = broker.pop(queue, **ALL)["messages"]
    got = []
    waiting = threading.Thread(target=lambda: got.append(requests.get(
        broker.url(f"/api/v1/pop/queue/{queue}"), params={**ALL, "wait": "true", "timeout": 20000}, timeout=60).json()))
    waiting.start()
    time.sleep(0.3)
    started = time.monotonic()
    wire.seek(broker, "g", queue, timestamp="1970-01-01T00:00:00Z")
    waiting.join()
    assert wire.data_of(got[0]) == [1, 2] and time.monotonic() - started < 2
    assert "invalid or expired lease" in wire.ack(broker, held, group="g")[0]["error"]


def test_a_seek_may_be_sent_again_and_is_kept(make_broker):
    """G-4, N-3: over kill -9."""
    broker = make_broker().start()
    three_appends(broker, "q")
    finish(broker, "q")
    for _ in range(2):
        assert wire.seek(broker, "g", "q", timestamp="1970-01-01T00:00:00Z")["partitionsUpdated"] == 1
    broker.kill9()
    broker.start()
    assert finish(broker, "q") == [0, 1, 2]


@pytest.mark.parametrize("body", [{"toEnd": False}, {"timestamp": "soon"}, {"timestamp": 7}, {"toEnd": "yes"}],
                         ids=["false", "word", "number", "text"])
def test_seeks_that_say_no_place_are_refused(broker, queue, body):
    """9.2."""
    wire.push(broker, queue, 1)
    answer = broker.post(f"/api/v1/consumer-groups/g/queues/{queue}/seek", body)
    assert answer.status_code == 400, answer.text


def test_a_seek_on_nothing_is_404(broker, queue):
    """9.2: no queue, no partition of the name."""
    for path in (f"queues/none-{queue}/seek", f"queues/none-{queue}/partitions/p/seek"):
        answer = broker.post(f"/api/v1/consumer-groups/g/{path}", {"toEnd": True})
        assert answer.status_code == 404 and answer.json()["success"] is False and answer.json()["partitionsUpdated"] == 0
    wire.push(broker, queue, 1)
    assert broker.post(f"/api/v1/consumer-groups/g/queues/{queue}/partitions/none/seek", {"toEnd": True}).status_code == 404


def test_a_new_subscription_decides_where_there_is_no_cursor(broker, queue):
    """G-5."""
    three_appends(broker, queue)
    group = f"g-{queue}"
    assert broker.pop(queue, consumerGroup=group, subscriptionMode="new") is None
    path = f"/api/v1/consumer-groups/{group}/subscription"
    for bad in ({}, {"subscriptionTimestamp": "soon"}):
        answer = broker.post(path, bad)
        assert answer.status_code == 400 and answer.json()["code"] == "bad_request"
    wire.push(broker, queue, "late", partition="later")
    answer = broker.post(path, {"subscriptionTimestamp": "2999-01-01T00:00:00Z"})
    assert answer.json() == {"success": True, "consumerGroup": group, "newTimestamp": "2999-01-01T00:00:00Z", "rowsUpdated": 1}
    assert broker.pop(queue, consumerGroup=group, partitions=64) is None
    broker.post(path, {"subscriptionTimestamp": "1970-01-01T00:00:00Z"})
    wire.push(broker, queue, "next", partition="third")
    assert "next" in wire.data_of(broker.pop(queue, consumerGroup=group, partitions=64))


@pytest.mark.parametrize("keep", [True, False])
def test_a_deleted_group_begins_by_its_kept_subscription_or_anew(broker, queue, keep):
    """G-6: kept, the mode `new` holds; removed, the next pop's mode `all` does. Messages stay."""
    group = f"g-{queue}"
    assert broker.pop(queue, consumerGroup=group, subscriptionMode="new") is None
    wire.push(broker, queue, 1, 2)
    popped = broker.pop(queue, consumerGroup=group)
    assert wire.data_of(popped) == [1, 2]
    wire.push(broker, queue, 3)
    params = {"deleteMetadata": "false"} if keep else {}
    answer = broker.session.delete(broker.url(f"/api/v1/consumer-groups/{group}"), params=params).json()
    assert answer["deletedPartitions"] == 1 and answer["metadataDeleted"] is (not keep) and answer["queues"] == [queue]
    assert wire.ack(broker, popped["messages"], group=group)[0]["success"] is False
    assert wire.data_of(broker.pop(queue, consumerGroup=group, subscriptionMode="all")) == [1, 2, 3]
    again = broker.session.delete(broker.url(f"/api/v1/consumer-groups/none-{queue}"))
    assert again.status_code == 200 and again.json()["deletedPartitions"] == 0


# ---- messages and dead letters ----


def status_of(broker, queue, **params):
    rows = broker.get("/api/v1/messages", queue=queue, **params).json()["messages"]
    return {row["offset"]: row["status"] for row in rows}


def test_the_status_of_a_message_follows_its_readers(broker, queue):
    """M-1: queue mode, then a named group that decides alone, then a dead letter that outdoes all."""
    wire.push(broker, queue, *range(3))
    assert status_of(broker, queue) == {0: "pending", 1: "pending", 2: "pending"}
    got = broker.pop(queue)["messages"]
    assert set(status_of(broker, queue).values()) == {"processing"}
    wire.ack(broker, got[:1])
    assert status_of(broker, queue)[0] == "completed"
    wire.ack(broker, got[1:])
    assert set(status_of(broker, queue).values()) == {"completed"}
    named = broker.pop(queue, batch=1, **ALL)["messages"]
    assert set(status_of(broker, queue).values()) == {"processing"}
    wire.ack(broker, named, "dlq", group="g")
    assert status_of(broker, queue) == {0: "dead_letter", 1: "pending", 2: "pending"}
    assert status_of(broker, queue, status="dead_letter") == {0: "dead_letter"}


def test_a_delete_removes_dead_letters_and_no_message(broker, queue):
    """M-2."""
    wire.push(broker, queue, 1, ids=["t"])
    message = broker.pop(queue)["messages"][0]
    path = f"/api/v1/messages/{message['partitionId']}/t"
    live = broker.session.delete(broker.url(path))
    assert live.status_code == 404 and live.json()["success"] is False
    wire.ack(broker, [message], "dlq")
    gone = broker.session.delete(broker.url(path))
    assert gone.json() == {"success": True, "partitionId": message["partitionId"], "transactionId": "t", "deleted": 1}
    assert wire.dead_letters(broker, queue) == [] and wire.bounds(broker, queue) == (0, 1)


def test_a_replay_moves_the_letter_to_the_end_for_every_group(broker, queue):
    """D-1."""
    wire.push(broker, queue, {"n": 1}, 2, ids=["t", "u"])
    messages = broker.pop(queue, **ALL)["messages"]
    wire.ack(broker, messages[:1], "dlq", group="g")
    letter = wire.dead_letters(broker, queue)[0]
    answer = broker.post(f"/api/v1/dlq/{letter['id']}/replay", "").json()
    assert answer["result"] == "moved" and answer["dlqRowRemoved"] is True and answer["originalTransactionId"] == "t"
    assert answer["replayedAs"]["transaction_id"] == f"dlq:{letter['id']}" and answer["replayedAs"]["offset"] == 2
    assert wire.dead_letters(broker, queue) == []
    assert finish(broker, queue) == [2, {"n": 1}] and finish(broker, queue, "h") == [{"n": 1}, 2, {"n": 1}]


def test_a_replay_sent_again_stores_nothing_twice(broker, queue, other):
    """D-2: gone after the move; a duplicate where the copy is there already."""
    wire.push(broker, queue, 1)
    wire.ack(broker, broker.pop(queue)["messages"], "dlq")
    letter = wire.dead_letters(broker, queue)[0]
    copy = wire.push(broker, other, "already", ids=[f"dlq:{letter['id']}"])[0]
    answer = broker.post(f"/api/v1/dlq/{letter['id']}/replay", {"queue": other, "partition": "p"}).json()
    assert answer["result"] == "duplicate" and answer["dlqRowRemoved"] is False
    assert answer["replayedAs"]["offset"] == copy["offset"] and answer["replayedAs"]["message_id"] == str(uuid.UUID(int=0))
    assert broker.post(f"/api/v1/dlq/{letter['id']}/replay", "").json()["result"] == "moved"
    again = broker.post(f"/api/v1/dlq/{letter['id']}/replay", "")
    assert again.status_code == 404 and again.json()["result"] == "gone"
    assert wire.bounds(broker, queue) == (0, 2) and wire.bounds(broker, other) == (0, 1)


def test_dead_letters_outlive_retention_and_a_purge_takes_them(make_broker):
    """D-3."""
    broker = make_broker(RETENTION_INTERVAL="50").start()
    wire.configure(broker, "q", retentionEnabled=True, retentionSeconds=1)
    wire.push(broker, "q", 1, 2)
    wire.ack(broker, broker.pop("q")["messages"], "dlq")
    wire.until(lambda: wire.bounds(broker, "q") == (2, 2))
    assert sorted(letter["data"] for letter in wire.dead_letters(broker, "q")) == [1, 2]
    assert broker.session.delete(broker.url("/api/v1/dlq")).status_code == 400
    assert broker.session.delete(broker.url("/api/v1/dlq"), params={"queue": "q"}).json() == {
        "success": True, "queue": "q", "consumerGroup": None, "deleted": 2}
    assert wire.dead_letters(broker, "q") == []


def test_two_groups_that_give_up_leave_two_letters(broker, queue):
    """D-4."""
    wire.push(broker, queue, 1)
    for group in ("g", "h"):
        wire.ack(broker, broker.pop(queue, consumerGroup=group, subscriptionMode="all")["messages"], "dlq", group=group)
    letters = wire.dead_letters(broker, queue)
    assert [letter["consumerGroup"] for letter in letters] == ["h", "g"] and len({letter["id"] for letter in letters}) == 2
    assert [letter["consumerGroup"] for letter in wire.dead_letters(broker, queue, consumerGroup="g")] == ["g"]


# ---- reads by offset ----


TEXT = '{"kwh":42.00,"big":123456789012345678901234567890,"e":1E+2,"s":"\\u00e9"}'


@pytest.mark.parametrize("route", ["pop", "fetch", "messages", "dlq"])
def test_the_text_of_a_payload_is_kept_on_every_route(broker, queue, route):
    """O-4 with the ruling; 1.5."""
    broker.post("/api/v1/push", f'{{"items":[{{"queue":"{queue}","partition":"p","payload":{TEXT}}}]}}')
    if route == "fetch":
        answer = broker.post("/api/v1/fetch", {"entries": [{"queue": queue, "partition": "p", "offset": 0}]})
    elif route == "messages":
        answer = broker.get("/api/v1/messages", queue=queue)
    else:
        answer = broker.get(f"/api/v1/pop/queue/{queue}")
    if route == "dlq":
        wire.ack(broker, answer.json()["messages"], "dlq")
        answer = broker.get("/api/v1/dlq", queue=queue)
    assert TEXT in answer.text, answer.text


def test_the_first_offset_at_or_after_a_time(broker, queue):
    """O-6: by milliseconds or ISO-8601; none that late is null; an unknown queue says so."""
    instants = three_appends(broker, queue)

    def ask(timestamp, name=queue):
        answer = broker.post("/api/v1/fetch/offsets", {"entries": [{"queue": name, "partition": "p", "timestamp": timestamp}]})
        assert answer.status_code == 200, answer.text
        return answer.json()["entries"][0]

    assert ask(0)["offset"] == 0 and ask(instants[1])["offset"] == 1
    assert ask(instants[2])["ts"] == instants[2] and ask(instants[2])["highWatermark"] == 3
    late = ask("2999-01-01T00:00:00Z")
    assert late["offset"] is None and late["ts"] is None and late["highWatermark"] == 3
    unknown = ask(0, f"none-{queue}")
    assert unknown["error"] == "UNKNOWN_TOPIC_OR_PARTITION" and unknown["offset"] is None and unknown["highWatermark"] == 0
    for bad in (-1, "soon", True, 1.5, None):
        assert broker.post("/api/v1/fetch/offsets", {"entries": [{"queue": queue, "partition": "p", "timestamp": bad}]}).status_code == 400


# ---- guarantees ----


def test_all_acked_is_zero_after_seek_delete_and_transaction(broker, queue):
    """HD-37: pending, processing and lag of every reader."""
    wire.push(broker, queue, *range(6))
    finish(broker, queue)
    wire.seek(broker, "g", queue, timestamp="1970-01-01T00:00:00Z")
    assert wire.depth(broker, queue, "g")["pending"] == 6
    popped = broker.pop(queue, consumerGroup="g")["messages"]
    assert wire.transaction(broker, *[wire.ack_operation(message, group="g") for message in popped])["success"] is True
    depth = wire.depth(broker, queue, "g")
    assert (depth["pending"], depth["processing"], depth["ready"]) == (0, 0, 0)
    rows = [row for row in broker.get("/api/v1/consumer-groups").json() if row["queueName"] == queue]
    assert [(row["totalLag"], row["partitionsWithLag"]) for row in rows] == [(0, 0)]
    queues = {row["name"]: row["messages"] for row in broker.get("/api/v1/resources/queues").json()["queues"]}
    assert (queues[queue]["pending"], queues[queue]["processing"]) == (0, 0)
    broker.session.delete(broker.url(f"/api/v1/consumer-groups/g/queues/{queue}"))
    finish(broker, queue)
    assert wire.depth(broker, queue, "g")["pending"] == 0


def test_acknowledged_changes_survive_a_kill(make_broker):
    """N-3: an ack, a transaction, a group delete, a dead letter, a configure."""
    broker = make_broker().start()
    wire.configure(broker, "q", leaseTime=33)
    wire.push(broker, "q", *range(4))
    messages = broker.pop("q", **ALL)["messages"]
    wire.ack(broker, messages[:1], group="g")
    wire.transaction(broker, wire.ack_operation(messages[1], group="g"), wire.push_operation("out", "done"))
    wire.ack(broker, messages[2:3], "dlq", group="g")
    finish(broker, "q", "gone")
    broker.session.delete(broker.url("/api/v1/consumer-groups/gone"))
    broker.kill9()
    broker.start()
    assert wire.next_offset(broker, "q", group="g") == 3 and wire.next_offset(broker, "q", group="gone") is None
    assert wire.data_of(broker.pop("out")) == ["done"]
    assert [letter["data"] for letter in wire.dead_letters(broker, "q")] == [2]
    assert broker.get("/api/v1/resources/queues").json()["queues"][-1]["options"]["leaseTime"] == 33
