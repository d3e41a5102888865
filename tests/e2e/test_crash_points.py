"""The crash matrix (storage.md 29.1): a broker that kills itself at each point of storage.md 28, and what its clients were told."""

import json
import re
import threading
import time

import pytest
from crash_load import Caller, Load

POINTS = ["batcher.drained", "planner.planned", "propose.sent", "qlog.record_written", "log.appended", "qlog.record_fsynced",
          "log.flushed", "commit.before_apply", "apply.mid_entry", "apply.store_committed", "durable.files_synced",
          "durable.store_committed", "seg.rolled", "seg.qidx_written"]
SMALL = {"QUEEN_RAFT_SEGMENT_BYTES": "8192", "QUEEN_RAFT_DURABLE_EVERY_MS": "150", "QUEEN_RAFT_QLOG_ZSTD_LEVEL": "0",
         "RETENTION_INTERVAL": "3600000"}
HELD_LEASE_SECONDS = 60


class MatrixLoad(Load):
    """`orders` is only judged, `warm` is popped and acked, `held` is popped and never acked; calls over several queues and keys are
    sent once and never repeated, so that each is there as a whole or not at all."""

    SPREAD = ("spread1", "spread2", "spread3")

    def __init__(self, port: int, seed: int):
        super().__init__(port, seed, ["orders", "warm", "held"], partitions=2, pushers=2, consumers=2)
        self.held: dict[str, int] = {}
        self.spread_answered: set[str] = set()
        self.keys_answered = 0
        self.threads += [threading.Thread(target=self.guard, args=(work, 0)) for work in (self.hold, self.spread, self.set_keys)]

    def consume(self, number: int) -> None:
        caller = Caller(self.port)
        while not self.stopping.is_set():
            if not self.pop_and_ack(caller, "warm", number == 1):
                time.sleep(0.01)

    def hold(self, number: int) -> None:
        """Whatever this gets it keeps for a lease: nothing of it may come again while the test runs."""
        caller = Caller(self.port)
        while not self.stopping.is_set():
            self.pop_held(caller)
            time.sleep(0.02)

    def pop_held(self, caller: Caller) -> None:
        answer = caller.call("GET", "/api/v1/pop/queue/held?consumerGroup=holders&subscriptionMode=all&batch=5")
        if answer is None or answer[0] != 200:
            return
        with self.ledger.lock:
            for message in json.loads(answer[1])["messages"]:
                name = message["transactionId"]
                if name in self.held:
                    self.ledger.errors.append(f"{name} is leased to two")
                self.held[name] = message["offset"]

    def spread(self, number: int) -> None:
        caller = Caller(self.port)
        made = 0
        while not self.stopping.is_set():
            made += 1
            name = f"s{made}"
            items = [{"queue": queue, "partition": "p", "transactionId": name, "payload": made} for queue in self.SPREAD]
            answer = caller.call("POST", "/api/v1/push", json.dumps({"items": items}))
            if answer is not None and answer[0] == 201:
                self.spread_answered.add(name)
            time.sleep(0.004)

    def set_keys(self, number: int) -> None:
        caller = Caller(self.port)
        made = 0
        while not self.stopping.is_set():
            made += 1
            puts = [{"op": "put", "ns": "crash", "key": f"k{n}", "value": made, "forever": True} for n in range(4)]
            answer = caller.call("POST", "/api/v1/kv", json.dumps({"operations": puts}))
            if answer is not None and answer[0] == 200:
                self.keys_answered = made
            time.sleep(0.004)

    # ---- checks ----

    def check_whole(self) -> None:
        """A2: all queues and all keys of a call, or none."""
        caller = Caller(self.port)
        answered = set(self.spread_answered)
        keys_answered = self.keys_answered
        logs = [[name for name, _ in self.read_spread(caller, queue)] for queue in self.SPREAD]
        # The pusher goes on while this looks: what came later may be in the later queues only.
        shortest = min(len(log) for log in logs)
        assert logs[0][:shortest] == logs[1][:shortest] == logs[2][:shortest]
        assert len(set(logs[0])) == len(logs[0])
        assert answered <= set(logs[0][:shortest]), sorted(answered - set(logs[0][:shortest]))
        gets = [{"op": "get", "ns": "crash", "key": f"k{n}"} for n in range(4)]
        status, raw = caller.call("POST", "/api/v1/kv", json.dumps({"operations": gets}))
        assert status == 200, raw
        values = [row.get("value") if row["found"] else 0 for row in json.loads(raw)["results"]]
        assert len(set(values)) == 1 and values[0] >= keys_answered, (values, keys_answered)

    def read_spread(self, caller: Caller, queue: str) -> list[tuple[str, str]]:
        records: list[tuple[str, str]] = []
        while True:
            body = {"entries": [{"queue": queue, "partition": "p", "offset": len(records), "maxBytes": 8388608}]}
            status, raw = caller.call("POST", "/api/v1/fetch", json.dumps(body))
            assert status == 200, raw
            entry = json.loads(raw)["entries"][0]
            found = entry.get("records", [])
            if not found:
                return records
            for record in found:
                assert record["offset"] == len(records), (queue, record)
                records.append((record["transactionId"], json.dumps(record["payload"])))


