"""The key/value store over HTTP, rule by rule (KV-1 to KV-20)."""

import concurrent.futures
import random
import time

import pytest
import requests

from harness import TENANT
from kv_ops import applied_index, call, check, get, incr, kv, one, op, path, put, refusal, send

FAST = {"QUEEN_KV_WRITE_RATE": "100000", "QUEEN_KV_WRITE_BURST": "100000", "QUEEN_KV_READ_RATE": "100000", "QUEEN_KV_READ_BURST": "100000"}


@pytest.fixture
def broker(make_broker):
    return make_broker(**FAST).start()


# ---- the rules ------------------------------------------------------------------------------------------------


def test_an_expired_row_is_nowhere_but_on_the_console(make_broker):
    """KV-1: reads, preconditions and checks; the sweep is off, and the row still stored."""
    broker = make_broker(QUEEN_RAFT_KV_SWEEP_MS="3600000", **FAST).start()
    kv(broker, put("a", "old", ttlSeconds=1), put("b", "old", ttlSeconds=1), put("c", "old", ttlSeconds=1))
    assert one(broker, get("a"))["found"] is True
    time.sleep(1.1)
    many = one(broker, {"op": "getMany", "ns": "n", "keys": ["a", "b"]})
    page = one(broker, {"op": "getPrefix", "ns": "n", "prefix": "a"})
    assert one(broker, get("a"))["found"] is False and many["rows"] == [] and many["missing"] == ["a", "b"] and page["rows"] == []
    assert one(broker, put("c", expect=7))["reason"] == "absent" and one(broker, check("c", 0))["applied"] is True
    assert one(broker, op("putIfAbsent", "a", value="new"))["applied"] is True
    listed = broker.post("/api/v1/resources/kv/list", {"namespace": "n", "includeExpired": True}).json()
    assert [(row["key"], row["expired"]) for row in listed["rows"]] == [("a", False), ("b", True), ("c", True)]


def test_null_is_a_value(broker):
    """KV-2."""
    one(broker, put("k", None))
    got = one(broker, get())
    assert got["found"] is True and got["value"] is None and got["version"] > 0


def test_a_put_replaces_value_and_expiry(broker):
    """KV-3."""
    one(broker, put(ttlSeconds=60))
    assert one(broker, get())["expiresAt"] is not None
    one(broker, put(value=2))
    got = one(broker, get())
    assert got["expiresAt"] is None and got["value"] == 2


def test_expect_of_a_put(broker):
    """KV-4."""
    assert one(broker, put(expect=7))["reason"] == "absent"
    first = one(broker, put(value="a", expect=0))
    assert first["applied"] is True
    lost = one(broker, put(value="b", expect=0))
    assert (lost["applied"], lost["reason"], lost["value"], lost["version"]) == (False, "exists", "a", first["version"])
    assert one(broker, put(value="b", expect=first["version"]))["applied"] is True
    assert one(broker, put(value="c", expect=first["version"]))["reason"] == "version"
    assert one(broker, get())["value"] == "b"


def test_deletes(broker):
    """KV-5."""
    stored = one(broker, put(value={"x": 1}))
    gone = one(broker, op("delete"))
    assert (gone["applied"], gone["value"], gone["version"]) == (True, {"x": 1}, stored["version"])
    again = one(broker, op("delete"))
    assert (again["applied"], again["reason"], again["value"], again["version"]) == (False, "absent", None, 0)
    nothing = one(broker, op("delete", expect=0))
    assert (nothing["applied"], nothing["version"]) == (True, 0)
    stored = one(broker, put())
    assert one(broker, op("delete", expect=0))["reason"] == "exists"
    assert one(broker, op("delete", expect=stored["version"] + 1))["reason"] == "version"
    assert one(broker, op("delete", expect=stored["version"]))["applied"] is True


