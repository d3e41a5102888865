"""kill -9 at random moments under load: what was answered is there, once, in order, and stays so."""

import json
import os
import pathlib
import random
import shutil
import time

import pytest
from crash_load import RESTING, Caller, Load
from harness import window_keys
from lake_check import check_lake
from soak_load import Soak
from test_queenctl_data import verify

LEASE_SECONDS = 1
SOAK_SECONDS = float(os.environ.get("QUEEN_KILL9_SECONDS", "15"))
SOAK_SETTINGS = {"QUEEN_RAFT_SEGMENT_BYTES": "8192", "QUEEN_RAFT_DURABLE_EVERY_MS": "50", "RETENTION_INTERVAL": "50",
                 "QUEEN_QLOG_SEAL_AGE_S": "2", "QUEEN_RAFT_TXN_WINDOW_MIN_S": "1", "QUEEN_STORE_SCRUB_EVERY_S": "1",
                 "QUEEN_STORE_SCRUB_ROWS_PER_S": "100000"}
KILLS_PER_VERIFY = 7


def kill_many_times(broker, load: Load, rng: random.Random, kills: int) -> None:
    """Kills come in pairs: the first at a random moment, the second behind a check of all that was answered."""
    for pair in range(kills // 2):
        if pair % 5 == 4:
            # Also while the directory is being recovered.
            broker.spawn()
            time.sleep(rng.uniform(0.002, 0.06))
        else:
            broker.start()
            time.sleep(rng.uniform(0.020, 0.400))
        broker.kill9()
        broker.start()
        load.check_log()
        assert load.ledger.errors == []
        broker.kill9()


def finish(broker, load: Load) -> dict[tuple[str, str], list[str]]:
    """Ends the load on a running broker and checks all that it was told."""
    load.stop()
    ledger = load.ledger
    log = load.check_log()
    total = sum(len(records) for records in log.values())
    print(f"{total} messages, {ledger.repeats} pushes repeated, {len(ledger.acked)} acked, applied {ledger.applied}")
    assert total == sum(len(offsets) for offsets in ledger.answered.values()), "a record that no push was answered for"
    load.drain(total, LEASE_SECONDS)
    stored = {(queue, transaction) for (queue, _), records in log.items() for transaction in records}
    assert ledger.acked.keys() <= stored and stored <= ledger.acked.keys() | ledger.maybe_acked
    # A last crash: with all leases run out, nothing that was acked comes back.
    broker.kill9()
    broker.start()
    time.sleep(LEASE_SECONDS + 0.2)
    load.drain(total, LEASE_SECONDS)
    assert ledger.counter_sure <= load.read_counter(Caller(broker.port))[0] <= ledger.counter_sure + ledger.counter_maybe
    assert ledger.errors == []
    return log


def seed_of_run() -> int:
    seed = int(os.environ.get("QUEEN_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    print(f"QUEEN_TEST_SEED={seed}")
    return seed


def start_load(broker, queues: list[str], seed: int) -> Load:
    broker.start()
    load = Load(broker.port, seed, queues)
    for queue in load.queues:
        answer = broker.post("/api/v1/configure", {"queue": queue, "options": {"leaseTime": LEASE_SECONDS, "retryLimit": 1000}})
        assert answer.status_code in (200, 201), answer.text
    load.push_resting()
    load.start()
    time.sleep(0.3)
    broker.kill9()
    return load


def run(broker, queues: list[str], kills: int) -> dict[tuple[str, str], list[str]]:
    seed = seed_of_run()
    load = start_load(broker, queues, seed)
    try:
        kill_many_times(broker, load, random.Random(seed), kills)
        broker.start()
        time.sleep(0.3)
        return finish(broker, load)
    finally:
        load.stopping.set()


def wait_lake(bucket, total: int) -> None:
    """Until the manifests count every committed record."""
    deadline = time.monotonic() + 90
    counted = -1
    while time.monotonic() < deadline:
        counted = sum(json.loads(bucket.get(key))["records"] for key in window_keys(bucket.keys()))
        if counted >= total:
            return
        time.sleep(0.3)
    raise AssertionError(f"the manifests count {counted} of {total} records")


def test_answered_is_durable_over_50_kills_and_each_record_is_in_one_object(make_broker, bucket):
    queues = ["orders", "rides", "meters"]
    broker = make_broker(**bucket.settings(",".join([*queues, RESTING]), QUEEN_S3_MAX_WINDOW_MS="1000", QUEEN_S3_SAFE_GUARD_MS="200",
                                           QUEEN_S3_LEASE_TTL_MS="1000", QUEEN_S3_CHECKPOINT_EVERY="5"))
    log = run(broker, queues, 50)
    wait_lake(bucket, sum(len(records) for records in log.values()))
    check_lake(bucket, log)


def test_answered_is_durable_over_10_kills_with_tiny_segments_and_shared_logs(make_broker):
    broker = make_broker(QUEEN_RAFT_SEGMENT_BYTES="4096", QUEEN_QLOG_SHARDS="3", QUEEN_RAFT_DURABLE_EVERY_MS="100")
    run(broker, [f"q{n}" for n in range(6)], 10)


@pytest.mark.parametrize("ends", ["terminate", "kill9"])
def test_a_queue_that_rests_since_before_a_crash_stops_no_later_boot(make_broker, ends):
    """What is replayed and then checkpointed is expected of each log only as far as that log goes."""
    broker = make_broker(QUEEN_RAFT_DURABLE_EVERY_MS="50").start(QUEEN_RAFT_DURABLE_EVERY_MS="3600000")
    for queue in ("first", "second", "third"):
        broker.push([{"queue": queue, "partition": "p", "transactionId": queue, "payload": 1}])
    broker.kill9()
    for _ in range(3):
        broker.start()
        time.sleep(0.2)  # a checkpoint of what was replayed
        getattr(broker, ends)()
    broker.start()
    for queue in ("first", "second", "third"):
        assert [record["transactionId"] for record in broker.fetch_all(queue, "p")] == [queue]


def check_copy(broker, copy: pathlib.Path) -> int:
    """queenctl's verdict on what the kill left. Returns how many files there were."""
    shutil.copytree(broker.directory, copy)
    report = verify(copy)
    assert report["healthy"] and report["wouldBoot"], [each for each in report["findings"] if each["severity"] != "note"]
    files = sum(path.is_file() for path in copy.rglob("*"))
    shutil.rmtree(copy)
    return files


def kill_for(broker, soak: Soak, rng: random.Random, seconds: float) -> None:
    """Kills at random moments, a fifth of them within the boot; everything is checked behind each restart."""
    kills = checks = copies = files = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if rng.random() < 0.2:
            broker.spawn()
            time.sleep(rng.uniform(0.002, 0.150))
            broker.kill9()
            kills += 1
        broker.start()
        soak.check()
        checks += 1
        time.sleep(rng.uniform(0.0, 1.5))
        broker.kill9()
        kills += 1
        if checks % KILLS_PER_VERIFY == 1:
            files += check_copy(broker, broker.directory.parent / "copy")
            copies += 1
    deleted = sum(getattr(owner, "deleted", 0) for owner in soak.owners)
    aged = sum(soak.aging.starts.values())
    print(f"{kills} kills in {seconds:.0f} s, {checks} restarts checked, {copies} copies verified ({files} files), {deleted} queues deleted, "
          f"{aged} messages aged away, {[owner.steps for owner in soak.owners]} steps of owners")


@pytest.mark.timeout(SOAK_SECONDS + 600)
def test_every_answer_holds_for_as_long_as_the_broker_is_killed(make_broker):
    """A8, DUR-1, DUR-3, RC-1: as long as QUEEN_KILL9_SECONDS says. Tiny segments, checkpoints 20 times a second, retention, deletion
    of queues, reclaim and the scrubs all run; what the aged and deleted queues held goes when it is due and never comes back."""
    broker = make_broker(**SOAK_SETTINGS).start()
    seed = seed_of_run()
    soak = Soak(broker.port, seed)
    soak.configure(broker.post, LEASE_SECONDS)
    soak.start()
    time.sleep(0.3)
    broker.kill9()
    try:
        kill_for(broker, soak, random.Random(seed), SOAK_SECONDS)
        broker.start()
        soak.stop_all_but_kept()
        finish(broker, soak.kept)
        assert [line for line in broker.log().splitlines() if " ERROR " in line] == []
    finally:
        soak.abandon()
