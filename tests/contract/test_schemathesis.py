"""The service answers as its document says: schemathesis finds no undocumented answer."""

from pathlib import Path

import pytest

from tests.contract.fuzz import fuzz

REPEATABLE = ("--seed", "1", "--generation-deterministic")
PHASES = "examples,coverage,fuzzing,stateful"


@pytest.mark.parametrize(
    ("phases", "examples"),
    [("examples,coverage,stateful", 1), pytest.param(PHASES, 4, marks=pytest.mark.slow)],
    ids=["without fuzzing", "all phases"],
)
async def test_service_answers_as_its_document_says(
    tmp_path: Path, database_url: str, phases: str, examples: int
) -> None:
    log = tmp_path / "schemathesis.log"
    arguments = (*REPEATABLE, "--phases", phases, "--max-examples", str(examples))
    with log.open("w") as output:
        code = await fuzz(tmp_path, {"url": database_url}, arguments, is_short=True, output=output)
    assert code == 0, log.read_text()
