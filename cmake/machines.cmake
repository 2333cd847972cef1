# The two machines. Every source of a step is compiled up to twice: by nvcc into build/bin/stepNN, and as plain C++ into
# build/bin/labNN, which runs the kernels on the CPU executor.

find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Catch2 REQUIRED)
find_package(Threads REQUIRED)

add_library(warnings INTERFACE)
target_compile_options(warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra>
  # a kernel in a header is `inline`, so that several files may include it; nvcc honours that and warns all the same (20050)
  $<$<COMPILE_LANGUAGE:CUDA>:-diag-suppress=20050 -Xcompiler=-Wall,-Wextra>)
if(WARNINGS_AS_ERRORS)
  target_compile_options(warnings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -Xcompiler=-Werror>)
endif()

# What both machines see.
add_library(base INTERFACE)
target_include_directories(base INTERFACE ${CMAKE_SOURCE_DIR})
target_link_libraries(base INTERFACE warnings fmt::fmt nlohmann_json::nlohmann_json CLI11::CLI11 Threads::Threads ${CMAKE_DL_LIBS})

add_library(catch_main OBJECT common/catch_main.cpp)
target_link_libraries(catch_main PUBLIC base)
target_compile_options(catch_main PRIVATE -O0)  # Catch2 itself: half the time to build
if(TARGET Catch2::Catch2)
  target_link_libraries(catch_main PUBLIC Catch2::Catch2)
endif()

# How counts are shown; plain C++ on both machines. The cards travel inside the programs, so that they work from any folder
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/common/lab/cards.json)
file(READ ${CMAKE_SOURCE_DIR}/common/lab/cards.json content)
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/generated/lab_cards.inc
     CONTENT "static const char kCardsJson[] = R\"json(${content})json\";\n")
add_library(lab STATIC EXCLUDE_FROM_ALL common/lab/cards.cpp common/lab/table.cpp common/lab/listing.cpp common/lab/page.cpp
                       common/lab/json.cpp common/lab/told.cpp common/lab/unsupported.cpp)
target_link_libraries(lab PUBLIC base)
target_include_directories(lab PRIVATE ${CMAKE_BINARY_DIR}/generated)
target_compile_definitions(lab PRIVATE SOURCE_ROOT="${CMAKE_SOURCE_DIR}")

# ---- GPU -----------------------------------------------------------------------------------------------------------
set(BUILD_GPU OFF)
set(why "GPU=OFF was asked for")
if(NOT GPU STREQUAL "OFF")
  include(cuda_architectures)  # sets BUILD_GPU, CMAKE_CUDA_ARCHITECTURES and why not
endif()
# for the scripts of the front door: why there are no CUDA programs; empty where there are
file(WRITE ${CMAKE_BINARY_DIR}/why_no_cuda.txt "${why}")
if(why)
  message(STATUS "CUDA programs are left out: ${why}. The same kernels run on the CPU executor.")
endif()
if(BUILD_GPU)
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  find_package(CUDAToolkit REQUIRED)
  add_library(common_gpu STATIC common/device_cuda.cu common/bench.cu common/roofline.cu common/program.cu
                                common/shape.cpp common/row.cu common/step.cu common/gemm_reference.cu
                                common/gemm_step.cu common/cublas_gemm.cu common/tensor_map.cu)
  target_link_libraries(common_gpu PUBLIC base lab CUDA::cudart_static PRIVATE env_check_tables)
  # -lineinfo lets compute-sanitizer and ncu name source lines; it costs no speed
  target_compile_options(common_gpu PUBLIC $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>)
  if(TARGET CUDA::cublas)
    target_link_libraries(common_gpu PUBLIC CUDA::cublas)
    target_compile_definitions(common_gpu PUBLIC HAVE_CUBLAS)
  endif()
endif()

# ---- CPU executor --------------------------------------------------------------------------------------------------
# Gives `out` a list of .cpp files that include the given .cu files, so that a C++ compiler takes them.
function(as_cxx out)
  set(files)
  foreach(source ${ARGN})
    if(NOT IS_ABSOLUTE ${source})
      set(source ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    endif()
    if(source MATCHES "\\.cu$")
      file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR} ${source})
      set(wrapper ${CMAKE_BINARY_DIR}/executor_sources/${name}.cpp)
      file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${name}\"\n" @ONLY)
      list(APPEND files ${wrapper})
    else()
      list(APPEND files ${source})
    endif()
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

if(EXECUTOR)
  find_package(Boost REQUIRED COMPONENTS context)
  as_cxx(executor_sources common/bench.cu common/roofline.cu common/program.cu common/shape.cpp common/row.cu
         common/step.cu common/gemm_reference.cu common/gemm_step.cu common/cublas_gemm.cu
         common/tensor_map.cu)
  add_library(common_executor STATIC common/device_executor.cpp common/barrier_trial.cpp
    common/simt/async_copies.cpp common/simt/block_messages.cpp common/simt/block_runner.cpp common/simt/counts.cpp
    common/simt/device_memory.cpp common/simt/executor.cpp common/simt/fiber.cpp common/simt/hopper.cpp
    common/simt/memory_check.cpp common/simt/recorder.cpp common/simt/recorder_messages.cpp common/simt/request_log.cpp
    common/simt/sanitizer_callbacks.cpp common/simt/source_lines.cpp common/simt/static_shared.cpp
    common/simt/tensor_map.cpp common/simt/warpgroup.cpp common/simt/worker_pool.cpp ${executor_sources})
  target_link_libraries(common_executor PUBLIC base lab Boost::context)
  # kernels look at the same bytes through several types, as CUDA allows; and a thread with too large an array comes by
  # the page below its stack, instead of stepping over it (common/simt/fiber.hpp)
  target_compile_options(common_executor PUBLIC -fno-strict-aliasing -fstack-clash-protection -Wno-unknown-pragmas)
