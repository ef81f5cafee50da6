"""The help of each command: how it behaves, and examples to copy."""

from __future__ import annotations

EXAMPLES = {
    "version": """
examples:
  leasehold version
  leasehold version --json
""",
    "acquire": """
Answers at once: exit code 0, it is yours; 4, it is held, and you see by whom. With --wait you queue for it.
The token is saved privately, so release and renew need only the name.

examples:
  leasehold acquire issue:42 --ttl 30m --name "fix the parser"
  leasehold acquire deploy://api-prod --wait 10m
  leasehold acquire path:src/a.py path:src/b.py      # both or neither
  leasehold acquire 'path:src/**/*.py'               # every file that matches, existing or not
  leasehold acquire device-1 device-2 --any-of       # the first that is free
  leasehold acquire issue:42 --token-file .token     # keep the token yourself
""",
    "renew": """
A lease that has expired is lost (exit code 7): acquire it again.

examples:
  leasehold renew issue:42
  leasehold renew issue:42 --ttl 2h
  leasehold renew issue:42 --token-file .token
""",
    "release": """
Releases exactly the lease that you acquired, never a successor's. If it has ended already, that is no failure.

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
    "plan": """
A plan grants nothing and blocks nobody. It shows who plans, holds or waits for something that overlaps. Names that you
acquire leave it. You have one plan: a new one replaces it. Release it by its id.

examples:
  leasehold plan path:src/parser issue:42 --name "new parser"
  leasehold plan 'path:docs/**/*.md' --ttl 2h
  leasehold plan path:src/parser issue:42 --firm --wait 1h   # wait for all of it, and acquire it
  leasehold plan                               # everybody's plans, and where they collide
  leasehold plan --format svg > plans.svg
""",
    "wait": """
Start it in the background: its end tells an agent that it is worth trying again. It keeps no place in the queue, unlike
`leasehold acquire NAME --wait 10m`. Exit code 5: still held after --timeout.

examples:
  leasehold wait issue:42
  leasehold wait path:src --timeout 30m --json
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
Shows which holder waits for which resource, and who holds it; also recent requests that were refused because they
would have closed a cycle.

examples:
  leasehold graph
  leasehold graph --format mermaid             # for a Markdown page
  leasehold graph --format dot --all-spaces    # for Graphviz
  leasehold graph --format svg > waits.svg
""",
    "watch": """
On a terminal the table is live, and keys work: s sorts, r reverses, / filters, the arrows choose a lease, enter shows
it with its queue and its last events, q quits. Elsewhere each refresh is printed.

examples:
  leasehold watch
  leasehold watch deploy://api-prod --interval 500ms
  leasehold watch --count 1 --json
""",
    "run": """
The command runs in a process group of its own, with LEASEHOLD_LEASE, LEASEHOLD_FENCE, LEASEHOLD_RESOURCE and, for a
pool, LEASEHOLD_VALUE in its environment. LEASEHOLD_SESSION is the session of the run: leases that the command acquires
end with the run.
The run renews its lease. If that fails, the whole group is ended before the lease can expire, even if the run itself
is stopped or killed. Signals and the exit code are passed on (128 + n if signal n ended the command).
With --lead, one of several candidates runs its command at a time. LEASEHOLD_FENCE is the number of its term. A leader
that is deposed ends its command and waits again; one whose command ends by itself resigns.

examples:
  leasehold run deploy://api-prod --wait 10m -- ./deploy.sh
  leasehold run issue:42 --ttl 1m --on-lost kill -- make test
  leasehold run gpu --slots 4 -- python train.py
  leasehold run scheduler --lead -- ./schedule.py
  leasehold run --pool ports/3000-3099 -- sh -c 'serve --port $LEASEHOLD_VALUE'
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
Exit code 0: the run is yours, and later you need only its id; 4: another run is active, and you see which.
A run that is not ended expires after its TTL, so a crash blocks no one for long. To reset the TTL, use
`workflow heartbeat` or `workflow update`.

examples:
  leasehold workflow create --name deploy-staging --work-unit 7
  leasehold workflow create --name run-tests --task 12 --ttl 2h
""",
    "workflow get": """
examples:
  leasehold workflow get wf-01KSH0Y9W0Q3V4M8E5T6R7D8C9
""",
    "workflow check": """
Exit code 0 in both cases; {} means that you may begin.

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
A run that has expired is lost (exit code 7): begin a new one.

examples:
  leasehold workflow heartbeat wf-01KSH0Y9W0Q3V4M8E5T6R7D8C9
""",
    "workflow release": """
Ends exactly this run, never a successor. A run that was ended before is no failure, unless it expired.

examples:
  leasehold workflow release wf-01KSH0Y9W0Q3V4M8E5T6R7D8C9 --status completed
  leasehold workflow release wf-01KSH0Y9W0Q3V4M8E5T6R7D8C9 --status failed --error "Build failed on step 3"
""",
    "gc": """
Clean-up also happens by itself; this command does it now.

examples:
  leasehold gc
""",
    "backup": """
The copy is one file. It is checked as `restore --check` does. Other stores are backed up with their own tools.

examples:
  leasehold backup leasehold-backup.db
""",
    "restore": """
Your store is not touched. docs/how-to/backup.md says how to restore a backup.

examples:
  leasehold restore leasehold-backup.db --check
""",
    "lanes": """
A store on PostgreSQL or etcd can be divided anew. Leases stay held. Every server and program that has the store open is
refused from then on: start them again. On etcd, repeat a command that was cut off. Name the store by --url or
LEASEHOLD_URL, as its owner.

examples:
  leasehold lanes
  leasehold lanes 4 --url postgresql://owner@db.example/locks
""",
    "lock acquire": """
Accepts the options of grite's documentation and of its program, on any store. Locks of grite itself in this
repository (refs/grite/locks/) count as held by others.

examples:
  leasehold lock acquire --resource issue:8057324b --ttl 30m
  leasehold lock acquire path:src/api.rs --ttl 3600 --json
""",
    "lock renew": """
If it is free, it is acquired.

examples:
  leasehold lock renew --resource issue:8057324b --ttl 30m
""",
    "lock release": """
Releasing a free lock is no failure; another owner's lock stays.

examples:
  leasehold lock release --resource issue:8057324b
""",
    "lock status": """
examples:
  leasehold lock status
  leasehold lock status issue:8057324b --json
""",
    "lock gc": """
Fences are kept. Grite's own refs are left alone.

examples:
  leasehold lock gc
""",
    "guard": """
Exit code 0: you may change them; 4: you may not, and you see who holds what. Policies: off checks nothing, warn only
warns, require forbids changes to what others hold, require-plans also to what they plan, require-own also requires a
lease of yours. The policy is lock_policy in leasehold.toml, or `git config leasehold.lockPolicy`.

examples:
  leasehold guard src/auth.rs docs
  leasehold guard --staged --policy require
""",
    "force-release": """
The holder learns of it within a second, or with its next call. The history records the admin and the reason.

examples:
  leasehold force-release issue:42 --reason "the agent is gone"
""",
    "adopt": """
For a lease of yours that release refuses because another process acquired it: a terminal that was closed, for
example. It shows that process and asks; the history records it. It needs a terminal and the same user.

examples:
  leasehold adopt issue:42
""",
    "steal": """
No one else can get it in between. The old holder learns of it within a second, or with its next call.

examples:
  leasehold steal deploy://api-prod --reason "hotfix"
""",
    "clear": """
A lease acquired with --on-expiry quarantine leaves its resource closed if it ends uncleanly.

examples:
  leasehold clear deploy://api-prod --reason "rolled back by hand"
""",
    "extend": """
The holder keeps its lease and learns nothing; the history says who extended it, and why.

examples:
  leasehold extend l42-0123456789abcdef0123456789abcdef --ttl 2h --reason "the migration is slow, and fine"
""",
    "note": """
The page of the resource shows the latest note, and the history has all of them.

examples:
  leasehold note deploy://api-prod "frozen until Friday: ask ada"
  leasehold note deploy://api-prod
""",
    "keys create": """
The key is shown once and stored hashed. An agent acquires leases and starts sessions in its space, a viewer only
reads, an admin may do everything everywhere.

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
Leases, sessions and request ids belong to the key's principal and stay valid. Distribute the new key while both work.

examples:
  leasehold keys rotate 0123456789abcdef --key-file ci.key
  leasehold keys rotate 0123456789abcdef --overlap 7d
""",
    "keys revoke": """
Servers notice within a second. Leases held with the key expire, unless its principal has another key.

examples:
  leasehold keys revoke 0123456789abcdef
""",
    "pool": """
Declares all members anew, for everybody who shares the store: `pool://gpu` is one of them that is free. Leases on
members that are left out go on until they end. The members under [pools] in a configuration come first.

examples:
  leasehold pool gpu "g0 a100" "g1 a100 fast" "g2 h100"
  leasehold pool gpu
  leasehold pool gpu --forget
""",
    "worktree add": """
Makes ../PROJECT-NAME with a new branch. Every command in it acts as the agent NAME. Add it again to renew its values.

examples:
  leasehold worktree add coder-3
  leasehold worktree add coder-3 --value PORT=pool://ports/3000-3099 --value DB=pool://databases
  leasehold worktree add coder-3 --plan path:src/parser --plan issue:42
  leasehold worktree add coder-3 --branch fix-parser --from origin/main
""",
    "worktree list": """
examples:
  leasehold worktree list
  leasehold worktree list --json
""",
    "worktree env": """
examples:
  leasehold worktree env coder-3 --json
  eval "$(leasehold worktree env)"    # sets PORT, and whatever else was asked for
""",
    "worktree remove": """
Refused if it has changes that are in no commit, or if a living process holds a lease as this agent. Its branch stays.

examples:
  leasehold worktree remove coder-3
  leasehold worktree remove coder-3 --discard    # also throw away what is in no commit
""",
    "serve": """
Without keys it serves this machine only, and everyone on it is an admin. Ctrl-C stops it: waiting clients are asked
to retry, and nothing that was acknowledged is lost.

examples:
  leasehold serve
  leasehold serve --store sqlite:///var/lib/leasehold/locks.db --port 7420
  leasehold serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
""",
    "mcp": """
Everything that the agent acquired is released when it disconnects. It needs the extra leasehold[mcp].

examples:
  leasehold mcp
  leasehold mcp --url https://locks.example:7420
""",
    "install": """
It adds to existing files, shows the difference, and can be run again at any time.

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
Editors call it; `leasehold install claude` sets them up.

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
