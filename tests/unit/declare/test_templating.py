import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etc_policy.declare.templating import Renderer, TemplateProblem

STEADY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

VARIABLES = {"latency": "30m", "size": 128, "on": True, "lake": "Lake", "long": "x" * 3000}
ENVIRONMENT = {"HOME": "/home/me"}


def _render(text):
    return Renderer(VARIABLES, ENVIRONMENT).render(text)


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
        ("{{ 'a' if not var('on') }}", "ETC121"),
        ("{{ var }}", "ETC121"),
        ("{{ var ~ 'x' }}", "ETC121"),
        ("{{ lake }}", "ETC121"),
        ("{{ self }}", "ETC121"),
        ("{{ range(9) }}", "ETC121"),
        ("{{ var('lake').upper() }}", "ETC121"),
        ("{{ var.__globals__ }}", "ETC121"),
        ("{{ ''.__class__.__mro__ }}", "ETC121"),
        ("{{ ''['__class__'] }}", "ETC121"),
        ("{{ var(*['lake']) }}", "ETC121"),
        ("{{ var(**{'name': 'lake'}) }}", "ETC121"),
        ("{{ 'x' | replace('x', 'y') }}", "ETC121"),
        ("{{ 'x' | attr('y') }}", "ETC121"),
        ("{{ 'x' * 9999999999 }}", "ETC121"),
        ("{{ 9 ** 9 ** 9 ** 9 }}", "ETC121"),
        ("{{ 'a' in 'abc' * 99999999 }}", "ETC121"),
        ("{{ '%99999999d' % 1 }}", "ETC121"),
        ("{{ '{:>99999999}'.format(1) }}", "ETC121"),
        ("{{ [1] }}", "ETC121"),
        ("{{ var('size') is defined }}", "ETC121"),
        ("{% for i in var('lake') %}x{% endfor %}", "ETC121"),
        ("{% include 'x' %}", "ETC121"),
        ("{{ " + "(" * 400 + "1" + ")" * 400 + " }}", "ETC104"),
        ("{{ " + "not " * 200 + "1 }}", "ETC104"),
        ("{{ '" + "x" * 2000 + "' }}", "ETC104"),
        ("{{ " + " ~ ".join(["var('long')"] * 4) + " }}", "ETC104"),
    ],
)
def test_what_is_refused(text, code):
    began = time.monotonic()
    with pytest.raises(TemplateProblem) as problem:
        _render(text)
    assert problem.value.code == code
    assert time.monotonic() - began < 5


def test_the_values_of_the_environment_are_never_suggested():
    with pytest.raises(TemplateProblem) as problem:
        Renderer({}, {"TOKEN_A": "secret"}).render("{{ env_var('TOKEN_B') }}")
    assert "secret" not in f"{problem.value.message}{problem.value.hint}"


@STEADY
@given(st.text(alphabet="{}%#()[]'~|.,*+ -<>=varenv_0x\n", max_size=80))
def test_any_text_is_rendered_or_refused(text):
    try:
        assert isinstance(_render("{{" + text + "}}"), str)
    except TemplateProblem as problem:
        assert problem.code.startswith("ETC1")
