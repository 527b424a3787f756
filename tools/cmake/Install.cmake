# `cmake --install` and find_package(msda_replay): the commands, the libraries, their headers, the documentation. The component
# `runtime` is what a user of the commands needs, `development` what a program that uses the libraries needs besides.
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/msda_replay)

# Each library has its own export: a program that uses one needs only that one's dependencies.
foreach(component IN ITEMS msda analysis capture)
  set(target msda_${component})
  if(component STREQUAL msda)
    set(target msda)
  endif()
  install(TARGETS ${target} EXPORT msda_replay-${component}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/msda_replay COMPONENT development)
  install(EXPORT msda_replay-${component} NAMESPACE msda_replay:: DESTINATION ${package_folder} COMPONENT development)
endforeach()

# All that the component runtime installs.
add_custom_target(runtime DEPENDS msda-replay msda-record msda_record)
install(TARGETS msda-replay msda-record RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(TARGETS msda_record LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
if(TARGET msda_torch_calls)
  add_dependencies(runtime msda_torch_calls)
  install(TARGETS msda_torch_calls LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
endif()
if(TARGET msda_mpi)
  install(TARGETS msda_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi)
endif()
install(FILES recorder/preload/hooks/msda_record.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/msda_replay COMPONENT development)

# The README's links lead from there to docs/, as they do here.
set(documentation ${CMAKE_INSTALL_DATAROOTDIR}/doc/msda-replay)
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${documentation} COMPONENT runtime)
install(DIRECTORY docs DESTINATION ${documentation} COMPONENT runtime)

configure_package_config_file(tools/cmake/msda_replay-config.cmake.in msda_replay-config.cmake
  INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(msda_replay-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/msda_replay-config.cmake ${PROJECT_BINARY_DIR}/msda_replay-config-version.cmake
  DESTINATION ${package_folder} COMPONENT development)

# Man pages and shell completions, of what the commands print for --help.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  set(shell_files ${PROJECT_BINARY_DIR}/shell_files)
  file(GLOB shell_files_sources CONFIGURE_DEPENDS tools/package/*.py)
  add_custom_command(OUTPUT ${shell_files}/made
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${shell_files}
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/package/shell_files ${shell_files} ${PROJECT_VERSION}
            $<TARGET_FILE:msda-replay> $<TARGET_FILE:msda-record>
    COMMAND ${CMAKE_COMMAND} -E touch ${shell_files}/made
    DEPENDS msda-replay msda-record tools/package/shell_files ${shell_files_sources}
    VERBATIM)
  add_custom_target(msda_shell_files ALL DEPENDS ${shell_files}/made)
  add_dependencies(runtime msda_shell_files)
  foreach(folder IN ITEMS man bash-completion zsh fish)  # a build of the commands alone has none
    install(DIRECTORY ${shell_files}/${folder} DESTINATION ${CMAKE_INSTALL_DATAROOTDIR} COMPONENT runtime OPTIONAL)
  endforeach()
endif()
