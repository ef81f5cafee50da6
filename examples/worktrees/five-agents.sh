#!/usr/bin/env bash
# Five agents in five worktrees of one repository, each with a port and a plan. Each adds a line to the same file and
# merges it; without the lease, their merges would conflict. Run it in an empty directory.
set -euo pipefail

if [ "${1-}" = work ]; then # what one agent does while it holds the lease
  git merge --quiet --ff-only main
  echo "- from $LEASEHOLD_HOLDER on port $PORT" >> notes.md
  git commit --quiet --all --message "$LEASEHOLD_HOLDER"
  git -C ../project merge --quiet --ff-only "$LEASEHOLD_HOLDER"
  exit
fi

script=$(realpath "$0")
git init --quiet --initial-branch main project
cd project
git config user.name agents
git config user.email agents@example.com
echo "# Notes" > notes.md
git add notes.md
git commit --quiet --message "begin"

for number in 1 2 3 4 5; do
  leasehold worktree add "agent-$number" --value PORT=pool://ports/3000-3099 --plan path:notes.md >> ../agents.txt
done
leasehold worktree list

for number in 1 2 3 4 5; do
  # All worktrees share the locks of the repository, so one agent at a time does its work.
  (
    cd "../project-agent-$number"
    eval "$(leasehold worktree env)"
    leasehold run path:notes.md --wait 10m -- bash "$script" work
  ) &
done
wait

for number in 1 2 3 4 5; do
  leasehold worktree remove "agent-$number" >> ../agents.txt
done
cat notes.md
