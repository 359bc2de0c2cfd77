"""Which policies a command works on, said as in dbt: `name`, globs, `tag:`, `path:`, `state:`, `result:` and others.

Terms are joined by spaces into a union; parts of a term are joined by commas into an intersection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn, TypeAlias, get_args

from etc_policy.errors import UsageError
from etc_policy.errors.codes import Code
from etc_policy.errors.plain_text import some_of
from etc_policy.policy.locations import glob_matches
from etc_policy.policy.manifest import Granularity, Manifest, Policy
from etc_policy.policy.schema_values import StrategyType
from etc_policy.policy.suggestions import did_you_mean

_MAX_TERMS = 10_000
_STATES = ("modified", "new", "old", "unmodified")
Result: TypeAlias = Literal["error", "refused", "done"]
FreshnessStatus: TypeAlias = Literal["pass", "warn", "error", "unknown", "no_target"]
#: What may select nothing without a mistake.
_CHANGING = ("state:", "result:", "freshness:")
_Names: TypeAlias = frozenset[str]


@dataclass(frozen=True, slots=True)
class Selection:
    """What `--select`, `--exclude` and `--state` say; `earlier` is the manifest that `state:` compares with.

    `results` is how the last run of each policy ended, for `result:`, and `freshness` what the last `etc freshness` found.
    `asked` has the file of each policy that takes part in nothing, as that file has open questions.
    """

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    earlier: Manifest | None = None
    asked: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, Result] = field(default_factory=dict)
    freshness: Mapping[str, FreshnessStatus] = field(default_factory=dict)


def split_terms(values: Sequence[str]) -> tuple[str, ...]:
    """The terms of a union, each once, in the order given: `["a b", "c,d"]` has three."""
    joined = (",".join(part.strip() for part in value.split(",")) for value in values)
    terms = (term.strip(",") for value in joined for term in value.split())
    return tuple(dict.fromkeys(term for term in terms if term))


def select_policies(manifest: Manifest, selection: Selection | Sequence[str]) -> tuple[Policy, ...]:
    """The policies that are selected, in the manifest's order; a selection of nothing is every enabled policy.

    Raises:
        UsageError: a name, tag, path, strategy or method that does not exist, a policy that is named but disabled, or
            `state:` without an earlier manifest, or `result:` or `freshness:` without a run.

    """
    if not isinstance(selection, Selection):
        selection = Selection(tuple(selection))
    if len(selection.select) + len(selection.exclude) > _MAX_TERMS:
        raise UsageError(Code.BAD_SELECTION, f"a selection has at most {_MAX_TERMS} terms")
    chooser = _Chooser(manifest, selection)
    chosen = chooser.union(selection.select) if selection.select else chooser.enabled
    chosen -= chooser.union(selection.exclude, excluding=True)
    return tuple(policy for policy in manifest.policies if policy.name in chosen)


def require_some(manifest: Manifest, selection: Selection) -> None:
    """Return if the terms could select a policy: that nothing has changed, or failed, is no mistake.

    Raises:
        UsageError: they select none, whatever `state:`, `result:` and `freshness:` mean.

    """
    chooser = _Chooser(manifest, selection, any_state=True)
    chosen = chooser.union(selection.select) if selection.select else chooser.enabled
    certain = (term for term in selection.exclude if not any(p.startswith(_CHANGING) for p in term.split(",")))
    if chosen - chooser.union(certain, excluding=True):
        return
    selected, excluded = (" ".join(terms)[:60] for terms in (selection.select, selection.exclude))
    if not chooser.enabled:
        raise UsageError(Code.BAD_SELECTION, "no policy is enabled, so none is selected")
    said = f"`{selected}` selects no policy" if selected else "no policy is left"
    without = f" without `{excluded}`" if excluded else ""
    raise UsageError(Code.BAD_SELECTION, f"{said}{without}", hint=_why_none(selection, chosen))


def _why_none(selection: Selection, chosen: _Names) -> str:
    if chosen:
        return "what is excluded is left out, also where it is selected by its name"
    if any("," in term for term in selection.select):
        return "a comma keeps what all of its parts select; to select each of them put spaces between them"
    return "`etc ls` lists the policies"


def disabled_policies(manifest: Manifest, selection: Selection) -> tuple[Policy, ...]:
    """The disabled policies that a selection would mean if they were enabled.

    Raises:
        UsageError: as `select_policies`.

    """
    enabled = tuple(policy.model_copy(update={"enabled": True}) for policy in manifest.policies)
    meant = {one.name for one in select_policies(manifest.model_copy(update={"policies": enabled}), selection)}
    return tuple(policy for policy in manifest.policies if policy.name in meant and not policy.enabled)


class _Chooser:
    """Finds the names that terms mean; with `any_state` every policy is in the state that is asked for, and ended so."""

    def __init__(self, manifest: Manifest, selection: Selection, *, any_state: bool = False) -> None:
        self._manifest, self._earlier, self._any_state = manifest, selection.earlier, any_state
        self._selection = selection
        self._policies = [policy for policy in manifest.policies if policy.enabled]
        self._known = {policy.name: policy for policy in manifest.policies}
        self.enabled: _Names = frozenset(policy.name for policy in self._policies)
        self._methods: Mapping[str, Callable[[str], _Names]] = {
            "name": self._by_name,
            "tag": self._by_tag,
            "path": self._by_path,
            "strategy": self._by_strategy,
            "state": self._by_state,
            "result": self._by_result,
            "freshness": self._by_freshness,
        }

    def union(self, terms: Iterable[str], *, excluding: bool = False) -> _Names:
        """The names of all terms; what is excluded may be disabled anyway."""
        found: set[str] = set()
        for term in terms:
            found |= frozenset.intersection(*(self._part(part, excluding) for part in term.split(",") if part))
        return frozenset(found)

    def _part(self, part: str, excluding: bool) -> _Names:
        method, colon, value = part.partition(":")
        if not colon:
            method, value = ("path" if "/" in part or part.endswith((".yml", ".yaml")) else "name"), part
        if method not in self._methods:
            _nothing(
                f"there is no way to select by `{method[:60]}:`", method, "methods", [f"{m}:" for m in self._methods]
            )
        if excluding and method == "name" and (known := _matching(self._known, value)):
            return known
        return self._methods[method](value)

    def _by_name(self, pattern: str) -> _Names:
        known = _matching(self._known, pattern)
        if found := known & self.enabled:
            return found
        if known:
            first = self._known[min(known)]
            what = f"the policy `{first.name}` is" if pattern == first.name else f"all policies `{pattern[:60]}` are"
            hint = f"set `enabled: true` at {first.source}"
            raise UsageError(Code.UNKNOWN_POLICY, f"{what} disabled", hint=hint)
        if pattern in self._selection.asked:
            message = f"the policy `{pattern[:60]}` takes part in no run: its file has open questions"
            hint = f"answer them in {self._selection.asked[pattern]}; `etc parse` lists them"
            raise UsageError(Code.UNKNOWN_POLICY, message, hint=hint)
        message = f"there is no policy `{pattern[:60]}`"
        return _nothing(message, pattern, "policies", list(self._known), Code.UNKNOWN_POLICY)

    def _by_tag(self, pattern: str) -> _Names:
        found = self._names(lambda policy: any(glob_matches(tag, pattern) for tag in policy.tags))
        if not found:
            known = sorted({tag for policy in self._policies for tag in policy.tags})
            _nothing(f"no enabled policy has the tag `{pattern[:60]}`", pattern, "tags", known)
        return found

    def _by_path(self, pattern: str) -> _Names:
        wanted = pattern.removeprefix("./").rstrip("/")

        def matches(policy: Policy) -> bool:
            path = (policy.source or "").rsplit(":", 2)[0]
            return path == wanted or path.startswith(f"{wanted}/") or glob_matches(path, wanted)

        found = self._names(matches)
        if not found:
            files = {(policy.source or "").rsplit(":", 2)[0] for policy in self._policies}
            known = sorted(files | {file.rpartition("/")[0] for file in files})
            _nothing(f"no enabled policy is in the path `{pattern[:60]}`", wanted, "files and folders", known)
        return found

    def _by_strategy(self, pattern: str) -> _Names:
        kinds = (*get_args(StrategyType), *get_args(Granularity))
        if not any(glob_matches(kind, pattern) for kind in kinds):
            _nothing(f"there is no strategy `{pattern[:60]}`", pattern, "strategies", kinds)
        return self._names(
            lambda p: any(glob_matches(kind, pattern) for kind in (p.strategy.type, p.strategy.granularity))
        )

    def _by_state(self, state: str) -> _Names:
        if state not in _STATES:
            _nothing(f"there is no state `{state[:60]}`", state, "states", _STATES)
        if self._earlier is None:
            hint = "name the folder of an earlier manifest: --state DIR"
            raise UsageError(Code.BAD_SELECTION, f"`state:{state}` needs something to compare with", hint=hint)
        _require_comparable(self._manifest, self._earlier)
        if self._any_state:
            return self.enabled
        before = {policy.name: _comparable(policy, self._earlier) for policy in self._earlier.policies}
        before |= {f"*{name}": (True, found) for name, found in self._earlier.namespaces.items()}
        same = self._names(lambda policy: before.get(_declared_as(policy)) == _comparable(policy, self._manifest))
        old = self._names(lambda policy: _declared_as(policy) in before)
        return {"new": self.enabled - old, "old": old, "unmodified": same, "modified": self.enabled - same}[state]

    def _by_result(self, result: str) -> _Names:
        if result not in get_args(Result):
            _nothing(f"no run ends with `{result[:60]}`", result, "results", get_args(Result))
        if not self._selection.results:
            hint = "`etc apply` keeps how it ended for each policy in the target folder"
            raise UsageError(Code.BAD_SELECTION, f"`result:{result}` needs an earlier run", hint=hint)
        return self._found(self._selection.results, result)

    def _by_freshness(self, status: str) -> _Names:
        if status not in get_args(FreshnessStatus):
            _nothing(f"no freshness is `{status[:60]}`", status, "statuses", get_args(FreshnessStatus))
        if not self._selection.freshness:
            hint = "run `etc freshness`, which keeps what it found in the target folder"
            raise UsageError(Code.BAD_SELECTION, f"`freshness:{status}` needs what was found before", hint=hint)
        return self._found(self._selection.freshness, status)

    def _found(self, found: Mapping[str, str], wanted: str) -> _Names:
        """The policies of which that was found."""
        return self.enabled if self._any_state else self._names(lambda policy: found.get(policy.name) == wanted)

    def _names(self, matches: Callable[[Policy], bool]) -> _Names:
        return frozenset(policy.name for policy in self._policies if matches(policy))


def _matching(names: Iterable[str], pattern: str) -> _Names:
    return frozenset(name for name in names if glob_matches(name, pattern))


def _require_comparable(now: Manifest, earlier: Manifest) -> None:
    """Return where manifests are of one target and one set of variables; else every policy could differ.

    Raises:
        UsageError: they are not.

    """
    if now.target and earlier.target and now.target != earlier.target:
        message = f"the manifest of `--state` is of the target `{earlier.target}`, this run is of `{now.target}`"
        hint = f"compare with that of `etc compile --target {now.target} --target-dir DIR`"
        raise UsageError(Code.BAD_STATE, message, hint=hint)
    names = sorted(now.vars.keys() | earlier.vars.keys())
    other = [
        name
        for name in names
        if (name in now.vars, now.vars.get(name)) != (name in earlier.vars, earlier.vars.get(name))
    ]
    if other:
        message = (
            f"the manifest of `--state` was made with other values of --vars: {', '.join(f'`{n}`' for n in other[:10])}"
        )
        raise UsageError(Code.BAD_STATE, message, hint="compile both with the same --vars")


def _declared_as(policy: Policy) -> str:
    """The policy's name; for a table that a namespace found the namespace, as no name of a policy can be."""
    return policy.name if policy.found_by is None else f"*{policy.found_by}"


def _comparable(policy: Policy, manifest: Manifest) -> tuple[bool, str]:
    """What decides whether a policy was modified; a table below the manifest's root counts by its relative path."""
    if policy.found_by is not None:
        return policy.enabled, manifest.namespaces.get(policy.found_by, "")
    root = manifest.table_root
    if root and policy.table.startswith(f"{root}/"):
        policy = policy.model_copy(update={"table": policy.table.removeprefix(f"{root}/")})
    return policy.enabled, policy.fingerprint


def _nothing(message: str, word: str, what: str, known: Sequence[str], code: Code = Code.BAD_SELECTION) -> NoReturn:
    """Raise that a word means nothing, with the nearest known one, or some that are known."""
    others = f"the {what} are {some_of(known, 10)}" if known else f"there are no {what}"
    raise UsageError(code, message, hint=did_you_mean(word, known) or others)
