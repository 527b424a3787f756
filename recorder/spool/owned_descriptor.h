// A file descriptor of the recorder in the recorded program.
//
// The program may close any number, for example with closefrom(), and the system then gives that number to a file or a
// socket of the program. A descriptor is therefore identified by its number and its file's device and inode, which are
// compared before each use.
#pragma once

#include <sys/types.h>

namespace msda::spool {

class OwnedDescriptor {
 public:
  OwnedDescriptor() = default;
  // Takes over `descriptor`, unless it is negative, and moves it to a number that programs do not use.
  explicit OwnedDescriptor(int descriptor) noexcept;
  OwnedDescriptor(OwnedDescriptor&& source) noexcept { swap(source); }
  OwnedDescriptor& operator=(OwnedDescriptor&& source) noexcept;
  ~OwnedDescriptor() { close(); }

  // Returns the number; -1 if there is none, or if the number means another file now.
  int get() const noexcept;
  // Returns whether the recorder had opened it, and has not closed it.
  bool was_opened() const noexcept { return number_ >= 0; }
  // Returns whether `descriptor` is open on the same file.
  bool is_same_file(int descriptor) const noexcept;
  // Closes it if the number still means the recorder's file.
  void close() noexcept;

 private:
  void swap(OwnedDescriptor& descriptor) noexcept;

  int number_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace msda::spool
