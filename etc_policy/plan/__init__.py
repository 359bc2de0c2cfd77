"""Plan: resolved policy, table state and clock in, compaction plan out (pure)."""
