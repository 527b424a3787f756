"""What the commands print for --help, as data: man pages and shell completions are made of it."""

import dataclasses
import re
import subprocess

# An entry of a list: two spaces, a name, and a description that begins in a fixed column or on the next line.
_ENTRY = re.compile(r"^  (\S.*?)(?:  +(\S.*))?$")


@dataclasses.dataclass
class Option:
    names: list  # ["-o", "--output"]
    value: str  # "FILE"; empty for a flag
    choices: list  # the values, if there are only these
    text: str


@dataclasses.dataclass
class Command:
    name: str  # "msda-replay run"
    usage: list  # lines
    text: str
    arguments: list  # (name, text)
    options: list
    commands: list  # subcommands, each a Command
    footer: str


def _entries(lines):
    """Returns (name, description) of a section's lines."""
    entries = []
    for line in lines:
        entry = _ENTRY.match(line)
        if entry:
            entries.append([entry[1], entry[2] or ""])
        elif line.strip() and entries:
            entries[-1][1] = (entries[-1][1] + " " + line.strip()).strip()
    return [tuple(entry) for entry in entries]


def _option(name, text):
    """`-o,--output TEXT=a.h5 REQUIRED`, `--stages none|summary:{none,summary}`, `--adapter FILE (Env:NAME)`"""
    names, _, value = name.partition(" ")
    variable = re.search(r"\(Env:(\w+)\)", value)
    listed = re.search(r":\{(.*?)\}", value)
    default = re.search(r"=(\S+)", value)
    value = re.sub(r"\(Env:\w+\)|:\{.*?\}|=\S+| *REQUIRED| *\.\.\.", "", value).strip()
    choices = listed[1].split(",") if listed else []
    if not choices and re.fullmatch(r"[a-z0-9_]+(\|[a-z0-9_]+)+", value):
        choices = value.split("|")
    if choices:
        value = "|".join(choices)
    if default:
        text += f" (default: {default[1]})"
    if variable:
        text += f" (or the variable {variable[1]})"
    return Option(names.split(","), value, choices, text)


def _argument(name, text):
    words = [word for word in name.split() if word not in ("REQUIRED", "...")]
    return " ".join(dict.fromkeys(words)), text


def parse(name, printed):
    """Returns the Command of what it prints; its subcommands have only name and text."""
    head, *rest = re.split(r"^(Positionals|Options|Subcommands):$", printed, flags=re.M)
    sections = dict(zip(rest[::2], rest[1::2]))
    last = rest[-2] if rest else ""
    footer = ""
    if last:  # what follows the last section's first empty line
        sections[last], _, footer = sections[last].lstrip("\n").partition("\n\n")
    usage = re.findall(r"^Usage: (.*)$", head + footer, re.M)
    listed = {section: _entries(text.splitlines()) for section, text in sections.items()}
    return Command(name=name, usage=usage[-1:], text=head.split("Usage:")[0].strip(),
                   arguments=[_argument(*entry) for entry in listed.get("Positionals", [])],
                   options=[_option(*entry) for entry in listed.get("Options", [])],
                   commands=[Command(f"{name} {sub}", [], text, [], [], [], "") for sub, text in listed.get("Subcommands", [])],
                   footer=re.sub(r"^Usage: .*\n", "", footer.strip(), flags=re.M))


def ask(program, name):
    """Returns the Command of a program, with its subcommands."""

    def printed(*arguments):
        return subprocess.run([program, *arguments, "--help"], check=True, capture_output=True, text=True).stdout

    command = parse(name, printed())
    command.commands = [parse(sub.name, printed(sub.name.split()[-1])) for sub in command.commands]
    return command
