"""Reads and writes queue-log files: docs/formats/qlog.md."""

import pathlib
import struct
from dataclasses import dataclass, replace

import xxhash

HEADER = struct.Struct("<8sQQQ")
FIXED = struct.Struct("<QQQIqB")  # seq, pid, base_offset, count, created_at, kind: what the checksum covers first
MAGIC = b"QNQLOG1\0"
UNUSED = 0xFFFFFFFFFFFFFFFF
MESSAGE, ENTRY, STUB = 0, 2, 3


@dataclass(frozen=True)
class Record:
    seq: int
    pid: int  # entry parts: copies
    base_offset: int  # entry parts: term
    count: int
    created_at: int
    kind: int
    body: bytes
    position: int = -1
    length: int = 0

    def encode(self) -> bytes:
        covered = FIXED.pack(self.seq, self.pid, self.base_offset, self.count, self.created_at, self.kind) + self.body
        return struct.pack("<IQ", 8 + len(covered), xxhash.xxh3_64_intdigest(covered)) + covered

    def stub_of(self) -> "Record":
        """The stub that another log holds of this whole entry."""
        body = struct.pack("<QI", xxhash.xxh3_64_intdigest(self.body), len(self.body))
        return replace(self, kind=STUB, body=body)


def header(file_id: int, first_seq: int, magic: bytes = MAGIC, reserved: int = 0) -> bytes:
    return HEADER.pack(magic, file_id, first_seq, reserved)


def first_seq(path: pathlib.Path) -> int:
    return HEADER.unpack_from(path.read_bytes())[2]


def records(path: pathlib.Path) -> list[Record]:
    data = path.read_bytes()
    found = []
    at = HEADER.size
    while at + 4 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        if length == 0:
            break
        check, covered = data[at + 4:at + 12], data[at + 12:at + 4 + length]
        assert struct.unpack("<Q", check)[0] == xxhash.xxh3_64_intdigest(covered), f"{path} byte {at}"
        found.append(Record(*FIXED.unpack_from(covered), covered[FIXED.size:], at, 4 + length))
        at += 4 + length
    return found


def end_of(path: pathlib.Path) -> int:
    found = records(path)
    return found[-1].position + found[-1].length if found else HEADER.size


def write_over(path: pathlib.Path, position: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


def flip(path: pathlib.Path, position: int, bit: int = 0) -> None:
    write_over(path, position, bytes([path.read_bytes()[position] ^ (1 << bit)]))


def put_record(path: pathlib.Path, record: Record) -> None:
    """Writes a record over the one of the same length at its position."""
    data = record.encode()
    assert len(data) == record.length
    write_over(path, record.position, data)


def append_record(path: pathlib.Path, record: Record) -> int:
    end = end_of(path)
    write_over(path, end, record.encode())
    return end


class Logs:
    """The logs of a data directory."""

    def __init__(self, directory: pathlib.Path):
        self.root = directory / "qlog"

    def directories(self) -> list[pathlib.Path]:
        return sorted((path for path in self.root.iterdir() if path.is_dir()), key=lambda path: int(path.name[1:]))

    def files(self, log: pathlib.Path) -> list[pathlib.Path]:
        """Those in use, by id."""
        return [path for path in sorted(log.glob("r*.qlog")) if first_seq(path) != UNUSED]

    def rolled(self) -> list[pathlib.Path]:
        return [log for log in self.directories() if len(self.files(log)) > 1]

    def sealed(self) -> pathlib.Path:
        """The first file of the log with the most files."""
        return self.files(max(self.directories(), key=lambda log: len(self.files(log))))[0]

    def active(self) -> pathlib.Path:
        """The active file with the most records."""
        return max((self.files(log)[-1] for log in self.directories()), key=lambda path: len(records(path)))

    def parts(self) -> dict[int, list[tuple[pathlib.Path, Record]]]:
        """Entry parts by seq, over all logs."""
        found: dict[int, list[tuple[pathlib.Path, Record]]] = {}
        for log in self.directories():
            for path in self.files(log):
                for record in records(path):
                    if record.kind != MESSAGE:
                        found.setdefault(record.seq, []).append((path, record))
        return found

    def shared_entry(self) -> tuple[tuple[pathlib.Path, Record], list[tuple[pathlib.Path, Record]]]:
        """An entry over several logs: its whole record, and its stubs."""
        parts = next(parts for _, parts in sorted(self.parts().items()) if len(parts) > 1)
        whole = next(part for part in parts if part[1].kind == ENTRY)
        return whole, [part for part in parts if part[1].kind == STUB]