def test_a_delete_of_an_expired_row_takes_the_row_away(make_broker):
    """KV-5."""
    broker = make_broker(QUEEN_RAFT_KV_SWEEP_MS="3600000", **FAST).start()
    one(broker, put(ttlSeconds=1))
    time.sleep(1.1)
    assert broker.get("/api/v1/resources/kv/namespaces").json() == {"namespaces": [{"namespace": "n", "keys": 1}]}
    assert one(broker, op("delete"))["reason"] == "absent"
    assert broker.get("/api/v1/resources/kv/namespaces").json() == {"namespaces": []}


def test_an_increment_takes_an_expiry_only_when_it_creates(broker):
    """KV-6."""
    first = one(broker, incr(delta=2, ttlSeconds=1))
    assert first["value"] == 2
    until = one(broker, get())["expiresAt"]
    assert one(broker, incr(ttlSeconds=1000))["value"] == 3 and one(broker, get())["expiresAt"] == until
    time.sleep(1.1)
    assert one(broker, incr(ttlSeconds=1000))["value"] == 1
    assert one(broker, get())["expiresAt"] > until


def test_increments_stay_within_their_bounds(broker):
    """KV-7: inclusive, nothing saturates, also for the first."""
    assert [one(broker, incr(max=2)).get("value") for _ in range(2)] == [1, 2]
    over = one(broker, incr(max=2))
    assert (over["applied"], over["reason"], over["value"]) == (False, "limit", 2)
    assert one(broker, incr(delta=-2, min=0))["value"] == 0 and one(broker, incr(delta=-1, min=0))["reason"] == "limit"
    nothing = one(broker, incr("none", 10, max=5))
    assert (nothing["reason"], nothing["value"], nothing["version"]) == ("limit", 0, 0) and one(broker, get("none"))["found"] is False
    lost = call(broker, incr("none", 10, max=5, required=True))
    assert (lost["ok"], lost["kvReason"], lost["value"], lost["version"]) == (False, "limit", 0, 0)


@pytest.mark.parametrize("start,delta,shown", [
    ("0.1", "0.2", "0.3"), ("2.50", "0", "2.5"), ("1e3", "0", "1000"), ("-0", "0", "0"), ("5", "-5.0", "0"),
    ("9007199254740993", "1", "9007199254740994"), ("99999999999999999999.999999999999999999", "0.000000000000000001", "100000000000000000000"),
    ("170141183460469231731687303715884105726", "1", "170141183460469231731687303715884105727"), ("1e300", "1", "1e+300"), ("1e-400", "1", "1")])
def test_increments_are_exact_decimals(broker, start, delta, shown):
    """KV-8."""
    broker.post("/api/v1/kv", f'[{{"op":"put","ns":"n","key":"k","value":{start},"forever":true}}]')
    text = broker.post("/api/v1/kv", f'[{{"op":"incr","ns":"n","key":"k","delta":{delta},"forever":true}}]').text
    assert f'"value":{shown},' in text and '"applied":true' in text


def test_what_is_no_number_is_not_counted(broker):
    """1.3: `type`, with what is there."""
    for value in ("1", None, True, [1], {"x": 1}):
        one(broker, put(value=value))
        lost = one(broker, incr())
        assert (lost["applied"], lost["reason"], lost["value"]) == (False, "type", value)


def test_versions_only_rise_over_deletes_expiry_and_restarts(make_broker):
    """KV-9."""
    broker = make_broker(**FAST).start()
    seen = []

    def write(row):
        assert row["applied"] is True
        seen.append(row["version"])
    for turn in range(3):
        write(one(broker, put()))
        write(one(broker, incr()))
        one(broker, op("delete"))
        write(one(broker, op("putIfAbsent", ttlSeconds=1)))
        time.sleep(1.1)
        write(one(broker, op("putIfAbsent")))
        broker.kill9() if turn % 2 == 0 else broker.terminate()
        broker.start()
    assert seen == sorted(set(seen)) and seen[0] > 0
    others = [r["version"] for r in kv(broker, put("a"), put("b"), op("incr", "c", delta=1))]
    assert len(set(others)) == 3 and min(others) > seen[-1]


