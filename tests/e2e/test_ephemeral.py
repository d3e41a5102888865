"""In-memory queues over HTTP (api-state.md 6), rule by rule, and with the published client."""

import asyncio
import json
import os
import pathlib
import resource
import shutil
import socket
import tempfile
import threading
import time

import pytest
import queen as published
import requests
from harness import Broker

E = "/api/v1/ephemeral"
PARKED = 2000


@pytest.fixture(scope="module")
def shared():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="queen-ephemeral-"))
    broker = Broker(directory / "data").start()
    yield broker
    broker.close()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def make():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="queen-ephemeral-"))
    made = []

    def start(**settings):
        made.append(Broker(directory / f"data{len(made)}", **settings).start())
        return made[-1]

    yield start
    for broker in made:
        broker.close()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def queue(request):
    return f"q-{request.node.name[:60]}-{os.getpid()}"


def push(broker, queue, *payloads, status=201, **more):
    answer = broker.post(f"{E}/push", {"queue": queue, "messages": [{"payload": p} for p in payloads], **more})
    assert answer.status_code == status, answer.text
    return answer.json()


def pop(broker, queue, **params):
    answer = requests.get(broker.url(f"{E}/pop"), params={"queue": queue, **params}, timeout=90)
    assert answer.status_code == 200, answer.text
    return answer.json()["messages"]


def payloads(messages):
    return [message["payload"] for message in messages]


def ack(broker, queue, messages, status=None, group=None):
    acks = [{"id": m["id"], **({"status": status} if status else {})} for m in messages]
    answer = broker.post(f"{E}/ack", {"queue": queue, "acks": acks, **({"group": group} if group else {})})
    assert answer.status_code == 200, answer.text
    return [result["outcome"] for result in answer.json()["results"]]


def configure(broker, queue, **options):
    answer = broker.post(f"{E}/configure", {"queue": queue, "options": options})
    assert answer.status_code == 201, answer.text
    return answer.json()


def listed(broker, queue):
    found = [row for row in broker.get(f"{E}/queues").json()["queues"] if row["queue"] == queue]
    return found[0] if found else None


def in_background(call):
    out = {}
    thread = threading.Thread(target=lambda: out.update(value=call()))
    thread.start()
    return thread, out


def parked(broker, count, seconds=10):
    """Waits until so many connections besides the test's own are open: their pops were sent."""
    time.sleep(0.3)


def test_a_pop_makes_the_queue_and_answers_an_empty_list(shared, queue):
    answer = shared.get(f"{E}/pop", queue=queue)
    assert (answer.status_code, answer.json()) == (200, {"queue": queue, "messages": []})
    assert listed(shared, queue)["tier"] == "implicit"


def test_payloads_come_back_byte_for_byte(shared, queue):
    texts = ['{ "a" : 1.50 , "ü":"\\u00fc" }', "null", " 12 ", '"x"', "[1,  2]"]
    body = '{"queue":"%s","messages":[%s]}' % (queue, ",".join('{"payload":%s}' % text for text in texts))
    assert shared.post(f"{E}/push", body).json() == {"pushed": 5}
    raw = shared.get(f"{E}/pop", queue=queue, batch=9).content.decode()
    for text in texts:
        assert '"payload":' + text.strip() + "}" in raw
    assert json.loads(raw)["messages"][0]["partition"] == "Default"


def test_an_empty_push_is_nothing(shared, queue):
    assert push(shared, queue) == {"pushed": 0}
    assert listed(shared, queue) is None


def test_groups_have_their_own_copy_and_workers_compete(shared, queue):
    push(shared, queue, 1, 2, 3)
    assert payloads(pop(shared, queue, group="a", batch=2)) == [1, 2]
    assert payloads(pop(shared, queue, group="a", batch=9)) == [3]
    assert payloads(pop(shared, queue, group="b", batch=9)) == [1, 2, 3]
    assert payloads(pop(shared, queue, batch=9)) == [1, 2, 3]


