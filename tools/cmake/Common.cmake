# Settings that all targets of the project share.

# msda_target(NAME): sets includes by path from the top of the tree, warnings, and strict floating-point rules: no contraction
# (kernels/sample.h). -Wrestrict is off: GCC 12 warns of std::string itself (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105651).
function(msda_target name)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/msda_replay>)
  set(host -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
           $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> $<$<C_COMPILER_ID:GNU>:-Wno-restrict> -ffp-contract=off
           $<$<BOOL:${MSDA_WARNINGS_AS_ERRORS}>:-Werror>)
  target_compile_options(${name} PRIVATE "$<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:${host}>")
endfunction()

# msda_public_headers(NAME FILE...): the headers that are installed with a library. tests/install compiles each alone.
function(msda_public_headers name)
  target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARGN})
endfunction()
