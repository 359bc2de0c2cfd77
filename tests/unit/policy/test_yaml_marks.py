import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etc_policy.errors import PolicyError
from etc_policy.policy.files import MAX_FILE_BYTES
from etc_policy.policy.yaml_marks import MAX_DEPTH, Mark, load_marked

STEADY = settings(suppress_health_check=[HealthCheck.too_slow])


def _issue(text):
    with pytest.raises(PolicyError) as error:
        load_marked(text, "a.yml")
    return error.value.issues[0]


def test_marks_are_where_an_editor_shows_the_values():
    loaded = load_marked("version: 1\npolicies:\n  - name: a\n    tags: [x,  y]\n", "a.yml")
    assert loaded.value == {"version": 1, "policies": [{"name": "a", "tags": ["x", "y"]}]}
    assert loaded.file.marks[("version",)] == Mark(1, 10, 1, 1)
    assert loaded.file.marks[("policies", 0)] == Mark(3, 5, 3, 5)
    assert loaded.file.marks[("policies", 0, "name")] == Mark(3, 11, 3, 5)
    assert loaded.file.marks[("policies", 0, "tags", 1)] == Mark(4, 16, 4, 16)


def test_columns_count_characters_and_not_bytes():
    assert load_marked('é: "ü"\n', "a.yml").file.marks[("é",)] == Mark(1, 4, 1, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("1:30", "1:30"),
        ("2026-01-01", "2026-01-01"),
        ("010", 10),
        ("1_000", "1_000"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("-7", -7),
        ("1.50", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("'1'", "1"),
        ('"true"', "true"),
        ("30m", "30m"),
        ("9" * 5000, "9" * 5000),
        (".inf", ".inf"),
        ("1e9999", "1e9999"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text, value):
    loaded = load_marked(f"key: {text}\n", "a.yml").value["key"]
    assert loaded == value
    assert type(loaded) is type(value)


def test_aliases_are_expanded_with_the_places_of_their_anchor():
    loaded = load_marked("a: &x [1, 2]\nb: *x\n", "a.yml")
    assert loaded.value == {"a": [1, 2], "b": [1, 2]}
    assert loaded.file.marks[("b", 1)].line == 1


def test_an_empty_text_is_nothing():
    assert load_marked("", "a.yml").value is None
    assert load_marked("# only a comment\n", "a.yml").value is None


def test_billion_laughs_is_refused_quickly():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert _issue("\n".join(lines)).code == "ETC104"


@pytest.mark.parametrize("text", ["[" * 5000, "- " * 5000, "{a: " * 5000, "a: &a [*a]", "? " * 5000])
def test_deep_and_recursive_texts_are_refused(text):
    assert _issue(text).code in ("ETC104", "ETC106")


@pytest.mark.parametrize("opening", ["[", "- ", "{a: ", "? "], ids=["list", "items", "mapping", "key"])
def test_a_file_that_is_nothing_but_depth_is_refused(opening):
    """PyYAML before 6.0.4 ends the process in it."""
    assert _issue(opening * (MAX_FILE_BYTES // len(opening))).code == "ETC104"


def test_the_number_of_values_is_bounded_with_aliases_expanded():
    text = "a: &a [" + "x, " * 3_000 + "]\nb: &b [" + "*a, " * 100 + "]\n"
    assert "more than 200000 values" in str(_issue(text))


def test_depth_is_bounded_after_aliases_too():
    chain = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, MAX_DEPTH + 5)]
    assert _issue("\n".join(chain)).code == "ETC104"


def test_every_duplicate_key_and_tag_is_reported():
    with pytest.raises(PolicyError) as error:
        load_marked("a: 1\na: 2\nb: !!int 3\nb: 4\n", "a.yml")
    assert [(issue.code, issue.where.line) for issue in error.value.issues] == [
        ("ETC107", 2),
        ("ETC107", 4),
        ("ETC108", 3),
    ]


_plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(st.characters(codec="utf-8"), max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcdefgh", min_size=1), inner, max_size=4),
    max_leaves=15,
)


@STEADY
@given(_plain)
def test_what_pyyaml_writes_in_quotes_is_read_as_it_was(value):
    """PyYAML's own writer is the oracle; with every text in quotes, its 1.1 rules and ours agree."""
    text = yaml.safe_dump(value, allow_unicode=False, default_style='"') if isinstance(value, str) else _dump(value)
    assert load_marked(text, "a.yml").value == value


def _dump(value):
    class Quoting(yaml.SafeDumper):
        pass

    Quoting.add_representer(str, lambda dumper, data: dumper.represent_scalar("tag:yaml.org,2002:str", data, style='"'))
    Quoting.ignore_aliases = lambda _self, _data: True
    return yaml.dump(value, Dumper=Quoting, allow_unicode=False)


@STEADY
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_a_place(text):
    try:
        load_marked(text, "a.yml")
    except PolicyError as error:
        assert all(issue.where.path == "a.yml" for issue in error.issues)


@pytest.mark.parametrize(
    ("line", "code", "column", "hint"),
    [
        ("table: {{ var('a') }}", "ETC120", 8, "quotes"),
        ("table: {{ var('a') }}/b", "ETC120", 8, "quotes"),
        ("tags: [{{ var('a') }}]", "ETC120", 8, "quotes"),
        ("{% for t in tables %}", "ETC121", 1, "for_each"),
        ("- {% if true %}", "ETC121", 3, "for_each"),
        ("a: '{{ b }}' c: d", "ETC106", 14, None),
    ],
)
def test_jinja_round_yaml_says_what_to_write(line, code, column, hint):
    issue = _issue(f"{line}\n")
    assert (issue.code, issue.where.line) == (code, 1)
    assert abs(issue.where.column - column) <= 1
    assert hint is None or hint in issue.hint
