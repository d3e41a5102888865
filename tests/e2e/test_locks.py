"""Locks and semaphores over HTTP, rule by rule (LK-1 to LK-13), and the acceptance list of their client."""

import asyncio
import concurrent.futures
import re
import time

import pytest
import requests

from published_client import with_client

FAST = {"QUEEN_KV_WRITE_RATE": "100000", "QUEEN_KV_WRITE_BURST": "100000", "QUEEN_KV_READ_RATE": "100000", "QUEEN_KV_READ_BURST": "100000"}
STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,5}[1-9])?\+00:00$")


@pytest.fixture
def broker(make_broker):
    return make_broker(**FAST).start()


def call(broker, *ops):
    answer = broker.post("/api/v1/locks", {"operations": list(ops)})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def one(broker, op, name="n", **more):
    if op in ("acquire", "renew"):
        more = {"ttlSeconds": 60, **more}
    return call(broker, {"op": op, "name": name, **more})[0]


def kv(broker, *ops):
    answer = broker.post("/api/v1/kv", list(ops))
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def row(broker, key):
    return kv(broker, {"op": "get", "ns": "queen-locks", "key": key})[0]


def guarded(broker, guard, key="work"):
    """A transaction that pushes one message under the guard."""
    return broker.post("/api/v1/transaction", {"operations": [{"type": "push", "items": [{"queue": key, "payload": 1}]}], "kv": [guard]}).json()


def applied_index(broker):
    return broker.get("/health").json()["raft"]["applied"]


# ---- the rules ------------------------------------------------------------------------------------------------


def test_a_permit_is_a_row(broker):
    """LK-1, 2.1: namespace, key, value, lifetime, token; the fields in their order."""
    got = one(broker, "acquire", owner="host-3:991:k2")
    assert list(got) == ["index", "op", "name", "acquired", "slot", "token", "owner", "guard"]
    assert got["guard"] == {"op": "check", "ns": "queen-locks", "key": "n#0", "expect": got["token"], "required": True}
    stored = row(broker, "n#0")
    assert stored["value"] == {"owner": "host-3:991:k2"} and stored["version"] == got["token"] and stored["expiresAt"] is not None
    nobody = one(broker, "acquire", "other")
    assert nobody["owner"] is None and row(broker, "other#0")["value"] == {"owner": None}
    assert list(one(broker, "acquire")) == ["index", "op", "name", "acquired", "reason", "holders"]


def test_the_slots_of_a_semaphore(broker):
    """LK-2: distinct, random, none beyond the limit."""
    first = [one(broker, "acquire", f"s{i}", limit=50)["slot"] for i in range(12)]
    assert len(set(first)) > 3 and max(first) < 50
    slots = [one(broker, "acquire", limit=5, owner=f"o{i}")["slot"] for i in range(5)]
    assert sorted(slots) == [0, 1, 2, 3, 4]
    full = one(broker, "acquire", limit=5, owner="late")
    assert (full["acquired"], full["reason"]) == (False, "held")
    assert full["holders"] == [{"slot": slot, "owner": f"o{slots.index(slot)}"} for slot in range(5)]


def test_a_race_for_slots_gives_each_to_one(broker):
    """LK-2."""
    def take(i):
        session = requests.Session()
        body = [{"op": "acquire", "name": "race", "ttlSeconds": 60, "limit": 8, "owner": f"o{i}"}]
        return session.post(broker.url("/api/v1/locks"), json=body, timeout=30).json()["results"][0]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        results = list(pool.map(take, range(16)))
    won = [r for r in results if r["acquired"]]
    assert len({r["slot"] for r in won}) == len(won) <= 8 and {r["reason"] for r in results if not r["acquired"]} <= {"held", "contended"}
    for r in (r for r in results if r.get("reason") == "contended"):  # tried again, it gets what is left
        assert take(results.index(r))["acquired"] is True or len(won) == 8


def test_an_owner_is_told_the_permit_it_holds(broker):
    """LK-3: the same token, the lifetime not extended."""
    first = one(broker, "acquire", owner="me", ttlSeconds=60)
    until = row(broker, "n#0")["expiresAt"]
    again = one(broker, "acquire", owner="me", ttlSeconds=6000)
    assert (again["acquired"], again["already"], again["token"]) == (True, True, first["token"]) and list(again)[-1] == "already"
    assert row(broker, "n#0")["expiresAt"] == until
    permit = one(broker, "acquire", "s", owner="me", limit=4)
    more = one(broker, "acquire", "s", owner="me", limit=4)
    assert (more["already"], more["slot"], more["token"]) == (True, permit["slot"], permit["token"])
    assert one(broker, "acquire", "anonymous")["acquired"] is True and one(broker, "acquire", "anonymous")["acquired"] is False


