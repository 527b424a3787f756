// Subcommands whose options are a struct.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <utility>

namespace msda::replay {

// Adds a subcommand that calls run(options), whose result is the exit status. The options live as long as the command.
template <class Options, class Run>
std::pair<CLI::App&, Options&> new_command(CLI::App& app, int& status, const char* name, const char* description,
                                           Run run) {
  const auto options = std::make_shared<Options>();
  CLI::App& command = *app.add_subcommand(name, description);
  command.callback([options, run, &status] { status = run(*options); });
  return {command, *options};
}

}  // namespace msda::replay
