#!/usr/bin/env bash
# Five agents in five worktrees of one repository, each of which adds a line to the same file and merges it.
# Without the lease, their merges would conflict. Run it in an empty directory.
set -euo pipefail

if [ "${1-}" = work ]; then # what one agent does while it holds the lease
  git merge --quiet --ff-only main
  echo "- from agent $2" >> notes.md
  git commit --quiet --all --message "agent $2"
  git -C ../project merge --quiet --ff-only "agent-$2"
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
  git worktree add --quiet "../agent-$number" -b "agent-$number"
  # All worktrees share the locks of the repository, so one agent at a time does its work.
  (cd "../agent-$number" && leasehold run path:notes.md --holder "agent-$number" --wait 10m -- bash "$script" work "$number") &
done
wait

cat notes.md
