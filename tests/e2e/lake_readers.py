"""How each reader of the guide reads a sample lake: rows in the reader's own types and order (s3-sink.md 25.4).

A reader gives the rows of the queues `rides` and `a/b c` (or of `rides` alone where it has to be pointed at one queue), ordered by
queue, partition and offset by the reader itself, as tuples (queue, hour, partition, offset, transaction id, stamp in µs, payload);
the payload is JSON text where the reader keeps it, otherwise what the reader makes of it."""

import datetime
import glob
import json
import os
import pathlib
import sys
import urllib.parse

EXTENSION = {"jsonl-zstd": "jsonl.zst", "jsonl-gzip": "jsonl.gz", "jsonl-none": "jsonl", "parquet-zstd": "parquet", "parquet-snappy": "parquet"}
KINDS = list(EXTENSION)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
SAMPLES = ("rides", "a/b c")


def micros(stamp) -> int:
    if isinstance(stamp, str):
        stamp = datetime.datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S.%f%z")
    return (stamp - EPOCH) // datetime.timedelta(microseconds=1)


class Lake:
    """One sample lake: its root, and the glob that the guide shows."""

    def __init__(self, root: pathlib.Path, kind: str):
        self.root, self.kind = root / kind, kind

    @property
    def parquet(self) -> bool:
        return self.kind.startswith("parquet")

    def glob(self, queue: str = "*") -> str:
        return f"{self.root}/tenant=*/queue={queue}/dt=*/hour=*/*.{EXTENSION[self.kind]}"

    def files(self, queue: str) -> list[str]:
        return sorted(glob.glob(self.glob(queue)))


def hour_of(file: str) -> int:
    return int(file.split("/hour=")[1][:2])


class DuckDb:
    queues = SAMPLES

    def __init__(self):
        import duckdb
        self.version = duckdb.__version__
        self.connection = duckdb.connect()

    def source(self, lake: Lake) -> str:
        if lake.parquet:
            return f"read_parquet('{lake.glob()}', hive_partitioning = true)"
        types = "{partition: 'VARCHAR', \"offset\": 'BIGINT', transactionId: 'VARCHAR', ts: 'TIMESTAMPTZ', payload: 'JSON'}"
        return f"read_json('{lake.glob()}', format = 'newline_delimited', hive_partitioning = true, columns = {types})"

    def rows(self, lake: Lake) -> list[tuple]:
        transaction_id = "transaction_id" if lake.parquet else "transactionId"
        return self.connection.execute(
            f'SELECT queue, hour::INT, partition, "offset", {transaction_id}, epoch_us(ts), payload FROM {self.source(lake)} '
            "WHERE dt = '2026-11-07' AND queue <> 'steady' ORDER BY queue, partition, \"offset\"").fetchall()

    def steady(self, lake: Lake) -> list[tuple]:
        return self.connection.execute(
            f"SELECT \"offset\", epoch_us(ts) FROM {self.source(lake)} WHERE queue = 'steady' ORDER BY \"offset\"").fetchall()


class ClickHouse:
    queues = SAMPLES

    def __init__(self):
        import chdb
        self.chdb = chdb
        self.version = str(chdb.query("SELECT version()", "TSVRaw")).strip()

    def query(self, lake: Lake, what: str, tail: str) -> list[tuple]:
        structure = "partition String, offset Int64, transactionId String, ts DateTime64(6, \\'UTC\\'), payload Nullable(String)"
        form = "Parquet" if lake.parquet else f"JSONEachRow, '{structure}'"
        answer = self.chdb.query(
            f"SELECT {what} FROM file('{lake.glob()}', {form}) {tail} SETTINGS use_hive_partitioning = 1, "
            "date_time_input_format = 'best_effort', output_format_json_quote_64bit_integers = 0", "JSONCompactEachRow")
        return [tuple(json.loads(line)) for line in str(answer).splitlines()]

    def rows(self, lake: Lake) -> list[tuple]:
        transaction_id = "transaction_id" if lake.parquet else "transactionId"
        return self.query(lake, f"queue, hour, partition, offset, {transaction_id}, toUnixTimestamp64Micro(ts), payload",
                          "WHERE dt = '2026-11-07' AND queue <> 'steady' ORDER BY queue, partition, offset")

    def steady(self, lake: Lake) -> list[tuple]:
        return self.query(lake, "offset, toUnixTimestamp64Micro(ts)", "WHERE queue = 'steady' ORDER BY offset")


class Spark:
    queues = SAMPLES

    def __init__(self):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        import pyspark
        from pyspark.sql import SparkSession
        self.version = pyspark.__version__
        self.session = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
                        .config("spark.sql.shuffle.partitions", "1").config("spark.sql.session.timeZone", "UTC")
                        .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
                        .config("spark.ui.showConsoleProgress", "false")
                        # A few thousand rows: starting and compiling is what takes the time.
                        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
                        .config("spark.sql.codegen.wholeStage", "false").getOrCreate())
        self.session.sparkContext.setLogLevel("OFF")

    def close(self) -> None:
        self.session.stop()

    def frame(self, lake: Lake):
        if lake.parquet:
            return self.session.read.parquet(str(lake.root))
        schema = "partition string, offset long, transactionId string, ts timestamp, payload string"
        return self.session.read.schema(schema).json(str(lake.root)).withColumnRenamed("transactionId", "transaction_id")

    def query(self, lake: Lake, text: str) -> list[tuple]:
        self.frame(lake).createOrReplaceTempView("lake")
        return [tuple(row) for row in self.session.sql(text).collect()]

    def rows(self, lake: Lake) -> list[tuple]:
        return self.query(lake, "SELECT queue, hour, partition, offset, transaction_id, unix_micros(ts), payload FROM lake "
                                "WHERE dt = '2026-11-07' AND queue <> 'steady' ORDER BY queue, partition, offset")

    def steady(self, lake: Lake) -> list[tuple]:
        return self.query(lake, "SELECT offset, unix_micros(ts) FROM lake WHERE queue = 'steady' ORDER BY offset")


