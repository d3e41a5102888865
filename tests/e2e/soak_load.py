"""A mixed load for long runs under kill -9: queues that keep their messages, queues whose messages age away, queues that are deleted
and made again, and KV rows; each with what it must hold, so that all of it can be checked after every restart."""

import json
import random
import re
import threading
import time
from collections import deque
from collections.abc import Callable

from crash_load import RECORD, Caller, Load, payload_of, read_partition, until_answered

REPEAT_SECONDS = 5  # how long after its answer a push is made again: far inside every dedup window
COLD_WINDOW_SECONDS = 150  # the dedup window of the queue "cold", behind which append rows leave RAM; no push waits so long
LOG_START = re.compile(rb'"logStartOffset":(\d+)')


class KeptLoad(Load):
    """Nothing of what is pushed ever goes. Answered pushes are made again and must stay where they are."""

    def push(self, number: int) -> None:
        rng = random.Random(self.seed * 1000 + number)
        caller = Caller(self.port)
        recent: deque[tuple[float, tuple[str, str, str]]] = deque(maxlen=40)
        made = 0
        while not self.stopping.is_set():
            items = []
            for _ in range(1 if rng.random() < 0.5 else rng.randint(2, 20)):
                made += 1
                items.append(self.new_item(rng, f"t{number}-{made}"))
            known = [item for at, item in recent if time.monotonic() - at < REPEAT_SECONDS]
            again = rng.sample(known, min(len(known), rng.choice((0, 0, 1, 3))))
            self.push_until_answered(caller, again + items)
            recent.extend((time.monotonic(), item) for item in items)
            time.sleep(self.pause)

    def new_item(self, rng: random.Random, transaction: str) -> tuple[str, str, str]:
        self.ledger.texts[transaction] = payload_of(transaction, rng.choice((0, 10, 100, 700)))
        return rng.choice(self.busy), rng.choice(self.partitions), transaction


class AgingLoad(KeptLoad):
    """Messages go when they are `seconds` old, not earlier, from the front, and never come back."""

    def __init__(self, port: int, seed: int, queues: list[str], seconds: float):
        super().__init__(port, seed, queues, partitions=2, pushers=1, consumers=1, pause=0.05)
        self.queues = queues
        self.threads = [threading.Thread(target=self.guard, args=(work, 0)) for work in (self.push, self.consume)]
        self.seconds = seconds
        self.sent: dict[str, float] = {}
        self.starts: dict[tuple[str, str], int] = {}
        self.places: dict[tuple[str, str, str], int] = {}

    def new_item(self, rng: random.Random, transaction: str) -> tuple[str, str, str]:
        self.sent[transaction] = time.time()
        return super().new_item(rng, transaction)

    def read_from_start(self, caller: Caller, queue: str, partition: str) -> tuple[int, dict[int, tuple[str, str]]]:
        """Where the partition starts by now, and what was read of it by offset."""
        at = start = self.starts.get((queue, partition), 0)
        records: dict[int, tuple[str, str]] = {}
        while True:
            body = {"entries": [{"queue": queue, "partition": partition, "offset": at, "maxBytes": 8388608}]}
            raw = until_answered(caller, "POST", "/api/v1/fetch", body)
            if b'"UNKNOWN_TOPIC_OR_PARTITION"' in raw:
                return start, records
            now_start = int(LOG_START.search(raw)[1])
            assert now_start >= start, f"{queue}/{partition}: starts at {now_start}, once at {start}"
            start = now_start
            found = RECORD.findall(raw)
            if not found and at >= start:
                return start, records
            for offset, transaction, text in found:
                assert int(offset) == at, f"{queue}/{partition}: offset {int(offset)} at place {at}"
                records[at] = (transaction.decode(), text.decode())
                at += 1
            at = max(at, start)

    def check_partition(self, caller: Caller, queue: str, partition: str, answered: dict[int, str]) -> None:
        place = f"{queue}/{partition}"
        start, records = self.read_from_start(caller, queue, partition)
        now = time.time()
        self.starts[queue, partition] = start
        for offset, (transaction, text) in records.items():
            assert text == self.ledger.texts[transaction], f"other bytes: {text}"
            first = self.places.setdefault((queue, partition, transaction), offset)
            assert first == offset, f"twice: {place} {transaction} at {first} and {offset}"
        for offset, transaction in answered.items():
            if offset >= start:
                assert records.get(offset, ("nothing",))[0] == transaction, f"lost: {place} {offset} {transaction}"
            else:
                age = now - self.sent[transaction]
                assert age > self.seconds - 0.2, f"{place} {offset} {transaction} is gone after {age:.2f} s"

    def check_log(self) -> dict:
        with self.ledger.lock:
            answered = {place: dict(offsets) for place, offsets in self.ledger.answered.items()}
        caller = Caller(self.port)
        for queue in self.queues:
            for partition in self.partitions:
                self.check_partition(caller, queue, partition, answered.get((queue, partition), {}))
        return {}

    def all_gone(self) -> bool:
        self.check_log()
        return all(max(offsets, default=-1) < self.starts[place] for place, offsets in self.ledger.answered.items())


class Owner:
    """One client with things of its own in the broker: between two of its steps their exact state is known."""

    def __init__(self, port: int, seed: int):
        self.caller = Caller(port)
        self.rng = random.Random(seed)
        self.lock = threading.Lock()  # held by a step and by a check
        self.steps = 0
        self.texts: dict[str, str] = {}

    def run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            with self.lock:
                self.step()
                self.steps += 1
            time.sleep(0.03)

    def checked(self) -> None:
        """The broker must be up: a step that is on its way ends first."""
        with self.lock:
            self.check()

    def step(self) -> None:
        raise NotImplementedError

    def check(self) -> None:
        raise NotImplementedError


