// <regex>, without a warning of GCC 12 and later that is wrong: with a sanitizer, the std::function in a moved state of
// an automaton passes for uninitialized (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105562).
#pragma once
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <regex>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
