"""The management reads of queues against api-messaging.md 10.3, 10.4 and HD-37, over raw HTTP and with the published client."""

import asyncio
import json
import time
from urllib.parse import quote

import pytest
import requests
from queen import Queen

OTHER = "00000000-0000-0000-0000-0000000000aa"


def item(queue="q", partition="p", payload=1, **more):
    return {"queue": queue, "partition": partition, "payload": payload, **more}


def read(broker, path, **params):
    answer = broker.get(f"/api/v1/resources/{path}", **params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def depth(broker, queue="q", **params):
    body = read(broker, f"queues/{queue}/depth", **params)
    assert body["ready"] == body["pending"] - body["processing"]
    return body["pending"], body["processing"], body["ready"]


def totals(broker, queue="q"):
    return read(broker, f"queues/{queue}")["totals"]


# ---- shapes -------------------------------------------------------------------------------------------------


def test_queue_detail(broker):
    """10.3: fields, figures with `pending` including what is leased, partitions by name."""
    broker.post("/api/v1/configure", {"queue": "q", "namespace": "acme", "task": "read", "options": {"leaseTime": 30}})
    for partition in ("unit-9", "unit-10", "unit-1"):
        broker.push([item(partition=partition, payload=n) for n in range(4)])
    broker.ack_all(broker.pop("q", "unit-9", batch=2, consumerGroup="g", subscriptionMode="all"), group="g")
    broker.pop("q", "unit-9", batch=1, consumerGroup="g")
    body = read(broker, "queues/q")
    assert list(body) == ["id", "name", "namespace", "task", "createdAt", "options", "partitions", "segments", "totals", "retainedBytes"]
    assert (body["name"], body["namespace"], body["task"], body["options"]["leaseTime"]) == ("q", "acme", "read", 30)
    assert body["id"] == read(broker, "queues")["queues"][0]["id"]
    rows = body["partitions"]
    assert [row["name"] for row in rows] == ["unit-1", "unit-10", "unit-9"]
    assert list(rows[2]) == ["id", "name", "createdAt", "messages", "stats", "cursor", "lastActivity", "oldestMessage", "newestMessage", "retainedBytes"]
    assert rows[2]["messages"] == rows[2]["stats"] == {"total": 4, "pending": 2, "processing": 1, "completed": 2, "failed": None, "deadLetter": 0}
    assert rows[2]["cursor"] == {"totalConsumed": 2, "batchesConsumed": 0} and rows[0]["cursor"]["totalConsumed"] == 0
    assert rows[2]["oldestMessage"] == rows[2]["newestMessage"] == rows[2]["lastActivity"]
    assert body["totals"] == {"total": 12, "pending": 10, "processing": 1, "completed": 2, "failed": None, "deadLetter": 0}
    assert body["retainedBytes"] == sum(row["retainedBytes"] for row in rows) > 0


def test_depth(broker):
    """10.3: per partition and in all; a group of its own; without one the named group that is furthest behind."""
    broker.push([item(partition="a", payload=n) for n in range(3)] + [item(partition="b")])
    body = read(broker, "queues/q/depth")
    assert list(body) == ["queue", "group", "pending", "processing", "ready", "partitionsPending", "partitionsReady", "conflation",
                          "effectivePending", "effectiveReady", "partitions"]
    assert (body["queue"], body["group"], body["pending"], body["partitionsPending"]) == ("q", None, 4, 2)
    broker.ack_all(broker.pop("q", "a", batch=2, consumerGroup="g", subscriptionMode="all"), group="g")
    broker.pop("q", "a", batch=5, consumerGroup="g")
    body = read(broker, "queues/q/depth", group="g")
    assert body["partitions"] == [{"partition": "a", "pending": 1, "processing": 1, "ready": 0}, {"partition": "b", "pending": 1, "processing": 0, "ready": 1}]
    assert (body["group"], body["partitionsPending"], body["partitionsReady"]) == ("g", 2, 1)
    assert (body["conflation"], body["effectivePending"], body["effectiveReady"]) == (False, 2, 1)
    assert depth(broker, group="nobody") == (4, 0, 4)


def test_depth_of_a_conflating_group_counts_partitions(broker):
    """10.3."""
    broker.pop("q", consumerGroup="last", subscriptionMode="all", conflation="true")
    for partition in "ab":
        broker.push([item(partition=partition, payload=n) for n in range(5)])
    body = read(broker, "queues/q/depth", group="last")
    assert (body["pending"], body["conflation"], body["effectivePending"], body["effectiveReady"]) == (10, True, 2, 2)
    broker.pop("q", consumerGroup="last", conflation="true", batch=1)
    body = read(broker, "queues/q/depth", group="last")
    assert (body["pending"], body["processing"], body["effectivePending"], body["effectiveReady"]) == (10, 5, 2, 1)


def test_sizes_and_their_cap(make_broker):
    """10.3: creation order, `truncated`, `partitionsTruncated` while totals cover the queue."""
    broker = make_broker(QUEEN_DASH_SIZES_MAX="2").start()
    for partition, size in (("z", 10_000), ("a", 10)):
        broker.push([item(partition=partition, payload="x" * size)])
    text = broker.get("/api/v1/resources/queues/q/sizes").text
    sizes = json.loads(text)
    assert list(sizes) == ["queue", "partitions"] and list(sizes["partitions"]) == ["z", "a"]
    assert sizes["partitions"]["z"] > 10_000 > sizes["partitions"]["a"] > 0
    broker.push([item(partition="m")])
    assert list(read(broker, "queues/q/sizes")["partitions"]) == ["z", "a"] and read(broker, "queues/q/sizes")["truncated"] is True
    detail = read(broker, "queues/q")
    assert [row["name"] for row in detail["partitions"]] == ["a", "z"] and detail["partitionsTruncated"] is True
    assert detail["totals"]["total"] == 3 and detail["retainedBytes"] > sum(row["retainedBytes"] for row in detail["partitions"])
    assert read(broker, "partitions", queue="q")["truncated"] is True


def test_partitions(broker):
    """10.3: most pending first, `lagSeconds` null when caught up, `limit`."""
    broker.push([item("q", "few"), item("r", "most", 1), item("r", "most", 2), item("r", "none")])
    broker.ack_all(broker.pop("r", "none"))
    time.sleep(1.1)
    rows = read(broker, "partitions")["partitions"]
    assert [(row["queue"], row["partition"], row["pending"], row["processing"]) for row in rows] == [("r", "most", 2, 0), ("q", "few", 1, 0), ("r", "none", 0, 0)]
    assert rows[0]["lagSeconds"] >= 1 and rows[2]["lagSeconds"] is None
    assert rows[0]["id"] == read(broker, "queues/r")["partitions"][0]["id"]
    assert len(read(broker, "partitions", limit=1)["partitions"]) == 1 and len(read(broker, "partitions", limit=-4)["partitions"]) == 1
    assert [row["partition"] for row in read(broker, "partitions", queue="q", limit=99999)["partitions"]] == ["few"]


def test_namespaces_tasks_and_overview(broker):
    """10.3: sums by label, empty labels omitted; the overview's fields. 15, semantics 10: labels of a pushed name."""
    broker.push([item("ns.taskA.q", n) for n in "12"] + [item("ns.taskB", "1")])
    broker.post("/api/v1/configure", {"queue": "bare"})
    broker.ack_all(broker.pop("ns.taskB"))
    assert read(broker, "namespaces") == {"namespaces": [{"namespace": "ns", "queues": 2, "partitions": 3, "messages": {"total": 3, "pending": 2}}]}
    assert read(broker, "tasks") == {"tasks": [{"task": "taskA", "queues": 1, "partitions": 2, "messages": {"total": 2, "pending": 2}},
                                               {"task": "taskB", "queues": 1, "partitions": 1, "messages": {"total": 1, "pending": 0}}]}
    time.sleep(1.1)
    body = read(broker, "overview")
    assert list(body) == ["queues", "partitions", "namespaces", "tasks", "messages", "lag", "timestamp", "statsAge"]
    assert (body["queues"], body["partitions"], body["namespaces"], body["tasks"], body["statsAge"]) == (3, 3, 1, 2, 0)
    assert body["messages"] == {"total": 3, "pending": 2, "processing": 0, "completed": 1, "failed": 0, "deadLetter": 0}
    assert body["lag"]["offset"] == {"avg": 1, "median": 0, "min": 0, "max": 1} and body["lag"]["time"]["max"] >= body["lag"]["time"]["avg"] >= 1


# ---- not found, names, tenants, parameters ------------------------------------------------------------------


@pytest.mark.parametrize("path", ["queues/none", "queues/none/depth", "queues/none/sizes", "partitions?queue=none", "queues/" + "q" * 600, "queues/%ff"])
def test_an_unknown_queue_is_404(broker, path):
    """10.3."""
    broker.push([item()])
    answer = broker.get(f"/api/v1/resources/{path}")
    assert (answer.status_code, answer.json()) == (404, {"error": "Queue not found"})


def test_names_in_paths_are_decoded(broker):
    """1.1: any string is a name."""
    for name in ("a/b c", "100%", "é+ü", 'quo"te', "depth", "dot."):
        broker.push([item(name, "x/y")])
        path = quote(name, safe="")
        assert read(broker, f"queues/{path}")["name"] == name
        assert read(broker, f"queues/{path}/depth", group="g/1")["queue"] == name
        assert read(broker, f"queues/{path}/sizes")["partitions"].keys() == {"x/y"}
    # A `%` that encodes nothing is kept as it stands.
    assert broker.session.get(broker.url("/api/v1/resources/queues/100%")).json()["name"] == "100%"


@pytest.mark.parametrize("path", ["partitions?limit=x", "partitions?limit=1.5", "queues/q/depth?group=%ff"])
def test_parameters_that_do_not_parse(broker, path):
    """1.1: 400 in plain text."""
    broker.push([item()])
    answer = broker.get(f"/api/v1/resources/{path}")
    assert (answer.status_code, answer.headers["Content-Type"].split(";")[0]) == (400, "text/plain")


def test_tenants_see_nothing_of_each_other(make_broker):
    """1.2."""
    broker = make_broker(QUEEN_TENANCY_HEADER="true", QUEEN_KV_TRUSTED_PROXY="true").start()
    broker.push([item("acme.read")])
    other = {"x-queen-tenant": OTHER}

    def ask(path):
        return requests.get(broker.url(f"/api/v1/resources/{path}"), headers=other, timeout=30)

    for path in ("queues/acme.read", "queues/acme.read/depth", "queues/acme.read/sizes", "partitions?queue=acme.read"):
        assert ask(path).status_code == 404
    assert (ask("queues").json()["queues"], ask("partitions").json()["partitions"], ask("namespaces").json()["namespaces"]) == ([], [], [])
    assert (ask("overview").json()["queues"], ask("overview").json()["messages"]["total"]) == (0, 0)
    assert read(broker, "overview")["queues"] == 1


# ---- HD-37, N-4, restarts -----------------------------------------------------------------------------------


def nothing_left(broker, group):
    rows = read(broker, "partitions")["partitions"]
    counts = read(broker, "queues")["queues"][0]["messages"]
    lag = read(broker, "overview")["lag"]
    return (depth(broker, group=group) == depth(broker) == (0, 0, 0) and (counts["pending"], counts["processing"]) == (0, 0)
            and all(row["pending"] == row["processing"] == 0 and row["lagSeconds"] is None for row in rows)
            and totals(broker)["pending"] == 0 and lag["time"]["max"] == lag["offset"]["max"] == 0)


def test_all_acked_is_zero_everywhere(broker):
    """HD-37: after expiry, nack, dead letter, and over a restart."""
    broker.post("/api/v1/configure", {"queue": "q", "options": {"retryLimit": 1}})
    broker.push([item(partition=p, payload=n) for p in "ab" for n in range(3)])
    group = {"consumerGroup": "g", "subscriptionMode": "all", "partitions": 2, "batch": 100}
    broker.pop("q", leaseSeconds=1, **group)
    assert depth(broker, group="g") == (6, 6, 0) and not nothing_left(broker, "g")
    time.sleep(1.2)
    assert depth(broker, group="g") == (6, 0, 6)
    broker.ack_all(broker.pop("q", **group), group="g", status="failed")
    broker.ack_all(broker.pop("q", **{**group, "batch": 1}), group="g", status="dlq")
    while (popped := broker.pop("q", **group)) is not None:
        broker.ack_all(popped, group="g")
    assert nothing_left(broker, "g") and totals(broker)["deadLetter"] == 1
    broker.kill9()
    broker.start()
    assert nothing_left(broker, "g") and totals(broker) == {"total": 6, "pending": 0, "processing": 0, "completed": 5, "failed": None, "deadLetter": 1}
    requests.delete(broker.url("/api/v1/resources/queues/q"), timeout=30)
    body = read(broker, "overview")
    assert body["messages"] == {"total": 0, "pending": 0, "processing": 0, "completed": 0, "failed": 0, "deadLetter": 0} and body["partitions"] == 0


def test_a_position_beyond_the_end_leaves_nothing(broker):
    """HD-37: what comes before a position that is ahead of the log counts as read, and no figure is below zero."""
    broker.push([item(payload=n) for n in range(2)])
    broker.pop("q", consumerGroup="g", subscriptionMode="all", leaseSeconds=1)
    time.sleep(1.2)
    answer = broker.post("/api/v1/transaction", {"positions": [{"consumerGroup": "g", "queue": "q", "partition": "p", "offset": 100}]})
    assert answer.json()["success"] is True, answer.text
    assert nothing_left(broker, "g")
    assert [row["status"] for row in broker.get("/api/v1/messages").json()["messages"]] == ["completed", "completed"]


def test_retention_leaves_a_depth_of_zero(make_broker):
    """15, ack-window 3: what retention took is nobody's work."""
    broker = make_broker(RETENTION_INTERVAL="100").start()
    broker.post("/api/v1/configure", {"queue": "q", "options": {"retentionEnabled": True, "retentionSeconds": 1}})
    broker.push([item(payload=n) for n in range(6)])
    broker.ack_all(broker.pop("q", batch=2))
    deadline = time.monotonic() + 30
    while depth(broker) != (0, 0, 0):
        assert time.monotonic() < deadline, read(broker, "queues/q")
        time.sleep(0.1)
    detail = read(broker, "queues/q")
    assert detail["totals"]["total"] == detail["retainedBytes"] == 0
    assert detail["partitions"][0]["oldestMessage"] is None and detail["partitions"][0]["newestMessage"] is None


def test_depth_sees_every_answered_write(broker):
    """N-4: a thousand pushes and acks, each followed by a depth."""
    for n in range(100):
        broker.push([item(payload=n)])
        assert depth(broker, group="__QUEUE_MODE__") == (1, 0, 1)
        broker.ack_all(broker.pop("q"))
        assert depth(broker, group="__QUEUE_MODE__") == (0, 0, 0)


def test_figures_of_many_partitions_do_not_hold_up_pushes(broker):
    """A read takes the store for a few hundred partitions at a time."""
    for start in range(0, 20_000, 2_000):
        broker.push([item(partition=f"p{n}") for n in range(start, start + 2_000)])
    began = time.monotonic()
    assert read(broker, "queues/q")["totals"]["total"] == 20_000
    assert depth(broker) == (20_000, 0, 20_000) and len(read(broker, "partitions")["partitions"]) == 610
    assert time.monotonic() - began < 20


# ---- the published client -----------------------------------------------------------------------------------


def test_the_client_reads_it_all(broker):
    """queen-mq, admin."""
    broker.push([item("acme.read/x", "a", {"n": n}) for n in range(3)])

    async def body():
        async with Queen(broker.url("")) as client:
            admin = client.admin
            assert (await admin.get_overview())["messages"]["pending"] == 3
            assert (await admin.get_namespaces())["namespaces"][0]["namespace"] == "acme"
            assert (await admin.get_tasks())["tasks"][0]["task"] == "read/x"
            assert (await admin.list_queues())["queues"][0]["name"] == "acme.read/x"
            assert (await admin.list_queues(stats="lanes"))["queues"][0]["partitions"] == 1
            assert (await admin.get_partitions(limit=5))["partitions"][0]["pending"] == 3
            broker.push([item("plain", "a")])
            assert (await admin.get_queue("plain"))["totals"]["total"] == 1
            report = await admin.get_queue_depth("plain", "billing")
            assert (report["pending"], report["effectivePending"], report["conflation"]) == (1, 1, False)

    asyncio.run(asyncio.wait_for(body(), 60))
