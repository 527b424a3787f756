# Settings that all targets of the project share.

# The files of a folder are compiled as one, so that what they include is read, and what they instantiate is compiled, once. No
# two files of a folder may therefore use one name in their unnamed namespaces.
option(MSDA_UNITY "Compile the files of each folder as one; otherwise each file, and each header, alone" ON)

# msda_together(FOLDER...): compiles the files of these folders as one: small ones, which include the same. Applies to the
# targets that follow.
function(msda_together first)
  foreach(folder IN LISTS ARGV)
    set("msda_unit_of_${folder}" ${first} PARENT_SCOPE)
  endforeach()
endfunction()

function(msda_unity name)
  if(NOT MSDA_UNITY)
    return()
  endif()
  get_target_property(sources ${name} SOURCES)
  list(FILTER sources INCLUDE REGEX "[.]cpp$")
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    if(DEFINED "msda_unit_of_${folder}")
      set(folder ${msda_unit_of_${folder}})
    endif()
    string(MAKE_C_IDENTIFIER "in_${folder}" unit)
    set_property(SOURCE ${source} PROPERTY UNITY_GROUP ${unit})
  endforeach()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # The first makes GCC look for garbage less often: a twentieth of the time, for 400 MB more. The second is off because GCC takes
  # the unit's files for headers, and warns of types that would be others in each file that includes them.
  target_compile_options(${name} PRIVATE
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=600000;-Wno-subobject-linkage>")
endfunction()

# msda_rarely_run(NAME [OPTION]): optimizes little what takes little of a run, and much of a build: with OPTION, or -Og. GCC's -Og
# inlines less than its -O1, and takes a fifth less. Clang keeps the options of the build type.
function(msda_rarely_run name)
  set(options ${ARGN})
  if(NOT options)
    set(options -Og)
  endif()
  target_compile_options(${name} PRIVATE $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:${options}>)
endfunction()

# msda_target(NAME): sets includes by path from the top of the tree, warnings, and strict floating-point rules: no contraction
# (kernels/sample.h). -Wrestrict is off: GCC 12 warns of std::string itself (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105651).
function(msda_target name)
  msda_unity(${name})
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