def test_a_lost_operation_does_not_keep_others_from_applying(broker):
    """KV-11."""
    rows = kv(broker, put("a"), put("b", expect=5), put("c"))
    assert [r["applied"] for r in rows] == [True, False, True]
    assert [r["found"] for r in kv(broker, get("a"), get("b"), get("c"))] == [True, False, True]


@pytest.mark.parametrize("lost,reason", [(op("putIfAbsent", "there"), "exists"), (put("none", expect=9), "absent"), (put("there", expect=1), "version"),
                                         (incr("there", 10, max=5), "limit"), (incr("text"), "type"), (check("there", 0), "exists"), (check("none", 3), "absent"),
                                         (op("delete", "none"), "absent")])
def test_a_lost_required_operation_aborts_the_call(broker, lost, reason):
    """KV-12: HTTP 200, nothing written, the index of the input."""
    kv(broker, put("there", 5), put("text", "x"))
    before = applied_index(broker)
    body = call(broker, get("there"), put("canary"), {**lost, "required": True}, incr("canary2"))
    assert list(body) == ["ok", "reason", "failedIndex", "kvReason", "version", "value"]
    assert (body["ok"], body["reason"], body["failedIndex"], body["kvReason"]) == (False, "kv_precondition", 2, reason)
    there = one(broker, get(lost["key"]))
    assert (body["version"], body["value"]) == (there.get("version", 0), there.get("value"))
    assert [r["found"] for r in kv(broker, get("canary"), get("canary2"))] == [False, False] and applied_index(broker) == before


def test_a_verdict_that_is_too_long_says_less(broker):
    """KV-12."""
    one(broker, put(value="x" * 5000))
    assert call(broker, op("putIfAbsent", required=True)) == {"ok": False, "reason": "kv_precondition"}
    assert one(broker, {**get(), "required": True})["found"] is True


def test_a_call_that_writes_is_one_entry_at_one_instant(broker):
    """KV-13."""
    before = applied_index(broker)
    kv(broker, *[put(f"k{i}", ttlSeconds=60) for i in range(20)], incr("c", ttlSeconds=60), check("none", 0))
    assert applied_index(broker) == before + 1
    rows = one(broker, {"op": "getPrefix", "ns": "n", "prefix": "k"})["rows"]
    assert len(rows) == 20 and len({r["expiresAt"] for r in rows}) == 1 and len({r["updatedAt"] for r in rows}) == 1


def test_the_order_of_evaluation(broker):
    """KV-14, KV-20: a get before the write of its key sees the old row, one behind it the new; pages see all writes. Results stand in input order."""
    one(broker, put("a", "old"))
    rows = kv(broker, {"op": "getMany", "ns": "n", "keys": ["z", "a", "b"]}, {"op": "getPrefix", "ns": "n", "prefix": "a"}, get("b"), get("a"), put("b", 1), put("a", "new"),
              get("a"), get("b"))
    assert [r["index"] for r in rows] == list(range(8))
    assert rows[0]["missing"] == ["z"] and [r["value"] for r in rows[0]["rows"]] == ["new", 1] and rows[1]["rows"][0]["value"] == "new"
    assert rows[2]["found"] is False and rows[3]["value"] == "old" and rows[6]["value"] == "new" and rows[7]["value"] == 1


def test_two_calls_never_read_each_others_writes(broker):
    """KV-15."""
    def both(writes, reads):
        return kv(broker, put(writes), {"op": "getMany", "ns": "n", "keys": [reads]})[1]["missing"] == []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for i in range(150):
            left = pool.submit(both, f"l{i}", f"r{i}")
            right = pool.submit(both, f"r{i}", f"l{i}")
            assert not (left.result() and right.result())


def test_reads_see_every_answered_write_and_never_half_of_a_call(broker):
    """KV-16: readers and a writer of pairs."""
    stop, wrong = [], []

    def reader():
        session = requests.Session()
        while not stop:
            rows = session.post(broker.url("/api/v1/kv"), json=[{"op": "getMany", "ns": "n", "keys": ["a", "b"]}], timeout=30).json()["results"][0]["rows"]
            if len({r["value"] for r in rows}) > 1:
                wrong.append(rows)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(reader) for _ in range(3)]
        for i in range(300):
            kv(broker, put("a", i), put("b", i))
            assert one(broker, get("a"))["value"] == i
            assert send(broker, "GET", path("b")).json()["value"] == i
        stop.append(True)
        [r.result() for r in readers]
    assert wrong == []


