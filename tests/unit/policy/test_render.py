"""What an expression gives, what it must not reach (Python, files, values of the environment) and not grow to.

Each row is noticed where a rule of `render` is broken: `OF_EXPRESSIONS` (`tests/property/mutate.py`). What Jinja's own sandbox
keeps away is tested there.
"""

import json
import time
from contextlib import suppress
from contextvars import copy_context
from itertools import chain, product
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from etc_policy.errors import UsageError
from etc_policy.policy.reading import read_project
from etc_policy.policy.render import LEFT_OUT_FILTERS, SANDBOX, render
from etc_policy.policy.resolve import check_project
from etc_policy.policy.schema import PolicyEntry
from etc_policy.policy.scope import Scope
from etc_policy.policy.secrets import has_env_value, is_secret, with_values

SECRET = "hunter2"
#: Parts of it, as a message might show them.
SHOWN = ("unter", "UNTER", "'h'")
ENVIRONMENT = {"HOME": "/home/me", "S": SECRET, "N": "7"}
LONG = ["var('long')"]


def variables():
    """Those that expressions may use; none may be changed by one."""
    return {
        "size": 128,
        "on": True,
        "lake": "Lake",
        "long": "x" * 9_000,
        "list": [{"a": 1}, {"a": 2}],
        "map": {"k": "v"},
        "hunter2s": 1,
        "hidden": render("{{ env_var('S') }}", Scope(ENVIRONMENT))[0],
    }


def outcome(text, *, is_option=False, each=()):
    """What a text gives and whether it is marked, or the code and place of each problem; and what must not be."""
    scope = Scope(ENVIRONMENT, target={"name": "dev"}).with_variables(variables())
    for item in each:
        scope = scope.with_each(item)
    value, problems = render(text, scope, is_option=is_option)
    said = f"{[(problem.message, problem.hint) for problem in problems]} {sorted(scope.known_variables)}"
    found = f"{value!r}{' (secret)' if has_env_value(value) else ''}"
    if problems:
        found = " ".join(f"{problem.code}:{problem.offset}" for problem in problems)
    wrong = [word for word in (*SHOWN, "0x", "<class") if word in said]
    if scope.variables != variables():
        wrong.append("a variable was changed")
    return f"{found} {wrong}" if wrong else found