class Polars:
    """Parquet over the prefix root; JSONL file by file of one queue."""

    def __init__(self):
        import polars
        self.polars, self.version = polars, polars.__version__

    def frame(self, lake: Lake, queue: str):
        if lake.parquet:
            frame = self.polars.scan_parquet(lake.root, hive_partitioning=True)
            wanted = self.polars.col("queue") == "steady"
            return frame.filter(wanted if queue == "steady" else ~wanted)
        files = [self.polars.scan_ndjson(file).with_columns(queue=self.polars.lit(queue), hour=self.polars.lit(hour_of(file)))
                 for file in lake.files(queue)]
        return self.polars.concat(files).rename({"transactionId": "transaction_id"})

    def read(self, lake: Lake, queue: str, columns: list[str]) -> list[tuple]:
        return self.frame(lake, queue).sort("queue", "partition", "offset").select(columns).collect().rows()

    def rows(self, lake: Lake) -> list[tuple]:
        rows = self.read(lake, "rides", ["queue", "hour", "partition", "offset", "transaction_id", "ts", "payload"])
        return [(*row[:5], micros(row[5]), row[6]) for row in rows]

    def steady(self, lake: Lake) -> list[tuple]:
        return [(offset, micros(ts)) for offset, ts in self.read(lake, "steady", ["offset", "ts"])]


class PyArrow:
    """Datasets; `.jsonl.zst` file by file, because the dataset reader does not open it."""

    def __init__(self):
        import pyarrow
        import pyarrow.dataset
        import pyarrow.json
        self.arrow, self.version = pyarrow, pyarrow.__version__

    def table(self, lake: Lake, queue: str):
        if lake.parquet:
            field = self.arrow.dataset.field("queue")
            data = self.arrow.dataset.dataset(lake.root, format="parquet", partitioning="hive")
            return data.to_table(filter=field == "steady" if queue == "steady" else field != "steady")
        if lake.kind == "jsonl-zstd":
            tables = []
            for file in lake.files(queue):
                table = self.arrow.json.read_json(self.arrow.CompressedInputStream(self.arrow.OSFile(file), "zstd"))
                tables.append(table.append_column("hour", self.arrow.array([hour_of(file)] * len(table))))
            table = self.arrow.concat_tables(tables)
        else:
            table = self.arrow.dataset.dataset(next(lake.root.glob(f"tenant=*/queue={queue}")), format="json", partitioning="hive").to_table()
        return table.append_column("queue", self.arrow.array([queue] * len(table))).rename_columns({"transactionId": "transaction_id"})

    def read(self, lake: Lake, queue: str) -> list[dict]:
        order = [(name, "ascending") for name in ("queue", "partition", "offset")]
        return self.table(lake, queue).sort_by(order).to_pylist()

    def rows(self, lake: Lake) -> list[tuple]:
        return [(row["queue"], row["hour"], row["partition"], row["offset"], row["transaction_id"], micros(row["ts"]), row["payload"])
                for row in self.read(lake, "rides")]

    def steady(self, lake: Lake) -> list[tuple]:
        return [(row["offset"], micros(row["ts"])) for row in self.read(lake, "steady")]


class Pandas:
    """Parquet over the prefix root; JSONL file by file of one queue. Path keys are categories, NULL payloads are NaN."""

    def __init__(self):
        import pandas
        self.pandas, self.version = pandas, pandas.__version__

    def frame(self, lake: Lake, queue: str):
        if lake.parquet:
            frame = self.pandas.read_parquet(lake.root)
            frame["queue"] = frame["queue"].astype(str)
            return frame[frame["queue"] == "steady"] if queue == "steady" else frame[frame["queue"] != "steady"]
        files = [self.pandas.read_json(file, lines=True, dtype=False).assign(queue=queue, hour=hour_of(file)) for file in lake.files(queue)]
        return self.pandas.concat(files).rename(columns={"transactionId": "transaction_id"})

    def read(self, lake: Lake, queue: str) -> list[dict]:
        return self.frame(lake, queue).sort_values(["queue", "partition", "offset"]).to_dict("records")

    def rows(self, lake: Lake) -> list[tuple]:
        def payload(value):
            return None if isinstance(value, float) else value  # NaN
        return [(row["queue"], row["hour"], row["partition"], row["offset"], row["transaction_id"], micros(row["ts"]), payload(row["payload"]))
                for row in self.read(lake, "rides")]

    def steady(self, lake: Lake) -> list[tuple]:
        return [(row["offset"], micros(row["ts"])) for row in self.read(lake, "steady")]


READERS = {"duckdb": DuckDb, "clickhouse": ClickHouse, "spark": Spark, "polars": Polars, "pyarrow": PyArrow, "pandas": Pandas}
READS_ONE_QUEUE_OF_JSONL = ("polars", "pyarrow", "pandas")


def plain(name: str) -> str:
    """ClickHouse gives path keys as they are written."""
    return urllib.parse.unquote(name)
