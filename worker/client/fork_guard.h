// OwnerProcess: remembers the process that created an object. GuardAgainstFork: wraps a client so that it works only in
// the process that connected it, and not in a forked child.
//
// Kind:   a value; the wrapper compares the process id before each call.
// Fails:  kInvalid in a child. Most functions that return no Status return null or zero there, and the destructor does
//         nothing.
// Why:    fork() copies the client's memory but not its thread. The child would wait for that thread forever, and its
//         destructor would end the parent's part in the job. Programs fork for good reasons, such as data loader
//         processes. Comparing process ids needs no pthread_atfork handler in the user's program.
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
