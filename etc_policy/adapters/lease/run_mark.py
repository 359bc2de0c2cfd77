"""What a run writes into the local lease: should it die, whoever takes the lease next knows whose traces it finds."""

from __future__ import annotations

from dataclasses import dataclass

_UNKNOWN = "-"
_ENDED = "ended"


@dataclass(frozen=True, slots=True)
class RunMark:
    """Who ran what: the compaction's instant, a token of the run's own, and the boot of a machine that did all of the work.

    `boot` is `-` where other machines had a part in it. `found` is when the inflight file was made of the dead run before,
    empty without one, and `made` when that of this run was: None until then, empty where it is missing. `ended` says that
    the run did not die.

    As text these are words: `<instant> <token> <boot> <found>`, then `<made>`, then `ended`. Versions of etc share the text.
    """

    instant: str = ""
    token: str = ""
    boot: str = _UNKNOWN
    found: str = ""
    made: str | None = None
    ended: bool = False

    @classmethod
    def parse(cls, text: str) -> RunMark:
        """The mark of such a text; what it lacks is unknown, as in the shorter ones of earlier versions."""
        words = text.split(" ")
        ended = words[-1] == _ENDED
        if ended:
            words.pop()
        instant, token, boot, found = (*words, *("", "", _UNKNOWN, _UNKNOWN)[len(words) :])[:4]
        made = words[4] if len(words) > 4 else None
        return cls(instant, token, boot, "" if found == _UNKNOWN else found, made, ended)

    @property
    def text(self) -> str:
        """The mark as it is in the lease; empty for no run at all."""
        if not self.instant:
            return ""
        words = [self.instant, self.token, self.boot, self.found or _UNKNOWN]
        words += [self.made] if self.made is not None else []
        return " ".join([*words, _ENDED] if self.ended else words)
