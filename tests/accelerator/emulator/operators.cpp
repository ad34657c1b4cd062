// The operators that a device must bring itself: memory, views, copies, convolutions, sparse gradients, autocast.
#include "ledger.h"

#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/native/Resize.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <torch/library.h>

namespace emulated {
namespace {

using at::IntArrayRef, at::Tensor, c10::SymIntArrayRef;
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
Tensor view(const Tensor& self, SymIntArrayRef size) { return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size)); }
Tensor reshape_alias(const Tensor& self, SymIntArrayRef size, SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}
const Tensor& resize_(const Tensor& self, SymIntArrayRef size, std::optional<at::MemoryFormat> format) {
  c10::DeviceGuard guard(self.device());
  return at::native::resize_(self, C10_AS_INTARRAYREF_SLOW(size), format);
}
Tensor& set_stretch(Tensor& self, at::Storage source, int64_t offset, IntArrayRef size, IntArrayRef stride) {
  return at::cpu::set_(self, source, offset, size, stride);
}
Tensor& set_storage(Tensor& self, at::Storage source) { return at::native::set_(self, source); }

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
Tensor copy_and_resize(const Tensor& self, const Tensor& to) {
  Nested mine;
  to.resize_(self.sizes());
  host_view(to).copy_(host_view(self));
  return to;
}
at::Scalar read_scalar(const Tensor& self) {
  ledger.wait("value", "item");
  Nested mine;
  return host_view(self).item();
}

Tensor convolution(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, IntArrayRef stride, IntArrayRef padding,
                   IntArrayRef dilation, bool transposed, IntArrayRef output_padding, int64_t groups) {
  ledger.launch("convolution");
  Nested mine;
  std::optional<Tensor> shift;
  if (bias.has_value()) shift = host_view(*bias);
  return to_device(at::convolution(host_view(x), host_view(weight), shift, stride, padding, dilation, transposed, output_padding, groups),
                   x.device());
}
std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& gradient, const Tensor& x, const Tensor& weight, IntArrayRef stride,
                                                        IntArrayRef padding, IntArrayRef dilation, bool transposed,
                                                        IntArrayRef output_padding, int64_t groups, std::array<bool, 3> wanted) {
  ledger.launch("convolution_backward");
  Nested mine;
  std::vector<int64_t> bias{gradient.size(1)};
  auto [a, b, c] = at::convolution_backward(host_view(gradient), host_view(x), host_view(weight), bias, stride, padding, dilation,
                                            transposed, output_padding, groups, wanted);
  return {to_device(a, x.device()), to_device(b, x.device()), to_device(c, x.device())};
}

Tensor coalesce(const Tensor& self) {
  ledger.launch("_coalesce");
  ledger.wait("shape of a result", "_coalesce");
  Nested mine;
  Tensor sum = at::_sparse_coo_tensor_unsafe(host_view(self._indices()), host_view(self._values()), self.sizes()).coalesce();
  Tensor indices = to_device(sum._indices(), self.device()), values = to_device(sum._values(), self.device());
  return at::_sparse_coo_tensor_unsafe(indices, values, self.sizes())._coalesced_(true);
}

}  // namespace
}  // namespace emulated

using namespace emulated;
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::cpu::as_strided_symint);
  m.impl("view", view);
  m.impl("unfold", at::native::unfold);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("resize_", resize_);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("set_.source_Storage", set_storage);
  m.impl("set_.source_Storage_storage_offset", set_stretch);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_and_resize);
  m.impl("_local_scalar_dense", read_scalar);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}
TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {  // enough for the gradient of sampled classes
  m.impl("_sparse_coo_tensor_with_dims_and_tensors", at::native::new_with_dims_and_tensor_sparse_symint);
  m.impl("_indices", at::native::_indices_sparse);
  m.impl("_values", at::native::_values_sparse);
  m.impl("indices", at::native::indices_sparse);
  m.impl("values", at::native::values_sparse);
  m.impl("_nnz", at::native::_nnz_sparse);
  m.impl("sparse_dim", at::native::sparse_dim_sparse);
  m.impl("dense_dim", at::native::dense_dim_sparse);
  m.impl("is_coalesced", at::native::is_coalesced_sparse);
  m.impl("_coalesced_", at::native::_coalesced_sparse_);
  m.impl("_coalesce", coalesce);
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
