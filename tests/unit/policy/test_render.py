"""What an expression gives, what it must not reach (Python, files, values of the environment) and not grow to."""

import threading
import time
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etc_policy.policy import scope
from etc_policy.policy.reading import read_project
from etc_policy.policy.render import LEFT_OUT_FILTERS, SANDBOX, render
from etc_policy.policy.resolve import check_project
from etc_policy.policy.scope import Alarm, ExpressionError, Scope
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
    "''.__class__.__mro__[1].__subclasses__()",
    "''['__class__']",
    "''|attr('__class__')",
    "''|attr('__cl' ~ 'ass__')",
    "[]|attr('__class__')|attr('__base__')",
    "''|attr('\\x5f\\x5fclass\\x5f\\x5f')",
    "''['\\x5f\\x5fclass\\x5f\\x5f']",
    "['x']|map(attribute='__class__')|list",
    "['x']|map(attribute='upper')|list",
    "['x']|map('attr', '__class__')|list",
    "[var]|map(attribute='__globals__')|list",
    "['x']|selectattr('__class__')|list",
    "['x']|groupby('__class__')",
    "['x']|sum(attribute='__class__')",
    "['x']|unique(attribute='__class__')|list",
    "['x']|join(',', attribute='__class__')",
    "var.__globals__",
    "var.__globals__['os'].system('id')",
    "var.call.__globals__",
    "var|attr('call')",
    "env_var.__self__",
    "range.__class__",
    "self.__init__.__globals__",
    "self._TemplateReference__context",
    "self['x']",
    "dict.__base__",
    "dict.mro()",
    "dict.fromkeys([1])",
    "lipsum()",
    "lipsum.__globals__",
    "get_flashed_messages.__globals__",
    "url_for.__globals__",
    "config.items()",
    "request.application",
    "open('/etc/passwd').read()",
    "__import__('os')",
    "eval('1')",
    "getattr('', '__class__')",
    "self|attr('_TemplateReference__context')",
    "environment.filters",
    "loop",
    "caller()",
    "varargs",
    "'{0.__class__}'.format(1)",
    "'{0.__class__.__mro__}'.format('')",
    "'{0[__class__]}'.format('')",
    "'{a.__globals__}'.format(a=var)",
    "'{a.call}'.format(a=var)",
    "'{0}'.format(var)",
    "'{x.__class__}'.format_map({'x': 1})",
    "'{0.format.__self__}'.format('')",
    "('{0.__class__}'|safe).format(1)",
    "('{0.__class__}'|escape).format(1)",
    "'{0.__class__}'|attr('format')",
    "'%s'|format(var)",
    "'%(a)s'|format(a=var)",
    "var|string",
    "var|pprint",
    "var|tojson",
    "[var]",
    "{'a': var}",
    "range|list",
    "(var,)|first",
    "''.join.__self__",
    "''.encode('utf-16')",
    "'x'.translate({120: 'y'})",
    "text.__len__",
    "(1).__class__",
    "true.__class__",
    "none.__class__",
    "var('map').__class__",
    "var('map')['__class__']",
    "var('map').update({'k': 1})",
    "var('map').pop('k')",
    "var('map').setdefault('z', 1)",
    "var('map').clear()",
    "var('list').append(1)",
    "var('list').extend([1])",
    "var('list').sort()",
    "var('list').__setitem__(0, 1)",
    "var('list')|attr('append')",
    "var('map').items.__self__",
    "'x'()",
    "(1)()",
    "var('map')()",
    "'upper'|attr('upper')",
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
    "{% include 'names.jinja' ignore missing %}",
    "{% import '/etc/passwd' as x %}",
    "{% from 'os' import system %}",
    "{% extends '/etc/passwd' %}",
    "{% block a %}x{% endblock %}",
    "{% filter upper %}x{% endfilter %}",
    "{% autoescape true %}x{% endautoescape %}",
    "{% do var('list').append(1) %}",
    "{% set var.x = 1 %}",
    "{% set x = 1 %}{{ x }}",
    "{% with x = 1 %}{{ x }}{% endwith %}",
    "{% macro m() %}{% endmacro %}{{ m() }}",
    "{% call var('x') %}{% endcall %}",
    "{% for x in [1] recursive %}{{ loop([2]) }}{% endfor %}",
    "{% for x in [1] %}{{ loop.__class__ }}{{ loop._iterable }}{% endfor %}",
    "{% for x in ''.__class__.__mro__ %}{% endfor %}",
    "{% for x in var %}{% endfor %}",
    "{% debug %}",
    "{% trans %}x{% endtrans %}",
    "{% 1 %}",
]


