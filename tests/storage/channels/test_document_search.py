"""Full-text search of documents: words, stems, owners, and texts that are made to break it."""

import itertools
import string
from collections.abc import Iterator

import pytest

from storage.agents.agents import Agents
from storage.channels import documents
from storage.channels.documents import MAX_HITS, MAX_RANKED, DocumentHit, Documents, SearchScope, Writer
from storage.model import Agent
from storage.postgres.pool import Pool
from tests.storage.channels.resources import document
from tests.storage.factories import NOW, SECOND, stored_agent

DEVANAGARI = [chr(letter) for letter in range(0x0915, 0x0939)]
DESERET = [chr(letter) for letter in range(0x10428, 0x10450)]  # four bytes each


async def found(pool: Pool, scope: SearchScope, query: str) -> list[str]:
    return [hit.title for hit in await Documents(pool).search(scope, query, 10)]


async def stored(pool: Pool, agent: Agent, title: str, content: str = "", **fields: object) -> None:
    await Documents(pool).insert(document(agent, title=title, content=content, **fields))


async def test_search_understands_the_syntax_of_web_searches(pool: Pool, scout: Agent) -> None:
    await stored(pool, scout, "Dentist", "Ada sees the dentist on Monday.")
    await stored(pool, scout, "Garage", "The garage opens on Monday.")
    scope = SearchScope.of(scout)

    assert await found(pool, scope, "monday dentist") == ["Dentist", "Garage"]
    assert sorted(await found(pool, scope, "dentist or garage")) == ["Dentist", "Garage"]
    assert await found(pool, scope, "monday -garage") == ["Dentist"]
    assert await found(pool, scope, '"the dentist"') == ["Dentist"]
    assert await found(pool, scope, '"dentist the"') == []
    assert await found(pool, scope, "plumber") == []


async def test_whole_sentence_finds_documents_with_some_of_its_words(pool: Pool, scout: Agent) -> None:
    await stored(pool, scout, "Hours", "We open at nine. The shop closes at six.")
    await stored(pool, scout, "Parcels", "A parcel takes two days. The shop sends it at nine.")
    await stored(pool, scout, "Garage", "The garage is behind the house.")
    for number in range(20):
        await stored(pool, scout, f"Filler {number}", "What the weather is like at the sea.")
    scope = SearchScope.of(scout)

    assert (await found(pool, scope, "What is the time at which the shop opens and closes?"))[0] == "Hours"
    assert (await found(pool, scope, "How long does a parcel take?"))[0] == "Parcels"
    assert (await found(pool, scope, "the shop"))[:2] in (["Hours", "Parcels"], ["Parcels", "Hours"])
    assert (await found(pool, scope, "Does a parcel - or a letter - take two days or more?"))[0] == "Parcels"
    assert await found(pool, scope, '"shop opens"') == []
    assert await found(pool, scope, "shop -parcel plumber") == []


async def test_words_of_a_long_question_cost_no_further_reading(pool: Pool, scout: Agent) -> None:
    letters = itertools.product(string.ascii_lowercase, repeat=4)
    text = " ".join("".join(word) for word in itertools.islice(letters, 5000))
    for number in range(10):
        await stored(pool, scout, f"Note {number}", text)

    async def blocks(words: int) -> int:
        query = " ".join(f"w{number}" for number in range(words))
        explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {documents.ANY_WORD}"
        [plan] = await pool.fetchval(explain, query, [scout.organization_id], documents.NEWEST)
        return int(plan["Plan"]["Shared Hit Blocks"])

    await blocks(1)
    assert await blocks(50) < 2 * await blocks(2)


@pytest.mark.parametrize("query", ["", " ", "!", "'", '"', "-", "or", "\\ & | ! ( ) : * <->", "a" * 3000])
async def test_query_without_words_finds_nothing(pool: Pool, scout: Agent, query: str) -> None:
    await stored(pool, scout, "Notes", "text")
    assert await found(pool, SearchScope.of(scout), query) == []


async def test_words_are_found_by_their_stems_in_the_language(pool: Pool, scout: Agent) -> None:
    agents = Agents(pool)
    await stored(pool, scout, "Plain", "She likes running.")
    await agents.update(scout.id, {"language": "english"}, NOW)
    english = await agents.get(scout.id)
    assert english is not None
    await stored(pool, english, "English", "She likes running.")

    assert await found(pool, SearchScope.of(scout), "runs") == []
    assert await found(pool, SearchScope.of(english), "runs") == ["English"]
    for scope in (SearchScope.of(scout), SearchScope.of(english), SearchScope((scout.organization_id,))):
        assert sorted(await found(pool, scope, "running")) == ["English", "Plain"]
    assert sorted(await found(pool, SearchScope.of(english), "she")) == ["English", "Plain"]


async def test_documents_of_other_owners_are_not_found(pool: Pool, scout: Agent) -> None:
    colleague, stranger = await stored_agent(pool, scout.organization_id), await stored_agent(pool)
    await stored(pool, scout, "Own", "secret")
    await stored(pool, scout, "Shared", "secret", agent_id=None)
    await stored(pool, colleague, "Colleague's", "secret")
    await stored(
        pool, stranger, "Stranger's", f"secret agent:{scout.id} organization:{scout.organization_id}"
    )
    both = (scout.organization_id, stranger.organization_id)

    assert sorted(await found(pool, SearchScope.of(scout), "secret")) == ["Own", "Shared"]
    assert len(await found(pool, SearchScope((scout.organization_id,)), "secret")) == 3
    assert len(await found(pool, SearchScope(both), "secret")) == 4
    assert await found(pool, SearchScope(()), "secret") == []
    assert await found(pool, SearchScope.of(scout), f"organization:{scout.organization_id}") == []