#: What a text gives, as Python writes it.
VALUES = {
    "{{ var('size') }}": "128",
    "{{ var('size') }} MiB": "'128 MiB'",
    "is {{ var('on') }}": "'is true'",
    "{{ var('map').items() | list + var('list') | map(attribute='a') | list }}": "[['k', 'v'], 1, 2]",
    "{{ none }}": "None",
    "{{ {'a': [1.5, (2, 3)]} }}": "{'a': [1.5, [2, 3]]}",
    "{{ var('nope', default=false) }}{{ var('nope', 'x') }}": "'falsex'",
    "{{ env_var('NOPE', var('lake')) | lower }}": "'lake'",
    "{{ var('lake') | upper ~ '-' ~ var('size') }}": "'LAKE-128'",
    "a {# gone #}{{ var('size') }}\n": "'a 128\\n'",
    "{{ {'a': {'b': '}}'}}.a.b }}": "'}}'",
    "{{- {'a': 1} -}}": "{'a': 1}",
    "{a} {{ 1 }}}": "'{a} 1}'",
    "{{ {'a': 1}.b | default('x') }}{{ {'a': 1}.b is defined }}": "'xfalse'",
    "{{ 'a-b' | replace('-', '_') }}{{ 'a-b'.split('-') | join('+') }}": "'a_ba+b'",
    "{{ 7 // 2 + 1 - 3 % 2 }}": "3",
    "{{- ' x ' -}} y": "' x y'",
    "{% if target.name == 'dev' %}small{% else %}big{% endif %}": "'small'",
    "{% for t in var('list') %}{{ t.a }}{% if not loop.last %},{% endif %}{% endfor %}": "'1,2'",
    "{% raw %}{{ x }}{% endraw %}": "'{{ x }}'",
    "{{ [3, 1, 2] | sort | first }}{{ range(3) | list | length }}": "'13'",
}
#: The code of what has no value, and its place in the text.
PROBLEMS = {
    "a {{ var('nope') }} {{ 1 / 0 }} {{ var('lake') }}": "ETC122:2 ETC120:20",
    "{{ env_var('nope') }}": "ETC122:0",
    "{{ var('a'": "ETC120:0",
    "{{ 1 2 }}": "ETC120:0",
    "x {{ none }}": "ETC120:2",
    "x {{ [1] }}": "ETC120:2",
    "{{ 'a' if not var('on') }}": "ETC122:0",
    "{{ each }}": "ETC122:0",
    "{{ 'x' | uper }}": "ETC121:0",
    "{{ 'a' * 3 }}": "ETC121:0",
    "{{ '\\ud800' }}": "ETC120:0",
    "{{ " + "(" * 400 + "1" + ")" * 400 + " }}": "ETC104:0",
}
#: What would reach Python or files, or change what others see.
REACH = {
    "{{ ''.__class__ }}": "ETC121:0",
    "{{ ['x'] | map('attr', '__class__') | list }}": "ETC121:0",
    "{{ '{0.__class__}'.format(1) }}": "ETC121:0",
    "{{ '%s' | format(var) }}": "ETC121:0",
    "{{ var }}": "ETC121:0",
    "{{ range | string }}": "ETC121:0",
    "{{ open('/etc/passwd').read() }}": "ETC122:0",
    "{{ var('map').update({'k': 1}) }}": "ETC121:0",
    "{{ var('list').append(1) }}": "ETC121:0",
    "{% include '/etc/passwd' %}": "ETC121:0",
    "{% set x = 1 %}{{ x }}": "ETC121:0",
    "{% macro m() %}{% endmacro %}{{ m() }}": "ETC121:0",
    "{% for x in [1] recursive %}{{ x }}{% endfor %}": "ETC121:0",
}
#: What would grow; each by so much that it is seen, and no more.
GROWTH = {
    "{{ 2 ** 99 // 2 ** 98 }}": "ETC104:0",
    "{{ 10 ** 16 * 1 // 10 ** 16 }}": "ETC104:0",
    "{{ 'x' * 100000 }}": "ETC121:0",
    "{{ '%9999999d' % 1 }}": "ETC121:0",
    "{{ 'x'.center(100000) | length }}": "ETC121:0",
    "{{ 'x' | center(100000) | length }}": "ETC121:0",
    "{{ 1 | round(-1000) }}": "ETC104:0",
    "{{ 1 if var('long') | replace('x', var('long')) }}": "ETC104:0",
    "{{ 1 if var('long').replace('x', var('long')) }}": "ETC104:0",
    "{{ 1 if var('long') | list | join(var('long')) }}": "ETC104:0",
    "{{ (" + " ~ ".join(LONG * 20) + ") | length }}": "ETC104:0",
    "{{ (" + " + ".join(LONG * 20) + ") | length }}": "ETC104:0",
    "{{ ''.join([" + ", ".join(LONG * 300) + "]) | length }}": "ETC104:0",
    "{{ 1 if [" + "range(9999), " * 210 + "] | string }}": "ETC104:0",
    "{{ range(10001) | length }}": "ETC104:0",
    "{{ range(9999) | list + range(9999) | list }}": "ETC104:0",
    "{{ var('long') ~ var('long') }}": "ETC104:0",
    "{{ var('long') }}{{ var('long') }}": "ETC104:0",
    "{% for a in range(20) %}" + "y" * 10_000 + "{% endfor %}": "ETC104:0",
    "{{ " + "[" * 40 + "]" * 40 + " }}": "ETC104:0",
    "{{ " + "9" * 20 + " }}": "ETC104:0",
    "{% for a in range(1001) %}{% for b in range(1001) %}{% endfor %}{% endfor %}": "ETC104:0",
    "{% for a in range(6000) %}{% for b in [var('long')] %}{% endfor %}{% endfor %}": "ETC104:0",
}
#: What comes from the environment is marked, and no message has it.
SECRETIVE = {
    "{{ env_var('S') | upper | lower }}": "'hunter2' (secret)",
    "{{ env_var('S') | list | first }}": "'h' (secret)",
    "{{ 'x'.join([env_var('S')]) }}{{ 1 }}": "'hunter21' (secret)",
    "{{ (env_var('N') | int) * 10 + 1 }}": "71 (secret)",
    "{{ 'abcdefgh'[env_var('N') | int] }}": "'h' (secret)",
    "{{ var('hidden') | upper }}": "'HUNTER2' (secret)",
    "{{ var('lake') }}": "'Lake'",
    "{{ {'a': var('hidden')} }}{{ 1 }}": "ETC120:0",
    "{{ [dict(a=env_var('S')), {'b': 1}, var('map')] }}": "[{'a': 'hunter2'}, {'b': 1}, {'k': 'v'}] (secret)",
    "{{ {var('hidden'): 1} }}": "ETC121:0",
    "{{ {env_var('S') | upper: 1} }}": "ETC121:0",
    "{{ [{'a': {env_var('S')[0]: 1}}] }}": "ETC121:0",
    "{{ dict([[env_var('S'), 1]]) }}": "ETC121:0",
    "{{ var(env_var('S')) }}": "ETC122:0",
    "{{ env_var(env_var('S')) }}": "ETC122:0",
    "{{ var('map')[env_var('S')] }}": "ETC122:0",
    "{{ env_var('S') | attr(env_var('S')) }}": "ETC122:0",
    "{{ env_var('S') - 1 }}": "ETC120:0",
    "{{ {'a': env_var('S')}.nope }}": "ETC122:0",
    "{{ ['a'] | map(env_var('S')) | list }}": "ETC120:0",
}
CASES = {**VALUES, **PROBLEMS, **REACH, **GROWTH, **SECRETIVE}