def test_a_renew_keeps_owner_and_beginning(broker):
    """LK-4."""
    got = one(broker, "acquire", owner="me", ttlSeconds=5)
    acquired_at = row(broker, "n#0")["updatedAt"]
    first = one(broker, "renew", token=got["token"], ttlSeconds=500)
    assert list(first) == ["index", "op", "name", "renewed", "slot", "token", "guard"] and first["guard"]["expect"] == first["token"] > got["token"]
    assert row(broker, "n#0")["value"] == {"owner": "me", "since": acquired_at}
    second = one(broker, "renew", token=first["token"])
    assert row(broker, "n#0")["value"] == {"owner": "me", "since": acquired_at} and second["token"] > first["token"]
    stale = one(broker, "renew", token=got["token"], owner="me")
    assert stale["renewed"] is True
    for stranger in ({"owner": "you"}, {}):
        lost = one(broker, "renew", token=got["token"], **stranger)
        assert list(lost) == ["index", "op", "name", "renewed", "reason", "slot", "holders"]
        assert (lost["renewed"], lost["reason"], lost["slot"], lost["holders"]) == (False, "lost", 0, [{"slot": 0, "owner": "me"}])
    assert one(broker, "renew", "none", token=5) == {"index": 0, "op": "renew", "name": "none", "renewed": False, "reason": "lost", "slot": 0, "holders": []}


def test_the_token_before_a_renew_works_no_more(broker):
    """LK-5: neither guard, nor renew, nor release."""
    got = one(broker, "acquire")
    renewed = one(broker, "renew", token=got["token"])
    assert guarded(broker, got["guard"])["success"] is False and guarded(broker, renewed["guard"])["success"] is True
    assert one(broker, "renew", token=got["token"])["reason"] == "lost" and one(broker, "release", token=got["token"])["reason"] == "lost"
    assert one(broker, "release", token=renewed["token"])["released"] is True


def test_a_release_gives_back_once(broker):
    """LK-6."""
    got = one(broker, "acquire", owner="me", limit=3)
    assert one(broker, "release", token=got["token"], slot=got["slot"]) == {"index": 0, "op": "release", "name": "n", "released": True, "slot": got["slot"]}
    assert one(broker, "release", token=got["token"], slot=got["slot"]) == {"index": 0, "op": "release", "name": "n", "released": False, "reason": "lost", "slot": got["slot"],
                                                                           "holders": []}
    assert one(broker, "get")["held"] is False


def test_who_holds_it(broker):
    """LK-7: slots in order; rows that are no slot of ours are passed over."""
    for key in ("n#01", "n#x", "n#1024", "n#-1", "n#", "nn#0"):
        kv(broker, {"op": "put", "ns": "queen-locks", "key": key, "value": {"owner": "odd"}, "forever": True})
    tokens = {r["slot"]: r["token"] for r in (one(broker, "acquire", limit=12, owner=f"o{i}") for i in range(12))}
    renewed = one(broker, "renew", token=tokens[3], slot=3)
    body = one(broker, "get")
    assert list(body) == ["index", "op", "name", "held", "holders"] and body["held"] is True
    assert [h["slot"] for h in body["holders"]] == list(range(12))
    assert all(list(h) == ["slot", "owner", "token", "since", "expiresAt", "renewedAt"] for h in body["holders"])
    third, fourth = body["holders"][3], body["holders"][4]
    assert third["token"] == renewed["token"] and third["since"] < third["renewedAt"] and fourth["since"] == fourth["renewedAt"] and fourth["token"] == tokens[4]
    assert all(STAMP.match(h[field]) for h in body["holders"] for field in ("since", "expiresAt", "renewedAt"))


def test_who_holds_it_over_pages(broker):
    """LK-7: more rows than a page of 1000."""
    ops = [{"op": "put", "ns": "queen-locks", "key": f"n#{i:06}x", "value": 1, "forever": True} for i in range(1100)]
    for start in range(0, 1100, 220):
        kv(broker, *ops[start:start + 220])
    one(broker, "acquire", owner="me")
    kv(broker, {"op": "put", "ns": "queen-locks", "key": "n#9", "value": {"owner": "nine"}, "forever": True})
    assert [(h["slot"], h["owner"]) for h in one(broker, "get")["holders"]] == [(0, "me"), (9, "nine")]


