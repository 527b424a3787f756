#include "recorder/capture/writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "recorder/capture/digest.h"
#include "recorder/capture/hdf5.h"

namespace msda::capture {

using hdf5::Attribute;
using hdf5::Dataset;
using hdf5::File;
using hdf5::Group;
using hdf5::Properties;
using hdf5::Space;
using hdf5::Type;

namespace {

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Type string_type() {
  Type type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

// As h5py writes a bool.
Type bool_type() {
  Type type(H5Tenum_create(H5T_STD_I8LE));
  int8_t value = 0;
  H5Tenum_insert(type.get(), "FALSE", &value);
  value = 1;
  H5Tenum_insert(type.get(), "TRUE", &value);
  return type;
}

struct SeedRecord {
  char time[32];
  char source[24];
  uint64_t value;
};

void copy_text(std::string_view from, std::span<char> to) {
  std::memset(to.data(), 0, to.size());
  std::memcpy(to.data(), from.data(), std::min(from.size(), to.size() - 1));
}

// Seeds as one table: packed, so that its bytes in memory are its bytes in the file.
Type seed_type() {
  Type type(H5Tcreate(H5T_COMPOUND, sizeof(SeedRecord)));
  const auto text = [](size_t size) {
    Type fixed(H5Tcopy(H5T_C_S1));
    H5Tset_size(fixed.get(), size);
    H5Tset_strpad(fixed.get(), H5T_STR_NULLPAD);
    return fixed;
  };
  H5Tinsert(type.get(), "time", offsetof(SeedRecord, time), text(sizeof SeedRecord::time).get());
  H5Tinsert(type.get(), "source", offsetof(SeedRecord, source), text(sizeof SeedRecord::source).get());
  H5Tinsert(type.get(), "value", offsetof(SeedRecord, value), H5T_STD_U64LE);
  return type;
}

}  // namespace

struct Writer::Impl {
  std::string path;
  File file;
  int64_t invocations = 0;
  std::string current;       // path of the open invocation
  bool has_dialect = false;  // of that: its tensors are the operator's

  [[noreturn]] void fail(const std::string& doing) const {
    const std::string why = hdf5::last_error();
    throw Error(fmt::format("{}: cannot {}{}{}; is the disk full?", path, doing, why.empty() ? "" : ": ", why));
  }

  template <class H>
  H checked(H handle, const std::string& doing) const {
    if (!handle.valid()) fail(doing);
    return handle;
  }
  void check(herr_t status, const std::string& doing) const {
    if (status < 0) fail(doing);
  }

  Group group(const std::string& name) const {
    Properties parents(H5Pcreate(H5P_LINK_CREATE));
    H5Pset_create_intermediate_group(parents.get(), 1);
    if (H5Lexists(file.get(), name.c_str(), H5P_DEFAULT) > 0) {
      return checked(Group(H5Gopen2(file.get(), name.c_str(), H5P_DEFAULT)), "open group " + name);
    }
    return checked(Group(H5Gcreate2(file.get(), name.c_str(), parents.get(), H5P_DEFAULT, H5P_DEFAULT)),
                   "create group " + name);
  }

