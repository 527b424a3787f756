// Files that a command creates: each appears complete or not at all, and replaces only files of its kind, if asked.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "replay/base/file_kind.h"
#include "replay/base/temporary_folder.h"

namespace msda::replay {

// Writes all of the text, also in parts. Returns 0 or an errno.
int write_all(int fd, std::string_view text);

// Runs what writes a capture to a temporary file. Its errors name the file that was asked for in place of that.
void with_shown_name(const std::string& temporary, const std::string& shown, const std::function<void()>& write);

// Its files are in one folder. Until they are published they are in a temporary one beside them.
class NewFiles {
 public:
  // `input`: the file that the command reads, which is never replaced. `flag`: what errors begin with, or "".
  NewFiles(std::string input, bool replace, std::string flag = "")
      : input_(std::move(input)), replace_(replace), flag_(std::move(flag)) {}
  NewFiles(const NewFiles&) = delete;
  NewFiles& operator=(const NewFiles&) = delete;

  // Throws BadInput unless a file of this kind may appear at `path`.
  void check(const std::string& path, FileKind kind) const;
  // Returns the name of a temporary file, still to be made, that appears at `path` with publish(). Throws BadInput.
  std::string create(const std::string& path, FileKind kind);
  // Returns the name of a temporary file that never appears.
  std::string scratch(const std::string& path);
  void write(const std::string& path, FileKind kind, std::string_view bytes);
  // All of them or, throwing BadInput, none; if one that was replaced cannot be restored, the error names where it is.
  // A replaced file keeps its permissions.
  void publish();

 private:
  struct File {
    std::string path, temporary;
    FileKind kind;
    std::string aside = {};  // what was there before, once it is replaced
  };
  void put(File& file);
  void take_all_back(size_t count);
  std::string temporary_beside(const std::string& path);
  std::string shown(const std::string& path) const;
  [[noreturn]] void fail(const std::string& path, int error) const;

  std::string input_;
  bool replace_;
  std::string flag_;
  std::unique_ptr<TemporaryFolder> folder_;
  int temporaries_ = 0;
  std::vector<File> files_;
};

}  // namespace msda::replay
