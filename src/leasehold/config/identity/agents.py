"""The agents and CI systems that Leasehold recognises, and the processes that never identify a caller. Plain data.

A name counts only with an id that is unique to one run, and only if the system's process is an ancestor of the command,
where ancestors can be read: ids outlive their agent in terminal multiplexers, and nested agents inherit those of their
parent.

`tests/config/test_identity_agents.py` has a test for each row.
"""

from __future__ import annotations

from leasehold.domain.nouns import Noun


class System(Noun):
    """One agent, or one CI system."""

    label: str
    """The start of holder names, here and in hooks."""
    ids: tuple[tuple[str, ...], ...]
    """Variables that together are unique to one run: the first group of which all are set counts."""
    words: str
    """The readable part of a job's name, with variables in braces; empty for agents, whose id is shown."""
    processes: frozenset[str]
    """Programs that belong to one run alone: owners by descent."""
    listeners: frozenset[str]
    """Programs that start many runs, or people's terminals too: they confirm an id, and are never owners."""
    marks: tuple[str, ...] = ()
    """Variables of any run of this agent, which do not identify the run."""
    begins: str = ""
    """The start of the id, if its variable may have other values."""
    shares_process: bool = False
    """True if one process serves several runs at a time, so that only their ids distinguish them."""


_none: frozenset[str] = frozenset()

