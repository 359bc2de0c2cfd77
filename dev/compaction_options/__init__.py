"""The options of Hudi that a compaction reads, and what etc does about each."""
