"""What the help of each command teaches: when to use it, and examples that work as they stand."""

from __future__ import annotations

EXAMPLES = {
    "version": """
examples:
  leasehold version
  leasehold version --json
""",
    "acquire": """
Answers at once: 0, it is yours; 4, somebody has it (and you see who). With --wait you queue for it.
What you took is kept in private state, so release and renew need nothing but the name.

examples:
  leasehold acquire issue:42 --ttl 30m --name "fix the parser"
  leasehold acquire deploy://api-prod --wait 10m
  leasehold acquire path:src/a.py path:src/b.py      # both or neither
  leasehold acquire device-1 device-2 --any-of       # the first that is free
  leasehold acquire issue:42 --token-file .token     # keep the token yourself
""",
    "renew": """
A lease that has expired is lost for good (exit code 7): acquire it anew.

examples:
  leasehold renew issue:42
  leasehold renew issue:42 --ttl 2h
  leasehold renew issue:42 --token-file .token
""",
    "release": """
Releases exactly the lease that you took, never a successor's; what has ended before is no failure.

examples:
  leasehold release issue:42
  leasehold release issue:42 --status failed --error "tests are red"
  leasehold release issue:42 --token-stdin < .token
""",
    "update": """
examples:
  leasehold update issue:42 --context '{"step": 3}'
  leasehold update issue:42 --context '{"step": 4}' --merge
""",
    "inspect": """
A path also shows what is held above and below it.

examples:
  leasehold inspect issue:42
  leasehold inspect path:src --json
""",
    "list": """
examples:
  leasehold list
  leasehold list --mine
  leasehold list --of coder-2 --json
""",
    "history": """
examples:
  leasehold history
  leasehold history issue:42 --limit 10
  leasehold history --since 2h --kind expired --kind forced
  leasehold history --since 1d --plot today.svg
""",
    "graph": """
An agent waits for a resource, a resource is held by an agent. A request that would have closed a cycle was
refused; it is shown as well.

examples:
  leasehold graph
  leasehold graph --format mermaid             # for a Markdown page
  leasehold graph --format dot --all-spaces    # for Graphviz
  leasehold graph --format svg > waits.svg
""",
    "watch": """
On a terminal the table is drawn anew each time, and keys work: s sorts, r reverses, / filters, the arrows choose a
lease and enter shows it with its queue and its last events, q ends it. Elsewhere each look is printed.

examples:
  leasehold watch
  leasehold watch deploy://api-prod --interval 500ms
  leasehold watch --count 1 --json
""",
    "run": """
The command runs in a process group of its own and sees LEASEHOLD_LEASE, LEASEHOLD_FENCE and LEASEHOLD_RESOURCE, and
the session of the run as LEASEHOLD_SESSION: what the command acquires ends with the run.
The lease is renewed meanwhile; if that fails, the whole group is ended before the lease can expire, even if this
process is stopped or killed. Signals are passed on, and so is the exit code (128 + n if signal n ended the command).

examples:
  leasehold run deploy://api-prod --wait 10m -- ./deploy.sh
  leasehold run issue:42 --ttl 1m --on-lost kill -- make test
  leasehold run gpu --slots 4 -- python train.py
""",
    "session start": """
examples:
  eval "$(leasehold session start --ttl 10m)"    # sets LEASEHOLD_SESSION
  leasehold session start --session-file .session
""",
    "session heartbeat": """
examples:
  leasehold session heartbeat
  leasehold session heartbeat --session-file .session
""",
    "session end": """
examples:
  leasehold session end
  leasehold session end s0123456789abcdef --by ops
""",
    "session list": """
examples:
  leasehold session list
""",
    "workflow create": """
Exit code 0: the run is yours, and its id is all you need later; 4: another is active, and you see which.
A run that nobody ends expires after its TTL, so a crash blocks nobody for ever: `workflow heartbeat` or
`workflow update` sets its clock back.

examples:
  leasehold workflow create --name deploy-staging --work-unit 7
  leasehold workflow create --name run-tests --task 12 --ttl 2h
""",
    "workflow get": """
examples:
  leasehold workflow get wf-01KSH0Y9W0Q3V4M8E5T6R7D8C9
""",
    "workflow check": """
Exit code 0 in both cases: {} means that you may begin.

examples:
  leasehold workflow check --work-unit 7
""",
    "workflow list": """
examples:
  leasehold workflow list --status running
  leasehold workflow list --work-unit 7 --limit 10
""",
    "workflow update": """
examples:
  leasehold workflow update wf-01KSH0Y9W0Q3V4M8E5T6R7D8C9 --context '{"step": 3, "progress": 75}'
""",
    "workflow heartbeat": """
A run that has expired is lost for good (exit code 7): begin a new one.

examples:
  leasehold workflow heartbeat wf-01KSH0Y9W0Q3V4M8E5T6R7D8C9
""",
    "workflow release": """
Ends exactly this run, never a successor; what has ended before is no failure, unless it expired.

examples:
  leasehold workflow release wf-01KSH0Y9W0Q3V4M8E5T6R7D8C9 --status completed
  leasehold workflow release wf-01KSH0Y9W0Q3V4M8E5T6R7D8C9 --status failed --error "Build failed on step 3"
""",
    "gc": """
It happens by itself, sooner or later; this does it now.

examples:
  leasehold gc
""",
    "lock acquire": """
In the words of grite's documentation and of its program; on any store. What grite itself still holds in this
repository (refs/grite/locks/) counts as held by others.

examples:
  leasehold lock acquire --resource issue:8057324b --ttl 30m
  leasehold lock acquire path:src/api.rs --ttl 3600 --json
""",
    "lock renew": """
If nobody holds it, it is acquired.

examples:
  leasehold lock renew --resource issue:8057324b --ttl 30m
""",
    "lock release": """
Releasing what is not held is fine; what somebody else holds stays.

examples:
  leasehold lock release --resource issue:8057324b
""",
    "lock status": """
examples:
  leasehold lock status
  leasehold lock status issue:8057324b --json
""",
    "lock gc": """
Fences are never lost by it. Grite's own refs are left alone.

examples:
  leasehold lock gc
""",
    "guard": """
Ends with 0 if they may be changed, and with 4 if not, saying who holds what. Policies: off asks nobody, warn only
tells, require forbids what somebody else holds, require-own wants it to be yours. The policy is lock_policy in
leasehold.toml, or `git config leasehold.lockPolicy`.

examples:
  leasehold guard src/auth.rs docs
  leasehold guard --staged --policy require
""",
    "force-release": """
Its holder learns it at its next call. The history says who did it, and why.

examples:
  leasehold force-release issue:42 --reason "the agent is gone"
""",
    "adopt": """
For a lease of yours that release refuses, since another process took it: a terminal that was closed, for example.
It shows who took it, and asks; it is in the history. Needs a terminal, and the same user.

examples:
  leasehold adopt issue:42
""",
    "steal": """
Nobody else can get it in between; the old holder learns it at its next call.

examples:
  leasehold steal deploy://api-prod --reason "hotfix"
""",
    "clear": """
A lease taken with --on-expiry quarantine leaves its resource closed if it ends uncleanly.

examples:
  leasehold clear deploy://api-prod --reason "rolled back by hand"
""",
    "keys create": """
The key is shown once and stored hashed. An agent acquires and starts sessions in its space, a viewer only looks,
an admin may do everything everywhere.

examples:
  leasehold keys create ci --role agent --space team --prefix deploy:// --prefix path:
  leasehold keys create ops --role admin --key-file /etc/leasehold/ops.key
""",
    "keys list": """
examples:
  leasehold keys list
  leasehold keys list --json
""",
    "keys rotate": """
Leases, sessions and request ids belong to the principal of the key, and stay. Hand the new key out while both count.

examples:
  leasehold keys rotate 0123456789abcdef --key-file ci.key
  leasehold keys rotate 0123456789abcdef --overlap 7d
""",
    "keys revoke": """
Servers notice within a second. What the key holds runs out by itself, unless its principal has another key.

examples:
  leasehold keys revoke 0123456789abcdef
""",
    "serve": """
Without keys it serves this machine only, and everybody on it is an admin. Ctrl-C ends it: who waits is told to
come back, and nothing that was acknowledged is lost.

examples:
  leasehold serve
  leasehold serve --store sqlite:///var/lib/leasehold/locks.db --port 7420
  leasehold serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
""",
    "mcp": """
Everything the agent took is released when it goes away. Needs the extra: pip install 'leasehold[mcp]'.

examples:
  leasehold mcp
  leasehold mcp --url https://locks.example:7420
""",
    "install": """
It adds to the files that are there, shows the difference, and can be run again at any time.

examples:
  leasehold install claude --dry-run
  leasehold install cursor --policy warn
  leasehold install git
  leasehold install skill --target codex
""",
    "uninstall": """
examples:
  leasehold uninstall claude
""",
    "prompt": """
examples:
  leasehold prompt > locks.md
""",
    "hook": """
Editors call it; `leasehold install claude` tells them to.

examples:
  leasehold hook claude < input.json
""",
    "git-hook": """
Git's hooks call it; `leasehold install git` sets them up.

examples:
  leasehold git-hook pre-commit
""",
    "doctor": """
examples:
  leasehold doctor
  leasehold doctor --json
""",
    "completion": """
examples:
  source <(leasehold completion bash)
  leasehold completion zsh > "${fpath[1]}/_leasehold"
  leasehold completion fish > ~/.config/fish/completions/leasehold.fish
""",
}
