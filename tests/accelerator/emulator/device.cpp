// An accelerator made of host memory: allocators, device guard, generators, and the door to Python.
#include "ledger.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/extension.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace emulated {

Ledger ledger;
thread_local int nested = 0;
thread_local c10::DeviceIndex current = 0;
int devices = 1;

namespace {

using c10::CachingDeviceAllocator::DeviceStats;
constexpr auto WHOLE = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
std::atomic<size_t> capacity{size_t(16) << 30};  // bytes of each device

struct DeviceMemory final : c10::DeviceAllocator {
  std::mutex mutex;
  std::map<void*, std::pair<size_t, c10::DeviceIndex>> blocks;
  std::array<DeviceStats, MOST> stats;
  pid_t process = getpid();

  static DeviceMemory& all() { static auto* memory = new DeviceMemory; return *memory; }  // outlives every tensor
  c10::DataPtr allocate(size_t size) override {
    TORCH_CHECK(process == getpid(), "Cannot use the emulated device in a forked subprocess; use the 'spawn' start method");
    if (size == 0) return {nullptr, nullptr, &release, c10::Device(KIND, current)};
    std::lock_guard<std::mutex> held(mutex);
    auto& own = stats.at(current).allocated_bytes[WHOLE];
    TORCH_CHECK_WITH(OutOfMemoryError, size_t(own.current) + size <= capacity, "the emulated device is out of memory: ",
                     size, " bytes were asked for, ", own.current, " of ", capacity.load(), " are in use");
    void* address = c10::alloc_cpu(size);
    std::memset(address, 0xFF, size);  // NaN, or -1: nobody may read what he has not written
    blocks[address] = {size, current};
    own.increase(size);
    return {address, address, &release, c10::Device(KIND, current)};
  }
  static void release(void* address) {
    if (address == nullptr) return;
    std::lock_guard<std::mutex> held(all().mutex);
    auto [size, index] = all().blocks.at(address);
    all().stats.at(index).allocated_bytes[WHOLE].decrease(size);
    all().blocks.erase(address);
    c10::free_cpu(address);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t size) const override { default_copy_data(to, from, size); }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  DeviceStats getDeviceStats(c10::DeviceIndex i) override { return stats.at(i); }
  void resetAccumulatedStats(c10::DeviceIndex i) override { stats.at(i).allocated_bytes[WHOLE].reset_accumulated(); }
  void resetPeakStats(c10::DeviceIndex i) override { stats.at(i).allocated_bytes[WHOLE].reset_peak(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex i) override {
    size_t used = stats.at(i).allocated_bytes[WHOLE].current;
    return {capacity > used ? capacity - used : 0, capacity};
  }
};

struct PinnedMemory final : at::HostAllocator {
  std::mutex mutex;
  std::map<const void*, size_t> blocks;

