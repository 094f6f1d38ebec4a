# Writes OUT, which defines kBuildId: SHA-256 over COMPILER and the sources that are listed below.
set(text "${COMPILER}")
file(GLOB_RECURSE sources RELATIVE ${ROOT} ${ROOT}/common/* ${ROOT}/kernels/* ${ROOT}/worker/allreduce/*
     ${ROOT}/worker/collective/* ${ROOT}/worker/data/* ${ROOT}/worker/device/* ${ROOT}/worker/machine/* ${ROOT}/worker/nn/*
     ${ROOT}/worker/train/*)
list(FILTER sources INCLUDE REGEX "\\.(h|cc|cu)$")
list(SORT sources)
foreach(source ${sources})
  file(SHA256 ${ROOT}/${source} digest)
  string(APPEND text "${source} ${digest}\n")
endforeach()
string(SHA256 digest "${text}")
string(SUBSTRING ${digest} 0 16 id)
file(WRITE ${OUT} "#include \"common/base/build_id.h\"\n\nconst char capstan::kBuildId[] = \"${id}\";\n")
