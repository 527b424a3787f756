# cmake -DBUILD=build -DSOURCE=tests/install -DWORK=scratch -DFLAGS=... -P run_consumer.cmake
file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
# Moved, as packages are: nothing may depend on where it was installed.
file(RENAME ${prefix} ${WORK}/moved)
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/moved -DCMAKE_CXX_FLAGS=${FLAGS}
    -DCMAKE_C_FLAGS=${FLAGS})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer_c)
run(${WORK}/build/consumer_cpp ${WORK}/a.h5)
run(${WORK}/moved/bin/msda-replay list ${WORK}/a.h5)
