"""Usage by day and model: the chart, the same figures as a table, and a file for spreadsheets."""

import csv
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.async_api import expect

from tests.console.visits import Console, Person

DAYS = "from=2026-03-01&to=2026-03-04"
FORMULA = '=HYPERLINK("http://127.0.0.1/")'
CALLS = ((1, "openai/gpt-4o", 0.5), (3, "openai/gpt-4o", 1.25), (3, FORMULA, 2.0))


async def report(person: Person, calls: Iterable[tuple[int, str, float]]) -> str:
    """Report calls of an agent, as day of March 2026, model and cost. Return the id of the agent."""
    agent = await person.client.create_agent(name="Clerk")
    for day, model, cost_usd in calls:
        await person.client.post(
            f"/api/cloud/agents/{agent}/usage/",
            model=model,
            input_tokens=1000,
            output_tokens=100,
            cost_usd=cost_usd,
            occurred_at=f"2026-03-{day:02}T12:00Z",
        )
    return agent


async def test_usage_shows_chart_cap_and_table_of_same_figures(console: Console, person: Person) -> None:
    organization = f"/api/organizations/organizations/{person.organization['id']}/"
    await person.client.patch(organization, max_cost_usd_per_day=4)
    await report(person, CALLS)

    page = await console.open(f"/usage?{DAYS}", person)

    chart = page.get_by_role("img", name="Cost by day from 2026-03-01 to 2026-03-04; the highest is $3.25")
    await expect(chart.locator(".usage-cap")).to_have_count(1)
    bars = [await path.get_attribute("d") or "" for path in await chart.locator("path").all()]
    assert [path.count("M") for path in bars] == [1, 2]  # of the model of one day, and of that of two
    await expect(page.get_by_text("Cap: $4.00 a day")).to_be_visible()
    table = page.get_by_role("region", name="Cost by day and model")
    await expect(table.get_by_role("row", name="2026-03-03")).to_have_text(
        re.compile(r"2026-03-03\s*\$3\.25\s*\$2\.00\s*\$1\.25")
    )
    await expect(page.get_by_role("link", name="Clerk")).to_be_visible()


async def test_usage_is_downloaded_without_formulas(console: Console, person: Person, tmp_path: Path) -> None:
    await report(person, CALLS)
    page = await console.open(f"/usage?{DAYS}", person)
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Download CSV").click()
    file = await download.value
    assert file.suggested_filename == "usage_2026-03-01_2026-03-04.csv"
    await file.save_as(tmp_path / "usage.csv")
    with (tmp_path / "usage.csv").open(newline="", encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    assert [(row["day"], row["model"], row["total_cost_usd"]) for row in rows] == [
        ("2026-03-01", "openai/gpt-4o", "0.5"),
        ("2026-03-03", f"'{FORMULA}", "2"),
        ("2026-03-03", "openai/gpt-4o", "1.25"),
    ]


async def test_choices_of_usage_are_in_the_address(console: Console, person: Person) -> None:
    agent = await report(person, CALLS)
    page = await console.open(f"/usage?{DAYS}&agent={agent}", person)
    await page.get_by_label("Show").select_option("Tokens")
    chart = page.get_by_role("img", name="Tokens by day")
    box = await chart.bounding_box()
    assert box is not None
    await chart.click(position={"x": box["width"] * 5 / 8, "y": 10})  # the third of four days
    await expect(page.get_by_text("2026-03-03: 2,200")).to_be_visible()
    await expect(page).to_have_url(
        f"{console.url}/console/usage?{DAYS}&agent={agent}&by=tokens&day=2026-03-03"
    )
    await expect(page.get_by_text("Agent: Clerk")).to_be_visible()
    before = await page.get_by_role("main").inner_text()
    await page.reload()
    await expect(page.get_by_role("main")).to_have_text(before, use_inner_text=True)

    await page.get_by_role("button", name="7 days").click()
    await expect(page.get_by_role("heading", name="No model was called in this period")).to_be_visible()
    today = datetime.now(UTC).date()
    await expect(page).to_have_url(re.compile(f"from={today - timedelta(days=6)}&to={today}"))

    start = page.get_by_label("from", exact=True)
    await start.fill("3/1/2026")
    await start.press("Enter")
    assert await start.evaluate("field => field.validationMessage") == "Write it as YYYY-MM-DD."
    await start.fill("2026-03-01")
    await expect(page.get_by_role("img", name="Tokens by day")).to_be_visible()
    await expect(page).to_have_url(re.compile(f"from=2026-03-01&to={today}"))