def begin(broker, seed: int, **settings: str) -> MatrixLoad:
    broker.start(**settings)
    load = MatrixLoad(broker.port, seed)
    for queue in load.queues:
        lease = HELD_LEASE_SECONDS if queue == "held" else 1
        answer = broker.post("/api/v1/configure", {"queue": queue, "options": {"leaseTime": lease, "retryLimit": 1000}})
        assert answer.status_code in (200, 201), answer.text
    load.push_resting()
    return load.start()


def judge(load: MatrixLoad) -> None:
    load.check_log()
    load.check_whole()
    assert load.ledger.errors == []


def errors_of(broker) -> list[str]:
    return [line for line in broker.log().splitlines() if " ERROR " in line]


def die_at(broker, point: str, times: int) -> None:
    """Runs under load until the point kills it."""
    broker.spawn(QUEEN_TEST_FAULTS=f"{point}:{times}")
    assert broker.wait_exit(30) == -9, broker.log()[-2000:]
    assert broker.log().count(f"fault: crash point {point} fired") == times


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_this_point_loses_nothing_and_does_nothing_twice(make_broker, point):
    """A1, A2, A6."""
    broker = make_broker(**SMALL)
    load = begin(broker, seed=POINTS.index(point) + 1)
    try:
        broker.terminate()
        for times in (1, 2):
            die_at(broker, point, times)
            broker.start(timeout=20)
            judge(load)
            broker.kill9()
        broker.start()
        load.stop()
        judge(load)
        load.pop_held(Caller(broker.port))
        assert load.ledger.errors == [] and errors_of(broker) == []
    finally:
        load.stopping.set()


def test_a_stop_under_load_leaves_nothing_to_replay(make_broker):
    """A7."""
    broker = make_broker(**SMALL)
    load = begin(broker, seed=70)
    try:
        for _ in range(3):
            time.sleep(0.4)
            assert broker.terminate() == 0
            broker.start()
            judge(load)
            replayed = re.findall(r"recovered .*?replayed=(\d+)", broker.log())
            assert replayed[-1] == "0", replayed
        load.stop()
        judge(load)
        assert errors_of(broker) == []
    finally:
        load.stopping.set()


def test_the_logs_alone_bring_everything_back(make_broker):
    """A10: no store checkpoint within the hour."""
    never = {**SMALL, "QUEEN_RAFT_DURABLE_EVERY_MS": "3600000", "QUEEN_RAFT_DURABLE_EVERY_BYTES": str(1 << 40)}
    broker = make_broker(**never)
    load = begin(broker, seed=100)
    try:
        for _ in range(4):
            time.sleep(0.4)
            broker.kill9()
            broker.start()
            judge(load)
        load.stop()
        judge(load)
        sure, most = load.ledger.counter_sure, load.ledger.counter_sure + load.ledger.counter_maybe
        assert sure <= load.read_counter(Caller(broker.port))[0] <= most
        assert errors_of(broker) == []
    finally:
        load.stopping.set()


def test_an_unknown_point_is_refused_with_the_list_of_all(make_broker):
    """BR-20."""
    broker = make_broker().spawn(QUEEN_TEST_FAULTS="log.apended:2")
    assert broker.wait_exit() == 2
    lines = [line for line in broker.log().splitlines() if "FATAL: " in line]
    assert len(lines) == 1 and "log.apended:2" in lines[0] and all(point in lines[0] for point in POINTS)
    assert not broker.directory.exists()
    # Settings are judged first.
    broker.spawn(QUEEN_TEST_FAULTS="log.apended:2", QUEEN_RAFT_REPLICATOR="paper")
    assert broker.wait_exit() == 1
