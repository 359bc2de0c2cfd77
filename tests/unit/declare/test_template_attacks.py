"""What a template must not reach: Python's objects, files, values of the environment; and what it must not grow to."""

import time

import pytest

from etc_policy.compile.resolve import check_project
from etc_policy.declare.reading import read_project
from etc_policy.declare.templating.context import Context
from etc_policy.declare.templating.problems import TemplateProblem
from etc_policy.declare.templating.rendering import expand
from etc_policy.declare.templating.sandbox import SANDBOX

SECRET = "hunter2"
VARIABLES = {"text": "lake", "list": [{"a": 1}, {"a": 2}], "map": {"k": "v"}, "long": "x" * 9_000, "number": 5}

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
    "['x']|sort(attribute='__class__')",
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
    "cycler.__init__.__globals__.os",
    "cycler('a').__init__",
    "cycler('a').items",
    "joiner.__init__.__globals__",
    "joiner(',').sep",
    "joiner(',')|attr('__call__')",
    "namespace.__init__.__globals__",
    "namespace(a=1).__class__",
    "namespace(a=1)['__class__']",
    "namespace(a=1)._Namespace__attrs",
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
    "context.rendering",
    "context.vars",
    "context.run()",
    "self|attr('_TemplateReference__context')",
    "rendering.budget",
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
    "''.maketrans({})",
    "'x'.translate({120: 'y'})",
    "text.__len__",
    "(1).__class__",
    "(1).bit_length()",
    "true.__class__",
    "none.__class__",
    "(1.5).hex()",
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
    "[1, 2]|map('random')|list",
    "[1, 2]|random",
    "var('map').items.__self__",
    "namespace(x=var).x",
    "(namespace(x=var)).x.call",
    "'x'()",
    "(1)()",
    "var('map')()",
    "'upper'|attr('upper')",
]


def _outcome(text, environment=None):
    """What comes out: texts of values and problems."""
    expansion = expand(text, Context(dict(VARIABLES), environment or {}))
    return expansion, expansion.problems + expansion.failures()


@pytest.mark.parametrize("expression", REACH_PYTHON)
def test_no_expression_reaches_python(expression):
    expansion, problems = _outcome("{{ " + expression + " }}")
    assert problems, expansion.values
    assert all(problem.code.startswith("ETC12") for problem in problems)
    said = " ".join(f"{problem.message} {problem.hint}" for problem in problems)
    assert "0x" not in said
    assert "<class" not in said
    assert VARIABLES["map"] == {"k": "v"}
    assert len(VARIABLES["list"]) == 2


STATEMENTS = [
    "{% include '/etc/passwd' %}",
    "{% include 'names.jinja' ignore missing %}",
    "{% import '/etc/passwd' as x %}",
    "{% import 'os' as os %}",
    "{% from 'os' import system %}",
    "{% extends '/etc/passwd' %}",
    "{% block a %}x{% endblock %}",
    "{% filter upper %}x{% endfilter %}",
    "{% autoescape true %}x{% endautoescape %}",
    "{% do var('list').append(1) %}",
    "{% set var.x = 1 %}",
    "{% set a.__class__ = 1 %}",
    "{% set ns = namespace() %}{% set ns.__class__ = 1 %}{{ ns.__class__ }}",
    "{% macro m() %}{% endmacro %}{{ m.__globals__ }}",
    "{% macro m() %}{% endmacro %}{{ m._func }}",
    "{% macro m() %}{% endmacro %}{{ m.name }}",
    "{% macro m() %}{% endmacro %}{{ m|attr('_func') }}",
    "{% for x in [1] %}{{ loop.__class__ }}{{ loop._iterator }}{% endfor %}",
    "{% for x in [1] %}{{ loop([2]) }}{% endfor %}",
    "{% for x in var %}{% endfor %}",
    "{% for x in ''.__class__.__mro__ %}{% endfor %}",
    "{% call var('x') %}{% endcall %}",
    "{% debug %}",
    "{% trans %}x{% endtrans %}",
    "{% 1 %}",
    "{%1e999 endmacro %}",
    "{% macro m() %}{%1.5 endmacro %}",
]


@pytest.mark.parametrize("text", STATEMENTS)
def test_no_statement_reaches_python_or_files(text):
    assert _outcome(text)[1]


