"""Documents: texts that agents write and look up, and full-text search by PostgreSQL.

The index holds the owners of a document among its words (see the function `document_search` in the
migrations), so that a search reads only the documents of one agent or organization with these words. The text
of another owner's document might produce such a lexeme, so the owners are compared, too.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Self
from uuid import UUID

from asyncpg import Record

from storage.delivery.receipts import insert_once
from storage.model import Agent, Receipt
from storage.organization_limits import OrganizationLimits, document_bytes
from storage.postgres.paging import Chunk, OfAgents, OwnedTable, Page, PageConditions, fetch_page, fetch_rows
from storage.postgres.pool import Pool
from storage.postgres.query import ALWAYS, Conditions, Period, assign
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import delete_row, fetch_all, fetch_one, from_row
from storage.versions import MAX_VERSIONS

MAX_RANKED = 500  # documents among which the best are chosen
MAX_EXAMINED = 2000  # documents with all the words, of which some may not contain them as a phrase
MANY = 5000  # documents of which common words are looked for in the newest only
NEWEST = 200  # documents that tell whether the words are common
COMMON = 50  # of them with the words make these common
MAX_HITS = 50
MAX_QUERY_CHARACTERS = 500
FEW = 5  # fewer documents with all words of a query: those with some of them are looked for, too

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

# The words of a question as a query for any of them, without those that most documents contain, such as
# "the". Among a few documents each word counts. `strip` unpacks each document once, not for each word.
ANY_WORD = """
WITH newest AS MATERIALIZED (
    SELECT strip(d.search) AS search FROM unnest($2::uuid[]) AS o (id)
    CROSS JOIN LATERAL (
        SELECT search FROM document WHERE organization_id = o.id
        ORDER BY created_at DESC, id DESC LIMIT greatest(1, $3 / cardinality($2::uuid[]))
    ) d
), word AS MATERIALIZED (
    SELECT word, plainto_tsquery('simple', word) AS query
    FROM unnest(tsvector_to_array(to_tsvector('simple', $1))) AS word
), common AS (
    SELECT word FROM newest JOIN word ON search @@ query
    GROUP BY word HAVING count(*) > greatest(8, (SELECT count(*) FROM newest) / 2)
)
SELECT string_agg('"' || word || '"', ' or ') AS query
FROM word WHERE word NOT IN (SELECT word FROM common)
"""
# `ts_rank` prefers many different words; `ts_rank_cd` prefers words that stand together.
SEARCH_ANY = SEARCH.replace("ts_rank_cd", "ts_rank")
_OPERATORS = re.compile(r'"|(?:^|\s)-\w')


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

    The query is written as for a web search: "quoted words" stand together, `or` and `-` work. If it has no
    quotes and no `-`, and fewer than `FEW` documents match, those with some of its words follow, as models
    ask whole sentences. If there are `MANY` documents, and `COMMON` of the `NEWEST` match, the best of these
    are returned; else the best of the first `MAX_RANKED` that match.
    """
    if not scope.organization_ids:
        return []
    query, limit = query[:MAX_QUERY_CHARACTERS], min(limit, MAX_HITS)
    hits = await _search(pool, SEARCH, scope, query, limit)
    if len(hits) >= min(FEW, limit) or _OPERATORS.search(query):
        return hits
    any_word = await pool.fetchval(ANY_WORD, query, list(scope.organization_ids), NEWEST)
    if any_word is None or " or " not in any_word:
        return hits
    found = {hit.id for hit in hits}
    others = await _search(pool, SEARCH_ANY, scope, any_word, limit)
    return [*hits, *(hit for hit in others if hit.id not in found)][:limit]


async def _search(
    pool: Pool, statement: str, scope: SearchScope, query: str, limit: int
) -> list[DocumentHit]:
    conditions = Conditions(
        _owners(scope),
        query,
        scope.language,
        list(scope.organization_ids),
        NEWEST,
        COMMON,
        MAX_EXAMINED,
        MAX_RANKED,
        limit,
        MANY,
    )
    conditions.add_optional("(d.agent_id = $ OR d.agent_id IS NULL)", scope.agent_id)
    return await fetch_all(pool, DocumentHit, conditions.into(statement), *conditions.parameters)


