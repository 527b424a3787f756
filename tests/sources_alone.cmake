# cmake -DSOURCE=... -DWORK=scratch -P sources_alone.cmake: compiles every source and header alone, which other builds compile a
# folder at a time: each must include what it uses.
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK} -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DMSDA_UNITY=OFF
    -DMSDA_CUDA=OFF -DMSDA_TESTS=ON -DMSDA_WARNINGS_AS_ERRORS=ON)
run(${CMAKE_COMMAND} --build ${WORK})
