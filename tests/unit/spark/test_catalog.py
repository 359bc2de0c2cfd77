"""Where the catalog says a table lies, from the answers that Spark gives."""

import os
from types import SimpleNamespace

import pytest

from etc_policy.errors import RetryableError, TableError
from etc_policy.spark.catalog import SparkPropertyStore, table_location, tables_in


class Catalog:
    """A session whose catalog knows `lake.orders`, described by these (col_name, data_type); an exception is its answer."""

    def __init__(self, *rows, error=None):
        self.catalog, self.rows, self.error = self, rows, error

    def _answer(self, answer):
        if self.error is not None:
            raise self.error
        return answer

    def tableExists(self, name):
        return self._answer(name == "lake.orders")

    def sql(self, statement):
        self._answer(None)
        assert statement == "DESCRIBE TABLE EXTENDED lake.orders"
        return self

    def where(self, condition):
        column, value = condition.split(" = ")
        found = [row for row in self.rows if row[0] == value.strip("'")]
        return SimpleNamespace(collect=lambda: [{column: name, "data_type": told} for name, told in found])


DETAILS = (("# Detailed Table Information", ""), ("Location", "file:/data/orders"))


def test_a_table_is_found():
    assert table_location(Catalog(("id", "int"), *DETAILS), "lake.orders") == "/data/orders"


def test_a_column_of_that_name_is_not_taken_for_it():
    assert table_location(Catalog(("id", "int"), ("Location", "string"), *DETAILS), "lake.orders") == "/data/orders"


@pytest.mark.parametrize(("rows", "name"), [(DETAILS, "lake.others"), ((("id", "int"),), "lake.orders")])
def test_one_that_is_not_there(rows, name):
    with pytest.raises(TableError) as error:
        table_location(Catalog(*rows), name)
    assert error.value.code == "ETC211"


class Views(Catalog):
    """A session with a table and one view, made as this text."""

    def __init__(self, text):
        super().__init__(("Location", "file:/lake/orders"), ("View Text", "string"), ("View Text", text))
        self.changed = []

    def tableExists(self, name):
        return name in ("`lake`.`orders_asof`", "`lake`.`orders_ro`")

    def sql(self, statement):
        if statement.startswith(("DROP", "CREATE")):
            self.changed.append(statement)
        else:
            assert statement.startswith("DESCRIBE TABLE EXTENDED `lake`.`orders_")
        return self


@pytest.mark.parametrize(
    ("view", "text", "goes"),
    [
        ("lake.orders_asof", "SELECT * FROM `lake`.`orders_ro` WHERE ts <= 5", True),
        ("lake.orders_asof", "SELECT * FROM `lake`.`others_ro` WHERE ts <= 5", False),
        ("lake.orders_asof", "SELECT id FROM `lake`.`orders_ro` WHERE ts <= 5", False),
        ("lake.none", "SELECT * FROM `lake`.`orders_ro` WHERE ts <= 5", False),
    ],
)
def test_only_a_view_that_etc_made_of_the_table_is_removed(view, text, goes):
    """A property of the table says which: whoever writes that had etc remove any view, with its own rights."""
    spark = Views(text)
    SparkPropertyStore(spark, "/lake/orders").write_view(view, "lake.orders_ro", None)
    assert spark.changed == (["DROP VIEW `lake`.`orders_asof`"] if goes else [])


@pytest.mark.parametrize("text", ["SELECT * FROM `lake`.`others_ro` WHERE ts <= 5", "SELECT 1", ""])
def test_only_a_view_that_etc_made_of_the_table_is_replaced(text):
    """It may be that of another policy, or of somebody else; a table has no text."""
    spark = Views(text)
    with pytest.raises(
        TableError, match=r"`lake.orders_asof` of the catalog is no view that etc made of `lake.orders_ro`"
    ):
        SparkPropertyStore(spark, "/lake/orders").write_view("lake.orders_asof", "lake.orders_ro", "ts <= 6")
    assert spark.changed == []


class Tables(Catalog):
    """A session whose catalog knows `lake.orders` at a place, and the views that are made."""

    def __init__(self, place):
        super().__init__(("Location", f"file:{place}"))
        self.views = []

    def tableExists(self, name):
        return name == "`lake`.`orders`"

    def sql(self, statement):
        if statement.startswith("CREATE"):
            self.views.append(statement)
        else:
            assert statement == "DESCRIBE TABLE EXTENDED `lake`.`orders`"
        return self


def test_no_view_is_made_of_a_table_where_spark_would_wait_for_a_pipe(tmp_path):
    """Spark reads the table for its columns: `etc sync` never ended."""
    spark = Tables(tmp_path)
    SparkPropertyStore(spark, str(tmp_path)).write_view("lake.orders_asof", "lake.orders", "ts <= 5")
    assert spark.views == ["CREATE OR REPLACE VIEW `lake`.`orders_asof` AS SELECT * FROM `lake`.`orders` WHERE ts <= 5"]
    (tmp_path / ".hoodie").mkdir()
    os.mkfifo(tmp_path / ".hoodie" / ".hoodie.properties.crc")
    with pytest.raises(TableError, match="cannot read the table"):
        SparkPropertyStore(spark, str(tmp_path)).write_view("lake.orders_asof", "lake.orders", "ts <= 6")
    assert len(spark.views) == 1


def test_a_catalog_that_does_not_answer_is_asked_again_later():
    """One table's error: the others go on, and `etc wait` goes on waiting."""
    with pytest.raises(RetryableError, match=r"cannot be asked about `lake\.orders`") as error:
        table_location(Catalog(*DETAILS, error=ConnectionError("refused\n  at x")), "lake.orders")
    assert (error.value.code, error.value.exit_code, error.value.cause) == ("ETC409", 4, "refused")
    assert error.value.hint == "run it again; if it goes on, check `catalog` of the target"


def test_a_database_that_is_not_there_is_no_catalog_that_does_not_answer():
    said = "[SCHEMA_NOT_FOUND] The schema `sales` cannot be found. Verify the spelling.\nTo tolerate the error"
    with pytest.raises(TableError, match=r"the Spark catalog has no database of `sales\.\*`") as error:
        list(tables_in(Catalog(error=ValueError(said)), "sales", "*"))
    assert (error.value.code, error.value.exit_code) == ("ETC211", 1)
