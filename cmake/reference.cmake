# Writes the manual pages and the shells' completion scripts, which PROGRAM (capstan) prints, into FOLDER.
function(write_output file)
  execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_FILE ${FOLDER}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(MAKE_DIRECTORY ${FOLDER})
foreach(name capstan capstan-server capstan-worker)
  write_output(${name}.1 man ${name})
endforeach()
foreach(shell bash zsh fish)
  write_output(capstan.${shell} completion ${shell})
endforeach()
