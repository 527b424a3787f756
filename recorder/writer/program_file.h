// Reads from the file of a program that is to be recorded what decides whether the recorder can be loaded into it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace msda::record {

// Returns the file that execvp would run; empty if there is none.
std::filesystem::path find_program(const std::string& program);

struct ProgramFile {
  enum class Kind {
    kUnreadable,  // no regular file, or one that may be executed and not read
    kElf,         // of 64 bits
    kOtherElf,    // of 32 bits
    kScript,      // with #!
    kOther,       // a script without that line, which the shell runs, or of another system
  } kind = Kind::kUnreadable;
  uint16_t machine = 0;          // EM_*, as <elf.h> names them
  bool has_interpreter = false;  // the dynamic loader, which preloads the recorder; a static program has none
  bool changes_user =
      false;  // set-user-ID, set-group-ID or with file capabilities: nothing is preloaded from any folder
  // The names of its dynamic symbols, and of the libraries that it needs, each after a zero byte.
  std::string dynamic_names;
  // What a script's first line runs it with.
  std::string interpreter;

  bool imports(std::string_view symbol) const;
};

ProgramFile read_program(const std::filesystem::path& path);

}  // namespace msda::record
