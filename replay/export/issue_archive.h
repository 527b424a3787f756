// An archive to attach to an issue: the capture of one invocation, what `run` says of it, and a reproducer.
#pragma once

#include <string>
#include <vector>

#include "recorder/capture/isolated_reader.h"
#include "replay/base/new_files.h"
#include "replay/export/exported_call.h"
#include "replay/export/one_invocation.h"

namespace msda::replay {

struct IssueArchive {
  std::vector<std::string> members;
  std::vector<std::string> disclosed;  // what of the recorded program's surroundings is in it: "arguments", "host", ...
};

// Temporary files beside `path` are made by `files`. The call is changed into that of the capture in the archive.
// Throws BadInput, Unavailable and capture::Error.
IssueArchive write_issue_archive(NewFiles& files, const std::string& path, const capture::IsolatedReader& reader,
                                 ExportedCall& call, Surroundings surroundings);

}  // namespace msda::replay
