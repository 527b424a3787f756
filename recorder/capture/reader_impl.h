// The reader's own: one file's objects and attributes, each checked as it is read. Every function throws
// capture::Error.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recorder/capture/hdf5.h"
#include "recorder/capture/reader.h"

namespace msda::capture {

struct Reader::Impl {
  std::string path, tool_version, created;
  hdf5::File file;
  int64_t file_size = 0;
  std::vector<int64_t> ids;
  std::function<void(int64_t)> before_reading = [](int64_t) {};

  [[noreturn]] void fail(const std::string& message) const;

  bool exists(const std::string& name) const;

  hdf5::Object open(const std::string& name) const;

  // Names of a group's hard links, sorted.
  std::vector<std::string> children(const std::string& name) const;

  // Attributes: absent ones give nullopt, ones of another kind an error.

  std::optional<hdf5::Attribute> attribute(const hdf5::Object& object, const std::string& name) const;

  std::string text(const hdf5::Object& object, const std::string& name) const;

  std::map<std::string, std::string> texts(const std::string& group) const;

  std::vector<std::string> attribute_names(const hdf5::Object& object) const;

  template <class T>
  std::vector<T> numbers(const hdf5::Object& object, const std::string& name, hid_t memory_type) const;
  std::vector<int64_t> integers(const hdf5::Object& object, const std::string& name) const;
  std::optional<int64_t> integer(const hdf5::Object& object, const std::string& name) const;
  std::optional<double> real(const hdf5::Object& object, const std::string& name) const;
  std::optional<std::array<int64_t, 3>> triple(const hdf5::Object& object, const std::string& name) const;

  // Bytes that reading the dataset would take, after checking that the file can hold them.
  int64_t checked_bytes(const std::string& name, const hdf5::Dataset& dataset, int64_t element_size,
                        std::vector<int64_t>& shape) const;

  hdf5::Dataset open_dataset(const std::string& name) const;

  TensorInfo tensor_info(const std::string& name, const std::string& group, const TensorSchema* schema) const;

  // Checked against the format where they are the operator's.
  std::vector<TensorInfo> tensor_infos(const std::string& group, bool has_dialect) const;

  // One of the attributes of call_attributes.h.
  void read_fact(const hdf5::Object& object, const std::string& name, std::string& fact) const;
  void read_fact(const hdf5::Object& object, const std::string& name, bool& fact) const;
  void read_fact(const hdf5::Object& object, const std::string& name, std::optional<int64_t>& fact) const;
  void read_fact(const hdf5::Object& object, const std::string& name,
                 std::optional<std::array<int64_t, 3>>& fact) const;
  void read_fact(const hdf5::Object& object, const std::string& name, std::optional<RecordedTolerance>& fact) const;
  // Attributes that the format gives no meaning to: the texts and integers among them.
  void read_others(const hdf5::Object& object, bool has_dialect, CallFacts& facts) const;

  // A field of a stage's summary; where it is missing, as it is left.
  void read_field(const hdf5::Object& group, const std::string& name, int64_t& field) const;
  void read_field(const hdf5::Object& group, const std::string& name, std::optional<double>& field) const;
  void read_field(const hdf5::Object& group, const std::string& name, std::optional<Extreme>& field) const;

  std::vector<Invocation::Stage> stages(const std::string& where) const;

  // The type in memory that read() and digest_of() give the elements: that of the format, whatever the file's byte
  // order and field widths are; for what is no tensor, the file's own.
  hdf5::Type type_to_read(const std::string& name, const hdf5::Dataset& dataset) const;

  // Adds to `found` what is wrong with a dataset's data.
  void verify_data(const Reader& reader, const std::string& name, const ContentEntry& entry,
                   std::vector<Difference>& differences) const;
  // The list that the file has of its contents; nothing if it has none.
  std::optional<Contents> listed(const Reader& reader) const;

  // Reads a whole dataset as `type`.
  std::unique_ptr<std::byte[]> read_all(const std::string& name, hid_t type, int64_t element_size,
                                        std::vector<int64_t>& shape) const;
};

}  // namespace msda::capture
