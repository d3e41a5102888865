"""Streams over HTTP (api-state.md 5): what a runner sends, rule by rule."""

import json
import random
import threading
import time
import uuid

import pytest
from test_encryption import KEY, assert_nowhere, flag

UNKNOWN = "01b7c0df-1111-7222-8333-444455556666"
OTHER = "018f2b3c-0000-7000-8000-0000000000aa"


def register(broker, name="sales", config_hash="h1", tenant=None, **more):
    body = {"name": name, "source_queue": "in", "config_hash": config_hash, **more}
    headers = {"x-queen-tenant": tenant} if tenant else {}
    return broker.session.post(broker.url("/streams/v1/queries"), json=body, headers=headers, timeout=60)


def query_of(broker, name="sales"):
    answer = register(broker, name)
    assert answer.status_code == 200, answer.text
    return answer.json()["query_id"]


def cycle(broker, query, partition, tenant=None, **more):
    body = {"query_id": query, "partition_id": partition, "consumer_group": "streams.sales", **more}
    headers = {"x-queen-tenant": tenant} if tenant else {}
    return broker.session.post(broker.url("/streams/v1/cycle"), json=body, headers=headers, timeout=60)


def committed(broker, query, partition, **more):
    answer = cycle(broker, query, partition, **more)
    assert answer.status_code == 200 and answer.json()["success"] is True, answer.text
    return answer.json()


def refused(broker, query, partition, reason, **more):
    answer = cycle(broker, query, partition, **more)
    body = answer.json()
    assert (answer.status_code, body["success"], body["reason"]) == (200, False, reason), answer.text
    assert list(body) == ["success", "error", "reason"] and body["error"]


def state(broker, query, partition, **more):
    answer = broker.post("/streams/v1/state/get", {"query_id": query, "partition_id": partition, **more})
    assert answer.status_code == 200 and answer.json()["success"] is True, answer.text
    return {row["key"]: row["value"] for row in answer.json()["rows"]}


def upsert(key, value):
    return {"type": "upsert", "key": key, "value": value}


def push(broker, count, first=0, queue="in", partition="p"):
    broker.push([{"queue": queue, "partition": partition, "transactionId": f"m{first + i}", "payload": first + i} for i in range(count)])


def take(broker, group="streams.sales", **params):
    """What the group is given: (partitionId, leaseId, payloads)."""
    popped = broker.pop("in", "p", consumerGroup=group, subscriptionMode="all", **{"batch": 100, **params})
    if popped is None:
        return None
    return popped["partitionId"], popped["leaseId"], [m["data"] for m in popped["messages"]]


def ack(lease, count=0, status="completed"):
    return {"transactionId": "informative", "leaseId": lease, "status": status, "count": count}


# ---- the registry ----

def test_registering_finds_a_query_by_its_name(broker):
    """ST-1, ST-5."""
    first = register(broker)
    query = first.json()["query_id"]
    assert first.json() == {"success": True, "query_id": query, "name": "sales", "config_hash": "h1", "fresh": True, "reset": False}
    assert list(first.json()) == ["success", "query_id", "name", "config_hash", "fresh", "reset"] and uuid.UUID(query).version == 7
    again = register(broker, reset=True, sink_queue="out", source_queue="in2").json()
    assert (again["query_id"], again["fresh"], again["reset"]) == (query, False, False)
    assert broker.get("/api/v1/resources/queues").json()["queues"] == []
    assert broker.get("/api/v1/consumer-groups").json() in ([], {"consumerGroups": []}) or "streams" not in broker.get("/api/v1/consumer-groups").text


def test_another_hash_needs_a_reset_which_drops_the_state_and_keeps_the_place(broker):
    """ST-2, ST-3."""
    query, other = query_of(broker), query_of(broker, "other")
    push(broker, 3)
    partition, lease, _ = take(broker)
    committed(broker, query, partition, state_ops=[upsert("k", 1)], ack=ack(lease))
    committed(broker, other, partition, state_ops=[upsert("k", 2)])
    answer = register(broker, config_hash="h2")
    assert answer.status_code == 409
    assert answer.json() == {"success": False, "query_id": query, "name": "sales", "error": "config_hash mismatch; retry with reset:true"}
    assert state(broker, query, partition) == {"k": 1}
    done = register(broker, config_hash="h2", reset=True).json()
    assert (done["query_id"], done["fresh"], done["reset"]) == (query, False, True)
    assert state(broker, query, partition) == {} and state(broker, other, partition) == {"k": 2}
    assert take(broker) is None  # nothing is counted again
    assert register(broker, config_hash="h2").json()["reset"] is False


