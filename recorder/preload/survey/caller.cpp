#include "recorder/preload/survey/caller.h"

#include <dlfcn.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <string_view>

#include "recorder/adapters/made_once.h"
#include "recorder/preload/driver/symbols.h"
#include "recorder/preload/session/own_thread.h"
#include "recorder/preload/survey/telling_symbols.h"
#include "recorder/text/demangle.h"

namespace msda::record {
namespace {

// Returns what stands between `before` and the next "::" in a symbol's name: of
// "torch::autograd::generated::A::apply(...)".
std::string part_after(std::string_view name, std::string_view before) {
  const size_t at = name.find(before);
  if (at == name.npos) return "";
  name.remove_prefix(at + before.size());
  const size_t end = name.find("::");
  return end == name.npos ? "" : std::string(name.substr(0, end));
}

// Returns the function's own name in "vision::ops::detail::_pool_backward(at::Tensor const&, ...)".
std::string function_after(std::string_view name, std::string_view before) {
  if (!name.starts_with(before)) return "";
  name = name.substr(0, name.find('('));
  return std::string(name.substr(name.rfind(':') + 1));
}

// Takes what the frame's function shows of the caller. Returns whether nothing more is needed.
bool read_frame(uintptr_t address, Caller& caller) noexcept try {
  const std::string mangled = TellingSymbols::instance().name_of(address);
  if (mangled.empty()) return false;
  const std::string name = text::demangled(mangled);
  if (caller.node.empty()) caller.node = part_after(name, "torch::autograd::generated::");
  if (caller.operation.empty()) caller.operation = part_after(name, "at::_ops::");
  if (caller.operation.empty()) caller.operation = function_after(name, "vision::ops::");
  return !caller.node.empty() && !caller.operation.empty();
} catch (...) {  // no memory
  return true;
}

// Takes each name from the innermost frame that has it.
void read_native_frames(Caller& caller) {
  struct Walk {
    Caller& caller;
    int frames = 0, since_operation = 0;
  } walk{caller};
  // Unwinding a frame takes some microseconds. A node calls its operators within few frames.
  const auto visit = [](_Unwind_Context* context, void* data) {
    constexpr int kMostFrames = 192, kMostBetween = 16;
    Walk& mine = *static_cast<Walk*>(data);
    const bool has_all = read_frame(_Unwind_GetIP(context), mine.caller);
    mine.since_operation += !mine.caller.operation.empty();
    const bool ends = has_all || ++mine.frames == kMostFrames || mine.since_operation > kMostBetween;
    return ends ? _URC_END_OF_STACK : _URC_NO_REASON;
  };
  _Unwind_Backtrace(visit, &walk);
}

// The functions of Python's C API that describe a frame, from CPython 3.9 on.
struct Python {
  int (*holds_lock)() = nullptr;
  void* (*frame)() = nullptr;
  void* (*code)(void* frame) = nullptr;
  int (*line)(void* frame) = nullptr;
  void* (*attribute)(void* object, const char* name) = nullptr;
  const char* (*text)(void* object) = nullptr;
  void (*release)(void* object) = nullptr;
  void (*clear_error)() = nullptr;
  void (*fetch_error)(void**, void**, void**) = nullptr;
  void (*restore_error)(void*, void*, void*) = nullptr;

  Python() {
    const auto get = [](auto*& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(real_dlsym(RTLD_DEFAULT, name));
      return function != nullptr;
    };
    is_complete = get(holds_lock, "PyGILState_Check") && get(frame, "PyEval_GetFrame") &&
                  get(code, "PyFrame_GetCode") && get(line, "PyFrame_GetLineNumber") &&
                  get(attribute, "PyObject_GetAttrString") && get(text, "PyUnicode_AsUTF8") &&
                  get(release, "Py_DecRef") && get(clear_error, "PyErr_Clear") && get(fetch_error, "PyErr_Fetch") &&
                  get(restore_error, "PyErr_Restore");
  }
  bool is_complete = false;
};

// Returns the text of a code object's attribute; empty if it has none.
std::string text_of(const Python& python, void* code, const char* name) {
  void* value = python.attribute(code, name);
  const char* text = value != nullptr ? python.text(value) : nullptr;
  std::string copy = text != nullptr ? text : "";
  if (value != nullptr) python.release(value);
  return copy;
}

void read_python_frame(Caller& caller) {
  // Python may be loaded later.
  static std::atomic<bool> is_there{false};
  static constinit MadeOnce<Python> found;
  if (!is_there) is_there = real_dlsym(RTLD_DEFAULT, "PyGILState_Check") != nullptr;
  if (!is_there) return;
  const Python& python = found.get();
  if (!python.is_complete || python.holds_lock() == 0) return;
  void* const frame = python.frame();  // borrowed
  if (frame == nullptr) return;
  void *type = nullptr, *value = nullptr, *trace = nullptr;
  python.fetch_error(&type, &value, &trace);  // of the program, which may be about to handle it
  if (void* code = python.code(frame)) {
    const std::string file = text_of(python, code, "co_filename"), function = text_of(python, code, "co_name");
    if (!file.empty()) caller.python = file + ":" + std::to_string(python.line(frame)) + " " + function;
    python.release(code);
  }
  python.clear_error();
  python.restore_error(type, value, trace);
}

}  // namespace

Caller caller_of_launch() noexcept {
  Caller caller;
  try {
    if (!has_much_stack()) return caller;
    read_native_frames(caller);
    read_python_frame(caller);
  } catch (...) {  // no memory
  }
  return caller;
}

}  // namespace msda::record
