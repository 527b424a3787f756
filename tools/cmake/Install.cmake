# `cmake --install` and find_package(msda_replay): the command, the libraries, their headers.
include(CMakePackageConfigHelpers)

install(TARGETS msda msda_capture msda_analysis EXPORT msda_replay-targets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS msda-replay msda-record RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS msda_record LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES recorder/preload/hooks/msda_record.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/msda_replay)
install(EXPORT msda_replay-targets NAMESPACE msda_replay::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/msda_replay)

# Headers keep their folders, under include/msda_replay, which the targets put on the include path. Those of what is not
# installed stay out: hdf5.h is the capture library's own, the CPU's loops and the call checks are libmsda's.
foreach(folder kernels recorder/capture analysis)
  install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/msda_replay/${folder}
    FILES_MATCHING PATTERN "*.h"
    PATTERN "cpu" EXCLUDE PATTERN "hdf5.h" EXCLUDE PATTERN "checked_call.h" EXCLUDE PATTERN "trace.h" EXCLUDE)
endforeach()

configure_package_config_file(tools/cmake/msda_replay-config.cmake.in msda_replay-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/msda_replay)
write_basic_package_version_file(msda_replay-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/msda_replay-config.cmake ${PROJECT_BINARY_DIR}/msda_replay-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/msda_replay)
