import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etc_policy.errors import UsageError
from etc_policy.policy.manifest import EventTime, Manifest, Policy, Strategy
from etc_policy.policy.selection import Selection, require_some, select_policies, split_terms


def _policy(name, *, tags=(), path="policies/a.yml", granularity="log_file", latency=1, enabled=True, root="/work"):
    return Policy(
        name=name,
        table=f"{root}/{name}",
        event_time=EventTime(column="ts"),
        data_latency_ms=latency,
        strategy=Strategy(granularity=granularity),
        tags=tags,
        enabled=enabled,
        source=f"{path}:3:4",
    )


MANIFEST = Manifest(
    table_root="/work",
    policies=(
        _policy("orders_ro", tags=("hourly", "sales")),
        _policy("orders_test", tags=("sales",), path="policies/sales/b.yml"),
        _policy("parked", tags=("hourly",), enabled=False),
        _policy("payments_ro", tags=("hourly",), path="policies/sales/eu/c.yml", granularity="file_slice"),
    ),
)
ALL = ["orders_ro", "orders_test", "payments_ro"]


def _names(*select, exclude=(), earlier=None):
    selection = Selection(split_terms(select), split_terms(exclude), earlier)
    return [policy.name for policy in select_policies(MANIFEST, selection)]


@pytest.mark.parametrize(
    ("values", "terms"),
    [
        ([], ()),
        (["a"], ("a",)),
        (["a", "b a"], ("a", "b")),
        (["a,b", " c , d  e "], ("a,b", "c,d", "e")),
        ([" ", ","], ()),
    ],
)
def test_terms(values, terms):
    assert split_terms(values) == terms


@pytest.mark.parametrize(
    ("earlier", "said", "hint"),
    [
        (
            {"target": "prod"},
            "is of the target `prod`, this run is of `dev`",
            "etc compile --target dev --target-dir DIR",
        ),
        ({"vars": {"lake": "/b"}}, "was made with other values of --vars: `lake`", "with the same --vars"),
        ({"vars": {}}, "was made with other values of --vars: `lake`", "with the same --vars"),
        ({"vars": {"lake": "/a", "x": 1}}, "was made with other values of --vars: `x`", "with the same --vars"),
    ],
)
def test_a_manifest_of_another_target_or_other_variables_is_no_earlier_state(earlier, said, hint):
    """Every policy would be named as modified."""
    now = MANIFEST.model_copy(update={"target": "dev", "vars": {"lake": "/a"}})
    before = now.model_copy(update=earlier)
    for state in ("modified", "new"):
        with pytest.raises(UsageError, match=said) as error:
            select_policies(now, Selection((f"state:{state}",), (), before))
        assert (error.value.code, hint in error.value.hint) == ("ETC007", True)
    assert len(select_policies(now, Selection(("orders_ro",), (), before))) == 1
    assert select_policies(now, Selection(("state:modified",), (), now)) == ()


def test_a_manifest_from_before_there_were_targets_is_an_earlier_state():
    now = MANIFEST.model_copy(update={"target": "dev"})
    assert select_policies(now, Selection(("state:modified",), (), MANIFEST)) == ()


@pytest.mark.parametrize(
    ("select", "names"),
    [
        ([], ALL),
        (["orders_ro"], ["orders_ro"]),
        (["payments_ro orders_ro"], ["orders_ro", "payments_ro"]),
        (["name:payments_ro", "orders_ro"], ["orders_ro", "payments_ro"]),
        (["orders_*"], ["orders_ro", "orders_test"]),
        (["*_ro"], ["orders_ro", "payments_ro"]),
        (["tag:hourly"], ["orders_ro", "payments_ro"]),
        (["tag:s*"], ["orders_ro", "orders_test"]),
        (["path:policies/sales"], ["orders_test", "payments_ro"]),
        (["./policies/sales/"], ["orders_test", "payments_ro"]),
        (["policies/a.yml"], ["orders_ro"]),
        (["path:policies/*/b.yml"], ["orders_test"]),
        (["strategy:event_time"], ALL),
        (["strategy:file_slice"], ["payments_ro"]),
        (["strategy:log_file_num"], []),
        (["tag:hourly,tag:sales"], ["orders_ro"]),
        (["tag:hourly,path:policies/sales orders_test"], ["orders_test", "payments_ro"]),
        (["tag:sales,strategy:file_slice"], []),
    ],
)
def test_selections(select, names):
    assert _names(*select) == names


def test_exclude_takes_away():
    assert _names(exclude=["tag:sales"]) == ["payments_ro"]
    assert _names("tag:hourly", exclude=["*,path:policies/sales"]) == ["orders_ro"]
    assert _names("orders_ro", exclude=["orders_ro"]) == []
    assert _names(exclude=["parked"]) == ALL
    assert _names(exclude=["park*"]) == ALL


@pytest.mark.parametrize(
    ("term", "code", "hint"),
    [
        ("orders_or", "ETC002", "did you mean `orders_ro`?"),
        ("xyz", "ETC002", "the policies are orders_ro, orders_test, parked, payments_ro"),
        ("z*", "ETC002", "the policies are"),
        ("parked", "ETC002", "policies/a.yml:3:4"),
        ("park*", "ETC002", "policies/a.yml:3:4"),
        ("tag:hourl", "ETC006", "did you mean `hourly`?"),
        ("path:policies/slaes", "ETC006", "did you mean `policies/sales`?"),
        ("path:x", "ETC006", "policies, policies/a.yml, policies/sales"),
        ("strategy:event-time", "ETC006", "did you mean `event_time`?"),
        ("state:modifed", "ETC006", "did you mean `modified`?"),
        ("state:modified", "ETC006", "--state DIR"),
        ("result:eror", "ETC006", "did you mean `error`?"),
        ("result:error", "ETC006", "`etc apply` keeps how it ended"),
        ("freshness:eror", "ETC006", "did you mean `error`?"),
        ("freshness:error", "ETC006", "run `etc freshness`"),
        ("tags:hourly", "ETC006", "did you mean `tag:`?"),
        ("orders_ro,nope:x", "ETC006", "the methods are name:, tag:, path:"),
    ],
)
def test_a_term_that_can_mean_nothing(term, code, hint):
    for select, exclude in ((["orders_ro", term], ()), ((), [term])):
        if exclude in (["parked"], ["park*"]):
            continue
        with pytest.raises(UsageError) as error:
            _names(*select, exclude=exclude)
        assert error.value.code == code
        assert hint in error.value.hint


