"""The tool `search_documents` among 100,000 documents of one organization, all of which the agent finds."""

import time
from uuid import UUID

import asyncpg

from tests.acceptance.client import Client
from tests.benchmarks.bench import Bench
from tests.benchmarks.figures import Figure, Result, Unit, percentile

DOCUMENTS = 100_000
P95_BAR_MS = 20.0
WARM_UP = 10
SEARCHES = 100

# Half of the documents belong to the agent, half to all agents. Small numbers of words are common.
FILL = """
INSERT INTO document (
    id, organization_id, agent_id, title, content, language, path, created_at, updated_at)
SELECT gen_random_uuid(), a.organization_id, CASE n % 2 WHEN 0 THEN a.id END, 'Note ' || n,
       'Appointment number ' || n || ': ' || text.words, 'english',
       CASE n % 2 WHEN 0 THEN '/memories/' || n || '.md' END, now(), now()
FROM agent a, generate_series(1, $2::integer) AS n
CROSS JOIN LATERAL (
    SELECT string_agg('word' || floor(power(random(), 3) * 20000)::integer, ' ') AS words
    FROM generate_series(1, 100) AS w WHERE n > 0
) AS text
WHERE a.id = $1
"""
QUERIES = {
    "a word of all documents": "appointments",
    "a common word": "word0",
    "a rare word": "word19000",
    "a common and a rare word": "appointment word19001",
    "two common words": "word0 word1",
    "a phrase": '"appointment number 77777"',
    "either of two common words": "appointment or word0",
    "all documents without a word": "appointment -word0",
    "an unknown word": "plumber",
    "a whole sentence": "Which appointment is word0 of word1 and word19002 with the plumber?",
}


async def measure(bench: Bench) -> Result:
    """Call the tool over HTTP, one call after the other."""
    async with bench.service() as service:
        client = service.client
        agent = await client.create_agent(language="english")
        database = await asyncpg.connect(service.database_url)
        await database.execute(FILL, UUID(agent), DOCUMENTS, timeout=600)
        await database.execute("VACUUM ANALYZE document", timeout=600)
        await database.close()
        figures = [
            Figure(f"{name}, p95", await _p95_ms(client, agent, query), Unit.MS, at_most=P95_BAR_MS)
            for name, query in QUERIES.items()
        ]
    return Result("search", f"Search of {DOCUMENTS:,} documents of one organization", figures)


async def _p95_ms(client: Client, agent: str, query: str) -> float:
    path = f"/api/cloud/agents/{agent}/tools/search_documents/"
    times: list[float] = []
    for _ in range(WARM_UP + SEARCHES):
        began = time.perf_counter()
        await client.post(path, query=query)
        times.append((time.perf_counter() - began) * 1000)
    return percentile(0.95, times[WARM_UP:])