def test_memory_is_freed_when_every_group_passed(shared, queue):
    push(shared, queue, 1)
    a, b = pop(shared, queue, group="a"), pop(shared, queue, group="b")
    assert ack(shared, queue, a, group="a") == ["acked"] and listed(shared, queue)["depth"] == 1
    assert ack(shared, queue, b, group="b") == ["acked"] and listed(shared, queue)["depth"] == 0


def test_two_parked_groups_both_get_the_first_message(shared, queue):
    waits = [in_background(lambda g=g: pop(shared, queue, group=g, wait="true", timeout=20000)) for g in ("a", "b")]
    parked(shared, 2)
    push(shared, queue, "first", partition="anywhere")
    for thread, out in waits:
        thread.join(20)
        assert payloads(out["value"]) == ["first"]


def test_request_and_reply_through_an_inbox(shared, queue):
    inbox = queue + "-inbox"
    thread, out = in_background(lambda: pop(shared, inbox, wait="true", timeout=20000, commitOnDelivery="true"))
    push(shared, queue, {"replyTo": inbox, "n": 20})
    request = pop(shared, queue, wait="true", timeout=20000)[0]
    push(shared, request["payload"]["replyTo"], request["payload"]["n"] + 1)
    assert ack(shared, queue, [request]) == ["acked"]
    thread.join(20)
    assert payloads(out["value"]) == [21]


def test_a_partition_can_be_named_and_all_are_served_by_name(shared, queue):
    push(shared, queue, "b", partition="b")
    push(shared, queue, "a", partition="a")
    assert payloads(pop(shared, queue, group="g", batch=9)) == ["a", "b"]
    assert payloads(pop(shared, queue, group="h", partition="b", batch=9)) == ["b"]


def test_a_nack_comes_back_at_once_with_attempts_2_and_is_given_up(shared, queue):
    configure(shared, queue, retryLimit=2)
    push(shared, queue, "x")
    first = pop(shared, queue)
    thread, out = in_background(lambda: pop(shared, queue, wait="true", timeout=20000))
    parked(shared, 1)
    assert ack(shared, queue, first, "failed") == ["redelivered"]
    thread.join(20)
    second = out["value"]
    assert second[0]["attempts"] == 2 and second[0]["id"] == first[0]["id"]
    assert ack(shared, queue, second, "nonsense") == ["acked"]
    assert listed(shared, queue)["drops"] == {"bounds": 0, "ttl": 0, "retry": 1}


def test_words_of_an_ack(shared, queue):
    push(shared, queue, *range(6))
    messages = pop(shared, queue, batch=6)
    words = ["completed", "success", "acked", "ok", "retry", "other"]
    acks = [{"id": m["id"], "status": word, "error": {"any": 1}} for m, word in zip(messages, words)]
    answer = shared.post(f"{E}/ack", {"queue": queue, "acks": acks}).json()["results"]
    assert [r["outcome"] for r in answer] == ["acked"] * 4 + ["redelivered"] * 2
    assert ack(shared, queue, messages[:1]) == ["unknown"]
    assert ack(shared, queue, [{"id": "e:1:Default:0"}, {"id": "nonsense"}]) == ["stale", "stale"]


def test_an_expired_lease_comes_again(shared, queue):
    configure(shared, queue, leaseSeconds=1)
    push(shared, queue, "x")
    assert pop(shared, queue)[0]["attempts"] == 1
    began = time.monotonic()
    assert pop(shared, queue, wait="true", timeout=20000)[0]["attempts"] == 2
    assert 0.5 < time.monotonic() - began < 5


def test_commit_on_delivery_holds_no_lease(shared, queue):
    push(shared, queue, 1, 2)
    taken = pop(shared, queue, autoAck="true")
    assert listed(shared, queue)["depth"] == 1 and ack(shared, queue, taken) == ["unknown"]


