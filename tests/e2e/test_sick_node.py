"""A node whose machine lets it down: a sync that fails, no descriptors, a file system that keeps no promises."""

import pathlib
import resource
import subprocess
import tempfile
import threading

import pytest
from harness import Broker

# Fails fdatasync() and fsync() of log files while a file is there. Test only: the product has no such switch.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_to_fail(int fd) {
  const char* mark = getenv("SHIM_FAILS_WHILE");
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 5 || mark == NULL) return 0;
  path[size] = 0;
  return strcmp(path + size - 5, ".qlog") == 0 && access(mark, F_OK) == 0;
}
int fdatasync(int fd) {
  if (is_to_fail(fd)) { errno = EIO; return -1; }
  return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
int fsync(int fd) {
  if (is_to_fail(fd)) { errno = EIO; return -1; }
  return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
"""


@pytest.fixture
def failing_syncs(work):
    """The environment of a process whose log syncs fail while the file `mark` is there, and that file's path."""
    source, library, mark = work / "shim.c", work / "shim.so", work / "syncs-fail"
    source.write_text(SHIM)
    try:
        built = subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no C compiler")
    assert built.returncode == 0, built.stderr
    return {"LD_PRELOAD": str(library), "SHIM_FAILS_WHILE": str(mark)}, mark


def item(queue: str, number: int) -> dict:
    return {"queue": queue, "partition": "p", "transactionId": f"{queue}-{number}", "payload": {"n": number}}


def ids(broker: Broker, queue: str) -> list[str]:
    return [record["transactionId"] for record in broker.fetch_all(queue, "p")]


def test_a_failed_fsync_poisons_the_node_which_stays_up_and_recovers_by_a_restart(make_broker, failing_syncs):
    """GC-9, SP-1, DUR-10: nothing is acknowledged any more, and a restart brings back what was."""
    environment, mark = failing_syncs
    broker = make_broker().start(**environment)
    answered = [f"q-{n}" for n in range(20) if broker.push([item("q", n)])[0]["status"] == "queued"]
    assert len(answered) == 20
    mark.touch()
    refused = broker.post("/api/v1/push", {"items": [item("q", 20)]})
    assert refused.status_code == 503 and refused.json()["code"] in ("outcome_unknown", "retry"), refused.text
    mark.unlink()  # a sync that failed once is not tried again
    for body in ([item("q", 21)], [item("new", 1)]):
        later = broker.post("/api/v1/push", {"items": body})
        assert later.status_code == 503 and later.json()["code"] == "retry", later.text
        assert later.headers["Retry-After"]
    health = broker.get("/health")
    assert health.status_code == 503 and "fsync" in health.text, health.text
    assert health.json()["raft"]["role"] == "stopped", health.text
    assert broker.process.poll() is None
    assert ids(broker, "q")[:20] == answered  # what is durable is still read
    assert broker.log().count("log_stopped") == 1
    broker.terminate()
    broker.start()
    found = ids(broker, "q")
    assert found[:20] == answered and set(found[20:]) <= {"q-20"}
    assert broker.push([item("q", 22)])[0]["status"] == "queued"


def open_descriptors(broker: Broker) -> int:
    return len(list(pathlib.Path(f"/proc/{broker.process.pid}/fd").iterdir()))


def limit(broker: Broker, soft: int) -> None:
    hard = resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (soft, hard))


class Call(threading.Thread):
    """One push on a connection that is open already."""

    def __init__(self, broker: Broker, items: list[dict]):
        super().__init__(daemon=True)
        self.broker, self.items, self.answer = broker, items, None
        self.start()

    def run(self):
        self.answer = self.broker.post("/api/v1/push", {"items": self.items})


def test_no_descriptors_are_waited_out_and_answered(make_broker):
    """HD-28: EMFILE is no failed write."""
    broker = make_broker(QUEEN_RAFT_QLOG_FD_CACHE="0").start()
    broker.push([item("q", 1)])
    before = resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE)[0]
    limit(broker, open_descriptors(broker))
    waiting = Call(broker, [item("new", 1), item("q", 2)])  # makes a log: directory, file, sync of both
    waiting.join(3)
    assert waiting.is_alive(), waiting.answer.text
    assert broker.process.poll() is None
    limit(broker, before)
    waiting.join(30)
    assert waiting.answer is not None and waiting.answer.status_code == 201, waiting.answer
    assert [one["status"] for one in waiting.answer.json()] == ["queued", "queued"]
    assert broker.get("/health").status_code == 200
    assert "descriptors_exhausted" in broker.log() or "log_write_waits" in broker.log()
    broker.kill9()
    broker.start()
    assert ids(broker, "new") == ["new-1"] and ids(broker, "q") == ["q-1", "q-2"]


def test_a_node_without_descriptors_stops_when_told_to_and_acknowledges_nothing_it_does_not_have(make_broker):
    """HD-28: the wait for descriptors ends with the node."""
    broker = make_broker(QUEEN_RAFT_QLOG_FD_CACHE="0").start()
    broker.push([item("q", 1)])
    limit(broker, open_descriptors(broker))
    waiting = Call(broker, [item("new", 1)])
    waiting.join(2)
    assert waiting.is_alive()
    broker.process.terminate()
    broker.process.wait(90)  # calls in flight have their deadlines, and what waits for the log two seconds more
    waiting.join(10)
    acknowledged = waiting.answer is not None and waiting.answer.status_code == 201
    broker.session.close()
    broker.start()
    assert ids(broker, "q") == ["q-1"]
    if acknowledged:
        assert ids(broker, "new") == ["new-1"]


@pytest.fixture
def overlay():
    """A directory on an overlay file system."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="queen-overlay-"))
    for name in ("lower", "upper", "work", "merged"):
        (home / name).mkdir()
    options = f"lowerdir={home}/lower,upperdir={home}/upper,workdir={home}/work"
    mounted = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(home / "merged")], capture_output=True, text=True)
    if mounted.returncode != 0:
        subprocess.run(["rm", "-rf", str(home)])
        pytest.skip(f"no overlay can be mounted here: {mounted.stderr.strip()}")
    yield home / "merged"
    subprocess.run(["umount", str(home / "merged")], check=True)
    subprocess.run(["rm", "-rf", str(home)], check=True)


def test_a_data_directory_on_a_foreign_file_system_gets_one_loud_warning(overlay, work, make_broker):
    """HD-33."""
    broker = Broker(overlay / "data")
    broker.log_path = work / "overlay.log"
    try:
        broker.start()
        broker.push([item("q", 1)])
        warnings = [line for line in broker.log().splitlines() if "DATA_DIRECTORY_ON_A_DOUBTFUL_FILE_SYSTEM" in line]
        assert len(warnings) == 1 and "overlay" in warnings[0] and str(overlay / "data") in warnings[0], broker.log()
        assert "WARN" in warnings[0].upper()
        assert broker.terminate() == 0
    finally:
        broker.close()
    plain = make_broker().start()
    assert "DOUBTFUL" not in plain.log()
