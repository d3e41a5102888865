"""Clients that send nonsense, half of a request, or read nothing: they are refused or closed, and harm nobody else."""

import json
import pathlib
import re
import resource
import select
import socket
import struct
import time

import pytest

PUSH = b'{"items":[{"queue":"q","payload":1}]}'
HEAD = b"POST /api/v1/push HTTP/1.1\r\nHost: broker\r\nContent-Type: application/json\r\n"


def connect(broker, receive_buffer: int | None = None) -> socket.socket:
    client = socket.socket()
    if receive_buffer is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    client.settimeout(10)
    client.connect(("127.0.0.1", broker.port))
    return client


def read_to_end(client: socket.socket, timeout: float = 10) -> bytes:
    """What the broker sends until it closes."""
    client.settimeout(timeout)
    data = b""
    try:
        while piece := client.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def statuses(data: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3})", data)]


def check_nothing_stored(broker) -> None:
    assert broker.get("/health").status_code == 200
    assert broker.get("/api/v1/resources/queues").json()["queues"] == []
    assert broker.process.poll() is None


# ---- half of a request ----

HALVES = {
    "one byte": b"P",
    "line without end": b"POST /api/v1/push HT",
    "head without end": HEAD + b"Content-Le",
    "no body": HEAD + b"Content-Length: 100\r\n\r\n",
    "half a body": HEAD + b"Content-Length: 100\r\n\r\n" + PUSH,
    "body short of one byte": HEAD + b"Content-Length: %d\r\n\r\n" % (len(PUSH) + 1) + PUSH,
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n50\r\n" + PUSH,
    "no last chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(PUSH) + PUSH + b"\r\n",
}


def test_half_a_request_that_goes_on_no_further_is_closed_and_stores_nothing(broker):
    clients = {name: connect(broker) for name in HALVES}
    for name, client in clients.items():
        client.sendall(HALVES[name])
    deadline = time.monotonic() + 45
    waiting = {client: name for name, client in clients.items()}
    while waiting and time.monotonic() < deadline:
        for client in select.select(list(waiting), [], [], 1)[0]:
            data = read_to_end(client)
            assert statuses(data) in ([], [400], [408]), (waiting[client], data)
            del waiting[client]
    assert not waiting, f"still open: {sorted(waiting.values())}"
    check_nothing_stored(broker)


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_half_a_request_whose_client_goes_stores_nothing(broker, reset):
    for half in HALVES.values():
        client = connect(broker)
        client.sendall(half)
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    check_nothing_stored(broker)


def test_a_whole_request_whose_client_only_ended_its_side_is_answered(broker):
    client = connect(broker)
    client.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(PUSH) + PUSH)
    client.shutdown(socket.SHUT_WR)
    assert statuses(read_to_end(client)) == [201]


def test_a_request_in_single_bytes_is_answered(broker):
    client = connect(broker)
    for byte in HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(PUSH) + PUSH:
        client.sendall(bytes([byte]))
    assert statuses(read_to_end(client)) == [201]


# ---- nonsense ----

GARBAGE = {
    "binary": bytes(range(256)),
    "tls hello": bytes.fromhex("160301020001000001fc0303") + bytes(500),
    "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no version": b"GET /health\r\n\r\n",
    "other version": b"GET /health HTTP/9.9\r\n\r\n",
    "length below zero": HEAD + b"Content-Length: -5\r\n\r\n" + PUSH,
    "length no number": HEAD + b"Content-Length: 1x\r\n\r\n" + PUSH,
    "length above 64 bits": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n" + PUSH,
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: %d\r\n\r\n" % len(PUSH) + PUSH,
    "length and chunks": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(PUSH) + PUSH + b"\r\n0\r\n\r\n",
    "other transfer encoding": HEAD + b"Transfer-Encoding: gzip\r\n\r\n" + PUSH,
    "chunk size no number": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + PUSH,
    "chunk size above 64 bits": HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + PUSH,
    "nul in a header": b"GET /health HTTP/1.1\r\nX: a\0b\r\n\r\n",
    "header without colon": b"GET /health HTTP/1.1\r\nnonsense\r\n\r\n",
    "a head of a megabyte": b"GET /health HTTP/1.1\r\nX: " + b"y" * (1 << 20) + b"\r\n\r\n",
    "a path of a megabyte": b"GET /" + b"y" * (1 << 20) + b" HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_nonsense_behind_a_good_request_is_refused_closed_and_stores_nothing(broker, name):
    client = connect(broker)
    try:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: broker\r\n\r\n" + GARBAGE[name])
    except ConnectionError:
        pass  # the answer to the nonsense may come before all of it is sent
    found = statuses(read_to_end(client))
    assert found[0] == 200 and len(found) <= 2 and (len(found) == 1 or 400 <= found[1] <= 505), found
    check_nothing_stored(broker)


def test_requests_sent_in_one_piece_are_answered_in_order(broker):
    client = connect(broker)
    bodies = [b'{"items":[{"queue":"q","transactionId":"%d","payload":%d}]}' % (n, n) for n in range(50)]
    client.sendall(b"".join(HEAD + b"Content-Length: %d\r\n%s\r\n" % (len(body), b"Connection: close\r\n" * (n == 49)) + body
                            for n, body in enumerate(bodies)))
    answer = read_to_end(client)
    assert statuses(answer) == [201] * 50
    assert [int(n) for n in re.findall(rb'"transaction_id":"(\d+)"', answer)] == list(range(50))


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "NONSENSE"])
@pytest.mark.parametrize("path", ["/api/v1/push", "/nothing", "/"])
def test_unknown_routes_and_methods_are_refused(broker, method, path):
    answer = broker.session.request(method, broker.url(path))
    assert answer.status_code == 404 and answer.json()["code"] == "no_such_route", answer.text
    check_nothing_stored(broker)