def test_what_writes_nothing_is_not_in_the_log(broker):
    """KV-17."""
    one(broker, put())
    before = applied_index(broker)
    kv(broker, op("putIfAbsent"), check("none", 0), incr("other", 10, max=5))
    kv(broker, get())
    assert applied_index(broker) == before
    kv(broker, check("none", 0), get())
    assert applied_index(broker) == before + 1


def test_a_call_sent_again_is_a_new_one(broker):
    """KV-18."""
    body = [incr()]
    assert [broker.post("/api/v1/kv", body).json()["results"][0]["value"] for _ in range(3)] == [1, 2, 3]


def test_checks_are_served_from_the_start(broker):
    """KV-19: every release of this broker knows them; and 1.3, what they answer."""
    stored = one(broker, put(value=7))
    assert one(broker, check("k", stored["version"])) == {"index": 0, "op": "check", "applied": True, "key": "k", "version": stored["version"]}
    assert one(broker, check("none", 0)) == {"index": 0, "op": "check", "applied": True, "key": "none", "version": 0}
    lost = one(broker, check("k", stored["version"] + 1))
    assert lost == {"index": 0, "op": "check", "applied": False, "reason": "version", "key": "k", "value": 7, "version": stored["version"]}
    assert one(broker, get())["version"] == stored["version"]


def test_counters_are_exact_under_contention(broker):
    """KV-13: nothing is counted twice or lost."""
    def count(_):
        session = requests.Session()
        for _ in range(50):
            session.post(broker.url("/api/v1/kv"), json=[incr(delta=0.1)], timeout=30).raise_for_status()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(8)))
    assert '"value":40,' in broker.post("/api/v1/kv", [get()]).text


def test_answered_writes_survive_kills(make_broker):
    """KV-9, N-1: what was answered is there, whole, with its version."""
    broker = make_broker(**FAST).start()
    expected, draw = {}, random.Random(5)
    for _ in range(5):
        for _ in range(40):
            key = f"k{draw.randrange(10)}"
            kind = draw.choice(["put", "incr", "delete"])
            row = one(broker, {"put": put(key, draw.randrange(100)), "incr": incr(key, draw.randrange(9)), "delete": op("delete", key)}[kind])
            if row["applied"] and kind == "delete":
                del expected[key]
            elif row["applied"]:
                expected[key] = (row["value"], row["version"])
        broker.kill9()
        broker.start()
        rows = one(broker, {"op": "getMany", "ns": "n", "keys": [f"k{i}" for i in range(10)]})["rows"]
        assert {r["key"]: (r["value"], r["version"]) for r in rows} == expected


def test_counters_that_were_answered_survive_a_kill_under_load(make_broker):
    broker = make_broker(**FAST).start()
    answered = [0] * 4

    def count(worker):
        session = requests.Session()
        try:
            while True:
                answer = session.post(broker.url("/api/v1/kv"), json=[incr(f"w{worker}")], timeout=10)
                answered[worker] = answer.json()["results"][0]["value"]
        except requests.ConnectionError:
            return
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(count, w) for w in range(4)]
        time.sleep(1)
        broker.kill9()
        [w.result() for w in workers]
    broker.start()
    for worker in range(4):
        assert one(broker, get(f"w{worker}"))["value"] in (answered[worker], answered[worker] + 1) and answered[worker] > 0


# ---- validation ------------------------------------------------------------------------------------------------