@pytest.mark.parametrize("text", STATEMENTS)
def test_no_statement_reaches_python_or_files(text):
    assert _render(text)[1]


GROWTH = [
    "{{ 'x' * 99999999 }}",
    "{{ 99999999 * 'x' }}",
    "{{ [1] * 99999999 }}",
    "{{ 2 ** 99999999 }}",
    "{{ 9 ** 60 ** 60 }}",
    "{{ '%99999999d' % 1 }}",
    "{{ '%.99999999f' | format(1.0) }}",
    "{{ '{:99999999}'.format(1) }}",
    "{{ 'x' | center(99999999) }}",
    "{{ ['x'] | map('center', 99999999) | list }}",
    "{{ 'x'.center(99999999) }}",
    "{{ 'x'.ljust(99999999) }}",
    "{{ 'x'.zfill(99999999) }}",
    "{{ '\\t'.expandtabs(99999999) }}",
    "{{ 'x' | indent(99999999, true) }}",
    "{{ [1] | batch(99999999, 'x') | list }}",
    "{{ {'a': [1]} | tojson(indent=99999999) }}",
    "{{ var('long') | replace('x', var('long')) }}",
    "{{ var('long').replace('x', var('long')) }}",
    "{{ var('long') | list | join(var('long')) }}",
    "{{ var('long').join(var('long') | list) }}",
    "{{ range(99999999) }}",
    "{{ var('long') ~ var('long') }}",
    "{{ var('long') }}{{ var('long') }}",
    "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}",
    "{% for a in range(9999) %}" + "y" * 1000 + "{% endfor %}",
    "{{ " + "[" * 100 + "]" * 100 + " }}",
    "{{ 1" + " + 1" * 5_000 + " }}",
    "{{ x" + ".y" * 5_000 + " }}",
    "{{ 'x'" + " | upper" * 5_000 + " }}",
    "{% if 1 %}" * 200 + "{% endif %}" * 200,
    "{{ " + "9" * 5_000 + " }}",
]


@pytest.mark.parametrize("text", GROWTH)
def test_nothing_grows_without_bound(text, monkeypatch):
    monkeypatch.setattr(scope, "MAX_SECONDS", 1.0)
    began = time.thread_time()
    value, problems = _render(text)
    assert problems, value
    assert time.thread_time() - began < 3


def test_one_alarm_is_for_all_texts_of_a_project(monkeypatch):
    monkeypatch.setattr(scope, "MAX_SECONDS", 0.05)
    alarm = Alarm()
    endless = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
    _, (first,) = _render(endless, alarm=alarm)
    assert (first.code, first.is_quiet, "0.05 seconds" in first.message) == ("ETC104", False, True)
    _, (second,) = _render("{{ 1 }}", alarm=alarm)
    assert second.is_quiet
    assert _render("{{ 1 }}") == (1, [])


def test_an_alarm_that_something_swallowed_is_raised_in_the_end(monkeypatch):
    """Python drops what is raised within a garbage collection."""
    monkeypatch.setattr(scope, "MAX_SECONDS", 0.05)
    with pytest.raises(ExpressionError, match=r"0\.05 seconds") as raised, Alarm().running(), suppress(ExpressionError):
        while True:
            pass
    assert not raised.value.is_quiet


def test_another_thread_works_things_out_too():
    found = []
    thread = threading.Thread(target=lambda: found.append(_render("{{ var('size') }}")))
    thread.start()
    thread.join()
    assert found == [(128, [])]


