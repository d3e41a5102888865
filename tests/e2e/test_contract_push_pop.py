"""Push and pop against the HTTP contract, rule by rule."""

import json
import re
import socket
import threading
import time

import pytest

STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
UUID7 = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")


def item(queue="q", partition="p", payload=1, **more):
    return {"queue": queue, "partition": partition, "payload": payload, **more}


def data_of(answer):
    return [m["data"] for m in answer["messages"]] if answer else []


def raw(broker, request: bytes, seconds: float = 5) -> bytes:
    """All that the broker sends on a connection of its own until it closes it."""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=seconds) as line:
        line.sendall(request)
        out = b""
        while True:
            piece = line.recv(65536)
            if not piece:
                return out
            out += piece


def in_background(call):
    got = []
    thread = threading.Thread(target=lambda: got.append((call(), time.monotonic())))
    thread.start()
    return thread, got


def until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        got = condition()
        if got:
            return got
        time.sleep(0.02)
    raise AssertionError("the condition does not come")


# ---- shared rules -------------------------------------------------------------------------------------------


def test_a_204_has_no_body_framing(broker):
    """R-1."""
    answer = raw(broker, b"GET /api/v1/pop/queue/none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    head, body = answer.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 204") and body == b""
    assert b"content-length" not in head.lower() and b"transfer-encoding" not in head.lower() and b"content-type" not in head.lower()