REFUSED = [
    ([incr(expect=0)], "kv_bad_request"), ([op("incr")], "kv_bad_request"), ([incr(delta="1")], "kv_bad_request"), ([incr(delta=None)], "kv_bad_request"),
    ([incr(min="0")], "kv_bad_request"), ([incr(max=None)], "kv_bad_request"), ('[{"op":"incr","ns":"n","key":"k","delta":1e999,"forever":true}]', "kv_bad_request"),
    ([{"op": "incr", "ns": "n", "key": "k", "delta": 1}], "kv_expiry_not_specified"), ([incr(ttlSeconds=0)], "kv_bad_ttl"),
    ([{"op": "check", "ns": "n", "key": "k"}], "kv_bad_expect"), ([check(expect=None)], "kv_bad_expect"), ([check(expect=-1)], "kv_bad_expect"),
    ([check(required=1)], "kv_bad_request"), ([check(), put()], "kv_duplicate_key_in_call"), ([incr(), incr()], "kv_duplicate_key_in_call"),
    ([put(), check()], "kv_duplicate_key_in_call"), ([{"op": "putIfVersion", "ns": "n", "key": "k"}], "kv_unknown_op"), ([{"op": "increment", "ns": "n", "key": "k"}], "kv_unknown_op"),
]


def test_refusals_of_increments_and_checks(broker):
    """1.2."""
    wrong = [(str(body)[:70], reason, got) for body, reason in REFUSED if (got := refusal(broker.post("/api/v1/kv", body))) != (400, "kv_bad_request", reason)]
    assert wrong == [] and one(broker, get())["found"] is False


def test_the_order_of_refusals(broker):
    """1.7: the number of operations, of keys, the sizes of values, then operation by operation."""
    large, broken = put("x", "v" * 70000), {"op": "nope"}
    assert refusal(broker.post("/api/v1/kv", [broken] * 257))[2] == "kv_too_many_ops"
    assert refusal(broker.post("/api/v1/kv", [broken, {"op": "getMany", "ns": "n", "keys": ["k"] * 1100}, large]))[2] == "kv_too_many_keys"
    assert refusal(broker.post("/api/v1/kv", [broken, large])) == (413, "payload_too_large", "kv_value_too_large")
    assert refusal(broker.post("/api/v1/kv", [broken, put("x", ttlSeconds=0)]))[2] == "kv_unknown_op"


def test_ceilings_are_settings(make_broker):
    """1.6."""
    broker = make_broker(QUEEN_KV_MAX_VALUE_BYTES="10", QUEEN_KV_MAX_OPS_PER_CALL="2", QUEEN_KV_MAX_KEYS_PER_CALL="3", **FAST).start()
    assert one(broker, put(value="12345678"))["applied"] is True
    assert refusal(broker.post("/api/v1/kv", [put(value="123456789")]))[2] == "kv_value_too_large"
    assert refusal(send(broker, "PUT", path(), {"value": "123456789", "forever": True}))[2] == "kv_value_too_large"
    assert refusal(broker.post("/api/v1/kv", [get()] * 3))[2] == "kv_too_many_ops"
    assert refusal(broker.post("/api/v1/kv", [{"op": "getMany", "ns": "n", "keys": ["a"] * 4}]))[2] == "kv_too_many_keys"


def test_a_call_larger_than_an_entry_is_refused(make_broker):
    """1.6."""
    broker = make_broker(QUEEN_RAFT_ENTRY_MAX_BYTES=str(1 << 20), QUEEN_KV_MAX_VALUE_BYTES=str(4 << 20), **FAST).start()
    answer = broker.post("/api/v1/kv", [put(value="v" * (1 << 20))])
    assert refusal(answer) == (413, "payload_too_large", "too_large") and one(broker, get())["found"] is False


# ---- one key by its path ---------------------------------------------------------------------------------------


