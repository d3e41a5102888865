"""Pop over HTTP: discovery, the window's limit, repeats of acks, and the engine cases of api-messaging.md 16."""

import json
import socket
import threading
import time

import pytest

LEASE = "00000000-0000-7000-8000-000000000000"


def configure(broker, queue: str, **options) -> dict:
    answer = broker.post("/api/v1/configure", {"queue": queue, "options": options})
    assert answer.status_code == 200, answer.text
    return answer.json()


def push(broker, queue: str, partition: str, *ids: str) -> list[dict]:
    return broker.push([{"queue": queue, "partition": partition, "transactionId": i, "payload": {"id": i}} for i in ids])


def discover(broker, **params) -> dict | None:
    answer = broker.get("/api/v1/pop", **params)
    if answer.status_code == 204:
        return None
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(popped: dict | None) -> list[str]:
    return [] if popped is None else [m["transactionId"] for m in popped["messages"]]


def ack(broker, message: dict, status: str = "completed", lease: str | None = None, group: str | None = None) -> dict:
    body = {"transactionId": message["transactionId"], "partitionId": message["partitionId"], "status": status,
            "leaseId": message["leaseId"] if lease is None else lease}
    if group:
        body["consumerGroup"] = group
    answer = broker.post("/api/v1/ack", body)
    assert answer.status_code == 200, answer.text
    return answer.json()[0]


# ---- discovery: S-8, F-1, F-2 ----


def test_discovery_reads_every_queue_with_the_labels(broker):
    push(broker, "acme.bill.x", "p", "a")
    push(broker, "acme.ship.x", "p", "b")
    push(broker, "other.bill.x", "p", "c")
    assert ids(discover(broker, namespace="acme", task="bill")) == ["a"]
    got = discover(broker, namespace="acme", partitions=64)
    assert ids(got) == ["b"]
    assert got["queue"] == "" and got["partitionsClaimed"] == 1 and "queue" not in got["messages"][0]
    assert ids(discover(broker, task="bill")) == ["c"]
    assert discover(broker, namespace="nobody") is None


def test_discovery_shares_batch_and_partitions(broker):
    for queue in ("ns.a", "ns.b", "ns.c"):
        push(broker, queue, "p", *(f"{queue}-{n}" for n in range(3)))
    got = discover(broker, namespace="ns", batch=5, partitions=3)
    assert len(got["messages"]) == 5 and got["partitionsClaimed"] == 2
    assert len({m["leaseId"] for m in got["messages"]}) == 1 and len({m["partitionId"] for m in got["messages"]}) == 2
    assert [r["success"] for r in broker.ack_all(got)] == [True] * 5


def test_discovery_serves_every_queue_in_turn(broker):
    for queue in ("ns.a", "ns.b", "ns.c"):
        for partition in ("p", "q"):
            push(broker, queue, partition, f"{queue}")
    assert sorted(sum((ids(discover(broker, namespace="ns")) for _ in range(3)), [])) == ["ns.a", "ns.b", "ns.c"]


def test_discovery_makes_no_queue_and_does_not_wait(broker):
    started = time.monotonic()
    assert discover(broker, namespace="later", wait="true", timeout=5000) is None
    assert time.monotonic() - started < 2
    assert broker.get("/api/v1/resources/queues").json()["queues"] == []


def test_discovery_registers_the_group(broker):
    """F-1: a group that starts at its registration gets what is pushed from then on, in every queue with the label."""
    for queue in ("ns.a", "ns.b"):
        push(broker, queue, "p", "old")
    assert discover(broker, namespace="ns", consumerGroup="g") is None
    for queue in ("ns.a", "ns.b"):
        push(broker, queue, "p", f"new-{queue}")
    assert sorted(ids(discover(broker, namespace="ns", consumerGroup="g", partitions=2))) == ["new-ns.a", "new-ns.b"]


def test_discovery_leases_for_a_minute_whatever_the_queue_says(broker):
    configure(broker, "q", leaseTime=1, namespace="ns")
    push(broker, "q", "p", "a")
    assert ids(discover(broker, namespace="ns")) == ["a"]
    time.sleep(1.3)
    assert discover(broker, namespace="ns") is None
    push(broker, "q", "p2", "b")
    assert ids(discover(broker, namespace="ns", leaseSeconds=1)) == ["b"]
    assert ids(broker.pop("q", wait="true", timeout=5000)) == ["b"]


