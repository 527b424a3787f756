"""Completions of a command for bash, zsh and fish."""

_FILES = ("FILE", "FILE|-", "SMALL", "TEXT")  # values that are names of files


def _identifier(name):
    return name.replace("-", "_").replace(" ", "_")


def _single_quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def _values_in_bash(command, indent):
    """Returns the cases for the word before the cursor: what an option's value can be."""
    lines = []
    for option in command.options:
        if option.choices:
            what = f"COMPREPLY=($(compgen -W {_single_quoted(' '.join(option.choices))} -- \"$current\"))"
        elif option.value in _FILES:
            what = 'COMPREPLY=($(compgen -f -- "$current"))'
        elif option.value:
            what = "COMPREPLY=()"
        else:
            continue
        lines.append(f"{indent}{'|'.join(option.names)}) {what}; return ;;\n")
    return "".join(lines)


def _flags(command):
    return " ".join(name for option in command.options for name in option.names)


def bash(command):
    function = f"_{_identifier(command.name)}"
    body = [f"# bash completion of {command.name}, made from its --help\n{function}() {{\n"
            '  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} word after=\n'
            "  COMPREPLY=()\n"
            "  # What follows -- is another command.\n"
            '  for word in "${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do [[ $word == -- ]] && after=1; done\n'
            '  if [[ $after ]]; then COMPREPLY=($(compgen -c -f -- "$current")); return; fi\n']
    if command.commands:
        names = " ".join(sub.name.split()[-1] for sub in command.commands)
        body.append("  if [[ $COMP_CWORD -eq 1 ]]; then\n"
                    f"    COMPREPLY=($(compgen -W {_single_quoted(names + ' ' + _flags(command))} -- \"$current\"))\n    return\n  fi\n"
                    "  local flags=\n  case ${COMP_WORDS[1]} in\n")
        for sub in command.commands:
            body.append(f"    {sub.name.split()[-1]})\n      flags={_single_quoted(_flags(sub))}\n      case $previous in\n"
                        + _values_in_bash(sub, "        ") + "        *) ;;\n      esac ;;\n")
        body.append("  esac\n")
    else:
        body.append(f"  local flags={_single_quoted(_flags(command))}\n  case $previous in\n"
                    + _values_in_bash(command, "    ") + "    *) ;;\n  esac\n")
    body.append('  if [[ $current == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$current"))\n'
                '  else COMPREPLY=($(compgen -f -- "$current")); fi\n}\n'
                f"complete -o filenames -F {function} {command.name}\n")
    return "".join(body)


def _in_zsh(option):
    """Returns a specification for _arguments: '(-o --output)'{-o,--output}'[text]:FILE:_files'"""
    text = option.text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    value = ""
    if option.value:
        action = f"({' '.join(option.choices)})" if option.choices else "_files" if option.value in _FILES else ""
        value = f":{option.value.replace(':', ' ')}:{action}"
    described = f"[{text}]{value}"
    if len(option.names) == 1:
        return f"    {_single_quoted('*' + option.names[0] + described)} \\\n"
    return f"    '*'{{{','.join(option.names)}}}{_single_quoted(described)} \\\n"


def zsh(command):
    function = f"_{command.name}"
    body = [f"#compdef {command.name}\n# made from its --help\n"]
    for sub in command.commands:
        body.append(f"{function}-{sub.name.split()[-1]}() {{\n  _arguments \\\n" + "".join(map(_in_zsh, sub.options))
                    + "    '*:file:_files'\n}\n")
    body.append(f"{function}() {{\n")
    if command.commands:
        described = "".join(f"    {_single_quoted(sub.name.split()[-1] + ':' + sub.text)}\n" for sub in command.commands)
        body.append(f"  local -a commands=(\n{described}  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n"
                    + "    _arguments \\\n" + "".join(map(_in_zsh, command.options)).removesuffix(" \\\n")
                    + f"\n    return\n  fi\n  local chosen={function}-$words[2]\n"
                      "  (( $+functions[$chosen] )) || return\n  shift words\n  (( CURRENT-- ))\n  $chosen\n}\n")
    else:
        body.append("  _arguments \\\n" + "".join(map(_in_zsh, command.options)) + "    '(-)*::command:_normal'\n}\n")
    body.append(f'{function} "$@"\n')
    return "".join(body)


def _in_fish(name, condition, option):
    words = [f"complete -c {name}", *([f"-n {_single_quoted(condition)}"] if condition else [])]
    words += [f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names]
    if option.choices:
        words.append(f"-x -a {_single_quoted(' '.join(option.choices))}")
    elif option.value:
        words.append("-r -F" if option.value in _FILES else "-x")
    text = option.text.replace("\\", "\\\\").replace("'", "\\'")
    return " ".join(words) + f" -d '{text}'\n"


def fish(command):
    body = [f"# fish completion of {command.name}, made from its --help\n"]
    body += [_in_fish(command.name, "__fish_use_subcommand" if command.commands else "", option) for option in command.options]
    for sub in command.commands:
        name, text = sub.name.split()[-1], sub.text.replace("\\", "\\\\").replace("'", "\\'")
        body.append(f"complete -c {command.name} -n __fish_use_subcommand -f -a {name} -d '{text}'\n")
        body += [_in_fish(command.name, f"__fish_seen_subcommand_from {name}", option) for option in sub.options]
    return "".join(body)