  void write_attribute(hid_t object, const std::string& name, hid_t type, const std::vector<hsize_t>& shape,
                       const void* value) const {
    const Space space(shape.empty() ? H5Screate(H5S_SCALAR)
                                    : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
    const auto attribute =
        checked(Attribute(H5Acreate2(object, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT)),
                "create attribute " + name);
    check(H5Awrite(attribute.get(), type, value), "write attribute " + name);
  }
  void attribute(hid_t object, const std::string& name, const std::string& value) const {
    const char* text = value.c_str();
    write_attribute(object, name, string_type().get(), {}, &text);
  }
  void attribute(hid_t object, const std::string& name, int64_t value) const {
    write_attribute(object, name, H5T_STD_I64LE, {}, &value);
  }
  void attribute(hid_t object, const std::string& name, double value) const {
    write_attribute(object, name, H5T_IEEE_F64LE, {}, &value);
  }
  void attribute(hid_t object, const std::string& name, bool value) const {
    const int8_t byte = value;
    write_attribute(object, name, bool_type().get(), {}, &byte);
  }
  void attribute(hid_t object, const std::string& name, const std::vector<std::string>& values) const {
    std::vector<const char*> texts;
    for (const std::string& value : values) texts.push_back(value.c_str());
    write_attribute(object, name, string_type().get(), {texts.size()}, texts.data());
  }
  void attribute(hid_t object, const std::string& name, std::span<const int64_t> values) const {
    write_attribute(object, name, H5T_STD_I64LE, {values.size()}, values.data());
  }
  template <class T>
  void attribute(hid_t object, const std::string& name, const std::optional<T>& value) const {
    if (value) attribute(object, name, *value);
  }
  void attributes(hid_t object, const std::map<std::string, std::string>& values) const {
    for (const auto& [name, value] : values) attribute(object, name, value);
  }
  void text_if_any(hid_t object, const std::string& name, const std::string& value) const {
    if (!value.empty()) attribute(object, name, value);
  }

  Dataset dataset(const std::string& name, hid_t type, const std::vector<int64_t>& shape,
                  std::span<const std::byte> bytes, std::span<const std::string_view> dimensions) const {
    const std::vector<hsize_t> sizes(shape.begin(), shape.end());
    const Space space(sizes.empty() ? H5Screate(H5S_SCALAR)
                                    : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr));
    auto data =
        checked(Dataset(H5Dcreate2(file.get(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)),
                "create " + name);
    if (!bytes.empty()) check(H5Dwrite(data.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), "write " + name);
    attribute(data.get(), "digest", digest(bytes));
    for (size_t i = 0; i < dimensions.size(); ++i) {
      check(H5DSset_label(data.get(), static_cast<unsigned>(i), std::string(dimensions[i]).c_str()), "label " + name);
    }
    return data;
  }

  void tensor(const std::string& where, const TensorView& tensor) const {
    if (current.empty()) throw Error(path + ": a tensor was added before the first invocation began");
    const std::string name = where + "/" + tensor.name;
    int64_t bytes = size_of(tensor.type);
    for (const int64_t size : tensor.shape) bytes *= size;
    if (bytes != static_cast<int64_t>(tensor.bytes.size())) {
      throw Error(fmt::format("{}: {} has {} bytes, its shape wants {}", path, name, tensor.bytes.size(), bytes));
    }
    const TensorSchema* schema = has_dialect ? find_tensor(tensor.name) : nullptr;
    dataset(name, hdf5::file_type(tensor.type).get(), tensor.shape, tensor.bytes,
            schema != nullptr && schema->dimensions.size() == tensor.shape.size()
                ? schema->dimensions
                : std::span<const std::string_view>{});
  }
};

Writer::Writer(const std::string& path, IfExists if_exists, const std::string& tool_version)
    : impl_(std::make_unique<Impl>()) {
  hdf5::silence();
  impl_->path = path;
  const int replace = if_exists == IfExists::kReplace ? O_TRUNC : O_EXCL;
  const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY | O_NOFOLLOW | O_CLOEXEC | replace, 0600);
  if (fd < 0) {
    const int error = errno;
    throw Error(fmt::format("{}: cannot create it: {}{}", path, std::strerror(error),
                            error == EEXIST ? " (ask for it to be replaced, or give another name)" : ""));
  }
  ::close(fd);
  impl_->file = impl_->checked(File(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)), "create it");
  const hid_t root = impl_->file.get();
  impl_->attribute(root, "format", std::string(kFormat));
  impl_->attribute(root, "format_version", kFormatVersion);
  impl_->attribute(root, "tool_version", tool_version);
  impl_->attribute(root, "created", now());
  impl_->group("/invocations");
}

Writer::Writer(Writer&&) noexcept = default;
Writer::~Writer() = default;

void Writer::write_run(const Run& run, const std::vector<Seed>& seeds) {
  const Group group = impl_->group("/run");
  impl_->attribute(group.get(), "argv", run.argv);
  impl_->attributes(group.get(), run.facts);
  impl_->attributes(impl_->group("/run/environment").get(), run.environment);
  impl_->attributes(impl_->group("/run/libraries").get(), run.libraries);
  std::vector<SeedRecord> records(seeds.size());
  for (size_t i = 0; i < seeds.size(); ++i) {
    copy_text(seeds[i].time, records[i].time);
    copy_text(seeds[i].source, records[i].source);
    records[i].value = seeds[i].value;
  }
  static constexpr std::string_view kSeedDimension[] = {"seed"};
  impl_->dataset("/run/seeds", seed_type().get(), {static_cast<int64_t>(records.size())},
                 std::as_bytes(std::span(records)), kSeedDimension);
}

void Writer::add_kernel(const KernelImage& kernel) {
  const std::string name = "/kernels/" + kernel.digest;
  const Group group = impl_->group(name);
  impl_->attribute(group.get(), "name", kernel.name);
  impl_->attribute(group.get(), "architecture", kernel.architecture);
  for (const auto& [key, value] : kernel.facts) impl_->attribute(group.get(), key, value);
  static constexpr std::string_view kByte[] = {"byte"};
  impl_->dataset(name + "/image", H5T_STD_U8LE, {static_cast<int64_t>(kernel.image.size())}, kernel.image, kByte);
}

int64_t Writer::begin_invocation(const CallFacts& facts, const Parameters& parameters) {
  const int64_t id = impl_->invocations++;
  impl_->current = fmt::format("/invocations/{:06}", id);
  const Group group = impl_->group(impl_->current);
  const hid_t at = group.get();
  impl_->attribute(at, "kernel", facts.kernel);
  impl_->text_if_any(at, "kernel_digest", facts.kernel_digest);
  impl_->has_dialect = !facts.dialect.empty();
  if (impl_->has_dialect) {
    impl_->attribute(at, "dialect", facts.dialect);
    impl_->attribute(at, "padding_mode", facts.padding_mode);
    impl_->attribute(at, "align_corners", facts.align_corners);
  }
  impl_->attribute(at, "grid", facts.grid);
  impl_->attribute(at, "block", facts.block);
  impl_->attribute(at, "shared_bytes", facts.shared_bytes);
  impl_->attribute(at, "stream", facts.stream);
  impl_->attribute(at, "device", facts.device);
  impl_->attribute(at, "process", facts.process);
  impl_->attribute(at, "thread", facts.thread);
  impl_->attribute(at, "duplicates", facts.duplicates);
  impl_->attribute(at, "distinct_outputs", facts.distinct_outputs);
  impl_->text_if_any(at, "time", facts.time);
  impl_->text_if_any(at, "label", facts.label);
  if (facts.tolerance) {
    impl_->attribute(at, "atol", facts.tolerance->atol);
    impl_->attribute(at, "rtol", facts.tolerance->rtol);
  }
  const auto is_free = [&](const std::string& name) {
    return !is_call_attribute(name, impl_->has_dialect) && H5Aexists(at, name.c_str()) == 0;
  };
  for (const auto& [name, value] : facts.texts) {
    if (is_free(name)) impl_->attribute(at, name, value);
  }
  for (const auto& [name, value] : facts.integers) {
    if (is_free(name)) impl_->attribute(at, name, value);
  }
  if (!parameters.bytes.empty()) {
    static constexpr std::string_view kByte[] = {"byte"};
    const Dataset data = impl_->dataset(impl_->current + "/parameters", H5T_STD_U8LE,
                                        {static_cast<int64_t>(parameters.bytes.size())}, parameters.bytes, kByte);
    impl_->attribute(data.get(), "offsets", parameters.offsets);
    impl_->attribute(data.get(), "sizes", parameters.sizes);
  }
  for (const char* name : {"/inputs", "/outputs"}) impl_->group(impl_->current + name);
  return id;
}

void Writer::add_input(const TensorView& tensor) { impl_->tensor(impl_->current + "/inputs", tensor); }

void Writer::add_output_before(const TensorView& tensor) {
  impl_->group(impl_->current + "/outputs_before");
  impl_->tensor(impl_->current + "/outputs_before", tensor);
}

void Writer::add_output(const TensorView& tensor) { impl_->tensor(impl_->current + "/outputs", tensor); }

void Writer::add_result(const ResultFacts& facts, const std::vector<TensorView>& tensors) {
  const std::string name = impl_->current + "/results/" + facts.name;
  const Group group = impl_->group(name);
  impl_->attribute(group.get(), "role", facts.role);
  impl_->text_if_any(group.get(), "dialect", facts.dialect);
  for (const TensorView& tensor : tensors) impl_->tensor(name, tensor);
}

void Writer::set_duplicates(int64_t invocation, int64_t duplicates, int64_t distinct_outputs) {
  const Group group = impl_->group(fmt::format("/invocations/{:06}", invocation));
  for (const char* name : {"duplicates", "distinct_outputs"}) {
    if (H5Aexists(group.get(), name) > 0) impl_->check(H5Adelete(group.get(), name), fmt::format("replace {}", name));
  }
  impl_->attribute(group.get(), "duplicates", duplicates);
  impl_->attribute(group.get(), "distinct_outputs", distinct_outputs);
}

void Writer::flush() { impl_->check(H5Fflush(impl_->file.get(), H5F_SCOPE_GLOBAL), "flush"); }

void Writer::close() {
  flush();
  impl_->file = File();
}

}  // namespace msda::capture
