// The program msda-replay.
#pragma once

namespace msda::replay {

// Parses the command line and runs its subcommand. Returns the exit status.
int run_program(int argc, char** argv);

}  // namespace msda::replay
