"""KV, reads by offset, queues, health, settings against the contract, rule by rule."""

import json
import re
import socket
import subprocess
import time

import pytest

STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
KV_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,5}[1-9])?\+00:00$")


def item(queue="q", partition="p", payload=1, **more):
    return {"queue": queue, "partition": partition, "payload": payload, **more}


def kv(broker, *ops):
    answer = broker.post("/api/v1/kv", {"operations": list(ops)})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def put(key="k", value=1, **more):
    return {"op": "put", "ns": "n", "key": key, "value": value, **({} if "ttlSeconds" in more else {"forever": True}), **more}


def get(key="k"):
    return {"op": "get", "ns": "n", "key": key}


def delete(key="k", **more):
    return {"op": "delete", "ns": "n", "key": key, **more}


# ---- KV -----------------------------------------------------------------------------------------------------


def test_elements_have_their_fields_in_order(broker):
    """KV 1.3."""
    rows = kv(broker, put("a", {"x": 1.50}), put("b", 1, expect=7), get("a"), get("none"), {"op": "getMany", "ns": "n", "keys": ["a", "z"]},
              {"op": "getPrefix", "ns": "n", "prefix": "a"}, delete("c"))
    names = [["index", "op", "applied", "key", "value", "version"], ["index", "op", "applied", "reason", "key", "value", "version"],
             ["index", "op", "found", "key", "value", "version", "expiresAt", "updatedAt"], ["index", "op", "found", "key"],
             ["index", "op", "rows", "missing", "truncated"], ["index", "op", "rows", "truncated", "nextAfter"],
             ["index", "op", "applied", "reason", "key", "value", "version"]]
    assert [list(r) for r in rows] == names and [r["index"] for r in rows] == list(range(7))
    assert (rows[1]["reason"], rows[1]["value"], rows[1]["version"], rows[6]["reason"]) == ("absent", None, 0, "absent")
    assert rows[2]["expiresAt"] is None and KV_STAMP.match(rows[2]["updatedAt"])
    assert list(rows[4]["rows"][0]) == ["key", "value", "version", "expiresAt", "updatedAt"] and rows[4]["missing"] == ["z"]
    assert rows[5]["nextAfter"] is None and rows[5]["truncated"] is False


def test_bodies_and_the_empty_call(broker):
    """Conventions: a bare array or an object; an empty one answers []."""
    assert broker.post("/api/v1/kv", [put()]).json()["results"][0]["applied"] is True
    for body in ([], {"operations": []}):
        assert broker.post("/api/v1/kv", body).json() == {"results": []}


def test_a_value_keeps_its_text(broker):
    """Ruling D6."""
    broker.post("/api/v1/kv", '[{"op":"put","ns":"n","key":"k","value":{"a":1.50, "b":1e2},"forever":true}]')
    assert '"value":{"a":1.50, "b":1e2}' in broker.post("/api/v1/kv", [get()]).text


