# cmake -DBUILD=build -DSOURCE=tests/install -DWORK=scratch -DFLAGS=... -P run_consumer.cmake Installs, moves the prefix, and uses
# the installation: nothing may depend on where it was installed, nor on the environment.
file(REMOVE_RECURSE ${WORK})

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# run_clean(OUTPUT COMMAND...): with an empty environment; OUTPUT is set to stdout and stderr.
function(run_clean output)
  execute_process(COMMAND env -i ${ARGN} OUTPUT_VARIABLE text ERROR_VARIABLE text
    COMMAND_ERROR_IS_FATAL ANY)
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

function(build source)
  run(${CMAKE_COMMAND} -S ${SOURCE}/${source} -B ${WORK}/build/${source} -G Ninja -DCMAKE_PREFIX_PATH=${prefix}
      -DCMAKE_CXX_FLAGS=${FLAGS} -DCMAKE_C_FLAGS=${FLAGS})
  run(${CMAKE_COMMAND} --build ${WORK}/build/${source})
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
set(prefix ${WORK}/moved)
file(RENAME ${WORK}/prefix ${prefix})

build(c)
build(.)
run(${WORK}/build/c/consumer_c)
run(${WORK}/build/./consumer_cpp ${WORK}/a.h5)
run_clean(listed ${prefix}/bin/msda-replay list ${WORK}/a.h5)

# The recorder starts, and records a program that uses the operator.
run_clean(recorded ${prefix}/bin/msda-record -o ${WORK}/recorded.h5 -- ${BUILD}/bin/flaky_backward_test --runs 1 --seed 1)
if(NOT recorded MATCHES "recorded.h5: [1-9][0-9]* invocation")
  message(FATAL_ERROR "nothing was recorded: ${recorded}")
endif()
run_clean(listed ${prefix}/bin/msda-replay list ${WORK}/recorded.h5)

foreach(document IN ITEMS README.md LICENSE CHANGELOG.md docs/recording.md docs/run.schema.json)
  if(NOT EXISTS ${prefix}/share/doc/msda-replay/${document})
    message(FATAL_ERROR "${document} is not installed")
  endif()
endforeach()
