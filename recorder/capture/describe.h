// Describes what an open HDF5 file holds, for its list of contents. Internal to the reader and the writer.
#pragma once

#include <hdf5.h>

#include <functional>
#include <string>

#include "recorder/capture/contents.h"
#include "recorder/capture/object_header.h"

namespace msda::capture::hdf5 {

// Called with each dataset while it is open: opening it takes libhdf5 longer than reading a small one.
using VisitDataset = std::function<void(const std::string& path, hid_t dataset, const ContentEntry& entry)>;

// Every object that hard links lead to, with its attributes and without a dataset's data. ContentEntry::unreadable says
// what cannot be read. With `headers` the objects' headers are checked as well.
Contents describe(hid_t file, const HeaderCheck* headers = nullptr, const VisitDataset& visit = {});

// A datatype in full, as docs/capture-format.md describes it: "integer(4,0,1,32,0,0,0)".
std::string type_text(hid_t type);

}  // namespace msda::capture::hdf5