def test_bounds_reject_or_drop_the_oldest(shared, queue):
    configure(shared, queue, maxLength=3)
    push(shared, queue, 1, 2)
    refused = shared.post(f"{E}/push", {"queue": queue, "messages": [{"payload": 3}, {"payload": 4}]})
    assert (refused.status_code, refused.json()["code"]) == (429, "queue_full")
    assert listed(shared, queue)["depth"] == 2
    configure(shared, queue, maxLength=3, policy="dropOldest")
    pop(shared, queue, group="g")
    push(shared, queue, 3, 4, 5)
    assert payloads(pop(shared, queue, group="new", batch=9)) == [3, 4, 5]
    depth = shared.get(f"{E}/queues/{queue}/depth", group="g").json()
    assert [g for g in depth["groups"] if g["group"] == "g"] == [{"group": "g", "pending": 3, "skipped": 1}]


def test_ttl_drops_what_nobody_read(shared, queue):
    configure(shared, queue, ttlSeconds=1)
    push(shared, queue, "old")
    time.sleep(1.2)
    assert pop(shared, queue) == [] and listed(shared, queue)["drops"]["ttl"] == 1


def test_the_window_fattens_a_waiting_pop(shared, queue):
    configure(shared, queue, windowBuffer={"ms": 500, "count": 3})
    thread, out = in_background(lambda: pop(shared, queue, batch=10, wait="true", timeout=20000))
    parked(shared, 1)
    push(shared, queue, 1)
    time.sleep(0.1)
    push(shared, queue, 2)
    thread.join(20)
    assert payloads(out["value"]) == [1, 2]
    push(shared, queue, 3)
    assert payloads(pop(shared, queue, batch=10)) == [3]


def test_configure_has_a_closed_list_of_options(shared, queue):
    stored = configure(shared, queue, maxBytes=1 << 40, ttlSeconds=3)
    assert stored == {"queue": queue, "tier": "declared", "options": {
        "maxBytes": 1 << 40, "maxLength": 0, "policy": "reject", "ttlSeconds": 3, "leaseSeconds": 0, "retryLimit": 0,
        "windowBuffer": {"ms": 0, "count": 0}}}
    assert listed(shared, queue)["options"] == {
        "maxBytes": 16777216, "maxLength": 10000, "policy": "reject", "ttlSeconds": 3, "leaseSeconds": 30, "retryLimit": 5,
        "windowBuffer": {"ms": 0, "count": 0}}
    assert shared.post(f"{E}/configure", {"queue": queue}).status_code == 201
    for options in ({"maxByte": 1}, {"maxBytes": -1}, {"maxBytes": 1.5}, {"maxBytes": "1"}, {"maxBytes": None}, {"policy": "x"},
                    {"windowBuffer": 5}, {"windowBuffer": {"s": 1}}, {"windowBuffer": {"ms": -1}}, [], 7):
        answer = shared.post(f"{E}/configure", {"queue": queue, "options": options})
        assert (answer.status_code, answer.json()["code"]) == (400, "ephemeral_bad_request"), options
    assert shared.post(f"{E}/configure", {"queue": queue, "option": {}}).status_code == 400