def _owners(scope: SearchScope) -> str:
    """Return a tsquery for the lexemes of the owners, as the function `document_search` makes them."""
    kind = "organization" if scope.agent_id is None else "shared"
    lexemes = [f"{kind}:{organization_id}" for organization_id in scope.organization_ids]
    if scope.agent_id is not None:
        lexemes.append(f"agent:{scope.agent_id}")
    return " | ".join(f"'{lexeme}'" for lexeme in lexemes)


INSERT = """
INSERT INTO document (
    id, organization_id, agent_id, project_id, title, content, content_type, created_at, updated_at, path,
    author, run_id, language)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
        coalesce((SELECT language FROM agent WHERE id = $3), ''))
"""

UPDATE = """
UPDATE document d
SET updated_at = $2, language = coalesce((SELECT a.language FROM agent a WHERE a.id = $3), ''), /* set */
WHERE d.id = $1
RETURNING d.id, d.organization_id, d.agent_id, d.project_id, d.title, d.content, d.content_type, d.created_at,
          d.updated_at, d.path, d.version, d.author, d.run_id, d.deleted_at
"""

# The lock makes `old` the row that the update replaces, whatever was written since the statement began.
WRITE = """
WITH old AS (
    SELECT * FROM document WHERE id = $1 AND version = coalesce($6, version) FOR UPDATE
), kept AS (
    INSERT INTO document_version (
        document_id, number, organization_id, title, content, content_type, author, run_id, created_at)
    SELECT id, version, organization_id, title, content, content_type, author, run_id, updated_at FROM old
), pruned AS (
    DELETE FROM document_version v USING old WHERE v.document_id = old.id AND v.number <= old.version + 1 - $7
)
UPDATE document d
SET updated_at = $2, language = coalesce((SELECT a.language FROM agent a WHERE a.id = $3), ''),
    author = $4, run_id = $5, version = old.version + 1, /* set */
FROM old WHERE d.id = old.id
RETURNING d.id, d.organization_id, d.agent_id, d.project_id, d.title, d.content, d.content_type, d.created_at,
          d.updated_at, d.path, d.version, d.author, d.run_id, d.deleted_at
"""

WRITTEN = frozenset({"title", "content", "content_type"})  # a change of them makes a new version

TITLES_PAGE = """
SELECT d.* FROM (
    (SELECT d.id, d.project_id, d.title, d.path, octet_length(d.content) AS size_bytes, d.created_at,
            d.updated_at
     FROM document d
     WHERE d.agent_id = $1 AND d.deleted_at IS NULL /* and */
     ORDER BY d.created_at DESC, d.id DESC LIMIT $2::bigint + $3::bigint)
    UNION ALL
    (SELECT d.id, d.project_id, d.title, d.path, octet_length(d.content) AS size_bytes, d.created_at,
            d.updated_at
     FROM document d
     WHERE d.organization_id = (SELECT a.organization_id FROM agent a WHERE a.id = $1)
       AND d.agent_id IS NULL AND d.deleted_at IS NULL /* and */
     ORDER BY d.created_at DESC, d.id DESC LIMIT $2::bigint + $3::bigint)
) d
ORDER BY d.created_at DESC, d.id DESC LIMIT $2 OFFSET $3
"""


@dataclass(frozen=True, slots=True)
class Writer:
    """The author of a version, `key:…`, `user:…` or `agent:…` with an id, and the run of an agent."""

    author: str
    run_id: UUID | None = None

    @classmethod
    def of_agent(cls, agent_id: UUID, run_id: UUID | None) -> Self:
        return cls(f"agent:{agent_id}", run_id)


@dataclass(frozen=True, slots=True)
class Document:
    """A text; one without an agent belongs to all agents of the organization.

    `author` and `run_id` tell who wrote the current version. A document with `deleted_at` was deleted by an
    agent, and is only found by its id.
    """

    id: UUID
    organization_id: UUID
    agent_id: UUID | None
    project_id: UUID | None
    title: str
    content: str
    content_type: str
    created_at: datetime
    updated_at: datetime
    path: str | None = None
    version: int = 1
    author: str = ""
    run_id: UUID | None = None
    deleted_at: datetime | None = None


TABLE = OwnedTable("document", "d", Document, OfAgents.SOME)


@dataclass(frozen=True, slots=True)
class DocumentFilters:
    """The documents that a list shows: those of organizations, or those that one agent sees.

    Either those that agents have deleted are listed, or the others.
    """

    organization_ids: tuple[UUID, ...]
    agent_id: UUID | None = None
    project_id: UUID | None = None
    created: Period = ALWAYS
    path: str | None = None
    is_deleted: bool = False
    visible_to: UUID | None = None


