"""The service answers as its document says: schemathesis finds no undocumented answer."""

from pathlib import Path

from tests.contract.fuzz import fuzz

EXAMPLES = ("--seed", "1", "--generation-deterministic", "--max-examples", "4")


async def test_the_service_answers_as_its_document_says(tmp_path: Path, database_url: str) -> None:
    log = tmp_path / "schemathesis.log"
    with log.open("w") as output:
        code = await fuzz(tmp_path, {"url": database_url}, EXAMPLES, json_alone=True, output=output)
    assert code == 0, log.read_text()
