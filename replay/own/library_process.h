// A library of an operator in a process of its own: it may crash, hang and write anywhere, and msda-replay says so in
// one line. The process is forked as the command line is read, when there is one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "recorder/process/fenced_process.h"
#include "replay/own/library_schema.h"

namespace msda::process {
template <class Server>
class Isolated;
}

namespace msda::replay {

class LibraryServer;

class LibraryProcess {
 public:
  struct Limits {
    // Limits of one request; open() has more for its integers.
    int cpu_seconds = 10, wall_seconds = 20;
  };
  // Throws BadInput, as all of them do, if the library cannot be used: the message names it.
  LibraryProcess(std::string path, Limits limits);
  explicit LibraryProcess(std::string path) : LibraryProcess(std::move(path), Limits{}) {}
  LibraryProcess(const LibraryProcess&) = delete;
  LibraryProcess& operator=(const LibraryProcess&) = delete;
  ~LibraryProcess();

  const std::string& path() const { return path_; }
  const LibrarySchema& schema() const { return schema_; }

  // A call to open. Data of integer tensors, by tensor of the schema; the others are empty.
  struct Value {
    std::string name;
    std::optional<int64_t> integer;
    double real;
  };
  struct NewCall {
    std::vector<int64_t> sizes;  // by dimension
    std::vector<std::vector<int64_t>> shapes;
    std::vector<std::vector<int64_t>> numbers;
    std::vector<Value> values;
  };
  // Returns its number for the questions below; or why the library refuses the call. Thread-safe, as all of them are.
  std::variant<int64_t, std::string> open(const NewCall& call);
  void close(int64_t call) noexcept;

  struct Answer {
    std::vector<uint64_t> words;  // as library_schema.h says; not checked
    int64_t element = -1;         // the first that something is wrong with, of those asked for
    std::string fault;
    bool has_too_many = false;  // addends; then the functions throw the fault
  };
  Answer coordinates(int64_t call, size_t output, int64_t first, int64_t count);
  // `cells`: those of each element after the other. What is wrong with an addend leaves it out.
  Answer addends(int64_t call, size_t output, int64_t first, int64_t count, std::span<const int32_t> cells);

  // Throws BadInput: what the library answered is no answer.
  [[noreturn]] void refuse_answer();

 private:
  void begin(const char* asked, int64_t more_seconds);
  Answer receive();
  [[noreturn]] void report(const process::Failure& failure);
  [[noreturn]] void fail(const std::string& what);

  std::string path_;
  Limits limits_;
  std::mutex mutex_;
  std::unique_ptr<process::Isolated<LibraryServer>> process_;
  const char* asked_ = "";  // for messages
  int64_t patience_ = 0;
  std::string failed_;  // how it ended
  int64_t calls_ = 0;
  LibrarySchema schema_;
};

}  // namespace msda::replay