REFUSED = [
    ("{", "kv_bad_body"), ("7", "kv_bad_body"), ('{"operations":7}', "kv_bad_body"), ("{}", "kv_bad_body"), (b'["\xff"]', "kv_bad_body"),
    ([7], "kv_bad_request"), ([{"op": "nope"}], "kv_unknown_op"), ([{"ns": "n"}], "kv_unknown_op"),
    ([{**get(), "tenant": "x"}], "kv_tenant_not_an_input"), ([{**get(), "tenantId": None}], "kv_tenant_not_an_input"),
    ([{**get(), "_tenant": 1}], "kv_tenant_not_an_input"),
    ([{**get(), "ns": "Upper"}], "kv_bad_namespace"), ([{**get(), "ns": ".x"}], "kv_bad_namespace"), ([{**get(), "ns": "n" * 65}], "kv_bad_namespace"),
    ([{"op": "get", "key": "k"}], "kv_bad_namespace"), ([{**get(), "ns": ["n"]}], "kv_bad_request"),
    ([get("")], "kv_bad_key"), ([{"op": "get", "ns": "n"}], "kv_bad_key"), ([get("a\0b")], "kv_bad_key"), ([get({})], "kv_bad_request"),
    ([{"op": "getPrefix", "ns": "n"}], "kv_prefix_required"), ([{"op": "getPrefix", "ns": "n", "prefix": ""}], "kv_prefix_required"),
    ([{"op": "getMany", "ns": "n", "keys": "k"}], "kv_bad_request"),
    ([{"op": "put", "ns": "n", "key": "k", "value": 1}], "kv_expiry_not_specified"), ([put(ttlSeconds=5, forever=True)], "kv_expiry_not_specified"),
    ([{"op": "put", "ns": "n", "key": "k", "value": 1, "forever": False}], "kv_expiry_not_specified"),
    *[([put(ttlSeconds=t)], "kv_bad_ttl") for t in (1.5, "30", None, 0, -1)],
    ([{"op": "put", "ns": "n", "key": "k", "forever": True}], "kv_bad_request"),
    *[([put(expect=e)], "kv_bad_expect") for e in (-1, 1.5, None, "1")],
    ([{**put(), "op": "putIfAbsent", "expect": 1}], "kv_bad_expect"), ([put(required="yes")], "kv_bad_request"), ([put(required=None)], "kv_bad_request"),
    ([{"op": "getPrefix", "ns": "n", "prefix": "a", "limit": "x"}], "kv_bad_request"),
    ([{"op": "getPrefix", "ns": "n", "prefix": "a", "keysOnly": 1}], "kv_bad_request"),
    ([get()] * 257, "kv_too_many_ops"), ([{"op": "getMany", "ns": "n", "keys": ["k"] * 1025}], "kv_too_many_keys"),
    ([put(), delete()], "kv_duplicate_key_in_call"),
]


def test_refusals_name_their_reason(broker):
    """KV 1.2, 1.6, 1.7: 400, the code, the reason; nothing is written."""
    wrong = []
    for body, reason in REFUSED:
        ops = [put("canary")] + body if isinstance(body, list) and len(body) < 250 else body
        answer = broker.post("/api/v1/kv", ops)
        got = (answer.status_code, answer.json().get("error"), answer.json().get("reason"))
        if got != (400, "kv_bad_request", reason):
            wrong.append((str(body)[:80], reason, got))
    assert wrong == []
    assert kv(broker, get("canary"))[0]["found"] is False


@pytest.mark.parametrize("op,reason", [(put(value="x" * 65535), "kv_value_too_large"), (get("k" * 513), "kv_key_too_large"), (get("k" * 500), "kv_key_too_large")])
def test_what_is_too_large_is_413(broker, op, reason):
    """KV 1.2."""
    answer = broker.post("/api/v1/kv", [op])
    assert (answer.status_code, answer.json()["error"], answer.json()["reason"]) == (413, "payload_too_large", reason)
    assert kv(broker, put(value="x" * 65534))[0]["applied"] is True


def test_scalars_stand_for_their_text(broker):
    """KV 1.2 notes: 7 is "7"; 30.0 is an integer."""
    kv(broker, {"op": "put", "ns": 7, "key": 7.5, "value": 1, "ttlSeconds": 30.0})
    assert kv(broker, {"op": "get", "ns": "7", "key": "7.5"})[0]["found"] is True
    assert kv(broker, {"op": "getMany", "ns": "7"})[0]["rows"] == []


def test_null_is_a_value_and_put_replaces_the_expiry(broker):
    """KV-2, KV-3."""
    kv(broker, put(value=None, ttlSeconds=60))
    row = kv(broker, get())[0]
    assert row["found"] is True and row["value"] is None and row["expiresAt"]
    kv(broker, put())
    assert kv(broker, get())[0]["expiresAt"] is None


