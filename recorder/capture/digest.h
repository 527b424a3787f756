// Digests of tensor bytes and code images: XXH3-128, written "xxh3-128:" and 32 hexadecimal digits.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace msda::capture {

// Returns the digest of the bytes as stored in the file: row-major, little-endian.
std::string digest(std::span<const std::byte> bytes);

// Computes the same digest from bytes that arrive in pieces.
class Digester {
 public:
  Digester();
  Digester(Digester&&) noexcept;
  ~Digester();
  void add(std::span<const std::byte> bytes);
  std::string digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace msda::capture
