"""DELETE /api/v1/resources/queues/:queue against api-messaging.md 10.4."""

import time

import requests


def push(broker, queue, *ids, partition="p"):
    return broker.push([{"queue": queue, "partition": partition, "payload": i, "transactionId": i} for i in ids])


def delete(broker, queue):
    return requests.delete(broker.url(f"/api/v1/resources/queues/{queue}"), timeout=60)


def pop(broker, queue):
    return broker.get(f"/api/v1/pop/queue/{queue}", batch=10)


def names(broker):
    return [row["name"] for row in broker.get("/api/v1/resources/queues").json()["queues"]]


def test_an_unknown_queue_is_no_error(broker):
    """10.4: SDKs delete before they create."""
    answer = delete(broker, "nope")
    assert answer.status_code == 200
    assert answer.text == '{"deleted":false,"existed":false,"queue":"nope","message":"Queue not found, nothing was deleted"}'


def test_everything_is_gone_and_the_name_starts_anew(broker):
    """Q-4."""
    before = broker.post("/api/v1/configure", {"queue": "q"}).json()["queueId"]
    push(broker, "q", "a", "b", "c")
    got = pop(broker, "q").json()["messages"]
    dead = {"transactionId": "a", "partitionId": got[0]["partitionId"], "status": "dlq", "leaseId": got[0]["leaseId"]}
    assert broker.post("/api/v1/ack", dead).status_code == 200
    answer = delete(broker, "q")
    assert (answer.status_code, answer.text) == (200, '{"deleted":true,"existed":true,"queue":"q"}')
    assert "q" not in names(broker)
    old = {"transactionId": "b", "partitionId": got[1]["partitionId"], "status": "completed", "leaseId": got[1]["leaseId"]}
    refused = broker.post("/api/v1/ack", old).json()
    assert (refused if isinstance(refused, dict) else refused[0])["success"] is False
    again = push(broker, "q", "a", "b")
    assert [(i["status"], i["offset"]) for i in again] == [("queued", 0), ("queued", 1)]
    after = broker.post("/api/v1/configure", {"queue": "q"}).json()["queueId"]
    assert after != before
    fresh = pop(broker, "q").json()["messages"]
    assert [m["transactionId"] for m in fresh] == ["a", "b"]
    assert fresh[0]["partitionId"] != got[0]["partitionId"]
    row = next(r for r in broker.get("/api/v1/resources/queues").json()["queues"] if r["name"] == "q")
    assert (row["messages"]["total"], row["messages"]["deadLetter"]) == (2, 0)


def test_the_name_is_percent_decoded_and_bounded(broker):
    """1.1, 1.5."""
    push(broker, "a/b c", "x")
    assert delete(broker, "a%2Fb%20c").json() == {"deleted": True, "existed": True, "queue": "a/b c"}
    assert "a/b c" not in names(broker)
    long = delete(broker, "q" * 412)
    assert (long.status_code, long.json()["code"]) == (413, "name_too_long")
    assert delete(broker, "q" * 411).status_code == 200


def test_a_deleted_queue_stays_deleted_over_a_crash(broker):
    """Q-4, RT-15: also while its rows are still being removed."""
    for n in range(5):
        push(broker, "q", *[f"{n}-{i}" for i in range(300)], partition=f"p{n}")
    push(broker, "kept", "x")
    assert delete(broker, "q").json()["deleted"] is True
    broker.kill9()
    broker.start()
    assert names(broker) == ["kept"]
    assert pop(broker, "kept").json()["messages"][0]["transactionId"] == "x"
    assert push(broker, "q", "0-0")[0]["offset"] == 0
    time.sleep(1.5)  # a chunk or two of what is left
    broker.kill9()
    broker.start()
    assert sorted(names(broker)) == ["kept", "q"]