@pytest.mark.parametrize("params,status", [({}, 400), ({"namespace": "", "task": ""}, 400), ({"task": "t", "batch": "x"}, 400),
                                           ({"task": "t", "wait": "maybe"}, 400), ({"task": "t", "conflation": "true"}, 400),
                                           ({"task": "t", "consumerGroup": "g" * 412}, 413)])
def test_discovery_refusals(broker, params, status):
    answer = broker.get("/api/v1/pop", **params)
    assert answer.status_code == status, answer.text
    if not params:
        assert answer.json()["success"] is False and answer.json()["messages"] == []


def test_discovery_has_no_autopilot(broker):
    push(broker, "ns.a", "p", "a")
    assert "autopilot" not in discover(broker, namespace="ns", autopilot="true")


# ---- the window's limit (D4) ----


def test_the_windows_limit_is_an_option_like_others(broker):
    assert configure(broker, "q", windowBuffer=5, windowBufferMaxSeconds=9)["options"]["windowBufferMaxSeconds"] == 9
    assert configure(broker, "q", windowBufferMaxSeconds=None)["options"]["windowBufferMaxSeconds"] == 0
    assert configure(broker, "q", windowBufferMaxSeconds=-3)["options"]["windowBufferMaxSeconds"] == 0
    for wrong in ("5", 1.5, 2**31, True):
        assert broker.post("/api/v1/configure", {"queue": "q", "options": {"windowBufferMaxSeconds": wrong}}).status_code == 400


def test_a_window_lets_go_though_messages_keep_coming(make_broker):
    broker = make_broker().start()
    configure(broker, "q", windowBuffer=2, windowBufferMaxSeconds=3)
    stop = threading.Event()

    def produce():
        number = 0
        while not stop.is_set():
            push(broker, "q", "p", f"m{number}")
            number += 1
            stop.wait(0.3)

    started = time.monotonic()
    thread = threading.Thread(target=produce)
    thread.start()
    try:
        other = type(broker)(broker.directory)
        other.port = broker.port
        got = other.pop("q", wait="true", timeout=15000)
    finally:
        stop.set()
        thread.join()
    assert 2.8 < time.monotonic() - started < 8 and len(ids(got)) > 3


# ---- A-12 ----


@pytest.mark.parametrize("how", ["terminate", "kill9"])
def test_a_repeat_of_the_last_ack_knows_what_was_acked_before_it(make_broker, how):
    broker = make_broker().start()
    push(broker, "q", "p", "a", "b", "c", "d")
    got = broker.pop("q")
    first, _, third, last = got["messages"]
    assert ack(broker, first)["leaseReleased"] is False
    getattr(broker, how)()
    broker.start()
    assert ack(broker, third)["leaseReleased"] is False
    assert ack(broker, last)["leaseReleased"] is True
    getattr(broker, how)()
    broker.start()
    assert [(r["success"], r["leaseReleased"]) for r in broker.ack_all(got)] == [(True, True)] * 4


# ---- section 16 ----


def test_case_1_a_lease_excludes_its_group_alone(broker):
    push(broker, "q", "p", "a")
    assert ids(broker.pop("q", "p", consumerGroup="g", subscriptionMode="all")) == ["a"]
    assert broker.pop("q", "p", consumerGroup="g") is None
    assert broker.pop("q", consumerGroup="g", subscriptionMode="all") is None
    assert ids(broker.pop("q", consumerGroup="other", subscriptionMode="all")) == ["a"]


def test_case_2_twenty_pops_deliver_each_first_batch_once(broker):
    for p in range(8):
        push(broker, "q", f"p{p}", *(f"{p}-{n}" for n in range(3)))
    seen = sum((ids(broker.pop("q", batch=2, partitions=3)) for _ in range(20)), [])
    # A pop of two takes two of one partition, so every pop serves one.
    assert sorted(seen) == sorted(f"{p}-{n}" for p in range(8) for n in range(2))


def test_case_3_a_batch_spans_appends(broker):
    for batch in (("a", "b"), ("c",), ("d", "e")):
        push(broker, "q", "p", *batch)
    got = broker.pop("q", batch=4)
    assert [m["offset"] for m in got["messages"]] == [0, 1, 2, 3]
    broker.ack_all(got)
    assert [m["offset"] for m in broker.pop("q", batch=4)["messages"]] == [4]


