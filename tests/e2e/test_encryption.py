"""Payload encryption at rest (api-state.md 12): what is stored, who can read it, and what happens without the key."""

import base64
import json
import re
import time

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from harness import data_keys, lines_of
from sink_settings import FAST

KEY = "00112233445566778899aabbccddeeff" * 2
OTHER = "ff" * 32
MARK = "plain-as-day"


def keyed(make_broker, name="data", key=KEY, **settings):
    return make_broker(name, QUEEN_ENCRYPTION_KEY=key, **settings)


def flag(broker, queue, on=True, **options):
    answer = broker.post("/api/v1/configure", {"queue": queue, "options": {"encryptionEnabled": on, **options}})
    assert answer.status_code in (200, 201), answer.text


def payload(number):
    return {"n": number, "secret": f"{MARK}-{number}"}


def push(broker, queue, *numbers, partition="p"):
    broker.push([{"queue": queue, "partition": partition, "transactionId": f"t{n}", "payload": payload(n)} for n in numbers])


def fetched(broker, queue, partition="p"):
    return [record["payload"] for record in broker.fetch_all(queue, partition)]


def opened(envelope, key=KEY):
    """By an implementation that is not ours."""
    assert list(envelope) == ["encrypted", "iv", "authTag"]
    iv, tag = (base64.b64decode(envelope[name], validate=True) for name in ("iv", "authTag"))
    assert (len(iv), len(tag)) == (16, 16)
    return AESGCM(bytes.fromhex(key)).decrypt(iv[:12], base64.b64decode(envelope["encrypted"], validate=True) + tag, None)


def assert_nowhere(broker, *needles):
    """No file of the data directory and no log line holds any of these."""
    for path in [*broker.directory.rglob("*"), broker.log_path]:
        if path.is_file():
            held = path.read_bytes()
            for needle in needles:
                assert needle.encode() not in held, f"{needle} is in {path}"


def restarted(broker, key):
    assert broker.terminate() == 0
    broker.settings["QUEEN_ENCRYPTION_KEY"] = key
    return broker.start()


def test_what_is_stored_is_the_envelope_and_what_is_read_is_the_payload(make_broker):
    """EN-2, EN-3, EN-6, EN-11: every route that returns messages; the stored bytes by Python's own AES-GCM."""
    # Nothing is compressed, so that a grep sees what is there.
    broker = keyed(make_broker, QUEEN_RAFT_QLOG_ZSTD_LEVEL="0").start()
    flag(broker, "vault")
    text = '{"b" : 1.50,"a":"plain-as-day ü","z":[null]}'
    answer = broker.post("/api/v1/push", '{"items":[{"queue":"vault","partition":"p","transactionId":"t0","payload":' + text +
                         '},{"queue":"vault","partition":"p","transactionId":"t1","payload":null}]}')
    assert answer.status_code == 201 and [i["status"] for i in answer.json()] == ["queued", "queued"]

    popped = broker.get("/api/v1/pop/queue/vault/partition/p", batch=10)
    assert '"data":' + text in popped.text and popped.json()["messages"][1]["data"] is None
    assert '"payload":' + text in broker.post("/api/v1/fetch", {"entries": [{"queue": "vault", "partition": "p", "offset": 0}]}).text
    browsed = broker.get("/api/v1/messages", queue="vault").json()["messages"]
    assert [(m["isEncrypted"], m["data"]) for m in browsed] == [(True, None), (True, json.loads(text))]
    detail = broker.get(f"/api/v1/messages/{popped.json()['messages'][0]['partitionId']}/t0").json()
    assert (detail["isEncrypted"], detail["payload"]) == (True, json.loads(text))

    broker.terminate()
    assert_nowhere(broker, MARK, KEY, KEY.upper())
    stored = b"".join(path.read_bytes() for path in broker.directory.rglob("*.qlog"))
    envelopes = re.findall(rb'\{"encrypted":"[^"]*","iv":"[^"]*","authTag":"[^"]*"\}', stored)
    assert [opened(json.loads(e)) for e in envelopes] == [text.encode(), b"null"]


def test_another_key_no_key_and_the_key_again(make_broker):
    """EN-8, EN-10, ruling 1 of the sink: pops give the envelope, fetch a string of it; the key brings all back."""
    broker = keyed(make_broker).start()
    flag(broker, "vault")
    push(broker, "vault", 1, 2)
    for key in (OTHER, ""):
        restarted(broker, key)
        popped = broker.pop("vault", "p", batch=10, consumerGroup=f"g{len(key)}", subscriptionMode="all")
        assert [json.loads(opened(m["data"])) for m in popped["messages"]] == [payload(1), payload(2)]
        assert [json.loads(opened(json.loads(p))) for p in fetched(broker, "vault")] == [payload(1), payload(2)]
        browsed = broker.get("/api/v1/messages", queue="vault").json()["messages"]
        assert all(m["isEncrypted"] and list(m["data"]) == ["encrypted", "iv", "authTag"] for m in browsed)
    restarted(broker, KEY)
    assert fetched(broker, "vault") == [payload(1), payload(2)]


