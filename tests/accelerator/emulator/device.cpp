// An accelerator made of host memory: allocators, device guard, generators, and the door to Python.
#include "ledger.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/extension.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
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

void* aligned(size_t size) {
  void* address = nullptr;
  TORCH_CHECK(posix_memalign(&address, 64, size) == 0, "the host has no ", size, " bytes for the emulated device");
  return address;
}

struct DeviceMemory final : c10::DeviceAllocator {
  std::mutex mutex;
  std::map<void*, std::pair<size_t, c10::DeviceIndex>> blocks;
  std::array<DeviceStats, MOST> stats;
  pid_t process = getpid();
  c10::DataPtr allocate(size_t size) override;
  static void release(void* address);
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
DeviceMemory device_blocks;

c10::DataPtr DeviceMemory::allocate(size_t size) {
  TORCH_CHECK(process == getpid(), "Cannot use the emulated device in a forked subprocess; use the 'spawn' start method");
  if (size == 0) return {nullptr, nullptr, &release, c10::Device(KIND, current)};
  std::lock_guard<std::mutex> held(mutex);
  auto& own = stats.at(current).allocated_bytes[WHOLE];
  TORCH_CHECK_WITH(OutOfMemoryError, size_t(own.current) + size <= capacity, "the emulated device is out of memory: ",
                   size, " bytes were asked for, ", own.current, " of ", capacity.load(), " are in use");
  void* address = aligned(size);
  std::memset(address, 0xFF, size);  // NaN, or -1: nobody may read what he has not written
  blocks[address] = {size, current};
  own.increase(size);
  return {address, address, &release, c10::Device(KIND, current)};
}

void DeviceMemory::release(void* address) {
  if (address == nullptr) return;
  std::lock_guard<std::mutex> held(device_blocks.mutex);
  auto [size, index] = device_blocks.blocks.at(address);
  device_blocks.stats.at(index).allocated_bytes[WHOLE].decrease(size);
  device_blocks.blocks.erase(address);
  std::free(address);
}

struct PinnedMemory final : at::HostAllocator {
  std::mutex mutex;
  std::map<const char*, size_t> blocks;
  c10::DataPtr allocate(size_t size) override;
  static void release(void* address);
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t size) const override { default_copy_data(to, from, size); }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};
PinnedMemory pinned_blocks;

c10::DataPtr PinnedMemory::allocate(size_t size) {
  void* address = size == 0 ? nullptr : aligned(size);
  std::lock_guard<std::mutex> held(mutex);
  if (address != nullptr) blocks[static_cast<char*>(address)] = size;
  return {address, address, &release, c10::Device(c10::DeviceType::CPU)};
}

void PinnedMemory::release(void* address) {
  std::lock_guard<std::mutex> held(pinned_blocks.mutex);
  pinned_blocks.blocks.erase(static_cast<char*>(address));
  std::free(address);
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return KIND; }
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
  // One stream for each device, which is always done: work is finished when its launch returns.
  c10::Stream getStream(c10::Device of) const override { return c10::Stream(c10::Stream::DEFAULT, of); }
  c10::Stream getDefaultStream(c10::Device of) const override { return getStream(of); }
  c10::Stream getStreamFromGlobalPool(c10::Device of, bool) const override { return getStream(of); }
  c10::Stream getNewStream(c10::Device of, int) const override { return getStream(of); }
  c10::Stream exchangeStream(c10::Stream given) const override { return given; }
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override { ledger.wait("asked for", "synchronize stream"); }
  void synchronizeEvent(void*) const override { ledger.wait("asked for", "synchronize event"); }
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
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return std::exchange(current, index < 0 ? current : index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    static std::array<at::Generator, MOST> all = [] {
      std::array<at::Generator, MOST> made;
      for (int i = 0; i < MOST; i++) made[i] = new_generator(i);
      return made;
    }();
    return all.at(index < 0 ? current : index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override { return new_generator(index); }
  at::Device getDeviceFromPtr(void* address) const override { return {KIND, device_blocks.blocks.at(address).second}; }
  bool isPinnedPtr(const void* address) const override { return is_pinned(address); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_blocks; }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const override {
    at::native::resize_bytes_cpu(storage.unsafeGetStorageImpl(), size);
  }
};
Hooks hooks;

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

c10::Allocator* device_memory() { return &device_blocks; }

bool is_pinned(const void* address) {
  std::lock_guard<std::mutex> held(pinned_blocks.mutex);
  auto next = pinned_blocks.blocks.upper_bound(static_cast<const char*>(address));
  if (next == pinned_blocks.blocks.begin()) return false;
  --next;
  return static_cast<const char*>(address) < next->first + next->second;
}

at::Generator host_twin(const at::Generator& own) {
  TORCH_CHECK(own.device().type() == KIND, "Expected a generator of the emulated device, found one of ", own.device());
  return static_cast<Generator*>(own.unsafeGetGeneratorImpl())->twin;
}
at::Generator default_generator(c10::DeviceIndex index) { return hooks.getDefaultGenerator(index); }

REGISTER_ALLOCATOR(KIND, &device_blocks)
REGISTER_HOST_ALLOCATOR(KIND, &pinned_blocks)

}  // namespace emulated

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  using namespace emulated;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  m.def("set_devices", [](int count) { devices = std::min(count, MOST); });
  m.def("set_capacity", [](size_t bytes) { capacity = bytes; });
  m.def("default_generator", &default_generator);
  m.def("start", [](py::function told) {
    {
      std::lock_guard<std::mutex> held(ledger.mutex);
      ledger.launches.clear();
      ledger.waits.clear();
    }
    auto kept = std::shared_ptr<py::function>(new py::function(std::move(told)), [](py::function* f) {
      py::gil_scoped_acquire gil;
      delete f;
    });
    ledger.on_wait = [kept](const std::string& kind, const std::string& what) {
      py::gil_scoped_acquire gil;
      (*kept)(kind, what);
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
