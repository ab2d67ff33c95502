"""The senders of inbound messages: the contact that an address belongs to, found or new."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.channels.addresses import BAD_EMAIL, InvalidAddress, is_email, is_sender_name, is_withheld
from storage.channels.contacts import Contact, Contacts
from storage.channels.messages import Channel
from storage.ids import new_id
from web.errors import Invalid


@dataclass(frozen=True, slots=True)
class Sender:
    """The sender of a message: its address, and its contact; "" and None if it withheld its address."""

    address: str = ""
    contact: Contact | None = None
    is_new: bool = False


async def find_sender(
    contacts: Contacts, organization_id: UUID, text: str, channel: Channel, now: datetime
) -> Sender:
    """Return the sender that a message of this channel names, with a new contact if none has its address.

    Raise Invalid if the text is no address, or no e-mail address although the message is an e-mail.
    """
    if is_withheld(text):
        return Sender()
    try:
        address = await contacts.normalize_address(organization_id, text)
    except InvalidAddress as error:
        raise Invalid({"from": [str(error)]}) from error
    if channel is Channel.EMAIL and not is_email(address):
        raise Invalid({"from": [BAD_EMAIL]})
    contact = await contacts.find(organization_id, address)
    if contact is not None:
        return Sender(address, contact)
    return Sender(address, _new_contact(organization_id, address, text, now), is_new=True)


def _new_contact(organization_id: UUID, address: str, text: str, now: datetime) -> Contact:
    """Return a contact of all agents of the organization, because its address is unique there."""
    is_name = is_sender_name(address)
    return Contact(
        id=new_id(),
        organization_id=organization_id,
        agent_id=None,
        name=text.strip() if is_name else "",
        email=address if is_email(address) else "",
        phone="" if is_email(address) or is_name else address,
        metadata={},
        created_at=now,
        other_addresses=(address,) if is_name else (),
    )