def test_what_is_missing_is_named(broker):
    """5.1."""
    whole = {"name": "n", "source_queue": "s", "config_hash": "h"}
    for field in whole:
        for body in ({k: v for k, v in whole.items() if k != field}, {**whole, field: ""}, {**whole, field: None}):
            answer = broker.post("/streams/v1/queries", body)
            assert (answer.status_code, answer.json()) == (400, {"error": f"{field} is required", "code": "bad_request"})
    for body in ("", "[]", "{", '{"name":1'):
        assert broker.post("/streams/v1/queries", body).json()["code"] == "bad_body"
    assert register(broker, "n").json()["fresh"] is True


def test_a_tenant_without_a_grant_is_denied(make_broker):
    """ST-4; another tenant's queries and partitions are nobody's."""
    broker = make_broker(QUEEN_TENANCY_HEADER="true", QUEEN_KV_TRUSTED_PROXY="true").start()
    answer = register(broker, tenant=OTHER)
    assert answer.status_code == 403 and answer.json()["success"] is False and answer.json()["denied"] is True and answer.json()["error"]
    query = query_of(broker)
    push(broker, 1)
    partition, _, _ = take(broker)
    answer = cycle(broker, query, partition, tenant=OTHER, state_ops=[upsert("k", 1)])
    assert (answer.status_code, answer.json()) == (404, {"success": False, "error": "query or partition not found"})
    answer = broker.session.post(broker.url("/streams/v1/state/get"), json={"query_id": query, "partition_id": partition},
                                 headers={"x-queen-tenant": OTHER})
    assert (answer.status_code, answer.json()) == (404, {"error": "not found"})


def test_other_routes_of_the_prefix_do_not_exist(broker):
    answer = broker.post("/streams/v1/nothing", {})
    assert (answer.status_code, answer.json()["code"]) == (404, "no_such_route")


# ---- state ----

def test_state_is_filtered_and_sorted_by_bytes(broker):
    """ST-6, ST-16: values come back as they were sent."""
    query = query_of(broker)
    push(broker, 1)
    partition, _, _ = take(broker)
    ops = [upsert("b", {"windowEnd": 20}), upsert("a", {"windowEnd": 10}), upsert("ab", {"windowEnd": "10"}), upsert("é", [1]),
           {"key": "none"}, {"type": "upsert"}, upsert("gone", 1), {"type": "delete", "key": "gone"}, {"type": "delete", "key": "never"}]
    assert committed(broker, query, partition, state_ops=ops)["state_ops_applied"] == 8
    rows = broker.post("/streams/v1/state/get", {"query_id": query, "partition_id": partition}).json()["rows"]
    assert [row["key"] for row in rows] == ["a", "ab", "b", "none", "é"]
    assert all(len(row["updated_at"]) == 27 and row["updated_at"].endswith("Z") for row in rows)
    assert state(broker, query, partition)["none"] is None
    assert list(state(broker, query, partition, keys=["b", "a", "x"])) == ["a", "b"]
    assert list(state(broker, query, partition, keys=[], key_prefix="a")) == ["a", "ab"]
    assert list(state(broker, query, partition, keys=["a", "b"], key_prefix="b")) == ["b"]
    assert list(state(broker, query, partition, ripe_at_or_before=19)) == ["a"]
    assert list(state(broker, query, partition, ripe_at_or_before=20)) == ["a", "b"]
    text = '{"b" : 1.50, "a":"é", "n":123456789012345678901234567890}'
    raw = '{"query_id":"%s","partition_id":"%s","state_ops":[{"key":"raw","value":%s}]}' % (query, partition, text)
    assert broker.post("/streams/v1/cycle", raw).json()["success"] is True
    assert '"value":' + text in broker.post("/streams/v1/state/get", {"query_id": query, "partition_id": partition, "keys": ["raw"]}).text


