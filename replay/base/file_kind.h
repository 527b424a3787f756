// What a file that a command wrote is known by. No command replaces other files.
#pragma once

#include <string>

namespace msda::replay {

enum class FileKind { kCapture, kJson, kPage, kSource, kArchive, kTensors, kEvents, kJUnit, kSarif };

// What kTensors end with, as the comment of a kArchive, too: nothing else in them is of this program alone.
inline constexpr char kTrailer[] = "written by msda-replay";

// Returns whether the file is a regular one, and is empty or of this kind. Follows no link.
bool is_of_kind(const std::string& path, FileKind kind);
// "page of msda-replay"
std::string describe(FileKind kind);

}  // namespace msda::replay
