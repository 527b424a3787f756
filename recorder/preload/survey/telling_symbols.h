// Finds the functions of the program's libraries whose names show what a launch is a part of. dladdr() takes a
// millisecond for an address in a library of 100,000 functions; this finds all functions that count at once.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace msda::record {

// Thread-safe.
class TellingSymbols {
 public:
  static TellingSymbols& instance();
  // Returns the mangled name of the function that has this address, if it is one of PyTorch's operators, of autograd's
  // nodes or of torchvision's; otherwise empty. May throw std::bad_alloc.
  std::string name_of(uint64_t address);

 private:
  void read_libraries();

  std::mutex mutex_;
  struct Symbol {
    uint64_t end;
    std::string name;  // a copy: its library may be unloaded
  };
  std::map<uint64_t, Symbol> symbols_;      // by where they begin
  std::map<uint64_t, uint64_t> libraries_;  // the ends of those that were read, by where they begin
};

}  // namespace msda::record
