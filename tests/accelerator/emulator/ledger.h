// What the two halves of the emulated device share: the count of what a program asked of it.
#pragma once
#include <ATen/ATen.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace emulated {

constexpr auto KIND = c10::DeviceType::PrivateUse1;
constexpr int MOST = 8;  // devices

struct Ledger {
  std::atomic<bool> open{false};
  std::atomic<int64_t> traffic{0};  // bytes that kernels read and write, each operand once
  std::mutex mutex;
  std::map<std::string, int64_t> launches, waits;
  std::function<void(const std::string&, const std::string&)> on_wait;  // told kind and operator; may throw

  void launch(const std::string& what) {
    if (!open) return;
    std::lock_guard<std::mutex> held(mutex);
    launches[what]++;
  }
  void wait(const std::string& kind, const std::string& what) {
    if (!open) return;
    std::unique_lock<std::mutex> held(mutex);
    waits[kind]++;
    held.unlock();
    if (on_wait) on_wait(kind, what);
  }
};

extern Ledger ledger;
extern thread_local int nested;               // above 0 the emulation itself is at work: nothing is counted
extern thread_local c10::DeviceIndex current;  // the device of this thread
extern int devices;

struct Nested { Nested() { nested++; } ~Nested() { nested--; } };

c10::Allocator* device_memory();
bool is_pinned(const void* address);
at::Generator host_twin(const at::Generator& own);  // the CPU generator behind one of the device
at::Generator default_generator(c10::DeviceIndex index);
at::Tensor host_view(const at::Tensor& own);  // the same memory, as a tensor of the CPU
at::Tensor to_device(const at::Tensor& result, c10::Device where);
void count_traffic(const at::Tensor& t);
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack);  // the CPU's kernel on aliases

}  // namespace emulated
