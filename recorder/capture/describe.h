// Describes what an open HDF5 file holds, for its list of contents. Internal to the reader and the writer.
#pragma once

#include <hdf5.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "recorder/capture/contents.h"
#include "recorder/capture/object_header.h"

namespace msda::capture::hdf5 {

// Called with each object while it is open (opening it takes libhdf5 longer than reading a small one); a link that is
// not hard has no object, but H5I_INVALID_HID.
using VisitObject = std::function<void(const std::string& path, hid_t object, ContentEntry&& entry)>;

// The share of one of several processes that describe one file: the invocations from `begin` to before `end`, by name;
// the first has everything else, too.
struct Share {
  size_t part = 0, parts = 1;
  std::optional<std::string> begin = {}, end = {};  // by describe(); none: without bound

  bool has(std::string_view path) const;
};

// Describes every object of this share that hard links lead to, parents first, with its attributes and without a
// dataset's data. ContentEntry::unreadable says what cannot be read. With `headers` the objects' headers are checked as
// well.
void describe(hid_t file, const HeaderCheck* headers, Share& share, const VisitObject& visit);

// Returns a datatype in full, as docs/capture-format.md describes it: "integer(4,0,1,32,0,0,0)".
std::string type_text(hid_t type);

}  // namespace msda::capture::hdf5