GROWTH = [
    "{{ 'x' * 99999999 }}",
    "{{ 99999999 * 'x' }}",
    "{{ [1] * 99999999 }}",
    "{{ 2 ** 99999999 }}",
    "{{ 9 ** 60 ** 60 }}",
    "{{ 10.0 ** 60 }}",
    "{{ '%99999999d' % 1 }}",
    "{{ '%*d' % (99999999, 1) }}",
    "{{ '%.99999999f' | format(1.0) }}",
    "{{ '{:99999999}'.format(1) }}",
    "{{ '{:{w}}'.format(1, w=99999999) }}",
    "{{ 'x' | center(99999999) }}",
    "{{ ['x'] | map('center', 99999999) | list }}",
    "{{ 1.5 | round(99999999) }}",
    "{{ 'x'.center(99999999) }}",
    "{{ 'x'.ljust(99999999) }}",
    "{{ 'x'.zfill(99999999) }}",
    "{{ '\\t'.expandtabs(99999999) }}",
    "{{ 'x' | indent(99999999, true) }}",
    "{{ 'a\\nb' | indent(var('long'), true) ~ var('long') }}",
    "{{ [1] | batch(99999999, 'x') | list }}",
    "{{ [1] | slice(99999999) | list }}",
    "{{ {'a': [1]} | tojson(indent=99999999) }}",
    "{{ var('long') | replace('x', var('long')) }}",
    "{{ var('long').replace('x', var('long')) }}",
    "{{ var('long') | replace('', var('long')) }}",
    "{{ var('long') | wordwrap(1, wrapstring=var('long')) }}",
    "{{ var('long') | list | join(var('long')) }}",
    "{{ var('long').join(var('long') | list) }}",
    "{{ range(99999999) }}",
    "{{ range(9999) | map('string') | map('center', 9999) | list }}",
    "{{ var('long') ~ var('long') }}",
    "{{ var('long') + var('long') }}",
    "{{ ('{0}' * 2000).format(var('long')) }}",
    "{{ ('%s' * 2000) % ([var('long')] * 2000) }}",
    "{% set a = [1] %}" + "{% set a = [a, a] %}" * 40 + "{{ a == a }}{{ a | string }}",
    "{% set a = {'a': 1} %}" + "{% set a = {'a': a, 'b': a} %}" * 40 + "{{ a | tojson }}",
    "{% set a = [1] %}" + "{% set a = a + a %}" * 40 + "{{ a | length }}",
    "{% set a = 'x' %}" + "{% set a = a ~ a %}" * 40 + "{{ a }}",
    "{% set a = 9 %}" + "{% set a = a * a %}" * 40 + "{{ a }}",
    "{% set a %}x{% endset %}" + "{% set a %}{{ a }}{{ a }}{% endset %}" * 40 + "{{ a }}",
    "{% set ns = namespace(a=[1]) %}{% for i in range(40) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}",
    "{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ m(1) }}",
    "{% macro a(n) %}{{ b(n) }}{% endmacro %}{% macro b(n) %}{{ a(n) }}{% endmacro %}{{ a(1) }}",
    "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}",
    "{% for a in range(9999) %}{{ range(9999) | list | sort | length }}{% endfor %}",
    "{% for a in range(9999) %}" + "y" * 1000 + "{% endfor %}",
    "{{ " + "(" * 500 + "1" + ")" * 500 + " }}",
    "{{ " + "[" * 100 + "]" * 100 + " }}",
    "{{ 1" + " + 1" * 5_000 + " }}",
    "{{ x" + ".y" * 5_000 + " }}",
    "{{ 'x'" + " | upper" * 5_000 + " }}",
    "{% if 1 %}" * 200 + "{% endif %}" * 200,
    "{{ " + "9" * 5_000 + " }}",
]


@pytest.mark.parametrize("text", GROWTH)
def test_nothing_grows_without_bound(text):
    began = time.thread_time()
    expansion, problems = _outcome(text)
    assert any(problem.code in ("ETC104", "ETC120") for problem in problems), expansion.values
    assert time.thread_time() - began < 12


