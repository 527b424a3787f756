#include "recorder/capture/reader_impl.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "recorder/capture/call_attributes.h"

namespace msda::capture {

using hdf5::Attribute;
using hdf5::Dataset;
using hdf5::Object;
using hdf5::Properties;
using hdf5::Space;
using hdf5::Type;

namespace {

// gzip, HDF5's usual filter, shrinks a megabyte of zeros to a kilobyte and no further: a dataset that claims more of
// its stored bytes than this is not to be believed.
constexpr int64_t kMostCompression = 1100;

bool element_type_of(hid_t type, ElementType& result) {
  if (!hdf5::is_sound(type)) return false;
  const H5T_class_t kind = H5Tget_class(type);
  const size_t size = H5Tget_size(type);
  if (kind == H5T_INTEGER) {
    const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
    if (is_signed && size == 4) return result = ElementType::kInt32, true;
    if (is_signed && size == 8) return result = ElementType::kInt64, true;
    if (!is_signed && size == 1) return result = ElementType::kUInt8, true;
    return false;
  }
  if (kind != H5T_FLOAT) return false;
  if (size == 4) return result = ElementType::kFloat32, true;
  if (size == 8) return result = ElementType::kFloat64, true;
  size_t sign = 0, exponent_at = 0, exponent = 0, mantissa_at = 0, mantissa = 0;
  if (size != 2 || H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa) < 0) return false;
  if (exponent == 5 && mantissa == 10) return result = ElementType::kFloat16, true;
  if (exponent == 8 && mantissa == 7) return result = ElementType::kBFloat16, true;
  return false;
}

herr_t collect_name(hid_t, const char* name, const H5L_info_t* link, void* out) noexcept {
  if (link->type == H5L_TYPE_HARD) static_cast<std::vector<std::string>*>(out)->emplace_back(name);
  return 0;
}

herr_t collect_attribute(hid_t, const char* name, const H5A_info_t*, void* out) noexcept {
  static_cast<std::vector<std::string>*>(out)->emplace_back(name);
  return 0;
}

std::string read_text(const Attribute& attribute, const Type& type) {
  if (H5Tis_variable_str(type.get()) > 0) {
    Type memory(H5Tcopy(H5T_C_S1));
    H5Tset_size(memory.get(), H5T_VARIABLE);
    H5Tset_cset(memory.get(), H5Tget_cset(type.get()));
    char* text = nullptr;
    if (H5Aread(attribute.get(), memory.get(), &text) < 0 || text == nullptr) return {};
    std::string result(text);
    H5free_memory(text);
    return result;
  }
  std::string result(H5Tget_size(type.get()), '\0');
  if (H5Aread(attribute.get(), type.get(), result.data()) < 0) return {};
  return result.c_str();  // NOLINT: up to the first of the padding's zeros
}

// Nothing if it is not one text.
std::optional<std::string> text_in(const Attribute& attribute) {
  const Type type(H5Aget_type(attribute.get()));
  const Space space(H5Aget_space(attribute.get()));
  if (H5Tget_class(type.get()) != H5T_STRING || H5Sget_simple_extent_npoints(space.get()) != 1) return {};
  return read_text(attribute, type);
}

}  // namespace

void Reader::Impl::fail(const std::string& message) const { throw Error(path + ": " + message); }

bool Reader::Impl::exists(const std::string& name) const {
  return H5Lexists(file.get(), name.c_str(), H5P_DEFAULT) > 0;
}

Object Reader::Impl::open(const std::string& name) const {
  H5L_info_t link;
  if (name != "/" && (H5Lget_info(file.get(), name.c_str(), &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD)) {
    fail(name + " is missing or a link");
  }
  Object object(H5Oopen(file.get(), name.c_str(), H5P_DEFAULT));
  if (!object.valid()) fail(fmt::format("cannot open {}: {}", name, hdf5::last_error()));
  return object;
}

std::vector<std::string> Reader::Impl::children(const std::string& name) const {
  std::vector<std::string> names;
  if (!exists(name)) return names;
  const Object group = open(name);
  if (H5Iget_type(group.get()) != H5I_GROUP) fail(name + " is not a group");
  if (H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_name, &names) < 0) {
    fail(fmt::format("cannot list {}: {}", name, hdf5::last_error()));
  }
  return names;
}