def test_operations_of_a_call_are_independent_and_one_write(broker):
    """LK-8."""
    one(broker, "acquire", "held")
    mine, seen = one(broker, "acquire", "mine", owner="me"), one(broker, "acquire", "seen")
    before = applied_index(broker)
    rows = call(broker, {"op": "acquire", "name": "held", "ttlSeconds": 60}, {"op": "acquire", "name": "a", "ttlSeconds": 60, "limit": 3},
                {"op": "renew", "name": "mine", "token": mine["token"], "ttlSeconds": 60}, {"op": "release", "name": "none", "token": 5}, {"op": "get", "name": "seen"},
                {"op": "acquire", "name": "b", "ttlSeconds": 60})
    assert [r["index"] for r in rows] == list(range(6))
    assert [rows[0]["acquired"], rows[1]["acquired"], rows[2]["renewed"], rows[3]["released"], rows[4]["held"], rows[5]["acquired"]] == [False, True, True, False, True, True]
    assert applied_index(broker) == before + 1 and rows[4]["holders"][0]["token"] == seen["token"]
    assert broker.post("/api/v1/locks", []).json() == {"results": []}


def test_a_later_holder_has_a_higher_token_also_after_a_kill(make_broker):
    """LK-9."""
    broker = make_broker(**FAST).start()
    tokens = []
    for turn in range(4):
        got = one(broker, "acquire", owner=f"o{turn}", ttlSeconds=1 if turn % 2 else 60)
        assert got["acquired"] is True
        tokens.append(got["token"])
        if turn % 2:
            time.sleep(1.1)
        else:
            assert one(broker, "release", token=got["token"])["released"] is True
        broker.kill9()
        broker.start()
    assert tokens == sorted(set(tokens))


def test_a_held_lock_survives_a_kill(make_broker):
    broker = make_broker(**FAST).start()
    got = one(broker, "acquire", owner="me")
    broker.kill9()
    broker.start()
    assert one(broker, "acquire", owner="you")["holders"] == [{"slot": 0, "owner": "me"}]
    assert guarded(broker, got["guard"])["success"] is True and one(broker, "acquire", owner="me")["token"] == got["token"]


def test_the_limit_is_the_callers(broker):
    """LK-10."""
    kv(broker, *[{"op": "put", "ns": "queen-locks", "key": f"n#{slot}", "value": {"owner": f"o{slot}"}, "forever": True} for slot in (0, 1, 4)])
    assert one(broker, "acquire", limit=2)["reason"] == "held" and one(broker, "acquire", limit=3)["slot"] == 2
    assert one(broker, "acquire", limit=3, owner="o4")["reason"] == "held", "the permit of slot 4 is not within this limit"
    assert one(broker, "acquire", limit=5, owner="o4")["slot"] == 4


def test_a_row_by_hand_holds_its_slot(broker):
    """LK-11."""
    for name, value in (("a", 7), ("b", None), ("c", {"owner": 7}), ("d", []), ("e", {"owner": "x", "since": "yesterday"})):
        stored = kv(broker, {"op": "put", "ns": "queen-locks", "key": f"{name}#0", "value": value, "ttlSeconds": 60})[0]
        owner = "x" if name == "e" else None
        assert one(broker, "acquire", name, owner="me")["holders"] == [{"slot": 0, "owner": owner}]
        holder = one(broker, "get", name)["holders"][0]
        assert (holder["token"], holder["owner"]) == (stored["version"], owner) and holder["since"] == holder["renewedAt"]
        assert one(broker, "renew", name, token=stored["version"])["renewed"] is True
    assert row(broker, "a#0")["value"] == 7