def wrong(cases=None):
    """The first of the cases with another outcome; None where there is none. `tests.property.mutate` asks it too."""
    for text, expected in (CASES if cases is None else cases).items():
        if (found := outcome(text)) != expected:
            return f"{text[:80]}: {found[:200]}"
    return wrong_option() if cases is None else None


@pytest.mark.parametrize("kind", [VALUES, PROBLEMS, SECRETIVE], ids=["values", "problems", "environment"])
def test_what_expressions_give(kind):
    assert wrong(kind) is None


def test_no_expression_reaches_python_or_files():
    assert wrong(REACH) is None


def test_what_grows_is_refused():
    assert wrong(GROWTH) is None


#: What an option of the engine keeps of a text.
OPTIONS = {
    "{{ env_var('S') }}": "{{ env_var('S') }}",
    'x-{{env_var("S")}}-{{ 1 + 1 }}': "x-{{ env_var('S') }}-2",
    "{{ env_var( 'S' , \"d\" ) }}": "{{ env_var('S', 'd') }}",
    "{{- env_var('S') -}}": "{{ env_var('S') }}",
    '{"a": {"b": "{{env_var("S")}}"}} {{ 2 }}': '{"a": {"b": "{{ env_var(\'S\') }}"}} 2',
}


def wrong_option():
    """The first text of which an option has another outcome; None where there is none."""
    changed = (text for text, kept in OPTIONS.items() if outcome(text, is_option=True) != repr(kept))
    forged = (text for text, item in FORGED.items() if "ETC" not in outcome(text, is_option=True, each=[item]))
    return next(chain(changed, forged), None)


def test_an_option_keeps_its_reference():
    assert wrong_option() is None
    assert all(SECRET in with_values({"a": kept}, ENVIRONMENT)["a"] for kept in OPTIONS.values())
    assert with_values({"a": "{{ env_var('S', 'd') }}:{{ env_var('T', '') }}"}, {}) == {"a": "d:"}