def test_the_uuid_of_a_partition_names_it_too(broker):
    """5.2, 5.3."""
    query = query_of(broker)
    push(broker, 1)
    partition, _, _ = take(broker)
    name = broker.get("/api/v1/messages", queue="in").json()["messages"][0]["partitionId"]
    assert len(name) == 36
    assert committed(broker, query, name, state_ops=[upsert("k", 1)])["partition_id"] == partition
    assert state(broker, query, name) == {"k": 1}
    for nowhere in (UNKNOWN, "999", "-1", "x"):
        assert cycle(broker, query, nowhere).json() == {"success": False, "error": "query or partition not found"}
        answer = broker.post("/streams/v1/state/get", {"query_id": query, "partition_id": nowhere})
        assert (answer.status_code, answer.json()) == (404, {"error": "not found"})
    assert cycle(broker, UNKNOWN, partition).status_code == 404


def test_what_was_answered_is_read_by_everybody_at_once(broker):
    """ST-7."""
    query = query_of(broker)
    push(broker, 1)
    partition, _, _ = take(broker)
    for number in range(50):
        committed(broker, query, partition, state_ops=[upsert("k", number)])
        assert state(broker, query, partition) == {"k": number}


# ---- the cycle ----

BROKEN = [{"state_ops": {}}, {"state_ops": [7]}, {"state_ops": [{"type": "put", "key": "k"}]}, {"push_items": "x"}, {"push_items": [7]},
          {"push_items": [{"queue": "q", "messageId": "x"}]}, {"push_items": [{"queue": "q", "partition": 7}]}, {"ack": []},
          {"ack": {"leaseId": 7}}, {"ack": {"count": "3"}}, {"ack": {"status": 1}}, {"release_lease": "no"}, {"consumer_group": 7},
          {"query_id": "x"}, {"query_id": None}, {"partition_id": 42}, {"partition_id": None}]


@pytest.mark.parametrize("broken", BROKEN, ids=json.dumps)
def test_a_broken_shape_is_400_and_changes_nothing(broker, broken):
    """ST-8."""
    query = query_of(broker)
    push(broker, 1)
    partition, lease, _ = take(broker)
    whole = {"query_id": query, "partition_id": partition, "consumer_group": "streams.sales", "state_ops": [upsert("k", 1)],
             "push_items": [{"queue": "out", "payload": 1}], "ack": ack(lease)}
    answer = broker.post("/streams/v1/cycle", {**whole, **broken})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request"), answer.text
    assert state(broker, query, partition) == {} and broker.pop("out") is None and take(broker) is None


def test_state_pushes_and_ack_are_one(broker):
    """ST-8, ST-12, ST-15, ST-17: the documented answer, field by field."""
    query = query_of(broker)
    push(broker, 17)
    popped = broker.pop("in", "p", batch=100)
    partition, lease = popped["partitionId"], popped["leaseId"]
    item = str(uuid.uuid4())
    answer = cycle(broker, query, partition, consumer_group="", state_ops=[upsert("a", 1), upsert("b", 2)],
                   push_items=[{"queue": "out", "partition": "c", "payload": {"sum": 31}}, {"payload": "skipped"},
                               {"queue": "out", "data": [1]}, {"queue": "out", "messageId": item}],
                   ack=ack(lease, 3))
    body = answer.json()
    pushed = body.pop("push_results")
    assert body == {"success": True, "query_id": query, "partition_id": partition, "queueName": "in", "state_ops_applied": 2,
                    "ack_result": {"success": True, "count": 17, "lease_released": True, "dlq": False}}
    assert [list(p) for p in pushed] == [["queueName", "messageId", "transactionId", "status"]] * 3
    assert [(p["queueName"], p["status"]) for p in pushed] == [("out", "created")] * 3
    assert all(p["transactionId"] == p["messageId"] for p in pushed) and pushed[2]["messageId"] == item
    assert [m["data"] for m in broker.pop("out", "c", batch=9)["messages"]] == [{"sum": 31}]
    assert [(m["data"], m["id"] == item) for m in broker.pop("out", "Default", batch=9)["messages"]] == [([1], False), ({}, True)]
    assert broker.pop("in", "p") is None