std::optional<Attribute> Reader::Impl::attribute(const Object& object, const std::string& name) const {
  if (H5Aexists(object.get(), name.c_str()) <= 0) return std::nullopt;
  Attribute attribute(H5Aopen(object.get(), name.c_str(), H5P_DEFAULT));
  if (!attribute.valid()) fail(fmt::format("cannot read attribute {}: {}", name, hdf5::last_error()));
  return attribute;
}

std::string Reader::Impl::text(const Object& object, const std::string& name) const {
  const auto found = attribute(object, name);
  if (!found) return {};
  auto text = text_in(*found);
  if (!text) fail(fmt::format("attribute {} is not a text", name));
  return *std::move(text);
}

std::map<std::string, std::string> Reader::Impl::texts(const std::string& group) const {
  std::map<std::string, std::string> result;
  if (!exists(group)) return result;
  const Object object = open(group);
  for (const std::string& name : attribute_names(object)) {
    if (auto text = text_in(*attribute(object, name))) result[name] = *std::move(text);
  }
  return result;
}

std::vector<std::string> Reader::Impl::attribute_names(const Object& object) const {
  std::vector<std::string> names;
  hsize_t at = 0;
  H5Aiterate2(object.get(), H5_INDEX_NAME, H5_ITER_INC, &at, collect_attribute, &names);
  return names;
}

template <class T>
std::vector<T> Reader::Impl::numbers(const Object& object, const std::string& name, hid_t memory_type) const {
  const auto found = attribute(object, name);
  if (!found) return {};
  const Type type(H5Aget_type(found->get()));
  const Space space(H5Aget_space(found->get()));
  const H5T_class_t kind = H5Tget_class(type.get());
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (kind != H5T_INTEGER && kind != H5T_FLOAT && kind != H5T_ENUM)
    fail(fmt::format("attribute {} is not a number", name));
  if (!hdf5::is_sound(type.get()))
    fail(fmt::format("attribute {} has no type that makes sense; the file is damaged", name));
  if (count < 0 || count > 4096) fail(fmt::format("attribute {} has {} values", name, count));
  std::vector<T> values(static_cast<size_t>(count));
  if (kind == H5T_ENUM) {  // a bool, as h5py writes one
    std::vector<int8_t> bytes(static_cast<size_t>(count));
    if (H5Tget_size(type.get()) != 1 || H5Aread(found->get(), type.get(), bytes.data()) < 0) {
      fail(fmt::format("attribute {} is not a bool", name));
    }
    std::copy(bytes.begin(), bytes.end(), values.begin());
  } else if (!values.empty() && H5Aread(found->get(), memory_type, values.data()) < 0) {
    fail(fmt::format("cannot read attribute {}: {}", name, hdf5::last_error()));
  }
  return values;
}

std::vector<int64_t> Reader::Impl::integers(const Object& object, const std::string& name) const {
  return numbers<int64_t>(object, name, H5T_NATIVE_INT64);
}

std::optional<int64_t> Reader::Impl::integer(const Object& object, const std::string& name) const {
  const auto values = integers(object, name);
  if (values.size() > 1) fail(fmt::format("attribute {} has {} values, not one", name, values.size()));
  return values.empty() ? std::nullopt : std::optional(values[0]);
}

std::optional<double> Reader::Impl::real(const Object& object, const std::string& name) const {
  const auto values = numbers<double>(object, name, H5T_NATIVE_DOUBLE);
  if (values.size() > 1) fail(fmt::format("attribute {} has {} values, not one", name, values.size()));
  return values.empty() ? std::nullopt : std::optional(values[0]);
}

std::optional<std::array<int64_t, 3>> Reader::Impl::triple(const Object& object, const std::string& name) const {
  const auto values = integers(object, name);
  if (values.empty()) return std::nullopt;
  if (values.size() != 3) fail(fmt::format("attribute {} has {} values, not three", name, values.size()));
  return std::array{values[0], values[1], values[2]};
}

