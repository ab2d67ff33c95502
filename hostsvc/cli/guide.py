"""What `serve --guide` prints for somebody who sees the service for the first time."""

GUIDE = """
Paste into another terminal to sign up and get an API key:

  TOKEN=$(curl -s {base_url}/api/organizations/auth/signup/ \\
      -d email=ada@example.org -d password=change-me-please -d organization_name=Example \\
      | sed 's/.*"token": *"\\([^"]*\\)".*/\\1/')
  KEY=$(curl -s {base_url}/api/organizations/api-keys/ -H "Authorization: Token $TOKEN" -d name=first \\
      | sed 's/.*"key": *"\\([^"]*\\)".*/\\1/')
  curl -s {base_url}/api/cloud/agents/ -H "Authorization: Bearer $KEY"

Signed up before? Then the first line is

  TOKEN=$(curl -s {base_url}/api/organizations/auth/login/ \\
      -d email=ada@example.org -d password=change-me-please | sed 's/.*"token": *"\\([^"]*\\)".*/\\1/')

Addresses
  {base_url}/api/       the API: a key as "Authorization: Bearer KEY"
  {base_url}/status/    what every agent is doing, and why: with the operator's token
  {base_url}/healthz    the process lives
  {base_url}/readyz     it serves

  curl -s {base_url}/status/ -H "Authorization: Bearer $({operator_token_command})"

Ctrl-C ends it; the data stays.
"""


def guide(base_url: str, operator_token_command: str) -> str:
    """Lines to paste, made for this address; the command is how this shell prints the operator's token."""
    return GUIDE.format(base_url=base_url, operator_token_command=operator_token_command)
