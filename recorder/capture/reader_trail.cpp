// Reads a trail: /trail, a dataset for each column.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "recorder/capture/digest.h"
#include "recorder/capture/reader_impl.h"
#include "recorder/capture/trail_data.h"

namespace msda::capture {

using hdf5::Type;

std::optional<Group> Reader::Impl::trail_group() const { return open_subgroup(open_group("/"), "trail"); }

// Checks that it is a list of unsigned integers of this size, which the file can hold. Returns their bytes.
int64_t Reader::Impl::checked_trail_bytes(const Node& node, size_t element_bytes) const {
  if (H5Iget_type(node.get()) != H5I_DATASET) fail(node.path + " is not a dataset");
  const Type stored(H5Dget_type(node.get()));
  if (!hdf5::is_sound(stored.get()) || H5Tget_class(stored.get()) != H5T_INTEGER ||
      H5Tget_sign(stored.get()) != H5T_SGN_NONE || H5Tget_size(stored.get()) != element_bytes) {
    fail_damaged(fmt::format("{} does not hold unsigned integers of {} bits", node.path, 8 * element_bytes));
  }
  std::vector<int64_t> shape;
  const int64_t bytes = checked_bytes(node.path, node.get(), static_cast<int64_t>(element_bytes), shape);
  if (shape.size() != 1) fail_damaged(node.path + " is not a list");
  return bytes;
}

std::optional<TrailOutline> Reader::trail_outline() const {
  const auto group = impl_->trail_group();
  if (!group) return std::nullopt;
  TrailOutline outline{impl_->integer(*group, "missing").value_or(0), {}};
  for (const auto& [name, element_bytes, is_by_row] : trail_datasets()) {
    const Node node = impl_->open_member(*group, std::string(name));
    const int64_t bytes = impl_->checked_trail_bytes(node, element_bytes);
    // A dataset is kept as it is and once more as rows; entries of the lists of names take several times their text.
    const std::vector<int64_t> shape{bytes / static_cast<int64_t>(element_bytes)};
    impl_->check_memory(node.path, node.get(), hdf5::unsigned_type(element_bytes), shape,
                        name == "names" ? 8 * bytes : 2 * bytes);
    outline.bytes[std::string(name)] = bytes;
  }
  return outline;
}

void Reader::read_trail(const std::string& dataset,
                        const std::function<void(std::span<const std::byte>)>& visit) const {
  const auto known = std::ranges::find(trail_datasets(), dataset, &TrailDataset::name);
  const auto group = impl_->trail_group();
  if (!group || known == trail_datasets().end()) impl_->fail("/trail/" + dataset + " is missing or a link");
  const Node node = impl_->open_member(*group, dataset);
  const int64_t bytes = impl_->checked_trail_bytes(node, known->element_bytes);
  const hid_t type = hdf5::unsigned_type(known->element_bytes);
  const std::vector<int64_t> shape{bytes / static_cast<int64_t>(known->element_bytes)};
  impl_->before_reading(bytes);
  Digester digester;
  const auto take = [&](std::span<const std::byte> piece) {
    digester.add(piece);
    visit(piece);
  };
  if (!hdf5::read_pieces(node.get(), type, shape, take)) {
    impl_->fail_damaged(fmt::format("cannot read {}: {}", node.path, hdf5::last_error()));
  }
  // What a trail says is compared with another's bit for bit.
  const std::string written = impl_->text(node, "digest"), found = digester.digest();
  if (written.empty() || written == found) return;  // other tools may write none
  impl_->fail(fmt::format("{} is damaged: its digest is {}, it was written with {}", node.path, found, written));
}

std::optional<Trail> Reader::trail() const {
  const auto outline = trail_outline();
  if (!outline) return std::nullopt;
  TrailData data{outline->missing, {}};
  for (const auto& [name, bytes] : outline->bytes) {
    std::vector<std::byte>& dataset = data.datasets[name];
    read_trail(name,
               [&](std::span<const std::byte> piece) { dataset.insert(dataset.end(), piece.begin(), piece.end()); });
  }
  try {
    return to_trail(data);
  } catch (const std::invalid_argument& e) {
    impl_->fail_damaged(fmt::format("/trail: {}", e.what()));
  }
}

std::optional<int64_t> Reader::trail_launches() const {
  if (!impl_->trail_group()) return std::nullopt;
  int64_t launches = 0;
  read_trail("kind", [&](std::span<const std::byte> piece) {
    launches += std::ranges::count(piece, static_cast<std::byte>(TrailKind::kLaunch));
  });
  return launches;
}

}  // namespace msda::capture
