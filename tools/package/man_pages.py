"""Man pages of a command and its subcommands."""


def _plain(text):
    """Text in roff: backslashes, hyphens that are typed, and a line that would be a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(("\\&" + line if line.startswith((".", "'")) else line) for line in text.splitlines())


def _option(option):
    value = f" \\fI{_plain(option.value)}\\fR" if option.value else ""
    names = ", ".join(f"\\fB{_plain(name)}\\fR" for name in option.names)
    return f".TP\n{names}{value}\n{_plain(option.text)}\n"


def _page(command, version, see_also):
    title = command.name.replace(" ", "-")
    page = [f'.TH "{title.upper()}" 1 "" "msda-replay {version}" "msda-replay"\n',
            f".SH NAME\n{_plain(title)} \\- {_plain(command.text.splitlines()[0])}\n",
            ".SH SYNOPSIS\n" + "".join(f"{_plain(line)}\n" for line in command.usage)]
    if command.arguments:
        page.append(".SH ARGUMENTS\n" + "".join(f".TP\n\\fI{_plain(name)}\\fR\n{_plain(text)}\n" for name, text in command.arguments))
    page.append(".SH OPTIONS\n" + "".join(map(_option, command.options)))
    if command.commands:
        page.append(".SH COMMANDS\n" + "".join(
            f".TP\n\\fB{_plain(sub.name.split()[-1])}\\fR\n{_plain(sub.text)}\n" for sub in command.commands))
    if command.footer:
        page.append(".SH NOTES\n" + "\n.PP\n".join(_plain(line) for line in command.footer.splitlines() if line) + "\n")
    page.append(".SH SEE ALSO\n" + ", ".join(f"\\fB{_plain(name)}\\fR(1)" for name in see_also if name != title)
                + "\n.PP\nThe documentation in /usr/share/doc/msda\\-replay, or in share/doc/msda\\-replay of another installation.\n")
    return title, "".join(page)


def man_pages(commands, version):
    """Returns {file name: text} for commands and their subcommands."""
    tops = [command.name for command in commands]
    pages = {}
    for command in commands:
        below = [sub.name.replace(" ", "-") for sub in command.commands]
        for entry, see_also in [(command, tops + below), *((sub, tops) for sub in command.commands)]:
            title, page = _page(entry, version, see_also)
            pages[f"{title}.1"] = page
    return pages
