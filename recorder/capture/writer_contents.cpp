// Writes the list of contents of a complete capture (recorder/capture/contents.h).
#include "recorder/capture/describe.h"
#include "recorder/capture/writer_impl.h"

namespace msda::capture {

// Lists everything that the file holds now. No tensor is read: digests are attributes. If the disk has no space for the
// list, the capture has none, like one whose recorder was killed.
void Writer::write_contents() {
  Contents contents;
  hdf5::Share all;
  hdf5::describe(impl_->file.get(), nullptr, all, [&](const std::string& name, hid_t, ContentEntry&& entry) {
    if (!entry.unreadable.empty()) impl_->fail(fmt::format("list {}, which {}", name, entry.unreadable));
    contents[name] = std::move(entry);
  });
  const std::string text = to_text(contents);
  constexpr int64_t kForDescription = 1 << 14;
  if (!reserve(kForDescription + static_cast<int64_t>(text.size()))) return;
  const auto bytes = std::as_bytes(std::span(text));
  static constexpr std::string_view kByte[] = {"byte"};
  impl_->dataset(fmt::format("/{}", kContents), H5T_STD_U8LE, {static_cast<int64_t>(bytes.size())}, bytes, kByte);
  impl_->attribute(impl_->file.get(), std::string(kContents), digest(bytes));
  flush();
}

}  // namespace msda::capture