def test_a_key_by_its_path(broker):
    """1.1: the bare element; ETag only when found."""
    stored = send(broker, "PUT", path("a/b%20c%2Fd+e"), {"value": {"x": 1.50}, "ttlSeconds": 60, "other": 1})
    assert stored.status_code == 200 and list(stored.json()) == ["index", "op", "applied", "key", "value", "version"]
    assert (stored.json()["index"], stored.json()["op"], stored.json()["key"]) == (0, "put", "a/b c/d+e") and '"value":{"x": 1.5}' in stored.text
    got = send(broker, "GET", path("a/b%20c%2fd%2Be"))
    assert list(got.json()) == ["index", "op", "found", "key", "value", "version", "expiresAt", "updatedAt"]
    assert got.headers["ETag"] == f'"{stored.json()["version"]}"' and got.json()["version"] == stored.json()["version"]
    missed = send(broker, "GET", path("none"))
    assert missed.json() == {"index": 0, "op": "get", "found": False, "key": "none"} and "ETag" not in missed.headers
    gone = send(broker, "DELETE", path("a/b c/d+e"))
    assert list(gone.json()) == ["index", "op", "applied", "key", "value", "version"] and gone.json()["applied"] is True
    assert send(broker, "DELETE", path("none"), "null").json()["reason"] == "absent"


def test_preconditions_by_path(broker):
    """1.1, KV-12."""
    first = send(broker, "PUT", path(), {"value": 1, "forever": True, "expect": 0}).json()
    assert send(broker, "PUT", path(), {"value": 2, "forever": True, "expect": 0}).json()["reason"] == "exists"
    lost = send(broker, "PUT", path(), {"value": 2, "forever": True, "expect": first["version"] + 5, "required": True})
    assert lost.status_code == 200 and lost.json() == {"ok": False, "reason": "kv_precondition", "failedIndex": 0, "kvReason": "version", "version": first["version"], "value": 1}
    assert send(broker, "DELETE", path(), {"expect": first["version"] + 5}).json()["reason"] == "version"
    assert send(broker, "DELETE", path(), {"expect": first["version"]}).json()["applied"] is True


@pytest.mark.parametrize("method,where,body,status,reason", [
    ("GET", path() + "?x=1", None, 400, "kv_no_query_string"), ("PUT", path() + "?x=1", {"value": 1, "forever": True}, 400, "kv_no_query_string"),
    ("DELETE", path() + "?x", None, 400, "kv_no_query_string"), ("GET", "/api/v1/resources/kv/namespaces?limit=1", None, 400, "kv_no_query_string"),
    ("POST", "/api/v1/resources/kv/list?prefix=a", {"namespace": "n"}, 400, "kv_no_query_string"),
    ("GET", path(ns="N"), None, 400, "kv_bad_namespace"), ("GET", "/api/v1/kv/n/", None, 400, "kv_bad_key"), ("GET", path("a%00b"), None, 400, "kv_bad_key"),
    ("GET", path("%ff"), None, 400, "kv_bad_key"), ("GET", path("k" * 513), None, 413, "kv_key_too_large"),
    ("PUT", path(), "", 400, "kv_bad_body"), ("PUT", path(), "[]", 400, "kv_bad_body"), ("PUT", path(), "null", 400, "kv_bad_body"), ("DELETE", path(), "7", 400, "kv_bad_body"),
    *[("PUT", path(), {"value": 1, "forever": True, name: "x"}, 400, "kv_field_in_path") for name in ("op", "ns", "namespace", "key")],
    ("DELETE", path(), {"key": "k"}, 400, "kv_field_in_path"), ("PUT", path(), {"value": 1, "forever": True, "tenant": "t"}, 400, "kv_tenant_not_an_input"),
    ("PUT", path(), {"value": 1}, 400, "kv_expiry_not_specified"), ("PUT", path(), {"forever": True}, 400, "kv_bad_request"),
    ("PUT", path(), {"value": 1, "ttlSeconds": 1.5}, 400, "kv_bad_ttl"), ("DELETE", path(), {"expect": -1}, 400, "kv_bad_expect"),
    ("PUT", path(), {"value": "v" * 70000, "forever": True}, 413, "kv_value_too_large")])
def test_refusals_by_path(broker, method, where, body, status, reason):
    """1.1, 1.2."""
    answer = send(broker, method, where, body)
    assert (answer.status_code, answer.json()["error"], answer.json()["reason"]) == (status, "payload_too_large" if status == 413 else "kv_bad_request", reason)
    assert one(broker, get())["found"] is False


# ---- the console ------------------------------------------------------------------------------------------------


