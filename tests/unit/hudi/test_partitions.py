from etc_policy.hudi.slices import partitions_of


def test_folders_that_hudi_has_marked_are_partitions():
    tree = {
        "": {"README": 5},
        "a": {".hoodie_partition_metadata": 96, "f1.parquet": 100, ".f1_1.log.1": 2},
        "b/c": {".hoodie_partition_metadata.parquet": 96},
        "stray": {"f9.parquet": 1},
    }
    assert partitions_of(tree) == {"a": {"f1.parquet": 100, ".f1_1.log.1": 2}, "b/c": {}}


def test_a_table_without_partitions_is_one_partition():
    assert partitions_of({"": {".hoodie_partition_metadata": 96, "f1.parquet": 1}}) == {"": {"f1.parquet": 1}}
