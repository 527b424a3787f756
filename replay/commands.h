// The subcommands, a file each: every one adds itself to the application and leaves its exit status in `status`.
#pragma once

#include <CLI/CLI.hpp>

namespace msda::replay {

void add_run_command(CLI::App& app, int& status);
void add_list_command(CLI::App& app, int& status);
void add_show_command(CLI::App& app, int& status);
void add_stages_command(CLI::App& app, int& status);
void add_recover_command(CLI::App& app, int& status);
void add_verify_command(CLI::App& app, int& status);

}  // namespace msda::replay
