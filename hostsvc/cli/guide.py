"""The guide that `serve --guide` prints for a first-time user."""

GUIDE = """
Open {base_url}/console/ in a browser to sign up and watch a first agent work.

Or paste into another terminal to sign up and get an API key:

  field() {{ python3 -c "import json, sys; b = json.load(sys.stdin); \
print(b['$1'] if '$1' in b else sys.exit(b))"; }}
  TOKEN=$(curl -s {base_url}/api/organizations/auth/signup/ \\
      -d email=you@example.org -d password=change-me-please -d organization_name=First | field token)
  KEY=$(curl -s {base_url}/api/organizations/api-keys/ -H "Authorization: Token $TOKEN" \\
      -d name=first | field key)
  curl -s {base_url}/api/cloud/agents/ -H "Authorization: Bearer $KEY"

Already signed up? Then get the token by logging in:

  TOKEN=$(curl -s {base_url}/api/organizations/auth/login/ \\
      -d email=you@example.org -d password=change-me-please | field token)

Addresses
  {base_url}/console/   the console: what every agent does and why, in a browser
  {base_url}/api/docs/  the documentation of the API, in a browser
  {base_url}/api/       the API: a key as "Authorization: Bearer KEY"
  {base_url}/status/    what every agent is doing, and why: needs the operator token
  {base_url}/metrics    the same in numbers, for Prometheus: needs the operator token
  {base_url}/healthz    whether the process is alive
  {base_url}/readyz     whether it is ready to serve

  curl -s {base_url}/status/ -H "Authorization: Bearer $({operator_token_command})"

Ctrl-C ends the service; its data stays.
"""


def guide(base_url: str, operator_token_command: str) -> str:
    """Return lines to paste for a service at this address; the command prints the operator token."""
    return GUIDE.format(base_url=base_url, operator_token_command=operator_token_command)