def test_compare_and_set_chain(broker):
    """KV-4, KV-5, acceptance 3 to 5."""
    v1 = kv(broker, put(value="one", expect=0))[0]["version"]
    lost = kv(broker, {**put(value="x"), "op": "putIfAbsent"})[0]
    assert (lost["op"], lost["reason"], lost["value"], lost["version"]) == ("putIfAbsent", "exists", "one", v1)
    v2 = kv(broker, put(value="two", expect=v1))[0]["version"]
    lost = kv(broker, put(value="three", expect=v1))[0]
    assert v2 > v1 and (lost["reason"], lost["value"], lost["version"]) == ("version", "two", v2)
    assert kv(broker, delete(expect=0))[0]["reason"] == "exists" and kv(broker, delete(expect=v1))[0]["reason"] == "version"
    gone = kv(broker, delete(expect=v2))[0]
    assert (gone["applied"], gone["value"], gone["version"]) == (True, "two", v2)
    assert kv(broker, delete())[0]["reason"] == "absent"
    none = kv(broker, delete(expect=0))[0]
    assert (none["applied"], none["version"], none["value"]) == (True, 0, None)


@pytest.mark.parametrize("how", ["terminate", "kill9"])
def test_versions_never_go_back(broker, how):
    """KV-9: over delete, restart and re-creation."""
    last = kv(broker, put())[0]["version"]
    for _ in range(3):
        kv(broker, delete())
        getattr(broker, how)()
        broker.start()
        now = kv(broker, put())[0]["version"]
        assert now > last
        last = now


def test_an_expired_row_is_none(broker):
    """KV-1, acceptance 10, before any sweep."""
    kv(broker, put(ttlSeconds=1))
    time.sleep(1.1)
    rows = kv(broker, get(), {"op": "getMany", "ns": "n", "keys": ["k"]}, {"op": "getPrefix", "ns": "n", "prefix": "k"})
    assert rows[0]["found"] is False and rows[1]["missing"] == ["k"] and rows[2]["rows"] == []
    assert kv(broker, {**put(), "op": "putIfAbsent"})[0]["applied"] is True


def test_a_required_loss_writes_nothing(broker):
    """KV-11, KV-12: field order, the input index, and a verdict that is too long."""
    version = kv(broker, put("z", "x" * 5000))[0]["version"]
    assert [r["applied"] for r in kv(broker, put("a"), put("z", 1, expect=0))] == [True, False]
    long = broker.post("/api/v1/kv", [put("b"), put("z", 1, expect=0, required=True)]).json()
    assert long == {"ok": False, "reason": "kv_precondition"}
    kv(broker, put("z", "short"))
    short = broker.post("/api/v1/kv", [put("b"), put("z", 1, expect=0, required=True), put("c")]).json()
    assert list(short) == ["ok", "reason", "failedIndex", "kvReason", "version", "value"]
    assert (short["failedIndex"], short["kvReason"], short["value"]) == (1, "exists", "short") and short["version"] > version
    assert [r["found"] for r in kv(broker, get("b"), get("c"))] == [False, False]


def test_order_of_evaluation(broker):
    """KV-14, KV-20: a get before its key's write answers the old row, one after it the new; pages see the writes."""
    kv(broker, put("k", "old"))
    rows = kv(broker, {"op": "getPrefix", "ns": "n", "prefix": "k"}, get(), put("k", "new"), get(), {"op": "getMany", "ns": "n", "keys": ["k"]})
    assert (rows[0]["rows"][0]["value"], rows[1]["value"], rows[3]["value"], rows[4]["rows"][0]["value"]) == ("new", "old", "new", "new")


def test_pages_walk_every_key_once(broker):
    """KV 1.8, acceptance 9."""
    kv(broker, *[put(k) for k in ("scan/a", "scan/b", "scan/%", "scan/_", "scan/é", "scanX/1")])
    seen, after = [], None
    while True:
        page = kv(broker, {"op": "getPrefix", "ns": "n", "prefix": "scan/", "limit": 2, "after": after, "keysOnly": True})[0]
        assert all("value" not in r for r in page["rows"])
        seen += [r["key"] for r in page["rows"]]
        if not page["truncated"]:
            break
        after = page["nextAfter"]
        assert len(page["rows"]) == 2 and after == seen[-1]
    assert seen == sorted(["scan/a", "scan/b", "scan/%", "scan/_", "scan/é"], key=str.encode)
    assert kv(broker, {"op": "getPrefix", "ns": "n", "prefix": "scan/", "after": "a"})[0]["rows"][0]["key"] == seen[0]
    assert kv(broker, {"op": "getPrefix", "ns": "n", "prefix": "scan/", "after": "z", "limit": -3})[0]["rows"] == []


