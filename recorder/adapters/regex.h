// <regex>, without a false warning of GCC 12 and later: with a sanitizer, GCC takes the std::function in a moved
// automaton state for uninitialized (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105562).
#pragma once
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <regex>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