def test_a_project_without_tags_says_so():
    bare = [one.model_copy(update={"tags": ()}) for one in MANIFEST.policies]
    with pytest.raises(UsageError) as error:
        select_policies(MANIFEST.model_copy(update={"policies": tuple(bare)}), ["tag:x"])
    assert error.value.hint == "there are no tags"


def test_states_compare_with_an_earlier_manifest_in_any_folder():
    earlier = Manifest(
        table_root="/elsewhere",
        policies=(
            _policy("orders_ro", root="/elsewhere", tags=("other",)),
            _policy("orders_test", root="/elsewhere", latency=2),
            _policy("gone", root="/elsewhere"),
        ),
    )
    assert _names("state:new", earlier=earlier) == ["payments_ro"]
    assert _names("state:modified", earlier=earlier) == ["orders_test", "payments_ro"]
    assert _names("state:modified,state:old", earlier=earlier) == ["orders_test"]
    assert _names("state:unmodified", earlier=earlier) == ["orders_ro"]


def test_what_failed_or_was_refused_is_run_again():
    ended = {"orders_ro": "error", "payments_ro": "refused", "parked": "error"}

    def names(*terms):
        selection = Selection(split_terms(terms), results=ended)
        return [policy.name for policy in select_policies(MANIFEST, selection)]

    assert names("result:error") == ["orders_ro"]
    assert names("result:error result:refused") == ["orders_ro", "payments_ro"]
    assert names("result:done") == []
    require_some(MANIFEST, Selection(("result:done",), results=ended))


def test_a_policy_with_open_questions_is_named_with_its_file():
    selection = Selection(("drafted",), asked={"drafted": "policies/drafted.yml"})
    with pytest.raises(UsageError, match="`drafted` takes part in no run: its file has open questions") as error:
        select_policies(MANIFEST, selection)
    assert error.value.hint == "answer them in policies/drafted.yml; `etc parse` lists them"


def test_what_was_found_too_late_is_selected():
    found = {"orders_ro": "error", "payments_ro": "unknown", "parked": "error"}
    terms = ("freshness:error", "freshness:unknown,tag:sales", "freshness:pass")
    selected = [select_policies(MANIFEST, Selection((term,), freshness=found)) for term in terms]
    assert [[policy.name for policy in policies] for policies in selected] == [["orders_ro"], [], []]
    require_some(MANIFEST, Selection(("freshness:pass",), freshness=found))


def test_a_policy_that_was_enabled_meanwhile_is_modified():
    before = tuple(p.model_copy(update={"enabled": not p.enabled}) for p in MANIFEST.policies)
    assert _names("state:modified", earlier=MANIFEST.model_copy(update={"policies": before})) == ALL
    assert _names("state:modified", earlier=MANIFEST) == []


@given(st.lists(st.text(alphabet="abcdeghilnorpstu_*?[]!:,./ -", max_size=30), max_size=4))
def test_any_selection_is_carried_out_or_refused(values):
    try:
        assert set(_names(*values)) <= set(ALL)
    except UsageError as error:
        assert error.hint


@pytest.mark.parametrize(
    ("select", "exclude", "said", "hint"),
    [
        ("orders_ro,payments_ro", "", "`orders_ro,payments_ro` selects no policy", "put spaces between them"),
        ("orders_ro,payments_ro,state:new", "", "selects no policy", "put spaces between them"),
        ("orders_ro", "orders_ro", "`orders_ro` selects no policy without `orders_ro`", "what is excluded is left out"),
        ("", "*", "no policy is left without `*`", "what is excluded is left out"),
        ("strategy:day_based", "", "`strategy:day_based` selects no policy", "`etc ls` lists the policies"),
    ],
)
def test_terms_that_select_nothing(select, exclude, said, hint):
    selection = Selection(split_terms([select]), split_terms([exclude]), MANIFEST)
    assert select_policies(MANIFEST, selection) == ()
    with pytest.raises(UsageError) as error:
        require_some(MANIFEST, selection)
    assert said in error.value.message
    assert hint in error.value.hint


@pytest.mark.parametrize(
    ("select", "exclude"),
    [
        ("state:modified", ""),
        ("orders_ro,state:modified", ""),
        ("state:modified", "orders_ro"),
        ("orders_ro", "state:unmodified"),
        ("", "tag:hourly,state:old *,state:unmodified"),
    ],
)
def test_that_nothing_has_changed_is_no_mistake(select, exclude):
    selection = Selection(split_terms([select]), split_terms([exclude]), MANIFEST)
    assert select_policies(MANIFEST, selection) == ()
    require_some(MANIFEST, selection)


def test_the_time_of_a_selection_goes_by_its_length():
    began = time.process_time()
    assert split_terms([f"a{' ' * 400_000}b , c{' ' * 400_000},"]) == ("a", "b,c")
    assert time.process_time() - began < 20