REFUSED = [
    ("{", "locks_bad_body"), ("{}", "locks_bad_body"), ("7", "locks_bad_body"), ([7], "locks_bad_request"), ([{"name": "n"}], "locks_unknown_op"), ([{"op": "lock", "name": "n"}], "locks_unknown_op"),
    ([{"op": "get", "name": "n", "tenant": "t"}], "locks_tenant_not_an_input"), ([{"op": "get", "name": "n", "_tenant": None}], "locks_tenant_not_an_input"),
    *[([{"op": "get", "name": name}], "locks_bad_name") for name in ("", "a#b", "a\nb", "a\x85b", "x" * 257, 7, None)], ([{"op": "get"}], "locks_bad_name"),
    *[([{"op": op, "name": "n", "token": 1, **more}], "locks_ttl_required") for op in ("acquire", "renew") for more in ({}, {"ttlSeconds": 5, "forever": True}, {"ttlSeconds": 5, "forever": False})],
    *[([{"op": "acquire", "name": "n", "ttlSeconds": ttl}], "locks_bad_ttl") for ttl in (0, -1, 1.5, "5", None)],
    *[([{"op": "acquire", "name": "n", "ttlSeconds": 5, "owner": owner}], "locks_bad_owner") for owner in ("", "a\tb", 7, "x" * 257)],
    ([{"op": "release", "name": "n"}], "locks_token_required"), ([{"op": "renew", "name": "n", "ttlSeconds": 5}], "locks_token_required"),
    *[([{"op": "release", "name": "n", "token": token}], "locks_bad_token") for token in (0, -1, 1.5, "1")],
    *[([{"op": "release", "name": "n", "token": 1, "slot": slot}], "locks_bad_slot") for slot in (-1, 1024, 0.5, "0")],
    *[([{"op": "acquire", "name": "n", "ttlSeconds": 5, "limit": limit}], "locks_bad_limit") for limit in (0, 1025, 1.5, "2")],
    ([{"op": "get", "name": f"n{i}"} for i in range(65)], "locks_too_many_ops"), ([{"op": "get", "name": "n"}, {"op": "get", "name": "n"}], "locks_duplicate_in_call"),
    ([{"op": "get", "name": f"n{i}"} for i in range(5)], "locks_too_many_keys"),
]


def test_refusals_name_their_reason(broker):
    """2.3, LK-12: nothing is locked forever; a call that is refused takes nothing."""
    wrong = []
    for body, reason in REFUSED:
        ops = [{"op": "acquire", "name": "canary", "ttlSeconds": 60}] + body if isinstance(body, list) and len(body) < 5 else body
        answer = broker.post("/api/v1/locks", ops)
        got = (answer.status_code, answer.json().get("error"), answer.json().get("reason"))
        if got != (400, "locks_bad_request", reason):
            wrong.append((str(body)[:90], reason, got))
    assert wrong == [] and one(broker, "get", "canary")["held"] is False


def test_nobody_waits_on_the_server(broker):
    """LK-12."""
    one(broker, "acquire")
    started = time.monotonic()
    assert one(broker, "acquire")["acquired"] is False and time.monotonic() - started < 1


def test_the_lifetime_counts_from_the_write(broker):
    """LK-13."""
    one(broker, "acquire", ttlSeconds=1, owner="me")
    time.sleep(0.5)
    assert one(broker, "acquire")["acquired"] is False
    time.sleep(0.6)
    assert one(broker, "get")["held"] is False and one(broker, "acquire")["acquired"] is True


def test_a_closed_disk_gate_takes_no_acquire_and_lets_go(make_broker):
    broker = make_broker(QUEEN_RAFT_DISK_HIGH_PCT="100", **FAST).start()
    got = one(broker, "acquire", "held")
    broker.kill9()
    broker.start(QUEEN_RAFT_DISK_HIGH_PCT="1", QUEEN_RAFT_DISK_LOW_PCT="1")
    answer = broker.post("/api/v1/locks", [{"op": "acquire", "name": "n", "ttlSeconds": 5}])
    assert (answer.status_code, answer.json()["code"]) == (507, "storage_full")
    assert one(broker, "get", "held")["held"] is True and one(broker, "release", "held", token=got["token"])["released"] is True


# ---- the acceptance list, with the published client ---------------------------------------------------------------


@with_client()
async def test_1_one_of_two_handles(client, broker):
    first, second = client.lock("n", ttl_seconds=30), client.lock("n", ttl_seconds=30)
    assert await first.acquire() is True and await second.acquire() is False and first.slot == 0
    held = await client.locks.get("n")
    assert [(h["owner"], h["token"], h["expiresAt"] is not None) for h in held["holders"]] == [(first.owner, first.token, True)]
    stored = row(broker, "n#0")
    assert stored["version"] == first.token and stored["value"]["owner"] == first.owner


