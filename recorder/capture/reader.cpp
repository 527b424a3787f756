#include "recorder/capture/reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>

#include "recorder/capture/digest.h"
#include "recorder/capture/hdf5.h"

namespace msda::capture {

using hdf5::Attribute;
using hdf5::Dataset;
using hdf5::File;
using hdf5::Group;
using hdf5::Object;
using hdf5::Properties;
using hdf5::Space;
using hdf5::Type;

namespace {

// gzip, HDF5's usual filter, shrinks a megabyte of zeros to a kilobyte and no further: a dataset that claims more of
// its stored bytes than this is not to be believed.
constexpr int64_t kMostCompression = 1100;

bool element_type_of(hid_t type, ElementType& result) {
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

}  // namespace

struct Reader::Impl {
  std::string path, tool_version, created;
  File file;
  int64_t file_size = 0;
  std::vector<int64_t> ids;

  [[noreturn]] void fail(const std::string& message) const { throw Error(path + ": " + message); }

  bool exists(const std::string& name) const { return H5Lexists(file.get(), name.c_str(), H5P_DEFAULT) > 0; }

  Object open(const std::string& name) const {
    H5L_info_t link;
    if (name != "/" && (H5Lget_info(file.get(), name.c_str(), &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD)) {
      fail(name + " is missing or a link");
    }
    Object object(H5Oopen(file.get(), name.c_str(), H5P_DEFAULT));
    if (!object.valid()) fail(fmt::format("cannot open {}: {}", name, hdf5::last_error()));
    return object;
  }

  // Names of a group's hard links, sorted.
  std::vector<std::string> children(const std::string& name) const {
    std::vector<std::string> names;
    if (!exists(name)) return names;
    const Object group = open(name);
    if (H5Iget_type(group.get()) != H5I_GROUP) fail(name + " is not a group");
    if (H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_name, &names) < 0) {
      fail(fmt::format("cannot list {}: {}", name, hdf5::last_error()));
    }
    return names;
  }

  // Attributes: absent ones give nullopt, ones of another kind an error.

  std::optional<Attribute> attribute(const Object& object, const std::string& name) const {
    if (H5Aexists(object.get(), name.c_str()) <= 0) return std::nullopt;
    Attribute attribute(H5Aopen(object.get(), name.c_str(), H5P_DEFAULT));
    if (!attribute.valid()) fail(fmt::format("cannot read attribute {}: {}", name, hdf5::last_error()));
    return attribute;
  }

  std::string text(const Object& object, const std::string& name) const {
    const auto found = attribute(object, name);
    if (!found) return {};
    const Type type(H5Aget_type(found->get()));
    const Space space(H5Aget_space(found->get()));
    if (H5Tget_class(type.get()) != H5T_STRING || H5Sget_simple_extent_npoints(space.get()) != 1) {
      fail(fmt::format("attribute {} is not a text", name));
    }
    return read_text(*found, type);
  }

  std::map<std::string, std::string> texts(const std::string& group) const {
    std::map<std::string, std::string> result;
    if (!exists(group)) return result;
    const Object object = open(group);
    for (const std::string& name : attribute_names(object)) {
      const auto found = attribute(object, name);
      const Type type(H5Aget_type(found->get()));
      const Space space(H5Aget_space(found->get()));
      if (H5Tget_class(type.get()) == H5T_STRING && H5Sget_simple_extent_npoints(space.get()) == 1) {
        result[name] = read_text(*found, type);
      }
    }
    return result;
  }

  std::vector<std::string> attribute_names(const Object& object) const {
    std::vector<std::string> names;
    hsize_t at = 0;
    H5Aiterate2(object.get(), H5_INDEX_NAME, H5_ITER_INC, &at, collect_attribute, &names);
    return names;
  }

