"""Long polls: many at once, at rest, at a stop and over a crash (api-messaging.md 4.3; hardening HD-36, HD-37)."""

import asyncio
import json
import os
import resource
import threading
import time

import pytest

CROWD = 5000


def cpu_seconds(pid: int) -> float:
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def many_sockets():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CROWD + 500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"this machine lets a process open {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    return status, await reader.readexactly(length) if length else b""


async def ask(port: int, request: bytes, gate: asyncio.Semaphore):
    async with gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        await writer.drain()
    return reader, writer


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: q\r\n\r\n".encode()


def post(path: str, body: dict) -> bytes:
    text = json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nHost: q\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text


def test_five_thousand_wait_and_each_gets_its_message(make_broker, many_sockets):
    """No wake-up is lost, and while nothing happens 5,000 waiting clients cost nothing."""
    broker = make_broker().start()

    async def run() -> float:
        gate = asyncio.Semaphore(200)
        # Half of them wait for a partition of their own, half as workers of ten groups of one queue.
        def request(n: int) -> bytes:
            if n % 2 == 0:
                return get(f"/api/v1/pop/queue/own/partition/p{n}?wait=true&timeout=60000&batch=1")
            return get(f"/api/v1/pop/queue/shared?wait=true&timeout=60000&batch=1&consumerGroup=g{n % 20}")

        waiting = await asyncio.gather(*(ask(broker.port, request(n), gate) for n in range(CROWD)))
        await asyncio.sleep(3)
        before = cpu_seconds(broker.process.pid)
        await asyncio.sleep(10)
        idle = cpu_seconds(broker.process.pid) - before
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        per_group = CROWD // 20
        for start in range(0, CROWD, 100):
            items = [{"queue": "own", "partition": f"p{n}", "payload": n} for n in range(start, start + 100, 2)]
            if start // 100 < per_group // 5:
                items += [{"queue": "shared", "partition": f"s{start + i}", "payload": 0} for i in range(5)]
            writer.write(post("/api/v1/push", {"items": items}))
            status, _ = await answer_of(reader)
            assert status == 201
        answers = await asyncio.wait_for(asyncio.gather(*(answer_of(r) for r, _ in waiting)), 50)
        wrong = [n for n, (status, _) in enumerate(answers) if status != 200]
        assert not wrong, f"{len(wrong)} of {CROWD} got nothing, first {wrong[:5]}"
        for n in range(0, CROWD, 2):
            assert json.loads(answers[n][1])["messages"][0]["data"] == n
        seen = [(json.loads(body)["consumerGroup"], json.loads(body)["messages"][0]["partition"]) for _, body in answers[1::2]]
        assert len(seen) == len(set(seen)), "a message went to two workers of one group"
        writer.close()
        for _, each in waiting:
            each.close()
        return idle

    idle = asyncio.run(run())
    assert idle < 1.0, f"5,000 waiting clients cost {idle:.2f} s of CPU in 10 s"


def test_a_worker_that_waits_gets_what_another_lets_expire(broker):
    """W-4: parked before the lease began; nothing is pushed."""
    broker.post("/api/v1/configure", {"queue": "q", "options": {"delayedProcessing": 1}})
    broker.push([{"queue": "q", "partition": "p", "payload": 1}])
    answers = []

    def worker():
        own = type(broker)(broker.directory)
        own.port = broker.port
        answers.append((own.pop("q", wait="true", timeout=15000, leaseSeconds=1), time.monotonic()))

    threads = [threading.Thread(target=worker) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (first, at), (second, later) = sorted(answers, key=lambda answer: answer[1])
    assert first["messages"][0]["deliveryAttempt"] == 1 and second["messages"][0]["deliveryAttempt"] == 2
    assert 0.8 < later - at < 3


@pytest.mark.parametrize("status", ["retry", "failed"])
def test_a_message_that_is_given_back_wakes_who_waits(broker, status):
    """W-4: a released lease."""
    broker.push([{"queue": "q", "partition": "p", "transactionId": "a", "payload": 1}])
    held = broker.pop("q")
    got = []

    def worker():
        own = type(broker)(broker.directory)
        own.port = broker.port
        got.append(own.pop("q", wait="true", timeout=15000))

    thread = threading.Thread(target=worker)
    thread.start()
    time.sleep(0.4)
    broker.ack_all(held, status=status)
    started = time.monotonic()
    thread.join()
    assert got[0]["messages"][0]["transactionId"] == "a" and time.monotonic() - started < 2


def test_waiting_fetches_and_pops_are_released_at_sigterm(make_broker):
    broker = make_broker().start()
    broker.push([{"queue": "q", "partition": "p", "payload": 1}])
    answers = {}

    def reader():
        own = type(broker)(broker.directory)
        own.port = broker.port
        answers["fetch"] = own.post("/api/v1/fetch", {"entries": [{"queue": "q", "partition": "p", "offset": 1}], "maxWaitMs": 30000})

    def popper():
        own = type(broker)(broker.directory)
        own.port = broker.port
        answers["pop"] = own.get("/api/v1/pop/queue/other", wait="true", timeout=30000)

    threads = [threading.Thread(target=reader), threading.Thread(target=popper)]
    for thread in threads:
        thread.start()
    time.sleep(0.7)
    started = time.monotonic()
    assert broker.terminate() == 0
    assert time.monotonic() - started < 10
    for thread in threads:
        thread.join()
    assert answers["fetch"].status_code == 200 and answers["fetch"].json()["entries"][0]["records"] == []
    assert answers["pop"].status_code == 204


def test_kill9_with_leases_out_and_polls_parked_delivers_everything(make_broker):
    """HD-36: clients only go on asking; HD-37: in the end nothing is pending."""
    lease, messages = 3, 200
    broker = make_broker().start()
    broker.post("/api/v1/configure", {"queue": "q", "options": {"leaseTime": lease}})
    for start in range(0, messages, 20):
        broker.push([{"queue": "q", "partition": f"p{n % 10}", "transactionId": f"m{n}", "payload": n}
                     for n in range(start, start + 20)])
    delivered: dict[str, float] = {}
    stop = threading.Event()
    lock = threading.Lock()

    def consume():
        own = type(broker)(broker.directory)
        own.port = broker.port
        while not stop.is_set():
            try:
                got = own.pop("q", wait="true", timeout=2000, batch=3)
                with lock:
                    for message in got["messages"] if got else []:
                        delivered.setdefault(message["transactionId"], time.monotonic())
                if got:
                    own.ack_all(got)
            except Exception:  # the node is away: a client asks again
                time.sleep(0.05)

    held = [broker.pop("q", batch=5, partitions=1) for _ in range(3)]  # leases whose holder never comes back
    assert all(held)
    threads = [threading.Thread(target=consume) for _ in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    broker.kill9()
    broker.start()
    restarted = time.monotonic()

    def counts() -> dict:
        return next(q for q in broker.get("/api/v1/resources/queues").json()["queues"] if q["name"] == "q")["messages"]

    # An ack whose answer was lost may or may not have counted: then its batch comes again when the lease ends.
    while counts()["pending"] + counts()["processing"] > 0 and time.monotonic() < restarted + 60:
        time.sleep(0.1)
    stop.set()
    for thread in threads:
        thread.join()
    assert len(delivered) == messages
    assert max(delivered.values()) - restarted < lease + 2
    assert counts()["pending"] == 0 and counts()["processing"] == 0
