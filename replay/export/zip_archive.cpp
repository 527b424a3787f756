#include "replay/export/zip_archive.h"

#include <fmt/format.h>

#include "replay/base/errors.h"
#include "replay/base/file_kind.h"

#if MSDA_HAS_ZIP
#include <zip.h>
#endif

namespace msda::replay {

void ZipArchive::fail(const std::string& why) const {
  throw BadInput(fmt::format("{}: cannot write it: {}", shown_, why));
}

#if MSDA_HAS_ZIP

ZipArchive::ZipArchive(const std::string& path, std::string shown) : shown_(std::move(shown)) {
  int error = 0;
  zip_ = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (zip_ != nullptr) return;
  zip_error_t text;
  zip_error_init_with_code(&text, error);
  const std::string why = zip_error_strerror(&text);
  zip_error_fini(&text);
  fail(why);
}

ZipArchive::~ZipArchive() {
  if (zip_ != nullptr) zip_discard(zip_);
}

namespace {

// Takes over the source. Members have the time that NumPy gives them, so that equal contents are equal archives.
bool add_source(zip_t* archive, const std::string& name, zip_source_t* source) {
  if (source == nullptr) return false;
  const zip_int64_t index = zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    return false;
  }
  constexpr zip_uint16_t kMidnight = 0, kFirstDayOf1980 = 1 << 5 | 1;
  return zip_file_set_dostime(archive, static_cast<zip_uint64_t>(index), kMidnight, kFirstDayOf1980, 0) == 0;
}

}  // namespace

void ZipArchive::add(const std::string& name, std::string bytes, std::span<const std::byte> tail) {
  std::string& kept = kept_.emplace_back(std::move(bytes));
  std::vector<zip_buffer_fragment_t> fragments;
  const auto push = [&](const void* data, size_t size) {
    if (size == 0) return;
    // The interface is not const, but libzip only reads.
    fragments.push_back({static_cast<zip_uint8_t*>(const_cast<void*>(data)), size});
  };
  push(kept.data(), kept.size());
  push(tail.data(), tail.size());
  zip_source_t* source = zip_source_buffer_fragment(zip_, fragments.data(), fragments.size(), 0);
  if (!add_source(zip_, name, source)) fail(zip_strerror(zip_));
}

void ZipArchive::add_file(const std::string& name, const std::string& path) {
  if (!add_source(zip_, name, zip_source_file(zip_, path.c_str(), 0, -1))) fail(zip_strerror(zip_));
}

void ZipArchive::close() {
  if (zip_set_archive_comment(zip_, kTrailer, sizeof kTrailer - 1) != 0 || zip_close(zip_) != 0)
    fail(zip_strerror(zip_));
  zip_ = nullptr;
}

#else

ZipArchive::ZipArchive(const std::string&, std::string shown) : shown_(std::move(shown)) {
  throw Unavailable(fmt::format(
      "{}: cannot write it: msda-replay was built without libzip; install libzip-dev and build it again", shown_));
}
ZipArchive::~ZipArchive() = default;
void ZipArchive::add(const std::string&, std::string, std::span<const std::byte>) { fail("no libzip"); }
void ZipArchive::add_file(const std::string&, const std::string&) { fail("no libzip"); }
void ZipArchive::close() {}

#endif

}  // namespace msda::replay
