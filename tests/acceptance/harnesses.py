"""Agents' code for the process harness: each text is the run.py of a branch that also has common.py."""

# The API with the run's token, and reports to the test in files beside the cache.
COMMON = '''
import json, os, sys, time, urllib.error, urllib.request
from pathlib import Path

AGENT, RUN = os.environ["HOSTSVC_AGENT_ID"], os.environ["HOSTSVC_RUN_ID"]
REPORTS = Path(os.environ["HOME"]).parents[3] / "reports"


def post(path, body, agent=AGENT):
    """Return the status and the response."""
    request = urllib.request.Request(
        os.environ["HOSTSVC_URL"] + path.format(agent=agent, run=RUN),
        json.dumps(body).encode(),
        {"Authorization": "Bearer " + os.environ["HOSTSVC_RUN_TOKEN"], "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as refusal:
        return refusal.code, json.load(refusal)


def tool(name, agent=AGENT, **arguments):
    return post("/api/cloud/agents/{agent}/tools/" + name + "/", arguments, agent)


def report(name, content=""):
    unfinished = REPORTS / (name + ".new")
    unfinished.write_text(json.dumps(content) + "\\n")
    unfinished.rename(REPORTS / name)


def wait_for(name):
    while not (REPORTS / name).exists():
        time.sleep(0.01)
'''

RUNS = {
    "ends": "print('done')",
    "fails": "import sys; sys.exit('no model today')",
    "shows": """
import json, os, sys
from common import *
report(AGENT, {"environment": dict(os.environ), "context": json.load(sys.stdin), "cwd": os.getcwd(),
             "files": sorted(os.listdir())})
print(os.environ["HOSTSVC_RUN_TOKEN"])
""",
    "deaf": """
import signal
from common import *
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
report(AGENT)
time.sleep(600)
""",
    # What runs in a sandbox leaves reports in its HOME.
    "sandboxed": """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
with open(os.environ["HOME"] + "/ready", "w") as ready:
    ready.write("ready\\n")
time.sleep(600)
""",
    "bomb": """
import os, time
while True:
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
""",
    "lingers": """
from common import *
report(AGENT, [tool("sleep", hours=1)[0], tool("sleep", hours=1)[0], tool("list_notifications")[0]])
time.sleep(600)
""",
    # In the shell, which starts fast, because a test runs many of these.
    "many": """
trap '' TERM
setsid sleep 600 &
echo > $1/$HOSTSVC_AGENT_ID
sleep 600
""",
    "somebody": """
id -un
touch $HOME/mine && echo home
touch run.py || touch new || echo sealed
cat ../../mirror.git/config || echo closed
""",
    "calls": """
import http.client, os, time
url = os.environ["HOSTSVC_URL"].removeprefix("http://")
connection = http.client.HTTPConnection(url)
headers = {"Authorization": "Bearer " + os.environ["HOSTSVC_RUN_TOKEN"], "Content-Length": "0"}
path = "/api/cloud/agents/" + os.environ["HOSTSVC_AGENT_ID"] + "/tools/sleep/"
connection.request("POST", path, "", headers)
connection.getresponse()
""",
}