class DoomedQueue(Owner):
    """A queue that is filled, deleted with all it holds, and begins anew at offset 0."""

    def __init__(self, port: int, seed: int, number: int):
        super().__init__(port, seed)
        self.queue = f"doomed{number}"
        self.records: dict[str, list[str]] = {"p0": [], "p1": []}
        self.made = self.deleted = 0

    def step(self) -> None:
        if self.rng.random() < 0.9:
            self.push()
        else:
            until_answered(self.caller, "DELETE", f"/api/v1/resources/queues/{self.queue}")
            self.records = {partition: [] for partition in self.records}
            self.deleted += 1
            self.check()

    def push(self) -> None:
        partition = self.rng.choice(list(self.records))
        records = self.records[partition]
        items = []
        for _ in range(self.rng.randint(1, 8)):
            self.made += 1
            transaction = f"{self.queue}-{self.made}"
            self.texts[transaction] = '{"n":"%s"}' % ("y" * self.rng.choice((1, 50, 600)))
            items.append({"queue": self.queue, "partition": partition, "transactionId": transaction,
                          "payload": json.loads(self.texts[transaction])})
        results = json.loads(until_answered(self.caller, "POST", "/api/v1/push", {"items": items}))
        for item, result in zip(items, results, strict=True):
            assert result["offset"] == len(records), f"{item['transactionId']}: {result}, {len(records)} expected"
            records.append(item["transactionId"])

    def check(self) -> None:
        for partition, records in self.records.items():
            found = read_partition(self.caller, self.queue, partition)
            assert [transaction for transaction, _ in found] == records, f"{self.queue}/{partition}"
            for transaction, text in found:
                assert json.loads(text) == json.loads(self.texts[transaction]), f"other bytes: {text}"


class Registers(Owner):
    """KV rows that one client puts and deletes."""

    KEYS = [f"r{n}" for n in range(6)]

    def __init__(self, port: int, seed: int):
        super().__init__(port, seed)
        self.values: dict[str, int] = {}

    def step(self) -> None:
        operations, values = [], dict(self.values)
        for key in self.rng.sample(self.KEYS, self.rng.randint(1, 3)):
            if self.rng.random() < 0.3:
                operations.append({"op": "delete", "ns": "soak", "key": key})
                values.pop(key, None)
            else:
                values[key] = self.rng.randrange(1 << 40)
                operations.append({"op": "put", "ns": "soak", "key": key, "value": values[key], "forever": True})
        until_answered(self.caller, "POST", "/api/v1/kv", {"operations": operations})
        self.values = values

    def check(self) -> None:
        gets = [{"op": "get", "ns": "soak", "key": key} for key in self.KEYS]
        rows = json.loads(until_answered(self.caller, "POST", "/api/v1/kv", {"operations": gets}))["results"]
        found = {row["key"]: row["value"] for row in rows if row["found"]}
        assert found == self.values


class Soak:
    """All of it at once."""

    AGE_SECONDS = 3

    def __init__(self, port: int, seed: int):
        self.kept = KeptLoad(port, seed, ["kept", "cold"], partitions=3, pushers=2, consumers=2, pause=0.06)
        self.aging = AgingLoad(port, seed + 1, ["aging1", "aging2"], self.AGE_SECONDS)
        self.owners: list[Owner] = [DoomedQueue(port, seed + 2, 1), DoomedQueue(port, seed + 3, 2), Registers(port, seed + 4)]
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.kept.guard, args=(lambda number, own=owner: own.run(self.stopping), n))
                        for n, owner in enumerate(self.owners)]

    def configure(self, post: Callable, lease_seconds: int) -> None:
        own = {"cold": {"dedupWindowSeconds": COLD_WINDOW_SECONDS}, "aging1": {"retentionEnabled": True, "retentionSeconds": self.AGE_SECONDS},
               "aging2": {"maxWaitTimeSeconds": self.AGE_SECONDS}}
        for queue in [*self.kept.queues, *self.aging.queues]:
            options = {"leaseTime": lease_seconds, "retryLimit": 1000, **own.get(queue, {})}
            answer = post("/api/v1/configure", {"queue": queue, "options": options})
            assert answer.status_code in (200, 201), answer.text

    def start(self) -> None:
        self.kept.push_resting()
        self.kept.start()
        self.aging.start()
        for thread in self.threads:
            thread.start()

    def check(self) -> None:
        """Everything that was answered so far is there. The broker must be up."""
        self.kept.check_log()
        self.aging.check_log()
        for owner in self.owners:
            owner.checked()
        errors = [*self.kept.ledger.errors, *self.aging.ledger.errors]
        assert not errors, errors[:5]

    def stop_all_but_kept(self) -> None:
        """Ends the other loads and checks them a last time. The broker must be up."""
        self.stopping.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), "an owner does not get its answer"
        self.aging.stop()
        for owner in self.owners:
            owner.checked()
        deadline = time.monotonic() + self.AGE_SECONDS + 20
        while not self.aging.all_gone():
            assert time.monotonic() < deadline, "messages do not age away"
            time.sleep(0.2)

    def abandon(self) -> None:
        self.stopping.set()
        self.kept.stopping.set()
        self.aging.stopping.set()
