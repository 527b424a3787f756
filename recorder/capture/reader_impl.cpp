#include "recorder/capture/reader_impl.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "recorder/capture/call_attributes.h"
#include "recorder/machine/free_memory.h"

namespace msda::capture {

using hdf5::Attribute;
using hdf5::Object;
using hdf5::Properties;
using hdf5::Space;
using hdf5::Type;

namespace {

// gzip, HDF5's usual filter, shrinks a megabyte of zeros to a kilobyte and no further: a dataset that claims a higher
// ratio is damaged.
constexpr int64_t kMostCompression = 1100;

bool element_type_of(hid_t type, msda_dtype& result) {
  if (!hdf5::is_sound(type)) return false;
  const H5T_class_t kind = H5Tget_class(type);
  const size_t size = H5Tget_size(type);
  if (kind == H5T_INTEGER) {
    const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
    if (is_signed && size == 4) return result = MSDA_INT32, true;
    if (is_signed && size == 8) return result = MSDA_INT64, true;
    if (!is_signed && size == 1) return result = kernels::kUInt8, true;
    return false;
  }
  if (kind != H5T_FLOAT) return false;
  if (size == 4) return result = MSDA_FLOAT32, true;
  if (size == 8) return result = MSDA_FLOAT64, true;
  size_t sign = 0, exponent_at = 0, exponent = 0, mantissa_at = 0, mantissa = 0;
  if (size != 2 || H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa) < 0) return false;
  if (exponent == 5 && mantissa == 10) return result = MSDA_FLOAT16, true;
  if (exponent == 8 && mantissa == 7) return result = MSDA_BFLOAT16, true;
  return false;
}

std::string path_of(const Node& parent, const std::string& name) {
  return (parent.path == "/" ? "" : parent.path) + "/" + name;
}

}  // namespace

bool Group::has(std::string_view name) const {
  return std::ranges::find(links, name, &hdf5::Link::name) != links.end();
}

std::vector<std::string> Group::members() const {
  std::vector<std::string> names;
  for (const hdf5::Link& link : links) {
    if (link.is_hard) names.push_back(link.name);
  }
  return names;
}

void Reader::Impl::fail(const std::string& message) const { throw Error(path + ": " + message); }

void Reader::Impl::fail_damaged(const std::string& message) const {
  fail(message + "; the file is damaged: read a copy of it, or record again");
}

void Reader::Impl::fail_attribute(const Node& node, const std::string& name, const std::string& message) const {
  fail_damaged(fmt::format("{}: attribute {} {}", node.path, name, message));
}

Node Reader::Impl::opened(hid_t object, const std::string& where) const {
  if (object < 0) fail_damaged(fmt::format("cannot open {}: {}", where, hdf5::last_error()));
  Node node{Object(object), where};
  if (const auto broken = headers->broken_attribute(object)) {
    fail_attribute(node, *broken, fmt::format("cannot be read: {}", hdf5::kBrokenAttribute));
  }
  return node;
}

Node Reader::Impl::open(const std::string& where) const { return open_from(file.get(), where, where); }