def test_the_read_budget_truncates(broker):
    """KV 1.6: 4 MiB of values per call."""
    for i in range(70):
        kv(broker, put(f"big{i:03}", "x" * 65000))
    page = kv(broker, {"op": "getPrefix", "ns": "n", "prefix": "big", "limit": 1000})[0]
    assert page["truncated"] is True and len(page["rows"]) == 65 and page["nextAfter"] == "big064"
    many = kv(broker, {"op": "getMany", "ns": "n", "keys": [f"big{i:03}" for i in range(70)]})[0]
    assert many["truncated"] is True and len(many["rows"]) == 65 and many["missing"] == []


def test_fetch_shape_and_defaults(broker):
    """8.1: the partition by number, `Default`, and the order of fields."""
    broker.push([item(partition="7", transactionId="t", payload={"a": 1}), {"queue": "q", "payload": 2}])
    body = broker.post("/api/v1/fetch", {"entries": [{"queue": "q", "partition": 7, "offset": 0}, {"queue": "q", "partition": None, "offset": 0}]}).json()
    first, second = body["entries"]
    assert list(first) == ["queue", "partition", "records", "highWatermark", "logStartOffset"] and first["partition"] == "7"
    assert list(first["records"][0]) == ["offset", "transactionId", "payload", "ts"] and STAMP.match(first["records"][0]["ts"])
    assert second["partition"] == "Default" and second["records"][0]["payload"] == 2
    for empty in ({}, {"entries": []}, {"entries": None}):
        assert broker.post("/api/v1/fetch", empty).json() == {"entries": []}


def test_fetch_refusals(broker):
    """8.1, 8.3: 400 with an error."""
    for path, body in [("fetch", {"entries": [{"queue": "q", "offset": -1}]}), ("fetch", {"entries": [{"queue": "q"}]}),
                       ("fetch", {"entries": [{"offset": 0}]}), ("partitions/changed", {"entries": [{"queue": "q"}] * 1025}),
                       ("partitions/changed", {"entries": [{"queue": "q", "since": 5}]}), ("partitions/changed", {"entries": [{"queue": "q", "since": "x"}]})]:
        answer = broker.post("/api/v1/" + path, body)
        assert answer.status_code == 400 and answer.json()["error"], (path, body)


def test_fetch_bounds_a_partition_never_written(broker):
    """O-2."""
    broker.push([item()])
    entry = broker.post("/api/v1/fetch", {"entries": [{"queue": "q", "partition": "no", "offset": 0}]}).json()["entries"][0]
    assert entry == {"queue": "q", "partition": "no", "records": [], "highWatermark": 0, "logStartOffset": 0}


@pytest.mark.parametrize("more,least,most", [({"maxWaitMs": 400}, 0.35, 0.6), ({"maxWaitMs": 5000, "minBytes": 0}, 0, 0.2),
                                             ({"maxWaitMs": 5000, "bad": True}, 0, 0.2), ({}, 0, 0.2), ({"maxWaitMs": 400, "minBytes": -5}, 0, 0.2)])
def test_fetch_waits_as_told(broker, more, least, most):
    """O-3: an entry's error ends the wait; 0 never waits."""
    broker.push([item()])
    entries = [{"queue": "q", "partition": "p", "offset": 9 if more.pop("bad", False) else 1}]
    started = time.monotonic()
    broker.post("/api/v1/fetch", {"entries": entries, **more})
    assert least <= time.monotonic() - started <= most


