# capstan_zmq: libzmq with the patches of cmake/libzmq, which scripts/build-libzmq builds once for all presets and clones.
# Whatever is built here has it inside, hidden, so that it is safe beside another libzmq in the same process.
find_path(CPPZMQ_INCLUDE_DIR zmq.hpp REQUIRED DOC "folder of cppzmq, the C++ interface of libzmq")
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET GLOBAL libsodium)

set(builder ${PROJECT_SOURCE_DIR}/scripts/build-libzmq)
execute_process(COMMAND ${builder} OUTPUT_VARIABLE built RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
if(failed)
  message(FATAL_ERROR "libzmq could not be built: what build-libzmq said is above")
endif()
file(GLOB patches CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/libzmq/*.patch)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${builder} ${patches})

# A build keeps a copy, because the cache may be emptied.
set(CAPSTAN_ZMQ_DIR ${PROJECT_BINARY_DIR}/libzmq)
file(GLOB shared_libraries ${built}/lib/libcapstan_zmq.so*)
file(COPY ${shared_libraries} ${built}/share/doc/COPYING.LESSER DESTINATION ${CAPSTAN_ZMQ_DIR})
# The other files get the time of their copying, so that ninja sees that they are new. file(COPY) would keep their time.
file(MAKE_DIRECTORY ${CAPSTAN_ZMQ_DIR}/include)
foreach(header zmq.h zmq_utils.h)
  file(COPY_FILE ${built}/include/${header} ${CAPSTAN_ZMQ_DIR}/include/${header} ONLY_IF_DIFFERENT)
endforeach()
file(COPY_FILE ${built}/lib/libcapstan_zmq.a ${CAPSTAN_ZMQ_DIR}/libcapstan_zmq.a ONLY_IF_DIFFERENT)

if(CAPSTAN_SANITIZE STREQUAL thread)
  # ThreadSanitizer ignores a library of its own that it does not see into (scripts/tsan.supp).
  add_library(capstan_zmq SHARED IMPORTED GLOBAL)
  set_target_properties(capstan_zmq PROPERTIES IMPORTED_LOCATION ${CAPSTAN_ZMQ_DIR}/libcapstan_zmq.so.5)
else()
  add_library(capstan_zmq STATIC IMPORTED GLOBAL)
  set_target_properties(capstan_zmq PROPERTIES
    IMPORTED_LOCATION ${CAPSTAN_ZMQ_DIR}/libcapstan_zmq.a
    INTERFACE_LINK_OPTIONS LINKER:--exclude-libs,libcapstan_zmq.a
    INTERFACE_LINK_LIBRARIES "PkgConfig::SODIUM;Threads::Threads")
endif()
set_target_properties(capstan_zmq PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${CAPSTAN_ZMQ_DIR}/include;${CPPZMQ_INCLUDE_DIR}")
