"""Acks and leases against the HTTP contract, rule by rule; what survives a restart."""

import random
import socket
import threading
import time

import pytest

IDS = "abc"
NO_LEASE = object()


def item(queue="q", partition="p", payload=1, **more):
    return {"queue": queue, "partition": partition, "payload": payload, **more}


def options(broker, **values):
    assert broker.post("/api/v1/configure", {"queue": "q", "options": values}).status_code == 200


def leased(broker, ids=IDS, **params):
    """Pushes one message per id to one partition and leases them all."""
    broker.push([item(transactionId=i, payload=i) for i in ids])
    got = broker.pop("q", "p", **params)
    assert [m["transactionId"] for m in got["messages"]] == list(ids)
    return got


def ack(broker, popped, items, group=None, lease=None):
    """`items`: pairs of transaction id and status; answers by position."""
    lease = popped["leaseId"] if lease is None else lease
    body = {"acknowledgments": [{"transactionId": t, "partitionId": popped["partitionId"], "status": s,
                                 **({} if lease is NO_LEASE else {"leaseId": lease})} for t, s in items]}
    if group:
        body["consumerGroup"] = group
    answer = broker.post("/api/v1/ack/batch", body)
    assert answer.status_code == 200, answer.text
    rows = answer.json()
    assert [r["index"] for r in rows] == list(range(len(items))) and [r["transactionId"] for r in rows] == [t for t, _ in items]
    assert all(list(r) == ["index", "transactionId", "success", "error", "leaseReleased", "dlq", "noop"] for r in rows)
    return rows


def ids_of(answer):
    return [m["transactionId"] for m in answer["messages"]] if answer else []


def counts(broker):
    return broker.get("/api/v1/resources/queues").json()["queues"][0]["messages"]


def until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        got = condition()
        if got:
            return got
        time.sleep(0.02)
    raise AssertionError("the condition does not come")


# retryLimit, dead letters on, items, cursor, lease released, dead letters
TABLE = [
    (3, True, [("c", "completed")], 2, True, 0),
    (3, True, [("b", "completed")], 1, False, 0),
    (3, True, [("a", "failed"), ("c", "completed")], -1, True, 0),
    (3, True, [("a", "failed"), ("a", "dlq")], 0, True, 1),
    (3, True, [("a", "dlq")], 0, True, 1),
    (3, True, [("a", "retry")], -1, True, 0),
    (3, True, [("a", "dlq"), ("b", "failed"), ("c", "dlq")], 0, True, 1),
    (0, True, [("a", "failed"), ("b", "failed"), ("c", "failed")], 2, True, 3),
    (0, True, [("a", "failed"), ("b", "completed"), ("c", "completed")], 2, True, 1),
    (0, True, [("a", "completed"), ("b", "failed"), ("c", "failed")], 2, True, 2),
    (0, True, [("a", "failed"), ("b", "retry"), ("c", "failed")], 0, True, 1),
    (0, True, [("a", "failed"), ("c", "failed")], 0, True, 1),
    (0, False, [("a", "failed"), ("b", "failed"), ("c", "failed")], 2, True, 0),
    (3, True, [("never", "completed")], -1, False, 0),
]


@pytest.mark.parametrize("limit,dead,items,cursor,released,filed", TABLE)
def test_the_worked_table(broker, limit, dead, items, cursor, released, filed):
    """5.2, A-1, A-2, A-5 to A-9."""
    options(broker, retryLimit=limit, deadLetterQueue=dead, dlqAfterMaxRetries=dead)
    got = leased(broker, leaseSeconds=60)
    rows = ack(broker, got, items)
    assert {r["leaseReleased"] for r in rows} == {released}
    assert sum(r["dlq"] for r in {r["transactionId"]: r for r in rows}.values()) == filed == counts(broker)["deadLetter"]
    if released:
        assert ids_of(broker.pop("q", "p")) == list(IDS[cursor + 1:])
    else:
        assert broker.pop("q", "p") is None
        rest = ack(broker, got, [("c", "completed")])[0]
        assert rest["success"] and rest["leaseReleased"]


def test_a_ok_after_b_ok_is_a_noop(broker):
    """5.2, A-11."""
    got = leased(broker)
    ack(broker, got, [("b", "completed")])
    row = ack(broker, got, [("a", "completed")])[0]
    assert (row["success"], row["noop"], row["error"]) == (True, True, None)


