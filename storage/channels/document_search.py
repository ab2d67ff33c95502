"""Full-text search of documents, by PostgreSQL.

The index holds the owners of a document among its words (see the function `document_search` in the
migrations), so that a search reads only the documents of one agent or organization with these words. The text
of another owner's document might produce such a lexeme, so the owners are compared, too.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Self
from uuid import UUID

from storage.model import Agent
from storage.postgres.pool import Pool
from storage.postgres.query import Conditions
from storage.postgres.rows import fetch_all

MAX_RANKED = 500  # documents among which the best are chosen
MAX_EXAMINED = 2000  # documents with all the words, of which some may not contain them as a phrase
MANY = 5000  # documents of which common words are looked for in the newest only
NEWEST = 200  # documents that tell whether the words are common
COMMON = 50  # of them with the words make these common
MAX_HITS = 50
MAX_QUERY_CHARACTERS = 500

# A query without words, such as "!", finds nothing: it would otherwise be one for the owner alone. The index
# lists all documents with the words before one is read, so among many documents common words are looked for
# in the newest only. It knows no positions, so phrases are found as words, and compared afterwards. LIMIT $7
# also keeps the planner from reading all documents of the owner instead.
SEARCH = """
WITH parsed AS MATERIALIZED (
    SELECT websearch_to_tsquery('simple', $2) AS plain,
           websearch_to_tsquery(CASE $3::text WHEN '' THEN 'simple' ELSE $3::text END::regconfig, $2) AS stems
), words AS MATERIALIZED (
    SELECT query, CASE WHEN query::text LIKE '%!%' THEN query
                       ELSE regexp_replace(query::text, '<[-0-9]+>', '&', 'g')::tsquery END AS loose
    FROM (SELECT CASE WHEN plain = stems THEN plain ELSE plain || stems END AS query FROM parsed) AS q
    WHERE numnode(query) > 0
), newest AS MATERIALIZED (
    SELECT d.id, d.search FROM words w
    CROSS JOIN unnest($4::uuid[]) AS o (id)
    CROSS JOIN LATERAL (
        SELECT * FROM document WHERE organization_id = o.id
        ORDER BY created_at DESC, id DESC LIMIT greatest(1, $5 / cardinality($4::uuid[]))
    ) d
    WHERE (SELECT count(*) FROM (
               SELECT FROM document WHERE organization_id = ANY($4::uuid[]) LIMIT $10) AS present) = $10
      AND d.search @@ w.query AND d.deleted_at IS NULL
      AND coalesce((SELECT a.deleted_at IS NULL FROM agent a WHERE a.id = d.agent_id), true) /* and */
), candidate AS MATERIALIZED (
    SELECT id, search FROM newest WHERE (SELECT count(*) FROM newest) >= $6
    UNION ALL
    (SELECT d.id, d.search FROM words w
     CROSS JOIN LATERAL (
         SELECT * FROM document WHERE search @@ (SELECT $1::text::tsquery && loose FROM words) LIMIT $7
     ) d
     WHERE (SELECT count(*) FROM newest) < $6 AND d.search @@ w.query
       AND d.organization_id = ANY($4::uuid[]) AND d.deleted_at IS NULL
       AND coalesce((SELECT a.deleted_at IS NULL FROM agent a WHERE a.id = d.agent_id), true) /* and */
     LIMIT $8)
), hit AS (
    SELECT c.id, ts_rank_cd(c.search, w.query, 1) AS rank FROM candidate c CROSS JOIN words w
    ORDER BY rank DESC, c.id DESC LIMIT $9
)
SELECT d.id, d.organization_id, d.agent_id, d.project_id, d.title, d.content_type, d.created_at, d.updated_at,
       d.path, d.version, octet_length(d.content) AS size_bytes, h.rank::float8 AS rank,
       left(ts_headline(CASE $3::text WHEN '' THEN 'simple' ELSE $3::text END::regconfig,
                        left(d.content, 20000), w.query,
                        'MaxFragments=2, MinWords=8, MaxWords=24, StartSel=**, StopSel=**'), 1000) AS snippet
FROM hit h JOIN document d USING (id) CROSS JOIN words w
ORDER BY h.rank DESC, d.id DESC
"""


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The documents that a search looks at: those of some organizations, or those that one agent finds.

    An agent finds its own documents and those for all agents of its organization. `language` is the agent's:
    the words of the query are reduced to their stems by it.
    """

    organization_ids: tuple[UUID, ...]
    agent_id: UUID | None = None
    language: str = ""

    @classmethod
    def of(cls, agent: Agent) -> Self:
        """Return the scope of what the agent finds."""
        return cls((agent.organization_id,), agent.id, agent.language)


@dataclass(frozen=True, slots=True)
class DocumentHit:
    """A document that was found, without its content: `snippet` shows where the words are, marked by `**`."""

    id: UUID
    organization_id: UUID
    agent_id: UUID | None
    project_id: UUID | None
    title: str
    content_type: str
    created_at: datetime
    updated_at: datetime
    path: str | None
    version: int
    size_bytes: int
    rank: float
    snippet: str


async def search_documents(pool: Pool, scope: SearchScope, query: str, limit: int) -> list[DocumentHit]:
    """Return the documents in which the words of the query occur, best first.

    The query is written as for a web search: "quoted words" stand together, `or` and `-` work. If there are
    `MANY` documents, and `COMMON` of the `NEWEST` match, the best of these are returned; else the best of the
    first `MAX_RANKED` that match.
    """
    if not scope.organization_ids:
        return []
    conditions = Conditions(
        _owners(scope),
        query[:MAX_QUERY_CHARACTERS],
        scope.language,
        list(scope.organization_ids),
        NEWEST,
        COMMON,
        MAX_EXAMINED,
        MAX_RANKED,
        min(limit, MAX_HITS),
        MANY,
    )
    conditions.add_optional("(d.agent_id = $ OR d.agent_id IS NULL)", scope.agent_id)
    return await fetch_all(pool, DocumentHit, conditions.into(SEARCH), *conditions.parameters)


def _owners(scope: SearchScope) -> str:
    """Return a tsquery for the lexemes of the owners, as the function `document_search` makes them."""
    kind = "organization" if scope.agent_id is None else "shared"
    lexemes = [f"{kind}:{organization_id}" for organization_id in scope.organization_ids]
    if scope.agent_id is not None:
        lexemes.append(f"agent:{scope.agent_id}")
    return " | ".join(f"'{lexeme}'" for lexeme in lexemes)
