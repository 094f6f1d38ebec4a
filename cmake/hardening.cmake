# Makes bugs harder to use for an attacker. tests/cli/hardening_test.py demands each of these of the built files.
#
# Functions with arrays check their stack frame when they return; calls such as memcpy and read check the sizes that the
# compiler knows; containers check indices; addresses are random, and the tables of functions that the linker writes
# cannot be written once a program runs. Arithmetic, which reads no bytes of a peer's, does not check indices.
include(CheckPIESupported)
check_pie_supported()

set(hardening -fstack-protector-strong -D_GLIBCXX_ASSERTIONS)
if(NOT CAPSTAN_SANITIZE) # sanitizers check more, and these sizes only in code that is optimised
  list(APPEND hardening "$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>" "$<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>")
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:${hardening}>")
add_link_options(LINKER:-z,relro,-z,now)
set(CAPSTAN_NO_INDEX_CHECKS "$<$<CONFIG:Release>:-U_GLIBCXX_ASSERTIONS>")
