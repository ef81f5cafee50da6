"""completion: the completion scripts of bash, zsh and fish, generated from the table of commands."""

from __future__ import annotations

from leasehold.cli.entry.table import VERBS
from leasehold.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.cli.command_line import CliVerb, Flag
    from leasehold.cli.context import Context


def completion(context: Context) -> int:
    """Print the completion script of one shell."""
    shell = context.values["shell"]
    if shell not in SCRIPTS:
        raise InvalidInput("shell", f"must be one of {', '.join(SCRIPTS)}")
    script = SCRIPTS[shell]()
    return context.end(None, script, {"shell": shell, "script": script})


HELD = frozenset(("target", "targets", "resource"))
"""Arguments that name a held resource."""
HELD_TOO = ("steal", "lock renew", "lock release", "lock status")


def _names_held(verb: CliVerb) -> bool:
    """True if an argument of this command names a held resource."""
    return verb.name in HELD_TOO or any(word.name in HELD for word in verb.words)


def _families() -> dict[str, list[CliVerb]]:
    """Group the commands by their first word."""
    found: dict[str, list[CliVerb]] = {}
    for verb in VERBS.values():
        found.setdefault(verb.name.partition(" ")[0], []).append(verb)
    return found


def _second(verb: CliVerb) -> str:
    return verb.name.partition(" ")[2]


def _options(first: str) -> list[Flag]:
    """Return the options of all commands that begin with this word, each flag once."""
    flags = {option.flag: option for verb in _families()[first] for option in verb.options}
    return [flags[flag] for flag in sorted(flags)]


def _about(first: str) -> str:
    verbs = _families()[first]
    return f"{first} commands" if _second(verbs[0]) else verbs[0].help


# ---------------------------------------------------------------------------------------------------- bash


def _bash() -> str:
    cases = "\n".join(f"    {first}) {_bash_family(first)} ;;" for first in _families())
    held = [verb for verb in VERBS.values() if _names_held(verb)]
    patterns = (f'"{verb.name}"' if _second(verb) else f'"{verb.name} "*' for verb in held)  # of the first two words
    return f"""\
_leasehold_held() {{
  local line="${{COMP_LINE:0:${{COMP_POINT:-0}}}}" typed="$1" name cut=""
  [ -n "$line" ] && typed="${{line##* }}" || line="${{COMP_WORDS[*]}}"
  case "$COMP_WORDBREAKS" in *:*) cut="${{typed%"${{typed##*[:=]}}"}}" ;; esac
  while IFS= read -r name; do
    [[ "$name" == "$typed"* ]] && COMPREPLY+=("$(printf %q "${{name#"$cut"}}")")
  done < <(leasehold __complete -- "$line" 2>/dev/null)
}}
_leasehold() {{
  local words="" at current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(_families())} help --help --version" -- "$current"))
    return
  fi
  if [ "${{COMP_WORDS[1]}}" = run ]; then
    for ((at = 2; at < COMP_CWORD; at++)); do
      if [ "${{COMP_WORDS[at]}}" = -- ]; then
        COMPREPLY=($(compgen -c -- "$current") $(compgen -f -- "$current"))
        return
      fi
    done
  fi
  case "$before" in
{_bash_values()}
  esac
  case "${{COMP_WORDS[1]}}" in
{cases}
    help) words="{" ".join(_families())}" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  case "$current" in -*) return ;; esac
  case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" in
    {"|".join(patterns)}) _leasehold_held "$current" ;;
  esac
}}
complete -F _leasehold leasehold"""


def _bash_family(first: str) -> str:
    seconds = [_second(verb) for verb in _families()[first] if _second(verb)]
    flags = " ".join([*(option.flag for option in _options(first)), "--help"])
    if seconds:
        return f'if [ "$COMP_CWORD" -eq 2 ]; then words="{" ".join(seconds)} --help"; else words="{flags}"; fi'
    shells = f"{' '.join(SCRIPTS)} " if first == "completion" else ""
    return f'words="{shells}{flags}"'