@pytest.mark.parametrize("status", ["failed", "retry", "dlq"])
def test_a_nack_behind_the_cursor_is_unresolvable(broker, status):
    """5.2, 5: and it changes nothing."""
    got = leased(broker)
    ack(broker, got, [("b", "completed")])
    row = ack(broker, got, [("a", status)])[0]
    assert row["success"] is False and "unresolvable" in row["error"] and row["leaseReleased"] is False
    assert ack(broker, got, [("c", "completed")])[0]["leaseReleased"] is True


def test_b_ok_without_a_lease_id_keeps_the_lease(broker):
    """5.2, A-4."""
    got = leased(broker, leaseSeconds=60)
    row = ack(broker, got, [("b", "completed")], lease=NO_LEASE)[0]
    assert row["success"] is True and row["leaseReleased"] is False and broker.pop("q", "p") is None
    assert ack(broker, got, [("c", "completed")], lease="")[0]["leaseReleased"] is True


def test_a_single_body_and_words_of_the_status(broker):
    """5: both paths accept both bodies; an unknown word is `completed`."""
    got = leased(broker)
    one = {"partitionId": got["partitionId"], "leaseId": got["leaseId"], "acknowledgments": []}
    row = broker.post("/api/v1/ack/batch", {**one, "transactionId": "a", "status": "whatever"}).json()[0]
    assert row["success"] and not row["leaseReleased"]
    row = broker.post("/api/v1/ack", {**one, "transactionId": "b", "status": "DLQ", "error": None, "consumerGroup": None}).json()[0]
    assert row["dlq"] is True and row["leaseReleased"] is True


@pytest.mark.parametrize("body,code", [
    ('{"transactionId":"t"}', "bad_body"), ('{"partitionId":"1"}', "bad_body"), ('{"transactionId":"t","partitionId":1}', "bad_body"),
    ('{"transactionId":"t","partitionId":"1","leaseId":7}', "bad_body"), ('{"acknowledgments":{}}', "bad_body"),
    ('{"acknowledgments":[{"transactionId":"t"}]}', "bad_body"), ("[]", "bad_body"), ("", "bad_body")])
def test_shapes_that_are_refused(broker, body, code):
    """5, 1.4."""
    answer = broker.post("/api/v1/ack", body)
    assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_texts_of_item_errors(broker):
    """5: the marked words; foreign and unknown partitions alike (ruling 9)."""
    got = leased(broker)
    body = {"acknowledgments": [{"transactionId": "a", "partitionId": p, "leaseId": lease} for p, lease in
                                [("x1", ""), ("-1", ""), ("999999", ""), ("99999999999999999999999", ""), (got["partitionId"], "nobody")]]}
    rows = broker.post("/api/v1/ack", body).json()
    assert [r["error"] for r in rows] == ["partitionId is not a partition id"] * 2 + ["no partition 999999",
                                          "no partition 99999999999999999999999", "invalid or expired lease"]
    assert not any(r["success"] for r in rows)


def test_a_foreign_partition_is_an_unknown_one(make_broker):
    """1.2."""
    broker = make_broker(QUEEN_TENANCY_HEADER="true", QUEEN_KV_TRUSTED_PROXY="true").start()
    got = leased(broker)
    answer = broker.session.post(broker.url("/api/v1/ack"), json={"transactionId": "a", "partitionId": got["partitionId"]},
                                 headers={"x-queen-tenant": "11111111-2222-3333-4444-555555555555"}).json()
    assert answer[0]["error"] == f"no partition {got['partitionId']}"


# ---- fencing, repeats ---------------------------------------------------------------------------------------


def test_an_item_outside_the_batch_fails_alone(broker):
    """A-3."""
    broker.push([item(transactionId=t) for t in "abcd"])
    got = broker.pop("q", "p", batch=2)
    rows = ack(broker, got, [("a", "completed"), ("d", "completed"), ("b", "completed")])
    assert [r["success"] for r in rows] == [True, False, True] and "unresolvable" in rows[1]["error"]
    assert ids_of(broker.pop("q", "p")) == ["c", "d"]


def test_an_expired_lease_is_fenced_and_a_bare_ack_is_not(broker):
    """L-4, A-3, A-4, semantics suite 6."""
    got = leased(broker, leaseSeconds=1)
    time.sleep(1.1)
    assert ack(broker, got, [("c", "completed")])[0]["error"] == "invalid or expired lease"
    row = ack(broker, got, [("b", "completed")], lease=NO_LEASE)[0]
    assert row["success"] is True and ids_of(broker.pop("q", "p")) == ["c"]


def test_a_bare_nack_without_a_lease_does_nothing(broker):
    """A-4."""
    got = leased(broker, leaseSeconds=1)
    time.sleep(1.1)
    row = ack(broker, got, [("a", "dlq")], lease=NO_LEASE)[0]
    assert row["success"] is True and row["dlq"] is False
    assert ids_of(broker.pop("q", "p")) == list(IDS) and counts(broker)["deadLetter"] == 0


