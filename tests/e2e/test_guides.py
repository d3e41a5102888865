"""The guides that show curl do what they say: their commands are run as they stand there, one shell for each guide, and what they
print is compared with the answer that is shown."""

import json
import os
import re
import subprocess

import pytest

from harness import BINARY, ROOT, free_port


def steps(guide: str) -> list[tuple[str, str | None]]:
    """(commands, answer shown or None), in order."""
    text = (ROOT / "docs/guides" / guide).read_text()
    blocks = re.findall(r"^```(bash|json)\n(.*?)^```$", text, re.M | re.S)
    out: list[tuple[str, str | None]] = []
    for language, body in blocks:
        if language == "bash":
            out.append((body, None))
        else:
            assert out[-1][1] is None, f"{guide}: an answer without a command: {body}"
            out[-1] = (out[-1][0], body)
    return out


def values(text: str) -> list:
    """The JSON values that stand in `text` one after another. Numbers keep their text: 12.50 is not 12.5."""
    decoder, out, at = json.JSONDecoder(parse_float=lambda digits: f"number {digits}"), [], 0
    while (at := re.compile(r"\s*").match(text, at).end()) < len(text):
        value, at = decoder.raw_decode(text, at)
        out.append(value)
    return out


def same(shown, got) -> bool:
    if shown == "…":
        return got is not None
    if isinstance(shown, dict):
        return isinstance(got, dict) and shown.keys() == got.keys() and all(same(shown[k], got[k]) for k in shown)
    if isinstance(shown, list):
        return isinstance(got, list) and len(shown) == len(got) and all(map(same, shown, got))
    return type(shown) is type(got) and shown == got


class Shell:
    """One bash for all steps of a guide: jobs and variables live on, as at a prompt."""

    def __init__(self, port: int, directory):
        self.port, self.directory = port, directory
        self.errors = open(directory / "stderr", "w+")
        self.process = subprocess.Popen(["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, cwd=ROOT, start_new_session=True,
                                        env={**os.environ, "PORT": str(port), "QUEEN_RAFT_DISK_HIGH_PCT": "100"})

    def own(self, commands: str) -> str:
        """The same commands with this test's port, directories and program."""
        out = commands.replace("localhost:6632", f"127.0.0.1:{self.port}").replace("/tmp/", f"{self.directory}/")
        return out.replace("build/release/queen ", f"{BINARY} ")

    def run(self, commands: str) -> str:
        end = "--end-of-the-block--"
        self.process.stdin.write(f"{self.own(commands)}\necho; echo {end}\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.strip() == end:
                return "".join(lines)
            lines.append(line)
        self.errors.seek(0)
        raise AssertionError(f"the shell ended: {''.join(lines)}{self.errors.read()}")

    def close(self) -> None:
        self.process.stdin.write("kill -9 $(jobs -p) 2>/dev/null\nexit\n")
        self.process.stdin.close()
        self.process.wait(timeout=10)
        self.errors.close()


@pytest.fixture
def shell(work):
    made = Shell(free_port(), work)
    yield made
    made.close()


def follow(shell: Shell, guide: str) -> int:
    compared = 0
    for commands, shown in steps(guide):
        printed = shell.run(commands)
        if shown is None:
            continue
        assert same(values(shown), values(printed)), f"{guide}: {commands}\nshown:\n{shown}\nprinted:\n{printed}"
        compared += 1
    return compared


def test_the_quickstart_does_what_it_shows(shell):
    assert follow(shell, "quickstart.md") >= 10


def test_the_guide_to_streams_does_what_it_shows(shell, make_broker):
    broker = make_broker().start()
    shell.port = broker.port
    assert follow(shell, "streams.md") == 6


def test_the_guide_to_consuming_does_what_it_shows(shell, make_broker):
    broker = make_broker().start()
    shell.port = broker.port
    assert follow(shell, "consuming.md") >= 9


def test_the_guide_to_keys_and_locks_does_what_it_shows(shell, make_broker):
    broker = make_broker().start()
    shell.port = broker.port
    assert follow(shell, "kv.md") >= 10


def test_the_guide_to_in_memory_queues_does_what_it_shows(shell, make_broker):
    shell.port = make_broker().start().port
    assert follow(shell, "ephemeral.md") >= 3


def test_the_guide_to_timers_does_what_it_shows(shell, make_broker):
    shell.port = make_broker().start().port
    assert follow(shell, "timers.md") >= 3


def test_the_guide_to_transactions_does_what_it_shows(shell, make_broker):
    shell.port = make_broker().start().port
    assert follow(shell, "transactions.md") >= 3