#: Texts in which an item, or several, would make or forge a reference, and the items that do it.
FORGED = {
    "{{ each }}": "{{ env_var('S') }}",
    "a/{{ each }}/b": "x{{ env_var('S', 'd') }}y",
    "{{ each[0] }}{{ each[1] }}": ["{{ env_", "var('S') }}"],
    "{{ each }}var('S') }}": "{{ env_",
    "{{{ each }}": "{ env_var('S') }}",
    "{{ env_var('T') }}/{{ each }}": "{{ env_var('S') }}",
    "{{ env_var('T') }}{# {{ env_var('T') }} #}{{ each }}": "{{ env_var('S') }}",
    '{"a": {"b": "{{ env_var(\'T\') }}{{ each }}"}}': "{{ env_var('S') }}",
    "{% if each %}{{ each }}{% endif %}": "{{ env_var('S') }}",
    "{{ each | upper | lower | replace('x', 's') }}": "{{ env_var('X') }}",
    "{{ {'a': {'b': [each]}} }}": "{{ env_var('S') }}",
    "{{ '{{ env_' ~ each }}": "var('S') }}",
}


@pytest.mark.parametrize("text", FORGED)
def test_what_an_expression_gives_becomes_no_reference(text):
    """A name of a folder would have a lock, an option or Spark's settings hold any variable."""
    item = FORGED[text]
    assert outcome(text, is_option=True, each=[item]).startswith("ETC12")
    if text != "{{{ each }}":
        plain = ["a", "b"] if isinstance(item, list) else "a"
        assert "ETC" not in outcome(text.replace("env_var('T')", "1"), is_option=True, each=[plain])


def test_a_text_that_nobody_fills_in_may_have_the_form_of_a_reference():
    """So may a table's path; what is no text may hold options."""
    reference = "{{ env_var('S') }}"
    assert outcome("x/{{ each }}", each=[reference]) == repr(f"x/{reference}")
    assert outcome("{{ {'a': {'b': [each]}} }}", each=[reference]).startswith("ETC12")


def test_an_item_is_marked_where_a_value_of_the_environment_is_in_it():
    item = {"a": [variables()["hidden"]]}
    for text in ("{{ each.a[0] | upper }}", "{% for a in each.a %}{{ a }}{% endfor %}", "{{ each }}"):
        assert outcome(text, each=[item]).endswith("(secret)")
        assert outcome(text.replace(".a[0]", "").replace(".a", ""), each=[item, "x"]) in ("'X'", "'x'")


def test_all_of_a_value_is_marked_with_what_the_file_says():
    text = "{{ {'a': [env_var('S') | upper, 1]} }}"
    value, _ = render(text, Scope(ENVIRONMENT))
    assert all(is_secret(leaf) and leaf.written == text for leaf in value["a"])


def test_what_asks_for_a_target_that_is_not_known_is_no_problem_of_its_own():
    _, (problem,) = render("{{ target.name }}", Scope({}))
    assert problem.is_quiet


#: Each would take gigabytes if what loops and `~` make were not counted.
TENFOLD = "".join(f"{{% for {new} in [[{', '.join([old] * 10)}]] %}}" for old, new in ("ab", "bc", "cd", "de", "ef"))
HUNDREDFOLD = "".join(f"{{% for {new} in [{' ~ '.join([old] * 100)}] %}}" for old, new in ("ab", "bc", "cd", "de"))
GIGABYTES = [
    "{% for a in [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1]] %}" + TENFOLD + "{{ f == f }}" + "{% endfor %}" * 6,
    "{% for a in [var('long')] %}" + HUNDREDFOLD + "{{ e | length }}" + "{% endfor %}" * 5,
    "{{ ('x' * 99999999) | length }}",
    "{{ 'x'.center(99999999) }}",
    "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
    "{{ 1" + " + 1" * 5_000 + " }}",
    "{{ range(10000) | map('string') | map('replace', '', var('long')) | list | length }}",
]


@pytest.mark.parametrize("text", GIGABYTES, ids=range(len(GIGABYTES)))
def test_nothing_grows_without_bound(text):
    began = time.thread_time()
    assert outcome(text).startswith("ETC1")
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


