"""A trace of 30,000 spans in a real browser: how soon its rows are there, and how long a task takes."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg
from playwright.async_api import Page

from tests import chromium
from tests.benchmarks.bench import Bench
from tests.benchmarks.figures import Figure, Result, Unit
from tests.console.conftest import sign_up
from tests.console.visits import Console, Person

SPANS = 30_000
LOADED_BAR_MS = 1000
TASK_BAR_MS = 50
VISITS = 5

# A root, 3,000 turns and their model and tool calls, of which some fail.
FILL = """
WITH made AS (
    SELECT n, md5('span' || n)::uuid AS id, t.id AS trace_id,
           t.started_at + n * interval '100 ms' AS started_at,
           CASE WHEN n = 0 THEN NULL WHEN n % 10 = 0 THEN md5('span0')::uuid
                ELSE md5('span' || n / 10 * 10)::uuid END AS parent_id
    FROM trace t, generate_series(0, $2::integer - 1) AS n WHERE t.id = $1
), counted AS (
    INSERT INTO trace_size (trace_id, span_count) VALUES ($1, $2)
)
INSERT INTO span (id, trace_id, parent_id, name, span_type, started_at, ended_at, error,
                  input_tokens, cost_usd)
SELECT id, trace_id, parent_id,
       CASE n % 10 WHEN 0 THEN 'turn ' || n / 10 ELSE 'chat gpt-5 ' || n END,
       CASE n % 10 WHEN 0 THEN 'agent' ELSE 'llm' END,
       started_at, started_at + CASE n % 10 WHEN 0 THEN interval '1 s' ELSE interval '70 ms' END,
       CASE n % 997 WHEN 996 THEN 'dark' ELSE '' END, n, n * 0.000001
FROM made
"""
WATCH = """
window.seen = {};
window.tasks = [];
new PerformanceObserver((list) => list.getEntries().forEach((one) => tasks.push(one.duration)))
    .observe({ type: "longtask", buffered: true });
new MutationObserver(() => {
    if (document.querySelector("[role=treeitem]")) seen.first ??= performance.now();
    const count = document.querySelector(".run-tools [role=status]")?.textContent;
    if (count === %r) seen.all ??= performance.now();
}).observe(document, { childList: true, subtree: true, characterData: true });
"""
SCROLL = """async () => {
    const rows = document.querySelector(".run-rows");
    tasks.length = 0;
    for (let step = 0; step < 200; step += 1) {
        rows.scrollTop = step % 2 ? step * 90 : (step * 9300) % rows.scrollHeight;
        await new Promise(requestAnimationFrame);
    }
    await new Promise((done) => setTimeout(done, 100));
    return Math.max(0, ...tasks);
}"""


@dataclass(frozen=True, slots=True)
class Visit:
    """The times that a browser saw: milliseconds since the address was opened, and of the longest task."""

    first_rows_ms: float
    all_rows_ms: float
    longest_task_ms: float
    heap_mb: float


async def measure(bench: Bench) -> Result:
    """Open the trace again and again, each time in a new browser profile. The best figures are judged."""
    async with bench.service() as service, chromium.browser() as browser:
        person = await sign_up(service.client.session, service.server.url)
        trace = await _fill(person, service.database_url)
        console = Console(browser, await browser.new_context(), service.server.url)
        visits = [await _visit(console, person, trace) for _ in range(VISITS)]
        await console.close()
    figures = [
        Figure("first rows after, best", min(visit.first_rows_ms for visit in visits), Unit.MS),
        Figure(
            "all rows after, best",
            min(visit.all_rows_ms for visit in visits),
            Unit.MS,
            at_most=LOADED_BAR_MS,
        ),
        Figure(
            "longest task while scrolling, best",
            min(visit.longest_task_ms for visit in visits),
            Unit.MS,
            at_most=TASK_BAR_MS,
        ),
        Figure("heap, worst", max(visit.heap_mb for visit in visits), Unit.MB),
    ]
    return Result("waterfall", f"A trace of {SPANS:,} spans in Chromium", figures)


async def _fill(person: Person, database_url: str) -> str:
    agent = await person.client.create_agent()
    trace: str = (await person.client.post("/api/tracing/traces/", agent=agent, name="Long"))["id"]
    database = await asyncpg.connect(database_url)
    await database.execute(FILL, UUID(trace), SPANS, timeout=600)
    await database.execute("VACUUM ANALYZE span", timeout=600)
    await database.close()
    await person.client.post(f"/api/tracing/traces/{trace}/end/")
    return trace


async def _visit(console: Console, person: Person, trace: str) -> Visit:
    page: Page = await console.open("/sign-in", person, locale="en-GB")  # an option is a profile of its own
    await page.add_init_script(WATCH % f"{SPANS:,} steps")
    await page.goto(f"{console.url}/console/traces/{trace}")
    await page.get_by_text(f"{SPANS:,} steps", exact=True).wait_for()
    seen: dict[str, Any] = await page.evaluate("seen")
    longest = await page.evaluate(SCROLL)
    heap = await page.evaluate("performance.memory.usedJSHeapSize")
    await page.close()
    return Visit(seen["first"], seen["all"], longest, heap / 1e6)
