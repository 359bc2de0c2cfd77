"""Stock Hudi: `CALL run_compaction` drops the indexes of a table, and builds a metadata table where there was none."""

from stock import Table, start_spark


def play(spark, options="", **writer):
    """(indexes before, indexes after) one stock compaction."""
    table = Table(spark, **writer)
    table.write((1, "first", 1), (2, "first", 1))
    table.write((1, "second", 2))
    before = table.metadata_partitions()
    print(f"  hoodie.table.metadata.partitions before: {before}")
    more = f",{options}" if options else ""
    table.call(
        f"run_compaction(op => 'scheduleAndExecute', path => '{table.path}', "
        f"options => 'hoodie.compact.inline.max.delta.commits=1{more}')"
    )
    after = table.metadata_partitions()
    print(f"  hoodie.table.metadata.partitions after:  {after}")
    print(f"  folders in the metadata table after:     {table.metadata_folders()}", flush=True)
    return before, after


INDEXED = {"hoodie.metadata.record.index.enable": "true", "hoodie.metadata.index.bloom.filter.enable": "true"}

if __name__ == "__main__":
    spark = start_spark()
    print("a table with record index and bloom filters")
    before, after = play(spark, **INDEXED)
    print(f"  dropped: {sorted(set(before) - set(after))}\n")

    print("the same, with the table's indexes named and dropping none")
    options = ",".join(f"{key}={value}" for key, value in INDEXED.items())
    before, after = play(spark, f"{options},hoodie.metadata.auto.delete.partitions=false", **INDEXED)
    print(f"  dropped: {sorted(set(before) - set(after))}\n")

    print("a table that is written without a metadata table")
    before, after = play(spark, **{"hoodie.metadata.enable": "false"})
    print(f"  built: {sorted(set(after) - set(before))}\n")

    print("the same, set to leave it so")
    before, after = play(spark, "hoodie.metadata.enable=false", **{"hoodie.metadata.enable": "false"})
    print(f"  built: {sorted(set(after) - set(before))}")