@with_client()
async def test_2_a_guarded_step_and_the_next_holder(client, broker):
    first, second = client.lock("n", ttl_seconds=30), client.lock("n", ttl_seconds=30)
    await first.acquire()
    assert (await client.transaction().guard(first).queue("q").push([{"data": 1}]).commit())["success"] is True
    assert len(broker.pop("q", batch=10)["messages"]) == 1
    assert await first.release() is True and await second.acquire() is True


@with_client()
async def test_3_one_owner_is_one_holder(client):
    first = await client.locks.acquire("n", ttl_seconds=30, owner="me")
    again = await client.locks.acquire("n", ttl_seconds=30, owner="me")
    assert again["already"] is True and again["token"] == first["token"]
    renewed = [await client.locks.renew("n", token=first["token"], ttl_seconds=30, owner="me") for _ in range(2)]
    assert [r["renewed"] for r in renewed] == [True, True] and renewed[1]["token"] > renewed[0]["token"] > first["token"]
    stranger = await client.locks.renew("n", token=first["token"], ttl_seconds=30, owner="you")
    assert stranger["reason"] == "lost" and stranger["holders"] == [{"slot": 0, "owner": "me"}] and not stranger


@with_client()
async def test_4_a_holder_that_outlived_its_lock_commits_nothing(client, broker):
    first, second = client.lock("n", ttl_seconds=1, auto_renew=False), client.lock("n", ttl_seconds=30)
    await first.acquire()
    token, guard = first.token, first.guard()
    await asyncio.sleep(1.3)
    assert await second.acquire() is True and second.token > token
    lost = guarded(broker, guard, "q")
    assert (lost["success"], lost["reason"]) == (False, "kv_precondition") and broker.pop("q") is None


@with_client()
async def test_5_steps_under_a_lock_that_is_renewed(client, broker):
    lock = client.lock("n", ttl_seconds=2, renew_every=0.1)
    await lock.acquire()
    steps, until = 0, time.monotonic() + 1.5
    while time.monotonic() < until:
        assert (await client.transaction().guard(lock).queue("q").push([{"data": steps}]).commit())["success"] is True
        steps += 1
    assert await lock.release() is True
    got = [m["data"] for _ in range(steps // 100 + 1) for m in (broker.pop("q", batch=100, autoAck="true") or {"messages": []})["messages"]]
    assert got == list(range(steps)) and steps > 3


@with_client()
async def test_6_runs_never_overlap(client):
    inside, most = 0, 0

    async def work(_):
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.1)
        inside -= 1
        return "done"
    results = await asyncio.gather(*[client.lock("n", ttl_seconds=10).run(work, wait=10) for _ in range(2)])
    assert results == [{"acquired": True, "value": "done"}] * 2 and most == 1 and (await client.locks.get("n"))["held"] is False


@with_client()
async def test_7_twelve_contenders_for_three_permits(client):
    handles = [client.semaphore("n", 3, ttl_seconds=30) for _ in range(12)]
    got = await asyncio.gather(*[h.acquire() for h in handles])
    holders = [h for h, acquired in zip(handles, got) if acquired]
    assert 1 <= len(holders) <= 3
    while len(holders) < 3:  # those who were contended try again
        waiting = next(h for h in handles if h not in holders)
        assert await waiting.acquire(wait=5) is True
        holders.append(waiting)
    assert sorted(h.slot for h in holders) == [0, 1, 2]
    late = next(h for h in handles if h not in holders)
    assert await late.acquire() is False
    waiter = asyncio.ensure_future(late.acquire(wait=10))
    slot = holders[0].slot
    await holders[0].release()
    assert await waiter is True and late.slot == slot


@with_client()
async def test_the_client_uses_a_lock_as_a_block_and_is_told_of_its_loss(client, broker):
    """2.4."""
    async with client.lock("n", ttl_seconds=10) as lock:
        assert lock.held and lock.guard()["expect"] == lock.token
        reasons = []
        lock.on_lost(reasons.append)
        kv(broker, {"op": "delete", "ns": "queen-locks", "key": "n#0"})
        assert await lock.renew() is False and reasons == ["renew"] and lock.lost.is_set()
    batch = await client.locks.batch([{"op": "acquire", "name": "a", "ttlSeconds": 5}, {"op": "get", "name": "b"}])
    assert bool(batch[0]) is True and bool(batch[1]) is False
    assert (await client.locks.release("a", token=batch[0]["token"]))["released"] is True