@pytest.mark.parametrize("path", ["/api/v1/%zz", "/api/v1/../health", "//", "/api/v1/pop/queue/", "/%ff%fe"])
def test_strange_paths_are_refused(broker, path):
    client = connect(broker)
    client.sendall(b"GET %s HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n" % path.encode())
    found = statuses(read_to_end(client))
    assert len(found) == 1 and (400 <= found[0] < 500 or found[0] == 204), found
    check_nothing_stored(broker)


# ---- too much ----

def test_a_body_above_the_limit_is_413_by_its_length_and_by_its_chunks(make_broker):
    broker = make_broker(QUEEN_MAX_BODY_BYTES="10000").start()
    by_length = connect(broker)
    by_length.sendall(HEAD + b"Content-Length: 10001\r\n\r\n")  # refused before a byte of the body came
    assert statuses(read_to_end(by_length)) == [413]
    by_chunks = connect(broker)
    by_chunks.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    try:
        for _ in range(20):
            by_chunks.sendall(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
    except ConnectionError:
        pass
    assert statuses(read_to_end(by_chunks)) == [413]
    fits = b'{"items":[{"queue":"q","payload":"%s"}]}' % (b"x" * 9900)
    assert len(fits) <= 10000 and broker.post("/api/v1/push", fits).status_code == 201


def memory_of(broker) -> int:
    text = pathlib.Path(f"/proc/{broker.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) * 1024


def test_ten_thousand_idle_connections_do_not_hold_up_pushes(broker):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(10_000, hard - 500)  # fewer only where the hard limit forbids them
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    clients: list[socket.socket] = []
    try:
        before = memory_of(broker)
        for _ in range(count):
            clients.append(connect(broker))
        slowest = 0.0
        for number in range(200):
            started = time.monotonic()
            broker.push([{"queue": "q", "partition": f"p{number % 4}", "payload": number}])
            slowest = max(slowest, time.monotonic() - started)
        each = (memory_of(broker) - before) / count
        print(f"{count} connections, {each:.0f} bytes each, slowest push {slowest * 1000:.1f} ms")
        assert slowest < 1 and each < 16384
        for client in (clients[0], clients[count // 2], clients[-1]):
            client.sendall(b"GET /health HTTP/1.1\r\nHost: broker\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
    finally:
        for client in clients:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert broker.get("/health").status_code == 200


def test_a_client_that_never_reads_is_closed_and_its_messages_come_again(make_broker):
    """HD-35: the write time-out ends it, a line names peer and queue, and the lease comes back."""
    broker = make_broker(QUEEN_HTTP_WRITE_TIMEOUT_MS="1000").start()
    broker.post("/api/v1/configure", {"queue": "big", "options": {"leaseTime": 4}})
    for number in range(20):
        broker.push([{"queue": "big", "partition": "p", "transactionId": f"t{number}", "payload": "x" * 1_000_000}])
    greedy = connect(broker, receive_buffer=4096)
    started = time.monotonic()
    greedy.sendall(b"GET /api/v1/pop/queue/big?batch=100 HTTP/1.1\r\nHost: broker\r\n\r\n")
    name = "{}:{}".format(*greedy.getsockname())
    slowest, again = 0.0, None
    while again is None and time.monotonic() - started < 10:
        pushed = time.monotonic()
        broker.push([{"queue": "small", "payload": 1}])
        slowest = max(slowest, time.monotonic() - pushed)
        again = broker.pop("big", batch=100)
        time.sleep(0.02)
    assert again is not None and [m["transactionId"] for m in again["messages"]] == [f"t{n}" for n in range(20)]
    assert time.monotonic() - started < 4 + 2
    assert slowest < 0.5
    lines = [line for line in broker.log().splitlines() if "http_write_timeout" in line]
    assert len(lines) == 1 and name in lines[0] and "big" in lines[0], lines
    assert len(read_to_end(greedy)) < 15_000_000


# ---- the log holds no payload ----

def test_no_payload_and_no_query_of_a_bad_request_is_logged(make_broker):
    broker = make_broker(LOG_LEVEL="trace").start()
    broker.push([{"queue": "q", "payload": "hunter2"}])
    broker.post("/api/v1/push", b'{"items":[{"queue":"q","payload":"hunter2}]}')
    broker.post("/api/v1/kv", {"operations": [{"op": "put", "ns": "n", "key": "k", "value": "hunter2", "forever": True}]})
    assert json.loads(broker.get("/api/v1/pop/queue/q").content)["messages"][0]["data"] == "hunter2"
    broker.terminate()
    assert "hunter2" not in broker.log()