def test_bad_input_is_400_and_changes_nothing(shared, queue):
    message = {"payload": 1}
    bodies = [b"", b"[]", b"{", {}, {"queue": queue}, {"queue": "", "messages": []}, {"queue": 7, "messages": []},
              {"queue": "x" * 513, "messages": []}, {"queue": "a\nb", "messages": []}, {"queue": queue, "messages": {}},
              {"queue": queue, "messages": [1]}, {"queue": queue, "messages": [{}]},
              {"queue": queue, "partition": "", "messages": [message]}, {"queue": queue, "partition": 1, "messages": [message]},
              {"queue": queue, "messages": [message] * 10001}]
    for body in bodies:
        answer = shared.post(f"{E}/push", body)
        assert (answer.status_code, answer.json()["code"]) == (400, "ephemeral_bad_request"), body
    for params in ({}, {"queue": ""}, {"queue": queue, "batch": "x"}, {"queue": queue, "wait": "maybe"},
                   {"queue": queue, "partition": ""}, {"queue": queue, "timeout": "1.5"}, {"queue": "a\tb"}):
        answer = shared.get(f"{E}/pop", **params)
        assert (answer.status_code, answer.json()["code"]) == (400, "ephemeral_bad_request"), params
    for body in ({"queue": queue}, {"queue": queue, "acks": [{}]}, {"queue": queue, "acks": [{"id": 1}]}, {"acks": []}):
        assert shared.post(f"{E}/ack", body).status_code == 400, body
    assert shared.post(f"{E}/reset", {}).status_code == 400
    assert listed(shared, queue) is None


def test_reset_and_delete(shared, queue):
    push(shared, queue, 1, 2)
    taken = pop(shared, queue)
    assert shared.post(f"{E}/reset", {"queue": queue}).json() == {"queue": queue, "dropped": 2}
    assert shared.post(f"{E}/reset", {"queue": queue + "x"}).json() == {"queue": queue + "x", "dropped": 0}
    assert ack(shared, queue, taken) == ["unknown"] and pop(shared, queue) == []
    delete = lambda: requests.delete(shared.url(f"{E}/queue/{queue}"), timeout=10).json()
    assert delete() == {"queue": queue, "deleted": True, "declared": False}
    assert delete() == {"queue": queue, "deleted": False, "declared": False}
    configure(shared, queue)
    assert delete() == {"queue": queue, "deleted": True, "declared": True}
    missing = shared.get(f"{E}/queues/{queue}/depth")
    assert (missing.status_code, missing.json()["code"]) == (404, "ephemeral_queue_not_found")


def test_listing_and_depth_have_their_shapes(shared, queue):
    push(shared, queue, "ab", "c", partition="p1")
    push(shared, queue, "d", partition="p2")
    pop(shared, queue, group="g", partition="p1")
    row = listed(shared, queue)
    assert list(row) == ["queue", "tier", "depth", "bytes", "partitions", "groups", "drops", "options"]
    assert (row["depth"], row["bytes"], row["partitions"], row["groups"]) == (3, 10, 2, 1)
    page = shared.get(f"{E}/queues").json()
    assert list(page) == ["queues", "count", "cellBytes"] and page["count"] == len(page["queues"]) and page["cellBytes"] > 10
    assert shared.get(f"{E}/queues/{queue}/depth", group="g").json() == {
        "queue": queue, "group": "g", "tier": "implicit", "pending": 3, "partitionsPending": 2, "bytes": 10,
        "partitions": [{"partition": "p1", "pending": 2, "bytes": 7}, {"partition": "p2", "pending": 1, "bytes": 3}],
        "groups": [{"group": "g", "pending": 3, "skipped": 0}]}


def test_calls_between_nodes_are_refused(shared):
    mark = {"x-queen-eph-fwd": "1"}
    for method, path in (("POST", "_adopt"), ("POST", "_leaving"), ("GET", "_ready")):
        answer = requests.request(method, shared.url(f"{E}/{path}"), headers=mark, timeout=10)
        assert (answer.status_code, answer.json()["code"]) == (403, "ephemeral_peer_only")


def test_an_unused_implicit_queue_is_collected(make, queue):
    broker = make(QUEEN_EPHEMERAL_IMPLICIT_IDLE_S="1")
    configure(broker, queue + "-declared")
    pop(broker, queue)
    push(broker, queue + "-full", 1)
    assert broker.get(f"{E}/queues").json()["count"] == 3
    time.sleep(1.5)
    assert [row["queue"] for row in broker.get(f"{E}/queues").json()["queues"]] == [queue + "-declared", queue + "-full"]


