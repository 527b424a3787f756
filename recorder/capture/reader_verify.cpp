// Finds what differs in a capture from what was written.
#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <utility>

#include "recorder/capture/describe.h"
#include "recorder/capture/reader_impl.h"

namespace msda::capture {

using hdf5::Type;

std::string Reader::digest_of(const TensorInfo& dataset) const {
  return impl_->digest_of(dataset.path, impl_->open_dataset(dataset.path).get());
}

std::string Reader::Impl::digest_of(const std::string& name, hid_t dataset) const {
  // Checks the size on the disk, then the size in memory.
  const Type stored(H5Dget_type(dataset)), type = type_to_read(name, stored.get());
  std::vector<int64_t> shape;
  before_reading(checked_bytes(name, dataset, static_cast<int64_t>(H5Tget_size(stored.get())), shape));
  if (const auto found = hdf5::digest_of(dataset, type.get(), shape)) return *found;
  fail_damaged(fmt::format("cannot read {}: {}", name, hdf5::last_error()));
}

std::optional<std::string> Reader::Impl::fault_of_data(const std::string& name, hid_t dataset,
                                                       const ContentEntry& entry) const {
  try {
    if (entry.digest == "-") return "has no digest to verify";
    const std::string digest = digest_of(name, dataset);
    if (digest == entry.digest) return std::nullopt;
    return fmt::format("is damaged: its digest is {}, it was written with {}", digest, entry.digest);
  } catch (const Error& e) {
    return fmt::format("cannot be read: {}", e.what());
  }
}

std::optional<Contents> Reader::Impl::listed(const Reader& reader) const {
  const std::string where = fmt::format("/{}", kContents);
  const Group root = open_group("/");
  const std::string digest = text(root, std::string(kContents));
  const bool exists = root.has(kContents);
  if (digest.empty() && !exists) return std::nullopt;
  if (digest.empty() || !exists)
    fail(fmt::format("its list of contents, {}, is damaged: half of it is missing", where));
  const TensorInfo info = tensor_info(open_member(root, std::string(kContents)), nullptr);
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
  std::map<std::string, std::string> faults;  // of data, by the dataset's path
  const auto verify_data = [&](const std::string& path, hid_t dataset, const ContentEntry& entry) {
    ++result.datasets;
    if (auto fault = impl_->fault_of_data(path, dataset, entry)) faults[path] = *std::move(fault);
  };
  const Contents found = hdf5::describe(impl_->file.get(), &*impl_->headers, verify_data);
  result.objects = static_cast<int64_t>(found.size());
  for (const auto& [path, entry] : found) {
    if (!entry.unreadable.empty()) result.differences.push_back({path, entry.unreadable});
    if (const auto fault = faults.find(path); fault != faults.end())
      result.differences.push_back({path, fault->second});
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
