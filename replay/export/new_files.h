// Files that a command creates: each appears complete or not at all, and replaces another file only if asked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace msda::replay {

class NewFiles {
 public:
  // `input`: the file that the command reads, which is never replaced.
  NewFiles(std::string input, bool replace) : input_(std::move(input)), replace_(replace) {}
  NewFiles(const NewFiles&) = delete;
  NewFiles& operator=(const NewFiles&) = delete;
  ~NewFiles();  // removes what was not published

  // Throws BadInput unless a file may appear at `path`.
  void check(const std::string& path) const;
  // Makes a temporary file beside `path` and returns its name; what is written there appears at `path` with publish().
  // Throws BadInput.
  std::string create(const std::string& path);
  // A temporary file beside `path` that never appears.
  std::string scratch(const std::string& path);
  void write(const std::string& path, std::string_view bytes);
  // In the order in which they were created. Throws BadInput.
  void publish();

 private:
  struct File {
    std::string path, temporary;
  };
  static std::string temporary_beside(const std::string& path);

  std::string input_;
  bool replace_;
  std::vector<File> files_;
  std::vector<std::string> scratch_;
};

}  // namespace msda::replay
