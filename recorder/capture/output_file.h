// The file that a capture is written to: opened once, by its name; all that comes later goes by the descriptor, so that
// nobody who changes what the name stands for leads the writing elsewhere.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace msda::capture {

class OutputFile {
 public:
  // Creates a file that was not there, mode 0600. With `replace` it gets a name beside `path` for now, so that what is
  // at `path` stays until publish(). Throws Error for what exists and is not to be replaced, or is no regular file.
  OutputFile(const std::string& path, bool replace);
  // Removes the file if it was not published, and is still at its name.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::string& path() const { return path_; }
  // A name that opens this very file, whatever has become of the one in its folder.
  std::string by_descriptor() const;
  // Takes over that second opening: locked for as long as it or a copy of it is open, so that readers can tell that the
  // file is being written. The first one is closed.
  void become(int descriptor);

  // From now on it is the file at `path`, and stays.
  void publish();
  bool is_published() const { return published_; }
  // Whether `path` is this file. Only once published.
  bool is_in_place() const;

  // Room on the disk from `begin` for so many bytes. False if there is none.
  bool reserve(uint64_t begin, int64_t bytes);
  // Best effort.
  void cut(uint64_t end);
  // It is not written any more.
  void unlock();

 private:
  std::string path_, name_;  // the name that is wanted, and the one that it has
  int descriptor_ = -1;
  bool published_ = false;
};

}  // namespace msda::capture