def test_the_same_ack_again_is_answered_the_same(broker):
    """A-12."""
    got = leased(broker)
    for _ in range(3):
        rows = ack(broker, got, [(t, "completed") for t in IDS])
        assert [(r["success"], r["leaseReleased"]) for r in rows] == [(True, True)] * 3
    stale = ack(broker, got, [("never", "completed")])[0]
    assert stale["success"] is False


def test_the_same_ack_again_that_filed_dead_letters(broker):
    """A-12."""
    options(broker, retryLimit=0)
    got = leased(broker)
    body = [("a", "failed"), ("b", "completed"), ("c", "dlq")]
    ack(broker, got, body)
    assert [r["success"] for r in ack(broker, got, body)] == [True] * 3 and counts(broker)["deadLetter"] == 2


def test_a_release_for_redelivery_is_not_remembered(broker):
    """A-12."""
    got = leased(broker)
    ack(broker, got, [("a", "retry")])
    assert ack(broker, got, [("a", "retry")])[0]["error"] == "invalid or expired lease"


@pytest.mark.parametrize("how", ["terminate", "kill9"])
def test_the_repeat_is_known_after_a_restart(broker, how):
    """A-12, A-14."""
    got = leased(broker)
    body = [(t, "completed") for t in IDS]
    ack(broker, got, body)
    getattr(broker, how)()
    broker.start()
    assert all(r["success"] and r["leaseReleased"] for r in ack(broker, got, body)) and broker.pop("q", "p") is None


def test_a_finished_message_is_recognised(broker):
    """A-11."""
    got = leased(broker)
    ack(broker, got, [("c", "completed")])
    row = ack(broker, got, [("a", "completed")], lease=NO_LEASE)[0]
    assert (row["success"], row["noop"]) == (True, True)
    row = ack(broker, got, [("a", "failed")], lease=NO_LEASE)[0]
    assert row["success"] is False and "unresolvable" in row["error"]


def test_targets_are_independent(broker):
    """A-13, engine case 13, pop suite 8."""
    broker.push([item(partition=p, transactionId=p + str(i)) for p in ("x", "y") for i in range(3)])
    got = broker.pop("q", partitions=2)
    assert len({m["leaseId"] for m in got["messages"]}) == 1
    body = {"acknowledgments": [{"transactionId": m["transactionId"], "partitionId": m["partitionId"],
                                 "leaseId": m["leaseId"] if m["partition"] == "x" else "wrong"} for m in got["messages"]]}
    rows = broker.post("/api/v1/ack/batch", body).json()
    assert [r["success"] for r in rows] == [m["partition"] == "x" for m in got["messages"]]
    nack = [m for m in got["messages"] if m["partition"] == "y"][0]
    assert ack(broker, nack, [("y0", "failed")])[0]["success"] is True


def worst_push_beside(broker, call):
    """The longest wait of a push to another queue while `call` runs."""
    slow = threading.Thread(target=call)
    slow.start()
    worst, other = 0.0, broker.session.__class__()
    while slow.is_alive():
        started = time.monotonic()
        other.post(broker.url("/api/v1/push"), json={"items": [item("calm")]})
        worst = max(worst, time.monotonic() - started)
    slow.join()
    return worst


def test_a_call_full_of_unknown_ids_holds_nobody_up(broker):
    """Ack-window suite 1, HD-35: one hostile call does not move the pushes of others."""
    for part in range(20):
        broker.push([item(transactionId=f"m{part}-{i}") for i in range(10_000)])
    broker.pop("q", "p", batch=199_000, commitOnDelivery="true")
    got = broker.pop("q", "p", batch=1000)
    worst = worst_push_beside(broker, lambda: ack(broker, got, [(f"never{i}", "completed") for i in range(5000)]))
    assert worst < 0.5, f"a push waited {worst:.2f} s behind one ack"
    assert ack(broker, got, [(got["messages"][-1]["transactionId"], "completed")])[0]["success"] is True


@pytest.mark.parametrize("status", ["failed", "dlq"])
def test_a_large_batch_is_nacked_promptly(broker, status):
    """5.1, 14 (deadline of 30 s): the cost of a nack grows with its items, not with their square."""
    got = leased(broker, [f"m{i}" for i in range(10_000)], batch=10_000)
    started = time.monotonic()
    rows = ack(broker, got, [(m["transactionId"], status) for m in got["messages"]])
    assert all(r["success"] for r in rows) and time.monotonic() - started < 3


