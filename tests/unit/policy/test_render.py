"""What an expression gives, what it must not reach (Python, files, values of the environment) and not grow to."""

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etc_policy.policy.reading import read_project
from etc_policy.policy.render import LEFT_OUT_FILTERS, SANDBOX, render
from etc_policy.policy.resolve import check_project
from etc_policy.policy.scope import Scope
from etc_policy.policy.secrets import has_env_value, is_secret, with_values

STEADY = settings(suppress_health_check=[HealthCheck.too_slow])

SECRET = "hunter2"
VARIABLES = {
    "latency": "30m",
    "size": 128,
    "on": True,
    "lake": "Lake",
    "long": "x" * 9_000,
    "text": "lake",
    "list": [{"a": 1}, {"a": 2}],
    "map": {"k": "v"},
    "number": 5,
}


def _render(text, environment=None, **given):
    return render(
        text, Scope(environment or {"HOME": "/home/me"}, variables=VARIABLES, target={"name": "dev"}, **given)
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ var('latency') }}", "30m"),
        ("{{ var('size') }}", 128),
        ("{{ var('size') }} MiB", "128 MiB"),
        (" {{ var('size') }}", " 128"),
        ("{{ var('on') }}", True),
        ("is {{ var('on') }}", "is true"),
        ("{{ var('list') }}", [{"a": 1}, {"a": 2}]),
        ("{{ var('list') | map(attribute='a') }}", [1, 2]),
        ("{{ var('map').items() }}", [["k", "v"]]),
        ("{{ none }}", None),
        ("{{ 1.5 }}", 1.5),
        ("{{ {'a': [1, (2, 3)]} }}", {"a": [1, [2, 3]]}),
        ("{{ range(3) }}", [0, 1, 2]),
        ("{{ var('nope', 'x') }}", "x"),
        ("{{ var('nope', default=false) }}", False),
        ("{{ env_var('HOME') }}/lake", "/home/me/lake"),
        ("{{ env_var('NOPE', '/data') }}", "/data"),
        ("{{ env_var('NOPE', var('lake')) | lower }}", "lake"),
        ("{{ var('lake') | upper ~ '-' ~ var('size') }}", "LAKE-128"),
        ("{{ 'a' if var('size') > 200 or not var('on') else 'b' }}", "b"),
        ("a {# gone #}{{ var('size') }}\n", "a 128\n"),
        ("{{ {'a': {'b': '}}'}}.a.b }}", "}}"),
        ("{{ 'a}}b'[1:] }}", "}}b"),
        ("{{- {'a': 1} -}}", {"a": 1}),
        ("{a} {{ 1 }}}", "{a} 1}"),
        ("{{ {'a': 1}.b | default('x') }}{{ {'a': 1}.b is defined }}", "xfalse"),
        ("{{ 'a-b' | replace('-', '_') }}{{ 'a-b'.split('-') | join('+') }}", "a_ba+b"),
        ("{{ 7 // 2 + 1 - 3 % 2 }}", 3),
        ("{{ target.name }}_ro", "dev_ro"),
        ("{{ '1' }}", "1"),
        ("{{- ' x ' -}} y", " x y"),
        ("{% if target.name == 'dev' %}small{% else %}big{% endif %}", "small"),
        ("{% for t in var('list') %}{{ t.a }}{% if not loop.last %},{% endif %}{% endfor %}", "1,2"),
        ("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        ("{{ [3, 1, 2] | sort | first }}{{ 'x' is in ['x'] }}", "1true"),
    ],
)
def test_values(text, value):
    found, problems = _render(text)
    assert problems == []
    assert found == value
    assert isinstance(found, type(value))


