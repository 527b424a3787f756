#include "recorder/preload/session/labels.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>

namespace msda::record {
namespace {

// The last label that any thread was given. Never destroyed: another thread may be writing it when the program forks.
struct LastLabel {
  std::mutex mutex;
  bool is_set = false, changes = false;
  char text[4096] = {};
};
constinit LastLabel last_label{};

std::optional<std::string>& label_of_thread() {
  static thread_local std::optional<std::string> label;
  return label;
}

__attribute__((constructor)) void reset_labels_in_children() {
  pthread_atfork(nullptr, nullptr, [] {
    new (&last_label.mutex) std::mutex;
    if (last_label.changes) last_label.is_set = last_label.changes = false;
  });
}

}  // namespace

void set_label(const char* label) noexcept {
  const int saved = errno;
  try {
    label_of_thread() = label != nullptr ? std::optional<std::string>(label) : std::nullopt;
  } catch (...) {  // no memory: the previous label stays
    return;
  }
  {
    const std::lock_guard lock(last_label.mutex);
    last_label.changes = true;
    last_label.is_set = label != nullptr;
    if (label != nullptr) last_label.text[label_of_thread()->copy(last_label.text, sizeof last_label.text - 1)] = 0;
    last_label.changes = false;
  }
  errno = saved;
}

std::string current_label() {
  if (label_of_thread()) return *label_of_thread();
  {
    const std::lock_guard lock(last_label.mutex);
    if (last_label.is_set) return last_label.text;
  }
  const char* test = getenv("PYTEST_CURRENT_TEST");
  const std::string text = test != nullptr ? test : "";
  return text.substr(0, text.rfind(" ("));  // without the phase: "test_msda.py::test_backward[32] (call)"
}

}  // namespace msda::record