def test_a_lease_that_is_not_live_refuses_the_whole_cycle(broker):
    """ST-10, ST-18: a retry of what was committed is refused too."""
    query = query_of(broker)
    broker.post("/api/v1/configure", {"queue": "in", "options": {"leaseTime": 1}})
    push(broker, 2)
    partition, lease, _ = take(broker)
    more = {"state_ops": [upsert("k", 1)], "push_items": [{"queue": "out", "payload": 1}]}
    refused(broker, query, partition, "bad_lease", ack=ack(UNKNOWN), **more)
    refused(broker, query, partition, "bad_lease", ack=ack(lease), consumer_group="another", **more)
    time.sleep(1.2)
    refused(broker, query, partition, "bad_lease", ack=ack(lease), **more)
    assert state(broker, query, partition) == {} and broker.pop("out") is None
    partition, lease, again = take(broker)
    assert again == [0, 1]
    committed(broker, query, partition, ack=ack(lease), **more)
    refused(broker, query, partition, "bad_lease", ack=ack(lease), **more)
    assert len(broker.pop("out", batch=9)["messages"]) == 1


def test_a_nack_brings_the_messages_back_and_keeps_the_rest(broker):
    """ST-11."""
    query = query_of(broker)
    push(broker, 3)
    for status in ("failed", "retry", "whatever"):
        partition, lease, data = take(broker)
        assert data == [0, 1, 2]
        body = committed(broker, query, partition, state_ops=[upsert(status, 1)], ack=ack(lease, 3, status))
        assert body["ack_result"] == {"success": True, "count": 0, "lease_released": True, "dlq": False}
    assert len(state(broker, query, partition)) == 3
    for status in ("acked", "ok", "success", "", None):
        partition, lease, data = take(broker, batch=1)
        committed(broker, query, partition, ack=ack(lease, 1, status))
        push(broker, 1, first=10 + len(str(status)))
    assert take(broker)[2][0] != 0


def test_a_kept_lease_moves_by_count_and_no_further(broker):
    """ST-13."""
    query = query_of(broker)
    broker.post("/api/v1/configure", {"queue": "in", "options": {"leaseTime": 2}})
    push(broker, 5)
    partition, lease, _ = take(broker)
    assert committed(broker, query, partition, ack=ack(lease, 0), release_lease=False)["ack_result"]["count"] == 0
    assert committed(broker, query, partition, ack=ack(lease, -1), release_lease=False)["ack_result"]["count"] == 0
    body = committed(broker, query, partition, ack=ack(lease, 2), release_lease=False)
    assert body["ack_result"] == {"success": True, "count": 2, "lease_released": False, "dlq": False}
    assert take(broker) is None
    time.sleep(2.2)
    partition, lease, data = take(broker)
    assert data == [2, 3, 4]
    push(broker, 1, first=9)
    assert committed(broker, query, partition, ack=ack(lease, 99), release_lease=False)["ack_result"]["count"] == 3
    assert take(broker)[2] == [9]


def test_without_a_leased_batch_there_is_nothing_to_ack(broker):
    """ST-9, ST-14."""
    query = query_of(broker)
    push(broker, 1)
    partition = broker.pop("in", "p", consumerGroup="someone", subscriptionMode="all")["partitionId"]
    body = committed(broker, query, partition, state_ops=[upsert("k", 1)], ack=ack(""))
    assert body["ack_result"] is None and state(broker, query, partition) == {"k": 1}
    _, lease, _ = take(broker)
    committed(broker, query, partition, ack=ack(lease))
    refused(broker, query, partition, "no_batch", ack=ack(""), state_ops=[upsert("k", 2)])
    assert state(broker, query, partition) == {"k": 1}
    assert committed(broker, query, partition, state_ops=[upsert("k", 3)], ack=None)["ack_result"] is None


