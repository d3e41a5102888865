"""Dead letters over HTTP: list, purge, delete, replay (api-messaging.md 11.3, 12)."""

import asyncio
import json
import random
import threading
import time
import uuid

import pytest
import requests
from queen import Queen

NIL = "00000000-0000-0000-0000-000000000000"
OTHER = "018f2b3c-0000-7000-8000-0000000000aa"


def delete(broker, path: str, **kwargs) -> requests.Response:
    return broker.session.delete(broker.url(path), timeout=60, **kwargs)


def letters(broker, **params) -> dict:
    answer = broker.get("/api/v1/dlq", **params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def file(broker, queue: str, ids: list[str], group: str = "g", partition: str = "p", error: str = "offline") -> list[dict]:
    """Pushes messages and files them all, one ack call each. Gives them as popped."""
    broker.push([{"queue": queue, "partition": partition, "transactionId": i, "payload": {"id": i}} for i in ids])
    return give_up(broker, queue, ids, group, partition, error)


def give_up(broker, queue: str, ids: list[str], group: str, partition: str = "p", error: str = "offline") -> list[dict]:
    out = []
    for _ in ids:
        popped = broker.pop(queue, partition, batch=1, consumerGroup=group, subscriptionMode="all")["messages"][0]
        body = {"transactionId": popped["transactionId"], "partitionId": popped["partitionId"], "leaseId": popped["leaseId"],
                "consumerGroup": group, "status": "dlq", "error": error}
        assert broker.post("/api/v1/ack", body).json()[0]["dlq"] is True
        out.append(popped)
    assert [m["transactionId"] for m in out] == ids
    return out


def test_a_row_tells_what_became_of_the_message(broker):
    """12, A-16: every field of a row; the payload is the producer's own text."""
    answer = broker.post("/api/v1/push", '{"items":[{"queue":"meters","partition":"unit-7","transactionId":"read-7",'
                         '"payload":{"kwh":12.50}}]}')
    message_id = answer.json()[0]["message_id"]
    popped = give_up(broker, "meters", ["read-7"], "billing", "unit-7")[0]
    answer = broker.get("/api/v1/dlq", queue="meters")
    row = answer.json()["messages"][0]
    assert answer.text.count('{"kwh":12.50}') == 2
    assert uuid.UUID(row.pop("id")).version == 7
    failed_at = row.pop("failedAt")
    assert len(failed_at) == 27 and failed_at == row.pop("createdAt")
    assert row == {"queue": "meters", "partition": "unit-7", "partitionId": popped["partitionId"], "consumerGroup": "billing",
                   "offset": 0, "messageId": message_id, "transactionId": "read-7", "data": {"kwh": 12.5}, "payload": {"kwh": 12.5},
                   "errorMessage": "offline", "retryCount": 0}
    assert answer.json()["total"] == 1 and answer.json()["pagination"] == {"limit": 100, "offset": 0}


def test_the_list_is_newest_first_filtered_and_paged(broker):
    file(broker, "a", ["1", "2", "3"])
    file(broker, "b", ["4"])
    give_up(broker, "a", ["1"], "h")
    assert [m["transactionId"] for m in letters(broker)["messages"]] == ["1", "4", "3", "2", "1"]
    assert [m["transactionId"] for m in letters(broker, queue="a", consumerGroup="g")["messages"]] == ["3", "2", "1"]
    page = letters(broker, queue="a", limit=2, offset=1)
    assert [m["transactionId"] for m in page["messages"]] == ["3", "2"]
    assert page["total"] == 4 and page["pagination"] == {"limit": 2, "offset": 1}
    assert letters(broker, queue="none") == {"messages": [], "total": 0, "pagination": {"limit": 100, "offset": 0}}
    # Clamped; what clients also send is ignored; an empty filter is none.
    assert letters(broker, limit=0, offset=-5)["pagination"] == {"limit": 1, "offset": 0}
    assert letters(broker, limit=9999)["pagination"] == {"limit": 1000, "offset": 0}
    assert letters(broker, **{"partition": "x", "from": "2031-01-01T00:00:00Z", "to": "x", "queue": "", "consumerGroup": ""})["total"] == 5
    for bad in ({"limit": "x"}, {"offset": "1.5"}):
        assert broker.get("/api/v1/dlq", **bad).status_code == 400


def test_a_purge_takes_a_queue_or_one_group_of_it(broker):
    """12: counts what went; idempotent; the log stays."""
    file(broker, "a", ["1", "2"])
    give_up(broker, "a", ["1", "2"], "h")
    file(broker, "b", ["3"])
    answer = delete(broker, "/api/v1/dlq?queue=a&consumerGroup=h")
    assert (answer.status_code, answer.json()) == (200, {"success": True, "queue": "a", "consumerGroup": "h", "deleted": 2})
    assert letters(broker)["total"] == 3
    answer = delete(broker, "/api/v1/dlq?queue=a")
    assert answer.json() == {"success": True, "queue": "a", "consumerGroup": None, "deleted": 2}
    assert delete(broker, "/api/v1/dlq?queue=a").json()["deleted"] == 0
    assert [m["queue"] for m in letters(broker)["messages"]] == ["b"]
    assert len(broker.fetch_all("a", "p")) == 2
    for path in ("/api/v1/dlq", "/api/v1/dlq?queue=", "/api/v1/dlq?consumerGroup=g"):
        answer = delete(broker, path)
        assert answer.status_code == 400
        assert answer.json()["success"] is False and answer.json()["error"] == "queue is required" and answer.json()["message"]
    assert delete(broker, "/api/v1/dlq?queue=%FF").status_code == 400


def test_a_purge_of_more_than_one_step(broker):
    """12, RT-15: more dead letters than one entry removes."""
    ids = [str(n) for n in range(1_500)]
    broker.push([{"queue": "a", "partition": "p", "transactionId": i, "payload": 1} for i in ids])
    popped = broker.pop("a", "p", batch=1_500, consumerGroup="g", subscriptionMode="all")
    broker.ack_all(popped, "g", "dlq")
    assert letters(broker, queue="a", limit=1)["total"] == 1_500
    assert delete(broker, "/api/v1/dlq?queue=a").json()["deleted"] == 1_500
    assert letters(broker)["total"] == 0


def test_a_message_is_deleted_from_the_dead_letters_only(broker):
    """M-2, D-4: of every group; by the number and by the UUID of the partition."""
    popped = file(broker, "a", ["1", "2", "live/ü"][:2])
    give_up(broker, "a", ["1"], "h")
    pid = popped[0]["partitionId"]
    answer = delete(broker, f"/api/v1/messages/{pid}/1")
    assert (answer.status_code, answer.json()) == (200, {"success": True, "partitionId": pid, "transactionId": "1", "deleted": 2})
    changed = broker.post("/api/v1/partitions/changed", {"entries": [{"queue": "a"}]}).json()
    by_uuid = changed["entries"][0]["partitions"][0]["id"]
    assert delete(broker, f"/api/v1/messages/{by_uuid}/2").json() == {
        "success": True, "partitionId": by_uuid, "transactionId": "2", "deleted": 1}
    assert len(broker.fetch_all("a", "p")) == 2
    for path in (f"{pid}/1", f"{pid}/none", "999/1", f"{NIL}/1", "x/1", f"{pid}/%FF", "18446744073709551616/1"):
        answer = delete(broker, f"/api/v1/messages/{path}")
        body = answer.json()
        assert answer.status_code == 404, path
        assert body["success"] is False and body["error"] == "Message not found" and body["message"]
        assert set(body) == {"success", "partitionId", "transactionId", "error", "message"}


def test_a_replay_moves_the_message_to_the_end_of_its_partition(broker):
    """D-1: every group sees the copy; the dead letter is gone, and a repeat says so."""
    broker.push([{"queue": "meters", "partition": "unit-7", "transactionId": "read-7", "payload": {"kwh": 12.5}}])
    give_up(broker, "meters", ["read-7"], "billing", "unit-7")
    broker.push([{"queue": "meters", "partition": "unit-7", "transactionId": "later", "payload": 1}])
    row = letters(broker)["messages"][0]
    answer = broker.post(f"/api/v1/dlq/{row['id']}/replay", "")
    assert answer.status_code == 200
    body = answer.json()
    replayed = body.pop("replayedAs")
    assert body == {"success": True, "result": "moved", "queue": "meters", "partition": "unit-7", "consumerGroup": "billing",
                    "dlqId": row["id"], "originalTransactionId": "read-7", "dlqRowRemoved": True}
    assert uuid.UUID(replayed.pop("message_id")).version == 7
    assert replayed == {"index": 0, "transaction_id": f"dlq:{row['id']}", "queueName": "meters", "status": "queued", "offset": 2}
    records = broker.fetch_all("meters", "unit-7")
    assert [r["transactionId"] for r in records] == ["read-7", "later", f"dlq:{row['id']}"]
    assert letters(broker)["total"] == 0
    for group in ("billing", "other"):
        popped = broker.pop("meters", "unit-7", consumerGroup=group, subscriptionMode="all")["messages"]
        assert popped[-1]["transactionId"] == f"dlq:{row['id']}" and popped[-1]["data"] == {"kwh": 12.5}
    for _ in range(2):
        answer = broker.post(f"/api/v1/dlq/{row['id']}/replay", {})
        assert (answer.status_code, answer.json()) == (404, {"success": False, "result": "gone", "error": "Message not found"})
    assert len(broker.fetch_all("meters", "unit-7")) == 3


@pytest.mark.parametrize("payload", ['{"a":1.50, "b":[]}', "null", '""', "42.00", '"ü\\u0000"'])
def test_a_replayed_payload_is_the_same_text(broker, payload):
    broker.post("/api/v1/push", f'{{"items":[{{"queue":"a","partition":"p","transactionId":"t","payload":{payload}}}]}}')
    give_up(broker, "a", ["t"], "g")
    row = letters(broker)["messages"][0]
    assert broker.post(f"/api/v1/dlq/{row['id']}/replay", {}).json()["result"] == "moved"
    answer = broker.post("/api/v1/fetch", {"entries": [{"queue": "a", "partition": "p", "offset": 0}]})
    assert [r["payload"] for r in answer.json()["entries"][0]["records"]] == [json.loads(payload)] * 2
    assert answer.text.count(payload) >= 2


def test_a_replay_may_go_elsewhere(broker):
    """12: queue, partition or both are overridden; what is missing is where it came from."""
    file(broker, "a", ["1", "2", "3"])
    ids = {m["transactionId"]: m["id"] for m in letters(broker)["messages"]}
    body = broker.post(f"/api/v1/dlq/{ids['1']}/replay", {"queue": "b"}).json()
    assert (body["queue"], body["partition"], body["replayedAs"]["queueName"]) == ("b", "p", "b")
    body = broker.post(f"/api/v1/dlq/{ids['2']}/replay", {"partition": "x", "queue": None}).json()
    assert (body["queue"], body["partition"], body["replayedAs"]["offset"]) == ("a", "x", 0)
    broker.post(f"/api/v1/dlq/{ids['3']}/replay", {"queue": "b", "partition": "x"})
    assert [r["payload"] for r in broker.fetch_all("b", "p")] == [{"id": "1"}]
    assert [r["payload"] for r in broker.fetch_all("a", "x")] == [{"id": "2"}]
    assert [r["payload"] for r in broker.fetch_all("b", "x")] == [{"id": "3"}]
    assert letters(broker)["total"] == 0


def test_a_replay_that_the_destination_holds_already_stores_nothing(broker):
    """D-2, 12: duplicate, with the existing offset; the dead letter stays."""
    file(broker, "a", ["1"])
    row = letters(broker)["messages"][0]
    broker.push([{"queue": "a", "partition": "p", "transactionId": f"dlq:{row['id']}", "payload": 1}])
    body = broker.post(f"/api/v1/dlq/{row['id']}/replay", {}).json()
    assert body["success"] is True and body["result"] == "duplicate" and body["dlqRowRemoved"] is False
    assert body["replayedAs"] == {"index": 0, "message_id": NIL, "transaction_id": f"dlq:{row['id']}", "queueName": "a",
                                  "status": "duplicate", "offset": 1}
    assert letters(broker)["total"] == 1
    assert len(broker.fetch_all("a", "p")) == 2


def test_bad_replays_change_nothing(broker):
    """12: empty and malformed overrides, unknown ids, names over the budget, what the engine refuses."""
    popped = file(broker, "a", ["1"])
    row = letters(broker)["messages"][0]
    addresses = [f"/api/v1/dlq/{row['id']}/replay", f"/api/v1/messages/{popped[0]['partitionId']}/1/retry"]
    for address in addresses:
        for bad in ({"queue": ""}, {"partition": ""}, {"queue": 1}, {"partition": []}, [], "x", "{", b'{"queue":"\xff"}'):
            answer = broker.post(address, bad)
            assert answer.status_code == 400, bad
            assert answer.json()["success"] is False and answer.json()["error"]
        answer = broker.post(address, {"queue": "q" * 412})
        assert (answer.status_code, answer.json()["code"]) == (413, "name_too_long")
        broker.post("/api/v1/configure", {"queue": "secret", "options": {"encryptionEnabled": True}})
        answer = broker.post(address, {"queue": "secret"})
        assert answer.status_code == 409
        body = answer.json()
        assert body.pop("error")
        assert body == {"success": False, "reason": "encryption_required", "dlqRowRemoved": False}
    for address in (f"/api/v1/dlq/{NIL}/replay", "/api/v1/dlq/x/replay", "/api/v1/messages/x/1/retry", "/api/v1/messages/999/1/retry",
                    f"/api/v1/messages/{popped[0]['partitionId']}/2/retry", f"/api/v1/messages/{NIL}/1/retry"):
        answer = broker.post(address, {})
        assert (answer.status_code, answer.json()["result"]) == (404, "gone"), address
    assert letters(broker)["total"] == 1
    assert len(broker.fetch_all("a", "p")) == 1


def test_retry_by_address_replays_one_dead_letter_after_the_other(broker):
    """12, D-4: the same action by the message's address; two groups left two."""
    pid = file(broker, "a", ["1"])[0]["partitionId"]
    give_up(broker, "a", ["1"], "h")
    groups = []
    for _ in range(2):
        body = broker.post(f"/api/v1/messages/{pid}/1/retry", {}).json()
        assert body["result"] == "moved" and body["originalTransactionId"] == "1"
        groups.append(body["consumerGroup"])
    assert groups == ["g", "h"]
    assert broker.post(f"/api/v1/messages/{pid}/1/retry", {}).status_code == 404
    assert len(broker.fetch_all("a", "p")) == 3


def test_a_full_disk_refuses_replays_and_takes_deletions(make_broker):
    """Ruling 8, BP-1."""
    broker = make_broker().start()
    pid = file(broker, "a", ["1", "2"])[0]["partitionId"]
    row = letters(broker)["messages"][0]
    broker.terminate()
    broker.start(QUEEN_RAFT_DISK_HIGH_PCT="1", QUEEN_RAFT_DISK_LOW_PCT="1")
    for address in (f"/api/v1/dlq/{row['id']}/replay", f"/api/v1/messages/{pid}/1/retry"):
        answer = broker.post(address, {})
        assert (answer.status_code, answer.json()["code"]) == (507, "storage_full")
    assert letters(broker)["total"] == 2
    assert delete(broker, f"/api/v1/messages/{pid}/1").json()["deleted"] == 1
    assert delete(broker, "/api/v1/dlq?queue=a").json()["deleted"] == 1


def test_another_tenants_dead_letters_are_not_there(make_broker):
    """1.2"""
    broker = make_broker(QUEEN_TENANCY_HEADER="true", QUEEN_KV_TRUSTED_PROXY="true").start()
    pid = file(broker, "a", ["1"])[0]["partitionId"]
    row = letters(broker)["messages"][0]
    broker.session.headers["x-queen-tenant"] = OTHER
    assert letters(broker)["total"] == 0
    assert delete(broker, "/api/v1/dlq?queue=a").json()["deleted"] == 0
    assert delete(broker, f"/api/v1/messages/{pid}/1").status_code == 404
    assert broker.post(f"/api/v1/dlq/{row['id']}/replay", {}).status_code == 404
    assert broker.post(f"/api/v1/messages/{pid}/1/retry", {}).status_code == 404
    del broker.session.headers["x-queen-tenant"]
    assert letters(broker)["total"] == 1


def test_dead_letters_survive_a_restart(make_broker):
    """D-3"""
    broker = make_broker().start()
    file(broker, "a", ["1", "2"])
    before = letters(broker)
    broker.kill9()
    broker.start()
    assert letters(broker) == before


def test_the_published_client(broker):
    """The calls that the client has for dead letters."""
    async def talk() -> None:
        async with Queen(broker.url("")) as queen:
            pid = file(broker, "a", ["1", "2"])[0]["partitionId"]
            listed = await queen.queue("a").dlq("g").limit(10).get()
            assert listed["total"] == 2 and [m["transactionId"] for m in listed["messages"]] == ["2", "1"]
            assert (await queen.admin.retry_message(pid, "1"))["result"] == "moved"
            assert (await queen.admin.delete_message(pid, "2"))["deleted"] == 1
            assert (await queen.queue("a").dlq().get())["total"] == 0

    asyncio.run(talk())


class Replays(threading.Thread):
    """Replays dead letters one after the other until its broker is killed; keeps what it was told."""

    def __init__(self, port: int, ids: list[str]):
        super().__init__(daemon=True)
        self.port, self.ids = port, ids
        self.moved: dict[str, int] = {}

    def run(self) -> None:
        session = requests.Session()
        for dlq_id in self.ids:
            try:
                answer = session.post(f"http://127.0.0.1:{self.port}/api/v1/dlq/{dlq_id}/replay", timeout=10)
            except requests.RequestException:
                return
            if answer.status_code == 200:
                body = answer.json()
                assert body["result"] == "moved", body
                self.moved[dlq_id] = body["replayedAs"]["offset"]


def test_a_message_is_moved_or_still_dead_whenever_the_broker_dies(make_broker):
    """D-1: append and removal are one entry. kill -9 during replays: each message is at one of both places, once."""
    count = 200
    rng = random.Random(7)
    broker = make_broker(QUEEN_RAFT_DURABLE_EVERY_MS="50").start()
    broker.push([{"queue": "a", "partition": "p", "transactionId": str(n), "payload": n} for n in range(count)])
    broker.ack_all(broker.pop("a", "p", batch=count, consumerGroup="g", subscriptionMode="all"), "g", "dlq")
    dead = {m["id"]: m["transactionId"] for m in letters(broker, limit=1000)["messages"]}
    assert sorted(dead.values(), key=int) == [str(n) for n in range(count)]
    payload_of = {dlq_id: int(transaction) for dlq_id, transaction in dead.items()}
    told: dict[str, int] = {}
    kills = 0
    while dead:
        ids = list(dead)
        workers = [Replays(broker.port, ids[n::4]) for n in range(4)]
        for worker in workers:
            worker.start()
        time.sleep(rng.uniform(0.01, 0.2))
        broker.kill9()
        kills += 1
        for worker in workers:
            worker.join()
            told.update(worker.moved)
        broker.start()
        copies = broker.fetch_all("a", "p")[count:]
        moved = {r["transactionId"].removeprefix("dlq:"): r for r in copies}
        assert len(moved) == len(copies), "a copy is there twice"
        dead = {m["id"]: m["transactionId"] for m in letters(broker, limit=1000)["messages"]}
        assert moved.keys() | dead.keys() == payload_of.keys(), "a message is lost"
        assert not moved.keys() & dead.keys(), "a message is at both places"
        assert told.keys() <= moved.keys(), "an answered replay is undone"
        for dlq_id, offset in told.items():
            assert moved[dlq_id]["offset"] == offset
        assert all(record["payload"] == payload_of[dlq_id] for dlq_id, record in moved.items())
    print(f"{kills} kills")
    assert kills > 2
