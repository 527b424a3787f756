// The file that a capture is written to. It is opened by name once; everything later uses the descriptor, so that
// changing what the name stands for cannot redirect the writing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace msda::capture {

// What every HDF5 file begins with.
inline constexpr std::string_view kHdf5Signature = "\x89HDF\r\n\x1a\n";

// Whether the regular file at `path` is an HDF5 file, empty, or begins with zeros, as what a killed writer leaves: what
// a new capture may replace. It is not followed if it is a link.
bool may_be_capture(const std::string& path);

class OutputFile {
 public:
  // Creates a new file, mode 0600. With `replace` it has a temporary name beside `path`, so that the file at `path`
  // stays until publish(). Throws Error if a file exists and must not be replaced, or is no capture.
  OutputFile(const std::string& path, bool replace);
  // Removes the file if it was not published and still has its name.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::string& path() const { return path_; }
  // A name that opens this very file, even if its name in the folder means another file by now.
  std::string by_descriptor() const;
  // Takes over the descriptor of that second opening and closes the first. It stays locked as long as it or a copy is
  // open, so that readers can tell that the file is being written.
  void become(int descriptor);

  // Makes it the file at `path`, for good.
  void publish();
  bool is_published() const { return published_; }
  // Makes it a file that is removed in the end.
  void withdraw() { published_ = false; }
  // Whether `path` is this file. Only once published.
  bool is_in_place() const;
  // Somebody has removed it: writes its content to this name, if that is free. False if it cannot.
  bool put_back_at(const std::string& name);
  // Whether another program has had it open for writing, as far as the system tells.
  bool was_disturbed();

  // Reserves disk space for `bytes` bytes from `begin` on. False if there is none, or if fewer than `spared` bytes
  // would then be free.
  bool reserve(uint64_t begin, int64_t bytes, int64_t spared);
  // Best effort.
  void cut(uint64_t end);
  // Writing has ended.
  void unlock();

 private:
  std::string path_, name_;  // the name that is wanted, and the one that it has
  int descriptor_ = -1;
  int watch_ = -1;  // of other programs that write into the file
  bool published_ = false, disturbed_ = false;
};

}  // namespace msda::capture
