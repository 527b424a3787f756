// What of a capture is not as it was written.
#include <fmt/format.h>

#include <stdexcept>

#include "recorder/capture/describe.h"
#include "recorder/capture/reader_impl.h"

namespace msda::capture {

using hdf5::Dataset;
using hdf5::Type;

std::string Reader::digest_of(const TensorInfo& dataset) const {
  const Dataset opened = impl_->open_dataset(dataset.path);
  // The size on the disk, and then that in memory.
  const Type stored(H5Dget_type(opened.get())), type = impl_->type_to_read(dataset.path, opened);
  std::vector<int64_t> shape;
  impl_->before_reading(
      impl_->checked_bytes(dataset.path, opened, static_cast<int64_t>(H5Tget_size(stored.get())), shape));
  if (const auto found = hdf5::digest_of(opened.get(), type.get(), shape)) return *found;
  impl_->fail(fmt::format("cannot read {}: {}; the file is damaged", dataset.path, hdf5::last_error()));
}

void Reader::Impl::verify_data(const Reader& reader, const std::string& name, const ContentEntry& entry,
                               std::vector<Difference>& differences) const {
  try {
    if (entry.digest == "-") {
      differences.push_back({name, "has no digest to verify"});
    } else if (const std::string digest = reader.digest_of({.name = {}, .path = name, .shape = {}, .digest = {}});
               digest != entry.digest) {
      differences.push_back(
          {name, fmt::format("is damaged: its digest is {}, it was written with {}", digest, entry.digest)});
    }
  } catch (const Error& e) {
    differences.push_back({name, fmt::format("cannot be read: {}", e.what())});
  }
}

std::optional<Contents> Reader::Impl::listed(const Reader& reader) const {
  const std::string where = fmt::format("/{}", kContents);
  const std::string digest = text(open("/"), std::string(kContents));
  if (digest.empty() && !exists(where)) return std::nullopt;
  if (digest.empty() || !exists(where))
    fail(fmt::format("its list of contents, {}, is damaged: half of it is missing", where));
  const TensorInfo info = tensor_info(std::string(kContents), "", nullptr);
  if (info.type != ElementType::kUInt8 || info.shape.size() != 1 || reader.digest_of(info) != digest) {
    fail(fmt::format("its list of contents, {}, is damaged: it is not what was written", where));
  }
  const Tensor list = reader.read(info);
  try {
    return contents_from({reinterpret_cast<const char*>(list.bytes().data()), list.bytes().size()});
  } catch (const std::invalid_argument& e) {
    fail(fmt::format("its list of contents, {}, is damaged: {}", where, e.what()));
  }
}

Verification Reader::verify() const {
  Verification result;
  const Contents found = hdf5::describe(impl_->file.get());
  result.objects = static_cast<int64_t>(found.size());
  for (const auto& [path, entry] : found) {
    if (!entry.unreadable.empty()) result.differences.push_back({path, entry.unreadable});
    if (entry.kind != "dataset") continue;
    ++result.datasets;
    impl_->verify_data(*this, path, entry, result.differences);
  }
  try {
    const auto list = impl_->listed(*this);
    result.has_list = list.has_value();
    if (!list) return result;
    for (Difference& difference : compare(*list, found)) result.differences.push_back(std::move(difference));
  } catch (const Error& e) {
    result.has_list = true;
    result.differences.push_back({fmt::format("/{}", kContents), e.what()});
  }
  return result;
}

}  // namespace msda::capture
