"""Stock Hudi: with `hoodie.archive.beyond.savepoint` rows are not shown any more that were committed after a savepoint."""

from pathlib import Path

from stock import Table, start_spark

ARCHIVED = {
    "hoodie.archive.beyond.savepoint": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.commits.archival.batch": "1",
    "hoodie.metadata.compact.max.delta.commits": "1",  # commits are archived that the metadata table has compacted
    "hoodie.parquet.small.file.limit": "0",  # each insert makes a file group of its own
}


def play(spark, **options):
    table = Table(spark, **{**ARCHIVED, **options})
    table.write((1, "v1", 1), operation="insert")
    saved = table.last_commit()
    table.call(f"create_savepoint(path => '{table.path}', commit_time => '{saved}')")
    for number in range(2, 8):
        table.write((number, f"v{number}", number))
    show(table)
    return table, saved


def show(table):
    active = sorted(
        file.name.partition("_")[0] for file in Path(table.path, ".hoodie", "timeline").glob("*.deltacommit")
    )
    print(f"  active commits: {', '.join(active)}")
    table.views()


if __name__ == "__main__":
    spark = start_spark()
    print("right: hoodie.archive.beyond.savepoint=false")
    play(spark, **{"hoodie.archive.beyond.savepoint": "false"})
    print("\nhoodie.archive.beyond.savepoint=true")
    table, saved = play(spark)
    print("\nthe same table, the savepoint deleted")
    table.call(f"delete_savepoint(path => '{table.path}', instant_time => '{saved}')")
    show(table)
    table.write((8, "v8", 8))
    show(table)
