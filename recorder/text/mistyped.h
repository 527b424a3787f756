// What a command says of a mistyped subcommand or flag.
#pragma once

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "recorder/text/closest.h"

namespace msda::text {

// The flags that a command takes, with their dashes.
inline std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

// "--tolerence: no such flag; did you mean --tolerance?" for a flag that the command lacks; the question only if one is
// similar.
inline std::string unknown_flag(const CLI::App& command, const std::string& argument) {
  const std::string flag = argument.substr(0, argument.find('='));
  const std::vector<std::string> known = flags_of(command);
  if (std::ranges::find(known, flag) != known.end()) {
    return flag + ": is a flag of " + command.get_name() + ": give it behind that word";
  }
  const std::string meant = closest(flag, known);
  return flag + ": no such flag of " + command.get_name() + (meant.empty() ? "" : "; did you mean " + meant + "?");
}

// The same for the first argument of a command line that could not be understood: a subcommand, or a flag of one. Empty
// if all of them are known, and something else was wrong.
inline std::string mistyped(const CLI::App& app) {
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) commands.push_back(command->get_name());  // else it is hidden
  }
  const CLI::App* chosen = &app;
  for (const CLI::App* command : app.get_subcommands()) chosen = command;
  for (const std::string& argument : app.remaining(true)) {
    if (argument.size() > 1 && argument[0] == '-') return unknown_flag(*chosen, argument);
    if (chosen != &app) continue;
    const std::string meant = closest(argument, commands);
    return argument + ": no such command of " + app.get_name() + (meant.empty() ? "" : "; did you mean " + meant + "?");
  }
  return {};
}

}  // namespace msda::text
