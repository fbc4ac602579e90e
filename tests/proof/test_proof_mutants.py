"""The planted faults stay what they are said to be (that each is caught is `make mutants`)."""

from __future__ import annotations

import argparse
import ast
import re
import shutil
from pathlib import Path

import pytest

from proof.arguments import BadArgument
from proof.mutants import main, patches, trial
from proof.mutants.patches import BadHeader, DoesNotApply, Mutant

ROOT = patches.FOLDER.parents[1]
HEADER = "Fault: a fault\nLaw: 1\nCaught-by: crash\n\n"
DIFF = "--- a/src/semel/law/turn.py\n+++ b/src/semel/law/turn.py\n@@ -1 +1 @@\n-old\n+new\n"


def test_there_are_at_least_fifteen_and_each_part_has_one() -> None:
    known = patches.all_of()
    assert len(known) >= 15
    assert {one.part for one in known} == set(patches.CATCHERS)
    assert len({one.fault for one in known}) == len(known), "two mutants are the same fault"


def test_the_sample_is_small_and_has_several_parts() -> None:
    sample = [one for one in patches.all_of() if one.quick]
    assert 4 <= len(sample) <= 8
    assert len({one.part for one in sample}) >= 3


@pytest.mark.parametrize("mutant", patches.all_of(), ids=lambda mutant: mutant.name)
def test_each_still_applies_and_changes_what_the_program_does(mutant: Mutant, tmp_path: Path) -> None:
    """A patch that was moved to a wrong line by a tool is a syntax error or a comment, which proves nothing."""
    for file in mutant.files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    patches.apply(mutant, tmp_path)
    assert all(meaning(tmp_path / file) != meaning(ROOT / file) for file in mutant.files)


def meaning(path: Path) -> str:
    """The code of a file without comments and docstrings. Raises SyntaxError."""
    text = path.read_text("utf-8")
    if path.suffix == ".sql":
        return re.sub(r"--.*", "", text)
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            node.body.pop(0)
    return ast.dump(tree)


def test_a_patch_whose_surroundings_changed_does_not_apply(tmp_path: Path) -> None:
    mutant = patches.all_of()[0]
    for file in mutant.files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    patches.apply(mutant, tmp_path)
    assert (tmp_path / mutant.files[0]).read_bytes() != (ROOT / mutant.files[0]).read_bytes()
    with pytest.raises(DoesNotApply, match="mend tests/mutants/"):
        patches.apply(mutant, tmp_path)  # it was applied: what it changes is not what it was


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Fault: a fault\nLaw: 1\n\n" + DIFF, "does not say Caught-by"),
        (HEADER.replace("Law: 1", "Law: 15") + DIFF, "Law is '15'"),
        (HEADER.replace("crash", "luck") + DIFF, "Caught-by is 'luck'"),
        (HEADER.replace("Law: 1", "Why: because") + DIFF, "is no line of a header"),
        (HEADER, "below src/semel"),
        (HEADER + DIFF.replace("src/semel/law", "tests/law"), "below src/semel"),
    ],
)
def test_a_header_that_says_too_little_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "one.patch"
    path.write_text(text)
    with pytest.raises(BadHeader, match=re.escape(says)):
        patches.read(path)


ENDED = "schedules  200 seeds; {} violations; 12 s\n"


@pytest.mark.parametrize(
    ("code", "said", "verdict"),
    [
        (1, ENDED.format(1) + "  ! seed 7: two copies; python -m proof schedules --seed 7\n", "caught"),
        (0, ENDED.format(0), "survived"),
        (1, "Traceback (most recent call last):\nImportError: no name\n", "broken"),
        (1, ENDED.format(1) + "  ! seed 7: NameError: name 'x' is not defined; ...\n", "broken"),
        (2, ENDED.format(1) + "  ! seed 7: two copies\n", "broken"),
        (1, "schedules  NOT RUN: no compiler\n", "missing"),
        (1, "  ! a line by itself\n", "broken"),
    ],
)
def test_only_a_violation_that_is_told_as_one_counts_as_caught(code: int, said: str, verdict: str) -> None:
    assert trial.judged("schedules", code, said, 1.0)[0] == verdict


def test_what_runs_is_the_copy(tmp_path: Path) -> None:
    (tmp_path / "src" / "semel").mkdir(parents=True)
    (tmp_path / "src" / "semel" / "__init__.py").write_text("")
    (tmp_path / "src" / "semel" / "odd.py").write_text("import semel.nothing\n")
    assert trial.check_what_runs(tmp_path, ()) is None
    assert "No module named 'semel.nothing'" in str(trial.check_what_runs(tmp_path, ("semel.odd",)))
    shutil.rmtree(tmp_path / "src" / "semel")
    assert "would run instead of the copy" in str(trial.check_what_runs(tmp_path, ()))


def test_a_mutant_that_survives_and_one_that_is_broken_are_violations(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = patches.all_of()[:3]
    ends = ("caught", "survived", "broken")
    runs = iter([trial.Outcome("survived", 1.0, "nothing found"), *(trial.Outcome(e, 1.0, "why") for e in ends)])  # type: ignore[arg-type]
    tried = [main.Tried(one, outcome) for one, outcome in zip(chosen, list(runs)[1:], strict=True)]
    proof = main._proof(chosen, {chosen[0].command: trial.Outcome("survived", 1.0, "")}, tried)
    assert (proof.counts["mutants"], proof.counts["caught"]) == (3, 1)
    assert [line.split()[0] for line in proof.violations] == [chosen[1].name, chosen[2].name]
    unsound = main._proof(chosen[:1], {chosen[0].command: trial.Outcome("caught", 1.0, "a false alarm")}, tried[:1])
    assert len(unsound.violations) == 1
    assert "without a fault" in unsound.violations[0]


def test_an_unknown_name_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    main.options(parser)
    with pytest.raises(BadArgument, match="no mutant 'no-such-fault'"):
        main.prove(False, parser.parse_args(["--only", "no-such-fault"]))
    proof = main.prove(True, parser.parse_args(["--list"]))
    assert proof.holds
    assert len(capsys.readouterr().out.splitlines()) == proof.counts["mutants"]
