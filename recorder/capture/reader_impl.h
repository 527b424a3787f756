// Internal to the reader: one file's objects and attributes, each checked as it is read. Every function throws
// capture::Error.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/capture/describe.h"
#include "recorder/capture/hdf5.h"
#include "recorder/capture/object_header.h"
#include "recorder/capture/reader.h"

namespace msda::capture {

// An open object and its path in the file, for messages.
struct Node {
  hdf5::Object object;
  std::string path;

  hid_t get() const { return object.get(); }
};

// A group with its links. Members are opened from it: from the root, libhdf5 would walk through all parent groups for
// each.
struct Group : Node {
  std::vector<hdf5::Link> links;

  bool has(std::string_view name) const;
  std::vector<std::string> members() const;  // names of the hard links, sorted
};

// How much of an invocation is read: what Reader::outline() says, or everything.
enum class Detail { kOutline, kAll };

struct Wanted {
  bool has_dialect;  // the operator's tensors are checked against the format
  Detail detail;
};

struct Reader::Impl {
  std::string path, tool_version, created;
  hdf5::File file;
  std::optional<hdf5::HeaderCheck> headers;
  int64_t file_size = 0;
  hdf5::Object invocations;  // the group; by a path from the root, each call would be looked up twice
  std::vector<int64_t> ids;
  std::function<void(int64_t)> before_reading = [](int64_t) {};

  [[noreturn]] void fail(const std::string& message) const;
  // Throws an error that only damage explains.
  [[noreturn]] void fail_damaged(const std::string& message) const;
  [[noreturn]] void fail_attribute(const Node& node, const std::string& name, const std::string& message) const;

  // Opens by an object's path, or by its name in a group; follows hard links only.
  Node open(const std::string& where) const;
  Group open_group(const std::string& where) const;
  Node open_dataset(const std::string& where) const;
  Node open_member(const Group& parent, const std::string& name) const;
  // Returns nothing if there is none.
  std::optional<Group> open_subgroup(const Group& parent, const std::string& name) const;
  Node open_from(hid_t parent, const std::string& name, const std::string& where) const;
  Node opened(hid_t object, const std::string& where) const;
  Group listed_group(Node node) const;

  // Attributes: an absent one gives nullopt, one of another kind an error.

  std::optional<hdf5::Attribute> attribute(const Node& node, const std::string& name) const;

  std::string text(const Node& node, const std::string& name) const;
  // Returns nothing if the attribute is not one text.
  std::optional<std::string> text_in(const Node& node, const std::string& name, const hdf5::Attribute& attribute) const;
  std::string read_text(const Node& node, const std::string& name, const hdf5::Attribute& attribute,
                        const hdf5::Type& type) const;

  // Returns all text attributes of a member of the group.
  std::map<std::string, std::string> texts(const Group& parent, const std::string& name) const;
  std::map<std::string, std::string> texts(const Node& node) const;
  std::map<std::string, int64_t> integers(const Node& node) const;
  // Returns the attributes whose type is a floating-point one.
  std::map<std::string, double> reals(const Node& node) const;

  std::vector<std::string> attribute_names(const Node& node) const;

  template <class T>
  std::vector<T> numbers(const Node& node, const std::string& name, hid_t memory_type) const;
  std::vector<int64_t> integers(const Node& node, const std::string& name) const;
  std::optional<int64_t> integer(const Node& node, const std::string& name) const;
  std::optional<double> real(const Node& node, const std::string& name) const;
  std::optional<std::array<int64_t, 3>> triple(const Node& node, const std::string& name) const;

  // Returns bytes that reading the dataset would take, after checking that the file can hold them.
  int64_t checked_bytes(const std::string& name, hid_t dataset, int64_t element_size,
                        std::vector<int64_t>& shape) const;

  // Throws if the machine lacks the memory for what is kept of the dataset, and for reading it.
  void check_memory(const std::string& name, hid_t dataset, hid_t type, const std::vector<int64_t>& shape,
                    int64_t kept_bytes) const;

  TensorInfo tensor_info(const Node& dataset, const TensorSchema* schema, Detail detail = Detail::kAll) const;

  std::vector<TensorInfo> tensor_infos(const Group& group, Wanted wanted) const;
  std::vector<TensorInfo> tensor_infos(const Group& parent, const std::string& name, Wanted wanted) const;

  Parameters parameters(const Node& dataset) const;

  // Reads one of the attributes of call_attributes.h.
  void read_fact(const Node& node, const std::string& name, std::string& fact) const;
  void read_fact(const Node& node, const std::string& name, bool& fact) const;
  void read_fact(const Node& node, const std::string& name, std::optional<int64_t>& fact) const;
  void read_fact(const Node& node, const std::string& name, std::optional<std::array<int64_t, 3>>& fact) const;
  void read_fact(const Node& node, const std::string& name, std::optional<RecordedTolerance>& fact) const;
  // Reads the attributes of one value that the format does not define.
  void read_others(const Node& node, bool has_dialect, CallFacts& facts) const;

  // Reads a field of a stage's summary; a missing one is left unchanged.
  void read_field(const Node& node, const std::string& name, int64_t& field) const;
  void read_field(const Node& node, const std::string& name, std::optional<double>& field) const;
  void read_field(const Node& node, const std::string& name, std::optional<Extreme>& field) const;

  std::optional<StageFacts> stage_facts(const Group& group, Detail detail) const;
  std::vector<Invocation::Stage> stages(const Group& invocation, Detail detail) const;

  Invocation invocation(int64_t id, Detail detail) const;

  // Returns nothing if there is none.
  std::optional<Group> trail_group() const;
  int64_t checked_trail_bytes(const Node& dataset, size_t element_bytes) const;

  // Returns the type in memory in which read() and digest_of() return the elements: that of the format, whatever the
  // file's byte order and field widths are; for a dataset that is no tensor, the file's own.
  hdf5::Type type_to_read(const std::string& name, hid_t stored) const;
  std::string digest_of(const std::string& name, hid_t dataset) const;

  // Returns what is wrong with a dataset's data, if anything is.
  std::optional<std::string> fault_of_data(const std::string& name, hid_t dataset, const ContentEntry& entry) const;
  // Returns the file's list of contents, if it has one.
  std::unique_ptr<ListedContents> listed(const Reader& reader) const;
  // Throws the Error of the first damaged one. Adds the tensors that an invocation's digests name and it lacks.
  void check_invocations(const Reader& reader, const hdf5::Share& share, std::vector<Difference>& differences) const;

  Tensor read(const Node& dataset, const TensorInfo& info) const;
};

}  // namespace msda::capture