def model(items, count, limit, counter, files):
    """A-1 to A-9 for a lease on offsets 0 to count - 1: cursor, released, dead letters."""
    rank = {"completed": 0, "retry": 1, "failed": 2, "dlq": 3}
    named = {}
    for offset, status in items:
        if offset not in named or rank[status] > rank[named[offset]]:
            named[offset] = status
    head = min([o for o, s in named.items() if s != "completed"], default=None)
    below = [o for o, s in named.items() if s == "completed" and (head is None or o < head)]
    cursor = max(below, default=-1)
    if head is None:
        return cursor, cursor == count - 1, 0
    spent = counter >= limit
    if named[head] == "retry" or (named[head] == "failed" and not spent):
        return cursor, True, 0
    filed, top = 0, max([o for o, s in named.items() if s == "completed"], default=-1)
    for offset in range(head, count):
        status = named.get(offset, "completed" if offset < top else "retry")
        if status == "retry" or (status == "failed" and not spent):
            break
        filed += status == "dlq" or (status == "failed" and files)
        cursor = offset
    return cursor, True, filed


@pytest.mark.parametrize("limit,files", [(0, True), (0, False), (1, True), (3, True)])
def test_random_acks_follow_the_rules(broker, limit, files):
    """A-1 to A-10 against a model; the seed is printed."""
    seed = 20260 + limit
    print("seed", seed)
    dice, ids, dead = random.Random(seed), "abcd", 0
    options(broker, retryLimit=limit, deadLetterQueue=files, dlqAfterMaxRetries=files)
    for case in range(60):
        part, counter = f"case{case}", 0
        broker.push([item(partition=part, transactionId=t) for t in ids])
        got = broker.pop("q", part, leaseSeconds=60)
        if limit == 1 and case % 2:
            ack(broker, got, [("a", "failed")])
            got, counter = broker.pop("q", part, leaseSeconds=60), 1
        items = [(dice.randrange(4), dice.choice(["completed", "completed", "failed", "retry", "dlq"])) for _ in range(dice.randint(1, 6))]
        rows = ack(broker, got, [(ids[o], s) for o, s in items])
        cursor, released, filed = model(items, 4, limit, counter, files)
        dead += filed
        assert all(r["success"] and r["leaseReleased"] == released for r in rows), (case, items, rows)
        assert counts(broker)["deadLetter"] == dead, (case, items, rows)
        if not released:
            ack(broker, got, [(t, "retry") for t in ids[cursor + 1:cursor + 2]])
        assert ids_of(broker.pop("q", part)) == list(ids[cursor + 1:]), (case, items)


# ---- leases -------------------------------------------------------------------------------------------------


def test_a_lease_excludes_its_group_only(broker):
    """L-1, S-7, engine case 1."""
    leased(broker, consumerGroup="g", subscriptionMode="all")
    assert broker.pop("q", "p", consumerGroup="g", subscriptionMode="all") is None
    assert broker.pop("q", consumerGroup="g", subscriptionMode="all") is None
    assert ids_of(broker.pop("q", consumerGroup="h", subscriptionMode="all")) == list(IDS)


def test_lease_seconds_of_the_pop_win(broker):
    """4.1, L-2, semantics suite 13; a lease time below 1 acts as 1 (10.2)."""
    options(broker, leaseTime=60)
    leased(broker, leaseSeconds=1)
    started = time.monotonic()
    until(lambda: broker.pop("q", "p"), 3)
    assert 0.9 < time.monotonic() - started < 1.3
    options(broker, leaseTime=-5)
    broker.push([item("q", "z")])
    assert broker.pop("q", "z") and broker.pop("q", "z") is None
    until(lambda: broker.pop("q", "z"), 3)


def test_changed_options_leave_running_leases(broker):
    """Q-2."""
    options(broker, leaseTime=1)
    leased(broker)
    options(broker, leaseTime=60)
    until(lambda: broker.pop("q", "p"), 2.5)


def test_delivery_attempt(broker):
    """L-8, engine case 4, over a partial ack."""
    attempts = [leased(broker, leaseSeconds=1)["messages"][0]["deliveryAttempt"]]
    for _ in range(2):
        got = broker.pop("q", "p", leaseSeconds=1, wait="true", timeout=5000)
        attempts.append(got["messages"][0]["deliveryAttempt"])
    ack(broker, got, [("a", "retry")])
    got = broker.pop("q", "p", leaseSeconds=1)
    attempts.append(got["messages"][0]["deliveryAttempt"])
    assert attempts == [1, 2, 3, 4]
    ack(broker, got, [("a", "completed")])
    assert broker.pop("q", "p", wait="true", timeout=5000)["messages"][0]["deliveryAttempt"] == 5


