"""The operator's figures: what the published client asks for, and the routes over plain HTTP."""

import datetime
import re
import threading
import time

import pytest
import requests

from published_client import make, pinned, push, with_client

DEFAULT = "00000000-0000-0000-0000-000000000001"
OTHER = "11111111-2222-4333-8444-555555555555"


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def items(queue: str, count: int, partition: str = "Default", start: int = 0) -> list[dict]:
    return [{"queue": queue, "partition": partition, "transactionId": f"t{start + i}", "payload": {"n": i}} for i in range(count)]


def use(broker, queue: str = "orders", count: int = 5) -> None:
    """One push, one pop, one ack of a batch, one empty pop."""
    broker.push(items(queue, count))
    popped = broker.pop(queue, batch=100, consumerGroup="g", subscriptionMode="all")
    assert len(popped["messages"]) == count
    broker.ack_all(popped, "g")
    assert broker.pop(queue, batch=100, consumerGroup="g", wait="false") is None


def ops(broker, queue: str, **params) -> dict:
    """The sums of a queue's rows."""
    answer = broker.get("/api/v1/analytics/queue-ops", queue=queue, **params)
    assert answer.status_code == 200, answer.text
    out: dict = {}
    for row in answer.json()["series"]:
        for key, value in row.items():
            if isinstance(value, int) and not isinstance(value, bool):
                out[key] = out.get(key, 0) + value
    return out


def samples(broker) -> dict[str, float]:
    answer = broker.get("/metrics/prometheus")
    assert answer.status_code == 200 and answer.headers["Content-Type"] == "text/plain; version=0.0.4"
    found = {}
    for line in answer.text.splitlines():
        if not line.startswith("#"):
            series, value = line.rsplit(" ", 1)
            assert series not in found
            found[series] = float(value)
    return found


def wait_for(what, seconds: float = 20):
    deadline = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < deadline
        time.sleep(0.1)


# ---- the published client ----

@with_client()
async def test_the_status_counts_what_the_client_did(client):
    await make(client, "orders", retryLimit=0)
    await push(client, "orders", *[{"data": {"n": n}} for n in range(4)])
    messages = await pinned(client, "orders", batch=3).group("g").subscription_mode("all").pop()
    await client.ack(messages, True, {"group": "g"})
    status = await client.admin.get_status()
    assert status["engine"] == "raft" and status["bucketMinutes"] == 1
    assert status["pointCount"] == len(status["throughput"]) >= 1
    assert sum(point["ingested"] for point in status["throughput"]) == 4
    assert sum(point["processed"] for point in status["throughput"]) == 3
    assert sum(point["popMessages"] for point in status["throughput"]) == 3
    queue = status["queues"][0]
    assert queue["name"] == "orders" and queue["partitions"] == 1 and queue["totalConsumed"] == 3
    kept = {key: status["messages"][key] for key in ("total", "pending", "processing", "completed", "failed", "deadLetter")}
    assert kept == {"total": 4, "pending": 1, "processing": 0, "completed": 3, "failed": 0, "deadLetter": 0}
    assert status["messages"]["requests"]["push"] >= 1
    assert status["workers"][0]["messagesProcessed"] == 10
    assert status["statsAge"] == -1


@with_client()
async def test_the_queue_stats_are_the_rows_of_the_list(client):
    await push(client, "orders", {"data": 1}, {"data": 2})
    await push(client, "bills", {"data": 1})
    stats = await client.admin.get_queue_stats()
    listed = await client.admin.list_queues()
    assert set(stats) == {"queues"} and stats["queues"] == listed["queues"]
    assert {queue["name"]: queue["messages"]["total"] for queue in stats["queues"]} == {"orders": 2, "bills": 1}


@with_client()
async def test_the_queue_detail_has_config_partitions_and_totals(client):
    await make(client, "acme.orders", leaseTime=77)
    await push(client, "acme.orders", {"data": 1}, {"data": 2}, partition="p1")
    detail = await client.admin.get_queue_detail("acme.orders")
    assert set(detail) == {"queue", "partitions", "totals"}
    assert set(detail["queue"]) == {"id", "name", "namespace", "task", "priority", "createdAt", "config"}
    assert detail["queue"]["config"]["leaseTime"] == 77
    assert [partition["name"] for partition in detail["partitions"]] == ["p1"]
    assert detail["totals"]["messages"]["total"] == 2
    with pytest.raises(Exception, match="404|not found"):
        await client.admin.get_queue_detail("none")


