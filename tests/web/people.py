"""Users in the roles that a test needs, without the cost of hashing passwords."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from storage.ids import new_id
from storage.model import Organization, Role, User
from tests.web.conftest import SETTINGS, Api, Service
from web.credentials.formats import UserTokens

JOIN = """
INSERT INTO membership (id, organization_id, user_id, role, created_at) VALUES ($1, $2, $3, $4, $5)
"""
TOKENS = UserTokens(SETTINGS.token_secret, timedelta(days=1))


async def new_user(service: Service, email: str = "", name: str = "Ann") -> tuple[User, Organization]:
    """Create a user who owns an organization and cannot log in."""
    now = datetime.now(UTC)
    organization = Organization(new_id(), "Acme", now)
    user = User(new_id(), email or f"{organization.id}@example.com", name, "!", 1, now)
    await service.storage.accounts.insert_account(user, organization)
    return user, organization


def as_user(service: Service, user: User) -> Api:
    """Return a client with a token of the user."""
    token = TOKENS.issue(user.id, user.token_version, datetime.now(UTC))
    return service.nobody.with_authorization(f"Token {token}")


async def join(service: Service, user: User, organization_id: UUID, role: Role) -> str:
    """Make the user a member, and return the id of the membership."""
    membership_id = new_id()
    await service.storage.pool.execute(JOIN, membership_id, organization_id, user.id, role, datetime.now(UTC))
    return str(membership_id)


async def staff(service: Service, organization: Organization, role: Role) -> tuple[Api, str]:
    """Create a user of this organization only; return a client and the id of the membership."""
    user, own = await new_user(service)
    await service.storage.pool.execute("DELETE FROM membership WHERE organization_id = $1", own.id)
    return as_user(service, user), await join(service, user, organization.id, role)


async def founder(service: Service) -> tuple[Api, Organization]:
    """Create the owner of a new organization; return a client and the organization."""
    user, organization = await new_user(service)
    return as_user(service, user), organization