  template <class T>
  std::vector<T> numbers(const Object& object, const std::string& name, hid_t memory_type) const {
    const auto found = attribute(object, name);
    if (!found) return {};
    const Type type(H5Aget_type(found->get()));
    const Space space(H5Aget_space(found->get()));
    const H5T_class_t kind = H5Tget_class(type.get());
    const hssize_t count = H5Sget_simple_extent_npoints(space.get());
    if (kind != H5T_INTEGER && kind != H5T_FLOAT && kind != H5T_ENUM)
      fail(fmt::format("attribute {} is not a number", name));
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
  std::vector<int64_t> integers(const Object& object, const std::string& name) const {
    return numbers<int64_t>(object, name, H5T_NATIVE_INT64);
  }
  std::optional<int64_t> integer(const Object& object, const std::string& name) const {
    const auto values = integers(object, name);
    if (values.size() > 1) fail(fmt::format("attribute {} has {} values, not one", name, values.size()));
    return values.empty() ? std::nullopt : std::optional(values[0]);
  }
  std::optional<double> real(const Object& object, const std::string& name) const {
    const auto values = numbers<double>(object, name, H5T_NATIVE_DOUBLE);
    if (values.size() > 1) fail(fmt::format("attribute {} has {} values, not one", name, values.size()));
    return values.empty() ? std::nullopt : std::optional(values[0]);
  }
  std::optional<std::array<int64_t, 3>> triple(const Object& object, const std::string& name) const {
    const auto values = integers(object, name);
    if (values.empty()) return std::nullopt;
    if (values.size() != 3) fail(fmt::format("attribute {} has {} values, not three", name, values.size()));
    return std::array{values[0], values[1], values[2]};
  }

  // Bytes that reading the dataset would take, after checking that the file can hold them.
  int64_t checked_bytes(const std::string& name, const Dataset& dataset, int64_t element_size,
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
      fail(
          fmt::format("{} has shape {}, {} bytes, but the file holds {} bytes of it; the file is damaged or incomplete",
                      name, shape, bytes, std::max<int64_t>(stored, 0)));
    }
    return bytes;
  }

  Dataset open_dataset(const std::string& name) const {
    const Object object = open(name);
    if (H5Iget_type(object.get()) != H5I_DATASET) fail(name + " is not a dataset");
    Dataset dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT));
    if (!dataset.valid()) fail(fmt::format("cannot open {}: {}", name, hdf5::last_error()));
    return dataset;
  }

