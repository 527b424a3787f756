// In the process of a library: a call as the library is given it, and what it answers, checked and put into words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "recorder/process/channel.h"
#include "replay/own/library_process.h"

namespace msda::replay {

// Returns a text of somebody else's, cut, with ? for what is not printable.
std::string shown(const char* text, size_t most);

class OpenedCall {
 public:
  OpenedCall(const msda_own_operator_description& description, std::vector<int64_t> sizes,
             std::vector<std::vector<int64_t>> shapes, std::vector<LibraryProcess::Value> values);
  OpenedCall(const OpenedCall&) = delete;
  OpenedCall& operator=(const OpenedCall&) = delete;

  std::vector<int64_t>& numbers(size_t tensor) { return numbers_[tensor]; }

  // Call it when the numbers of all tensors have been given. Returns what the library refuses the call for, or nothing.
  std::string open();
  void close();

  const msda_own_call& call() const { return call_; }
  void* state() const { return state_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  const std::vector<int64_t>& shape(size_t tensor) const { return shapes_[tensor]; }
  // Finds the place of an element of a floating-point input. Returns what is wrong with the element, or an empty text.
  std::string find(const msda_own_element& element, uint64_t& place) const;

 private:
  const msda_own_operator_description& of_;
  std::vector<int64_t> sizes_;
  std::vector<std::vector<int64_t>> shapes_, numbers_;
  std::vector<msda_own_data> data_;
  std::vector<LibraryProcess::Value> given_;
  std::vector<msda_own_value> values_;
  msda_own_call call_{};
  void* state_ = nullptr;
};

// Answers one request: the words of its elements, which are sent in pieces, and the first fault.
class Answers {
 public:
  Answers(process::Channel& channel, const msda_own_operator_description& description, const OpenedCall& call,
          size_t output);
  // Sends what is left.
  LibraryProcess::Answer finish();

 protected:
  // Begins an element, and returns its index.
  std::vector<int64_t> begin(int64_t flat);
  void take_fault(const std::string& fault);
  void send_if(bool enough);

  const msda_own_operator_description& of_;
  const OpenedCall& call_;
  const msda_own_output& output_;
  int32_t number_;
  std::vector<uint64_t> words_;
  LibraryProcess::Answer answer_;

 private:
  process::Channel& channel_;
  int64_t element_ = 0;
};

class Coordinates : public Answers {
 public:
  using Answers::Answers;
  void add_element(int64_t flat);

 private:
  std::string add(const msda_own_coordinate& coordinate);
};

class Addends : public Answers {
 public:
  Addends(process::Channel& channel, const msda_own_operator_description& description, const OpenedCall& call,
          size_t output);
  void add_element(int64_t flat, std::span<const int32_t> cells);

 private:
  static const char* take(void* to, const msda_own_addend* addend);
  std::string add(const msda_own_addend& addend);

  int64_t most_, last_ = 0, count_ = 0;  // numbers of this output; the last one; all addends of the request
};

}  // namespace msda::replay