Node Reader::Impl::open_from(hid_t parent, const std::string& name, const std::string& where) const {
  H5L_info_t link;
  if (where != "/" && (H5Lget_info(parent, name.c_str(), &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD)) {
    fail(where + " is missing or a link");
  }
  return opened(H5Oopen(parent, name.c_str(), H5P_DEFAULT), where);
}

Group Reader::Impl::listed_group(Node node) const {
  if (H5Iget_type(node.get()) != H5I_GROUP) fail(node.path + " is not a group");
  Group group{std::move(node), {}};
  if (!hdf5::list_links(group.get(), group.links)) {
    fail_damaged(fmt::format("cannot list {}: {}", group.path, hdf5::last_error()));
  }
  return group;
}

Group Reader::Impl::open_group(const std::string& where) const { return listed_group(open(where)); }

Node Reader::Impl::open_member(const Group& parent, const std::string& name) const {
  const std::string where = path_of(parent, name);
  const auto link = std::ranges::find(parent.links, name, &hdf5::Link::name);
  if (link == parent.links.end() || !link->is_hard) fail(where + " is missing or a link");
  return opened(H5Oopen(parent.get(), name.c_str(), H5P_DEFAULT), where);
}

std::optional<Group> Reader::Impl::open_subgroup(const Group& parent, const std::string& name) const {
  if (!parent.has(name)) return std::nullopt;
  return listed_group(open_member(parent, name));
}

Node Reader::Impl::open_dataset(const std::string& where) const {
  Node node = open(where);
  if (H5Iget_type(node.get()) != H5I_DATASET) fail(where + " is not a dataset");
  return node;
}

std::optional<Attribute> Reader::Impl::attribute(const Node& node, const std::string& name) const {
  const htri_t exists = H5Aexists(node.get(), name.c_str());
  if (exists == 0) return std::nullopt;
  Attribute attribute(exists > 0 ? H5Aopen(node.get(), name.c_str(), H5P_DEFAULT) : -1);
  if (!attribute.valid()) fail_attribute(node, name, "cannot be read: " + hdf5::last_error());
  return attribute;
}

std::string Reader::Impl::read_text(const Node& node, const std::string& name, const Attribute& attribute,
                                    const Type& type) const {
  if (H5Tis_variable_str(type.get()) > 0) {
    char* text = nullptr;
    if (H5Aread(attribute.get(), type.get(), &text) < 0) {
      fail_attribute(node, name, "cannot be read: " + hdf5::last_error());
    }
    std::string result(text != nullptr ? text : "");
    H5free_memory(text);
    return result;
  }
  std::string result(H5Tget_size(type.get()), '\0');
  if (H5Aread(attribute.get(), type.get(), result.data()) < 0) {
    fail_attribute(node, name, "cannot be read: " + hdf5::last_error());
  }
  return result.c_str();  // NOLINT: up to the first of the padding's zeros
}

std::optional<std::string> Reader::Impl::text_in(const Node& node, const std::string& name,
                                                 const Attribute& attribute) const {
  const Type type(H5Aget_type(attribute.get()));
  const Space space(H5Aget_space(attribute.get()));
  if (H5Tget_class(type.get()) != H5T_STRING || H5Sget_simple_extent_npoints(space.get()) != 1) return std::nullopt;
  return read_text(node, name, attribute, type);
}

std::string Reader::Impl::text(const Node& node, const std::string& name) const {
  const auto found = attribute(node, name);
  if (!found) return {};
  auto text = text_in(node, name, *found);
  if (!text) fail_attribute(node, name, "is not a text");
  return *std::move(text);
}

std::map<std::string, std::string> Reader::Impl::texts(const Node& node) const {
  std::map<std::string, std::string> result;
  for (const std::string& name : attribute_names(node)) {
    if (auto text = text_in(node, name, *attribute(node, name))) result[name] = *std::move(text);
  }
  return result;
}

std::map<std::string, std::string> Reader::Impl::texts(const Group& parent, const std::string& name) const {
  if (!parent.has(name)) return {};
  return texts(open_member(parent, name));
}

std::map<std::string, int64_t> Reader::Impl::integers(const Node& node) const {
  std::map<std::string, int64_t> result;
  for (const std::string& name : attribute_names(node)) {
    const Type type(H5Aget_type(attribute(node, name)->get()));
    if (H5Tget_class(type.get()) == H5T_STRING || H5Tget_class(type.get()) == H5T_FLOAT) continue;
    if (const auto value = integer(node, name)) result[name] = *value;
  }
  return result;
}

std::map<std::string, double> Reader::Impl::reals(const Node& node) const {
  std::map<std::string, double> result;
  for (const std::string& name : attribute_names(node)) {
    const Type type(H5Aget_type(attribute(node, name)->get()));
    if (H5Tget_class(type.get()) != H5T_FLOAT) continue;
    if (const auto value = real(node, name)) result[name] = *value;
  }
  return result;
}

std::vector<std::string> Reader::Impl::attribute_names(const Node& node) const {
  std::vector<std::string> names;
  if (!hdf5::list_attributes(node.get(), names)) {
    fail_damaged(fmt::format("cannot list the attributes of {}: {}", node.path, hdf5::last_error()));
  }
  return names;
}

template <class T>
std::vector<T> Reader::Impl::numbers(const Node& node, const std::string& name, hid_t memory_type) const {
  const auto found = attribute(node, name);
  if (!found) return {};
  const Type type(H5Aget_type(found->get()));
  const Space space(H5Aget_space(found->get()));
  const H5T_class_t kind = H5Tget_class(type.get());
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (kind != H5T_INTEGER && kind != H5T_FLOAT && kind != H5T_ENUM) fail_attribute(node, name, "is not a number");
  if (!hdf5::is_sound(type.get())) fail_attribute(node, name, "has no type that makes sense");
  if (count < 0 || count > 4096) fail_attribute(node, name, fmt::format("has {} values", count));
  std::vector<T> values(static_cast<size_t>(count));
  if (kind == H5T_ENUM) {  // a bool, as h5py writes one
    std::vector<int8_t> bytes(static_cast<size_t>(count));
    if (H5Tget_size(type.get()) != 1 || H5Aread(found->get(), type.get(), bytes.data()) < 0) {
      fail_attribute(node, name, "is not a bool");
    }
    std::copy(bytes.begin(), bytes.end(), values.begin());
  } else if (!values.empty() && H5Aread(found->get(), memory_type, values.data()) < 0) {
    fail_attribute(node, name, "cannot be read: " + hdf5::last_error());
  }
  return values;
}

std::vector<int64_t> Reader::Impl::integers(const Node& node, const std::string& name) const {
  return numbers<int64_t>(node, name, H5T_NATIVE_INT64);
}

std::optional<int64_t> Reader::Impl::integer(const Node& node, const std::string& name) const {
  const auto values = integers(node, name);
  if (values.size() > 1) fail_attribute(node, name, fmt::format("has {} values, not one", values.size()));
  return values.empty() ? std::nullopt : std::optional(values[0]);
}

std::optional<double> Reader::Impl::real(const Node& node, const std::string& name) const {
  const auto values = numbers<double>(node, name, H5T_NATIVE_DOUBLE);
  if (values.size() > 1) fail_attribute(node, name, fmt::format("has {} values, not one", values.size()));
  return values.empty() ? std::nullopt : std::optional(values[0]);
}

std::optional<std::array<int64_t, 3>> Reader::Impl::triple(const Node& node, const std::string& name) const {
  const auto values = integers(node, name);
  if (values.empty()) return std::nullopt;
  if (values.size() != 3) fail_attribute(node, name, fmt::format("has {} values, not three", values.size()));
  return std::array{values[0], values[1], values[2]};
}

int64_t Reader::Impl::checked_bytes(const std::string& name, hid_t dataset, int64_t element_size,
                                    std::vector<int64_t>& shape) const {
  const Space space(H5Dget_space(dataset));
  const Properties properties(H5Dget_create_plist(dataset));
  const H5D_layout_t layout = H5Pget_layout(properties.get());
  if (!space.valid() || !properties.valid()) fail_damaged(fmt::format("cannot read {}: {}", name, hdf5::last_error()));
  if ((layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED && layout != H5D_COMPACT) ||
      H5Pget_external_count(properties.get()) > 0) {
    fail(name + " keeps its data outside the file; copy it in (h5repack does that)");
  }
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 0) fail(name + " has no shape");
  std::vector<hsize_t> sizes(static_cast<size_t>(rank));
  H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr);
  shape.assign(sizes.begin(), sizes.end());
  int64_t bytes = element_size;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes))
      fail(fmt::format("{} has an absurd shape: {}", name, shape));
  }
  const auto stored = static_cast<int64_t>(H5Dget_storage_size(dataset));
  const int64_t most = H5Pget_nfilters(properties.get()) > 0 ? kMostCompression : 1;
  if (bytes > 0 && (stored <= 0 || stored > file_size || bytes / most > stored)) {
    fail(
        fmt::format("{} has shape {}, {} bytes, but the file holds {} bytes of it; the file is damaged or incomplete: "
                    "read a copy of it, or record again",
                    name, shape, bytes, std::max<int64_t>(stored, 0)));
  }
  return bytes;
}

