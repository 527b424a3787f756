// The flags that the subcommands share.
#pragma once

#include <cstdint>
#include <optional>

#include "replay/base/options.h"

namespace CLI {
class App;
}

namespace msda::replay {

void add_capture(CLI::App& command, Options& options);
void add_captures(CLI::App& command, Options& options);
void add_invocation(CLI::App& command, Options& options);
void add_json(CLI::App& command, Options& options);
// Flags whose whole value must be a number of 64 bits.
void add_count(CLI::App& command, const char* flag, int64_t& target, const char* help);
void add_count(CLI::App& command, const char* flag, std::optional<int64_t>& target, const char* help);
void add_seed(CLI::App& command, uint64_t& target, const char* help);
void add_threads(CLI::App& command, Options& options);
void add_damaged(CLI::App& command, Options& options);
// --atol and --rtol.
void add_tolerance(CLI::App& command, Options& options);
// --operator FILE: its files are read as the command line is.
void add_operator(CLI::App& command);
// Flags of commands whose findings are followed from night to night.
void add_findings(CLI::App& command, Options& options);
// Adds the flags that decide what is compared, and how it is reported.
void add_comparison(CLI::App& command, Options& options);
// Adds these, and the flags that decide what is replayed and where.
void add_replay(CLI::App& command, Options& options);

}  // namespace msda::replay
