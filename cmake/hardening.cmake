# Makes bugs harder to use for an attacker. tests/cli/hardening_test.py demands each of these of the built files.
#
# Functions with arrays check their stack frame when they return; calls such as memcpy and read check the sizes that the
# compiler knows; containers check indices; addresses are random, and the tables of functions that the linker writes
# cannot be written once a program runs. Arithmetic, which reads no bytes of a peer's, does not check indices.
include(CheckPIESupported)
check_pie_supported()

# Sanitizers check more; and with g++ 12's AddressSanitizer, checked frames lose the alignment of what is on the stack.
if(NOT CAPSTAN_SANITIZE)
  set(hardening -fstack-protector-strong -D_GLIBCXX_ASSERTIONS
                "$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>" "$<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>") # needs -O
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:${hardening}>")
endif()
add_link_options(LINKER:-z,relro,-z,now)
set(CAPSTAN_NO_INDEX_CHECKS "$<$<CONFIG:Release>:-U_GLIBCXX_ASSERTIONS>")
