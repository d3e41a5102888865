"""Settings that make windows close within a second, for tests."""

FAST = {"QUEEN_S3_ALIGN": "none", "QUEEN_S3_MAX_WINDOW_MS": "1000", "QUEEN_S3_DISCOVERY_INTERVAL_MS": "100",
        "QUEEN_S3_SAFE_GUARD_MS": "0", "QUEEN_S3_LEASE_TTL_MS": "3000", "QUEEN_S3_SHUTDOWN_GRACE_MS": "10000",
        "QUEEN_S3_CHECKPOINT_EVERY": "2"}
