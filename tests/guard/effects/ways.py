"""Ways in which a shell changes a file, each with what has to be there before it.

In a command `{f}` is the file, below the top directory where the command runs; `{dir}` its directory and `{base}` its
name there. The file has the lines `one`, `two`, `three` and is committed; a commit on the branch `feature` changes it.
"""

from __future__ import annotations

from typing import NamedTuple


class Way(NamedTuple):
    """One way to change a file."""

    name: str
    command: str
    before: str = ""
    """What is run first, unwatched."""
    needs: str = ""
    """A program that has to be there."""


_PATCH = """cat > ../change.patch <<'END'
--- a/{f}
+++ b/{f}
@@ -1,3 +1,3 @@
 one
-two
+2
 three
END
"""
_MAKE = "printf 'all:\\n\\techo made > {f}\\n' > ../Makefile"
_C = "printf 'int main(void) {{ return 0; }}\\n' > ../main.c"

WAYS = (
    # ------------------------------------------------------------------------------------- redirections
    Way("redirect", "echo x > {f}"),
    Way("append", "echo x >> {f}"),
    Way("clobber", "echo x >| {f}"),
    Way("redirect all", "echo x &> {f}"),
    Way("redirect errors", "ls /nowhere 2> {f}; true"),
    Way("empty it", ": > {f}"),
    Way("read and write", "echo x 1<> {f}"),
    Way("descriptor", "exec 3> {f}; echo x >&3; exec 3>&-"),
    Way("here-document", "cat > {f} <<'END'\nx\nEND"),
    Way("here-string", "cat > {f} <<< x"),
    Way("process substitution", "echo x | tee >(cat > {f}) > /dev/null; sleep 0.1"),
    Way("group", "{{ echo x; echo y; }} > {f}"),
    Way("subshell", "(cd {dir}; echo x > {base})"),
    Way("directory first", "cd {dir} && cat > {base} <<< x"),
    Way("pushd", "pushd {dir} > /dev/null; echo x > {base}; popd > /dev/null"),
    # ---------------------------------------------------------------------------- words that are not plain
    Way("variable", "F={f}; echo x > $F"),
    Way("parameter", 'set -- {f}; echo x > "$1"'),
    Way("glob", "for each in {dir}/{base}*; do echo x > $each; done"),
    Way("brace", "touch -d 2001-01-01 {dir}/{{{base},unknown}}; echo x >> {dir}/{base}; rm -f {dir}/unknown"),
    Way("command substitution", "echo x > $(echo {f})"),
    Way("function", "change() {{ echo x > {f}; }}; change"),
    Way("eval", "eval 'echo x > {f}'"),
    Way("shell in a shell", "bash -c 'echo x > {f}'"),
    Way("script", "sh ../script.sh", "echo 'echo x > {f}' > ../script.sh"),
    Way("sourced script", ". ../script.sh", "echo 'echo x > {f}' > ../script.sh"),
    Way("script on standard input", "echo 'echo x > {f}' | sh"),
    Way("encoded", "echo ZWNobyB4ID4g | base64 -d > /dev/null; sh -c \"$(printf 'echo x > %s' {f})\""),
    Way("background", "(sleep 0.1; echo x > {f}) & wait"),
    Way("nohup", "nohup sh -c 'echo x > {f}' > /dev/null 2>&1"),
    Way("env", "env X=1 sh -c 'echo x > {f}'"),
    Way("timeout", "timeout 5 sh -c 'echo x > {f}'"),
    # ---------------------------------------------------------------------------------------- file tools
    Way("tee", "echo x | tee {f} > /dev/null"),
    Way("tee -a", "echo x | tee -a {f} > /dev/null"),
    Way("cp", "cp ../other {f}", "echo other > ../other"),
    Way("cp over attributes", "cp -p ../other {f}", "echo other > ../other; touch -r {f} ../other"),
    Way("mv over", "mv ../other {f}", "echo other > ../other"),
    Way("mv away", "mv {f} ../gone"),
    Way("rm", "rm {f}"),
    Way("unlink", "unlink {f}"),
    Way("shred", "shred -u {f}", needs="shred"),
    Way("truncate", "truncate -s 2 {f}"),
    Way("dd", "echo x | dd of={f} status=none"),
    Way("install", "install -m 644 ../other {f}", "echo other > ../other"),
    Way("symbolic link", "ln -sf /dev/null {f}"),
    Way("hard link", "ln {f} ../link && echo x > ../link && rm ../link"),
    Way("through a link", 'ln -s "$PWD/{f}" ../link && echo x > ../link; rm ../link'),
    Way("split", "echo x | split -b 9 - ../piece && mv ../pieceaa {f}"),
    Way("sort -o", "sort -o {f} {f} -r"),
    Way("sort --out", "sort --out={f} {f} -r"),
    Way("sort -ro", "sort -ro {f} {f}"),
    Way("uniq into", "printf 'x\\nx\\n' | uniq - {f}"),
    Way("chmod", "chmod 755 {f}"),
    Way("temporary file", "T=$(mktemp) && echo x > $T && mv $T {f}"),
    Way("gunzip", "gzip -dc ../x.gz > {f}", "echo x | gzip > ../x.gz"),
    Way("tar", "tar xf ../x.tar", "mkdir -p ../t/{dir}; echo x > ../t/{f}; tar cf ../x.tar -C ../t {f}"),
    Way("curl", 'curl -s -o {f} "file://$(realpath ../other)"', "echo other > ../other", "curl"),
    # ------------------------------------------------------------------------------------------- editors
    Way("sed -i", "sed -i s/two/2/ {f}"),
    Way("sed with -i at its end", "sed s/two/2/ {f} -i"),
    Way("sed --in-place after its script", "sed -n p --in-place {f}; echo x >> {f}"),
    Way("sed w", "sed -n 'w {f}' ../other", "echo other > ../other"),
    Way("perl -pi", "perl -pi -e s/two/2/ {f}", needs="perl"),
    Way("awk", "awk '{{ print > \"{f}\" }}' ../other", "echo other > ../other"),
    Way("ed", "printf '2d\\nw\\nq\\n' | ed -s {f}", needs="ed"),
    Way("ex", "printf '2d\\nwq\\n' | ex -s {f}", needs="ex"),
    Way("xargs sed", "echo {f} | xargs sed -i s/two/2/"),
    Way("find -exec", "find {dir} -name {base} -exec sed -i s/two/2/ {{}} +"),
    Way("find -delete", "find {dir} -name {base} -delete"),
    Way("patch", "patch -s -p1 < ../change.patch", _PATCH, "patch"),
    Way("grep and xargs", "grep -rl two {dir} | grep {base} | xargs -I@ sh -c 'echo x > @'"),
    # ----------------------------------------------------------------------------------------- languages
    Way("python -c", "python3 -c \"open('{f}', 'w').write('x')\""),
    Way("python here-document", "python3 - <<'END'\nimport pathlib\npathlib.Path('{f}').write_text('x')\nEND"),
    Way("python rename", "python3 -c \"import os; os.rename('{f}', '{f}.old'); os.rename('{f}.old', '{f}.new')\""),
    Way("python old times", "python3 -c \"import os; open('{f}', 'w').write('ONE'); os.utime('{f}', (1, 1))\""),
    Way("python unlink", "python3 -c \"import os; os.unlink('{f}')\""),
    Way("perl -e", 'perl -e \'open F, ">", "{f}"; print F "x"\'', needs="perl"),
    Way("node -e", "node -e \"require('fs').writeFileSync('{f}', 'x')\"", needs="node"),
    Way("compiler", "cc -o {f} ../main.c", _C, "cc"),
    Way("make", "make -s -f ../Makefile", _MAKE, "make"),
    Way(
        "formatter", "python3 ../format.py {f}", 'echo \'import sys; open(sys.argv[1], "a").write("#")\' > ../format.py'
    ),
    Way(
        "zipfile",
        "python3 -m zipfile -e ../x.zip .",
        "(cd ../ && mkdir -p z/{dir} && echo x > z/{f} && cd z && python3 -m zipfile -c ../x.zip {dir})",
    ),
    # ---------------------------------------------------------------------------------------------- git
    Way("git checkout --", "git checkout -q -- {f}", "echo dirty > {f}"),
    Way("git checkout .", "git checkout -q .", "echo dirty > {f}"),
    Way("git checkout branch", "git checkout -q feature"),
    Way("git checkout path of branch", "git checkout -q feature -- {f}"),
    Way("git switch", "git switch -q feature"),
    Way("git restore", "git restore {f}", "echo dirty > {f}"),
    Way("git restore --source", "git restore --source=feature {f}"),
    Way("git stash", "git stash -q", "echo dirty > {f}"),
    Way("git stash pop", "git stash pop -q", "echo dirty > {f}; git stash -q"),
    Way("git reset --hard", "git reset -q --hard", "echo dirty > {f}"),
    Way("git reset to commit", "git reset -q --hard feature"),
    Way("git clean", "git clean -fdq", "git rm -q --cached {f}; git commit -qm untracked"),
    Way("git merge", "git merge -q feature"),
    Way("git merge without commit", "git merge -q --no-commit --no-ff feature"),
    Way("git cherry-pick", "git cherry-pick feature > /dev/null"),
    Way("git revert", "git revert --no-edit HEAD > /dev/null", "git cherry-pick feature"),
    Way("git rebase", "git rebase -q feature"),
    Way("git pull", "git pull -q --no-rebase . feature"),
    Way("git apply", "git apply ../change.patch", _PATCH),
    Way("git am", "git am -q ../mail", "git format-patch -1 --stdout feature > ../mail"),
    Way("git mv", "git mv {f} {f}.moved"),
    Way("git rm", "git rm -q {f}"),
    Way("git checkout-index", "git checkout-index -f {f}", "echo dirty > {f}"),
    Way("git read-tree", "git read-tree -u --reset feature"),
    Way("git show", "git show feature:{f} > {f}"),
    Way("git archive", "git archive feature {f} | tar x"),
    Way("git in another directory", 'cd / && git -C "$OLDPWD" checkout -q feature -- {f}'),
)

READS = (
    *("ls -la", "cat {f}", "head -2 {f} | tail -1", "grep -rn two .", "wc -l {f}", "git status --short", "git diff"),
    *("git log --oneline -3", "git show HEAD:{f}", "git blame {f}", "find . -name '*.py' -print", "sed -n 1,2p {f}"),
    *("sort {f} | uniq -c", "cat {f} > /dev/null", "stat {f} 2>&1", "diff {f} {f} && echo same", "test -e {f}"),
    *(
        "python3 -c \"print(open('{f}').read())\"",
        "git fetch -q .",
        "git add {f}",
        "git ls-files -z src | xargs -0 cat",
    ),
    *("awk '{{ print $1 }}' {f}", "make -n -f /dev/null all; true", "git branch topic && git branch -D topic"),
)
"""What changes no file of the tree."""
