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

// Returns whether the regular file at `path` is an HDF5 file, empty, or begins with zeros, as what a killed writer
// leaves: what a new capture may replace. It is not followed if it is a link.
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
  // Returns a name that opens this very file, even if its name in the folder means another file by now.
  std::string by_descriptor() const;
  // Takes over the descriptor of that second opening and closes the first. The file stays locked as long as it or a
  // copy is open, so that readers can see that it is being written.
  void become(int descriptor);

  // Makes it the file at `path`, for good.
  void publish();
  // Makes it a file that is removed in the end.
  void withdraw() { published_ = false; }
  // Returns whether `path` is this file. Call it only after publish().
  bool is_in_place() const;
  // Called if somebody has removed it: writes its content to this name, if that is free. Returns false if it cannot.
  bool put_back_at(const std::string& name);
  // Returns whether another program has had it open for writing, as far as the system shows.
  bool was_disturbed();

  // Reserves disk space for `bytes` bytes from `begin` on. Returns false if there is none, or if fewer than `spared`
  // bytes would then be free.
  bool reserve(uint64_t begin, int64_t bytes, int64_t spared);
  // Cuts the file off there; best effort.
  void cut(uint64_t end);
  // Called when writing has ended.
  void unlock();

 private:
  std::string path_, name_;  // the name that is wanted, and the one that it has
  int descriptor_ = -1;
  int watch_ = -1;  // of other programs that write into the file
  bool published_ = false, disturbed_ = false;
};

}  // namespace msda::capture