  static PinnedMemory& all() { static auto* memory = new PinnedMemory; return *memory; }
  c10::DataPtr allocate(size_t size) override {
    void* address = c10::alloc_cpu(size);
    std::lock_guard<std::mutex> held(mutex);
    if (address != nullptr) blocks[address] = size;
    return {address, address, &release, c10::Device(c10::DeviceType::CPU)};
  }
  static void release(void* address) {
    std::lock_guard<std::mutex> held(all().mutex);
    all().blocks.erase(address);
    c10::free_cpu(address);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t size) const override { default_copy_data(to, from, size); }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

// One stream for each device, which is always done: work is finished when its launch returns.
struct Guard final : c10::impl::NoOpDeviceGuardImpl<KIND> {
  c10::Device getDevice() const override { return {KIND, current}; }
  void uncheckedSetDevice(c10::Device to) const noexcept override { if (to.has_index()) current = to.index(); }
  void setDevice(c10::Device to) const override {
    TORCH_CHECK(to.index() < devices, "there is no emulated device ", int(to.index()), ", only ", devices);
    uncheckedSetDevice(to);
  }
  c10::Device exchangeDevice(c10::Device to) const override {
    c10::Device before = getDevice();
    setDevice(to);
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return devices; }
  c10::Stream getStream(c10::Device of) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, of); }
  c10::Stream exchangeStream(c10::Stream given) const noexcept override { return given; }
  void synchronizeStream(const c10::Stream&) const override { ledger.wait("asked for", "synchronize stream"); }
  void synchronizeDevice(c10::DeviceIndex) const override { ledger.wait("asked for", "synchronize device"); }
};

// Draws are those of a CPU generator that belongs to the device's: the same seed gives the same numbers.
struct Generator final : c10::GeneratorImpl {
  at::Generator twin;
  Generator(c10::DeviceIndex index, at::Generator cpu)
      : GeneratorImpl({KIND, index}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)), twin(std::move(cpu)) {}
  void set_current_seed(uint64_t seed) override { twin.set_current_seed(seed); }
  uint64_t current_seed() const override { return twin.current_seed(); }
  uint64_t seed() override { return twin.seed(); }
  void set_offset(uint64_t offset) override { twin.set_offset(offset); }
  uint64_t get_offset() const override { return twin.get_offset(); }
  void set_state(const c10::TensorImpl& state) override { twin.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return twin.unsafeGetGeneratorImpl()->get_state(); }
  Generator* clone_impl() const override { return new Generator(device_.index(), twin.clone()); }
};

at::Generator new_generator(c10::DeviceIndex index) {
  return at::make_generator<Generator>(index < 0 ? current : index, at::detail::createCPUGenerator());
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return devices; }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
  void setCurrentDevice(c10::DeviceIndex index) const override { Guard().setDevice({KIND, index}); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override { return std::exchange(current, index); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchangeDevice(index < 0 ? current : index); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    static const auto all = [] {
      std::array<at::Generator, MOST> made;
      for (int i = 0; i < MOST; i++) made[i] = new_generator(i);
      return made;
    }();
    return all.at(index < 0 ? current : index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override { return new_generator(index); }
  bool isPinnedPtr(const void* address) const override { return is_pinned(address); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &PinnedMemory::all(); }
};
Hooks hooks;

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

c10::Allocator* device_memory() { return &DeviceMemory::all(); }

bool is_pinned(const void* address) {
  std::lock_guard<std::mutex> held(PinnedMemory::all().mutex);
  const auto& blocks = PinnedMemory::all().blocks;
  auto next = blocks.upper_bound(address);
  return next != blocks.begin() && address < static_cast<const char*>((--next)->first) + next->second;
}

at::Generator host_twin(const at::Generator& own) {
  TORCH_CHECK(own.device().type() == KIND, "Expected a generator of the emulated device, found one of ", own.device());
  return static_cast<Generator*>(own.unsafeGetGeneratorImpl())->twin;
}
at::Generator default_generator(c10::DeviceIndex index) { return hooks.getDefaultGenerator(index); }

REGISTER_ALLOCATOR(KIND, &DeviceMemory::all())
REGISTER_HOST_ALLOCATOR(KIND, &PinnedMemory::all())

}  // namespace emulated

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  using namespace emulated;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  m.def("set_devices", [](int count) { devices = std::min(count, MOST); });
  m.def("set_capacity", [](size_t bytes) { capacity = bytes; });
  m.def("default_generator", &default_generator);
  m.def("start", [](py::function told) {
    std::lock_guard<std::mutex> held(ledger.mutex);
    ledger.launches.clear();
    ledger.waits.clear();
    ledger.on_wait = [told](const std::string& kind, const std::string& what) {
      py::gil_scoped_acquire gil;
      told(kind, what);
    };
    ledger.traffic = 0;
    ledger.open = true;
  });
  m.def("stop", [] {
    ledger.open = false;
    ledger.on_wait = nullptr;
    std::lock_guard<std::mutex> held(ledger.mutex);
    return py::make_tuple(ledger.launches, ledger.waits, ledger.traffic.load());
  });
}
