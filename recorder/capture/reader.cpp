#include "recorder/capture/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>

#include "recorder/capture/digest.h"
#include "recorder/capture/hdf5.h"
#include "recorder/capture/reader_impl.h"

namespace msda::capture {

using hdf5::Dataset;
using hdf5::File;
using hdf5::Object;
using hdf5::Properties;
using hdf5::Type;

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
