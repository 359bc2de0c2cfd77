"""What the next proof may rest on, folded over verifications side by side, against what each of them has seen."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from etc_policy.policy.manifest import EventTime, Policy, Verify
from etc_policy.table.apply_state import ApplyState, ComparedFiles, Looked, Proof
from etc_policy.table.proofs import Judgement, after_begin, after_verdict, compared_before, compared_subject, last_write
from etc_policy.table.state import CompactionRecord, TableState
from tests.unit.plan.plan_cases import state_of

RELEASE, EVERY_MS = "1.2.0", 10
POLICY = Policy(
    name="t",
    table="/t",
    event_time=EventTime(column="ts", unit="ms"),
    data_latency_ms=0,
    verify=Verify.model_validate({"full_every": f"{EVERY_MS}ms"}),
)
RECORD = CompactionRecord("20260101120000000", "20260101120001000", 1_000, "t", "plan")
STATE = replace(state_of("/t", {}), last_compaction=RECORD)
PARTITIONS = ("a", "b", "c")


@dataclass
class Content:
    """A partition's files: their version, whether a row in them is wrong, and whether there is a log file."""

    version: int = 0
    is_wrong: bool = False
    is_open: bool = False


@dataclass
class Running:
    """A verification: what it read, what it believed, and since when."""

    state: TableState
    listed: dict[str, str]
    believed: dict[str, int]
    wrong: bool
    at_ms: int
    read: frozenset[tuple[str, str]]


@dataclass
class World:
    """A table, what is kept of it, and what was truly seen: the versions that were compared and found right, and when."""

    contents: dict[str, Content] = field(default_factory=lambda: {name: Content() for name in PARTITIONS})
    kept: ApplyState = field(default_factory=ApplyState)
    now_ms: int = 0
    running: list[Running] = field(default_factory=list)
    seen_right: dict[tuple[str, str], int] = field(default_factory=dict)
    fulls: list[int] = field(default_factory=list)
    failed_ms: int = -1

    def write(self, name: str, kind: str) -> None:
        one = self.contents[name]
        if kind == "flip a byte":  # nothing shows it but a comparison of all rows
            one.is_wrong = True
        else:
            one.version, one.is_wrong, one.is_open = one.version + 1, kind == "wrong", kind == "log file"

    def listed(self) -> dict[str, str]:
        return {name: str(one.version) for name, one in self.contents.items() if not one.is_open}

    def believed(self, state: TableState) -> dict[str, int]:
        return compared_before(POLICY, state, RELEASE, self.listed(), self.now_ms)

    def begin(self) -> None:
        state, listed = replace(STATE, apply_state=self.kept), self.listed()
        self.kept = after_begin(self.kept, POLICY, state)
        believed = self.believed(state)
        compared = {name: one for name, one in self.contents.items() if name not in believed}
        read = frozenset((name, listed[name]) for name in compared if name in listed)
        wrong = any(one.is_wrong for one in compared.values())
        self.running.append(Running(state, listed, believed, wrong, self.now_ms, read))

    def end(self, place: int, outcome: str) -> None:
        if not self.running:
            return
        one = self.running.pop(place % len(self.running))
        status = "error" if outcome == "dies" else "fail" if one.wrong else "pass"
        before = one.state.apply_state.compared_files if one.believed else None
        files = ComparedFiles(
            subject=compared_subject(POLICY, one.state, RELEASE),
            full_ms=before.full_ms if before else one.at_ms,
            last_write=last_write(one.state),
            partitions={name: (files, one.believed.get(name, one.at_ms)) for name, files in one.listed.items()},
        )
        passed = status == "pass"
        oldest_ms = min(one.believed.values(), default=None)
        proof = Proof(level="data", until_ms=1_000, proved_at_ms=self.now_ms, rests_on_ms=oldest_ms)
        judgement = Judgement(
            level="data",
            status=status,
            failures=f"found at {self.now_ms}",  # two that find the very same cannot be told apart
            proof=proof if passed else None,
            rows=Looked(level="data", until_ms=1_000, checks=("x",)),
            faults=("x",) if status == "fail" else None,
            covers=True,
            files=files,
            rests=bool(one.believed),
        )
        self.kept = after_verdict(self.kept, POLICY, one.state, judgement)
        if status == "fail":
            self.failed_ms = self.now_ms
        if passed:
            self.seen_right |= {files: max(one.at_ms, self.seen_right.get(files, 0)) for files in one.read}
            self.fulls += [] if one.believed else [one.at_ms]

    def judge(self) -> None:
        """What is believed was seen, not before what is said of it, within the time of a comparison of all; after a failure
        nothing is before all was compared again, by one that began after that."""
        believed = self.believed(replace(STATE, apply_state=self.kept))
        for name, at_ms in believed.items():
            seen_ms = self.seen_right.get((name, str(self.contents[name].version)))
            assert seen_ms is not None and seen_ms >= at_ms, f"{name} is believed since {at_ms}, seen {seen_ms}"
            assert not self.contents[name].is_open
        if believed:
            last_full = max(self.fulls, default=-1)
            assert self.now_ms - last_full < EVERY_MS, f"believed at {self.now_ms}, all were compared at {last_full}"
            assert last_full > self.failed_ms or self.failed_ms < 0, "believed after a failure"
        doubts = [one for one in self.kept.unproven if one.verification == "fail"]
        assert not (doubts and believed), "believed in doubt"


STEPS = st.one_of(
    st.tuples(
        st.just("write"), st.sampled_from(PARTITIONS), st.sampled_from(("right", "wrong", "log file", "flip a byte"))
    ),
    st.tuples(st.just("begin")),
    st.tuples(st.just("end"), st.integers(0, 2), st.sampled_from(("ends", "ends", "ends", "dies"))),
    st.tuples(st.just("verify")),
    st.tuples(st.just("wait"), st.integers(1, EVERY_MS)),
)


@settings(max_examples=500, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_nothing_is_believed_that_was_not_compared(steps):
    world = World()
    for kind, *arguments in steps:
        world.now_ms += 1
        if kind == "write":
            world.write(*arguments)
        elif kind == "begin":
            world.begin()
        elif kind == "end":
            world.end(*arguments)
        elif kind == "wait":
            world.now_ms += arguments[0]
        else:
            world.begin()
            world.now_ms += 1
            world.end(len(world.running) - 1, "ends")
        world.judge()


def test_the_world_believes_something():
    """Else the property would hold of nothing."""
    world = World()
    for _ in range(2):
        world.begin()
        world.now_ms += 1
        world.end(0, "ends")
    assert world.believed(replace(STATE, apply_state=world.kept)) == dict.fromkeys(PARTITIONS, 0)
