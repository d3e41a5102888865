"""The rooms' order, read from the #include lines (docs/architecture.md: layers point down only)."""

import pathlib
import re
import sys
import tempfile

LAYER = {
    "app": 7, "cli": 7, "tenancy": 6, "ops": 6, "api": 5, "sink": 5, "broker": 4, "ephemeral": 4, "replica": 3, "machine": 3,
    "store": 2, "qlog": 2, "lake": 2, "s3": 2, "http": 2, "auth": 2, "disk": 1, "config": 1, "base": 0,
}
SIDEWAYS = set()  # pairs (room, room of the same layer) that are allowed: none so far
INCLUDE = re.compile(r'^\s*#\s*include\s*"([a-z0-9_]+)/')
LINES_MAX = 500


def violations(source: pathlib.Path) -> list[str]:
    found = []
    for path in sorted(source.rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        room = path.relative_to(source).parts[0]
        if room not in LAYER:
            found.append(f"{path}: {room} is not a room of the design")
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) > LINES_MAX:
            found.append(f"{path}: {len(lines)} lines, more than {LINES_MAX}: split it by idea")
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            other = match.group(1)
            if other == room:
                continue
            if other not in LAYER:
                found.append(f"{path}:{number}: {other} is not a room of the design")
            elif LAYER[other] > LAYER[room]:
                found.append(f"{path}:{number}: {room} (layer {LAYER[room]}) includes {other} (layer {LAYER[other]}): arrows point down only")
            elif LAYER[other] == LAYER[room] and (room, other) not in SIDEWAYS:
                found.append(f"{path}:{number}: {room} includes {other} of its own layer")
    return found


def self_test() -> int:
    with tempfile.TemporaryDirectory() as directory:
        source = pathlib.Path(directory)
        (source / "qlog").mkdir()
        (source / "qlog" / "record.cc").write_text('#include "broker/broker.h"\n#include "store/view.h"\n#include "disk/disk.h"\n')
        found = violations(source)
        for line in found:
            print("found as it should be:", line)
        return 0 if len(found) == 2 else 1


def main() -> int:
    if "--self-test" in sys.argv[1:]:
        return self_test()
    found = violations(pathlib.Path("src"))
    for line in found:
        print(line, file=sys.stderr)
    print(f"check-rooms: {'ok' if not found else f'{len(found)} violations'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
