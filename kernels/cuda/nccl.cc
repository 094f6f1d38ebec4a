#include "kernels/cuda/nccl.h"

#include <dlfcn.h>

namespace capstan::kernels {
namespace {

template <class Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool FindAll(void* library, Nccl* nccl) {
  return Find(library, "ncclGetVersion", &nccl->GetVersion) && Find(library, "ncclGetUniqueId", &nccl->GetUniqueId) &&
         Find(library, "ncclGetErrorString", &nccl->GetErrorString) &&
         Find(library, "ncclGetLastError", &nccl->GetLastError) &&
         Find(library, "ncclCommInitRankConfig", &nccl->CommInitRankConfig) &&
         Find(library, "ncclCommGetAsyncError", &nccl->CommGetAsyncError) &&
         Find(library, "ncclCommFinalize", &nccl->CommFinalize) &&
         Find(library, "ncclCommDestroy", &nccl->CommDestroy) && Find(library, "ncclCommAbort", &nccl->CommAbort) &&
         Find(library, "ncclGroupStart", &nccl->GroupStart) && Find(library, "ncclGroupEnd", &nccl->GroupEnd) &&
         Find(library, "ncclAllReduce", &nccl->AllReduce) && Find(library, "ncclSend", &nccl->Send) &&
         Find(library, "ncclRecv", &nccl->Recv);
}

// Keeps NCCL's code mapped until the process ends, because its threads may outlive the last communicator.
void KeepMapped(const Nccl& nccl) {
  Dl_info where{};
  if (dladdr(reinterpret_cast<void*>(nccl.GetVersion), &where) == 0) return;
  if (void* const again = dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE)) (void)dlclose(again);
}

}  // namespace

std::string NcclVersionText(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Result<Nccl> OpenNcclNamed(const LibrarySearch& search, const std::string& name) {
  Result<std::shared_ptr<void>> library = OpenLibrary(search, {name});
  if (!library.ok()) return library.status();
  Nccl nccl;
  nccl.library = *library;
  if (!FindAll(nccl.library.get(), &nccl)) {
    return Unsupported("the NCCL that was found lacks functions of version 2.18: " + std::string(dlerror()));
  }
  KeepMapped(nccl);
  if (const ncclResult_t result = nccl.GetVersion(&nccl.version); result != ncclSuccess) {
    return Unsupported("the NCCL that was found does not tell its version: " +
                       std::string(nccl.GetErrorString(result)));
  }
  return nccl;
}

}  // namespace capstan::kernels
