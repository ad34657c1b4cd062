// The operators that a device must bring itself: memory, views, copies, convolutions, autocast.
#include "ledger.h"

#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace emulated {
namespace {

using at::IntArrayRef, at::Tensor, torch::jit::Stack;
constexpr c10::DispatchKeySet KEYS(c10::DispatchKey::PrivateUse1);

Tensor empty(IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>, std::optional<at::Device> where,
             std::optional<bool>, std::optional<at::MemoryFormat> format) {
  c10::DeviceGuard guard(c10::device_or_default(where));
  return at::detail::empty_generic(size, device_memory(), KEYS, c10::dtype_or_default(type), format);
}
Tensor empty_strided(IntArrayRef size, IntArrayRef stride, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                     std::optional<at::Device> where, std::optional<bool>) {
  c10::DeviceGuard guard(c10::device_or_default(where));
  return at::detail::empty_strided_generic(size, stride, device_memory(), KEYS, c10::dtype_or_default(type));
}

// Sizes, strides and storage alone: the host's kernel does it to the device's own tensor.
template <c10::DispatchKey HOST>
void run_as_host(const c10::OperatorHandle& op, Stack* stack) {
  const at::IValue& first = (*stack)[stack->size() - op.schema().arguments().size()];
  c10::DeviceGuard guard(first.isTensor() ? first.toTensor().device() : c10::Device(KIND, current));
  op.redispatchBoxed(c10::DispatchKeySet(HOST), stack);
}
// A device's convolution has another name and the arguments of the host's, but for the sizes of the bias on the way back.
void convolution(const c10::OperatorHandle&, Stack* stack) {
  run_on_host(c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution", ""), stack);
}
void convolution_backward(const c10::OperatorHandle& op, Stack* stack) {
  const auto gradient = stack->end() - op.schema().arguments().size();
  stack->insert(gradient + 3, std::vector<int64_t>{gradient->toTensor().size(1)});
  run_on_host(c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution_backward", ""), stack);
}

Tensor copy_from(const Tensor& self, const Tensor& to, bool non_blocking) {
  if (nested == 0) {
    count_traffic(self);
    count_traffic(to);
    ledger.launch("copy");
    const Tensor& host = self.is_cpu() ? self : to;
    bool flies = non_blocking && is_pinned(host.storage().data());
    if (host.is_cpu() && !flies) ledger.wait(self.is_cpu() ? "host to device" : "device to host", "copy_");
  }
  Nested mine;
  host_view(to).copy_(host_view(self));
  return to;
}
at::Scalar read_scalar(const Tensor& self) {
  ledger.wait("value", "item");
  Nested mine;
  return host_view(self).item();
}

}  // namespace
}  // namespace emulated

using namespace emulated;
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  for (const char* name : {"as_strided", "view", "unfold", "_reshape_alias", "resize_", "set_.source_Tensor", "set_.source_Storage",
                           "set_.source_Storage_storage_offset"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_as_host<c10::DispatchKey::CPU>>());
  m.impl("_copy_from", copy_from);
  m.impl("_local_scalar_dense", read_scalar);
  m.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  m.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
  for (const auto& op : c10::Dispatcher::singleton().getAllOpNames())  // one launch for a list of tensors
    if (op.name.rfind("aten::_foreach_", 0) == 0)
      m.impl(c10::toString(op).c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}
using at::Scalar, at::ScalarType;
#define LOW(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define WIDE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define WIDE_TYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {  // CUDA's lists
  AT_FORALL_LOWER_PRECISION_FP(LOW)
  AT_FORALL_FP32(WIDE)
  AT_FORALL_FP32_SET_OPT_DTYPE(WIDE_TYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(PROMOTE)
}