def test_case_4_attempts_count_expiries_and_retries_and_no_lost_answer(broker):
    push(broker, "q", "p", "a")
    attempts = []
    for _ in range(3):
        got = broker.pop("q", wait="true", timeout=5000, leaseSeconds=1)
        attempts.append(got["messages"][0]["deliveryAttempt"])
    ack(broker, got["messages"][0], "retry")
    # An answer that nobody reads: the connection goes while the claim is on its way.
    with socket.create_connection(("127.0.0.1", broker.port)) as lost:
        lost.sendall(b"GET /api/v1/pop/queue/q HTTP/1.1\r\nHost: q\r\n\r\n")
        lost.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    got = broker.pop("q", wait="true", timeout=5000)
    if got is None:  # the answer had left before the connection went; then its lease is a real one
        pytest.skip("the answer was delivered to the kernel")
    attempts.append(got["messages"][0]["deliveryAttempt"])
    assert attempts == [1, 2, 3, 4]


@pytest.mark.parametrize("how", ["terminate", "kill9"])
def test_case_5_a_group_registered_by_an_empty_pop_survives(make_broker, how):
    broker = make_broker().start()
    push(broker, "q", "old", "a")
    assert broker.pop("q", consumerGroup="g", subscriptionMode="new") is None
    getattr(broker, how)()
    broker.start()
    push(broker, "q", "young", "b")
    assert ids(broker.pop("q", consumerGroup="g")) == ["b"]


def test_case_6_a_stored_all_group_reads_on_whatever_a_pop_says(broker):
    push(broker, "q", "p", "a", "b")
    got = broker.pop("q", consumerGroup="g", subscriptionMode="all", batch=1)
    broker.ack_all(got, group="g")
    assert ids(broker.pop("q", consumerGroup="g", subscriptionMode="new")) == ["b"]


def test_case_7_a_pinned_pop_first_leaves_the_other_partitions_their_backlog(broker):
    push(broker, "q", "p1", "a")
    push(broker, "q", "p2", "b")
    assert broker.pop("q", "p1", consumerGroup="g", subscriptionMode="new") is None
    got = broker.pop("q", consumerGroup="g", subscriptionMode="all", partitions=64)
    assert ids(got) == ["b"]


def test_case_8_retention_moves_the_start_and_an_emptied_partition_the_cursor(make_broker):
    broker = make_broker(RETENTION_INTERVAL="50").start()
    configure(broker, "q", retentionEnabled=True, retentionSeconds=2)
    push(broker, "q", "p", "a", "b")
    time.sleep(1.5)
    push(broker, "q", "p", "c", "d")

    def start() -> int:
        return broker.post("/api/v1/fetch/offsets", {"entries": [{"queue": "q", "partition": "p", "timestamp": 0}]}
                           ).json()["entries"][0]["logStartOffset"]

    deadline = time.monotonic() + 10
    while start() < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    got = broker.pop("q", batch=1, leaseSeconds=1)
    assert [m["offset"] for m in got["messages"]] == [2]
    deadline = time.monotonic() + 20
    while start() < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.1)
    assert broker.pop("q", "p") is None
    summary = next(q for q in broker.get("/api/v1/resources/queues").json()["queues"] if q["name"] == "q")
    assert summary["messages"]["pending"] == 0, summary


def test_case_9_two_groups_both_get_the_first_message_of_a_new_partition(broker):
    answers: dict[str, list[str]] = {}

    def wait_for(group: str):
        own = type(broker)(broker.directory)
        own.port = broker.port
        answers[group] = ids(own.pop("q", consumerGroup=group, wait="true", timeout=20000))

    threads = [threading.Thread(target=wait_for, args=(group,)) for group in ("one", "two")]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    push(broker, "q", "made-now", "a")
    for thread in threads:
        thread.join()
    assert answers == {"one": ["a"], "two": ["a"]}


def test_case_13_one_wrong_lease_fails_its_partition_alone(broker):
    push(broker, "q", "p1", "a")
    push(broker, "q", "p2", "b")
    one, two = broker.pop("q", partitions=2)["messages"]
    body = {"acknowledgments": [
        {"transactionId": one["transactionId"], "partitionId": one["partitionId"], "leaseId": LEASE},
        {"transactionId": two["transactionId"], "partitionId": two["partitionId"], "leaseId": two["leaseId"]}]}
    first, second = broker.post("/api/v1/ack/batch", body).json()
    assert (first["index"], first["success"], first["error"]) == (0, False, "invalid or expired lease")
    assert (second["index"], second["success"], second["leaseReleased"]) == (1, True, True)


