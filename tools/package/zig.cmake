# Compiles with Zig's Clang, libc++ and glibc stubs (`pip install ziglang`): the programs run on any Linux with glibc 2.28 or later,
# and carry their C++ library with them.
set(CMAKE_C_COMPILER ${MSDA_ZIG} cc)
set(CMAKE_CXX_COMPILER ${MSDA_ZIG} c++)
set(CMAKE_C_COMPILER_TARGET ${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu.2.28)
set(CMAKE_CXX_COMPILER_TARGET ${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu.2.28)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MSDA_ZIG)