@with_client()
async def test_the_analytics_are_one_point_of_the_present_total(client):
    await push(client, "orders", *[{"data": n} for n in range(3)])
    analytics = await client.admin.get_analytics()
    assert [point["messages"] for point in analytics["dataPoints"]] == [3]
    assert analytics["interval"] == "hour" and set(analytics) == {"dataPoints", "interval", "from", "to"}


@with_client()
async def test_a_refresh_of_the_stats_has_nothing_to_do(client):
    assert await client.admin.refresh_consumer_stats() == {"success": True, "refreshed": False, "engine": "raft"}


@with_client()
async def test_the_metrics_sum_up_the_process(client):
    await push(client, "orders", {"data": 1}, {"data": 2})
    await pinned(client, "orders", batch=10).pop()
    metrics = await client.admin.metrics()
    assert metrics["requests"] == {"total": 2, "rate": 0} and metrics["messages"] == {"total": 4, "rate": 0}
    assert metrics["memory"]["rss"] > 1 << 20 and metrics["engine"] == "raft"
    assert metrics["raft"]["role"] == "leader" and metrics["raft"]["storageReady"] is True


@with_client()
async def test_the_system_metrics_are_gauges_of_this_node(client, make_broker):
    broker = make_broker("second", METRICS_FLUSH_MS="1000", HOSTNAME="node-7").start()
    wait_for(lambda: broker.get("/api/v1/analytics/system-metrics").json()["replicas"])
    own = broker.get("/api/v1/analytics/system-metrics").json()
    assert own["replicaCount"] == 1
    replica = own["replicas"][0]
    assert (replica["hostname"], replica["port"], replica["workerId"]) == ("node-7", broker.port, "worker-0")
    metrics = replica["timeSeries"][-1]["metrics"]
    assert set(metrics["memory"]["rss_bytes"]) == {"avg", "min", "max", "last"}
    assert metrics["memory"]["virtual_bytes"]["last"] > metrics["memory"]["rss_bytes"]["last"] > 1 << 20
    assert metrics["database"]["pool_size"] is None
    asked = await client.admin.get_system_metrics(hostname="somebody else")
    assert asked["replicas"] == [] and asked["pointCount"] == 0


@with_client()
async def test_the_worker_metrics_count_pushes_pops_and_acks(client):
    await push(client, "orders", *[{"data": n} for n in range(4)])
    messages = await pinned(client, "orders", batch=4).group("g").subscription_mode("all").pop()
    await client.ack(messages[:3], True, {"group": "g"})
    metrics = await client.admin.get_worker_metrics()
    assert metrics["summary"] == {
        "totalPushMessages": 4, "totalPopMessages": 4, "totalAckMessages": 3, "totalPushRequests": 1, "totalPopRequests": 1,
        "totalAckRequests": 1, "totalDbErrors": 0, "totalAckFailed": 0, "totalDlq": 0, "pendingMessages": 1}
    assert [(queue["queueName"], queue["popCount"]) for queue in metrics["queues"]] == [("orders", 4)]
    assert metrics["workers"][0]["lastSeen"].endswith("Z")


# ---- counting ----

def test_calls_are_counted_as_they_are_answered(broker):
    use(broker)
    counted = ops(broker, "orders")
    assert {key: counted[key] for key in ("pushRequests", "pushMessages", "popMessages", "popEmpty", "ackRequests", "ackSuccess",
                                          "ackFailed", "transactions", "partitionsCreated")} == {
        "pushRequests": 1, "pushMessages": 5, "popMessages": 5, "popEmpty": 1, "ackRequests": 1, "ackSuccess": 5, "ackFailed": 0,
        "transactions": 0, "partitionsCreated": 1}
    broker.push(items("orders", 2))  # repeats
    assert ops(broker, "orders")["pushMessages"] == 5


