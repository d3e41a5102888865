"""A slow disk: groups grow, memory does not, and nobody's answer is lost (BP-5)."""

import json
import threading
import time

from crash_load import Caller
from harness import Broker

SLOW = {"QUEEN_TEST_FSYNC_DELAY_MS": "150", "QUEEN_RAFT_QLOG_ZSTD_LEVEL": "0", "QUEEN_RAFT_PIPELINE": "2",
        "QUEEN_RAFT_BATCH_MAX_BYTES": str(1 << 20), "RETENTION_INTERVAL": "3600000"}
CLIENTS = 24
BODY = 400_000


def resident_bytes(broker: Broker) -> int:
    for line in open(f"/proc/{broker.process.pid}/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


class Crowd:
    """Many clients that push large messages as fast as they are answered."""

    def __init__(self, port: int):
        self.port = port
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.stored: set[str] = set()
        self.statuses: dict[int, int] = {}
        self.threads = [threading.Thread(target=self.push, args=(n,)) for n in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def push(self, number: int) -> None:
        caller = Caller(self.port)
        made = 0
        while not self.stopping.is_set():
            made += 1
            name = f"c{number}-{made}"
            body = json.dumps({"items": [{"queue": "q", "partition": f"p{number}", "transactionId": name, "payload": "x" * BODY}]})
            answer = caller.call("POST", "/api/v1/push", body)
            status = answer[0] if answer else 0
            with self.lock:
                self.statuses[status] = self.statuses.get(status, 0) + 1
                if status == 201:
                    self.stored.add(name)

    def stop(self) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), "a client does not get its answer"


def stored_in(broker: Broker) -> set[str]:
    return {record["transactionId"] for n in range(CLIENTS) for record in broker.fetch_all("q", f"p{n}")}


def test_a_slow_disk_shows_as_waiting_and_not_as_memory(make_broker):
    """BP-5, and a hold that is long enough for all: nobody is refused."""
    broker = make_broker(**SLOW, QUEEN_RAFT_ADMIT_MAX_MB="2").start()
    crowd = Crowd(broker.port)
    time.sleep(1)
    early = resident_bytes(broker)
    time.sleep(4)
    late = resident_bytes(broker)
    crowd.stop()
    assert set(crowd.statuses) == {201}, crowd.statuses
    # The bodies of those who wait, the budget, and what is in flight; not what was pushed.
    assert late - early < CLIENTS * BODY * 3, (early, late, crowd.statuses)
    assert stored_in(broker) == crowd.stored


def test_when_the_hold_is_over_a_push_is_429_and_changes_nothing(make_broker):
    """BP-6; acks and pops wait for nobody's budget (BP-1)."""
    broker = make_broker(**SLOW, QUEEN_RAFT_ADMIT_MAX_MB="1", QUEEN_RAFT_ADMIT_HOLD_MS="200").start(QUEEN_TEST_FSYNC_DELAY_MS="700")
    broker.push([{"queue": "q", "partition": "p0", "transactionId": "first", "payload": 1}])
    crowd = Crowd(broker.port)
    time.sleep(2)
    popped = broker.pop("q", partition="p0", consumerGroup="g", subscriptionMode="all", batch="1")
    assert [message["transactionId"] for message in popped["messages"]] == ["first"]
    assert broker.ack_all(popped, "g")[0]["success"]
    refused = None
    for _ in range(50):
        answer = broker.post("/api/v1/push", {"items": [{"queue": "q", "partition": "p0", "payload": "y" * BODY, "transactionId": "z"}]})
        if answer.status_code == 429:
            refused = answer
            break
        crowd.stored.add("z")
    crowd.stop()
    assert set(crowd.statuses) <= {201, 429}, crowd.statuses
    assert refused is not None and refused.json()["code"] == "overloaded" and int(refused.headers["Retry-After"]) >= 1
    assert stored_in(broker) == crowd.stored | {"first"}