  TensorInfo tensor_info(const std::string& name, const std::string& group, const TensorSchema* schema) const {
    TensorInfo info;
    info.name = name;
    info.path = group + "/" + name;
    const Dataset dataset = open_dataset(info.path);
    const Type type(H5Dget_type(dataset.get()));
    if (!element_type_of(type.get(), info.type)) {
      fail(info.path + " has a type that is not float16, bfloat16, float32, float64, int32, int64 or uint8");
    }
    checked_bytes(info.path, dataset, size_of(info.type), info.shape);
    info.digest = text(Object(H5Oopen(file.get(), info.path.c_str(), H5P_DEFAULT)), "digest");
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

  // Checked against the format where they are the operator's.
  std::vector<TensorInfo> tensor_infos(const std::string& group, bool has_dialect) const {
    std::vector<TensorInfo> infos;
    for (const std::string& name : children(group)) {
      infos.push_back(tensor_info(name, group, has_dialect ? find_tensor(name) : nullptr));
    }
    return infos;
  }

  // Attributes that the format gives no meaning to: the texts and integers among them.
  void read_others(const Object& object, bool has_dialect, CallFacts& facts) const {
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

  // A field of a stage's summary; where it is missing, as it is left.
  void read_field(const Object& group, const std::string& name, int64_t& field) const {
    field = integer(group, name).value_or(0);
  }
  void read_field(const Object& group, const std::string& name, std::optional<double>& field) const {
    field = real(group, name);
  }
  void read_field(const Object& group, const std::string& name, std::optional<Extreme>& field) const {
    if (const auto value = real(group, name)) field = {*value, integers(group, name + "_index")};
  }

  std::vector<Invocation::Stage> stages(const std::string& where) const {
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

  // Reads a whole dataset as `type`.
  std::unique_ptr<std::byte[]> read_all(const std::string& name, hid_t type, int64_t element_size,
                                        std::vector<int64_t>& shape) const {
    const Dataset dataset = open_dataset(name);
    const int64_t bytes = checked_bytes(name, dataset, element_size, shape);
    std::unique_ptr<std::byte[]> data(
        new std::byte[static_cast<size_t>(bytes)]);  // not make_unique: no need to clear it
    if (bytes > 0 && H5Dread(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.get()) < 0) {
      fail(fmt::format("cannot read {}: {}; the file is damaged", name, hdf5::last_error()));
    }
    return data;
  }
};

Reader::Reader(const std::string& path) : impl_(std::make_unique<Impl>()) {
  hdf5::silence();
  impl_->path = path;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) impl_->fail("no such file");
  if (!std::filesystem::is_regular_file(status)) impl_->fail("not a file");
  impl_->file_size = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) impl_->fail(error.message());
  if (H5Fis_hdf5(path.c_str()) <= 0) {
    impl_->fail("cannot read it as HDF5; a capture is what msda-record writes, or `python3 -m msda_replay import`");
  }
  impl_->file = File(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  if (!impl_->file.valid()) impl_->fail(fmt::format("cannot open it: {}", hdf5::last_error()));
  const Object root = impl_->open("/");
  if (impl_->text(root, "format") != kFormat) {
    impl_->fail("is HDF5, but not a capture: its root has no attribute format = \"msda-capture\"");
  }
  const auto version = impl_->integer(root, "format_version");
  if (version != kFormatVersion) {
    impl_->fail(fmt::format("has format version {}, this program reads version {}; {}",
                            version ? std::to_string(*version) : "(none)", kFormatVersion,
                            version && *version > kFormatVersion
                                ? "use a newer msda-replay"
                                : "record it again, or use the msda-replay that wrote it"));
  }
  impl_->tool_version = impl_->text(root, "tool_version");
  impl_->created = impl_->text(root, "created");
  for (const std::string& name : impl_->children("/invocations")) {
    int64_t id = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size() || id < 0) {
      impl_->fail("/invocations/" + name + " is not a number");
    }
    impl_->ids.push_back(id);
  }
  std::ranges::sort(impl_->ids);
}

Reader::Reader(Reader&&) noexcept = default;
Reader::~Reader() = default;
const std::string& Reader::path() const { return impl_->path; }
const std::string& Reader::tool_version() const { return impl_->tool_version; }
const std::string& Reader::created() const { return impl_->created; }
const std::vector<int64_t>& Reader::invocation_ids() const { return impl_->ids; }

Run Reader::run() const {
  Run run;
  if (!impl_->exists("/run")) return run;
  run.facts = impl_->texts("/run");
  run.environment = impl_->texts("/run/environment");
  run.libraries = impl_->texts("/run/libraries");
  const auto argv = impl_->attribute(impl_->open("/run"), "argv");
  if (!argv) return run;
  const Type type(H5Aget_type(argv->get()));
  const Space space(H5Aget_space(argv->get()));
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (H5Tis_variable_str(type.get()) <= 0 || count < 0 || count > 65536)
    impl_->fail("/run: argv is not a list of texts");
  std::vector<char*> texts(static_cast<size_t>(count), nullptr);
  Type memory(H5Tcopy(H5T_C_S1));
  H5Tset_size(memory.get(), H5T_VARIABLE);
  H5Tset_cset(memory.get(), H5Tget_cset(type.get()));
  if (count > 0 && H5Aread(argv->get(), memory.get(), texts.data()) < 0) impl_->fail("/run: cannot read argv");
  for (char* text : texts) {
    run.argv.emplace_back(text != nullptr ? text : "");
    H5free_memory(text);
  }
  run.facts.erase("argv");
  return run;
}

std::vector<Seed> Reader::seeds() const {
  std::vector<Seed> seeds;
  if (!impl_->exists("/run/seeds")) return seeds;
  struct Record {
    char time[64];
    char source[64];
    uint64_t value;
    int64_t invocation;
  };
  Type type(H5Tcreate(H5T_COMPOUND, sizeof(Record)));
  Type text(H5Tcopy(H5T_C_S1));
  H5Tset_size(text.get(), sizeof Record::time);
  H5Tinsert(type.get(), "time", offsetof(Record, time), text.get());
  H5Tinsert(type.get(), "source", offsetof(Record, source), text.get());
  H5Tinsert(type.get(), "value", offsetof(Record, value), H5T_NATIVE_UINT64);
  std::vector<int64_t> shape;
  // The stored records are narrower than these, which the check of their size must know.
  const Dataset dataset = impl_->open_dataset("/run/seeds");
  const Type stored(H5Dget_type(dataset.get()));
  if (H5Tget_class(stored.get()) != H5T_COMPOUND) impl_->fail("/run/seeds is not a table");
  const bool has_invocation = H5Tget_member_index(stored.get(), "invocation") >= 0;  // not in older files
  if (has_invocation) H5Tinsert(type.get(), "invocation", offsetof(Record, invocation), H5T_NATIVE_INT64);
  impl_->checked_bytes("/run/seeds", dataset, static_cast<int64_t>(H5Tget_size(stored.get())), shape);
  if (shape.size() != 1) impl_->fail("/run/seeds is not a list");
  std::vector<Record> records(static_cast<size_t>(shape[0]));
  if (!records.empty() && H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, records.data()) < 0) {
    impl_->fail(fmt::format("cannot read /run/seeds: {}", hdf5::last_error()));
  }
  const auto cut = [](const char* at, size_t size) { return std::string(at, strnlen(at, size)); };
  for (const Record& r : records) {
    seeds.push_back({cut(r.time, sizeof r.time), cut(r.source, sizeof r.source), r.value, std::nullopt});
    if (has_invocation && r.invocation >= 0) seeds.back().invocation = r.invocation;
  }
  return seeds;
}