SECRETIVE = [
    "env_var('S') | upper | lower",
    "env_var('S') | reverse",
    "env_var('S') | list",
    "env_var('S') | list | join",
    "env_var('S') | map('upper') | map('lower') | list",
    "env_var('S')[0] ~ env_var('S')[1:]",
    "env_var('S')[::-1][::-1]",
    "env_var('S').upper().lower()",
    "env_var('S').split('x')",
    "'x'.join([env_var('S')])",
    "env_var('S') + ''",
    "'' + env_var('S')",
    "[env_var('S')] | map('upper') | map('lower') | list",
    "[env_var('S')] | first | trim",
    "{'a': env_var('S')}.values() | list",
    "env_var('S') | urlencode",
    "env_var('S') | safe | escape | striptags",
    "env_var('S') | truncate(5, true, '', 0)",
    "env_var('S').partition('t')",
    "dict(a=env_var('S'))",
    "env_var('S') | replace('hunter', '') | int",
    "range(env_var('S') | replace('hunter', '') | int)",
    "range(env_var('N') | int)[3]",
    "(env_var('N') | int) * 10 + 1",
    "env_var('N') | int // 1",
    "env_var('N') | int | abs | string",
    "-(env_var('N') | int)",
    "[env_var('N') | int, 1] | sum",
    "'abcdefgh'[env_var('N') | int]",
    "(range(10) | list)[env_var('N') | int]",
    "(range(10) | list)[:env_var('N') | int] | length",
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


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("{{ env_var('S') }}", "{{ env_var('S') }}"),
        ('{{env_var("S")}}', "{{ env_var('S') }}"),
        ("x-{{ env_var('S') }}-{{ 1 + 1 }}", "x-{{ env_var('S') }}-2"),
        ("{{ env_var( 'S' , \"d\" ) }}", "{{ env_var('S', 'd') }}"),
    ],
)
def test_an_option_keeps_its_reference(text, option):
    assert _render(text, {"S": SECRET})[0] == SECRET or _render(text, {"S": SECRET})[0].endswith("2")
    value, problems = render(text, Scope({"S": SECRET}), is_option=True)
    assert (value, problems, has_env_value(value)) == (option, [], False)
    assert SECRET in with_values({"a": value}, {"S": SECRET})["a"]


def test_a_reference_may_have_a_default():
    assert with_values({"a": "{{ env_var('S', 'd') }}:{{ env_var('T', '') }}"}, {}) == {"a": "d:"}


UNSAID = [
    "var([env_var('S')])",
    "var({'a': env_var('S')})",
    "var(env_var('S'))",
    "env_var(env_var('S'))",
    "env_var([env_var('S')])",
    "var('map')[env_var('S')]",
    "var('list')[env_var('S') | replace('hunter', '') | int]",
    "[1].index(env_var('S'))",
    "'x'.index(env_var('S'))",
    "('{' ~ env_var('S') ~ '}').format(1)",
    "('%(' ~ env_var('S') ~ ')s') % {'a': 1}",
    "env_var('S') | attr(env_var('S'))",
    "'x' | attr(env_var('S'))",
    "[env_var('S')] | sum",
    "env_var('S') | round",
    "env_var('S') - 1",
    "env_var('S') < 1",
    "env_var('S')()",
    "env_var('S').nope",
    "[env_var('S')].nope",
    "{'a': env_var('S')}.nope",
    "{env_var('S'): 1}",
    "dict([[env_var('S'), 1]])",
    "['a'] | map(env_var('S')) | list",
    "['a'] | select(env_var('S')) | list",
    "env_var('S') | int | float",
    "env_var('S') | float",
    "range(env_var('S'))",
    "env_var('S') | groupby(env_var('S'))",
    "[{'a': 1}] | groupby(env_var('S'))",
    "[{'a': 1}] | map(attribute=env_var('S')) | list",
    "[{'a': 1}] | sort(attribute=env_var('S'))",
    "[{'a': 1}] | sort(false, false, env_var('S'))",
    "[{'a': 1}] | selectattr(env_var('S')) | list",
    "[{'a': 1}] | join(',', env_var('S'))",
    "[{'a': 1}] | sum(env_var('S'))",
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