void Reader::Impl::check_memory(const std::string& name, hid_t dataset, hid_t type, const std::vector<int64_t>& shape,
                                int64_t kept_bytes) const {
  constexpr int64_t kMiB = 1 << 20, kAlwaysThere = 64 * kMiB;
  const int64_t takes = kept_bytes + hdf5::memory_to_read(dataset, type, shape);
  if (takes <= kAlwaysThere) return;
  const auto free = machine::free_memory();
  if (!free || takes <= *free) return;
  fail(fmt::format(
      "{} has shape {}, stored in {} bytes: reading it takes {} MiB of memory, of which this machine has {} "
      "MiB free; use a machine with more memory, or choose another --invocation",
      name, shape, H5Dget_storage_size(dataset), takes / kMiB, *free / kMiB));
}

Type Reader::Impl::type_to_read(const std::string& name, hid_t stored) const {
  msda_dtype type{};
  if (element_type_of(stored, type)) return hdf5::file_type(type);
  if (!hdf5::is_sound(stored)) fail_damaged(name + " has no type that makes sense");
  if (H5Tdetect_class(stored, H5T_VLEN) != 0 || H5Tdetect_class(stored, H5T_REFERENCE) != 0 ||
      H5Tis_variable_str(stored) != 0) {
    fail(name + " does not hold its data itself, so that it has no digest");
  }
  return Type(H5Tcopy(stored));
}

