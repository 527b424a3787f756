// Finds what differs in a capture from what was written.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>

#include "recorder/capture/describe.h"
#include "recorder/capture/digest.h"
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
  const int64_t bytes = checked_bytes(name, dataset, static_cast<int64_t>(H5Tget_size(stored.get())), shape);
  check_memory(name, dataset, type.get(), shape, 0);
  before_reading(bytes);
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

std::unique_ptr<ListedContents> Reader::Impl::listed(const Reader& reader) const {
  const std::string where = fmt::format("/{}", kContents);
  const Group root = open_group("/");
  const std::string digest = text(root, std::string(kContents));
  const bool exists = root.has(kContents);
  if (digest.empty() && !exists) return nullptr;
  if (digest.empty() || !exists)
    fail(fmt::format("its list of contents, {}, is damaged: half of it is missing", where));
  const TensorInfo info = tensor_info(open_member(root, std::string(kContents)), nullptr);
  if (info.type != kernels::kUInt8 || info.shape.size() != 1) {
    fail(fmt::format("its list of contents, {}, is damaged: it is not what was written", where));
  }
  std::string list;
  list.reserve(static_cast<size_t>(info.shape[0]));
  reader.read_pieces(info, [&](std::span<const std::byte> piece) {
    list.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  if (capture::digest(std::as_bytes(std::span(list))) != digest) {
    fail(fmt::format("its list of contents, {}, is damaged: it is not what was written", where));
  }
  try {
    return std::make_unique<ListedContents>(std::move(list));
  } catch (const std::invalid_argument& e) {
    fail(fmt::format("its list of contents, {}, is damaged: {}", where, e.what()));
  }
}

Verification Reader::verify(size_t part, size_t parts) const {
  Verification result;
  std::unique_ptr<ListedContents> list;
  std::vector<Difference> of_data, of_list;
  try {
    list = impl_->listed(*this);
    result.has_list = list != nullptr;
  } catch (const Error& e) {
    result.has_list = true;
    if (part == 0) of_list.push_back({fmt::format("/{}", kContents), e.what()});
  }
  hdf5::Share share{part, parts};
  hdf5::describe(impl_->file.get(), &*impl_->headers, share,
                 [&](const std::string& path, hid_t object, ContentEntry&& entry) {
                   ++result.objects;
                   if (!entry.unreadable.empty()) of_data.push_back({path, entry.unreadable});
                   if (entry.kind == "dataset") {
                     ++result.datasets;
                     if (auto fault = impl_->fault_of_data(path, object, entry))
                       of_data.push_back({path, *std::move(fault)});
                   }
                   if (list) list->compare(path, entry, of_list);
                 });
  if (list) list->add_missing([&](std::string_view path) { return share.has(path); }, of_list);
  for (auto* differences : {&of_data, &of_list}) {
    std::ranges::stable_sort(*differences, {}, &Difference::object);
    std::ranges::move(*differences, std::back_inserter(result.differences));
  }
  // Each of a trail's datasets may be as it was written, while its indices are out of their lists.
  if (result.differences.empty() && part == 0) trail();
  // With a list, everything is as its writer made it, and the writer checked shapes and types.
  if (result.differences.empty() && !list) impl_->check_invocations(*this, share, result.differences);
  return result;
}

// Checks shapes and types. The recorder's own digests say which tensors an invocation with tensors had.
void Reader::Impl::check_invocations(const Reader& reader, const hdf5::Share& share,
                                     std::vector<Difference>& differences) const {
  for (const int64_t id : ids) {
    const std::string of_call = fmt::format("/invocations/{:06}", id);
    if (!share.has(of_call)) continue;
    const Invocation invocation = reader.invocation(id);
    std::set<std::string> held;
    for (const auto* section : {&invocation.inputs, &invocation.outputs_before, &invocation.outputs}) {
      for (const TensorInfo& tensor : *section) held.insert(tensor.path);
    }
    if (held.empty()) continue;  // --digest-only
    for (const auto& [name, digest] : invocation.digests) {
      if (const std::string tensor = of_call + "/" + name; !held.contains(tensor))
        differences.push_back({tensor, "is missing; the invocation has the recorder's digest of it"});
    }
  }
}

}  // namespace msda::capture
