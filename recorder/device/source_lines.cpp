#include "recorder/device/source_lines.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "recorder/device/cubin.h"
#include "recorder/device/instructions.h"

namespace msda::record {
namespace {

// Reads a section from front to back. After a read beyond its end everything reads as 0, and good() is false.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool good() const { return good_; }
  bool done() const { return !good_ || at_ == bytes_.size(); }
  size_t at() const { return at_; }
  void skip(uint64_t count) {
    good_ = good_ && count <= bytes_.size() - at_;
    if (good_) at_ += static_cast<size_t>(count);
  }
  // Returns the next bytes as a part of their own, which is skipped.
  Bytes part(uint64_t count) {
    const size_t begin = at_;
    skip(count);
    return good_ ? Bytes(bytes_.subspan(0, at_), begin) : Bytes({});
  }
  template <class T>
  T next() {
    T value{};
    const size_t begin = at_;
    skip(sizeof value);
    if (good_) std::memcpy(&value, bytes_.data() + begin, sizeof value);
    return value;
  }
  uint64_t uleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = next<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 127u} << shift;
      if (byte < 128) return value;
    }
  }
  int64_t sleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
      const auto byte = next<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 127u} << shift;
      shift += 7;
      if (byte >= 128) continue;
      if (shift < 64 && (byte & 64) != 0) value |= ~uint64_t{0} << shift;
      return static_cast<int64_t>(value);
    }
  }
  std::string_view text() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_, bytes_.size() - at_);
    const size_t end = rest.find('\0');
    if (end == rest.npos) good_ = false;
    if (!good_) return {};
    at_ += end + 1;
    return rest.substr(0, end);
  }

 private:
  Bytes(std::span<const std::byte> bytes, size_t at) : bytes_(bytes), at_(at) {}

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool good_ = true;
};

struct Row {
  uint64_t address = 0, file = 1, line = 1;
  uint64_t caller = 0;  // number of the row, from 1, at whose place this one is inlined; 0: none
};

// A file's name as the header of a unit has it. Many files have one folder: a path is made only if it is reported.
struct FileName {
  std::string_view folder, name;

  size_t size() const { return folder.size() + 1 + name.size(); }
  std::string path() const {
    return folder.empty() ? std::string(name) : std::string(folder) + "/" + std::string(name);
  }
};

// The rows of one function.
struct Table {
  std::vector<FileName> files;  // file 1 first
  std::vector<Row> rows;

  // Returns the lines; their paths take at most `room` bytes, which become fewer. Returns nothing if that is too
  // little.
  std::vector<SourceLine> lines_at(uint64_t offset, size_t& room) const {
    constexpr size_t kDeepest = 16, kLongestPath = 4096;
    const auto after = std::ranges::upper_bound(rows, offset, {}, &Row::address);
    std::vector<SourceLine> lines;
    for (auto number = static_cast<uint64_t>(after - rows.begin()); number > 0 && lines.size() < kDeepest;) {
      const Row& row = rows[number - 1];
      if (row.file > 0 && row.file <= files.size()) {
        const FileName& file = files[row.file - 1];
        if (file.size() > std::min(kLongestPath, room)) return {};
        room -= file.size();
        lines.push_back({file.path(), row.line});
      }
      if (row.caller >= number) break;  // a caller comes before what is inlined
      number = row.caller;
    }
    return lines;
  }
};

// What the header of a unit says (DWARF 2 to 4, section 6.2.4).
struct Header {
  uint8_t shortest = 1, line_range = 1, first_special = 1;
  int8_t line_base = 0;
  std::vector<uint8_t> operands;  // of the standard opcodes
  std::vector<FileName> files;
};

std::optional<Header> read_header(Bytes& unit) {
  Header header;
  const auto version = unit.next<uint16_t>();
  Bytes rest = unit.part(unit.next<uint32_t>());
  if (!unit.good() || version < 2 || version > 4) return std::nullopt;
  header.shortest = rest.next<uint8_t>();
  if (version == 4) rest.next<uint8_t>();  // operations in an instruction
  rest.next<uint8_t>();                    // whether rows are statements
  header.line_base = rest.next<int8_t>();
  header.line_range = rest.next<uint8_t>();
  header.first_special = rest.next<uint8_t>();
  for (int i = 1; i < header.first_special; ++i) header.operands.push_back(rest.next<uint8_t>());
  std::vector<std::string_view> folders;
  for (std::string_view name = rest.text(); !name.empty(); name = rest.text()) folders.push_back(name);
  for (std::string_view name = rest.text(); !name.empty(); name = rest.text()) {
    const uint64_t folder = rest.uleb();
    rest.uleb();  // time
    rest.uleb();  // size
    const bool known = folder > 0 && folder <= folders.size() && !name.starts_with('/');
    header.files.push_back({known ? folders[folder - 1] : std::string_view(), name});
  }
  if (!rest.good() || header.line_range == 0) return std::nullopt;
  return header;
}