def test_failed_messages_and_dead_letters_are_counted(broker):
    broker.post("/api/v1/configure", {"queue": "orders", "options": {"retryLimit": 0}})
    broker.push(items("orders", 2))
    popped = broker.pop("orders", batch=10, consumerGroup="g", subscriptionMode="all")
    broker.ack_all(popped, "g", "dlq")
    assert ops(broker, "orders")["ackFailed"] == 2
    status = broker.get("/api/v1/status").json()
    assert status["errors"] == {"dbErrors": 0, "ackFailed": 2, "dlqMessages": 2}
    letters = status["deadLetterQueue"]
    assert (letters["totalMessages"], letters["currentMessages"], letters["affectedPartitions"]) == (2, 2, 1)
    assert sum(row["count"] for row in letters["topErrors"]) == 2
    assert samples(broker)['queen_dlq_depth_by_queue{queue="orders"}'] == 2


def test_a_transaction_counts_where_it_pushes_and_acks(broker):
    broker.push(items("orders", 1))
    popped = broker.pop("orders", batch=1, consumerGroup="g", subscriptionMode="all")["messages"][0]
    answer = broker.post("/api/v1/transaction", {"operations": [
        {"type": "push", "items": [{"queue": "bills", "payload": 1}, {"queue": "bills", "payload": 2}]},
        {"type": "ack", "transactionId": popped["transactionId"], "partitionId": popped["partitionId"],
         "leaseId": popped["leaseId"], "consumerGroup": "g"}]})
    assert answer.json()["success"] is True, answer.text
    assert ops(broker, "bills")["transactions"] == 1 and ops(broker, "bills")["pushMessages"] == 2
    assert ops(broker, "orders")["transactions"] == 1 and ops(broker, "orders")["ackSuccess"] == 1
    lost = broker.post("/api/v1/transaction", {"operations": [
        {"type": "push", "items": [{"queue": "bills", "payload": 3}]},
        {"type": "ack", "transactionId": "never pushed", "partitionId": popped["partitionId"], "consumerGroup": "g"}]})
    assert lost.json()["success"] is False
    assert ops(broker, "bills")["transactions"] == 1 and ops(broker, "bills")["pushMessages"] == 2


def test_rows_outlive_a_restart_and_kill9(make_broker):
    broker = make_broker(METRICS_FLUSH_MS="1000").start()
    use(broker)
    wait_for(lambda: broker.get("/api/v1/status").json()["statsAge"] >= 0)
    time.sleep(2.1)
    broker.kill9()
    broker.start()
    assert ops(broker, "orders")["pushMessages"] == 5
    broker.push(items("orders", 3, start=100))
    assert broker.terminate() == 0
    broker.start()
    counted = ops(broker, "orders")
    assert counted["pushMessages"] == 8 and counted["ackSuccess"] == 5


