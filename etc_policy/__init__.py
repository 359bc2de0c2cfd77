"""Event-time-based compaction for Apache Hudi, declared in YAML.

declare   files -> PolicyFile            compile  PolicyFile -> Manifest
plan      Manifest + TableState -> Plan  execute  Plan -> RunResult
verify    table, re-read -> Verdict      publish  results -> text and JSON
"""

__version__ = "0.1.0"
