#include "server/shard/shard_threads.h"

#include <utility>

namespace capstan::server {

ShardThreads::ShardThreads(const Options& options) : disk_(options.shard, options.store, options.wake, options.lane) {
  if (options.log != nullptr) log_.emplace(options.shard, options.log, options.wake);
}

void ShardThreads::SubmitDiskWork(std::vector<DiskWork> work) {
  for (DiskWork& one : work) disk_work_.push_back(std::move(one));
  while (!disk_work_.empty() && disk_.Submit(std::move(disk_work_.front())).ok()) disk_work_.pop_front();
}

void ShardThreads::SubmitLogWork(std::vector<LogWork> work) {
  for (LogWork& one : work) log_work_.push_back(std::move(one));
  while (!log_work_.empty() && log_->Submit(std::move(log_work_.front())).ok()) log_work_.pop_front();
}

}  // namespace capstan::server
