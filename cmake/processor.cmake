# capstan_check_processor(): ends the configuration where what is built could not run: its arithmetic is compiled for
# processors with AVX2 (x86-64-v3), and begins with an illegal instruction on others.
option(CAPSTAN_CHECK_PROCESSOR "require that this machine can run what is built; OFF: another one is to run it" ON)

function(capstan_check_processor)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    message(FATAL_ERROR "capstan runs on x86-64 processors with AVX2 only, and this build is for '${CMAKE_SYSTEM_PROCESSOR}'")
  endif()
  if(NOT CAPSTAN_CHECK_PROCESSOR OR CMAKE_CROSSCOMPILING)
    return()
  endif()
  try_run(CAPSTAN_PROCESSOR_EXIT CAPSTAN_PROCESSOR_COMPILED SOURCE_FROM_CONTENT processor.cc [[
    int main() {
      __builtin_cpu_init();
      const bool runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                        __builtin_cpu_supports("bmi2");
      return runs ? 0 : 1;
    }
  ]])
  if(NOT CAPSTAN_PROCESSOR_COMPILED)
    message(FATAL_ERROR "A small program that asks which instructions this machine's processor has cannot be built: "
                        "CMakeFiles/CMakeError.log (CMakeConfigureLog.yaml of newer CMakes) in the build folder says why. "
                        "-DCAPSTAN_CHECK_PROCESSOR=OFF leaves the check out.")
  endif()
  if(NOT CAPSTAN_PROCESSOR_EXIT STREQUAL 0)
    unset(CAPSTAN_PROCESSOR_EXIT CACHE) # the next configuration, of another machine perhaps, looks again
    message(FATAL_ERROR "This machine's processor lacks AVX2, FMA, BMI1 or BMI2, without which capstan does not run (Intel: "
                        "Haswell, 2013, and later; AMD: Excavator, 2015, and later). Where another machine is to run what is "
                        "built here, configure with -DCAPSTAN_CHECK_PROCESSOR=OFF.")
  endif()
endfunction()