def test_the_flag_off_later_hides_nothing(make_broker):
    """EN-6: reads go by the shape."""
    broker = keyed(make_broker).start()
    flag(broker, "vault")
    push(broker, "vault", 1)
    flag(broker, "vault", False)
    push(broker, "vault", 2)
    assert fetched(broker, "vault") == [payload(1), payload(2)]
    rows = broker.get("/api/v1/messages", queue="vault").json()["messages"]
    assert [m["isEncrypted"] for m in rows] == [False, True]


def test_an_envelope_that_a_client_pushed_is_opened_too(make_broker):
    """EN-6: in a queue that was never flagged, in any spelling; what does not open or is no JSON stays as it is."""
    broker = keyed(make_broker).start()

    def sealed(plain, key=KEY):
        iv = bytes(range(16))
        whole = AESGCM(bytes.fromhex(key)).encrypt(iv[:12], plain, None)
        members = {"authTag": whole[-16:], "iv": iv, "encrypted": whole[:-16]}
        return {name: base64.b64encode(value).decode() for name, value in members.items()}

    sent = [sealed(b'{"x":1}'), {"v": 2, **sealed(b"[1, 2]")}, sealed(b"not json"), sealed(b"1", OTHER), {**sealed(b"1"), "iv": "AA=="}]
    broker.push([{"queue": "open", "partition": "p", "payload": p} for p in sent])
    assert fetched(broker, "open") == [{"x": 1}, [1, 2], *sent[2:]]
    assert [m["data"] for m in broker.pop("open", "p", batch=9)["messages"]] == [{"x": 1}, [1, 2], *sent[2:]]
    # In a flagged queue it is what was sent: sealed once, opened once.
    flag(broker, "vault")
    broker.push([{"queue": "vault", "partition": "p", "payload": sent[0]}])
    assert fetched(broker, "vault") == [sent[0]]


def test_without_a_key_nothing_is_stored_in_a_flagged_queue(make_broker):
    """Ruling over EN-7: refused whole, with 400 `encryption_required`; a transaction rolls back."""
    broker = make_broker().start()
    flag(broker, "vault")
    both = [{"queue": "plain", "payload": 1}, {"queue": "vault", "payload": payload(1)}]
    answer = broker.post("/api/v1/push", {"items": both})
    assert (answer.status_code, answer.json()["code"]) == (400, "encryption_required"), answer.text
    answer = broker.post("/api/v1/transaction", {"operations": [{"type": "push", "items": both}]})
    assert (answer.status_code, answer.json()["success"], answer.json()["reason"]) == (200, False, "encryption_required")
    assert [q["name"] for q in broker.get("/api/v1/resources/queues").json()["queues"]] == ["vault"]
    assert broker.pop("vault") is None
    assert "encryption_key=<unset>" in broker.log() and "encryption service initialized" not in broker.log()


@pytest.mark.parametrize("key", ["00", KEY[:-1], KEY + "0", "z" + KEY[1:]])
def test_a_malformed_key_stops_the_boot_and_is_not_quoted(make_broker, key):
    broker = keyed(make_broker, key=key).spawn()
    assert broker.wait_exit() == 1
    assert re.search(r"FATAL: .*QUEEN_ENCRYPTION_KEY", broker.log())
    assert len(key) < 8 or key[8:40] not in broker.log()
    assert not broker.directory.exists()


def test_a_good_key_is_announced_and_masked(make_broker):
    """EN-7; a blank one is none."""
    broker = keyed(make_broker, key=f" {KEY.upper()} ").start()
    assert "encryption service initialized (AES-256-GCM)" in broker.log()
    assert re.search(r"config: security.*encryption_key=<set:64 chars>", broker.log())
    assert KEY[:16] not in broker.log().lower()
    assert "encryption_key=<unset>" in keyed(make_broker, "blank", key="  ").start().log()


