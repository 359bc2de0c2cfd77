"""Files of Java properties: read as java.util.Properties does it."""

import pytest

from etc_policy.hudi.properties import parse_properties

#: Pairs as java.util.Properties of Java 17 reads them.
JAVA_READS = [
    ("spark.a  one two ", {"spark.a": "one two "}),
    ("spark.a=b=c:d", {"spark.a": "b=c:d"}),
    ("  spark.a : b\n#no\n ! no\n\nspark.b", {"spark.a": "b", "spark.b": ""}),
    ("spark.b d\\\\\nspark.c e", {"spark.b": "d\\", "spark.c": "e"}),
    ("spark.a first\r\nspark.a last\rspark.b x", {"spark.a": "last", "spark.b": "x"}),
    ("spark\\u002ea \\u00e9\\t\\q", {"spark.a": "é\tq"}),
    ("spark.a\\ b c", {"spark.a b": "c"}),
]


@pytest.mark.parametrize(("text", "pairs"), JAVA_READS)
def test_files_are_read_as_java_does(text, pairs):
    assert parse_properties(text) == pairs


@pytest.mark.parametrize("text", ["spark.a b\\\n    c", "spark.a last\\", "\\\n#c\\\nspark.a=b"])
def test_lines_that_go_on_are_refused_as_releases_of_java_differ(text):
    with pytest.raises(ValueError, match="goes on in the next"):
        parse_properties(text)


def test_comments_and_escapes_of_a_tables_properties():
    text = "#Updated at 2026\n! old\n\nhoodie.a=1\n hoodie.b = x\\:y\\=z\nhoodie.c=\\u00e4\\\\n\nhoodie.d=\n"
    assert parse_properties(text) == {"hoodie.a": "1", "hoodie.b": "x:y=z", "hoodie.c": "ä\\n", "hoodie.d": ""}


@pytest.mark.parametrize(("written", "read"), [("\\ud83d\\ude00", "😀"), ("\\ud83d", "\ufffd")])
def test_characters_beyond_16_bits_are_written_as_two_halves(written, read):
    assert parse_properties(f"hoodie.a={written}\n") == {"hoodie.a": read}