TensorInfo Reader::Impl::tensor_info(const Node& dataset, const TensorSchema* schema, Detail detail) const {
  TensorInfo info;
  info.path = dataset.path;
  info.name = info.path.substr(info.path.rfind('/') + 1);
  if (H5Iget_type(dataset.get()) != H5I_DATASET) fail(info.path + " is not a dataset");
  const Type type(H5Dget_type(dataset.get()));
  if (!element_type_of(type.get(), info.type)) {
    fail(info.path + " has a type that is not float16, bfloat16, float32, float64, int32, int64 or uint8");
  }
  checked_bytes(info.path, dataset.get(), kernels::bytes_of(info.type), info.shape);
  if (detail == Detail::kAll) {
    info.digest = text(dataset, "digest");
    info.strides = integers(dataset, "strides");
  }
  if (!info.strides.empty() && info.strides.size() != info.shape.size()) {
    fail(fmt::format("{} has shape {} and strides {}", info.path, info.shape, info.strides));
  }
  if (schema == nullptr) return info;
  if (info.shape.size() != schema->dimensions.size()) {
    fail(fmt::format("{} has rank {}, not {}: [{}]", info.path, info.shape.size(), schema->dimensions.size(),
                     fmt::join(schema->dimensions, ", ")));
  }
  if (schema->is_integer ? !kernels::is_index(info.type) : !kernels::is_float(info.type)) {
    fail(fmt::format("{} has type {}, not {}", info.path, kernels::name_of(info.type),
                     schema->is_integer ? "int32 or int64" : "a floating-point one"));
  }
  return info;
}

std::vector<TensorInfo> Reader::Impl::tensor_infos(const Group& group, Wanted wanted) const {
  std::vector<TensorInfo> infos;
  for (const std::string& name : group.members()) {
    infos.push_back(
        tensor_info(open_member(group, name), wanted.has_dialect ? find_tensor(name) : nullptr, wanted.detail));
  }
  return infos;
}

std::vector<TensorInfo> Reader::Impl::tensor_infos(const Group& parent, const std::string& name, Wanted wanted) const {
  const auto group = open_subgroup(parent, name);
  return group ? tensor_infos(*group, wanted) : std::vector<TensorInfo>();
}

Parameters Reader::Impl::parameters(const Node& dataset) const {
  const Tensor tensor = read(dataset, tensor_info(dataset, nullptr));
  return {{tensor.bytes().begin(), tensor.bytes().end()}, integers(dataset, "offsets"), integers(dataset, "sizes")};
}

void Reader::Impl::read_fact(const Node& node, const std::string& name, std::string& fact) const {
  fact = text(node, name);
}

void Reader::Impl::read_fact(const Node& node, const std::string& name, bool& fact) const {
  fact = integer(node, name).value_or(0) != 0;
}

void Reader::Impl::read_fact(const Node& node, const std::string& name, std::optional<int64_t>& fact) const {
  fact = integer(node, name);
}

void Reader::Impl::read_fact(const Node& node, const std::string& name,
                             std::optional<std::array<int64_t, 3>>& fact) const {
  fact = triple(node, name);
}

