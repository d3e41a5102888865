"""A load of pushers, consumers and KV counters that survives kills of the broker, and a ledger of what was answered."""

import http.client
import itertools
import json
import random
import re
import threading
import time

GROUP = "workers"
PATIENCE_SECONDS = 120  # of a call that gets no answer: a busy machine takes its time between a kill and the next boot
RESTING = "resting"  # a queue that gets one push at the start, so that its log then ends behind all others
RECORD = re.compile(rb'\{"offset":(\d+),"transactionId":"([^"]*)","payload":(\{.*?\}),"ts":"[^"]*"\}')


def payload_of(transaction: str, size: int) -> str:
    """Text that a JSON round trip would change, so that only the bytes themselves pass."""
    return '{"id" : "%s","n":1.50,  "pad":"%s"}' % (transaction, "x" * size)


class Caller:
    """One keep-alive connection; an answer that does not come whole is None."""

    def __init__(self, port: int):
        self.port = port
        self.connection: http.client.HTTPConnection | None = None

    def call(self, method: str, path: str, body: str | None = None) -> tuple[int, bytes] | None:
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
            self.connection.request(method, path, None if body is None else body.encode(), {"Content-Type": "application/json"})
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            if self.connection is not None:
                self.connection.close()
            self.connection = None
            return None


