// A .zip file, by libzip. Without that at build time every archive is Unavailable.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

struct zip;

namespace msda::replay {

class ZipArchive {
 public:
  // `path` is a temporary file, overwritten; errors name `shown` in its place. Every function throws BadInput, the
  // constructor Unavailable, too.
  ZipArchive(const std::string& path, std::string shown);
  ~ZipArchive();
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  // Compressed when the archive is closed. `tail` goes behind `bytes`, and must live until then.
  void add(const std::string& name, std::string bytes, std::span<const std::byte> tail = {});
  // The file must live until close().
  void add_file(const std::string& name, const std::string& path);
  void close();

 private:
  [[noreturn]] void fail(const std::string& why) const;

  std::string shown_;
  zip* zip_ = nullptr;
  std::deque<std::string> kept_;
};

}  // namespace msda::replay
