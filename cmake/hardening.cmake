# Makes bugs harder to use for an attacker. tests/cli/hardening_test.py demands each of these of the built files.
#
# Functions with arrays check their stack frame when they return; calls such as memcpy and read check the sizes that the
# compiler knows of; containers check indices; addresses are random, and the tables of functions that the linker writes
# cannot be written once a program runs. Code that takes most of a job's time (CAPSTAN_HOT) checks no indices.
include(CheckPIESupported)
check_pie_supported()

set(hardening -Wformat -Wformat-security -fstack-protector-strong -D_GLIBCXX_ASSERTIONS)
if(NOT CAPSTAN_SANITIZE) # sanitizers check more
  list(APPEND hardening "$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>" "$<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>") # needs -O
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:${hardening}>")
add_link_options(LINKER:-z,relro LINKER:-z,now)
string(APPEND CAPSTAN_HOT ";$<$<CONFIG:Release>:-U_GLIBCXX_ASSERTIONS>")
