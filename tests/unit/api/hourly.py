"""The policy of a table with a partition for each hour, to which tests add what they are about."""

HOURLY = """version: 1
policies:
  - name: orders_ro
    table: lake/orders
    event_time_column: ts
    data_latency: 10m
    partition_time: {from: "h=%Y-%m-%d-%H"}
"""


def hour(number):
    return f"h=2026-01-01-{number:02}"
