# Real processes of a build without the built-in trainer: the workers are programs in C, C++, numpy and PyTorch.
foreach(name no_trainer own_program embed evaluator given_weights numpy_worker torch_worker)
  add_test(NAME ${name}_test COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_SOURCE_DIR}/${name}_test.py
           --bin $<TARGET_FILE_DIR:capstan>)
  set_tests_properties(${name}_test PROPERTIES SKIP_RETURN_CODE 77 FIXTURES_REQUIRED installed)
  capstan_tiers(${name}_test e2e)
endforeach()
add_test(NAME install_prefix COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_SOURCE_DIR}/installed_prefix.py
         --bin $<TARGET_FILE_DIR:capstan>)
set_tests_properties(install_prefix PROPERTIES FIXTURES_SETUP installed)
capstan_tiers(install_prefix e2e)