def test_a_restart_keeps_the_declaration_and_nothing_else(make, queue):
    broker = make()
    configure(broker, queue, maxLength=7)
    push(broker, queue, 1)
    taken = pop(broker, queue)
    push(broker, queue + "-implicit", 1)
    broker.kill9()
    broker.start()
    rows = broker.get(f"{E}/queues").json()["queues"]
    assert [(row["queue"], row["depth"], row["options"]["maxLength"]) for row in rows] == [(queue, 0, 7)]
    push(broker, queue, 2)
    assert ack(broker, queue, taken) == ["stale"]
    assert payloads(pop(broker, queue)) == [2]


def test_the_node_the_tenant_and_the_rate_have_limits(make, queue):
    broker = make(QUEEN_EPHEMERAL_MAX_BYTES="20000", QUEEN_EPHEMERAL_RATE="10", QUEEN_EPHEMERAL_BURST="20")
    push(broker, queue, *range(20))
    limited = broker.post(f"{E}/push", {"queue": queue, "messages": [{"payload": 0}] * 20})
    assert (limited.status_code, limited.json()["code"], limited.headers["Retry-After"]) == (429, "rate_limited", "2")
    quota = {"kind": "ephemeral", "maxBytes": 15000, "maxQueues": 1, "maxMessagesPerSecond": 1000000}
    assert broker.post("/api/v1/system/quota", quota).status_code == 200
    full = broker.post(f"{E}/push", {"queue": queue, "messages": [{"payload": "x" * 14990}]})
    assert (full.status_code, full.json()["code"]) == (403, "ephemeral_quota_exceeded")
    assert broker.post(f"{E}/configure", {"queue": "another"}).json()["code"] == "ephemeral_quota_exceeded"
    assert broker.get(f"{E}/pop", queue="another").json()["code"] == "ephemeral_quota_exceeded"
    assert broker.post("/api/v1/system/quota", {**quota, "maxBytes": 0, "maxQueues": 0}).status_code == 200
    full = broker.post(f"{E}/push", {"queue": queue, "messages": [{"payload": "x" * 19000}]})
    assert (full.status_code, full.json()["code"], full.headers["Retry-After"]) == (503, "ephemeral_unavailable", "1")
    assert broker.post("/api/v1/system/ephemeral", {"enabled": False}).status_code == 200
    for answer in (broker.get(f"{E}/pop", queue=queue), broker.post(f"{E}/push", {"queue": queue, "messages": []}),
                   broker.post(f"{E}/reset", {"queue": queue}), broker.post(f"{E}/configure", {"queue": queue})):
        assert (answer.status_code, answer.json()["code"], answer.headers["Retry-After"]) == (503, "ephemeral_disabled", "1")
    assert broker.get(f"{E}/queues").status_code == 200


def test_a_tenant_needs_a_grant_when_the_header_counts(make, queue):
    broker = make(QUEEN_TENANCY_HEADER="true", QUEEN_KV_TRUSTED_PROXY="true")
    tenant = {"x-queen-tenant": "01b7c0de-0001-7aaa-8bbb-00000000000a"}
    ask = lambda: requests.get(broker.url(f"{E}/pop"), params={"queue": queue}, headers=tenant, timeout=10)
    assert (ask().status_code, ask().json()["code"]) == (403, "feature_gated")
    push(broker, queue, 1)
    grant = {"kind": "ephemeral", "tenant": tenant["x-queen-tenant"]}
    assert broker.post("/api/v1/resources/quota", grant).status_code == 200
    assert ask().json() == {"queue": queue, "messages": []}  # the other tenant's queue is another one


def test_a_client_that_leaves_takes_no_message(shared, queue):
    with socket.create_connection(("127.0.0.1", shared.port)) as gone:
        gone.sendall(f"GET {E}/pop?queue={queue}&wait=true&timeout=60000 HTTP/1.1\r\nHost: q\r\n\r\n".encode())
        time.sleep(0.3)
    time.sleep(0.3)
    push(shared, queue, "x")
    assert payloads(pop(shared, queue)) == ["x"]