#: Values of the environment that are wrong in other ways, with a part that no message may show.
SECRETS = (
    SECRET, "hunter2:/x", "file://hunter2/x", "hunter2/*", "*hunter2", "hunter2..a", "12 hunter2", "hunter2 UTC", ">9,!=hunter2",
)  # fmt: skip
FORMS = ("{E}", "{{{{ [{e}] }}}}", "{{{{ {{'a': {e}}} }}}}", "{{{{ {{{e}: 1}} }}}}", "{E}{{{{ 1 }}}}", "{E}(", "{E}/%")
TARGET = ("bundle", "table_root", "jobs", "lock", "catalog.uri", "catalog.type", "spark.master", "storage.endpoint")
PROJECT = (
    "require_etc", "profile", "profiles.p.target", "name", "notify.email.sender", "notify.http.url", "notify.every", "vars",
    "policies.+tags", "policies.+nope", *(f"profiles.p.targets.t.{key}" for key in TARGET),
)  # fmt: skip


def keys_of(model, before=""):
    """The dotted keys of a model, those of the models in it too."""
    for name, info in model.model_fields.items():
        key = f"{before}{info.alias or name}"
        yield key
        for inner in (info.annotation, *get_args(info.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from keys_of(inner, f"{key}.")


def with_value(around, key, value):
    """A mapping with a value at a dotted key."""
    first, _, rest = key.partition(".")
    inner = around.get(first)
    return {**around, first: with_value(inner if isinstance(inner, dict) else {}, rest, value) if rest else value}


@pytest.mark.parametrize("secret", SECRETS)
def test_no_message_says_what_is_in_the_environment(secret, tmp_path):
    """Whatever it is a value or a key of, and however wrong it is there."""
    file = tmp_path / "policies" / "a.yml"
    file.parent.mkdir()
    texts = [form.format(E="{{ env_var('S') }}", e="env_var('S')") for form in FORMS]
    keys = (*keys_of(PolicyEntry), "for_each", "hudi_options.hoodie_x", "writer.lock.x", "data_latency.at_most", "nope")
    rows = [
        with_value({"name": f"p{n}", "table": f"t{n}", "event_time_column": "ts", "data_latency": "1h"}, key, text)
        for n, (key, text) in enumerate(product(keys, texts))
    ]
    file.write_text(json.dumps({"version": 1, "policies": rows}))

    def issues():
        return check_project(copy_context().run(read_project, str(tmp_path), {"S": secret}), ())

    said = list(issues())
    assert len(said) > 200
    file.write_text("version: 1\npolicies: [{name: a, table: a, event_time_column: ts, data_latency: 1h}]\n")
    for text, key in product(texts, PROJECT):
        whole = with_value({"profiles": {"p": {"target": "t", "targets": {"t": {}}}}}, key, text)
        (tmp_path / "etc_project.yml").write_text(json.dumps(whole))
        with suppress(UsageError):
            said += issues()
    shown = (f"{issue.message} {issue.hint} {issue.where and issue.where.object_name}" for issue in said)
    assert [text for text in shown if "hunter" in text.lower()] == []


def test_filters_and_tests_are_those_of_jinja():
    from jinja2.defaults import DEFAULT_FILTERS, DEFAULT_TESTS

    assert set(DEFAULT_FILTERS) - set(SANDBOX.filters) == LEFT_OUT_FILTERS
    assert set(DEFAULT_TESTS) == set(SANDBOX.tests)


@pytest.mark.parametrize("tag", ["{{ " + "x" * 990 + " }}", "{{ '" + "x" * 990 + "' }}", "{{ 1" + " + 1" * 80 + " }}"])
def test_many_long_expressions_are_worked_out_in_seconds(tag):
    began = time.thread_time()
    outcome(f"{tag} " * 2_000)
    assert time.thread_time() - began < 8


def test_a_text_that_looks_like_an_expression_is_cut_in_linear_time():
    began = time.thread_time()
    outcome("a{" + "x " * 50_000 + "{{ 1 }}{")
    assert time.thread_time() - began < 1


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.text(alphabet="{}%#()[]'~|.,*+ -<>=varenv_0x\n", max_size=80))
def test_any_text_is_worked_out_or_refused(text):
    value, problems = render("{{" + text + "}}", Scope(ENVIRONMENT, variables=variables()))
    assert not problems or value is None
    assert all(problem.code.startswith("ETC1") for problem in problems)
