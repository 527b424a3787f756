// Which captures a command line names: files, and folders of them.
#pragma once

#include <string>
#include <vector>

namespace msda::replay {

bool is_folder(const std::string& path);

// Returns the files *.h5 of a folder and of those below it, by path. Hidden files and folders are left out, and links
// to folders are not followed. Throws BadInput if there is none, or a folder cannot be read.
std::vector<std::string> captures_in(const std::string& folder);

// Returns whether these are several captures, or a folder.
bool names_several(const std::vector<std::string>& names);

// Returns each file once, by the first of its names; a folder stands for captures_in() of it. Throws as that does.
std::vector<std::string> named_captures(const std::vector<std::string>& names);

}  // namespace msda::replay