async def test_forged_owner_in_the_index_does_not_leak(pool: Pool, scout: Agent) -> None:
    stranger = await stored_agent(pool)
    await stored(pool, stranger, "Stranger's", "secret")
    # A column that the service computes cannot be written: only another version of the function can forge.
    await pool.execute("ALTER TABLE document ALTER COLUMN search DROP EXPRESSION")
    await pool.execute(
        "UPDATE document SET search = search || array_to_tsvector(ARRAY['agent:' || $1::text])", str(scout.id)
    )
    assert await found(pool, SearchScope.of(scout), "secret") == []


async def test_deleted_documents_are_not_found(pool: Pool, scout: Agent) -> None:
    notes = document(scout, content="secret")
    await Documents(pool).insert(notes)
    assert await found(pool, SearchScope.of(scout), "secret") == ["Notes"]

    await Documents(pool).update(notes, {"deleted_at": NOW}, Writer("agent:a"), NOW)
    assert await found(pool, SearchScope.of(scout), "secret") == []


async def test_documents_of_deleted_agents_are_not_found(pool: Pool, scout: Agent) -> None:
    await stored(pool, scout, "Notes", "secret")
    await Agents(pool).delete(scout.id, NOW)
    assert await found(pool, SearchScope((scout.organization_id,)), "secret") == []


async def test_hit_shows_where_the_words_are(pool: Pool, scout: Agent) -> None:
    filler = "Nothing of interest happened on this day. " * 40
    await stored(
        pool,
        scout,
        "Diary",
        f"{filler}Ada is allergic to nuts. {filler}",
        path="/memories/people/ada_lovelace.md",
    )

    [hit] = await Documents(pool).search(SearchScope.of(scout), "allergic", 10)

    assert isinstance(hit, DocumentHit)
    assert "**allergic** to nuts" in hit.snippet
    assert len(hit.snippet) < 500
    assert (hit.path, hit.size_bytes) == ("/memories/people/ada_lovelace.md", 2 * len(filler) + 25)
    assert await found(pool, SearchScope.of(scout), "people lovelace") == ["Diary"]


async def test_title_counts_more_than_content(pool: Pool, scout: Agent) -> None:
    await stored(pool, scout, "Garage", "It opens at nine.")
    await stored(pool, scout, "Monday", "First to the garage, then to the dentist.")
    assert await found(pool, SearchScope.of(scout), "garage") == ["Garage", "Monday"]


async def test_search_is_bounded_in_candidates_and_hits(pool: Pool, scout: Agent) -> None:
    for number in range(MAX_HITS + 5):
        await stored(pool, scout, f"Note {number}", "common")
    hits = await Documents(pool).search(SearchScope.of(scout), "common", 10_000)
    assert len(hits) == MAX_HITS
    assert MAX_HITS <= MAX_RANKED


def words(alphabet: list[str], length: int, joint: str = " ") -> str:
    """Return a text of distinct words, long enough to fill what is indexed."""

    def pieces() -> Iterator[str]:
        for letters in itertools.product(alphabet, repeat=length):
            yield "".join(letters)

    return joint.join(itertools.islice(pieces(), 60_000 // length))


LONG_TEXTS = {
    "short words": words(list(string.ascii_lowercase), 4),
    "numbers": " ".join(map(str, range(12_000))),
    "addresses": " ".join(f"a.co/{number}" for number in range(8000)),
    "four bytes": words(DESERET, 3),
    "hyphens of four bytes": words(DESERET, 8, "-"),
    "hyphens in Hindi": words(DEVANAGARI, 8, "-"),
    "words in Hindi": words(DEVANAGARI, 500),
    "one word": "x" * 1_000_000,
    "one word again and again": "appointment " * 80_000,
    "no words": ". " * 500_000,
}


@pytest.mark.parametrize("name", LONG_TEXTS)
async def test_no_text_is_too_long_for_the_index(pool: Pool, scout: Agent, name: str) -> None:
    await Agents(pool).update(scout.id, {"language": "hindi"}, NOW)
    await stored(pool, scout, "Long", LONG_TEXTS[name])

    [hit] = await Documents(pool).search(SearchScope.of(scout), "long", 10)

    assert len(hit.snippet) <= 1000


async def test_common_words_are_looked_for_in_the_newest(
    pool: Pool, scout: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    for constant, value in (("MANY", 8), ("NEWEST", 4), ("COMMON", 2)):
        monkeypatch.setattr(documents, constant, value)
    for number in range(8):
        await stored(pool, scout, f"Note {number}", "common", created_at=NOW + number * SECOND)
    await stored(pool, scout, "Old", "rare common words", created_at=NOW - SECOND)

    assert await found(pool, SearchScope.of(scout), "common") == [f"Note {number}" for number in (7, 6, 5, 4)]
    assert await found(pool, SearchScope.of(scout), "rare") == ["Old"]
    assert await found(pool, SearchScope.of(scout), '"rare common"') == ["Old"]
    assert await found(pool, SearchScope.of(scout), '"rare words"') == []