std::vector<KernelImage> Reader::kernels() const {
  std::vector<KernelImage> kernels;
  for (const std::string& name : impl_->children("/kernels")) {
    const std::string path = "/kernels/" + name;
    const Object group = impl_->open(path);
    KernelImage& kernel = kernels.emplace_back();
    kernel.digest = name;
    for (const std::string& key : impl_->attribute_names(group)) {
      const Type type(H5Aget_type(impl_->attribute(group, key)->get()));
      if (H5Tget_class(type.get()) != H5T_STRING) {
        if (const auto value = impl_->integer(group, key)) kernel.facts[key] = *value;
      }
    }
    kernel.name = impl_->text(group, "name");
    kernel.architecture = impl_->text(group, "architecture");
    if (!impl_->exists(path + "/image")) continue;
    const TensorInfo info = impl_->tensor_info("image", path, nullptr);
    const Tensor image = read(info);
    kernel.image.assign(image.bytes().begin(), image.bytes().end());
  }
  return kernels;
}

Invocation Reader::invocation(int64_t id) const {
  if (!std::ranges::binary_search(impl_->ids, id)) {
    impl_->fail(impl_->ids.empty() ? fmt::format("has no invocation {}: it has none at all", id)
                                   : fmt::format("has no invocation {}; it has {} of them, from {} to {}", id,
                                                 impl_->ids.size(), impl_->ids.front(), impl_->ids.back()));
  }
  Invocation result;
  result.id = id;
  result.path = fmt::format("/invocations/{:06}", id);
  const Object group = impl_->open(result.path);
  CallFacts& facts = result.facts;
  facts.kernel = impl_->text(group, "kernel");
  facts.kernel_digest = impl_->text(group, "kernel_digest");
  facts.dialect = impl_->text(group, "dialect");
  const bool has_dialect = !facts.dialect.empty();
  if (has_dialect) {
    facts.padding_mode = impl_->text(group, "padding_mode");
    facts.align_corners = impl_->integer(group, "align_corners").value_or(0) != 0;
  }
  impl_->read_others(group, has_dialect, facts);
  facts.grid = impl_->triple(group, "grid");
  facts.block = impl_->triple(group, "block");
  facts.shared_bytes = impl_->integer(group, "shared_bytes");
  facts.stream = impl_->integer(group, "stream");
  facts.device = impl_->integer(group, "device");
  facts.process = impl_->integer(group, "process");
  facts.thread = impl_->integer(group, "thread");
  facts.duplicates = impl_->integer(group, "duplicates");
  facts.distinct_outputs = impl_->integer(group, "distinct_outputs");
  facts.time = impl_->text(group, "time");
  facts.label = impl_->text(group, "label");
  const auto atol = impl_->real(group, "atol"), rtol = impl_->real(group, "rtol");
  if (atol.has_value() != rtol.has_value()) impl_->fail(result.path + " has only one of the attributes atol and rtol");
  if (atol) facts.tolerance = {*atol, *rtol};
  result.inputs = impl_->tensor_infos(result.path + "/inputs", has_dialect);
  result.outputs_before = impl_->tensor_infos(result.path + "/outputs_before", has_dialect);
  result.outputs = impl_->tensor_infos(result.path + "/outputs", has_dialect);
  for (const std::string& name : impl_->children(result.path + "/results")) {
    const std::string path = result.path + "/results/" + name;
    const Object object = impl_->open(path);
    result.results.push_back(
        {{name, impl_->text(object, "role"), impl_->text(object, "dialect")}, impl_->tensor_infos(path, has_dialect)});
  }
  result.stages = impl_->stages(result.path + "/stages");
  result.digests = impl_->texts(result.path + "/digests");
  if (impl_->exists(result.path + "/parameters")) {
    const TensorInfo info = impl_->tensor_info("parameters", result.path, nullptr);
    const Tensor bytes = read(info);
    result.parameters.bytes.assign(bytes.bytes().begin(), bytes.bytes().end());
    const Object object = impl_->open(info.path);
    result.parameters.offsets = impl_->integers(object, "offsets");
    result.parameters.sizes = impl_->integers(object, "sizes");
  }
  return result;
}

