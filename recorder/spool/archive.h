// Two archives for Boost.Serialization that write and read plain little-endian bytes in memory.
//
// Boost's own archives live in a library that is not position independent in Debian's static form, and whose shared
// form must not enter somebody else's process. The templates of Boost.Serialization need no library; these archives
// are all that was missing. The input archive checks every size against what is left before anything is allocated.
#pragma once

#include <bit>
#include <boost/mpl/bool.hpp>
#include <boost/serialization/collection_size_type.hpp>
#include <boost/serialization/item_version_type.hpp>
#include <boost/serialization/map.hpp>
#include <boost/serialization/nvp.hpp>
#include <boost/serialization/serialization.hpp>
#include <boost/serialization/vector.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace msda::spool {

static_assert(std::endian::native == std::endian::little, "the spool is little-endian");

// A spool that cannot be read, or a message in it that ends too early, claims sizes that it does not have, or
// contradicts others. What catches it adds the file's name.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The version of Boost.Serialization's own archives, which decides the fields of a collection.
inline constexpr unsigned kLibraryVersion = 17;

class OutputArchive {
 public:
  using is_loading = boost::mpl::bool_<false>;
  using is_saving = boost::mpl::bool_<true>;

  const std::vector<std::byte>& bytes() const { return bytes_; }

  template <class T>
  OutputArchive& operator<<(const T& x) {
    if constexpr (std::is_arithmetic_v<T>) {
      save_binary(&x, sizeof x);
    } else if constexpr (std::is_same_v<T, std::string>) {
      *this << static_cast<uint64_t>(x.size());
      save_binary(x.data(), x.size());
    } else if constexpr (std::is_same_v<T, boost::serialization::collection_size_type>) {
      *this << static_cast<uint64_t>(x);
    } else if constexpr (std::is_same_v<T, boost::serialization::item_version_type>) {
      *this << static_cast<uint32_t>(x);
    } else {
      boost::serialization::serialize_adl(*this, const_cast<T&>(x), boost::serialization::version<T>::value);
    }
    return *this;
  }
  template <class T>
  OutputArchive& operator<<(const boost::serialization::nvp<T>& pair) {
    return *this << pair.const_value();
  }
  template <class T>
  OutputArchive& operator&(const T& x) {
    return *this << x;
  }
  void save_binary(const void* data, size_t size) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }
  static unsigned get_library_version() { return kLibraryVersion; }

 private:
  std::vector<std::byte> bytes_;
};

class InputArchive {
 public:
  using is_loading = boost::mpl::bool_<true>;
  using is_saving = boost::mpl::bool_<false>;

  explicit InputArchive(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  InputArchive& operator>>(T& x) {
    if constexpr (std::is_same_v<T, bool>) {
      uint8_t byte = 0;
      *this >> byte;
      if (byte > 1) throw Error("a message has a truth value that is neither true nor false");
      x = byte == 1;
    } else if constexpr (std::is_arithmetic_v<T>) {
      load_binary(&x, sizeof x);
    } else if constexpr (std::is_same_v<T, std::string>) {
      x.resize(count(1));
      load_binary(x.data(), x.size());
    } else if constexpr (std::is_same_v<T, boost::serialization::collection_size_type>) {
      // The smallest elements have 64 bits: a number, or the length of an empty text.
      x = boost::serialization::collection_size_type(count(sizeof(uint64_t)));
    } else if constexpr (std::is_same_v<T, boost::serialization::item_version_type>) {
      uint32_t version = 0;
      *this >> version;
      x = boost::serialization::item_version_type(version);
    } else {
      boost::serialization::serialize_adl(*this, x, boost::serialization::version<T>::value);
    }
    return *this;
  }
  template <class T>
  InputArchive& operator>>(const boost::serialization::nvp<T>& pair) {
    return *this >> pair.value();
  }
  template <class T>
  InputArchive& operator&(T& x) {
    return *this >> x;
  }
  template <class T>
  InputArchive& operator&(const boost::serialization::nvp<T>& pair) {
    return *this >> pair.value();
  }
  void load_binary(void* data, size_t size) {
    if (size > rest_.size()) throw Error("a message ends too early");
    if (size > 0) std::memcpy(data, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }
  size_t left() const { return rest_.size(); }
  template <class T>
  void reset_object_address(T*, T*) {}  // pointers are not followed
  static unsigned get_library_version() { return kLibraryVersion; }

 private:
  // Reads the number of elements that follow, each of which takes at least `element_bytes`.
  size_t count(size_t element_bytes) {
    uint64_t count = 0;
    *this >> count;
    if (count > rest_.size() / element_bytes) throw Error("a message claims more elements than it has bytes");
    return static_cast<size_t>(count);
  }

  std::span<const std::byte> rest_;
};

}  // namespace msda::spool