def until_answered(caller: Caller, method: str, path: str, body=None) -> bytes:
    """The body of the first whole answer with 200 or 201. A call that gets none is made again: its effect must be the same then."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_SECONDS:
        answer = caller.call(method, path, None if body is None else json.dumps(body))
        if answer is not None and answer[0] in (200, 201):
            return answer[1]
        assert answer is None or answer[0] == 503, f"{method} {path} answered {answer}"
        time.sleep(0.02)
    raise AssertionError(f"{method} {path} is never answered")


def read_partition(caller: Caller, queue: str, partition: str) -> list[tuple[str, str]]:
    """(transactionId, payload text) by offset, over fetches from 0 to the end."""
    records: list[tuple[str, str]] = []
    while True:
        body = {"entries": [{"queue": queue, "partition": partition, "offset": len(records), "maxBytes": 8388608}]}
        raw = until_answered(caller, "POST", "/api/v1/fetch", body)
        if b'"UNKNOWN_TOPIC_OR_PARTITION"' in raw:
            return records
        found = RECORD.findall(raw)
        assert len(found) == raw.count(b'{"offset":'), raw[:500]
        if not found:
            assert b'"highWatermark":%d,"logStartOffset":0}' % len(records) in raw, raw[:500]
            return records
        for offset, transaction, text in found:
            assert int(offset) == len(records), f"{queue}/{partition}: offset {int(offset)} at place {len(records)}"
            records.append((transaction.decode(), text.decode()))


class Ledger:
    """What clients were told. Everything in it must hold for ever."""

    def __init__(self):
        self.lock = threading.Lock()
        self.answered: dict[tuple[str, str], dict[int, str]] = {}
        self.texts: dict[str, str] = {}
        self.acked: dict[tuple[str, str], int] = {}  # and how many were before it
        self.maybe_acked: set[tuple[str, str]] = set()
        self.delivered: set[tuple[str, str]] = set()
        self.errors: list[str] = []
        self.applied = 0
        self.repeats = 0
        self.counter_sure = 0
        self.counter_maybe = 0

    def error(self, text: str) -> None:
        with self.lock:
            self.errors.append(text)

    def push_answered(self, items: list[tuple[str, str, str]], results: list[dict]) -> None:
        with self.lock:
            if len(results) != len(items):
                self.errors.append(f"{len(items)} items, {len(results)} results")
            for (queue, partition, transaction), result in zip(items, results):
                offsets = self.answered.setdefault((queue, partition), {})
                if result["status"] not in ("queued", "duplicate") or result["transaction_id"] != transaction:
                    self.errors.append(f"push of {transaction}: {result}")
                elif offsets.get(result["offset"], transaction) != transaction:
                    self.errors.append(f"{queue}/{partition} offset {result['offset']}: {offsets[result['offset']]} and {transaction}")
                else:
                    offsets[result["offset"]] = transaction

    def health_answered(self, applied: int) -> None:
        with self.lock:
            if applied < self.applied:
                self.errors.append(f"applied went from {self.applied} back to {applied}")
            self.applied = max(self.applied, applied)


class Load:
    def __init__(self, port: int, seed: int, queues: list[str], partitions: int = 4, pushers: int = 3, consumers: int = 2,
                 pause: float = 0.004):
        self.port = port
        self.seed = seed
        self.queues = [*queues, RESTING]
        self.busy = queues
        self.partitions = [f"p{n}" for n in range(partitions)]
        self.pause = pause
        self.ledger = Ledger()
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.guard, args=(work, n))
                        for work, count in ((self.push, pushers), (self.consume, consumers), (self.count_up, 2), (self.watch, 1))
                        for n in range(count)]

    def start(self) -> "Load":
        for thread in self.threads:
            thread.start()
        return self

    def stop(self) -> None:
        """Ends when every push that was begun is answered; the broker must be up."""
        self.stopping.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), "a client does not get its answer"

    def guard(self, work, number: int) -> None:
        try:
            work(number)
        except Exception as problem:  # noqa: BLE001 - whatever ends a client is a finding
            self.ledger.error(f"{work.__name__} {number}: {problem!r}")

    # ---- pushers ----

    def push(self, number: int) -> None:
        rng = random.Random(self.seed * 1000 + number)
        caller = Caller(self.port)
        made = 0
        while not self.stopping.is_set():
            items = []
            for _ in range(1 if rng.random() < 0.5 else rng.randint(2, 30)):
                made += 1
                transaction = f"t{number}-{made}"
                self.ledger.texts[transaction] = payload_of(transaction, rng.choice((0, 10, 100, 700)))
                items.append((rng.choice(self.busy), rng.choice(self.partitions), transaction))
            self.push_until_answered(caller, items)
            time.sleep(self.pause)

    def push_until_answered(self, caller: Caller, items: list[tuple[str, str, str]]) -> None:
        body = '{"items":[%s]}' % ",".join('{"queue":"%s","partition":"%s","transactionId":"%s","payload":%s}' %
                                           (*item, self.ledger.texts[item[2]]) for item in items)
        began = time.monotonic()
        for attempt in itertools.count():
            if time.monotonic() - began > PATIENCE_SECONDS:
                break
            answer = caller.call("POST", "/api/v1/push", body)
            if answer is not None and answer[0] == 201:
                self.ledger.push_answered(items, json.loads(answer[1]))
                return
            if answer is not None and answer[0] != 503:
                self.ledger.error(f"push answered {answer}")
            self.ledger.repeats += attempt == 0
            time.sleep(0.02)
        self.ledger.error("a push is never answered")

    def push_resting(self) -> None:
        self.ledger.texts["rest"] = payload_of("rest", 100)
        self.push_until_answered(Caller(self.port), [(RESTING, self.partitions[0], "rest")])

    # ---- consumers ----

    def consume(self, number: int) -> None:
        rng = random.Random(self.seed * 1000 + 500 + number)
        caller = Caller(self.port)
        while not self.stopping.is_set():
            if not self.pop_and_ack(caller, rng.choice(self.queues), rng.random() < 0.3):
                time.sleep(0.01)

    def pop_and_ack(self, caller: Caller, queue: str, only_first: bool) -> int:
        """Pops once and acks all of it, or its first message only. Returns how many came."""
        ledger = self.ledger
        with ledger.lock:
            acked_before = len(ledger.acked)
        answer = caller.call("GET", f"/api/v1/pop/queue/{queue}?consumerGroup={GROUP}&subscriptionMode=all&batch=40&partitions=3")
        if answer is None or answer[0] != 200:
            if answer is not None and answer[0] not in (204, 503):
                ledger.error(f"pop answered {answer}")
            return 0
        messages = json.loads(answer[1])["messages"]
        last: dict[str, int] = {}
        for message in messages:
            name = (queue, message["transactionId"])
            if ledger.acked.get(name, acked_before) < acked_before:
                ledger.error(f"acked and delivered again: {name}")
            if message["offset"] <= last.get(message["partition"], -1):
                ledger.error(f"out of order: {message}")
            if message["data"] != json.loads(ledger.texts[message["transactionId"]]):
                ledger.error(f"wrong payload: {message}")
            last[message["partition"]] = message["offset"]
        with ledger.lock:
            ledger.delivered |= {(queue, message["transactionId"]) for message in messages}
        self.ack(caller, queue, messages[:1] if only_first else messages)
        return len(messages)

    def ack(self, caller: Caller, queue: str, messages: list[dict]) -> None:
        ledger = self.ledger
        body = {"consumerGroup": GROUP, "acknowledgments": [{"transactionId": m["transactionId"], "partitionId": m["partitionId"],
                                                             "leaseId": m["leaseId"], "status": "completed"} for m in messages]}
        answer = caller.call("POST", "/api/v1/ack/batch", json.dumps(body))
        with ledger.lock:
            if answer is None or answer[0] != 200:
                ledger.maybe_acked |= {(queue, message["transactionId"]) for message in messages}
                return
            for message, result in zip(messages, json.loads(answer[1])):
                if result["success"]:
                    ledger.acked.setdefault((queue, message["transactionId"]), len(ledger.acked))

    # ---- KV ----

    def count_up(self, number: int) -> None:
        """Both counters go for one key with compare-and-set: an increment that was answered is never lost."""
        caller = Caller(self.port)
        while not self.stopping.is_set():
            time.sleep(0.01)
            found = self.read_counter(caller)
            if found is None:
                continue
            value, version = found
            put = {"op": "put", "ns": "crash", "key": "counter", "value": value + 1, "forever": True, "expect": version}
            answer = caller.call("POST", "/api/v1/kv", json.dumps({"operations": [put]}))
            with self.ledger.lock:
                if answer is None or answer[0] != 200:
                    self.ledger.counter_maybe += 1
                elif json.loads(answer[1])["results"][0]["applied"]:
                    self.ledger.counter_sure += 1

    def read_counter(self, caller: Caller) -> tuple[int, int] | None:
        with self.ledger.lock:
            sure = self.ledger.counter_sure
        answer = caller.call("POST", "/api/v1/kv", json.dumps({"operations": [{"op": "get", "ns": "crash", "key": "counter"}]}))
        if answer is None or answer[0] != 200:
            return None
        row = json.loads(answer[1])["results"][0]
        value, version = (row["value"], row["version"]) if row["found"] else (0, 0)
        with self.ledger.lock:
            most = self.ledger.counter_sure + self.ledger.counter_maybe + 2
        if not sure <= value <= most:
            self.ledger.error(f"the counter is {value}, not in {sure}..{most}")
        return value, version

    # ---- health ----

    def watch(self, number: int) -> None:
        caller = Caller(self.port)
        while not self.stopping.is_set():
            answer = caller.call("GET", "/health")
            if answer is not None and answer[0] == 200:
                self.ledger.health_answered(json.loads(answer[1])["raft"]["applied"])
            time.sleep(0.005)

    # ---- checks ----

    def check_log(self) -> dict[tuple[str, str], list[str]]:
        """Everything that was answered so far is in the log, once, at its offset, with its bytes."""
        with self.ledger.lock:
            answered = {place: dict(offsets) for place, offsets in self.ledger.answered.items()}
        caller = Caller(self.port)
        log: dict[tuple[str, str], list[str]] = {}
        seen: set[tuple[str, str, str]] = set()
        for queue in self.queues:
            for partition in self.partitions:
                records = read_partition(caller, queue, partition)
                for offset, transaction in answered.get((queue, partition), {}).items():
                    assert offset < len(records), f"lost: {queue}/{partition} {offset} {transaction}, {len(records)} records"
                    assert records[offset][0] == transaction, f"{queue}/{partition} {offset}: {records[offset]} not {transaction}"
                for transaction, text in records:
                    assert text == self.ledger.texts[transaction], f"other bytes: {text}"
                    assert (queue, partition, transaction) not in seen, f"twice: {queue}/{partition} {transaction}"
                    seen.add((queue, partition, transaction))
                log[queue, partition] = [transaction for transaction, _ in records]
        return log

    def drain(self, total: int, lease_seconds: float) -> None:
        """Consumes what is left, leases of clients that died included."""
        caller = Caller(self.port)
        deadline = time.monotonic() + 30 + lease_seconds
        while True:
            with self.ledger.lock:
                settled = len(self.ledger.acked.keys() | self.ledger.maybe_acked)
            if settled >= total and not sum(self.pop_and_ack(caller, queue, False) for queue in self.queues):
                return
            assert time.monotonic() < deadline, f"{settled} of {total} messages are acked"
            if not sum(self.pop_and_ack(caller, queue, False) for queue in self.queues):
                time.sleep(0.05)
