# The compiler of the presets that only look for mistakes: clang, where it and its sanitizers are installed, because it
# compiles the tests in three fifths of g++'s time. A choice of the user's comes first. What users run, the preset release, is
# compiled by g++, so both compilers see each change. CMake reads this as a toolchain file.
if(NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX})
  find_program(CAPSTAN_CLANG_C NAMES clang-14 clang)
  find_program(CAPSTAN_CLANG NAMES clang++-14 clang++)
  if(CAPSTAN_CLANG_C AND CAPSTAN_CLANG)
    execute_process(COMMAND ${CAPSTAN_CLANG} -print-file-name=libclang_rt.asan-x86_64.a
                    OUTPUT_VARIABLE sanitizer OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(EXISTS "${sanitizer}")
      set(CMAKE_C_COMPILER ${CAPSTAN_CLANG_C})
      set(CMAKE_CXX_COMPILER ${CAPSTAN_CLANG})
    endif()
  endif()
endif()