int64_t Reader::Impl::checked_bytes(const std::string& name, const Dataset& dataset, int64_t element_size,
                                    std::vector<int64_t>& shape) const {
  const Space space(H5Dget_space(dataset.get()));
  const Properties properties(H5Dget_create_plist(dataset.get()));
  const H5D_layout_t layout = H5Pget_layout(properties.get());
  if (!space.valid() || !properties.valid()) fail(fmt::format("cannot read {}: {}", name, hdf5::last_error()));
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
  const auto stored = static_cast<int64_t>(H5Dget_storage_size(dataset.get()));
  const int64_t most = H5Pget_nfilters(properties.get()) > 0 ? kMostCompression : 1;
  if (bytes > 0 && (stored <= 0 || stored > file_size || bytes / most > stored)) {
    fail(fmt::format("{} has shape {}, {} bytes, but the file holds {} bytes of it; the file is damaged or incomplete",
                     name, shape, bytes, std::max<int64_t>(stored, 0)));
  }
  return bytes;
}

Dataset Reader::Impl::open_dataset(const std::string& name) const {
  Object object = open(name);
  if (H5Iget_type(object.get()) != H5I_DATASET) fail(name + " is not a dataset");
  return Dataset(object.release());
}

Type Reader::Impl::type_to_read(const std::string& name, const Dataset& dataset) const {
  Type stored(H5Dget_type(dataset.get()));
  ElementType type{};
  if (element_type_of(stored.get(), type)) return hdf5::file_type(type);
  if (!hdf5::is_sound(stored.get())) fail(name + " has no type that makes sense; the file is damaged");
  if (H5Tdetect_class(stored.get(), H5T_VLEN) != 0 || H5Tdetect_class(stored.get(), H5T_REFERENCE) != 0 ||
      H5Tis_variable_str(stored.get()) != 0) {
    fail(name + " does not hold its data itself, so that it has no digest");
  }
  return stored;
}

TensorInfo Reader::Impl::tensor_info(const std::string& name, const std::string& group,
                                     const TensorSchema* schema) const {
  TensorInfo info;
  info.name = name;
  info.path = group + "/" + name;
  Dataset dataset = open_dataset(info.path);
  const Type type(H5Dget_type(dataset.get()));
  if (!element_type_of(type.get(), info.type)) {
    fail(info.path + " has a type that is not float16, bfloat16, float32, float64, int32, int64 or uint8");
  }
  checked_bytes(info.path, dataset, size_of(info.type), info.shape);
  const Object object(dataset.release());
  info.digest = text(object, "digest");
  info.strides = integers(object, "strides");
  if (!info.strides.empty() && info.strides.size() != info.shape.size()) {
    fail(fmt::format("{} has shape {} and strides {}", info.path, info.shape, info.strides));
  }
  if (schema == nullptr) return info;
  if (info.shape.size() != schema->dimensions.size()) {
    fail(fmt::format("{} has rank {}, not {}: [{}]", info.path, info.shape.size(), schema->dimensions.size(),
                     fmt::join(schema->dimensions, ", ")));
  }
  const bool integer = info.type == ElementType::kInt32 || info.type == ElementType::kInt64;
  if (schema->is_integer ? !integer : !is_float(info.type)) {
    fail(fmt::format("{} has type {}, not {}", info.path, name_of(info.type),
                     schema->is_integer ? "int32 or int64" : "a floating-point one"));
  }
  return info;
}

std::vector<TensorInfo> Reader::Impl::tensor_infos(const std::string& group, bool has_dialect) const {
  std::vector<TensorInfo> infos;
  for (const std::string& name : children(group)) {
    infos.push_back(tensor_info(name, group, has_dialect ? find_tensor(name) : nullptr));
  }
  return infos;
}

void Reader::Impl::read_fact(const Object& object, const std::string& name, std::string& fact) const {
  fact = text(object, name);
}

void Reader::Impl::read_fact(const Object& object, const std::string& name, bool& fact) const {
  fact = integer(object, name).value_or(0) != 0;
}

void Reader::Impl::read_fact(const Object& object, const std::string& name, std::optional<int64_t>& fact) const {
  fact = integer(object, name);
}