endif()

# Kernels that the executor counts and checks, access by access (common/simt/README.md): instrumented, and linked with no
# sanitizer's runtime, because common_executor has what the instrumented code calls.
add_library(instrumented INTERFACE)
target_compile_options(instrumented INTERFACE -O2 -fsanitize=thread -fsanitize=bounds
  -g1 -gdwarf-4  # addr2line of binutils 2.40 takes the wrong file of version 5's tables for some lines
  # comparisons tell where the ways of a warp's lanes part
  $<$<CXX_COMPILER_ID:GNU>:-fsanitize-coverage=trace-cmp>
  # clang would leave out a read in front of a write to the same address
  $<$<CXX_COMPILER_ID:Clang>:SHELL:-mllvm -tsan-instrument-read-before-write>)

# add_step(NN [SOURCES main.cu …] [TESTS test.cu …] [SHARED decoder.cu …] [LIBRARIES …] [DEFINITIONS …] [PLAIN])
# builds stepNN and stepNN_test for the GPU and labNN and labNN_test for the executor, and registers the tests. SHARED
# sources belong to program and test alike and are compiled once a machine.
# labNN is instrumented: it counts. labNN_test is not: it is fast. Nor is labNN of a PLAIN step (09 answers people, without
# a GPU too); the instrumented form of its program is countNN.
function(add_step number)
  cmake_parse_arguments(STEP "PLAIN" "" "SOURCES;TESTS;SHARED;LIBRARIES;DEFINITIONS" ${ARGN})
  if(NOT STEP_SOURCES)
    set(STEP_SOURCES main.cu)
  endif()
  if(NOT STEP_TESTS)
    set(STEP_TESTS test.cu)
  endif()
  list(APPEND STEP_TESTS ${CMAKE_SOURCE_DIR}/common/gpu_test.cu)
  if(BUILD_GPU)
    add_step_on_machine(step${number} common_gpu)
    set_tests_properties(step${number} PROPERTIES SKIP_RETURN_CODE 77 LABELS gpu)
  endif()
  if(EXECUTOR)
    foreach(kind SOURCES TESTS SHARED)
      as_cxx(STEP_${kind} ${STEP_${kind}})
    endforeach()
    add_step_on_machine(lab${number} common_executor)
    set(counting lab${number})
    if(STEP_PLAIN)
      set(counting count${number})
      add_step_program(${counting} common_executor ${STEP_SOURCES} ${STEP_SHARED})
      target_link_libraries(${counting} PRIVATE ${STEP_LIBRARIES})
    endif()
    target_link_libraries(${counting} PRIVATE instrumented)
    if(INSTRUMENTED_TESTS)
      target_link_libraries(lab${number}_test PRIVATE instrumented)
    endif()
    set_tests_properties(lab${number} PROPERTIES LABELS executor COST ${number})  # the later steps' take longer: first
    if(number MATCHES "0[234568]")  # the steps whose kernels have barriers: each of them is missed when it is not there
      add_test(NAME lab${number}_without_barriers COMMAND lab${number} --without-barriers)
      set_tests_properties(lab${number}_without_barriers PROPERTIES LABELS executor COST ${number})
    endif()
    if(number MATCHES "04|06|08")  # kernels with asynchronous copies: late in the run above, at once in this one
      add_test(NAME lab${number}_early_copies COMMAND lab${number}_test)
      set_tests_properties(lab${number}_early_copies PROPERTIES LABELS executor ENVIRONMENT SIMT_COPIES=early)
    endif()
  endif()
endfunction()

macro(add_step_program name common)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE ${common})
  target_compile_definitions(${name} PRIVATE ${STEP_DEFINITIONS})
  set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON)  # the executor names kernels by their symbols
endmacro()

macro(add_step_on_machine name common)
  set(libraries ${common} ${STEP_LIBRARIES})
  if(STEP_SHARED)
    add_library(${name}_shared STATIC ${STEP_SHARED})
    target_link_libraries(${name}_shared PUBLIC ${libraries})
    target_compile_definitions(${name}_shared PUBLIC ${STEP_DEFINITIONS})
    set(libraries ${name}_shared)
  endif()
  add_step_program(${name} "${libraries}" ${STEP_SOURCES})
  add_step_program(${name}_test "${libraries}" ${STEP_TESTS})
  target_link_libraries(${name}_test PRIVATE catch_main)
  add_test(NAME ${name} COMMAND ${name}_test)
endmacro()