def test_transactions_and_replayed_dead_letters_are_sealed(make_broker):
    """EN-4, EN-5: every way into a flagged queue; the dead letter itself is stored in clear."""
    broker = keyed(make_broker, QUEEN_RAFT_QLOG_ZSTD_LEVEL="0").start()
    flag(broker, "vault", retryLimit=0)
    flag(broker, "copies")
    operations = [{"type": "push", "items": [{"queue": "vault", "partition": "p", "transactionId": "t1", "payload": payload(1)}]}]
    assert broker.post("/api/v1/transaction", {"operations": operations}).json()["success"] is True
    assert broker.terminate() == 0
    assert_nowhere(broker, MARK)
    broker.start()
    popped = broker.pop("vault", "p")
    assert popped["messages"][0]["data"] == payload(1)
    assert broker.ack_all(popped, status="dlq")[0]["dlq"] is True
    letter = broker.get("/api/v1/dlq").json()["messages"][0]
    assert letter["data"] == payload(1)
    # From here on the plaintext is in the dead letter; the copy must hold none of its own.
    copied = broker.post(f"/api/v1/dlq/{letter['id']}/replay", {"queue": "copies", "partition": "p"})
    assert copied.json()["result"] == "moved", copied.text
    assert fetched(broker, "copies") == [payload(1)]
    assert broker.get("/api/v1/messages", queue="copies").json()["messages"][0]["isEncrypted"] is True


def test_a_letter_filed_without_the_key_opens_with_it(make_broker):
    broker = keyed(make_broker).start()
    flag(broker, "vault", retryLimit=0)
    push(broker, "vault", 1)
    restarted(broker, "")
    assert broker.ack_all(broker.pop("vault", "p"), status="dlq")[0]["dlq"] is True
    assert list(broker.get("/api/v1/dlq").json()["messages"][0]["data"]) == ["encrypted", "iv", "authTag"]
    restarted(broker, KEY)
    assert broker.get("/api/v1/dlq").json()["messages"][0]["data"] == payload(1)


def test_kill9_keeps_what_was_answered_and_leaves_no_plaintext(make_broker):
    broker = keyed(make_broker).start()
    flag(broker, "vault")
    sent = []
    for number in range(50):
        push(broker, "vault", number)
        sent.append(payload(number))
    broker.kill9()
    assert_nowhere(broker, MARK, KEY)
    broker.start()
    assert fetched(broker, "vault") == sent


def test_configure_while_pushes_are_on_their_way(make_broker):
    """A push that was prepared before the queue was flagged is sealed and submitted once more: never refused, never stored
    in clear after the answer of the configuration."""
    import threading
    broker = keyed(make_broker).start()
    flag(broker, "turns", False)
    ends = threading.Event()
    failures = []

    def produce(worker):
        import requests
        session = requests.Session()
        while not ends.is_set():
            answer = session.post(broker.url("/api/v1/push"), json={"items": [{"queue": "turns", "partition": f"w{worker}", "payload": payload(worker)}]})
            if answer.status_code != 201:
                failures.append(answer.text)

    threads = [threading.Thread(target=produce, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(30):
        flag(broker, "turns", turn % 2 == 0)
        time.sleep(0.02)
    flag(broker, "turns", True)
    marks = {n: len(broker.fetch_all("turns", f"w{n}")) for n in range(4)}
    time.sleep(0.3)
    ends.set()
    for thread in threads:
        thread.join()
    assert failures == []
    for n in range(4):
        rows = broker.get("/api/v1/messages", queue="turns", partition=f"w{n}", limit=1000).json()["messages"]
        assert all(m["isEncrypted"] for m in rows if m["offset"] > marks[n])
        assert all(record["payload"] == payload(n) for record in broker.fetch_all("turns", f"w{n}"))


def test_the_sink_writes_plaintext_and_a_string_of_what_it_cannot_read(make_broker, bucket):
    """EN-8; s3-sink.md 27.1."""
    sink = bucket.settings("vault", **FAST)
    broker = keyed(make_broker, **sink).start()
    flag(broker, "vault")
    push(broker, "vault", 1)
    broker.wait_sink("vault", lambda row: row["records"] == 1)
    for name in sink:
        del broker.settings[name]
    restarted(broker, OTHER)
    push(broker, "vault", 2)
    broker.settings.update(sink)
    restarted(broker, KEY)
    push(broker, "vault", 3)
    broker.wait_sink("vault", lambda row: row["records"] >= 2)
    lines = [json.loads(line) for key in data_keys(bucket.keys()) for line in lines_of(bucket.get(key))]
    by_id = {line["transactionId"]: line["payload"] for line in lines}
    assert (len(lines), by_id["t1"], by_id["t3"]) == (3, payload(1), payload(3))
    assert isinstance(by_id["t2"], str) and json.loads(opened(json.loads(by_id["t2"]), OTHER)) == payload(2)
    assert KEY not in broker.log() and MARK not in broker.log()
