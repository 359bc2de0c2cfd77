import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etc_policy.declare.templating.context import Context, has_template
from etc_policy.declare.templating.problems import TemplateProblem
from etc_policy.declare.templating.rendering import expand
from etc_policy.declare.templating.values import join_texts

STEADY = settings(suppress_health_check=[HealthCheck.too_slow])

VARIABLES = {"latency": "30m", "size": 128, "on": True, "lake": "Lake", "long": "x" * 3000}
ENVIRONMENT = {"HOME": "/home/me"}


def _render(text, variables=VARIABLES, environment=ENVIRONMENT):
    """The text as it is once its values stand in it."""
    if not has_template(text):
        return text
    expansion = expand(text, Context(dict(variables), environment))
    for problem in expansion.problems:
        raise problem
    pieces = expansion.pieces(expansion.text) or [expansion.text]
    for piece in pieces:
        if isinstance(piece, TemplateProblem):
            raise piece
    return join_texts(pieces)


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("plain", "plain"),
        ("a { b } c", "a { b } c"),
        ("{# no template", "{# no template"),
        ("{{ var('latency') }}", "30m"),
        ("{{ var('size') }} MiB", "128 MiB"),
        ("{{ var('on') }}", "true"),
        ("{{ var('nope', 'x') }}", "x"),
        ("{{ var('nope', default=false) }}", "false"),
        ("{{ env_var('HOME') }}/lake", "/home/me/lake"),
        ("{{ env_var('NOPE', '/data') }}", "/data"),
        ("{{ env_var('NOPE', var('lake')) | lower }}", "lake"),
        ("{{ var('lake') | upper ~ '-' ~ var('size') }}", "LAKE-128"),
        ("{{ 'a' if var('on') else 'b' }}", "a"),
        ("{{ 'a' if var('size') > 200 or not var('on') else 'b' }}", "b"),
        ("a {# gone #}{{ var('size') }}\n", "a 128\n"),
        ("<{{ '<' }}>", "<<>"),
        ("{{ {'a': {'b': '}}'}}.a.b }}", "}}"),
        ("{{ [1, 2] | join('-') ~ range(3) | last }}", "1-22"),
        ("{{ {'a': 1}.b | default('x') }}{{ {'a': 1}.b is defined }}", "xfalse"),
        ("{{ 'a-b' | replace('-', '_') }}", "a_b"),
        ("{{ 7 // 2 + 1 - 3 % 2 }}", "3"),
        ("{% set x = 'a' %}{% if x == 'a' %}{{ x }}{% elif true %}b{% else %}c{% endif %}", "a"),
        (
            "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{% if not loop.last %},{% endif %}{% endfor %}",
            "a1,b2",
        ),
        ("{% for x in [1, 2, 3] if x > 1 -%}\n {{ x }}\n{%- else %}none{% endfor %}", "23"),
        (
            "{% for x in [1, 2] %}{{ loop.previtem is defined }}{{ loop.nextitem | default('-') }}{% endfor %}",
            "false2true-",
        ),
        ("{{ nope | default(200000) + [200000] | sum(start=1) }}", "400001"),
        ("{{ [{'n': 200000}, {'n': 1}] | selectattr('n', '>', 100000) | map(attribute='n') | first }}", "200000"),
        ("{{ '{context}{obj}{value}{attribute}'.format(context=1, obj=2, value=3, attribute=4) }}", "1234"),
        ("{{ '%(value)s' | format(value=env_var('HOME'), attribute=env_var('HOME')) }}", "/home/me"),
        ("{{ dict(context=1).context }}", "1"),
        ("{% for x in [] %}a{% else %}none{% endfor %}", "none"),
        ("{% macro m(a, b='z') %}{{ a }}-{{ b }}{% endmacro %}{{ m('x') }} {{ m(b=1, a=2) | upper }}", "x-z 2-1"),
        ("{{ var('lake').upper() }}{{ var('lake')[0:2] }}", "LAKELa"),
        ("{{ var(*['lake']) }}{{ var(**{'name': 'size'}) }}", "Lake128"),
        ("{{ var('size') is callable }}{{ 'x' | replace('', 'y') }}", "falseyxy"),
        ("{% set x %}a{{ 1 + 1 }}{% endset %}{{ x | upper }}", "A2"),
        ("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        ("{{ '" + "x" * 2000 + "' }}", "x" * 2000),
        ("{{ 'a' + 'b' }}{{ [3, 1, 2] | sort | join }}{{ {'a': [1, 2]} | tojson }}", "ab123" + '{"a": [1, 2]}'),
        ("{{ [{'n': 'a'}, {'n': 'b'}] | map(attribute='n') | map('upper') | join(',') }}", "A,B"),
        ("{{ range(5) | select('odd') | list | length }}{{ 7 / 2 }}{{ 2 ** 3 }}", "23.58"),
        ("{{ '%s-%03d' | format('a', 7) }}{{ '{}{x}'.format(1, x=2) }}", "a-00712"),
        ("{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "3"),
        ("{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}x{{ 1 }}{% endcall %}", "<x1>"),
        ("{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}", "3"),
        ("# {{ nothing is worked out in a comment }}", "# {{ nothing is worked out in a comment }}"),
    ],
)
def test_values(text, rendered):
    assert _render(text) == rendered


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{{ var('nope') }}", "ETC122"),
        ("{{ env_var('nope') }}", "ETC122"),
        ("{{ var(1) }}", "ETC122"),
        ("{{ var('a'", "ETC120"),
        ("{{ }}", "ETC120"),
        ("{{ none }}", "ETC120"),
        ("{{ var() }}", "ETC120"),
        ("{{ var('on') < 'a' }}", "ETC120"),
        ("{{ 'a' if not var('on') }}", "ETC122"),
        ("{{ var }}", "ETC121"),
        ("{{ var ~ 'x' }}", "ETC121"),
        ("{{ lake }}", "ETC122"),
        ("{{ self }}", "ETC121"),
        ("{{ range(99999) }}", "ETC104"),
        ("{{ range(1, 2, 0) }}", "ETC120"),
        ("{{ range(9) }}", "ETC120"),
        ("{{ var.__globals__ }}", "ETC121"),
        ("{{ ''.__class__.__mro__ }}", "ETC121"),
        ("{{ ''['__class__'] }}", "ETC121"),
        ("{{ var('long') | replace('x', var('long')) }}", "ETC104"),
        ("{{ 'x' | attr('y') }}", "ETC121"),
        ("{{ 'x' * 9999999999 }}", "ETC104"),
        ("{{ 9 ** 9 ** 9 ** 9 }}", "ETC104"),
        ("{{ 'a' in 'abc' * 99999999 }}", "ETC104"),
        ("{{ '%99999999d' % 1 }}", "ETC104"),
        ("{{ '{:>99999999}'.format(1) }}", "ETC104"),
        ("{{ [1] }}", "ETC120"),
        ("{{ {} }}", "ETC120"),
        ("{{ namespace(a=1) }}", "ETC121"),
        ("{{ cycler }}", "ETC121"),
        ("{{ [1][5] }}", "ETC122"),
        ("{% set x = x ~ 'a' %}{{ x }}", "ETC122"),
        ("{% set ns.x = 1 %}", "ETC120"),
        ("{% for a, b in [1] %}{% endfor %}", "ETC120"),
        ("{% for x in [1] recursive %}{% endfor %}", "ETC121"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "ETC104"),
        ("{% macro m(x) %}{{ m(x ~ x) ~ m(x ~ x) }}{% endmacro %}{{ m('x') }}", "ETC104"),
        ("{% for a in range(9000) %}{% for b in range(9000) %}{% endfor %}{% endfor %}", "ETC104"),
        ("{% for a in range(9000) %}{{ var('long') ~ var('long') }}{% endfor %}", "ETC104"),
        ("{% for i in var('lake') %}x{% endfor %}", "ETC120"),
        ("{% include 'x' %}", "ETC121"),
        ("{{ " + "(" * 400 + "1" + ")" * 400 + " }}", "ETC104"),
        ("{{ " + "not " * 200 + "1 }}", "ETC104"),
        ("{{ " + " ~ ".join(["var('long')"] * 4) + " }}", "ETC104"),
    ],
)
def test_what_is_refused(text, code):
    began = time.monotonic()
    with pytest.raises(TemplateProblem) as problem:
        _render(text)
    assert problem.value.code == code
    assert time.monotonic() - began < 15


def test_the_values_of_the_environment_are_never_suggested():
    with pytest.raises(TemplateProblem) as problem:
        _render("{{ env_var('TOKEN_B') }}", {}, {"TOKEN_A": "secret"})
    assert "secret" not in f"{problem.value.message}{problem.value.hint}"


@STEADY
@given(st.text(alphabet="{}%#()[]'~|.,*+ -<>=varenv_0x\n", max_size=80))
def test_any_text_is_rendered_or_refused(text):
    try:
        assert isinstance(_render("{{" + text + "}}"), str)
    except TemplateProblem as problem:
        assert problem.code.startswith("ETC1")
