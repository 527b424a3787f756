# Packages for Debian and Ubuntu, and an archive: tools/package/deb, or `cpack -G DEB` and `cpack -G TGZ` in a build folder.
# msda-replay holds the commands and what they need; msda-replay-mpi the library that divides captures among processes;
# msda-replay-dev the headers and static libraries.
set(CPACK_PACKAGE_NAME msda-replay)
set(CPACK_PACKAGE_VENDOR "msda-replay")
set(CPACK_PACKAGE_CONTACT "The developers of msda-replay <msda-replay@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_COMPONENTS_ALL runtime mpi development)
if(NOT TARGET msda_mpi)
  list(REMOVE_ITEM CPACK_COMPONENTS_ALL mpi)
endif()

# The archive: one file, which may be unpacked anywhere.
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
set(CPACK_PACKAGE_FILE_NAME "msda-replay-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")

# dpkg-shlibdeps finds the libraries that the programs are linked to, and the packages and versions that bring them.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME msda-replay)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "python3-h5py, python3-numpy")
set(CPACK_DEBIAN_MPI_PACKAGE_NAME msda-replay-mpi)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME msda-replay-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libfmt-dev, libhdf5-dev, libxxhash-dev, nlohmann-json3-dev")
set(CPACK_COMPONENT_MPI_DEPENDS runtime)
set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS runtime)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
"Records the backward passes of a program's GPU kernels, replays them in
deterministic, atomic and float64 arithmetic, with or without a GPU, and
says which elements drift, from which stage on, why, and which side is wrong.")
set(CPACK_COMPONENT_MPI_DESCRIPTION
"Divides the captures that msda-replay is given among the processes that
mpirun or srun has started.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
"Headers and libraries for programs that use the operators, the analysis or
the capture files of msda-replay.")
include(CPack)
