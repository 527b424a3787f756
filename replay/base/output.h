// Writes a command's results and messages. A failed write fails the command.
#pragma once

#include <string>
#include <string_view>

#include "replay/base/file_kind.h"
#include "replay/base/json.h"
#include "replay/base/lines.h"

namespace msda::replay {

// Opens closed standard descriptors on a file on which writing fails: a file opened later must not get their numbers.
void keep_standard_descriptors();

// Writes to standard output and flushes it. Throws BadInput.
void print(const Lines& lines);
// Writes unescaped: for JSON, which escapes control characters itself, and for the texts of --help.
void print_raw(std::string_view text);

// One line on standard error: "msda-replay: MESSAGE".
void print_error(std::string_view message);

// A regular file appears complete or not at all, and replaces only one of its kind, if at all; anything else (a pipe,
// /dev/stdout) is written directly. Throws BadInput, which begins with `what` and the path: "--json FILE".
struct OutputFile {
  std::string what, path;
  FileKind kind = FileKind::kJson;
  bool replace = true;

  // Throws as write() would, before there is anything to write.
  void check() const;
  void write(const std::string& text) const;
};

// Returns the result with "schema", the $id of its schema in docs/ ("run.schema.json"), and "version", the program's,
// before its members; of an array each of its elements.
Json with_schema(const char* name, const Json& result);

// Writes the result of --json with_schema(), to standard output for "-". Throws BadInput.
void write_json(const std::string& path, const char* schema, const Json& result);
// Prints the text, but where --json is "-", and writes the result if there is a --json.
void print_result(const Lines& text, const std::string& path, const char* schema, const Json& result);

}  // namespace msda::replay