@pytest.mark.parametrize(
    ("text", "code", "offset"),
    [
        ("a {{ var('nope') }}", "ETC122", 2),
        ("{{ env_var('nope') }}", "ETC122", 0),
        ("{{ var(1) }}", "ETC122", 0),
        ("{{ var('a'", "ETC120", 0),
        ("{{ }}", "ETC120", 0),
        ("{{ 1 2 }}", "ETC120", 0),
        ("x {{ none }}", "ETC120", 2),
        ("x {{ [1] }}", "ETC120", 2),
        ("{{ var() }}", "ETC120", 0),
        ("{{ var('on') < 'a' }}", "ETC120", 0),
        ("{{ 'a' if not var('on') }}", "ETC122", 0),
        ("{{ var }}", "ETC121", 0),
        ("{{ lake }}", "ETC122", 0),
        ("{{ each }}", "ETC122", 0),
        ("{{ range(99999) }}", "ETC104", 0),
        ("{{ range(1, 2, 0) }}", "ETC120", 0),
        ("{{ [1][5] }}", "ETC122", 0),
        ("{{ 'x' | uper }}", "ETC121", 0),
        ("{{ 'x' is nosuch }}", "ETC121", 0),
        ("{{ 'a' + 1 }}", "ETC120", 0),
        ("{{ '\\ud800' }}", "ETC120", 0),
        ("{{ " + "(" * 400 + "1" + ")" * 400 + " }}", "ETC104", 0),
        ("{{ " + "{'a': " * 400 + "1" + "}" * 400 + " }}", "ETC104", 0),
        ("{{ {'a': " + "9" * 5_000 + "} }}", "ETC120", 0),
        ("{{ {'a': 1 }}", "ETC120", 0),
    ],
)
def test_what_has_no_value(text, code, offset):
    _, (problem,) = _render(text)
    assert (problem.code, problem.offset) == (code, offset)


def test_every_expression_of_a_text_is_looked_at():
    _, problems = _render("{{ nope }}-{{ 1 / 0 }}-{{ var('lake') }}")
    assert [(problem.code, problem.offset) for problem in problems] == [("ETC122", 0), ("ETC120", 11)]


def test_what_asks_for_a_target_that_is_not_known_is_no_problem_of_its_own():
    _, (problem,) = render("{{ target.name }}", Scope({}))
    assert problem.is_quiet


REACH_PYTHON = [
    "''.__class__",
    "''['__class__']",
    "''|attr('\\x5f\\x5fclass\\x5f\\x5f')",
    "[var]|map(attribute='__globals__')|list",
    "['x']|map('attr', '__class__')|list",
    "var.__self__",
    "range.__globals__",
    "dict.mro()",
    "dict.fromkeys()",
    "self._TemplateReference__context",
    "lipsum.__globals__",
    "open('/etc/passwd').read()",
    "'{0.__class__}'.format(1)",
    "'{0.__class__}'|attr('format')",
    "'%s'|format(var)",
    "range|string",
    "var",
    "{'a': var}",
    "var('map').update({'k': 1})",
    "var('list').append(1)",
]


@pytest.mark.parametrize("expression", REACH_PYTHON)
def test_no_expression_reaches_python(expression):
    value, problems = _render("{{ " + expression + " }}")
    assert problems, value
    said = " ".join(f"{problem.message} {problem.hint}" for problem in problems)
    assert "0x" not in said
    assert "<class" not in said
    assert VARIABLES["map"] == {"k": "v"}
    assert len(VARIABLES["list"]) == 2


STATEMENTS = [
    "{% include '/etc/passwd' %}",
    "{% import '/etc/passwd' as x %}",
    "{% extends '/etc/passwd' %}",
    "{% set x = 1 %}{{ x }}",
    "{% macro m() %}{% endmacro %}{{ m() }}",
    "{% for x in [1] recursive %}{{ x }}{% endfor %}",
    "{% for x in ''.__class__.__mro__ %}{% endfor %}",
]


@pytest.mark.parametrize("text", STATEMENTS)
def test_no_statement_reaches_python_or_files(text):
    assert _render(text)[1]