// Runs a unit's line program. Calls set_address(place of the operand in the section) for each sequence, whose answer
// says whether it is wanted, and takes the rows of the sequences that are.
template <class IsWanted>
std::vector<Row> run_program(const Header& header, Bytes& unit, const IsWanted& is_wanted) {
  enum : uint8_t { kCopy = 1, kAdvancePc, kAdvanceLine, kSetFile, kConstAddPc = 8, kFixedAdvancePc };
  enum : uint8_t { kEndSequence = 1, kSetAddress = 2, kInlinedCall = 0x90 };  // the last is NVIDIA's
  std::vector<Row> rows;
  Row row;
  bool wanted = false;
  const auto emit = [&] {
    if (wanted) rows.push_back(row);
  };
  const auto advance = [&](uint64_t instructions) { row.address += instructions * header.shortest; };
  while (!unit.done()) {
    const auto opcode = unit.next<uint8_t>();
    if (opcode >= header.first_special) {
      const auto special = static_cast<unsigned>(opcode - header.first_special);
      advance(special / header.line_range);
      row.line += static_cast<uint64_t>(int64_t{header.line_base} + special % header.line_range);
      emit();
    } else if (opcode == 0) {
      const uint64_t length = unit.uleb();
      const size_t begin = unit.at();
      Bytes operands = unit.part(length);
      const auto extended = operands.next<uint8_t>();
      if (extended == kEndSequence) {
        if (wanted) return rows;
        row = {};
      } else if (extended == kSetAddress) {
        row.address = 0;  // the relocation's symbol is the function
        wanted = is_wanted(begin + 1);
      } else if (extended == kInlinedCall) {
        row.caller = operands.uleb();
      }
    } else if (opcode == kCopy) {
      emit();
    } else if (opcode == kAdvancePc) {
      advance(unit.uleb());
    } else if (opcode == kAdvanceLine) {
      row.line += static_cast<uint64_t>(unit.sleb());
    } else if (opcode == kSetFile) {
      row.file = unit.uleb();
    } else if (opcode == kConstAddPc) {
      advance((255u - header.first_special) / header.line_range);
    } else if (opcode == kFixedAdvancePc) {
      row.address += unit.next<uint16_t>();
    } else {
      for (int i = 0; i < header.operands[opcode - 1u]; ++i) unit.uleb();
    }
  }
  return unit.good() ? rows : std::vector<Row>();
}

Table table_of(std::span<const std::byte> cubin, std::string_view function) {
  const std::span<const std::byte> section = section_of(cubin, ".debug_line");
  const auto symbol = symbol_of(cubin, function);
  if (section.empty() || !symbol) return {};
  // Where the line programs name the function. Older code has relocations without addends.
  std::vector<uint64_t> places;
  for (const bool with_addends : {true, false}) {
    Bytes relocations(section_of(cubin, with_addends ? ".rela.debug_line" : ".rel.debug_line"));
    while (!relocations.done()) {
      const auto place = relocations.next<uint64_t>(), info = relocations.next<uint64_t>();
      if (with_addends) relocations.next<uint64_t>();
      if (relocations.good() && info >> 32 == *symbol) places.push_back(place);
    }
  }
  std::ranges::sort(places);
  Bytes units(section);
  while (!units.done()) {
    const auto bytes = units.next<uint32_t>();
    const size_t begin = units.at();
    Bytes unit = units.part(bytes);
    const auto header = read_header(unit);
    if (!header) continue;
    std::vector<Row> rows = run_program(
        *header, unit, [&](size_t place) { return place >= begin && std::ranges::binary_search(places, place); });
    if (!rows.empty()) return {header->files, std::move(rows)};
  }
  return {};
}

}  // namespace

std::vector<AtomicInstruction> atomics_in(std::span<const std::byte> cubin, std::string_view function,
                                          std::string_view architecture) {
  std::vector<AtomicInstruction> atomics;
  const auto number = decodable_architecture(architecture);
  const std::span<const std::byte> code = number ? code_of(cubin, function) : std::span<const std::byte>();
  for (size_t at = 0; at + kInstructionBytes <= code.size(); at += kInstructionBytes) {
    const auto atomic = atomic_in(code.subspan(at).first<kInstructionBytes>(), *number);
    if (atomic) atomics.push_back({at, atomic->opcode, {}});
  }
  std::vector<uint64_t> offsets;
  for (const AtomicInstruction& atomic : atomics) offsets.push_back(atomic.offset);
  auto lines = source_lines_at(cubin, function, offsets);
  for (size_t i = 0; i < lines.size(); ++i) atomics[i].lines = std::move(lines[i]);
  return atomics;
}

std::vector<std::vector<SourceLine>> source_lines_at(std::span<const std::byte> cubin, std::string_view function,
                                                     std::span<const uint64_t> offsets) {
  std::vector<std::vector<SourceLine>> lines;
  if (offsets.empty()) return lines;
  const Table table = table_of(cubin, function);
  size_t room = size_t{16} << 20;  // many times what code that a compiler made has
  for (const uint64_t offset : offsets) lines.push_back(table.lines_at(offset, room));
  return lines;
}

}  // namespace msda::record
