// Wraps HDF5's C API in handles that close themselves and calls that throw. Internal to the reader and the writer.
#pragma once

#include <hdf5.h>
#include <hdf5_hl.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "recorder/capture/capture.h"

namespace msda::capture::hdf5 {

// Owns one identifier, which `close`, one of the H5?close functions, closes.
template <herr_t (*close)(hid_t)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  Handle(Handle&& source) noexcept : id_(std::exchange(source.id_, -1)) {}
  Handle& operator=(Handle&& source) noexcept {
    std::swap(id_, source.id_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close(id_);
  }
  hid_t get() const { return id_; }
  // Leaves it open until the process ends.
  void forget() { id_ = -1; }
  // Leaves the closing to the caller.
  hid_t release() { return std::exchange(id_, -1); }
  bool valid() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
};

using File = Handle<H5Fclose>;
using Group = Handle<H5Gclose>;
using Dataset = Handle<H5Dclose>;
using Space = Handle<H5Sclose>;
using Type = Handle<H5Tclose>;
using Attribute = Handle<H5Aclose>;
using Object = Handle<H5Oclose>;
using Properties = Handle<H5Pclose>;

// Keeps HDF5 from printing its error stack on stderr, since errors are reported in one line, and from closing at exit
// what was left open on purpose. Must be called before any other function of HDF5.
void silence();

// Returns the innermost message on HDF5's error stack, to be appended to an error message; empty if there is none.
std::string last_error();

struct Link {
  std::string name;
  bool is_hard;
};
// List a group's links and an object's attributes, sorted by name. Return false if not all can be listed.
bool list_links(hid_t group, std::vector<Link>& links);
bool list_attributes(hid_t object, std::vector<std::string>& names);

// Returns the type in the file: little-endian, float16 and bfloat16 as HDF5 floats of their own layout, which any HDF5
// reader converts (h5py shows bfloat16 as float32).
Type file_type(msda_dtype type);

// Returns the type of so many bytes: 1, 2, 4 or 8. It must not be closed.
hid_t unsigned_type(size_t bytes);

// Returns whether a type's fields lie within it. libhdf5 does not check, and converts from memory beyond a number's
// end.
bool is_sound(hid_t type);

// Visits a dataset's data, row-major, in elements of `type`; `shape` is its shape. The data arrive in pieces of some
// megabytes, or of whole chunks, which would be unpacked again for each piece otherwise. Returns false if reading
// fails.
using Visit = std::function<void(std::span<const std::byte>)>;
bool read_pieces(hid_t dataset, hid_t type, const std::vector<int64_t>& shape, const Visit& visit);

// Returns bytes of memory that read_pieces() takes, for a piece and for unpacking chunks.
int64_t memory_to_read(hid_t dataset, hid_t type, const std::vector<int64_t>& shape);

// Returns the digest of these data. Empty if reading fails.
std::optional<std::string> digest_of(hid_t dataset, hid_t type, const std::vector<int64_t>& shape);

}  // namespace msda::capture::hdf5