SYSTEMS = (
    # Claude Code sets it for Bash calls and hooks since 2.1.132 (anthropics/claude-code#63758, 2026-05-29). Sub-agents
    # share process and environment (#74417). Each Bash call is a session below `claude` (#94469, 2026-09-15), or below
    # `node …/@anthropic-ai/claude-agent-sdk/cli.js` (anthropics/claude-agent-sdk-typescript#55, 2025-11-04). The native
    # installer's program is `…/claude/versions/2.1.201`: macOS (#12433, 2025-11-26) and the workers of background
    # sessions (#74641, 2026-07-06) show the version as its name. One `claude daemon run` starts the workers of all
    # background sessions (#83728, 2026-08-04), each a process for itself.
    System(
        "claude",
        (("CLAUDE_CODE_SESSION_ID",),),
        "",
        frozenset(("claude", "claude-code", "claude-agent-sdk")),
        frozenset(("claude daemon",)),
        ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"),
    ),
    # openai/codex PR 10096 (2026-01-28). Until PR 16882 (2026-04-06) a nested `codex exec` showed its parent's id
    # (#15527): their processes distinguish the two. One `codex app-server` serves the threads of many terminals and
    # all sub-agents (#24638, 2026-06-01; cyrusagents/cyrus PR 1293, 2026-06-09), each with an id of its own.
    System(
        "codex",
        (("CODEX_THREAD_ID",),),
        "",
        frozenset(("codex",)),
        _none,
        ("CODEX_SANDBOX", "CODEX_CI"),
        shares_process=True,
    ),
    # gleanwork/glean-plugins-vnext PR 12 (2026-06-19) and fujibee/agmsg#856 (2026-08-17): absent in MCP servers. The
    # editor's process is also the ancestor of people's terminals, and CURSOR_TRACE_ID is set in those too
    # (web-infra-dev/rstest#994, 2026-03-03), so it is no id. The command line is `…/bin/agent --use-system-ca
    # …/cursor-agent/versions/2026.08.04-aaa8809/index.js` (herdrdev/herdr#2615, 2026-08-10), its name that of a thread
    # of Node (deepcoldy/botmux PR 99, 2026-06-03).
    System(
        "cursor",
        (("CURSOR_CONVERSATION_ID",),),
        "",
        frozenset(("cursor-agent",)),
        frozenset(("cursor", "Cursor", "Cursor Helper", "cursor-server")),
        ("CURSOR_AGENT",),
    ),
    # google-gemini/gemini-cli PR 4791 (2025-07-24): a mark only, no id in the environment.
    System("gemini", (), "", frozenset(("gemini", "gemini-cli")), _none, ("GEMINI_CLI",)),
    # anomalyco/opencode PR 50006 (closed, 2026-09-19): OPENCODE=1, AGENT=1 and OPENCODE_PID, no session id.
    System("opencode", (), "", frozenset(("opencode",)), _none, ("OPENCODE", "OPENCODE_PID")),
    # moonrepo/proto#1028 and watson/is-ci#28 (2026): the cloud agent. VS Code's terminals have COPILOT_AGENT=1, a mark
    # (microsoft/vscode PR 316267, 2026-05-13).
    System(
        "copilot",
        (("COPILOT_AGENT_SESSION_ID",),),
        "",
        frozenset(("copilot",)),
        frozenset(("code", "Code", "Code Helper", "code-server", "Runner.Worker")),
        ("COPILOT_AGENT", "COPILOT_CLI"),
    ),
    # actions/runner src/Runner.Worker/JobExtension.cs at b7fd7da (#4601, 2026-08-03): `github_` and a GUID for each
    # job. Jobs blank it so that their processes outlive them. GITHUB_JOB alone is equal in all legs of a matrix
    # (actions/toolkit#65). Runner.Worker is one process for each job, Runner.Listener one for each runner.
    System(
        "GitHub",
        (("RUNNER_TRACKING_ID",), ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB", "RUNNER_NAME")),
        "run {GITHUB_RUN_ID} / {GITHUB_JOB}",
        frozenset(("Runner.Worker",)),
        frozenset(("Runner.Listener",)),
        ("GITHUB_ACTIONS",),
        "github_",
    ),
    # docs.gitlab.com/ci/variables/predefined_variables (2026): unique across all jobs of one GitLab.
    System(
        "GitLab",
        (("CI_JOB_ID", "CI_SERVER_HOST"), ("CI_JOB_ID", "GITLAB_CI")),
        "job {CI_JOB_ID} / {CI_JOB_NAME}",
        _none,
        frozenset(("gitlab-runner", "gitlab-ci-multi-runner", "gitlab-runner-helper")),
        ("GITLAB_CI",),
    ),
    # buildkite.com/docs/pipelines/environment_variables (2026). `buildkite-agent` is both the listener and the
    # bootstrap of one job.
    System(
        "Buildkite",
        (("BUILDKITE_JOB_ID",),),
        "{BUILDKITE_PIPELINE_SLUG} {BUILDKITE_BUILD_NUMBER}",
        _none,
        frozenset(("buildkite-agent",)),
        ("BUILDKITE",),
    ),
    # jenkins.io, "Using environment variables" (2026): BUILD_TAG is shared by parallel branches, each of which has an
    # executor of a node for itself. The agent is a Java process: its jar names it.
    System(
        "Jenkins",
        (("BUILD_TAG", "NODE_NAME", "EXECUTOR_NUMBER"),),
        "{BUILD_TAG} on {NODE_NAME}",
        _none,
        frozenset(("agent.jar", "remoting.jar", "slave.jar", "swarm-client.jar", "jenkins.war")),
        ("JENKINS_URL",),
    ),
    # circleci.com/docs/reference/variables (2026-09-29): parallel containers of one job share the job's id.
    System(
        "CircleCI",
        (("CIRCLE_WORKFLOW_JOB_ID", "CIRCLE_NODE_INDEX"), ("CIRCLE_WORKFLOW_JOB_ID",)),
        "{CIRCLE_JOB} {CIRCLE_BUILD_NUM}",
        _none,
        frozenset(("circleci-agent", "circleci-runner", "circleci", "build-agent", "task-agent")),
        ("CIRCLECI",),
    ),
    # learn.microsoft.com/azure/devops/pipelines/build/variables (2026): SYSTEM_JOBID is equal across runs
    # (MicrosoftDocs/azure-devops-docs#10475). Agent.Worker is one process for each job.
    System(
        "Azure",
        (("BUILD_BUILDID", "SYSTEM_JOBID", "SYSTEM_JOBATTEMPT"),),
        "build {BUILD_BUILDID} / {SYSTEM_JOBNAME}",
        frozenset(("Agent.Worker",)),
        frozenset(("Agent.Listener",)),
        ("TF_BUILD",),
    ),
)

MARKS_OF_OTHERS = (
    # Proposed to all agents by @vercel/detect-agent (2025); Crush sets it (charmbracelet/crush PR 2484, 2026-03-25)
    "AI_AGENT",
    # aaif-goose/goose PR 7017 (2026-02-06), vercel/vercel PR 15350 (2026-03-02); other values may be anybody's
    *("AGENT=goose", "AGENT=amp", "AGENT=crush"),
    # vercel/vercel PR 14635 (2026-01-15) and PR 15413 (2026)
    *("AUGMENT_AGENT", "ANTIGRAVITY_AGENT"),
    # Cursor's editor, for the commands of its agent: auth0/auth0-cli PR 1639 (2026-09-02)
    "CURSOR_EXTENSION_HOST_ROLE=agent-exec",
)
"""Variables, some with a value, that agents without a row of their own set for their commands."""

SHELLS = frozenset(("sh", "bash", "dash", "zsh", "fish", "ash", "ksh", "mksh", "busybox", "nu", "pwsh", "tcsh", "csh"))
INTERPRETERS = ("node", "bun", "deno", "python", "java", "MainThread")
"""Beginnings of the names of interpreters: the name of their script counts instead."""
CARRIERS = frozenset(("sudo", "su", "doas", "runuser"))
"""Programs that may begin a session for the same person."""
MULTIPLEXERS = frozenset(("tmux", "tmux: server", "tmux: client", "screen", "SCREEN", "zellij", "dtach", "abduco"))
"""Programs whose children have the variables of the command that first started them."""
LISTENERS_OF_OTHERS = frozenset(
    # Gitea's and Forgejo's Actions blank GITHUB_JOB and RUNNER_TRACKING_ID (watson/ci-info#113, 2023-07-06); on the
    # host, one process runs the steps of all jobs, as Woodpecker's and Drone's do.
    ("act_runner", "forgejo-runner", "woodpecker-agent", "drone-runner-exec", "supercronic", "pueued")
)
"""Programs of CI systems and of job queues that give no id of a run which we know."""
NOBODY = (
    MULTIPLEXERS
    | {name[:15] for name in LISTENERS_OF_OTHERS}
    | LISTENERS_OF_OTHERS
    | frozenset(
        (
            *("systemd", "init", "launchd", "runit", "runsvdir", "s6-svscan", "supervisord", "openrc", "upstart"),
            *("tini", "dumb-init", "docker-init", "catatonit", "conmon", "containerd-shim", "runc", "kthreadd"),
            *("sshd", "sshd-session", "sshd-auth", "dropbear", "mosh-server", "login", "telnetd", "in.telnetd"),
            *("cron", "crond", "CRON", "CROND", "atd", "anacron", "fcron", "systemd-run", "launchd_sim"),
            *("gnome-terminal-", "gnome-terminal", "konsole", "xterm", "uxterm", "urxvt", "rxvt", "alacritty", "kitty"),
            *(
                "wezterm-gui",
                "wezterm",
                "foot",
                "footclient",
                "ghostty",
                "st",
                "terminator",
                "tilix",
                "guake",
                "yakuake",
            ),
            *("xfce4-terminal", "mate-terminal", "lxterminal", "qterminal", "ptyxis-agent", "ptyxis", "kgx", "hyper"),
            *("Terminal", "iTerm2", "iTermServer", "Warp", "warp", "warp-terminal", "rio", "tabby", "contour"),
            *("Electron", "electron", "idea", "pycharm", "goland", "webstorm", "clion", "rider"),
        )
    )
)
"""Programs that start others on behalf of many: their descendants have nothing in common."""

VERSIONED = {"/claude/versions/": "claude", "/cursor-agent/versions/": "cursor-agent"}
"""Directories of programs and scripts whose own name is a version, or says nothing."""
DAEMONS = frozenset(("claude",))
"""Programs of one run that start many runs if `daemon` is their first word."""

OF_ONE_RUN = {name for system in SYSTEMS for name in system.processes}
OF_MANY = {name[:15] for system in SYSTEMS for name in system.listeners} - OF_ONE_RUN
"""Linux keeps 15 bytes of a program's name."""