def _bash_values() -> str:
    """Return the completions of options' values."""
    taking = {option.flag: option for first in _families() for option in _options(first) if option.metavar is not None}
    lines = []
    for flag, option in sorted(taking.items()):
        if option.choices:
            reply = f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$current"))'
        elif option.metavar == "FILE":
            reply = 'COMPREPLY=($(compgen -f -- "$current"))'
        else:
            reply = ":"
        lines.append(f"    {flag}) {reply}; return ;;")
    return "\n".join(lines)


# ----------------------------------------------------------------------------------------------------- zsh


def _zsh() -> str:
    cases = "\n".join(_zsh_family(first) for first in _families())
    return f"""\
#compdef leasehold
_leasehold_held() {{
  local -a names
  names=(${{(f)"$(leasehold __complete -- "$LBUFFER" 2>/dev/null)"}})
  compadd -a names
}}
_leasehold() {{
  local -a commands
  if (( CURRENT == 2 )); then
    commands=({" ".join(_zsh_word(f"{first}:{_about(first)}") for first in _families())})
    _describe command commands
    return
  fi
  case $words[2] in
{cases}
  esac
}}
if [ "$funcstack[1]" = _leasehold ]; then _leasehold "$@"; else compdef _leasehold leasehold; fi"""


def _zsh_family(first: str) -> str:
    verbs = _families()[first]
    lines = [f"    {first})"]
    if _second(verbs[0]):
        seconds = " ".join(_zsh_word(f"{_second(verb)}:{verb.help}") for verb in verbs)
        lines.append(f"      if (( CURRENT == 3 )); then commands=({seconds}); _describe command commands; return; fi")
        lines.append("      shift words; (( CURRENT-- ))")
    rest = "'*:held:_leasehold_held'" if any(map(_names_held, verbs)) else "'*: :'"
    if first == "run":
        rest = "'*:: :_normal'"
    elif first == "completion":
        rest = f"'*: :({' '.join(SCRIPTS)})'"
    specs = " ".join([*(_zsh_option(option) for option in _options(first)), "'--help[show the help]'", rest])
    return "\n".join([*lines, "      shift words; (( CURRENT-- ))", f"      _arguments {specs} ;;"])


def _zsh_word(text: str) -> str:
    return f"'{_plain(text)}'"


def _zsh_option(option: Flag) -> str:
    about = _plain(option.help).replace("[", "(").replace("]", ")")
    if option.metavar is None:
        return f"'{option.flag}[{about}]'"
    values = f"({' '.join(option.choices)})" if option.choices else "_files" if option.metavar == "FILE" else " "
    return f"'{'*' if option.many else ''}{option.flag}[{about}]:{option.metavar}:{values}'"


# ---------------------------------------------------------------------------------------------------- fish


def _fish() -> str:
    lines = ["complete -c leasehold -f"]
    for first, verbs in _families().items():
        lines.append(f"complete -c leasehold -n __fish_use_subcommand -a {first} -d '{_plain(_about(first))}'")
        seen = f"-n '__fish_seen_subcommand_from {first}'"
        lines += [
            f"complete -c leasehold {seen} -a {_second(verb)} -d '{_plain(verb.help)}'"
            for verb in verbs
            if _second(verb)
        ]
        lines += [f"complete -c leasehold {seen} {_fish_option(option)}" for option in _options(first)]
        if any(map(_names_held, verbs)):
            lines.append(f"complete -c leasehold {seen} -a '(leasehold __complete -- (commandline -cp) 2>/dev/null)'")
    lines.append(f"complete -c leasehold -n '__fish_seen_subcommand_from completion' -a '{' '.join(SCRIPTS)}'")
    return "\n".join(lines)


def _fish_option(option: Flag) -> str:
    about = f"-d '{_plain(option.help)}'"
    if option.metavar is None:
        return f"-l {option.flag[2:]} {about}"
    values = f"-x -a '{' '.join(option.choices)}'" if option.choices else "-r -F" if option.metavar == "FILE" else "-x"
    return f"-l {option.flag[2:]} {values} {about}"


def _plain(text: str) -> str:
    return text.replace("'", "").replace("\\", "")


SCRIPTS: dict[str, Callable[[], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