def test_the_console_lists_namespaces_and_rows(broker):
    """1.8."""
    kv(broker, *[put(f"a/{i}", i, ns="carts") for i in range(3)], put("b", "x", ns="carts", ttlSeconds=60), put("k", ns="a.z"))
    assert broker.get("/api/v1/resources/kv/namespaces").json() == {"namespaces": [{"namespace": "a.z", "keys": 1}, {"namespace": "carts", "keys": 4}]}

    def listed(**body):
        answer = broker.post("/api/v1/resources/kv/list", body)
        assert answer.status_code == 200, answer.text
        return answer.json()
    whole = listed(namespace="carts")
    assert list(whole) == ["rows", "truncated", "nextAfter", "bytes"] and (whole["truncated"], whole["nextAfter"], whole["bytes"]) == (False, None, 3 * 3 + 3 + 1 + 3)
    assert [list(r) for r in whole["rows"]] == [["key", "value", "version", "expiresAt", "updatedAt"]] * 4
    assert whole["rows"][0]["expiresAt"] is None and len(whole["rows"][3]["expiresAt"]) == 27 and whole["rows"][3]["expiresAt"].endswith("Z")
    page = listed(namespace="carts", prefix="a/", limit=2, keysOnly=True, includeExpired=True)
    assert (page["truncated"], page["nextAfter"]) == (True, "a/1") and list(page["rows"][0]) == ["key", "version", "expiresAt", "updatedAt", "expired"]
    assert [r["key"] for r in listed(namespace="carts", prefix="a/", after="a/1", limit=0)["rows"]] == ["a/2"]
    assert listed(namespace="none") == {"rows": [], "truncated": False, "nextAfter": None, "bytes": 0}


@pytest.mark.parametrize("body,reason", [("", "kv_bad_body"), ("[]", "kv_bad_body"), ("{}", "kv_bad_namespace"), ('{"namespace":"N"}', "kv_bad_namespace"),
                                         ('{"namespace":"n","limit":"x"}', "kv_bad_request"), ('{"namespace":"n","keysOnly":1}', "kv_bad_request"),
                                         ('{"namespace":"n","includeExpired":"yes"}', "kv_bad_request"), ('{"namespace":"n","prefix":[]}', "kv_bad_request"),
                                         ('{"namespace":"n","after":{}}', "kv_bad_request"), ('{"namespace":"n","tenantId":"t"}', "kv_tenant_not_an_input")])
def test_refusals_of_the_console(broker, body, reason):
    """1.8."""
    assert refusal(broker.post("/api/v1/resources/kv/list", body)) == (400, "kv_bad_request", reason)


def test_tenants_do_not_see_each_other(make_broker):
    broker = make_broker(QUEEN_TENANCY_HEADER="true", QUEEN_KV_TRUSTED_PROXY="true", QUEEN_KV_REQUIRE_GRANT="false", **FAST).start()
    other = {"x-queen-tenant": "018f2b3c-0000-7000-8000-0000000000aa"}
    one(broker, put(value="mine"))
    assert requests.get(broker.url(path()), headers=other, timeout=10).json()["found"] is False
    assert requests.get(broker.url("/api/v1/resources/kv/namespaces"), headers=other, timeout=10).json() == {"namespaces": []}
    assert requests.get(broker.url(path()), headers={"x-queen-tenant": TENANT}, timeout=10).json()["value"] == "mine"


def test_expired_rows_are_swept_as_fast_as_they_expire(make_broker):
    """1.5: steps follow each other while there are more rows."""
    broker = make_broker(QUEEN_RAFT_KV_SWEEP_LIMIT="50", **FAST).start()
    for start in range(0, 2000, 250):
        kv(broker, *[put(f"k{i}", ttlSeconds=1) for i in range(start, start + 250)])
    deadline = time.monotonic() + 15
    while broker.get("/api/v1/resources/kv/namespaces").json()["namespaces"]:
        assert time.monotonic() < deadline, broker.get("/api/v1/resources/kv/namespaces").json()
        time.sleep(0.1)