def test_expiry_spends_no_budget(broker):
    """L-5, semantics suite 5."""
    options(broker, retryLimit=2)
    leased(broker, "a", leaseSeconds=1)
    for _ in range(3):
        got = broker.pop("q", "p", leaseSeconds=1, wait="true", timeout=5000)
    filed = []
    for _ in range(3):
        filed.append(ack(broker, got, [("a", "failed")])[0]["dlq"])
        got = broker.pop("q", "p") or got
    assert filed == [False, False, True] and counts(broker)["deadLetter"] == 1


def test_retry_spends_no_budget(broker):
    """A-8, A-15, semantics suite 3: six retries, then filed by the fourth `failed`."""
    got = leased(broker, "a")
    filed = []
    for status in ["retry"] * 6 + ["failed"] * 4:
        row = ack(broker, got, [("a", status)])[0]
        filed.append(row["dlq"])
        got = broker.pop("q", "p") or got
    assert filed == [False] * 9 + [True] and counts(broker)["deadLetter"] == 1


def test_a_conflated_lease_settles_by_its_message(broker):
    """C-1: only the delivered message names the span."""
    broker.push([item(transactionId=str(i)) for i in range(5)])
    got = broker.pop("q", consumerGroup="g", conflation="true", subscriptionMode="all")
    assert ack(broker, got, [("3", "completed")], "g")[0]["success"] is False
    row = ack(broker, got, [("4", "completed")], "g")[0]
    assert row["success"] and row["leaseReleased"] and counts(broker)["pending"] == 0


@pytest.mark.parametrize("how", ["terminate", "kill9"])
def test_leases_survive_a_restart(broker, how):
    """L-6, L-7, engine case 4 over a restart."""
    got = leased(broker, leaseSeconds=3)
    started = time.monotonic()
    getattr(broker, how)()
    broker.start()
    assert broker.pop("q", "p") is None
    again = broker.pop("q", "p", wait="true", timeout=10000, leaseSeconds=60)
    assert 2.0 < time.monotonic() - started < 4.0 and again["messages"][0]["deliveryAttempt"] == 2
    assert ack(broker, got, [("a", "completed")])[0]["error"] == "invalid or expired lease"


def test_a_live_lease_can_be_acked_after_kill9(broker):
    """L-6, N-3."""
    got = leased(broker)
    ack(broker, got, [("a", "completed")])
    broker.kill9()
    broker.start()
    assert ack(broker, got, [("c", "completed")])[0]["leaseReleased"] is True and broker.pop("q", "p") is None


def test_every_message_comes_within_lease_and_two_seconds(broker):
    """HD-36: kill -9 with leases out and polls parked; clients only repeat their calls."""
    options(broker, leaseTime=2)
    broker.push([item(partition=f"p{i}", transactionId=f"t{i}") for i in range(20)])
    for _ in range(20):
        broker.pop("q")
    seen, stop = set(), threading.Event()

    def client():
        line = broker.session.__class__()
        while not stop.is_set():
            try:
                got = line.get(broker.url("/api/v1/pop/queue/q?wait=true&timeout=20000&partitions=2"), timeout=30)
                if got.status_code == 200:
                    seen.update(m["transactionId"] for m in got.json()["messages"])
            except OSError:
                time.sleep(0.05)

    clients = [threading.Thread(target=client, daemon=True) for _ in range(4)]
    for one in clients:
        one.start()
    broker.kill9()
    started = time.monotonic()
    broker.start()
    until(lambda: len(seen) == 20, 6)
    stop.set()
    assert time.monotonic() - started < 4


# ---- clients that do not read -------------------------------------------------------------------------------


def test_a_pop_nobody_reads_gives_its_lease_back(make_broker):
    """L-9, HD-35: the write time-out hands the claim back; the attempt does not count."""
    broker = make_broker(QUEEN_HTTP_WRITE_TIMEOUT_MS="500").start()
    options(broker, leaseTime=300)
    for i in range(8):
        broker.push([item(payload=str(i) + "x" * 4_000_000)])
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.connect(("127.0.0.1", broker.port))
    line.sendall(b"GET /api/v1/pop/queue/q HTTP/1.1\r\nHost: x\r\n\r\n")
    until(lambda: "/api/v1/pop/queue/q" in broker.log(), 5)
    got = until(lambda: broker.pop("q"), 3)
    line.close()
    assert got["messages"][0]["deliveryAttempt"] == 1
