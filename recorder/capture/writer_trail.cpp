// Writes a trail: /trail, a dataset for each column.
#include "recorder/capture/trail_data.h"
#include "recorder/capture/writer_impl.h"

namespace msda::capture {

void Writer::write_trail(const Trail& trail) {
  const hdf5::Group group = impl_->group("/trail");
  impl_->attribute(group.get(), "missing", trail.missing);
  const TrailData data = to_data(trail);
  for (const auto& [name, element_bytes, is_by_row] : trail_datasets()) {
    const std::vector<std::byte>& bytes = data.datasets.find(name)->second;
    static constexpr std::string_view kRow[] = {"row"};
    impl_->dataset(fmt::format("/trail/{}", name), hdf5::unsigned_type(element_bytes),
                   {static_cast<int64_t>(bytes.size() / element_bytes)}, bytes,
                   is_by_row ? std::span<const std::string_view>(kRow) : std::span<const std::string_view>(),
                   Packing::kShuffled);
  }
}

}  // namespace msda::capture