def test_damaged_rows_never_stop_a_boot(make_broker):
    broker = make_broker(METRICS_FLUSH_MS="1000").start()
    use(broker)
    assert broker.terminate() == 0
    files = sorted((broker.directory / "figures").iterdir())
    assert files
    for number, path in enumerate(files):
        data = path.read_bytes()
        path.write_bytes(data[:len(data) // 2] if number % 2 else b"\xff" * len(data))
    broker.start()
    assert "figures_damaged" in broker.log()
    use(broker, "later")
    assert ops(broker, "later")["pushMessages"] == 5
    assert broker.pop("orders", batch=10, consumerGroup="new", subscriptionMode="all") is not None


def test_the_total_of_a_partition_ends_where_its_log_starts(broker):
    broker.push(items("orders", 4))
    detail = broker.get("/api/v1/status/queues/orders").json()
    assert detail["totals"]["messages"]["total"] == 4
    assert broker.get("/api/v1/status/analytics").json()["dataPoints"][0]["messages"] == 4


def test_pending_is_of_the_slowest_named_group_then_queue_mode_then_all(broker):
    broker.push(items("orders", 6))
    pending = lambda: broker.get("/api/v1/status").json()["messages"]["pending"]
    assert pending() == 6
    broker.ack_all(broker.pop("orders", batch=4))
    assert pending() == 2
    broker.ack_all(broker.pop("orders", batch=1, consumerGroup="slow", subscriptionMode="all"), "slow")
    assert pending() == 5
    broker.ack_all(broker.pop("orders", batch=5, consumerGroup="fast", subscriptionMode="all"), "fast")
    assert pending() == 5


def test_processing_is_inside_pending_and_not_inside_the_pending_of_lists(broker):
    broker.push(items("orders", 6))
    broker.pop("orders", batch=4, consumerGroup="g", subscriptionMode="all")
    status = broker.get("/api/v1/status").json()
    assert (status["messages"]["pending"], status["messages"]["processing"]) == (6, 4)
    assert status["leases"] == {"active": 1, "partitionsWithLeases": 1, "totalBatchSize": 4, "totalAcked": 0}
    row = broker.get("/api/v1/status/queues").json()["queues"][0]
    assert (row["messages"]["pending"], row["messages"]["processing"]) == (2, 4)
    broker.pop("orders", batch=4, consumerGroup="h", subscriptionMode="all")
    assert broker.get("/api/v1/status").json()["messages"]["processing"] == 6  # capped at what is pending


def test_completed_is_what_is_neither_pending_nor_a_dead_letter(broker):
    broker.push(items("orders", 6))
    broker.ack_all(broker.pop("orders", batch=3, consumerGroup="g", subscriptionMode="all"), "g")
    broker.ack_all(broker.pop("orders", batch=1, consumerGroup="g"), "g", "dlq")
    messages = broker.get("/api/v1/status").json()["messages"]
    assert (messages["total"], messages["pending"], messages["deadLetter"], messages["completed"]) == (6, 2, 1, 3)


def test_a_route_that_is_not_there_is_404_json(broker):
    for path in ("/api/v1/analytics/nothing", "/api/v1/status/nothing/at/all", "/streams/nothing"):
        answer = broker.get(path)
        assert answer.status_code == 404
        assert answer.json() == {"code": "no_such_route", "error": "not found", "path": path}


# ---- rules of the query ----

ROUTES = ["/api/v1/status", "/api/v1/analytics/system-metrics", "/api/v1/analytics/worker-metrics", "/api/v1/analytics/queue-ops",
          "/api/v1/analytics/queue-lag", "/api/v1/analytics/queue-parked-replicas"]


def test_a_range_that_does_not_parse_is_500_with_an_error(broker):
    for route in ROUTES:
        for bad in ({"from": "yesterday"}, {"to": "12"}):
            answer = broker.get(route, **bad)
            assert answer.status_code == 500 and list(answer.json()) == ["error"], route
        assert broker.get(route, **{"from": "", "to": ""}).status_code == 200
    assert broker.get("/api/v1/analytics/worker-metrics", workerId="first").status_code == 500


def test_without_a_range_it_is_the_last_hour_and_both_ends_count(broker):
    use(broker)
    row = broker.get("/api/v1/analytics/queue-ops").json()["series"][0]
    for route in ROUTES[:4]:
        given = broker.get(route).json()["timeRange"]
        ends = [datetime.datetime.fromisoformat(given[key]) for key in ("from", "to")]
        assert ends[1] - ends[0] == datetime.timedelta(hours=1) and abs(now() - ends[1]) < datetime.timedelta(seconds=30)
    assert ops(broker, "orders", **{"from": row["bucket"], "to": row["bucket"]})["pushMessages"] == 5
    minute = datetime.datetime.fromisoformat(row["bucket"])
    later = (minute + datetime.timedelta(minutes=10)).isoformat().replace("+00:00", "Z")
    assert ops(broker, "orders", **{"from": later, "to": later}) == {}


@pytest.mark.parametrize("minutes, width", [(60, 1), (61, 5), (360, 5), (361, 15), (1440, 15), (1441, 60), (10080, 60), (10081, 360)])
def test_the_width_of_buckets_follows_the_range(broker, minutes, width):
    use(broker)
    end = now() + datetime.timedelta(minutes=1)
    span = {"from": (end - datetime.timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "to": end.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    answer = broker.get("/api/v1/analytics/queue-ops", **span).json()
    assert answer["bucketMinutes"] == width
    lag = broker.get("/api/v1/analytics/queue-lag", **span).json()
    assert {row["bucketMinutes"] for row in lag} == {width}
    for row in answer["series"]:
        minute = int(row["bucket"][14:16])
        assert minute % min(width, 60) == 0 and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:00Z", row["bucket"])
    [pushed] = [row for row in answer["series"] if row["pushMessages"]]
    assert pushed["pushPerSecond"] == round(5 / (width * 60), 2)


def test_instants_are_told_to_the_millisecond_in_ranges_and_system_points(make_broker):
    broker = make_broker(METRICS_FLUSH_MS="1000").start()
    use(broker)
    system = wait_for(lambda: (a := broker.get("/api/v1/analytics/system-metrics").json())["replicas"] and a)
    millis, seconds = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.fullmatch(millis, system["timeRange"]["from"])
    assert re.fullmatch(millis, system["replicas"][0]["timeSeries"][0]["timestamp"])
    assert re.fullmatch(seconds, broker.get("/api/v1/status").json()["throughput"][0]["timestamp"])
    assert re.fullmatch(seconds, broker.get("/api/v1/analytics/queue-lag").json()[0]["bucketTime"])


def test_a_filter_counts_its_queues_alone(broker):
    use(broker, "acme.orders", 5)
    use(broker, "acme.bills", 3)
    use(broker, "other.orders", 2)
    ingested = lambda **filters: sum(p["ingested"] for p in broker.get("/api/v1/status", **filters).json()["throughput"])
    assert ingested() == ingested(queue="") == 10
    assert ingested(queue="acme.orders") == 5
    assert ingested(namespace="acme") == 8
    assert ingested(task="orders") == 7
    assert ingested(namespace="none") == 0
    assert [q["name"] for q in broker.get("/api/v1/status", namespace="other").json()["queues"]] == ["other.orders"]


def test_a_deleted_queue_has_no_rows_and_one_made_again_begins_anew(broker):
    use(broker)
    broker.session.delete(broker.url("/api/v1/resources/queues/orders"), timeout=30)
    answer = broker.get("/api/v1/analytics/queue-ops").json()
    assert answer["series"] == [] and answer["queues"] == []


def test_answers_are_of_the_tenant_that_asks(make_broker):
    broker = make_broker(QUEEN_TENANCY_HEADER="true", QUEEN_KV_TRUSTED_PROXY="true").start()
    use(broker)
    broker.session.headers["x-queen-tenant"] = OTHER
    for route in ("queue-ops", "queue-parked-replicas"):
        assert broker.get(f"/api/v1/analytics/{route}").json()["series"] == []
    assert broker.get("/api/v1/analytics/queue-lag").json() == []
    status = broker.get("/api/v1/status").json()
    assert status["queues"] == [] and status["messages"]["total"] == 0
    assert sum(point["ingested"] for point in status["throughput"]) == 5  # node numbers are cell-wide
    worker = broker.get("/api/v1/analytics/worker-metrics").json()
    assert worker["queues"] == [] and worker["summary"]["totalPushMessages"] == 5
    broker.push(items("theirs", 1))
    broker.session.headers["x-queen-tenant"] = DEFAULT
    assert broker.get("/api/v1/analytics/queue-ops").json()["queues"] == ["orders"]


def test_long_polls_that_wait_are_counted(make_broker):
    broker = make_broker(METRICS_FLUSH_MS="1000").start()
    broker.push(items("orders", 1))
    broker.ack_all(broker.pop("orders", consumerGroup="g", subscriptionMode="all"), "g")

    def poll():
        try:
            broker.session.get(broker.url("/api/v1/pop/queue/orders"), params={"wait": "true", "timeout": "20000", "consumerGroup": "g"}, timeout=30)
        except OSError:
            pass
    threading.Thread(target=poll, daemon=True).start()
    asked = requests.Session()
    wait_for(lambda: 'queen_parked_long_polls{queue="orders"} 1\n' in asked.get(broker.url("/metrics/prometheus"), timeout=10).text)
    series = asked.get(broker.url("/api/v1/analytics/queue-parked-replicas"), timeout=10).json()
    assert [row["parkedCount"] for row in series["series"] if row["queueName"] == "orders"][-1] == 1
    assert len(series["replicas"]) == 1
    assert asked.get(broker.url("/api/v1/status/buffers"), timeout=10).json() == {
        "pending": 0, "failed": 0, "worker": 0, "engine": "raft", "spool": False}


def test_the_signatures_of_dead_letters_fold_what_differs(broker):
    assert broker.get("/api/v1/analytics/dlq-signatures").status_code == 400
    broker.push(items("orders", 3))
    popped = broker.pop("orders", batch=10, consumerGroup="g", subscriptionMode="all")
    broker.post("/api/v1/ack/batch", {"consumerGroup": "g", "acknowledgments": [
        {"transactionId": m["transactionId"], "partitionId": m["partitionId"], "leaseId": m["leaseId"], "status": "dlq",
         "error": f"job {number} died at 2026-01-02T03:04:05Z"} for number, m in enumerate(popped["messages"])]})
    answer = broker.get("/api/v1/analytics/dlq-signatures", queue="orders", limit=2).json()
    assert (answer["rowsNow"], answer["sample"]) == (3, 2)
    assert answer["signatures"] == [{"text": "job <n> died at <date>", "n": 2, "share": 1}]
    assert answer["groups"] == [{"group": "g", "n": 2}] and [day["n"] for day in answer["byDay"]] == [2]


# ---- Prometheus ----

def test_prometheus_text_parses_and_each_family_is_told_once(broker):
    use(broker)
    text = broker.get("/metrics/prometheus").text
    told, family = set(), None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in told
            told.add(family)
        elif line.startswith("# TYPE "):
            assert line.split()[2] == family and line.split()[3] in ("gauge", "counter")
        else:
            match = re.fullmatch(r'([a-z_]+)(\{[a-z]+="(?:[^"\\\n]|\\.)*"(?:,[a-z]+="(?:[^"\\\n]|\\.)*")*\})? ([0-9.e+-]+)', line)
            assert match and match[1] == family, line
    assert {"queen_uptime_seconds", "queen_process_resident_memory_bytes", "queen_raft_index", "queen_raft_inflight",
            "queen_raft_storage_full", "queen_raft_log_storage", "queen_consume_cold_claims_total"} <= told


def test_prometheus_counts_the_process(make_broker):
    broker = make_broker(METRICS_FLUSH_MS="1000").start()
    use(broker, 'a "quoted" \\ name')
    found = samples(broker)
    assert found["queen_process_push_messages_total"] == 5 and found["queen_process_pop_requests_total"] == 2
    assert found["queen_process_ack_messages_total"] == 5 and found["queen_raft_storage_full"] == 0
    assert found['queen_raft_index{kind="log"}'] >= found['queen_raft_index{kind="applied"}'] >= 3
    assert found['queen_raft_log_storage{kind="bytes"}'] > 0
    series = 'queen_queue_pop_lag_milliseconds{queue="a \\"quoted\\" \\\\ name",stat="max"}'
    for _ in range(30):  # of the bucket before this one
        if series in samples(broker):
            return
        use_again = broker.push(items('a "quoted" \\ name', 1, start=int(time.monotonic() * 1000)))
        assert use_again
        popped = broker.pop('a "quoted" \\ name', batch=10, consumerGroup="g")
        if popped:
            broker.ack_all(popped, "g")
        time.sleep(0.3)
    raise AssertionError("no pop lag in nine seconds")


def test_leases_that_ran_out_are_counted_by_group(broker):
    broker.post("/api/v1/configure", {"queue": "orders", "options": {"leaseTime": 1}})
    broker.push(items("orders", 1))
    assert broker.pop("orders", consumerGroup="g", subscriptionMode="all")
    assert broker.pop("orders", consumerGroup="g", wait="true", timeout=10000)
    assert samples(broker)['queen_expired_leases{queue="orders",group="g"}'] == 1
