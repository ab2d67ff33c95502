"""The service answers as its document says: schemathesis finds no undocumented answer."""

from pathlib import Path

import pytest

from tests.contract.fuzz import fuzz

PHASES = "examples,fuzzing,stateful"  # the values of "coverage" are those of test_dialect.py
OPTIONS = ("--seed", "1", "--generation-deterministic", "--phases", PHASES, "--max-examples", "1")


@pytest.mark.slow
async def test_service_answers_as_its_document_says(tmp_path: Path, database_url: str) -> None:
    log = tmp_path / "schemathesis.log"
    with log.open("w") as output:
        code = await fuzz(tmp_path, {"url": database_url}, OPTIONS, is_short=True, output=output)
    assert code == 0, log.read_text()
