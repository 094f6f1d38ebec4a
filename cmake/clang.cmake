# The compiler of the presets that only look for mistakes: clang, where it and its sanitizers are installed, because it
# compiles the tests in three fifths of the time that g++ takes. CXX and -DCMAKE_CXX_COMPILER choose another one; the preset
# fuzz ignores CXX, because it needs clang. g++ compiles the preset release, which users run, so both compilers see each
# change. CMake reads this as a toolchain file.
if(NOT CMAKE_CXX_COMPILER AND (CAPSTAN_FUZZ OR NOT DEFINED ENV{CXX}))
  find_program(CAPSTAN_CLANG_C NAMES clang-14 clang)
  find_program(CAPSTAN_CLANG NAMES clang++-14 clang++)
  if(CAPSTAN_CLANG_C AND CAPSTAN_CLANG)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/CMakeFiles/sanitized.cc CONTENT "int main() {}\n")
    execute_process(COMMAND ${CAPSTAN_CLANG} -fsanitize=address,undefined CMakeFiles/sanitized.cc -o CMakeFiles/sanitized
                    WORKING_DIRECTORY ${CMAKE_BINARY_DIR} RESULT_VARIABLE no_sanitizer OUTPUT_QUIET ERROR_QUIET)
    if(NOT no_sanitizer)
      set(CMAKE_CXX_COMPILER ${CAPSTAN_CLANG})
      if(NOT CMAKE_C_COMPILER AND NOT DEFINED ENV{CC})
        set(CMAKE_C_COMPILER ${CAPSTAN_CLANG_C})
      endif()
    endif()
  endif()
endif()
