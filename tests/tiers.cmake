# Which tests run in which tier of scripts/test, by name; a name without a test is an error at configure time.

# Unit tests of the pure cores, the codec and the layers below, the commands, the workers' data and collectives, and of
# kernels on an emulated device. They run once, under ASan and UBSan.
set(CAPSTAN_ONCE
  cli_test common_config_test common_hash_test common_header_seal_test common_keys_test common_mailbox_test
  common_safetensors_test common_shared_payloads_test common_test common_transport_contract_test common_utf8_test
  common_wire_codec_test common_zmq_transport_test fuzz_core_test fuzz_files_test kernels_emulated_test
  kernels_emulated_test_attention program_state_test server_coordinator_test server_files_test
  server_loops_test server_shard_test server_storage_full_test server_storage_kill_test server_storage_manifests_test
  server_storage_reader_test server_storage_test server_test worker_client_test worker_collective_contract_test
  worker_collective_thread_test worker_data_test worker_machine_test worker_session_test)
# Run in release, and also under ASan and UBSan: tests of code that hands memory from thread to thread, reads users'
# files, or computes on an emulated device; except for cases with the tag [long], which are tests NAME_long.
set(CAPSTAN_ASAN
  async_test encoding_test hostile_test loops_test monitoring_test reader_test sim_mutants_test sim_test sim_test_allreduce
  sim_test_async sim_test_bounded sim_test_durable sim_test_local sim_test_median sim_test_shared sim_test_sync update_test
  worker_collective_mesh_test worker_device_adder_test worker_device_nccl_process_test worker_device_nccl_test
  worker_device_reducer_test worker_device_test worker_nn_test worker_train_test)
# Also under TSan: loops, the client, collectives, the transport and the reader.
set(CAPSTAN_TSAN
  async_test common_mailbox_test common_shared_payloads_test common_transport_contract_test common_zmq_transport_test loops_test
  monitoring_test reader_test server_loops_test worker_collective_mesh_test worker_collective_thread_test
  worker_client_test worker_session_test
  worker_machine_test worker_train_test)
# With real processes, in --quick.
set(CAPSTAN_QUICK smoke_test tidy tidy_format)
# Only in --all: each of the many cases of the first waits until an alert fires, and the second downloads the newest PyTorch.
set(CAPSTAN_ALL alerts_test frameworks_newest_test)
# Started first, longest first, because the other tests fit in next to them.
set(CAPSTAN_LONGEST
  install_prefix kernels_emulated_test_attention kernels_emulated_test reader_test damage_test faults_test resume_test allreduce_test
  allreduce_nccl_test local_reduce_test torch_worker_test
  readme_test local_reduce_nccl_test kill_test durable_test partition_test machines_test parity_torch device_test
  precision_test deadlines_test by_hand_test embed_test long_job_test disk_full_test pause_test launch_test own_program_test same_bits_test
  torch_traps_test torch_weights_test frameworks_test torch_schedule_test
  worker_device_left_out_waits kernels_vision_test client_memory_test sim_test_sync)

# capstan_tiers(TEST LABELS...): gives a test these labels, those of its tiers, and its place in the order.
function(capstan_tiers test)
  set(labels ${ARGN})
  foreach(tier ONCE ASAN TSAN QUICK ALL)
    if(test IN_LIST CAPSTAN_${tier})
      string(TOLOWER ${tier} label)
      list(APPEND labels ${label})
    endif()
  endforeach()
  set_tests_properties(${test} PROPERTIES LABELS "${labels}")
  list(FIND CAPSTAN_LONGEST ${test} place)
  if(NOT place EQUAL -1)
    math(EXPR cost "1000 - ${place}")
    set_tests_properties(${test} PROPERTIES COST ${cost})
  endif()
  set_property(GLOBAL APPEND PROPERTY CAPSTAN_TESTS ${test})
endfunction()

# capstan_tier_targets(NAME): builds a program, perhaps with a test of its name, in the tiers of that test.
function(capstan_tier_targets name)
  if(name IN_LIST CAPSTAN_ONCE)
    add_dependencies(capstan_once_tests ${name})
  endif()
  if(name IN_LIST CAPSTAN_ONCE OR name IN_LIST CAPSTAN_ASAN)
    add_dependencies(capstan_asan_tests ${name})
  endif()
  if(name IN_LIST CAPSTAN_TSAN)
    add_dependencies(capstan_tsan_tests ${name})
  endif()
endfunction()

# capstan_check_tiers(): call it after all tests.
function(capstan_check_tiers)
  get_property(tests GLOBAL PROPERTY CAPSTAN_TESTS)
  if(CAPSTAN_SANITIZE OR NOT CAPSTAN_TRAINER)
    return() # some tests do not exist there
  endif()
  foreach(tier ONCE ASAN TSAN QUICK ALL LONGEST)
    foreach(test ${CAPSTAN_${tier}})
      if(NOT test IN_LIST tests)
        message(FATAL_ERROR "tests/tiers.cmake: CAPSTAN_${tier} names ${test}, and there is no such test")
      endif()
    endforeach()
  endforeach()
endfunction()

# capstan_default_tests(): the target of that name, with everything built by default except what runs once. Call it
# after all targets.
function(capstan_default_tests)
  add_custom_target(capstan_default_tests)
  if(TARGET kernels_emulated_test)
    add_dependencies(capstan_default_tests kernels_emulated_test) # of which gpu_check_test runs some cases
  endif()
  capstan_add_default_targets(${PROJECT_SOURCE_DIR})
endfunction()

function(capstan_add_default_targets directory)
  get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    get_target_property(excluded ${target} EXCLUDE_FROM_ALL)
    if(type MATCHES "LIBRARY|EXECUTABLE" AND NOT type STREQUAL INTERFACE_LIBRARY AND NOT excluded AND NOT target IN_LIST CAPSTAN_ONCE)
      add_dependencies(capstan_default_tests ${target})
    endif()
  endforeach()
  get_property(folders DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
  foreach(folder ${folders})
    capstan_add_default_targets(${folder})
  endforeach()
endfunction()