@dataclass(frozen=True, slots=True)
class DocumentTitle:
    """A document without its content, which has `size_bytes`."""

    id: UUID
    project_id: UUID | None
    title: str
    path: str | None
    size_bytes: int
    created_at: datetime
    updated_at: datetime


class Documents:
    """The table `document`. A deleted agent's documents are not found."""

    def __init__(self, pool: Pool, limits: OrganizationLimits | None = None) -> None:
        """Keep to `limits`; without them, organizations may store as much as they like."""
        self._pool = pool
        self._limit = (limits or OrganizationLimits(pool)).document_bytes
        self.get = SharedReads(
            "documents", pool, TABLE.get, partial(from_row, Document), texts=("d.content",)
        )

    async def insert(self, document: Document, receipt: Receipt | None = None) -> None:
        """Store the document, in the language of its agent.

        Raise NotUnique for a path that the agent has already, ReferenceMissing for `agent` or `project`,
        AnsweredBefore if the receipt exists already, LimitReached.
        """
        async with self._limit.reserved(document.organization_id, _bytes_of(document)):
            await insert_once(self._pool, receipt, document.organization_id, INSERT, *_row(document))

    async def list_rows(self, filters: DocumentFilters, page: Page) -> Chunk[Record]:
        """List one page of the documents, newest first, as rows with the columns of `Document`."""
        statement, conditions = _listing(filters, page)
        return await fetch_rows(self._pool, Document, statement, conditions)

    async def update(
        self,
        document: Document,
        changes: Mapping[str, Any],
        writer: Writer,
        now: datetime,
        expected_version: int | None = None,
    ) -> Document | None:
        """Set the columns in `changes` and return the document; None if there is no such document.

        A change of what the document says keeps the version before it. With `expected_version` the document
        is changed only if that is still its version; else None is returned. Raise NotUnique for a path that
        the agent has already, ReferenceMissing for `agent` or `project`, LimitReached.
        """
        if not changes:
            return await self.get(document.id)
        agent_id = changes.get("agent_id", document.agent_id)
        given: list[object] = [document.id, now, agent_id]
        if WRITTEN.isdisjoint(changes):
            sql = assign(UPDATE, changes, Document, after=len(given))
            return await fetch_one(self._pool, Document, sql, *given, *changes.values())
        given += writer.author, writer.run_id, expected_version, MAX_VERSIONS
        sql = assign(WRITE, changes, Document, after=len(given))
        async with self._limit.reserved(document.organization_id, _bytes_of(replace(document, **changes))):
            return await fetch_one(self._pool, Document, sql, *given, *changes.values())

    async def list_titles(self, agent_id: UUID, project_id: UUID | None, page: Page) -> Chunk[DocumentTitle]:
        """List one page of what an agent sees, newest first: its documents and those for all agents."""
        conditions = PageConditions(agent_id, page, "d.created_at, d.id")
        conditions.add_optional("d.project_id = $", project_id)
        return await fetch_page(self._pool, DocumentTitle, TITLES_PAGE, conditions)

    async def search(self, scope: SearchScope, query: str, limit: int) -> list[DocumentHit]:
        """Find documents by their words, best first; see `search_documents`."""
        return await search_documents(self._pool, scope, query, limit)

    async def delete(self, document_id: UUID) -> bool:
        """Delete the document with its versions; return False if there is no such document."""
        return await delete_row(self._pool, "document", document_id)


def _bytes_of(document: Document) -> int:
    return document_bytes(document.title, document.content)


def _row(document: Document) -> tuple[Any, ...]:
    return (
        document.id,
        document.organization_id,
        document.agent_id,
        document.project_id,
        document.title,
        document.content,
        document.content_type,
        document.created_at,
        document.updated_at,
        document.path,
        document.author,
        document.run_id,
    )


def _listing(filters: DocumentFilters, page: Page) -> tuple[str, PageConditions]:
    """Return the statement that lists the page, with its conditions."""
    statement, conditions = TABLE.listing(filters.organization_ids, filters.visible_to, page)
    conditions.add("d.deleted_at IS NOT NULL" if filters.is_deleted else "d.deleted_at IS NULL")
    conditions.add_optional("d.agent_id = $", filters.agent_id)
    conditions.add_optional("d.project_id = $", filters.project_id)
    conditions.add_period("d.created_at", filters.created)
    conditions.add_optional("d.path = $", filters.path)
    return statement, conditions