def test_a_stored_transaction_id_rolls_the_cycle_back(broker):
    """ST-15, DD-10; a repeat within the cycle is stored once."""
    query = query_of(broker)
    push(broker, 1)
    push(broker, 1, queue="out", partition="Default")
    partition, lease, _ = take(broker)
    refused(broker, query, partition, "duplicate", ack=ack(lease), state_ops=[upsert("k", 1)],
            push_items=[{"queue": "out", "transactionId": "new", "payload": 1}, {"queue": "out", "transactionId": "m0", "payload": 1}])
    assert state(broker, query, partition) == {} and len(broker.pop("out", batch=9)["messages"]) == 1
    twice = [{"queue": "twice", "transactionId": "t", "payload": n} for n in range(2)]
    results = committed(broker, query, partition, ack=ack(lease), push_items=twice)["push_results"]
    assert [r["status"] for r in results] == ["created", "duplicate"] and results[0]["messageId"] == results[1]["messageId"]
    assert [m["data"] for m in broker.pop("twice", batch=9)["messages"]] == [0]


def test_pushes_into_a_flagged_sink_are_sealed(make_broker):
    """D1; without a key the cycle is refused."""
    broker = make_broker(QUEEN_ENCRYPTION_KEY=KEY, QUEEN_RAFT_QLOG_ZSTD_LEVEL="0").start()
    flag(broker, "out")
    query = query_of(broker)
    push(broker, 1)
    partition, lease, _ = take(broker)
    items = [{"queue": "out", "partition": "p", "payload": {"secret": "plain-as-day"}}]
    committed(broker, query, partition, ack=ack(lease), push_items=items)
    assert broker.pop("out", "p")["messages"][0]["data"] == {"secret": "plain-as-day"}
    assert broker.terminate() == 0
    assert_nowhere(broker, "plain-as-day")
    broker.settings["QUEEN_ENCRYPTION_KEY"] = ""
    broker.start()
    refused(broker, query, partition, "encryption_required", push_items=items, state_ops=[upsert("k", 1)])
    assert state(broker, query, partition) == {}


def test_state_goes_with_its_queue(broker):
    query = query_of(broker)
    push(broker, 1)
    partition, _, _ = take(broker)
    committed(broker, query, partition, state_ops=[upsert(f"k{n}", n) for n in range(2000)])
    assert broker.session.delete(broker.url("/api/v1/resources/queues/in")).status_code == 200
    assert cycle(broker, query, partition).status_code == 404
    push(broker, 1)
    partition, _, _ = take(broker)
    assert state(broker, query, partition) == {}


# ---- the fold of what was committed, through kills ----

def test_state_is_the_fold_of_the_committed_input_through_kills(make_broker):
    """ST-8 to ST-18: workers that count and forward, each on its own group's lease, retry whatever they do not know; the node is
    killed while they do. In the end the state says what was forwarded, and that is every message once."""
    broker = make_broker().start()
    broker.post("/api/v1/configure", {"queue": "in", "options": {"leaseTime": 1}})
    query = query_of(broker)
    push(broker, 300)
    done = threading.Event()

    def work(seed):
        chance = random.Random(seed)
        while not done.is_set():
            try:
                got = take(broker, batch=chance.randint(1, 20))
                if got is None:
                    time.sleep(0.05)
                    continue
                partition, lease, data = got
                before = state(broker, query, partition).get("sum", {"n": 0, "sum": 0})
                kept = chance.random() < 0.3
                used = data[:chance.randint(1, len(data))] if kept else data
                cycle(broker, query, partition, ack=ack(lease, len(used)), release_lease=not kept,
                      state_ops=[upsert("sum", {"n": before["n"] + len(used), "sum": before["sum"] + sum(used)})],
                      push_items=[{"queue": "out", "partition": "p", "payload": n} for n in used])
            except Exception:  # the node is down, or the answer was lost: look again
                time.sleep(0.05)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for worker in workers:
        worker.start()
    for _ in range(3):
        time.sleep(0.7)
        broker.kill9()
        broker.start()
    deadline = time.monotonic() + 60
    partition = broker.get("/api/v1/messages", queue="in", limit=1).json()["messages"][0]["partitionId"]
    while time.monotonic() < deadline and state(broker, query, partition).get("sum", {}).get("n", 0) < 300:
        time.sleep(0.2)
    done.set()
    for worker in workers:
        worker.join()
    assert state(broker, query, partition) == {"sum": {"n": 300, "sum": sum(range(300))}}
    assert [r["payload"] for r in broker.fetch_all("out", "p")] == list(range(300))