def test_the_time_of_a_project_has_a_limit(monkeypatch):
    monkeypatch.setattr("etc_policy.declare.templating.context.MAX_SECONDS", 0.05)
    context = Context(dict(VARIABLES), {})
    text = "{% for a in range(9999) %}{% set b = range(9999) | sort | list %}{% endfor %}"
    for _ in range(2):
        found = expand(text, context).problems[-1]
        assert (found.code, "0.05 seconds" in found.message) == ("ETC104", True)


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
    "'%s' % env_var('S')",
    "'%s' | format(env_var('S'))",
    "'{}'.format(env_var('S'))",
    "'{a[b]}'.format(a={'b': env_var('S')})",
    "env_var('S') + ''",
    "'' + env_var('S')",
    "env_var('S') * 1",
    "[env_var('S')] | tojson",
    "[env_var('S')] | pprint",
    "[env_var('S')] | map('upper') | map('lower') | list",
    "[env_var('S')] | first | trim",
    "{'a': env_var('S')}.values() | list",
    "{'a': env_var('S')} | dictsort | pprint",
    "env_var('S') | string | center(20)",
    "env_var('S') | urlencode",
    "env_var('S') | safe | escape | striptags",
    "env_var('S') | wordwrap(3)",
    "env_var('S') | batch(3) | list",
    "env_var('S') | truncate(5, true, '', 0)",
    "env_var('S').partition('t')",
    "namespace(a=env_var('S')).a | title",
    "dict(a=env_var('S'))",
    "cycler(env_var('S')).next()",
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
    "[1] * (env_var('N') | int)",
    "((env_var('N') | int) * [1]) | length",
    "range(20) | batch(env_var('N') | int) | first | length",
    "range(20) | slice(env_var('N') | int) | list | length",
]


@pytest.mark.parametrize("expression", SECRETIVE)
def test_what_comes_from_the_environment_stays_marked(expression):
    from etc_policy.declare.secrets import is_secret

    expansion, problems = _outcome("{{ " + expression + " }}", {"S": SECRET, "N": "7"})
    assert problems == []
    (value,) = expansion.values

    def leaves(item):
        items = item.values() if isinstance(item, dict) else item if isinstance(item, list | tuple) else None
        return [item] if items is None else [leaf for inner in items for leaf in leaves(inner)]

    assert leaves(value)
    assert all(is_secret(leaf) for leaf in leaves(value) if leaf not in ("a", 0))


@pytest.mark.parametrize(
    "text",
    [
        "{% set x %}{{ env_var('S') }}{% endset %}{{ x | upper }}",
        "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(env_var('S')) | upper }}",
        "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ env_var('S') }}{% endcall %}",
        "{% for x in [env_var('S')] %}{{ x | upper }}{% endfor %}",
        "{% with x = env_var('S') %}{{ x | upper }}{% endwith %}",
        "{% set a, b = [env_var('S'), 1] %}{{ a | upper }}",
    ],
)
def test_marks_go_through_statements(text):
    from etc_policy.declare.secrets import is_secret

    expansion, problems = _outcome(text, {"S": SECRET})
    assert problems == []
    assert all(is_secret(value) for value in expansion.values)


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


@pytest.mark.parametrize("escape", ["\\U000F0000", "\\U000f0000\\U000f0000", "\\U00100000"])
def test_no_file_can_write_a_placeholder(escape, tmp_path):
    """Placeholders begin with characters that are drawn anew for each file."""
    (tmp_path / "policies").mkdir()
    row = '- {name: a, table: t, event_time_column: ts, data_latency: 1m, tags: ["{{ 1 }}"], description: "%s"}\n'
    (tmp_path / "policies" / "a.yml").write_text("version: 1\npolicies:\n  " + row % escape)
    (policy,) = read_project(str(tmp_path), {}).policies
    assert policy.declaration.description == escape.encode().decode("unicode-escape")
    assert expand("{{ 1 }}", Context({}, {})).text != expand("{{ 1 }}", Context({}, {})).text


def test_filters_and_tests_are_those_of_jinja():
    from jinja2.defaults import DEFAULT_FILTERS, DEFAULT_TESTS

    assert set(DEFAULT_FILTERS) - set(SANDBOX.filters) == {"random"}
    assert set(DEFAULT_TESTS) == set(SANDBOX.tests)


@pytest.mark.parametrize("tag", ["{{ " + "x" * 990 + " }}", "{{ '" + "x" * 990 + "' }}", "{{ 1" + " + 1" * 240 + " }}"])
def test_many_long_tags_are_read_in_seconds(tag):
    began = time.thread_time()
    _outcome("a: b\n" + f"- {tag}\n" * 2_000)
    assert time.thread_time() - began < 8


def test_a_problem_is_a_problem_again():
    found = TemplateProblem("ETC120", "a", "b", (1, 2)).again()
    assert (found.message, found.hint, found.place) == ("a", "b", (1, 2))