def test_changed_cursors_and_since(broker):
    """8.3: fields, BAD_CURSOR after the unknown queue, a full last page, `since` to the microsecond."""
    broker.push([item(partition=p) for p in "ab"])
    broker.push([item(partition="c")])

    def page(**entry):
        return broker.post("/api/v1/partitions/changed", {"entries": [{"queue": "q", **entry}]}).json()["entries"][0]

    rows = page(after="")["partitions"]
    assert [r["name"] for r in rows] == ["a", "b", "c"] and list(rows[0]) == ["name", "id", "lastOffset", "logStart", "lastWriteAt"]
    assert [r["name"] for r in page(since=rows[2]["lastWriteAt"])["partitions"]] == ["c"]
    full = page(limit=3)
    assert full["next"] and page(limit=3, after=full["next"]) == {"queue": "q", "partitions": [], "next": None}
    for cursor in ("x", "p", "p0", "p1x", 7, "p99999999999999999999999"):
        assert page(after=cursor) == {"queue": "q", "error": "BAD_CURSOR"}
    assert page(queue="none", after="x") == {"queue": "none", "error": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert len(page(limit=0)["partitions"]) == 1


# ---- queues -------------------------------------------------------------------------------------------------


def test_configure_shape(broker):
    """10.1: order of fields and of options; Q-3."""
    answer = broker.post("/api/v1/configure", {"queue": "meters", "namespace": "acme", "task": "read", "options": {"leaseTime": 30, "retryLimit": 5}})
    shown = json.loads('{"priority":0,"leaseTime":30,"retryLimit":5,"retryDelay":1000,"maxSize":0,"maxQueueSize":0,"ttl":3600,"deadLetterQueue":true,'
                       '"dlqAfterMaxRetries":true,"delayedProcessing":0,"windowBuffer":0,"windowBufferMaxSeconds":0,"retentionSeconds":0,"completedRetentionSeconds":0,'
                       '"retentionEnabled":false,"encryptionEnabled":false,"maxWaitTimeSeconds":0,"minPopWaitTime":0,"dedupWindowSeconds":3600,'
                       '"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800}')
    body = answer.json()
    assert list(body) == ["configured", "queueId", "partitionId", "queue", "namespace", "task", "storage", "options"]
    assert (body["namespace"], body["task"], body["partitionId"], body["storage"]) == ("acme", "read", None, "segments")
    assert body["options"] == shown and list(body["options"]) == list(shown)
    assert broker.get("/api/v1/resources/queues").json()["queues"][0]["partitions"] == 0


def test_configure_modes_and_nulls(broker):
    """10.1: merge keeps, replace resets, null restores; top-level options; labels by default are empty."""
    def set_to(**body):
        answer = broker.post("/api/v1/configure", {"queue": "q", **body})
        assert answer.status_code == 200, answer.text
        return answer.json()

    first = set_to(leaseTime=10, retryLimit=9)
    assert (first["options"]["leaseTime"], first["namespace"], first["task"]) == (10, "", "")
    assert set_to(options={"retryLimit": None})["options"]["retryLimit"] == 3
    assert set_to(options={}, mode=None)["options"]["leaseTime"] == 10
    assert set_to(options={"ttl": 5}, mode="replace")["options"]["leaseTime"] == 300
    assert set_to(options={"minPopWaitTime": 99999, "dedupWindowSeconds": -4})["options"]["minPopWaitTime"] == 60000
    assert set_to(namespace="top", options={"namespace": "inside"})["namespace"] == "inside"


@pytest.mark.parametrize("body", [{"mode": "x"}, {"options": {"leaseTime": 1.5}}, {"options": {"leaseTime": 2**31}}, {"options": {"retentionEnabled": 1}},
                                  {"options": {"retentionSinkHold": "a b"}}, {"options": {"retentionSinkHold": "a" * 65}},
                                  {"options": {"retentionSinkHoldMaxSeconds": 59}}, {"options": {"retentionSinkHoldMaxSeconds": 31536001}}])
def test_configure_refusals(broker, body):
    """10.1, 10.2."""
    answer = broker.post("/api/v1/configure", {"queue": "q", **body})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert broker.get("/api/v1/resources/queues").json()["queues"] == []


def test_list_of_queues(broker):
    """10.3: fields, newest first, KV figures."""
    broker.push([item("old")])
    broker.push([item("new")])
    kv(broker, put(value="12345"))
    body = broker.get("/api/v1/resources/queues").json()
    assert list(body) == ["queues", "kvRows", "kvBytes", "timerRows", "timerBytes"] and body["kvRows"] == 1 and body["kvBytes"] > 0
    assert [q["name"] for q in body["queues"]] == ["new", "old"]
    assert list(body["queues"][0]) == ["id", "name", "queue", "namespace", "task", "storage", "partitions", "segments", "messages", "retainedBytes", "options", "createdAt"]
    assert list(body["queues"][0]["messages"]) == ["total", "pending", "processing", "completed", "deadLetter"]
    lanes = broker.get("/api/v1/resources/queues", stats="lanes").json()
    assert list(lanes) == ["queues", "stats"] and list(lanes["queues"][0]) == ["id", "name", "queue", "partitions", "createdAt"]


def counts(broker):
    return broker.get("/api/v1/resources/queues").json()["queues"][0]["messages"]


def test_processing_ends_with_the_lease(broker):
    """HD-37, 10.3: on a quiet node an expired lease is no longer `processing`."""
    broker.push([item(), item()])
    broker.pop("q", leaseSeconds=1)
    assert (counts(broker)["processing"], counts(broker)["pending"]) == (2, 0)
    time.sleep(1.5)
    assert (counts(broker)["processing"], counts(broker)["pending"]) == (0, 2)


def test_two_groups_do_not_count_a_message_twice(broker):
    """10.3: `processing` counts messages inside live leases, and there are two."""
    broker.push([item(), item()])
    for group in ("g", "h"):
        broker.pop("q", consumerGroup=group, subscriptionMode="all")
    assert counts(broker)["processing"] == 2


def test_all_acked_is_zero_after_expiry_and_nack(broker):
    """HD-37."""
    broker.push([item(), item()])
    broker.pop("q", leaseSeconds=1)
    broker.ack_all(broker.pop("q", wait="true", timeout=5000), status="failed")
    broker.ack_all(broker.pop("q"))
    assert counts(broker) == {"total": 2, "pending": 0, "processing": 0, "completed": 2, "deadLetter": 0}


# ---- operations and settings --------------------------------------------------------------------------------


def test_health_shape(broker):
    """Operations 2."""
    body = broker.get("/health").json()
    assert list(body["raft"]) == ["role", "leader", "term", "applied", "commit", "lag", "storageReady", "clusterVersion", "kinds", "apply"]
    assert (body["raft"]["role"], body["raft"]["leader"], body["raft"]["lag"], body["raft"]["storageReady"]) == ("leader", True, 0, True)


def test_the_port_answers_while_the_log_is_replayed(make_broker):
    """HD-32."""
    broker = make_broker(QUEEN_RAFT_DURABLE_EVERY_MS="3600000").start()
    for _ in range(60):
        broker.push([item(partition=f"p{i % 500}") for i in range(5000)])
    broker.kill9()
    broker.spawn()
    seen = []
    while not seen or seen[-1].status_code == 503:
        try:
            seen.append(broker.session.get(broker.url("/api/v1/resources/queues"), timeout=5))
        except OSError:
            assert broker.process.poll() is None
    starting = [a for a in seen if a.status_code == 503]
    assert starting, "the replay was over before the port opened"
    assert list(starting[0].json()) == ["status", "progress"] and starting[0].json()["status"] == "starting"
    assert starting[0].headers["Retry-After"] == "1" and 0 <= starting[-1].json()["progress"] <= 1


@pytest.mark.parametrize("name,value", [("JWT_ENABLED", "maybe"), ("JWT_ENABLED", "true"), ("QUEEN_BIND_ADDR", "0.0.0.0:7000"), ("QUEEN_BIND_ADDR", ""),
                                        ("QUEEN_TENANCY_HEADER", "1"), ("QUEEN_LOG_JSON", "x"), ("QUEEN_RAFT_PEERS", "1=a:1")])
def test_settings_that_stop_the_boot(make_broker, name, value):
    """Configuration 1.3, 14.1, 14.5 to 14.7. An open port in place of a guarded one is no boot."""
    broker = make_broker().spawn(**{name: value})
    try:
        code = broker.process.wait(5)
    except subprocess.TimeoutExpired:
        code = None
    assert code == 1 and "FATAL: " in broker.log() and name in broker.log()


def test_bad_numbers_warn_and_fall_back(make_broker):
    """Configuration 14.2, 14.3 with the ruling: one WARN each, naming variable and value; unknown names get the nearest."""
    broker = make_broker(QUEEN_RAFT_PIPELINE="x", QUEEN_RAFT_DISK_LOW_PCT="101", QUEEN_RAFT_PIPELIN="3").start()
    warned = [line for line in broker.log().splitlines() if " WARN " in line]
    assert [sum(f"name={n} " in w for w in warned) for n in ("QUEEN_RAFT_PIPELINE", "QUEEN_RAFT_DISK_LOW_PCT", "QUEEN_RAFT_PIPELIN")] == [1, 1, 1]
    assert "QUEEN_RAFT_PIPELINE" in [w for w in warned if "name=QUEEN_RAFT_PIPELIN " in w][0].split("nearest")[1]


def test_default_timeout_wins(make_broker):
    """Configuration 14.13."""
    broker = make_broker(DEFAULT_TIMEOUT="500", POP_DEFAULT_TIMEOUT_MS="9000").start()
    started = time.monotonic()
    assert broker.pop("q", wait="true") is None and time.monotonic() - started < 0.6


def test_a_closed_disk_gate_takes_no_growing_writes(make_broker):
    """1.4, 14.4, A-14: pops, acks, deletes and reads work."""
    broker = make_broker(QUEEN_RAFT_DISK_HIGH_PCT="100").start()
    broker.push([item(transactionId="t")])
    kv(broker, put())
    broker.kill9()
    broker.start(QUEEN_RAFT_DISK_HIGH_PCT="1", QUEEN_RAFT_DISK_LOW_PCT="1")
    for path, body in (("/api/v1/push", {"items": [item()]}), ("/api/v1/kv", [put()])):
        answer = broker.post(path, body)
        assert (answer.status_code, answer.json()["code"]) == (507, "storage_full") and "Retry-After" not in answer.headers
    assert broker.post("/api/v1/push", {"items": []}).status_code == 201
    assert broker.ack_all(broker.pop("q"))[0]["success"] is True and kv(broker, delete())[0]["applied"] is True


def test_a_body_above_the_limit_is_413_before_it_is_read(make_broker):
    """1.1, operations 15: by length, by chunks, and with Expect."""
    broker = make_broker(QUEEN_MAX_BODY_BYTES="1000").start()
    head = b"POST /api/v1/push HTTP/1.1\r\nHost: x\r\n"
    for rest in (b"Content-Length: 5000\r\n\r\n", b"Content-Length: 5000\r\nExpect: 100-continue\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n1388\r\n" + b"x" * 5000):
        with socket.create_connection(("127.0.0.1", broker.port), timeout=5) as line:
            line.sendall(head + rest)
            assert line.recv(4096).startswith(b"HTTP/1.1 413"), rest[:40]


def test_slow_readers_do_not_move_others(make_broker):
    """HD-35: forty clients ask for 8 MiB each and read nothing."""
    broker = make_broker(QUEEN_HTTP_WRITE_TIMEOUT_MS="3000").start()
    broker.push([item(payload="x" * 4_000_000) for _ in range(2)])
    body = json.dumps({"entries": [{"queue": "q", "partition": "p", "offset": 0, "maxBytes": 8388608}]}).encode()
    lines = []
    for _ in range(40):
        line = socket.create_connection(("127.0.0.1", broker.port))
        line.sendall(b"POST /api/v1/fetch HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        lines.append(line)
    took = []
    for _ in range(100):
        started = time.monotonic()
        broker.push([item("calm")])
        took.append(time.monotonic() - started)
    for line in lines:
        line.close()
    assert sorted(took)[98] < 0.25 and broker.get("/health").status_code == 200