def test_case_17_a_partition_over_the_entry_limit_fails_alone(make_broker):
    broker = make_broker(QUEEN_RAFT_ENTRY_MAX_BYTES="100000").start()
    items = [{"queue": "q", "partition": p, "transactionId": f"{p}{n}", "payload": "x" * (60_000 if p == "big" else 10)}
             for p in ("one", "big", "two") for n in range(2)]
    assert [(r["status"], "offset" in r) for r in broker.push(items)] == \
        [("queued", True)] * 2 + [("error", False)] * 2 + [("queued", True)] * 2


def test_case_18_a_full_pass_meets_each_partition_once_while_others_are_made(broker):
    push(broker, "q", "seed", "x")
    for n in range(150):
        push(broker, "q", f"before{n}", "x")
    stop = threading.Event()

    def create():
        own = type(broker)(broker.directory)
        own.port = broker.port
        n = 0
        while not stop.is_set():
            push(own, "q", f"during{n}", "x")
            n += 1

    thread = threading.Thread(target=create)
    thread.start()
    names: list[str] = []
    after = None
    try:
        while True:
            page = broker.post("/api/v1/partitions/changed", {"entries": [{"queue": "q", "limit": 7, "after": after}]}
                               ).json()["entries"][0]
            names += [p["name"] for p in page["partitions"]]
            after = page["next"]
            if after is None or len(names) > 5000:
                break
            if len(names) > 200:
                stop.set()
    finally:
        stop.set()
        thread.join()
    assert len(names) == len(set(names))
    assert {"seed", *(f"before{n}" for n in range(150))} <= set(names)


# ---- conflation over HTTP: C-3, C-4 ----


def test_an_empty_answer_with_a_conflation_flag_is_200(broker):
    push(broker, "q", "p", "a", "b")
    got = broker.pop("q", consumerGroup="g", subscriptionMode="all", conflation="true")
    assert ids(got) == ["b"] and got["conflation"] is True and "conflationConflict" not in got
    again = broker.pop("q", consumerGroup="g", conflation="false")
    assert again["messages"] == [] and again["conflation"] is True and again["conflationConflict"] is True
    assert ack(broker, got["messages"][0], group="g")["leaseReleased"] is True


# ---- HD-35 ----


def test_a_client_that_never_reads_loses_its_connection_and_gives_its_leases_back(make_broker):
    broker = make_broker(QUEEN_HTTP_WRITE_TIMEOUT_MS="1000").start()
    payload = "x" * 200_000
    for n in range(60):
        broker.push([{"queue": "big", "partition": "p", "transactionId": f"m{n}", "payload": payload}])
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", broker.port))
        deaf.sendall(b"GET /api/v1/pop/queue/big?leaseSeconds=600 HTTP/1.1\r\nHost: q\r\n\r\n")
        time.sleep(0.3)
        assert broker.pop("big") is None  # leased to it
        got = broker.pop("big", wait="true", timeout=15000, batch=1)
        assert got is not None and got["messages"][0]["deliveryAttempt"] == 1
        line = next(line for line in broker.log().splitlines() if "http_write_timeout" in line)
        assert f"127.0.0.1:{deaf.getsockname()[1]}" in line and "/api/v1/pop/queue/big" in line


# ---- admission before the body (3.3) ----


def test_a_push_that_waits_for_room_is_not_read(make_broker):
    """One slow uploader holds the room; another large push waits without being read and is then refused."""
    broker = make_broker(QUEEN_RAFT_ADMIT_MAX_MB="1", QUEEN_RAFT_ADMIT_HOLD_MS="1000").start()
    body = json.dumps({"items": [{"queue": "q", "payload": "x" * 3_000_000}]}).encode()
    head = f"POST /api/v1/push HTTP/1.1\r\nHost: q\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", broker.port)) as slow:
        slow.sendall(head + body[:20_000])
        time.sleep(0.3)
        refused = broker.post("/api/v1/push", body)
        assert refused.status_code == 429 and refused.json()["code"] == "overloaded" and "Retry-After" in refused.headers
        slow.sendall(body[20_000:])
        assert slow.recv(4096).startswith(b"HTTP/1.1 201")
    broker.session.close()
    assert broker.post("/api/v1/push", body).status_code == 201
    assert len(broker.fetch_all("q", "Default")) == 2
