#include "recorder/capture/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <utility>

#include "recorder/capture/call_attributes.h"
#include "recorder/capture/hdf5.h"
#include "recorder/capture/reader_impl.h"

namespace msda::capture {

using hdf5::File;

namespace {

// libhdf5 reads thousands of small objects faster, and in less memory, with a small cache. The names of the calls, by
// which it finds them, need far less than this part of the file.
hdf5::Properties access_to(int64_t file_size) {
  constexpr int64_t kLeast = 4 << 20, kMost = 16 << 20;  // the latter is libhdf5's own
  hdf5::Properties access(H5Pcreate(H5P_FILE_ACCESS));
  H5AC_cache_config_t cache{};
  cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  if (H5Pget_mdc_config(access.get(), &cache) < 0) return access;
  cache.max_size = static_cast<size_t>(std::clamp(file_size / 16, kLeast, kMost));
  H5Pset_mdc_config(access.get(), &cache);
  return access;
}

}  // namespace

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
  const hdf5::Properties access = access_to(impl_->file_size);  // closing it would clear the errors
  impl_->file = File(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!impl_->file.valid()) {
    const std::string why = hdf5::last_error();
    if (const size_t stored = why.find("stored_eof = "); stored != std::string::npos) {
      impl_->fail(
          fmt::format("is truncated: it has {} of {} bytes; copy it again, or record again (while it is still "
                      "being written, wait for msda-record to end)",
                      impl_->file_size, std::strtoull(why.c_str() + stored + 13, nullptr, 10)));
    }
    impl_->fail_damaged(fmt::format("cannot open it: {}", why));
  }
  impl_->headers.emplace(impl_->file.get());
  const Group root = impl_->open_group("/");
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
  auto invocations = impl_->open_subgroup(root, "invocations");
  for (const std::string& name : invocations ? invocations->members() : std::vector<std::string>()) {
    int64_t id = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size() || id < 0) {
      impl_->fail("/invocations/" + name + " is not a number");
    }
    impl_->ids.push_back(id);
  }
  std::ranges::sort(impl_->ids);
  if (invocations) impl_->invocations = std::move(invocations->object);
}

Reader::Reader(Reader&&) noexcept = default;
Reader::~Reader() = default;
const std::string& Reader::path() const { return impl_->path; }
const std::string& Reader::tool_version() const { return impl_->tool_version; }
const std::string& Reader::created() const { return impl_->created; }
const std::vector<int64_t>& Reader::invocation_ids() const { return impl_->ids; }

Invocation Reader::invocation(int64_t id) const { return impl_->invocation(id, Detail::kAll); }
Invocation Reader::outline(int64_t id) const { return impl_->invocation(id, Detail::kOutline); }

Invocation Reader::Impl::invocation(int64_t id, Detail detail) const {
  if (!std::ranges::binary_search(ids, id)) {
    fail(ids.empty() ? fmt::format("has no invocation {}: it has none at all", id)
                     : fmt::format("has no invocation {}; it has {} of them, from {} to {}", id, ids.size(),
                                   ids.front(), ids.back()));
  }
  Invocation result;
  result.id = id;
  const std::string number = fmt::format("{:06}", id);
  result.path = "/invocations/" + number;
  const Group group = listed_group(open_from(invocations.get(), number, result.path));
  CallFacts& facts = result.facts;
  const auto read = [&](const char* name, auto& fact) { read_fact(group, name, fact); };
  for_each_call_attribute(facts, read);
  const bool has_dialect = !facts.dialect.empty();
  const Wanted wanted{has_dialect, detail};
  if (has_dialect) for_each_convention(facts, read);
  read_others(group, has_dialect, facts);
  result.inputs = tensor_infos(group, "inputs", wanted);
  result.outputs_before = tensor_infos(group, "outputs_before", wanted);
  result.outputs = tensor_infos(group, "outputs", wanted);
  if (const auto others = open_subgroup(group, "results")) {
    for (const std::string& name : others->members()) {
      const Group found = *open_subgroup(*others, name);
      result.results.push_back({{name, text(found, "role"), text(found, "dialect")}, tensor_infos(found, wanted)});
    }
  }
  result.stages = stages(group, detail);
  if (detail == Detail::kOutline) return result;
  result.digests = texts(group, "digests");
  if (group.has("parameters")) result.parameters = parameters(open_member(group, "parameters"));
  return result;
}

Tensor Reader::read(const TensorInfo& info) const { return impl_->read(impl_->open_dataset(info.path), info); }

void Reader::read_pieces(const TensorInfo& info, const std::function<void(std::span<const std::byte>)>& visit) const {
  const Node dataset = impl_->open_dataset(info.path);
  std::vector<int64_t> shape;
  const int64_t bytes = impl_->checked_bytes(info.path, dataset.get(), kernels::bytes_of(info.type), shape);
  if (shape != info.shape) impl_->fail(info.path + " changed while it was read");
  const hdf5::Type type = hdf5::file_type(info.type);
  impl_->check_memory(info.path, dataset.get(), type.get(), shape, bytes);  // for whoever the pieces are for
  impl_->before_reading(bytes);
  if (hdf5::read_pieces(dataset.get(), type.get(), shape, visit)) return;
  impl_->fail_damaged(fmt::format("cannot read {}: {}", info.path, hdf5::last_error()));
}

void Reader::before_reading(std::function<void(int64_t bytes)> callback) {
  impl_->before_reading = std::move(callback);
}

}  // namespace msda::capture
