import pathlib
import re
import shutil
import tempfile
import uuid

import pytest

from harness import Broker


@pytest.fixture(scope="module")
def broker(request):
    """One broker for the tests of a module; each has a queue of its own. `SETTINGS` of the module are its settings."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="queen-acceptance-"))
    broker = Broker(directory / "data", **getattr(request.module, "SETTINGS", {})).start()
    yield broker
    broker.close()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def queue(request):
    """A queue name that no other test has; it has no dot, so it brings no second label."""
    return re.sub(r"\W+", "-", request.node.name)[:80] + "-" + uuid.uuid4().hex[:8]


@pytest.fixture
def other(queue):
    """A second queue of the test's own."""
    return f"other-{queue}"