void Reader::Impl::read_fact(const Node& node, const std::string&, std::optional<RecordedTolerance>& fact) const {
  const auto atol = real(node, "atol"), rtol = real(node, "rtol");
  if (atol.has_value() != rtol.has_value()) fail_damaged(node.path + " has only one of the attributes atol and rtol");
  if (atol) fact = {*atol, *rtol};
}

void Reader::Impl::read_others(const Node& node, bool has_dialect, CallFacts& facts) const {
  for (const std::string& name : attribute_names(node)) {
    if (is_call_attribute(name, has_dialect)) continue;
    const auto found = attribute(node, name);
    const Type type(H5Aget_type(found->get()));
    const Space space(H5Aget_space(found->get()));
    if (H5Sget_simple_extent_npoints(space.get()) != 1) continue;
    const H5T_class_t kind = H5Tget_class(type.get());
    if (kind == H5T_STRING) facts.texts[name] = read_text(node, name, *found, type);
    if (kind == H5T_INTEGER) facts.integers[name] = *integer(node, name);
    if (kind == H5T_FLOAT) facts.reals[name] = *real(node, name);
    const bool is_bool = kind == H5T_ENUM && H5Tget_size(type.get()) == 1;
    if (is_bool) facts.flags[name] = *integer(node, name) != 0;
  }
}

void Reader::Impl::read_field(const Node& node, const std::string& name, int64_t& field) const {
  field = integer(node, name).value_or(0);
}

void Reader::Impl::read_field(const Node& node, const std::string& name, std::optional<double>& field) const {
  field = real(node, name);
}

void Reader::Impl::read_field(const Node& node, const std::string& name, std::optional<Extreme>& field) const {
  if (const auto value = real(node, name)) field = {*value, integers(node, name + "_index")};
}

std::optional<StageFacts> Reader::Impl::stage_facts(const Group& group, Detail detail) const {
  if (H5Aexists(group.get(), "count") == 0) return std::nullopt;
  if (detail == Detail::kOutline) return StageFacts{};
  const auto read_fields_of = [this](const Node& node) {
    return [&](const char* name, auto& field) { read_field(node, name, field); };
  };
  StageFacts facts;
  facts.arithmetic = text(group, "arithmetic");
  for_each_summary_attribute(facts.summary, read_fields_of(group));
  if (!group.has("float64")) return facts;
  const Node beside = open_member(group, "float64");
  for_each_summary_attribute(facts.float64.emplace().summary, read_fields_of(beside));
  for_each_difference_attribute(*facts.float64, read_fields_of(beside));
  return facts;
}

std::vector<Invocation::Stage> Reader::Impl::stages(const Group& invocation, Detail detail) const {
  std::vector<Invocation::Stage> result;
  const auto all = open_subgroup(invocation, "stages");
  if (!all) return result;
  for (const std::string& name : all->members()) {
    Node node = open_member(*all, name);
    if (H5Iget_type(node.get()) != H5I_GROUP) continue;  // no stage
    const Group group = listed_group(std::move(node));
    Invocation::Stage stage{name, stage_facts(group, detail), {}};
    if (group.has("full")) {
      stage.full = tensor_info(open_member(group, "full"), find_stage(name), detail);
      stage.full->name = name;
    }
    if (stage.facts || stage.full) result.push_back(std::move(stage));
  }
  // They arrive sorted by name, but the order of computation is needed.
  std::ranges::stable_sort(result, {}, [](const Invocation::Stage& stage) {
    const auto order = all_stages();
    return std::ranges::find(order, stage.name, &TensorSchema::name) - order.begin();
  });
  return result;
}

Tensor Reader::Impl::read(const Node& dataset, const TensorInfo& info) const {
  Tensor tensor{info, nullptr};
  std::vector<int64_t> shape;
  const int64_t bytes = checked_bytes(info.path, dataset.get(), kernels::bytes_of(info.type), shape);
  if (shape != info.shape) fail(info.path + " changed while it was read");
  const Type type = hdf5::file_type(info.type);
  check_memory(info.path, dataset.get(), type.get(), shape, bytes);
  before_reading(bytes);
  tensor.data.reset(new std::byte[static_cast<size_t>(bytes)]);  // not make_unique, which would clear it
  if (bytes > 0 && H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.data.get()) < 0) {
    fail_damaged(fmt::format("cannot read {}: {}", info.path, hdf5::last_error()));
  }
  return tensor;
}

}  // namespace msda::capture
