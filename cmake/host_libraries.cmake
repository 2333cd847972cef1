# PCRE2 and utf8proc as imported targets PCRE2::PCRE2 and utf8proc::utf8proc.
#
# Found by header and library rather than through pkg-config: that works the same for the distribution's packages, for
# those of its versions that ship no .pc file, and for packages unpacked into a folder that CMAKE_PREFIX_PATH names
# (FOLDER or FOLDER/usr), where a static library may be the only one.

function(find_host_library target header)
  string(REGEX REPLACE "::.*" "" name ${target})
  find_path(${name}_INCLUDE_DIR ${header} PATH_SUFFIXES usr/include)
  find_library(${name}_LIBRARY NAMES ${ARGN} PATH_SUFFIXES usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} usr/lib)
  mark_as_advanced(${name}_INCLUDE_DIR ${name}_LIBRARY)
  if(NOT ${name}_INCLUDE_DIR OR NOT ${name}_LIBRARY)
    message(FATAL_ERROR "${name} not found (${header}): install libpcre2-dev and libutf8proc-dev, "
                        "or name their folder in CMAKE_PREFIX_PATH")
  endif()
  add_library(${target} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${${name}_LIBRARY}"
                                             INTERFACE_INCLUDE_DIRECTORIES "${${name}_INCLUDE_DIR}")
endfunction()

if(NOT TARGET PCRE2::PCRE2)
  find_host_library(PCRE2::PCRE2 pcre2.h pcre2-8 pcre2-8-static)
endif()
if(NOT TARGET utf8proc::utf8proc)
  find_host_library(utf8proc::utf8proc utf8proc.h utf8proc utf8proc_static)
endif()
