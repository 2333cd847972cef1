# The part of step 09 that needs neither CUDA nor the executor: files, tokenizer, output.
include(${CMAKE_SOURCE_DIR}/cmake/host_libraries.cmake)  # imported targets are made once

set(host_dir ${CMAKE_CURRENT_LIST_DIR})

add_library(qwen_host STATIC
  ${host_dir}/added_tokens.cpp ${host_dir}/bpe.cpp ${host_dir}/config.cpp ${host_dir}/json_file.cpp ${host_dir}/npy.cpp
  ${host_dir}/safetensors.cpp ${host_dir}/split_regex.cpp ${host_dir}/tokenizer.cpp)
target_link_libraries(qwen_host PUBLIC base PRIVATE PCRE2::PCRE2 utf8proc::utf8proc)

# Where the tests look for the published Qwen3 tokenizer (tokenizer.json, golden_tokens.json). It is too large to be
# part of the repository; the tests that need it say so and pass where it is absent. The environment variable of the
# same name wins.
set(QWEN3_TOKENIZER_DIR ${CMAKE_SOURCE_DIR}/../shared/data/qwen3_tokenizer CACHE PATH "folder of the Qwen3 tokenizer")

add_executable(qwen_host_test
  ${host_dir}/bpe_test.cpp ${host_dir}/config_test.cpp ${host_dir}/output_test.cpp ${host_dir}/safetensors_test.cpp
  ${host_dir}/split_test.cpp ${host_dir}/test_files.cpp ${host_dir}/tokenizer_test.cpp)
target_compile_definitions(qwen_host_test PRIVATE QWEN3_TOKENIZER_DIR="${QWEN3_TOKENIZER_DIR}")
target_link_libraries(qwen_host_test PRIVATE qwen_host catch_main utf8proc::utf8proc)
target_compile_options(qwen_host_test PRIVATE -O1)  # half the time to build
add_test(NAME qwen_host COMMAND qwen_host_test)