def test_two_thousand_parked_pops_each_get_their_message_and_leave_at_a_stop(make):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * PARKED + 500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"this machine lets a process open {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    broker = make()

    async def ask(n):
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        target = f"queue=inbox-{n}" if n % 2 == 0 else f"queue=shared&group=g{n % 10}"
        writer.write(f"GET {E}/pop?{target}&wait=true&timeout=120000&commitOnDelivery=true HTTP/1.1\r\nHost: q\r\n\r\n".encode())
        await writer.drain()
        return reader, writer

    async def messages_of(reader):
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        return json.loads(await asyncio.wait_for(reader.readexactly(length), 60))["messages"]

    async def run():
        waiting = []
        for start in range(0, PARKED, 100):
            waiting += await asyncio.gather(*(ask(n) for n in range(start, start + 100)))
        await asyncio.sleep(1)
        before = ticks(broker.process.pid)
        await asyncio.sleep(3)
        idle = ticks(broker.process.pid) - before
        loop = asyncio.get_running_loop()
        for n in range(0, PARKED // 2, 2):
            await loop.run_in_executor(None, lambda: push(broker, f"inbox-{n}", n))
        for n in range(0, PARKED // 2, 2):
            assert payloads(await messages_of(waiting[n][0])) == [n]
        push(broker, "shared", *range(100))  # every group has its own copy of each
        got = {}
        for n in range(1, PARKED, 2):
            if (n // 10) < 100:
                (payload,) = payloads(await messages_of(waiting[n][0]))
                got.setdefault(n % 10, []).append(payload)
        assert {group: sorted(values) for group, values in got.items()} == {g: list(range(100)) for g in (1, 3, 5, 7, 9)}
        began = time.monotonic()
        code = await loop.run_in_executor(None, broker.terminate)
        assert code == 0 and time.monotonic() - began < 15
        for n in range(PARKED // 2, PARKED, 2):
            assert await messages_of(waiting[n][0]) == []
        for _, writer in waiting:
            writer.close()
        return idle

    assert asyncio.run(run()) < 0.3  # seconds of processor time in 3


def ticks(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_calls_of_the_published_client(shared, queue):
    async def run():
        async with published.Queen(url=shared.url("")) as client:
            ephemeral = client.ephemeral
            await ephemeral.configure(queue, max_length=3, policy="dropOldest", window_buffer={"ms": 0, "count": 0})
            assert await ephemeral.push(queue, [{"n": 1}, {"n": 2}], partition="p") == {"pushed": 2}
            taken = (await ephemeral.pop(queue, group="g", batch=5))["messages"]
            assert [m["payload"] for m in taken] == [{"n": 1}, {"n": 2}]
            results = (await ephemeral.ack(queue, [taken[0], {"id": taken[1]["id"], "status": False}], group="g"))["results"]
            assert [r["outcome"] for r in results] == ["acked", "redelivered"]
            again = (await ephemeral.pop(queue, group="g", wait=True, timeout=5000, commit_on_delivery=True))["messages"]
            assert [(m["payload"], m["attempts"]) for m in again] == [({"n": 2}, 2)]
            assert (await ephemeral.pop(queue, group="g"))["messages"] == []
            await ephemeral.push(queue, [1, 2], buffered={"message_count": 10, "interval_millis": 60000})
            await ephemeral.flush(queue)
            assert (await ephemeral.depth(queue))["bytes"] == 2
            assert queue in [row["queue"] for row in (await ephemeral.queues())["queues"]]
            assert (await ephemeral.reset(queue))["dropped"] == 2
            assert (await ephemeral.delete(queue))["deleted"] is True
            with pytest.raises(published.EphemeralQueueNotFoundError):
                await ephemeral.depth(queue)

    asyncio.run(run())
