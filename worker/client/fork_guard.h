// OwnerProcess: which process something belongs to. GuardAgainstFork: a client that answers in the process that
// connected it, and in no child of it.
//
// Kind:   a value; the client it is given, with a look at the process id before each call.
// Fails:  kInvalid in a child. What cannot answer gives nothing back, and the destructor does nothing there.
// Why:    fork() copies the client's memory and not its thread: the child would wait for that thread forever, and
//         end the parent's part in the job. Programs fork for good reasons (processes that load data). The process id
//         is compared, and no handler is left behind in somebody else's program.
#pragma once

#include <capstan/client.h>
#include <sys/types.h>

#include <memory>

namespace capstan::client {

class OwnerProcess {
 public:
  OwnerProcess();
  bool IsThis() const;
  Status Check() const;

 private:
  pid_t id_;
};

std::unique_ptr<Client> GuardAgainstFork(std::unique_ptr<Client> client);

}  // namespace capstan::client
