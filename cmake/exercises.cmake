# The exercises of a step. NN_*/exercise/ holds, for an exercise called 1_pad,
#   1_pad.cuh         the stub: a kernel with a gap, marked YOUR TURN, and its launcher, a function that is not inline
#   1_pad_answer.cuh  the same, solved; the lesson quotes it
#   1_pad_test.cu     the one test of both and of every wrong answer: it declares the launcher and is compiled once
#
# add_exercises(NN NAME…) makes labNN_NAME_stub and labNN_NAME_answer, which count and check every access, and
# stepNN_NAME_stub and stepNN_NAME_answer where CUDA programs are built. A test runs answers and wrong answers. Stubs are the
# reader's to write in: no test needs them to fail or even to compile, but `make exercise-answers` does (both:
# tools/exercise_answers.sh).
#
# wrong_answer(NN NAME WHAT REASON OLD NEW …) adds labNN_NAME_WHAT: the answer with OLD, which must stand there once,
# replaced by NEW. Its test has to fail, and to say REASON (a regular expression) as it does.

set(exercise_list ${CMAKE_BINARY_DIR}/exercises/list.txt)  # PROGRAM TAB pass|fail|stub TAB REASON
file(WRITE ${exercise_list} "")
add_custom_target(exercise_answers)  # builds what the tests of the answers run
add_custom_target(exercise_stubs)
add_dependencies(tests exercise_answers)
if(BUILD_GPU)  # all stubs and answers at once, each in a namespace: does nvcc take them?
  set(every_exercise ${CMAKE_BINARY_DIR}/exercises/every.cu)
  file(WRITE ${every_exercise} "#include \"common/gemm.hpp\"\n#include \"common/launch.hpp\"\n")
  add_library(exercises_cuda OBJECT EXCLUDE_FROM_ALL ${every_exercise})
  target_link_libraries(exercises_cuda PRIVATE common_gpu)
endif()

function(add_exercises number)
  foreach(name ${ARGN})
    foreach(machine lab step)
      if((machine STREQUAL "lab" AND EXECUTOR) OR (machine STREQUAL "step" AND BUILD_GPU))
        add_exercise_test(${machine} ${number} ${name})
        add_exercise_program(${machine} ${number} ${name} answer ${CMAKE_CURRENT_SOURCE_DIR}/${name}_answer.cuh)
        expect_of_exercise(answers ${machine}${number}_${name}_answer pass "All tests passed")
        add_exercise_program(${machine} ${number} ${name} stub ${CMAKE_CURRENT_SOURCE_DIR}/${name}.cuh)
      endif()
    endforeach()
    if(EXECUTOR)
      expect_of_exercise(stubs lab${number}_${name}_stub stub "failed")
    endif()
  endforeach()
  foreach(machine lab step)
    if((machine STREQUAL "lab" AND EXECUTOR) OR (machine STREQUAL "step" AND BUILD_GPU))
      set(test ${machine}${number}_exercises)
      add_test(NAME ${test} COMMAND ${CMAKE_SOURCE_DIR}/tools/exercise_answers.sh ${CMAKE_BINARY_DIR} ${machine}${number})
      set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77)
    endif()
  endforeach()
endfunction()

function(wrong_answer number name what reason)
  if(NOT EXECUTOR)
    return()
  endif()
  set(answer ${CMAKE_CURRENT_SOURCE_DIR}/${name}_answer.cuh)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${answer})
  file(READ ${answer} text)
  math(EXPR last_old "${ARGC} - 2")
  foreach(i RANGE 4 ${last_old} 2)  # by number: a list would be cut at the semicolons of the code
    math(EXPR next "${i} + 1")
    set(old "${ARGV${i}}")
    string(FIND "${text}" "${old}" first)
    string(FIND "${text}" "${old}" last REVERSE)
    if(first EQUAL -1 OR NOT first EQUAL last)
      message(FATAL_ERROR "wrong_answer ${number} ${name} ${what}: `${old}` does not stand in ${answer} exactly once")
    endif()
    string(REPLACE "${old}" "${ARGV${next}}" text "${text}")
  endforeach()
  set(file ${CMAKE_BINARY_DIR}/exercises/${number}/${name}_${what}.cuh)
  file(GENERATE OUTPUT ${file} CONTENT "${text}")
  add_exercise_program(lab ${number} ${name} ${what} ${file})
  expect_of_exercise(answers lab${number}_${name}_${what} fail "${reason}")
endfunction()

# The test, compiled once for all variants on one machine.
macro(add_exercise_test machine number name)
  set(test_sources ${name}_test.cu)
  if(${machine} STREQUAL "lab")
    as_cxx(test_sources ${test_sources})
    set(common common_executor)
  else()
    list(APPEND test_sources ${CMAKE_SOURCE_DIR}/common/gpu_test.cu)
    set(common common_gpu)
  endif()
  add_library(${machine}${number}_${name}_test OBJECT EXCLUDE_FROM_ALL ${test_sources})
  target_link_libraries(${machine}${number}_${name}_test PRIVATE ${common} catch_main)
endmacro()

# One variant with that test. It is named by the file that it includes.
function(add_exercise_program machine number name variant file)
  set(program ${machine}${number}_${name}_${variant})
  if(machine STREQUAL "step")
    file(APPEND ${every_exercise} "namespace ${program} {\n#include \"${file}\"\n}\n")
  endif()
  set(extension cu)
  set(common common_gpu)
  if(machine STREQUAL "lab")
    set(extension cpp)
    set(common common_executor instrumented)
  endif()
  set(source ${CMAKE_BINARY_DIR}/exercises/${number}/${program}.${extension})
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${file}\"\n" @ONLY)
  add_executable(${program} EXCLUDE_FROM_ALL ${source} $<TARGET_OBJECTS:${machine}${number}_${name}_test>)
  target_link_libraries(${program} PRIVATE ${common} catch_main)
  set_target_properties(${program} PROPERTIES ENABLE_EXPORTS ON)  # the executor names kernels by their symbols
endfunction()

# `kind` is answers or stubs.
function(expect_of_exercise kind program outcome reason)
  file(APPEND ${exercise_list} "${program}\t${outcome}\t${reason}\n")
  add_dependencies(exercise_${kind} ${program})
endfunction()
