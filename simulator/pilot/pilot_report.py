"""What a pilot has shown: as lines, as JSON, and as an HTML page; without the name of the account."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from simulator.checks.findings import count
from simulator.program import version
from simulator.report.html.html_report import ReportContent, as_page, of_run
from simulator.report.timeline.build import without_secrets
from simulator.report.timeline.timeline import Timeline
from simulator.report.words import Line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simulator.checks.reports import CheckResult
    from simulator.pilot.container import Anonymous
    from simulator.pilot.traffic import Latency
    from simulator.real.run import RunOutcome
    from simulator.report.words import LineMark

FORMAT: Final = 1
KINDS: Final = {"violation": "failed", "unproven": "unknown", "note": "note"}
_MARKS: Final[dict[str, LineMark]] = {"violation": "bad", "unproven": "open", "note": "note"}
PilotOutcome = Literal["holds", "failed", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotResult:
    """What a pilot has shown.

    Attributes:
        parts: what was tried; a finding is what failed, is unknown, or is worth knowing.
        left_out: what did not fit into the time.
        run: the storm, if it came to a verdict.
        cut: why not everything was tried; empty if everything was.
        left_behind: what the user has to delete, in words; empty if nothing is left.
    """

    parts: Sequence[CheckResult]
    latencies: Sequence[Latency]
    left_out: Sequence[str]
    requests: int
    seconds: float
    run: RunOutcome | None = None
    cut: str = ""
    left_behind: str = ""

    @property
    def outcome(self) -> PilotOutcome:
        """``failed``: locks can't rely on something here; ``unknown``: something could not be seen."""
        kinds = {finding.kind for part in self.parts for finding in part.findings}
        return "failed" if "violation" in kinds else "unknown" if "unproven" in kinds else "holds"

    def headline(self) -> Line:
        """Say the result in a sentence."""
        findings = [finding.kind for part in self.parts for finding in part.findings]
        failed, unknown = (count(findings.count(kind), "finding") for kind in ("violation", "unproven"))
        ended = f" The pilot ended early: {self.cut}." if self.cut else ""
        match self.outcome:
            case "failed":
                return Line("bad", f"Locks can't rely on this account: {failed}, and {unknown} unknown.{ended}")
            case "unknown":
                return Line("open", f"Nothing was found against this account; {unknown} unknown.{ended}")
            case _:
                return Line("good", "This account does what locks rely on, as far as was tried.")

    def lines(self) -> Iterator[Line]:
        """Return the result as sentences: each part, and its findings."""
        for part in self.parts:
            looked = ", ".join(f"{number:,} {what}" for what, number in part.looked_at.items())
            kinds = {finding.kind for finding in part.findings}
            mark: LineMark = next((_MARKS[kind] for kind in ("violation", "unproven") if kind in kinds), "good")
            yield Line(mark, f"{part.name}: {looked or 'nothing tried'}")
            for finding in part.findings:
                yield Line(_MARKS[finding.kind], f"  {KINDS[finding.kind]}: {finding.text}")
        yield from (Line("note", f"Left out: {each}.") for each in self.left_out)
        if self.left_behind:
            yield Line("open", f"Left behind: {self.left_behind}.")

    def table(self) -> list[str]:
        """Return the latencies as lines."""
        head = f"{'milliseconds':<22}{'requests':>9}{'median':>9}{'95 %':>9}{'longest':>9}"
        return [head] + [
            f"{each.operation + ', ' + each.way:<22}{each.requests:>9}{each.median:>9}{each.p95:>9}{each.longest:>9}"
            for each in self.latencies
        ]

    def as_json(self, anonymous: Anonymous) -> str:
        """Return the result as JSON."""
        verdict = self.run.verdict if self.run else None
        told: dict[str, Any] = {
            "format": FORMAT,
            "version": version(),
            "account": "account-1",
            "outcome": self.outcome,
            "seconds": round(self.seconds, 1),
            "requests": self.requests,
            "left_out": list(self.left_out),
            "ended_early": self.cut,
            "left_behind": self.left_behind,
            "parts": [
                {
                    "part": part.name,
                    "promise": part.promise,
                    "tried": dict(part.looked_at),
                    "findings": [{"outcome": KINDS[each.kind], "said": each.text} for each in part.findings],
                }
                for part in self.parts
            ],
            "latencies": [asdict(each) for each in self.latencies],
            "verdict": verdict.to_dict() if verdict else None,
        }
        return json.dumps(anonymous.told(without_secrets(told)), indent=2) + "\n"

    def as_html(self, anonymous: Anonymous) -> str:
        """Return the result as an HTML page; its timeline is that of the storm."""
        page = ReportContent(
            title="singleton-sim pilot",
            headline=self.headline(),
            lines=(),
            facts=(),
            timeline=Timeline(duration=0.0, hosts=(), locks=()),
        )
        checks: Sequence[CheckResult] = ()
        if self.run is not None and self.run.verdict is not None:
            page = of_run(self.run.records, self.run.verdict, "")
            checks = page.checks
        page = replace(
            page,
            title="singleton-sim pilot",
            headline=self.headline(),
            lines=[*self.lines(), *(Line(each.mark, f"storm: {each.text}") for each in page.lines)],
            facts=[
                ("requests", f"{self.requests:,}"),
                ("seconds", f"{self.seconds:.0f}"),
                *(fact for fact in page.facts if fact[0] != "seconds"),
            ],
            checks=[*self.parts, *checks],
            story=self.table(),
            again="singleton-sim pilot --connection NAME",
        )
        return as_page(page, anonymous.told)