TENFOLD = [f"{{% for {new} in [[{', '.join([old] * 10)}]] %}}" for old, new in ("ab", "bc", "cd", "de", "ef")]
GROWING_LISTS = "{% for a in [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1]] %}" + "".join(TENFOLD)
HUNDREDFOLD = [f"{{% for {new} in [{' ~ '.join([old] * 100)}] %}}" for old, new in ("ab", "bc", "cd", "de")]
GROWING_TEXTS = "{% for a in [var('long')] %}" + "".join(HUNDREDFOLD)
GROWTH = [
    "{{ ('x' * 99999999) | length }}",
    "{{ 2 ** 99 // 2 ** 98 }}",
    "{{ 10 ** 16 * 1 // 10 ** 16 }}",
    "{{ ('%99999999d' % 1) | length }}",
    "{{ 'x' | center(99999999) }}",
    "{{ 'x'.center(99999999) }}",
    "{{ var('long') | replace('x', var('long')) | length }}",
    "{{ var('long').replace('x', var('long')) | length }}",
    "{{ var('long') | list | join(var('long')) | length }}",
    "{{ range(99999999) }}",
    "{{ range(9999) | list + range(9999) | list }}",
    "{{ var('long') ~ var('long') }}",
    "{{ var('long') }}{{ var('long') }}",
    "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
    "{% for a in range(9999) %}" + "y" * 1000 + "{% endfor %}",
    "{{ " + "[" * 40 + "]" * 40 + " }}",
    "{{ 1" + " + 1" * 5_000 + " }}",
    "{{ (" + " ~ ".join(["var('long')"] * 100) + ") | length }}",
    "{{ (" + " + ".join(["var('long')"] * 100) + ") | length }}",
    "{{ [" + ", ".join(["var('long')"] * 1_000) + "] | join | length }}",
    "{{ ''.join([" + ", ".join(["var('long')"] * 1_000) + "]) | length }}",
    "{{ [" + ", ".join(["range(9999)"] * 1_000) + "] | string | length }}",
    "{{ 1 | round(1000000000, 'ceil') }}",
    "{{ 1 | round(-1000000000) }}",
    GROWING_LISTS + "{{ f == f }}" + "{% endfor %}" * 6,
    GROWING_TEXTS + "{{ e | length }}" + "{% endfor %}" * 5,
    "{{ " + "9" * 20 + " }}",
]


@pytest.mark.parametrize("text", GROWTH)
def test_nothing_grows_without_bound(text):
    began = time.thread_time()
    value, problems = _render(text)
    assert problems, value
    assert time.thread_time() - began < 3


def test_all_loops_of_a_project_have_so_many_steps_together(monkeypatch):
    """Which is said once; items, the last one and conditions are as without a bound."""
    monkeypatch.setattr("etc_policy.policy.scope.MAX_STEPS", 10)
    project = Scope({})
    loop = "{% for a in range(4) if a %}{{ a }}{{ loop.last }}{% for b in 'x' %}{% endfor %}{% endfor %}"
    assert render(loop, project) == ("1false2false3true", [])
    _, (said,) = render(loop, project.with_variables({"a": 1}))
    _, (quiet,) = render(loop, project)
    assert (said.code, said.is_quiet, "10 steps" in said.message, quiet.is_quiet) == ("ETC104", False, True, True)
    assert render("{{ 1 }}", project) == (1, [])


def test_the_values_of_a_project_have_so_many_characters_together(monkeypatch):
    monkeypatch.setattr("etc_policy.policy.scope.MAX_STEPS", 400)
    project, text = Scope({}, variables={"long": "x" * 9_000}), "{{ var('long')[1:] ~ 1 }}"
    assert render(text, project)[1] == []
    assert render(text, project)[1]


SECRETIVE = [
    "env_var('S') | upper | lower",
    "env_var('S') | list",
    "'x'.join([env_var('S')])",
    "'' + env_var('S')",
    "dict(a=env_var('S'))",
    "(env_var('N') | int) * 10 + 1",
    "'abcdefgh'[env_var('N') | int]",
]


@pytest.mark.parametrize("expression", SECRETIVE)
def test_what_comes_from_the_environment_is_marked(expression):
    """The value as a whole is: what a filter made of it too."""
    text = "{{ " + expression + " }}"
    value, problems = _render(text, {"S": SECRET, "N": "7"})
    assert problems == []

    def leaves(item):
        items = item.values() if isinstance(item, dict) else item if isinstance(item, list) else None
        return [item] if items is None else [leaf for inner in items for leaf in leaves(inner)]

    assert leaves(value)
    assert all(is_secret(leaf) and leaf.written == text for leaf in leaves(value))


def test_marks_go_through_variables_and_items():
    inner = Scope({"S": SECRET}).with_variables(
        {"secret": render("{{ env_var('S') }}", Scope({"S": SECRET}))[0], "plain": "x"}
    )
    assert has_env_value(render("{{ var('secret') | upper }}", inner)[0])
    assert not has_env_value(render("{{ var('plain') | upper }}", inner)[0])
    each = inner.with_each({"a": [inner.variables["secret"]]})
    assert has_env_value(render("{{ each.a[0] | upper }}", each)[0])
    assert not has_env_value(render("{{ each }}", inner.with_each("x"))[0])
    assert has_env_value(render("{% for a in each.a %}{{ a }}{% endfor %}", each)[0])
    assert render("{{ {var('secret'): 1} }}", inner)[1], "a key has no mark"


