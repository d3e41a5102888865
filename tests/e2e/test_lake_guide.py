"""docs/guides/verify-a-lake.md does what it says: its commands are run as they stand there, in one shell, against a real bucket."""

import json
import re

import pytest

from harness import BINARY, ROOT, free_port
from test_guides import Shell, same, values

GUIDE = (ROOT / "docs/guides/verify-a-lake.md").read_text()
SINK_GUIDE = (ROOT / "docs/guides/s3-sink.md").read_text()


def blocks() -> list[tuple[str, str]]:
    return re.findall(r"^```(bash|json|text)\n(.*?)^```$", GUIDE, re.M | re.S)


class LakeShell(Shell):
    """The address and key are those of the server at hand, the programs those under test."""

    def __init__(self, port: int, directory, bucket):
        self.bucket = bucket
        super().__init__(port, directory)

    def own(self, commands: str) -> str:
        about = self.bucket.about
        out = super().own(commands).replace("http://127.0.0.1:9000", about["endpoint"])
        out = out.replace("QUEEN_S3_ACCESS_KEY=...", f"QUEEN_S3_ACCESS_KEY={about['accessKey']}")
        out = out.replace("QUEEN_S3_SECRET_KEY=...", f"QUEEN_S3_SECRET_KEY={about['secretKey']}")
        return out.replace("build/release/queenctl", str(BINARY.parent / "queenctl"))


@pytest.fixture
def shell(work, bucket):
    made = LakeShell(free_port(), work, bucket)
    yield made
    made.close()


def test_the_guide_does_what_it_shows_and_the_window_comes_back_as_it_was_pushed(shell, work):
    (work / "restore.py").write_text(re.search(r"^```python\n(.*?)^```$", SINK_GUIDE, re.M | re.S)[1])
    printed, compared = "", 0
    for language, body in blocks():
        if language == "bash":
            printed = shell.run(body)
            continue
        right = same(values(body), values(printed)) if language == "json" else printed.split() == body.split()
        assert right, f"shown:\n{body}\nprinted:\n{printed}"
        compared += 1
    assert compared == 4
    for partition, expected in (("cust-0", ["order-2-2"]), ("cust-1", ["order-2-1", "order-2-3"])):
        entry = json.dumps({"entries": [{"queue": "orders-again", "partition": partition, "offset": 0}]})
        answer = shell.run(f"curl -s localhost:6632/api/v1/fetch -d '{entry}'")
        records = json.loads(answer)["entries"][0]["records"]
        assert [record["transactionId"] for record in records] == expected
        assert all(f'"payload":{{"total":{name[-1]}.50}}' in answer for name in expected)