@pytest.mark.parametrize("segment,name", [("a%2Fb", "a/b"), ("a%zz", "a%zz"), ("a+b", "a+b"), ("a%20b", "a b"), ("%C3%A9", "é"), ("50%", "50%")])
def test_path_segments_are_percent_decoded(broker, segment, name):
    """1.1: a percent sign without two hex digits is kept."""
    broker.push([item(name)])
    answer = raw(broker, f"GET /api/v1/pop/queue/{segment} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["queue"] == name


@pytest.mark.parametrize("method,path", [("GET", "/api/v1/push"), ("POST", "/api/v1/pop/queue/q"), ("DELETE", "/api/v1/queues/q/clear"),
                                         ("GET", "/api/v1/system/maintenance"), ("GET", "/api/nothing")])
def test_unknown_routes_answer_their_code(broker, method, path):
    """1.1, 2."""
    answer = broker.session.request(method, broker.url(path))
    assert answer.status_code == 404
    assert answer.json() == {"code": "no_such_route", "error": "not found", "path": path}


def test_head_never_hands_out_messages(broker):
    """1.1: only the methods of the route index exist; a HEAD must not consume."""
    broker.push([item()])
    broker.session.head(broker.url("/api/v1/pop/queue/q?commitOnDelivery=true"))
    assert data_of(broker.pop("q")) == [1]


def test_reserved_tenant_is_refused(make_broker):
    """1.2, operations 13.1."""
    broker = make_broker(QUEEN_TENANCY_HEADER="true", QUEEN_KV_TRUSTED_PROXY="true").start()
    answer = broker.session.get(broker.url("/api/v1/resources/queues"), headers={"x-queen-tenant": "00000000-0000-0000-0000-00000000fffe"})
    assert (answer.status_code, answer.json()["code"]) == (403, "reserved_tenant")


def test_tenant_header_is_ignored_when_off(broker):
    """1.2."""
    answer = broker.session.get(broker.url("/api/v1/resources/queues"), headers={"x-queen-tenant": "abc"})
    assert answer.status_code == 200


@pytest.mark.parametrize("queue,partition,fits", [(400, 11, True), (400, 12, False), (411, 0, True), (412, 0, False)])
def test_name_budget(broker, queue, partition, fits):
    """1.5: 411 bytes remain to the default tenant; `Default` counts when no partition is named."""
    room = 7 if partition == 0 else 0
    answer = broker.post("/api/v1/push", {"items": [{"queue": "n" * (queue - room), "partition": "p" * partition, "payload": 1}]})
    assert answer.status_code == (201 if fits else 413)
    if not fits:
        assert answer.json()["code"] == "name_too_long"


def test_name_budget_of_a_pop_counts_the_group(broker):
    """1.5, 4.1."""
    assert broker.get("/api/v1/pop/queue/" + "n" * 400, consumerGroup="g" * 12).status_code == 413
    assert broker.get("/api/v1/pop/queue/" + "n" * 411).status_code == 204


@pytest.mark.parametrize("path,code", [("/api/v1/push", "bad_body"), ("/api/v1/ack", "bad_body"), ("/api/v1/configure", "bad_body"),
                                       ("/api/v1/fetch", "bad_body"), ("/api/v1/partitions/changed", "bad_body")])
def test_a_body_that_is_not_utf8_is_refused(broker, path, code):
    """HD-26."""
    answer = broker.post(path, b'{"queue":"q\xff","items":[],"entries":[],"transactionId":"\xff","partitionId":"1"}')
    assert (answer.status_code, answer.json().get("code")) == (400, code)


# ---- push ---------------------------------------------------------------------------------------------------


def test_items_keep_their_order_without_gaps(broker):
    """P-1, P-2: duplicates consume no offset."""
    first = broker.push([item(transactionId=t) for t in "abacab"])
    assert [(r["status"], r["offset"]) for r in first] == [("queued", 0), ("queued", 1), ("duplicate", 0), ("queued", 2), ("duplicate", 0), ("duplicate", 1)]
    assert [r["index"] for r in first] == list(range(6))
    assert broker.push([item(transactionId="d")])[0]["offset"] == 3


def test_stamps_are_shared_by_a_push_and_ascend(broker):
    """P-3."""
    for _ in range(5):
        broker.push([item(), item(), item(partition="other")])
    stamps = [r["ts"] for r in broker.fetch_all("q", "p")]
    assert all(STAMP.match(s) for s in stamps)
    assert stamps[0::2] == stamps[1::2] and sorted(set(stamps)) == stamps[0::2]
    assert [r["ts"] for r in broker.fetch_all("q", "other")] == stamps[0::2]


def test_message_ids_are_uuid7_and_distinct(broker):
    """1.5, push suite 7."""
    ids = [r["message_id"] for r in broker.push([item() for _ in range(100)])]
    assert len(set(ids)) == 100 and all(UUID7.match(i) for i in ids)


def test_a_refused_push_creates_nothing(broker):
    """P-5, and the whole request is refused for one item."""
    bad = [{"queue": "fine", "payload": 1}, {"queue": "broken"}]
    assert broker.post("/api/v1/push", {"items": bad}).status_code == 400
    assert broker.get("/api/v1/resources/queues").json()["queues"] == []


@pytest.mark.parametrize("queue,labels", [("acme.bill.x", ("acme", "bill")), ("orders", ("orders", None)), ("a.b", ("a", "b"))])
def test_labels_come_from_the_name(broker, queue, labels):
    """P-6, by push and by a pop that creates (F-2)."""
    broker.push([item(queue)])
    broker.pop(queue + "2")
    rows = {r["name"]: r for r in broker.get("/api/v1/resources/queues").json()["queues"]}
    assert (rows[queue]["namespace"], rows[queue]["task"]) == labels
    assert rows[queue + "2"]["options"]["leaseTime"] == 60 and rows[queue]["options"]["leaseTime"] == 60


def test_the_same_id_elsewhere_is_another_message(broker):
    """P-7."""
    got = broker.push([item(transactionId="t"), item(partition="p2", transactionId="t"), item("q2", transactionId="t")])
    assert [r["status"] for r in got] == ["queued"] * 3


def test_dedup_window_ends(broker):
    """P-8."""
    broker.post("/api/v1/configure", {"queue": "q", "options": {"dedupWindowSeconds": 1}})
    first = broker.push([item(transactionId="t")])[0]
    assert broker.push([item(transactionId="t")])[0]["status"] == "duplicate"
    again = until(lambda: [r for r in broker.push([item(transactionId="t")]) if r["status"] == "queued"], 5)
    assert again[0]["offset"] == 1 and again[0]["message_id"] != first["message_id"]


def test_dedup_off_still_folds_one_request(broker):
    """P-8, P-9."""
    broker.post("/api/v1/configure", {"queue": "q", "options": {"dedupWindowSeconds": 0}})
    first = broker.push([item(transactionId="t"), item(transactionId="t")])
    assert [r["status"] for r in first] == ["queued", "duplicate"] and first[0]["message_id"] == first[1]["message_id"]
    assert broker.push([item(transactionId="t")])[0]["status"] == "queued"


def test_repeats_of_a_stored_id_carry_the_stored_message(broker):
    """P-9, push suite 5."""
    stored = broker.push([item(transactionId="t")])[0]
    again = broker.push([item(transactionId="t", payload=2), item(transactionId="t", payload=3)])
    assert [(r["status"], r["message_id"], r["offset"]) for r in again] == [("duplicate", stored["message_id"], 0)] * 2


@pytest.mark.parametrize("how", ["terminate", "kill9"])
def test_dedup_survives_a_restart(make_broker, how):
    """P-8, P-12."""
    broker = make_broker().start()
    stored = broker.push([item(transactionId=f"t{i}") for i in range(50)])
    getattr(broker, how)()
    broker.start()
    again = broker.push([item(transactionId=f"t{i}") for i in range(50)])
    assert {r["status"] for r in again} == {"duplicate"}
    assert [r["message_id"] for r in again] == [r["message_id"] for r in stored]


def test_an_empty_transaction_id_is_a_key(broker):
    """3.1."""
    assert [r["status"] for r in broker.push([item(transactionId=""), item(transactionId="")])] == ["queued", "duplicate"]


def test_trace_ids_are_kept_when_they_are_uuids(broker):
    """3.1, ruling: traceId is stored for plain pushes."""
    trace = "0192d3a4-0001-7aaa-8bbb-000000000001"
    broker.push([item(traceId=trace), item(traceId="not-a-uuid"), item(traceId=None)])
    assert [m["traceId"] for m in broker.pop("q")["messages"]] == [trace, None, None]


def test_an_oversize_partition_fails_alone(make_broker):
    """3.3, engine case 17."""
    broker = make_broker(QUEEN_RAFT_ENTRY_MAX_BYTES="10000").start()
    got = broker.push([item(partition="a"), item(partition="b", payload="x" * 20000), item(partition="c")])
    assert [r["status"] for r in got] == ["queued", "error", "queued"]
    assert "offset" not in got[1] and UUID7.match(got[1]["message_id"])
    assert broker.push([item(partition="b")])[0]["offset"] == 0


def test_a_queue_with_encryption_refuses_plaintext(broker):
    """P-13 with the ruling: without a key the push is refused whole."""
    broker.post("/api/v1/configure", {"queue": "secret", "options": {"encryptionEnabled": True}})
    answer = broker.post("/api/v1/push", {"items": [item("open"), item("secret")]})
    assert answer.status_code == 400, answer.text
    assert answer.json()["code"] == "encryption_required" and broker.pop("open") is None


# ---- long poll ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [40, 400, 1500])
def test_the_204_comes_no_later_than_the_timeout(broker, timeout):
    """W-2."""
    broker.pop("q")
    started = time.monotonic()
    assert broker.pop("q", wait="true", timeout=timeout) is None
    took = (time.monotonic() - started) * 1000
    assert timeout - min(250, timeout / 4) - 5 <= took <= timeout + 30


def test_a_pinned_long_poll_waits_for_its_creation(broker):
    """W-3, P-14."""
    thread, got = in_background(lambda: broker.pop("new", "part", wait="true", timeout=20000))
    time.sleep(0.3)
    sent = time.monotonic()
    broker.session.__class__().post(broker.url("/api/v1/push"), json={"items": [item("new", "part")]})
    thread.join(10)
    assert data_of(got[0][0]) == [1] and got[0][1] - sent < 0.5


@pytest.mark.parametrize("option,value", [("delayedProcessing", 1), ("windowBuffer", 1)])
def test_a_running_hold_wakes_the_long_poll(broker, option, value):
    """W-4, 4.6, push suite 13 and 14."""
    broker.post("/api/v1/configure", {"queue": "q", "options": {option: value}})
    started = time.monotonic()
    broker.push([item(), item()])
    assert broker.pop("q") is None
    got = broker.pop("q", wait="true", timeout=10000)
    assert len(got["messages"]) == 2 and 0.98 <= time.monotonic() - started < 1.5


def test_a_lapsed_lease_wakes_the_long_poll(broker):
    """W-4, semantics suite 9."""
    broker.push([item()])
    started = time.monotonic()
    broker.pop("q", leaseSeconds=1)
    got = broker.pop("q", wait="true", timeout=10000)
    assert got["messages"][0]["deliveryAttempt"] == 2 and time.monotonic() - started < 1.5


def test_a_client_that_leaves_takes_no_lease(broker):
    """W-5."""
    broker.pop("q", consumerGroup="g", subscriptionMode="all")
    for _ in range(3):
        line = socket.create_connection(("127.0.0.1", broker.port))
        line.sendall(b"GET /api/v1/pop/queue/q?consumerGroup=g&wait=true&timeout=20000 HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.1)
        line.close()
    time.sleep(0.1)
    broker.push([item()])
    assert until(lambda: broker.pop("q", consumerGroup="g"), 2)["messages"][0]["deliveryAttempt"] == 1


# ---- choice of partitions -----------------------------------------------------------------------------------


def test_sizes_are_clamped(broker):
    """4.1: batch up from 1, partitions 1 to 64."""
    broker.push([item(partition=f"p{i}") for i in range(70)])
    assert len(broker.pop("q", batch=-5)["messages"]) == 1
    assert broker.pop("q", batch=1000, partitions=500)["partitionsClaimed"] == 64
    assert broker.pop("q", batch=1000, partitions=0)["partitionsClaimed"] == 1


def test_without_partitions_one_partition_is_claimed(broker):
    """Pop suite 7, S-2: every ready partition is served in the end."""
    broker.push([item(partition=f"p{p}", payload=p) for p in range(4) for _ in range(5)])
    seen = []
    for _ in range(4):
        got = broker.pop("q")
        assert len(got["messages"]) == 5 and got["partitionsClaimed"] == 1
        seen.append(got["partition"])
    assert sorted(seen) == ["p0", "p1", "p2", "p3"] and broker.pop("q") is None


def test_a_busy_partition_starves_none(broker):
    """S-2: a partition that still has data goes to the back."""
    broker.push([item(partition="busy", payload="b") for _ in range(50)] + [item(partition="calm", payload="c")])
    seen = []
    for _ in range(3):
        got = broker.pop("q", batch=1)
        seen += data_of(got)
        broker.ack_all(got)
    assert "c" in seen


def test_a_batch_spans_appends(broker):
    """Engine case 3."""
    for count in (2, 1, 2):
        broker.push([item() for _ in range(count)])
    got = broker.pop("q", batch=4)
    assert [m["offset"] for m in got["messages"]] == [0, 1, 2, 3]
    broker.ack_all(got)
    assert [m["offset"] for m in broker.pop("q", batch=4)["messages"]] == [4]


def test_no_partition_is_held_twice(broker):
    """S-7, engine case 2."""
    broker.push([item(partition=f"p{p}", payload=[p, i]) for p in range(8) for i in range(3)])
    seen = [tuple(d) for _ in range(20) for d in data_of(broker.pop("q", batch=2, partitions=3))]
    assert len(seen) == len(set(seen))
    assert {d for d in seen if d[1] == 0} == {(p, 0) for p in range(8)}


def test_the_first_pop_stores_the_subscription(broker):
    """F-1: later modes are ignored; engine case 6."""
    broker.push([item(payload="old")])
    assert broker.pop("q", consumerGroup="g") is None
    assert broker.pop("q", consumerGroup="g", subscriptionMode="all") is None
    broker.push([item(payload="new")])
    assert data_of(broker.pop("q", consumerGroup="g", subscriptionMode="all")) == ["new"]


def test_new_takes_everything_of_a_later_partition(broker):
    """F-3, semantics suite 7, engine case 5 over a restart."""
    broker.push([item(partition="old")])
    assert broker.pop("q", consumerGroup="g", partitions=64) is None
    broker.kill9()
    broker.start()
    broker.push([item(partition="later", payload="n")])
    assert data_of(broker.pop("q", consumerGroup="g", partitions=64)) == ["n"]


@pytest.mark.parametrize("word,old", [("new", False), (" NEW-only ", False), ("new_only", False), ("newonly", False), ("all", True),
                                      ("earliest", True), ("typo", True), ("", True)])
def test_words_of_the_mode(broker, word, old):
    """4.1."""
    broker.push([item()])
    assert (broker.pop("q", consumerGroup="g", subscriptionMode=word) is not None) == old


def test_from_an_instant(broker):
    """F-3, 4.1: the instant wins over the mode; now and nonsense too."""
    broker.push([item(payload=0)])
    stamp = broker.fetch_all("q", "p")[0]["ts"]
    time.sleep(0.01)
    broker.push([item(payload=1)])
    assert data_of(broker.pop("q", consumerGroup="a", subscriptionFrom=stamp, subscriptionMode="new")) == [0, 1]
    later = broker.fetch_all("q", "p")[1]["ts"]
    assert data_of(broker.pop("q", consumerGroup="b", subscriptionFrom=later, subscriptionMode="all")) == [1]
    assert broker.pop("q", consumerGroup="c", subscriptionFrom="NOW", subscriptionMode="all") is None
    assert data_of(broker.pop("q", consumerGroup="d", subscriptionFrom="never", subscriptionMode="all")) == [0, 1]
    assert broker.pop("q", consumerGroup="e", subscriptionFrom="2099-01-01T00:00:00Z", subscriptionMode="all") is None


def test_queue_mode_starts_at_the_oldest(broker):
    """F-4; an empty group is an absent one."""
    broker.push([item(payload=0)])
    got = broker.pop("q", subscriptionMode="new", consumerGroup="")
    assert data_of(got) == [0] and got["consumerGroup"] == "__QUEUE_MODE__"


def test_a_pinned_pop_registers_nothing(broker):
    """F-5, F-2, F-6, engine case 7."""
    assert broker.pop("nowhere", "p") is None
    assert broker.get("/api/v1/resources/queues").json()["queues"] == []
    broker.push([item(partition="a", payload="a"), item(partition="b", payload="b")])
    assert broker.pop("q", "a", consumerGroup="g") is None
    broker.push([item(partition="a", payload="a2")])
    got = broker.pop("q", consumerGroup="g", subscriptionMode="all", partitions=9)
    assert sorted(data_of(got)) == ["a2", "b"]


def test_default_subscription_mode(make_broker):
    """Configuration 14.12."""
    for word, old in (("New-Only", False), ("latest", True)):
        broker = make_broker(word, DEFAULT_SUBSCRIPTION_MODE=word).start()
        broker.push([item()])
        assert (broker.pop("q", consumerGroup="g") is not None) == old


# ---- conflation, autopilot, commit at delivery --------------------------------------------------------------


def test_conflation_leases_the_span(broker):
    """C-1, C-2, C-3: one message a partition, the stored policy wins."""
    broker.push([item(partition=p, payload=i, transactionId=f"{p}{i}") for p in "ab" for i in range(5)])
    got = broker.pop("q", consumerGroup="g", conflation="true", subscriptionMode="all")
    assert data_of(got) == [4, 4] and got["partitionsClaimed"] == 2 and list(got)[-1] == "conflation"
    assert all(r["success"] and r["leaseReleased"] for r in broker.ack_all(got, "g"))
    empty = broker.get("/api/v1/pop/queue/q", consumerGroup="g", conflation="false")
    assert empty.status_code == 200 and empty.json()["conflation"] is True and empty.json()["conflationConflict"] is True


def test_conflation_refusals(broker):
    """4.1: without a group; with commit at delivery, naming both switches."""
    for query in ({"conflation": "true"}, {"conflation": "true", "consumerGroup": "g", "autoAck": "true"}):
        answer = broker.get("/api/v1/pop/queue/q", **query)
        assert answer.status_code == 400 and list(answer.json()) == ["success", "error", "messages"]
    assert "commitOnDelivery" in answer.json()["error"] and "autoAck" in answer.json()["error"]


def test_autopilot_tells_what_it_chose(broker):
    """4.2."""
    broker.push([item() for _ in range(300)])
    got = broker.pop("q", autopilot="true")
    assert list(got)[-1] == "autopilot" and list(got["autopilot"]) == ["partitions", "batch"]
    assert 100 <= got["autopilot"]["batch"] <= 1000 and len(got["messages"]) <= got["autopilot"]["batch"]
    sent = broker.pop("q", autopilot="true", batch=3, partitions=2)
    assert sent is None or "autopilot" not in sent


@pytest.mark.parametrize("name", ["commitOnDelivery", "autoAck"])
def test_commit_at_delivery(broker, name):
    """L-10, L-8."""
    broker.push([item(payload=i) for i in range(4)])
    got = broker.pop("q", batch=2, **{name: "true"})
    assert data_of(got) == [0, 1] and got["leaseId"] == "" and {m["leaseId"] for m in got["messages"]} == {""}
    assert data_of(broker.pop("q", batch=2)) == [2, 3]


def resident_mib(broker):
    with open(f"/proc/{broker.process.pid}/status") as status:
        return [int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS")][0]


def test_pops_nobody_reads_are_bounded_in_memory(broker):
    """HD-35: six groups ask for 100 MB each and read nothing."""
    for i in range(25):
        broker.push([item(payload=str(i) + "x" * 4_000_000)])
    lines = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(6)]
    for group, line in enumerate(lines):
        line.sendall(b"GET /api/v1/pop/queue/q?consumerGroup=g%d&subscriptionMode=all&batch=1000000 HTTP/1.1\r\nHost: x\r\n\r\n" % group)
    most, end = 0, time.monotonic() + 3
    while time.monotonic() < end:
        most = max(most, resident_mib(broker))
        time.sleep(0.02)
    for line in lines:
        line.close()
    assert most < 400, f"{most} MiB"


def test_a_parked_pop_answers_at_sigterm(broker):
    """Operations 16, ruling: 204 at once, exit 0."""
    got = []
    thread = threading.Thread(target=lambda: got.append(broker.session.__class__().get(
        broker.url("/api/v1/pop/queue/q?wait=true&timeout=60000"), timeout=70).status_code))
    thread.start()
    time.sleep(0.3)
    started = time.monotonic()
    assert broker.terminate() == 0
    thread.join(5)
    assert got == [204] and time.monotonic() - started < 3
