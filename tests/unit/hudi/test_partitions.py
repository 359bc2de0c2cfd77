from etc_policy.hudi.file_slices import partitions_of


def test_folders_that_hudi_has_marked_are_partitions():
    tree = {
        "": {"README": 5},
        "a": {".hoodie_partition_metadata": 96, "f1.parquet": 100, ".f1_1.log.1": 2},
        "b/c": {".hoodie_partition_metadata.parquet": 96},
        "stray": {"f9.parquet": 1},
    }
    assert partitions_of(tree) == {"a": {"f1.parquet": 100, ".f1_1.log.1": 2}, "b/c": {}}


def test_a_draft_that_a_task_has_left_is_no_mark():
    mark, draft = ".hoodie_partition_metadata", ".hoodie_partition_metadata_0"
    assert partitions_of({"a": {draft: 96, "f1.parquet": 1}, "b": {draft: 96, mark: 96}}) == {"b": {}}
    assert partitions_of({"c": {f"{draft}.parquet": 96}, "d": {f"{mark}.orc": 96}}) == {"d": {}}


def test_a_table_without_partitions_is_one_partition():
    assert partitions_of({"": {".hoodie_partition_metadata": 96, "f1.parquet": 1}}) == {"": {"f1.parquet": 1}}
