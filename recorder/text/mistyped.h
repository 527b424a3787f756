// What a command says of a mistyped subcommand or flag.
#pragma once

#include <CLI/CLI.hpp>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "recorder/text/closest.h"
#include "recorder/text/shell.h"

namespace msda::text {

// Returns the flags that a command takes, with their dashes.
inline std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

// Returns "--tolerence: no such flag; did you mean --tolerance?" for a flag that the command lacks; the question only
// if one is similar.
inline std::string unknown_flag(const CLI::App& command, const std::string& argument) {
  const std::string flag = argument.substr(0, argument.find('='));
  const std::vector<std::string> known = flags_of(command);
  if (std::ranges::find(known, flag) != known.end()) {
    return flag + ": is a flag of " + command.get_name() + ": give it behind that word";
  }
  const std::string meant = closest(flag, known);
  return flag + ": no such flag of " + command.get_name() + (meant.empty() ? "" : "; did you mean " + meant + "?");
}

inline std::string unknown_command(const CLI::App& app, const std::string& argument,
                                   const std::vector<std::string>& commands) {
  std::string lower = argument;
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  std::string meant = lower == "help" || lower == "version" ? "--" + lower : closest(lower, commands);
  if (meant.empty() && access(argument.c_str(), F_OK) == 0) meant = app.get_name() + " run " + shell_word(argument);
  return argument + ": no such command of " + app.get_name() + (meant.empty() ? "" : "; did you mean " + meant + "?");
}

// Returns such a text for the first argument of a command line that could not be understood: a subcommand, or a flag of
// one. Empty if all of them are known, and something else was wrong.
inline std::string mistyped(const CLI::App& app) {
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) commands.push_back(command->get_name());  // else it is hidden
  }
  if (app.get_subcommands().empty() && app.remaining(true).empty() && !commands.empty()) {
    std::string all;
    for (const std::string& name : commands) all += (all.empty() ? "" : ", ") + name;
    return "give a command: " + all;
  }
  const CLI::App* chosen = &app;
  std::string superfluous;
  for (const CLI::App* command : app.get_subcommands()) chosen = command;
  for (const std::string& argument : app.remaining(true)) {
    if (argument.size() > 1 && argument[0] == '-') return unknown_flag(*chosen, argument);
    if (chosen != &app) {
      if (superfluous.empty()) superfluous = argument + ": one argument more than " + chosen->get_name() + " takes";
    } else {
      return unknown_command(app, argument, commands);
    }
  }
  return superfluous;
}

}  // namespace msda::text