void Reader::Impl::read_fact(const Object& object, const std::string& name,
                             std::optional<std::array<int64_t, 3>>& fact) const {
  fact = triple(object, name);
}

void Reader::Impl::read_fact(const Object& object, const std::string&, std::optional<RecordedTolerance>& fact) const {
  const auto atol = real(object, "atol"), rtol = real(object, "rtol");
  if (atol.has_value() != rtol.has_value()) fail("an invocation has only one of the attributes atol and rtol");
  if (atol) fact = {*atol, *rtol};
}

void Reader::Impl::read_others(const Object& object, bool has_dialect, CallFacts& facts) const {
  for (const std::string& name : attribute_names(object)) {
    if (is_call_attribute(name, has_dialect)) continue;
    const auto found = attribute(object, name);
    const Type type(H5Aget_type(found->get()));
    const Space space(H5Aget_space(found->get()));
    if (H5Sget_simple_extent_npoints(space.get()) != 1) continue;
    const H5T_class_t kind = H5Tget_class(type.get());
    if (kind == H5T_STRING) facts.texts[name] = read_text(*found, type);
    if (kind == H5T_INTEGER) facts.integers[name] = *integer(object, name);
    const bool is_bool = kind == H5T_ENUM && H5Tget_size(type.get()) == 1;
    if (is_bool) facts.integers[name] = *integer(object, name);
  }
}

void Reader::Impl::read_field(const Object& group, const std::string& name, int64_t& field) const {
  field = integer(group, name).value_or(0);
}

void Reader::Impl::read_field(const Object& group, const std::string& name, std::optional<double>& field) const {
  field = real(group, name);
}

void Reader::Impl::read_field(const Object& group, const std::string& name, std::optional<Extreme>& field) const {
  if (const auto value = real(group, name)) field = {*value, integers(group, name + "_index")};
}

std::vector<Invocation::Stage> Reader::Impl::stages(const std::string& where) const {
  std::vector<Invocation::Stage> result;
  for (const std::string& name : children(where)) {
    Invocation::Stage stage{name, {}, {}};
    const std::string at = where + "/" + name;
    const Object group = open(at);
    if (H5Iget_type(group.get()) != H5I_GROUP) continue;  // no stage
    const auto read_fields_of = [this](const Object& object) {
      return [&](const char* field_name, auto& field) { read_field(object, field_name, field); };
    };
    if (H5Aexists(group.get(), "count") > 0) {
      stage.facts.emplace();
      stage.facts->arithmetic = text(group, "arithmetic");
      for_each_summary_attribute(stage.facts->summary, read_fields_of(group));
      if (exists(at + "/float64")) {
        const Object beside = open(at + "/float64");
        for_each_summary_attribute(stage.facts->float64.emplace().summary, read_fields_of(beside));
        for_each_difference_attribute(*stage.facts->float64, read_fields_of(beside));
      }
    }
    if (exists(at + "/full")) {
      stage.full = tensor_info("full", at, find_stage(name));
      stage.full->name = name;
    }
    if (stage.facts || stage.full) result.push_back(std::move(stage));
  }
  // By name they come; as they are computed they are read.
  std::ranges::stable_sort(result, {}, [](const Invocation::Stage& stage) {
    const auto order = all_stages();
    return std::ranges::find(order, stage.name, &TensorSchema::name) - order.begin();
  });
  return result;
}

std::unique_ptr<std::byte[]> Reader::Impl::read_all(const std::string& name, hid_t type, int64_t element_size,
                                                    std::vector<int64_t>& shape) const {
  const Dataset dataset = open_dataset(name);
  const int64_t bytes = checked_bytes(name, dataset, element_size, shape);
  before_reading(bytes);
  std::unique_ptr<std::byte[]> data(new std::byte[static_cast<size_t>(bytes)]);  // not make_unique: no need to clear it
  if (bytes > 0 && H5Dread(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.get()) < 0) {
    fail(fmt::format("cannot read {}: {}; the file is damaged", name, hdf5::last_error()));
  }
  return data;
}

}  // namespace msda::capture
