# `cmake --install` and find_package(msda_replay): the commands, the libraries, their headers, the documentation.
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/msda_replay)

# Each library has its own export: a program that uses one needs only that one's dependencies.
foreach(component IN ITEMS msda analysis capture)
  set(target msda_${component})
  if(component STREQUAL msda)
    set(target msda)
  endif()
  install(TARGETS ${target} EXPORT msda_replay-${component}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/msda_replay)
  install(EXPORT msda_replay-${component} NAMESPACE msda_replay:: DESTINATION ${package_folder})
endforeach()

install(TARGETS msda-replay msda-record RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS msda_record LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET msda_mpi)
  install(TARGETS msda_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(FILES recorder/preload/hooks/msda_record.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/msda_replay)

# The README's links lead from there to docs/, as they do here.
set(documentation ${CMAKE_INSTALL_DATAROOTDIR}/doc/msda-replay)
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${documentation})
install(DIRECTORY docs DESTINATION ${documentation})

configure_package_config_file(tools/cmake/msda_replay-config.cmake.in msda_replay-config.cmake
  INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(msda_replay-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/msda_replay-config.cmake ${PROJECT_BINARY_DIR}/msda_replay-config-version.cmake
  DESTINATION ${package_folder})