def test_a_value_of_the_environment_is_no_name_of_a_variable_and_none_is_like_it():
    project = Scope({"S": SECRET}, variables={f"{SECRET}s": 1})
    _, (problem,) = render("{{ var(env_var('S')) }}", project)
    assert SECRET not in f"{problem.message} {problem.hint} {project.known_variables}"


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("{{ env_var('S') }}", "{{ env_var('S') }}"),
        ('{{env_var("S")}}', "{{ env_var('S') }}"),
        ("x-{{ env_var('S') }}-{{ 1 + 1 }}", "x-{{ env_var('S') }}-2"),
        ("{{ env_var( 'S' , \"d\" ) }}", "{{ env_var('S', 'd') }}"),
        ("{{- env_var('S') -}}", "{{ env_var('S') }}"),
        ("${x}-{{ env_var('S') }}", "${x}-{{ env_var('S') }}"),
        ('{"a": {"b": "{{env_var("S")}}"}} {{ 2 }}', '{"a": {"b": "{{ env_var(\'S\') }}"}} 2'),
    ],
)
def test_an_option_keeps_its_reference(text, option):
    assert SECRET in _render(text, {"S": SECRET})[0]
    value, problems = render(text, Scope({"S": SECRET}), is_option=True)
    assert (value, problems, has_env_value(value)) == (option, [], False)
    assert SECRET in with_values({"a": value}, {"S": SECRET})["a"]


def test_a_reference_may_have_a_default():
    assert with_values({"a": "{{ env_var('S', 'd') }}:{{ env_var('T', '') }}"}, {}) == {"a": "d:"}


UNSAID = [
    "var(env_var('S'))",
    "env_var(env_var('S'))",
    "var([env_var('S')])",
    "var('map')[env_var('S')]",
    "env_var('S') | attr(env_var('S'))",
    "env_var('S') - 1",
    "env_var('S')()",
    "{'a': env_var('S')}.nope",
    "{env_var('S'): 1}",
    "['a'] | map(env_var('S')) | list",
    "env_var('S') | float",
    "[{'a': 1}] | sort(attribute=env_var('S'))",
]


@pytest.mark.parametrize("expression", UNSAID)
def test_no_message_says_what_is_in_the_environment(expression, tmp_path):
    (tmp_path / "policies").mkdir()
    row = '- {name: a, table: t, event_time_column: ts, data_latency: 1m, description: "{{ %s }}"}\n'
    (tmp_path / "policies" / "a.yml").write_text("version: 1\npolicies:\n  " + row % expression)
    issues = check_project(read_project(str(tmp_path), {"S": SECRET}), ())
    said = " ".join(str(issue) for issue in issues)
    lines = [line for line in said.splitlines() if "|" not in line]
    assert issues
    assert SECRET not in "\n".join(lines)
    assert not any(word in "\n".join(lines) for word in ("hunter", "HUNTER2", "'h'"))


def test_filters_and_tests_are_those_of_jinja():
    from jinja2.defaults import DEFAULT_FILTERS, DEFAULT_TESTS

    assert set(DEFAULT_FILTERS) - set(SANDBOX.filters) == LEFT_OUT_FILTERS
    assert set(DEFAULT_TESTS) == set(SANDBOX.tests)


@pytest.mark.parametrize("tag", ["{{ " + "x" * 990 + " }}", "{{ '" + "x" * 990 + "' }}", "{{ 1" + " + 1" * 80 + " }}"])
def test_many_long_expressions_are_worked_out_in_seconds(tag):
    began = time.thread_time()
    _render(f"{tag} " * 2_000)
    assert time.thread_time() - began < 8


def test_a_text_that_looks_like_an_expression_is_cut_in_linear_time():
    began = time.thread_time()
    _render("a{" + "x " * 50_000 + "{{ 1 }}{")
    assert time.thread_time() - began < 1


@STEADY
@given(st.text(alphabet="{}%#()[]'~|.,*+ -<>=varenv_0x\n", max_size=80))
def test_any_text_is_worked_out_or_refused(text):
    value, problems = _render("{{" + text + "}}")
    assert not problems or value is None
    assert all(problem.code.startswith("ETC1") for problem in problems)