Tensor Reader::read(const TensorInfo& info) const {
  Tensor tensor;
  tensor.info = info;
  std::vector<int64_t> shape;
  tensor.data = impl_->read_all(info.path, hdf5::file_type(info.type).get(), size_of(info.type), shape);
  if (shape != info.shape) impl_->fail(info.path + " changed while it was read");
  return tensor;
}

std::vector<TensorInfo> Reader::datasets() const {
  std::vector<TensorInfo> result;
  const std::function<void(const std::string&, int)> walk = [&](const std::string& group, int depth) {
    if (depth > 16) impl_->fail(group + " is nested too deep");
    for (const std::string& name : impl_->children(group)) {
      const std::string path = (group == "/" ? "" : group) + "/" + name;
      const Object object = impl_->open(path);
      if (H5Iget_type(object.get()) == H5I_GROUP) {
        walk(path, depth + 1);
      } else if (H5Iget_type(object.get()) == H5I_DATASET) {
        TensorInfo& info = result.emplace_back();
        info.name = name;
        info.path = path;
        info.digest = impl_->text(object, "digest");
      }
    }
  };
  walk("/", 0);
  return result;
}

std::string Reader::digest_of(const TensorInfo& dataset) const {
  // In the type as stored: the digest is of the bytes as they lie in the file.
  const Dataset opened = impl_->open_dataset(dataset.path);
  const Type type(H5Dget_type(opened.get()));
  if (H5Tdetect_class(type.get(), H5T_VLEN) != 0 || H5Tdetect_class(type.get(), H5T_REFERENCE) != 0 ||
      H5Tis_variable_str(type.get()) != 0) {
    impl_->fail(dataset.path + " does not hold its data itself, so that it has no digest");
  }
  const auto size = static_cast<int64_t>(H5Tget_size(type.get()));
  std::vector<int64_t> shape;
  const int64_t bytes = impl_->checked_bytes(dataset.path, opened, size, shape);
  const Properties properties(H5Dget_create_plist(opened.get()));
  if (H5Pget_layout(properties.get()) != H5D_CHUNKED) {
    if (const auto found = hdf5::digest_of(opened.get(), type.get(), shape)) return *found;
    impl_->fail(fmt::format("cannot read {}: {}; the file is damaged", dataset.path, hdf5::last_error()));
  }
  // In pieces, a large chunk would be unpacked again for each.
  const auto data = impl_->read_all(dataset.path, type.get(), size, shape);
  return digest({data.get(), static_cast<size_t>(bytes)});
}

}  // namespace msda::capture
