// Replaces dlsym. A program that looks up one of the functions that the recorder replaces gets the recorder's.
//
// RTLD_NEXT and RTLD_DEFAULT depend on the caller, which the C library finds by the return address. For these two
// handles the code jumps to the real dlsym with the caller's frame untouched and substitutes nothing: the dynamic
// linker finds the preload's own symbols anyway.
#include <cstring>
#include <string_view>

#include "recorder/preload/driver/symbols.h"
#include "recorder/preload/hooks/interpose.h"
#include "recorder/preload/hooks/table.h"

#if !defined(__x86_64__)
#error "dlsym.cpp: write the jump below for this processor"
#endif

namespace msda::record {

// Returns whether this is the third letter of a driver function that is replaced.
constexpr bool is_third_letter(char letter) {
  return std::string_view("CDEGILMSW").find(letter) != std::string_view::npos;
}
#define MSDA_IS_FOUND(name, ...) &&is_third_letter(#name[2])
static_assert(true MSDA_DRIVER_HOOKS(MSDA_IS_FOUND));
#undef MSDA_IS_FOUND

void* substitute(const char* name, void* found) noexcept {
  if (found == nullptr || name == nullptr) return found;
  if (std::strncmp(name, "msda_", 5) == 0) {
    if (void* ours = substitute_abi(name, found)) return ours;
  } else if (std::strncmp(name, "cupti", 5) == 0) {
    if (void* ours = substitute_cupti(name, found)) return ours;
  } else if (name[0] == 'c' && name[1] == 'u' && is_third_letter(name[2])) {
    if (void* ours = substitute_driver(name, found)) return ours;
  } else if (std::strncmp(name, "srand", 5) == 0 || std::strncmp(name, "seed48", 6) == 0 ||
             std::strncmp(name, "initstate", 9) == 0 || std::strncmp(name, "curandSet", 9) == 0) {
    if (void* ours = substitute_seed(name, found)) return ours;
  }
  return found;
}

}  // namespace msda::record

extern "C" {

__attribute__((visibility("hidden"))) void* msda_record_dlsym(void* handle, const char* name) {
  return msda::record::substitute(name, msda::record::real_dlsym(handle, name));
}
}

// If handle (rdi) is RTLD_DEFAULT (0) or RTLD_NEXT (-1), jump to the real dlsym, otherwise to ours.
asm(R"(
  .text
  .globl dlsym
  .type dlsym, @function
dlsym:
  endbr64
  cmpq $0, msda_record_real_dlsym(%rip)
  jne 1f
  pushq %rdi
  pushq %rsi
  subq $8, %rsp
  call msda_record_find_real_dlsym
  addq $8, %rsp
  popq %rsi
  popq %rdi
1:
  leaq 1(%rdi), %rax
  cmpq $1, %rax
  ja 2f
  jmp *msda_record_real_dlsym(%rip)
2:
  jmp msda_record_dlsym
  .size dlsym, .-dlsym
)");
